"""Panels for dense retrieval: a map of the vectors, and what an index's effort buys.

A map shows two directions of many: those in which the vectors spread most (principal components;
Hotelling 1933).  Two points that lie together on paper may lie apart in the directions left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from raglab.types import Chunk, RagLabError, Ranking, Vectors
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, Point, curves, scatter, side

QUERY = "the query"
OTHER = "other"
KINDS = 4  # that have a shape of their own
EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors to two coordinates: fitted once, and the same for whatever comes later."""

    mean: NDArray[np.float64]  # [d]
    axes: NDArray[np.float64]  # [2, d]
    kept: float  # share of the squared distances to the mean that the two axes keep

    @classmethod
    def fit(cls, vectors: Vectors) -> Projection:
        """The two directions of most spread. Each is turned so that its largest entry is above 0,
        since a direction and its opposite serve as well and a map should not flip."""
        if len(vectors) < 3:
            raise RagLabError(f"{len(vectors)} vectors make no map: give at least 3")
        mean = vectors.astype(float).mean(axis=0)
        _, spread, directions = np.linalg.svd(vectors - mean, full_matrices=False)
        axes = directions[:2]
        largest = axes[np.arange(2), np.abs(axes).argmax(axis=1)]
        squares = spread**2
        return cls(mean, axes * np.sign(largest)[:, None], float(squares[:2].sum() / squares.sum()))

    def __call__(self, vectors: Vectors) -> NDArray[np.float64]:
        """[n, d] -> [n, 2]."""
        return (vectors - self.mean) @ self.axes.T


def map_panel(
    search: Callable[[str, int], Ranking],
    encode: Callable[[str], Vectors],
    chunks: Sequence[Chunk],
    vectors: Vectors,
    *,
    kind: Callable[[Chunk], str] = lambda chunk: chunk.source,
    query: str = "How do I get a refund?",
    k: int = 5,
) -> Panel:
    """Chunks on a map, a query among them, and its first k beside it.

    `search` ranks these chunks, whose rows are `vectors`; `encode` gives a query's vector.  Give
    only chunks that the reader may see: the map names each of them.
    """
    projection = Projection.fit(vectors)
    places = projection(vectors)
    kinds = _common([kind(chunk) for chunk in chunks])

    def draw(query: str, k: int) -> Drawing:
        place = projection(encode(query)[None, :])[0]
        away = np.linalg.norm(places - place, axis=1)
        nearer = {c.chunk_id: int((away < d).sum()) + 1 for c, d in zip(chunks, away, strict=True)}
        hits = search(query, k)
        ranks = {hit.chunk.chunk_id: hit.rank for hit in hits}
        points = [
            Point(c.chunk_id, x, y, str(ranks.get(c.chunk_id, c.title)), name, c.chunk_id in ranks)
            for c, (x, y), name in sorted(
                zip(chunks, places.tolist(), kinds, strict=True), key=lambda row: row[2] == OTHER
            )
        ]
        if hits:
            points.append(Point(QUERY, float(place[0]), float(place[1]), "query", QUERY, True))
        note = (
            f"Two directions of {vectors.shape[1]}, which keep {100 * projection.kept:.0f}% of the "
            "vectors' spread. Distance on paper is not the score."
        )
        return Drawing(side(scatter(points, note=note), _ranked(hits, nearer)), _told(hits, nearer))

    return Panel(
        "A map of the vectors",
        draw,
        (
            Knob("query", "Query", query),
            Knob("k", "Chunks marked", k, 1, 10),
        ),
    )


