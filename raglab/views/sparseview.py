"""Panels for sparse retrieval: what each factor of BM25 does, and what a score is the sum of.

Each function takes what it draws as values and callables, so this module knows no retriever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from raglab.types import Allowed, Chunk, Query, Ranking
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, bars, curves

SHOWN = 8  # chunks in a ranking, and in a posting list
TIMES = np.arange(0, 21)  # how often a term stands in a chunk
LENGTHS = np.linspace(0.1, 4, 40)  # of a chunk, relative to the mean
SHORT, AVERAGE, LONG = 0.5, 1.0, 2.0

Floats = NDArray[np.float64]
Weight = Callable[[Floats, Floats, float, float], Floats]  # of (tf, length, k1, b)


class Words(Protocol):
    """A tokenizer: pairs of a term and the word that it came from."""

    def terms(self, text: str) -> Iterable[tuple[str, str]]: ...


class Searcher(Protocol):
    """A retriever that adds up terms, and lets its index be read."""

    @property
    def chunks(self) -> Sequence[Chunk]: ...
    @property
    def tokenizer(self) -> Words: ...
    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking: ...
    def idf(self, term: str) -> float: ...
    def idf_by_frequency(self) -> Mapping[int, float]: ...
    def posted(self, term: str) -> Mapping[int, int]: ...


# -- the factors ----------------------------------------------------------------------------------


def idf_panel(searcher: Callable[[str], Searcher], variants: Sequence[str], query: str) -> Panel:
    """idf against document frequency, a curve for each variant; the query's terms are marked on
    the chosen one. `searcher(variant)` gives the retriever."""

    def draw(query: str, variant: str) -> Drawing:
        curves_by = {name: searcher(name).idf_by_frequency() for name in variants}
        return idf_drawing(searcher(variant), curves_by, variant, query)

    knobs = (
        Knob("query", "Query", query),
        Knob("variant", "Marked on", variants[0], choices=tuple(variants)),
    )
    return Panel("What a rare word weighs", draw, knobs)


def idf_drawing(
    searcher: Searcher, curves_by: Mapping[str, Mapping[int, float]], variant: str, query: str
) -> Drawing:
    """curves_by: variant -> {document frequency: idf}."""
    asked = dict.fromkeys(term for term, _ in searcher.tokenizer.terms(query))
    held = {term: len(searcher.posted(term)) for term in asked}
    by_n: dict[int, list[str]] = {}  # terms that share a point share its label
    for term, n in held.items():
        by_n.setdefault(n, []).append(term)
    lacking = by_n.pop(0, [])
    marks = [Mark(n, searcher.idf(terms[0]), ", ".join(terms)) for n, terms in by_n.items()]
    picture = curves(
        {name: list(curve.items()) for name, curve in curves_by.items()},
        f"chunks that hold the term, of {len(searcher.chunks)}",
        "idf",
        marks=marks,
        log_x=True,
    )
    if not marks:
        return Drawing(picture, "No chunk holds a term of this query.")
    words = " and ".join(
        f"{by_n[n][0]!r} stands in {_chunks(n)} and weighs {searcher.idf(by_n[n][0]):.2f}"
        for n in dict.fromkeys((min(by_n), max(by_n)))
    )
    lacks = f" No chunk holds {', '.join(map(repr, lacking))}." if lacking else ""
    return Drawing(picture, f"By {variant}, {words}.{lacks}")


def saturation_panel(weights: Mapping[str, Weight], k1: float = 1.5, b: float = 0.75) -> Panel:
    """The weight of a count against the count, in a short, an average and a long chunk."""
    return Panel(
        "What repeating a word adds",
        lambda variant, k1, b: saturation_drawing(weights[variant], k1, b),
        _knobs(tuple(weights), k1, b),
    )


def saturation_drawing(weight: Weight, k1: float, b: float) -> Drawing:
    """weight(tf, length, k1, b) over arrays; a tf of 0 weighs nothing, whatever the formula."""

    def curve(length: float) -> list[tuple[float, float]]:
        weights = weight(TIMES[1:].astype(float), np.full(len(TIMES) - 1, length), k1, b)
        return list(zip(TIMES.tolist(), [0.0, *weights.tolist()], strict=True))

    lengths = {"half as long": SHORT, "of average length": AVERAGE, "twice as long": LONG}
    series = {f"in a chunk {name}": curve(length) for name, length in lengths.items()}
    average = dict(series["in a chunk of average length"])
    picture = curves(series, "tf: how often the term stands in the chunk", "weight of the count")
    return Drawing(
        picture,
        f"At k1={k1:.2f} and b={b:.2f}, in a chunk of average length, the first occurrence adds "
        f"{average[1]:.2f}, the second {average[2] - average[1]:.2f}, "
        f"the tenth {average[10] - average[9]:.2f}.",
    )


def length_panel(weights: Mapping[str, Weight], k1: float = 1.5, b: float = 0.75) -> Panel:
    """The weight of a count against the chunk's length, for one, three and ten occurrences."""
    return Panel(
        "What a long chunk loses",
        lambda variant, k1, b: length_drawing(weights[variant], k1, b),
        _knobs(tuple(weights), k1, b),
    )


