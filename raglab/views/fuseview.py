"""Panels for fusion: what RRF's k and the convex weight do, and why a fused list lost a chunk.

Each function takes rankings, and callables that search and fuse; this module knows no fuser.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from markupsafe import Markup

from raglab.types import Part, Ranking
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, bars, curves, side, slopes

Lists = Mapping[str, Ranking]  # name of a list -> its hits
SHOWN = 10  # ranks that a picture shows
USUAL = 60  # RRF's usual k, which the slider's is compared with
STEPS = tuple(step / 20 for step in range(21))  # weights at which a curve is drawn
TOLD = 4  # flips that are told in words; the table holds them all


class Flipped(Protocol):
    """At k, `above` has just passed `below`."""

    @property
    def k(self) -> int: ...
    @property
    def above(self) -> str: ...
    @property
    def below(self) -> str: ...


Flips = Callable[[Lists, Collection[str]], Sequence[Flipped]]
Marked = Callable[[str], Collection[str]]  # query -> the chunks to star


# -- k --------------------------------------------------------------------------------------------


def k_panel(
    search: Callable[[str], Lists],
    fuse: Callable[[Lists, int], Ranking],
    flips: Flips,
    query: str,
    evidence: Marked = lambda query: (),
) -> Panel:
    """RRF with a slider for k. `fuse(lists, k)` fuses, `flips(lists, chunk_ids)` says where pairs
    change places as k grows."""

    def draw(query: str, k: int) -> Drawing:
        lists = search(query)
        usual, now = fuse(lists, USUAL), fuse(lists, k)
        top = set(_ids(usual[:SHOWN]) + _ids(now[:SHOWN]))
        return k_drawing(usual, now, k, flips(lists, top), sorted(lists), evidence(query))

    knobs = (
        Knob("query", "Query", query),
        Knob("k", "RRF's k", USUAL, 1, 200, help="Small: believe each list's first ranks."),
    )
    return Panel("What k does", draw, knobs)


def k_drawing(
    usual: Ranking,
    now: Ranking,
    k: int,
    flips: Sequence[Flipped],
    names: Sequence[str],
    evidence: Collection[str] = (),
) -> Drawing:
    """The fused top at k with its parts, the order at k = 60 beside it, and each pair's flip."""
    if not now:
        return NOTHING_FOUND
    between = [flip for flip in flips if min(k, USUAL) < flip.k <= max(k, USUAL)]
    before, after = _ids(usual[:SHOWN]), _ids(now[:SHOWN])
    picture = side(
        stacked(now, names, evidence, f"the first {len(after)} at k = {k}, a part for each list"),
        Markup("<p>Order at k = {}, and at k = {}</p>{}").format(
            USUAL, k, slopes(before, after, [one for one in before + after if one in evidence])
        ),
    )
    starred_first = sorted(between, key=lambda flip: not {flip.above, flip.below} & set(evidence))
    told = [f"{flip.above} and {flip.below} at k={flip.k}" for flip in starred_first[:TOLD]]
    more = f"; and {len(between) - TOLD} more" if len(between) > TOLD else ""
    if k == USUAL:
        change = f"This is the usual k; {len(flips)} flips lie between 1 and 200."
    elif told:
        change = f"Between k={USUAL} and k={k} these change places: {'; '.join(told)}{more}."
    else:
        change = f"The order is the same as at k={USUAL}."
    words = f"At k={k} the first is {after[0]}. {change}"
    return Drawing(picture + _flip_table(flips, between), _said(words, now, evidence))


def _flip_table(flips: Sequence[Flipped], between: Sequence[Flipped]) -> Markup:
    if not flips:
        return Markup("<p>No two of these chunks change places between k = 1 and k = 200.</p>")
    rows = Markup("").join(
        Markup(
            '<tr><th scope="row">{}</th><td data-key="{}">{}</td><td data-key="{}">{}</td>'
            "<td>{}</td></tr>"
        ).format(
            flip.k, flip.above, flip.above, flip.below, flip.below, "yes" if flip in between else ""
        )
        for flip in flips
    )
    return Markup(
        "<details><summary>All {} flips as k grows from 1 to 200</summary><table><thead><tr>"
        '<th scope="col">k</th><th scope="col">rises above</th><th scope="col">falls below</th>'
        '<th scope="col">seen in the picture</th></tr></thead><tbody>{}</tbody></table></details>'
    ).format(len(flips), rows)


# -- alpha ----------------------------------------------------------------------------------------


def alpha_panel(
    search: Callable[[str], Lists],
    fuse: Callable[[Lists, float], Ranking],
    query: str,
    evidence: Marked = lambda query: (),
    *,
    alpha: float = 0.5,
    lane: str = "dense",
) -> Panel:
    """The convex combination with a slider for the weight; `fuse(lists, alpha)` fuses."""

    def draw(query: str, alpha: float) -> Drawing:
        lists = search(query)
        curve = {step: fuse(lists, step) for step in STEPS}
        return alpha_drawing(fuse(lists, alpha), alpha, curve, sorted(lists), evidence(query))

    knobs = (
        Knob("query", "Query", query),
        Knob("alpha", f"Weight of {lane}", alpha, 0.0, 1.0, 0.05, help="The rest is 1 minus it."),
    )
    return Panel("What the weight does", draw, knobs)