def effort_panel(trial: Callable[[str, int], tuple[float, float]], n: int, *, k: int = 10) -> Panel:
    """What efSearch and nprobe buy: `trial(kind, effort)` gives (vectors compared, recall@k)."""
    lines = {
        "HNSW, efSearch": [trial("hnsw", effort) for effort in EFFORTS],
        "IVF, nprobe": [trial("ivf", effort) for effort in EFFORTS if effort <= 64],
    }

    def draw(ef_search: int, nprobe: int) -> Drawing:
        now = {
            f"efSearch {ef_search}": trial("hnsw", ef_search),
            f"nprobe {nprobe}": trial("ivf", nprobe),
        }
        labels = ("HNSW", "IVF", "exact")
        marks = [
            Mark(*at, label) for label, at in zip(labels, (*now.values(), (n, 1.0)), strict=True)
        ]
        picture = curves(
            lines, "vectors compared a query", f"recall@{k} against exact", marks=marks, log_x=True
        )
        return Drawing(picture + _costs(now, n, k), _bought(now, n, k))

    return Panel(
        "What effort buys",
        draw,
        (
            Knob("ef_search", "HNSW: efSearch", 32, 1, 256, help="candidates kept on the walk"),
            Knob("nprobe", "IVF: nprobe", 8, 1, 64, help="cells that are read"),
        ),
    )


def growth_panel(costs: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Panel:
    """How a query's cost grows: cost -> search -> (vectors, cost) pairs, in order of size."""

    def draw(cost: str) -> Drawing:
        grown = {name: pairs[-1][1] / pairs[0][1] for name, pairs in costs[cost].items()}
        first = next(iter(costs[cost].values()))
        told = ", ".join(f"{name} {times:.1f} times" for name, times in grown.items())
        picture = curves(costs[cost], "vectors", cost, log_x=True, log_y=True)
        return Drawing(
            picture,
            f"With {first[-1][0] / first[0][0]:.0f} times the vectors, {cost} grow: {told}.",
        )

    knob = Knob("cost", "Cost of a query", next(iter(costs)), choices=tuple(costs))
    return Panel("Growth with the number of vectors", draw, (knob,))


def _common(kinds: Sequence[str]) -> list[str]:
    """The most frequent kinds by name, the rest as one: more shapes would not be told apart."""
    frequent = sorted(Counter(kinds).items(), key=lambda pair: (-pair[1], pair[0]))[:KINDS]
    named = {name for name, _ in frequent}
    return [name if name in named else OTHER for name in kinds]


def _ranked(hits: Ranking, nearer: Mapping[str, int]) -> Markup:
    rows = Markup("").join(
        Markup(
            '<tr data-key="{}" tabindex="0"><td>{}</td><td><bdi>{}</bdi></td><td>{:.3f}</td>'
            "<td>{}</td></tr>"
        ).format(
            hit.chunk.chunk_id,
            hit.rank,
            hit.chunk.title or hit.chunk.chunk_id,
            hit.score,
            nearer[hit.chunk.chunk_id],
        )
        for hit in hits
    )
    return Markup(
        "<table><caption>Nearest by cosine, and how near on paper</caption>"
        '<thead style="white-space:nowrap"><tr>'
        '<th scope="col">rank</th><th scope="col">document</th><th scope="col">cosine</th>'
        '<th scope="col">on paper</th></tr></thead><tbody>{}</tbody></table>'
    ).format(rows)


def _told(hits: Ranking, nearer: Mapping[str, int]) -> str:
    if not hits:
        return "Nothing is asked for: type a query."
    best = hits[0]
    return (
        f"The nearest of {len(nearer)} chunks is from {best.chunk.title or best.chunk.chunk_id!r}, "
        f"cosine {best.score:.3f}. On paper it is number {nearer[best.chunk.chunk_id]} from the "
        "query."
    )


def _costs(now: Mapping[str, tuple[float, float]], n: int, k: int) -> Markup:
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td>{:.0f}</td><td>{:.1f}%</td><td>{:.3f}</td></tr>").format(
            name, compared, 100 * compared / n, recall
        )
        for name, (compared, recall) in {**now, "exact": (float(n), 1.0)}.items()
    )
    return Markup(
        '<table><thead><tr><th scope="col">search</th><th scope="col">compared</th>'
        '<th scope="col">of all vectors</th><th scope="col">recall@{}</th></tr></thead>'
        "<tbody>{}</tbody></table>"
    ).format(k, rows)


def _bought(now: Mapping[str, tuple[float, float]], n: int, k: int) -> str:
    told = (
        f"{name} compares {compared:.0f} of {n} vectors and finds {recall:.3f} of the exact {k}"
        for name, (compared, recall) in now.items()
    )
    return "; ".join(told) + "."
