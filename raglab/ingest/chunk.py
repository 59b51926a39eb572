"""Cuts documents into chunks: four ways that look at the text alone.

    FixedSize       every so many word pieces, wherever that falls: sentences are severed
    Sentences       every few sentences: their heading stays behind
    WholeDocument   nothing is cut: the encoder reads the start only
    ParentChild     small pieces to find, the sections around them to read

`Recursive` (recursive.py) follows the text's own joints, and `Semantic` (semantic.py) looks at
meaning.  Sizes are counted in the encoder's own word pieces, because its limit is counted in them.
A chunk is always `document.text[start:end]`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from raglab.sentences import sentence_spans
from raglab.types import Chunk, Chunker, Document, RagLabError

_WORD = re.compile(r"\S+")

Span = tuple[int, int]
Spans = Callable[[str], Sequence[Span]]
"""An encoder's tokenizer: text -> where each of its word pieces stands, in characters."""


@dataclass(frozen=True)
class FixedSize:
    """Windows of `size` word pieces, each beginning `size - overlap` after the one before."""

    spans: Spans = field(repr=False)
    size: int = 200
    overlap: int = 0

    def __post_init__(self) -> None:
        check_sizes(self.size, self.overlap)

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        pieces = self.spans(document.text)
        step = self.size - self.overlap
        # The last window is the first that reaches the end: no window is only overlap.
        starts = range(0, max(1, len(pieces) - self.overlap), step) if pieces else ()
        windows = [pieces[start : start + self.size] for start in starts]
        return cut_all(document, [(window[0][0], window[-1][1]) for window in windows])


@dataclass(frozen=True)
class Sentences:
    """Groups of `n` sentences; fewer where they would pass `size` word pieces."""

    spans: Spans = field(repr=False)
    n: int = 4
    size: int = 200

    def __post_init__(self) -> None:
        check_sizes(self.size, 0)
        if self.n < 1:
            raise RagLabError(f"n={self.n}: a chunk needs at least 1 sentence")

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        count = Counter(self.spans(document.text))
        sentences = [
            piece
            for sentence in sentence_spans(document.text)
            for piece in fit(document.text, sentence, count, self.size)
        ]
        groups: list[list[Span]] = []
        for sentence in sentences:
            group = groups[-1] if groups else []
            full = len(group) == self.n
            if not group or full or count((group[0][0], sentence[1])) > self.size:
                groups.append([sentence])
            else:
                group.append(sentence)
        return cut_all(document, [(group[0][0], group[-1][1]) for group in groups])


@dataclass(frozen=True)
class WholeDocument:
    """Each document one chunk: for collections of abstracts, such as SciFact."""

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        span = trim(document.text, (0, len(document.text)))
        return cut_all(document, [span] if span[0] < span[1] else [])


@dataclass(frozen=True)
class ParentChild:
    """Small chunks are indexed, and each brings the larger one that it lies in.

    A small chunk has a sharper vector; its parent has what the reader needs around it.
    """

    parent: Chunker
    child: Chunker

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        children = []
        for parent in self.parent.chunk(document):
            inside = replace(document, text=parent.text)
            for child in self.child.chunk(inside):
                span = (parent.start + child.start, parent.start + child.end)
                heading = parent.heading
                children.append((span, heading, parent.text))
        return tuple(
            replace(cut(document, number, span, heading), section=section)
            for number, (span, heading, section) in enumerate(children)
        )


# -- what the strategies share -----------------------------------------------------------------


def cut(document: Document, number: int, span: Span, heading: str = "") -> Chunk:
    """The chunk at `span`, with its document's card."""
    start, end = span
    return Chunk(
        chunk_id=f"{document.doc_id}#{number}",
        doc_id=document.doc_id,
        text=document.text[start:end],
        start=start,
        end=end,
        heading=heading or document.title,
        title=document.title,
        source=document.source,
        updated=document.updated,
        groups=document.groups,
    )


def cut_all(document: Document, spans: Sequence[Span]) -> tuple[Chunk, ...]:
    return tuple(cut(document, number, span) for number, span in enumerate(spans))


def check_sizes(size: int, overlap: int) -> None:
    if size < 1 or not 0 <= overlap < size:
        raise RagLabError(
            f"size={size}, overlap={overlap}: the size must be at least 1 and "
            "the overlap smaller than it"
        )


def trim(text: str, span: Span) -> Span:
    """The span without white space at its ends."""
    piece = text[span[0] : span[1]]
    lead = len(piece) - len(piece.lstrip())
    return span[0] + lead, span[0] + lead + len(piece.strip())


class Counter:
    """Word pieces between two offsets, by bisection: the text is tokenized once."""

    def __init__(self, pieces: Sequence[Span]) -> None:
        self.starts = [start for start, _ in pieces]

    def __call__(self, span: Span) -> int:
        return bisect_left(self.starts, span[1]) - bisect_left(self.starts, span[0])

    def cut(self, span: Span, size: int) -> Iterator[Span]:
        """A piece that is too long, cut between word pieces."""
        first, last = bisect_left(self.starts, span[0]), bisect_left(self.starts, span[1])
        inner = (self.starts[position] for position in range(first + size, last, size))
        yield from pairwise([span[0], *inner, span[1]])


def fit(text: str, span: Span, count: Counter, size: int) -> list[Span]:
    """The span, or where it is too long, pieces of it that fit, cut between words if it can be."""
    if count(span) <= size:
        return [span]
    packed: list[Span] = []
    for word in words(text, span):
        for piece in [word] if count(word) <= size else count.cut(word, size):
            if packed and count((packed[-1][0], piece[1])) <= size:
                packed[-1] = (packed[-1][0], piece[1])
            else:
                packed.append(piece)
    return packed


def words(text: str, span: Span) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, *span)]