def alpha_drawing(
    now: Ranking,
    alpha: float,
    curve: Mapping[float, Ranking],
    names: Sequence[str],
    evidence: Collection[str] = (),
) -> Drawing:
    """The fused top at alpha, and the score of its first five and of the evidence at each weight.

    curve: weight -> the ranking there.  A fused score is linear in the weight, so each chunk is a
    straight line, and the order flips where two lines cross.
    """
    if not now:
        return NOTHING_FOUND
    lines = [hit.chunk.chunk_id for hit in now if hit.rank <= 5 or hit.chunk.chunk_id in evidence]
    series = {
        _starred(chunk_id, evidence): [
            (weight, hit.score)
            for weight, hits in sorted(curve.items())
            for hit in hits
            if hit.chunk.chunk_id == chunk_id
        ]
        for chunk_id in lines
    }
    marks = [
        Mark(alpha, hit.score, f"rank {hit.rank}") for hit in now if hit.chunk.chunk_id in evidence
    ] or [Mark(alpha, now[0].score, "rank 1")]
    picture = side(
        stacked(now, names, evidence, f"the first {len(now[:SHOWN])} at alpha = {alpha:.2f}"),
        curves(series, "alpha", "fused score", marks=marks),
    )
    words = _said(f"At alpha={alpha:.2f} the first is {now[0].chunk.chunk_id}.", now, evidence)
    best = [_best(chunk_id, curve) for chunk_id in sorted(evidence)]
    return Drawing(picture, " ".join([words, *filter(None, best)]))


def _best(chunk_id: str, curve: Mapping[float, Ranking]) -> str:
    """Where on the curve the chunk stands best."""
    ranks = {weight: rank_of(chunk_id, hits) for weight, hits in sorted(curve.items())}
    held = {weight: rank for weight, rank in ranks.items() if rank is not None}
    if not held:
        return ""
    best = min(held.values())
    weights = [weight for weight, rank in held.items() if rank == best]
    return (
        f"{chunk_id} reaches rank {best} at best, at {len(weights)} of {len(held)} weights, "
        f"the first of them {weights[0]:.2f}."
    )


# -- why a fused list lost a chunk ----------------------------------------------------------------


def why_lost(lists: Lists, fused: Ranking, evidence: Collection[str], k: int = 5) -> list[str]:
    """A sentence for each chunk of the evidence that some list has among its first k and the fused
    list has not: where each list had it, and who passed it."""
    lost = sorted(
        chunk_id
        for chunk_id in evidence
        if any(chunk_id in _ids(hits[:k]) for hits in lists.values())
        and chunk_id not in _ids(fused[:k])
    )
    return [f"{chunk_id}: {_why(chunk_id, lists, fused)}" for chunk_id in lost]


def _why(chunk_id: str, lists: Lists, fused: Ranking) -> str:
    places = {name: rank_of(chunk_id, hits) for name, hits in lists.items()}
    held = {name: rank for name, rank in places.items() if rank is not None}
    better = min(held, key=lambda name: (held[name], name))
    had = " and ".join(f"{name} had it at {rank}" for name, rank in held.items())
    had = f"only {had}" if len(held) == 1 else had
    now = rank_of(chunk_id, fused) or len(fused) + 1
    ahead = set(_ids(lists[better][: held[better] - 1]))
    passed = [one for one in _ids(fused[: now - 1]) if one not in ahead]
    in_all = sum(all(one in _ids(hits) for hits in lists.values()) for one in passed)
    count = "1 chunk" if len(passed) == 1 else f"{len(passed)} chunks"
    whole = "both" if len(lists) == 2 else "all"
    return f"{had}; fused it is at {now}, passed by {count}, {in_all} of them in {whole} lists"


# -- shared ---------------------------------------------------------------------------------------

NOTHING_FOUND = Drawing(Markup("<p>No hit.</p>"), "Nothing was found, so there is nothing to fuse.")


def stacked(
    hits: Ranking, names: Sequence[str], evidence: Collection[str] = (), caption: str = ""
) -> Markup:
    """A bar for each of the first hits, stacked from what each list adds.

    A list that lacks the chunk is a part of 0: so that a list keeps its colour in every picture.
    """
    rows = [
        (
            f"{hit.rank}. {_starred(hit.chunk.chunk_id, evidence)}",
            [Part(name, sum(p.value for p in hit.parts if p.name == name)) for name in names],
        )
        for hit in hits[:SHOWN]
    ]
    return bars(rows, keys=_ids(hits[:SHOWN]), caption=caption)


def rank_of(chunk_id: str, hits: Ranking) -> int | None:
    """Where the chunk stands, from 1, or None where it does not."""
    return next((hit.rank for hit in hits if hit.chunk.chunk_id == chunk_id), None)


def _said(words: str, hits: Ranking, evidence: Collection[str]) -> str:
    places = [(chunk_id, rank_of(chunk_id, hits)) for chunk_id in sorted(evidence)]
    told = [
        f"★ {chunk_id} is at rank {rank}." if rank else f"★ {chunk_id} is in no list."
        for chunk_id, rank in places
    ]
    return " ".join([words, *told])


def _starred(chunk_id: str, evidence: Collection[str]) -> str:
    return f"★ {chunk_id}" if chunk_id in evidence else chunk_id


def _ids(hits: Ranking) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]
