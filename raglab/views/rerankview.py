"""Panels for the second look: which token matched which, what a blend moved, and what repeats.

Each function takes what it draws as values and callables, so this module knows no reranker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from raglab.types import Part, RagLabError, Ranking
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import bars, heat, slopes

SHOWN = 12  # ranks that a picture of an order shows
NEAR, ALL = "near the matches", "all"


class Matched(Protocol):
    """The cosine of each query token to each chunk token, and what the tokens say."""

    @property
    def query(self) -> tuple[str, ...]: ...
    @property
    def chunk(self) -> tuple[str, ...]: ...
    @property
    def cosines(self) -> NDArray[np.floating]: ...  # [query tokens, chunk tokens]


class Blend(Protocol):
    """A reranker with its settings as arguments."""

    def __call__(
        self, query: str, hits: Ranking, *, first: float, late: float, depth: int
    ) -> Ranking: ...


# -- tokens ---------------------------------------------------------------------------------------


def token_panel(
    matches: Callable[[str, str], Matched], query: str, chunk_ids: Sequence[str]
) -> Panel:
    """Late interaction, token by token; `matches(query, chunk_id)` gives the cosines."""
    return Panel(
        "Which token matched which",
        lambda query, chunk, columns: token_drawing(matches(query, chunk), columns == ALL),
        (
            Knob("query", "Query", query),
            Knob("chunk", "Chunk", chunk_ids[0], choices=tuple(chunk_ids)),
            Knob("columns", "Chunk tokens", NEAR, choices=(NEAR, ALL)),
        ),
    )


def token_drawing(matched: Matched, every_column: bool = True) -> Drawing:
    """The heat map, and below it each row's best match; these add up to MaxSim."""
    cosines = np.asarray(matched.cosines, float)
    if not cosines.size:
        return Drawing(Markup("<p>Nothing to match.</p>"), "The query or the chunk has no token.")
    best = [int(column) for column in cosines.argmax(axis=1)]
    kept = _columns(best, cosines.shape[1], every_column)
    picture = heat(
        matched.query,
        [matched.chunk[column] for column in kept],
        cosines[:, kept].tolist(),
        pointed=[kept.index(column) for column in best],
        caption="cosine of each query token (rows) to the chunk's tokens (columns)",
    )
    maxima = cosines.max(axis=1)
    found = [
        (piece, matched.chunk[column], float(value), kept.index(column))
        for piece, column, value in zip(matched.query, best, maxima, strict=True)
    ]
    strongest, weakest = (choose(found, key=lambda row: row[2]) for choose in (max, min))
    words = (
        f"The best matches of {len(found)} query tokens add up to {maxima.sum():.3f}. "
        f"Strongest: {strongest[0]} to {strongest[1]}, {strongest[2]:.3f}. "
        f"Weakest: {weakest[0]} to {weakest[1]}, {weakest[2]:.3f}."
    )
    return Drawing(picture + _sum(found, float(maxima.sum())), words)


def _columns(best: Sequence[int], count: int, every: bool) -> list[int]:
    """All columns, or those that a row chose and the neighbours that help to read them."""
    if every:
        return list(range(count))
    near = {column + step for column in best for step in (-1, 0, 1)}
    return sorted(column for column in near if 0 <= column < count)


def _sum(found: Sequence[tuple[str, str, float, int]], total: float) -> Markup:
    rows = Markup("").join(
        Markup(
            '<tr data-key="column {}"><th scope="row">{}</th><td>{}</td><td>{:.3f}</td></tr>'
        ).format(column, piece, match, value)
        for piece, match, value, column in found
    )
    return Markup(
        "<table><caption>the largest of each row</caption><thead><tr><td></td>"
        '<th scope="col">matched</th><th scope="col">cosine</th></tr></thead><tbody>{}</tbody>'
        '<tfoot><tr><th scope="row">MaxSim</th><td></td><td><b>{:.3f}</b></td></tr></tfoot></table>'
    ).format(rows, total)


# -- before and after -----------------------------------------------------------------------------


def blend_panel(
    search: Callable[[str], Ranking],
    rerank: Blend,
    query: str,
    evidence: Callable[[str], Collection[str]] = lambda query: (),
    *,
    depth: int = 50,
) -> Panel:
    """A query's order before and after the rerank. `evidence(query)` names the chunks to star."""

    def draw(query: str, first: float, late: float, depth: int) -> Drawing:
        before = search(query)
        after = rerank(query, before, first=first, late=late, depth=depth)
        return moves_drawing(before, after, evidence(query))

    return Panel(
        "Before and after the rerank",
        draw,
        (
            Knob("query", "Query", query),
            Knob("first", "Weight of the first stage", 1.0, 0.0, 2.0, 0.1),
            Knob("late", "Weight of late interaction", 1.0, 0.0, 2.0, 0.1),
            Knob("depth", "Candidates reranked", depth, 5, 100, 5, help="The rest are cut."),
        ),
    )