def length_drawing(weight: Weight, k1: float, b: float) -> Drawing:
    """weight(tf, length, k1, b) over arrays."""
    series = {
        f"the term stands there {name}": list(
            zip(
                LENGTHS.tolist(),
                weight(np.full(len(LENGTHS), times), LENGTHS, k1, b).tolist(),
                strict=True,
            )
        )
        for name, times in {"once": 1.0, "three times": 3.0, "ten times": 10.0}.items()
    }
    short, long = weight(np.ones(2), np.array([SHORT, LONG]), k1, b).tolist()
    lost = "the same" if short == long else f"{100 * (1 - long / short):.0f}% less"
    return Drawing(
        curves(series, "length of the chunk, 1 is average", "weight of the count"),
        f"At k1={k1:.2f} and b={b:.2f}, a term that stands once weighs {short:.2f} in a chunk half "
        f"as long as the average, and {long:.2f} in one twice as long: {lost}.",
    )


# -- the sum --------------------------------------------------------------------------------------


def bars_panel(
    searcher: Callable[[str, float, float], Searcher],
    variants: Sequence[str],
    query: str,
    k1: float = 1.5,
    b: float = 0.75,
    allowed: Allowed | None = None,
) -> Panel:
    """The first chunks as bars stacked from the query's words, and each word's posting list.

    `searcher(variant, k1, b)` gives the retriever; `allowed` says which chunks may be shown.
    """
    return Panel(
        "A score is a sum",
        lambda query, variant, k1, b: bars_drawing(searcher(variant, k1, b), query, allowed),
        (Knob("query", "Query", query), *_knobs(tuple(variants), k1, b)),
    )


def bars_drawing(searcher: Searcher, query: str, allowed: Allowed | None = None) -> Drawing:
    """The first chunks for the query, and behind each of its words the chunks that hold it."""
    hits = searcher.retrieve(Query("q", query), SHOWN, allowed)
    words = dict(reversed([*searcher.tokenizer.terms(query)]))  # term -> its first word
    lists = Markup("").join(
        _posting_list(searcher, term, word, allowed) for term, word in reversed(words.items())
    )
    if not hits:
        return Drawing(Markup("<p>No hit.</p>{}").format(lists), "No chunk holds these words.")
    rows = [(f"{hit.rank}. {hit.chunk.chunk_id}", hit.parts) for hit in hits]
    picture = bars(
        rows,
        keys=[hit.chunk.chunk_id for hit in hits],
        caption=f"the first {len(hits)}, a part for each word of the query",
    )
    first = hits[0]
    said = " + ".join(f"{part.name} {part.value:.2f}" for part in first.parts)
    return Drawing(picture + lists, f"First is {first.chunk.chunk_id}: {first.score:.2f} = {said}.")


def _posting_list(
    searcher: Searcher, term: str, word: str, allowed: Allowed | None = None
) -> Markup:
    posted = searcher.posted(term)  # the counts are of the corpus; only readable chunks are named
    chunks = ((searcher.chunks[row], times) for row, times in posted.items())
    shown = [(one, times) for one, times in chunks if allowed is None or allowed(one)][:SHOWN]
    rows = Markup("").join(
        Markup('<tr data-key="{0}"><th scope="row">{0}</th><td>{1}</td></tr>').format(
            one.chunk_id, times
        )
        for one, times in shown
    )
    more = f"{len(posted) - len(shown)} more" if len(posted) > len(shown) else ""
    return Markup(
        '<details data-key="part: {}"><summary>{}: the term {} stands in {} of {}, '
        'idf {:.2f}</summary><table><thead><tr><th scope="col">chunk</th><th scope="col">tf</th>'
        "</tr></thead><tbody>{}</tbody></table><p>{}</p></details>"
    ).format(
        word, word, term, len(posted), _chunks(len(searcher.chunks)), searcher.idf(term), rows, more
    )  # fmt: skip


def _chunks(n: int) -> str:
    return "1 chunk" if n == 1 else f"{n} chunks"


def _knobs(variants: tuple[str, ...], k1: float, b: float) -> tuple[Knob, Knob, Knob]:
    return (
        Knob("variant", "Variant", variants[0], choices=variants),
        Knob("k1", "k1", float(k1), 0.0, 4.0, 0.1, help="How far a repeated word keeps counting."),
        Knob("b", "b", float(b), 0.0, 1.0, 0.05, help="0: length is ignored; 1: fully counted."),
    )