def moves_drawing(before: Ranking, after: Ranking, evidence: Collection[str] = ()) -> Drawing:
    """The first ranks of both orders; in words how many moved, and where the evidence went."""
    old, new = _ids(before), _ids(after)
    if not old:
        return Drawing(Markup("<p>No hit.</p>"), "Nothing was found, so nothing was reranked.")
    picture = slopes(old[:SHOWN], new[:SHOWN], [one for one in old + new if one in evidence])
    shown = min(SHOWN, len(old))
    moved = sum(was != now for was, now in zip(old[:SHOWN], new[:SHOWN], strict=False))
    cut = f" {len(old) - len(new)} were cut." if len(old) > len(new) else ""
    told = [_fate(chunk_id, old, new) for chunk_id in sorted(evidence)]
    words = f"{moved} of the first {shown} ranks hold another chunk than before.{cut}"
    return Drawing(picture, " ".join([words, *told]))


def _fate(chunk_id: str, old: Sequence[str], new: Sequence[str]) -> str:
    if chunk_id not in old:
        return f"★ {chunk_id} was not among the candidates."
    was = old.index(chunk_id) + 1
    if chunk_id not in new:
        return f"★ {chunk_id}, rank {was} before, was cut."
    now = new.index(chunk_id) + 1
    if now == was:
        return f"★ {chunk_id} stays at rank {was}."
    return f"★ {chunk_id} {'rose' if now < was else 'fell'} from rank {was} to {now}."


# -- learned weights ------------------------------------------------------------------------------


def weights_panel(
    weights: Mapping[str, float], rerank: Callable[[str], Ranking], query: str
) -> Panel:
    """What was learned, and what it makes of one hit: each part is a weight times a signal."""

    def draw(query: str, rank: int) -> Drawing:
        hits = rerank(query)
        if rank > len(hits):
            raise RagLabError(f"there are {len(hits)} hits: choose a rank among them")
        hit = hits[rank - 1]
        picture = weights_drawing(weights).html + bars(
            [(part.name, (Part("weight × signal", part.value),)) for part in hit.parts],
            caption=f"rank {hit.rank}: {hit.chunk.chunk_id}",
        )
        gives, takes = (choose(hit.parts, key=lambda part: part.value) for choose in (max, min))
        words = (
            f"Rank {hit.rank}, {hit.chunk.chunk_id}, scores {hit.score:.3f}. It gains most by "
            f"{gives.name} ({gives.value:+.3f}), and least by {takes.name} ({takes.value:+.3f})."
        )
        return Drawing(picture, words)

    knobs = (Knob("query", "Query", query), Knob("rank", "Hit at rank", 1, 1, 20))
    return Panel("Learned weights", draw, knobs)


def weights_drawing(weights: Mapping[str, float]) -> Drawing:
    """A bar for each signal, the heaviest first."""
    heaviest = sorted(weights.items(), key=lambda item: (-abs(item[1]), item[0]))
    if not heaviest:
        return Drawing(Markup("<p>No weight.</p>"), "Nothing was learned.")
    rows = [(name, (Part("weight", value),)) for name, value in heaviest]
    name, value = heaviest[0]
    words = f"{len(rows)} signals; the heaviest is {name} with {value:+.3f}."
    return Drawing(bars(rows, caption="weights learned"), words)


# -- variety --------------------------------------------------------------------------------------


def variety_panel(
    hits: Ranking,
    diversify: Callable[[Ranking, float], Ranking],
    likeness: Callable[[Sequence[str]], NDArray[np.floating]],
    evidence: Collection[str] = (),
    *,
    trade: float = 0.7,
) -> Panel:
    """The order at each trade, and how alike the chosen are.

    `diversify(hits, trade)` orders; `likeness(chunk_ids)` gives their pairwise cosines, [n, n].
    """

    def draw(trade: float, k: int) -> Drawing:
        after = diversify(hits, trade)[:k]
        return variety_drawing(hits[:k], after, likeness, evidence)

    knobs = (
        Knob("trade", "Trade (1: relevance alone)", trade, 0.05, 1.0, 0.05),
        Knob("k", "Hits shown", 6, 2, 12),
    )
    return Panel("Relevance against variety", draw, knobs)


def variety_drawing(
    before: Ranking,
    after: Ranking,
    likeness: Callable[[Sequence[str]], NDArray[np.floating]],
    evidence: Collection[str] = (),
) -> Drawing:
    """Both orders, and the cosines among the chosen; in words the most alike pair."""
    old, new = _ids(before), _ids(after)
    if len(new) < 2:
        return Drawing(Markup("<p>Fewer than two hits.</p>"), "There is no pair to compare.")
    cosines = np.asarray(likeness(new), float)
    picture = slopes(old, new, evidence) + heat(
        [f"{rank}. {name}" for rank, name in enumerate(new, start=1)],
        [str(rank) for rank in range(1, len(new) + 1)],
        cosines.tolist(),
        caption="cosine of each pair",
    )
    a, b = max(zip(*np.triu_indices(len(new), 1), strict=True), key=lambda pair: cosines[pair])
    joined = [name for name in new if name not in old]
    entered = f" In came {', '.join(joined)}." if joined else ""
    words = (
        f"Mean likeness {_mean_of_pairs(cosines):.3f}, by relevance alone "
        f"{_mean_of_pairs(np.asarray(likeness(old), float)):.3f}. Most alike: {new[a]} and "
        f"{new[b]}, {cosines[a, b]:.3f}.{entered}"
    )
    return Drawing(picture, words)


def _mean_of_pairs(cosines: NDArray[np.float64]) -> float:
    return float(cosines[np.triu_indices(len(cosines), 1)].mean())


def _ids(hits: Ranking) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]
