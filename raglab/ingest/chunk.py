"""Cuts documents into chunks that the encoder can read whole.

*Recursive* chunking follows the text's own joints: first headings, then paragraphs, then
sentences, then words, and takes the next finer one only where a piece is still too long.  Sizes
are counted in the encoder's own word pieces, because that is what its limit is counted in.

Left out: chunkers that look at meaning.  A chunk is always `document.text[start:end]`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from raglab.sentences import sentence_spans
from raglab.types import Chunk, Document, RagLabError

Span = tuple[int, int]
Spans = Callable[[str], Sequence[Span]]

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Recursive:
    """Chunks of at most `size` word pieces; neighbours in a section share up to `overlap`.

    `spans` is the encoder's: text -> where each of its word pieces stands.
    """

    spans: Spans = field(repr=False, compare=False)
    size: int = 200
    overlap: int = 40

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.overlap < self.size:
            raise RagLabError(
                f"size={self.size}, overlap={self.overlap}: the size must be at least 1 and "
                "the overlap smaller than it"
            )

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Chunks in order, ids `doc_id#0`, `doc_id#1`, ...; every word stands in one of them."""
        count = _Counter(self.spans(document.text))
        spans = []
        for section, heading in sections(document.text):
            atoms = list(self._atoms(document.text, section, count, _FINER))
            spans += [(span, heading) for span in self._pack(atoms, count)]
        return tuple(
            cut(document, number, span, heading) for number, (span, heading) in enumerate(spans)
        )

    def _atoms(
        self, text: str, span: Span, count: _Counter, splitters: Sequence[Splitter]
    ) -> Iterator[Span]:
        """Pieces that fit, each as coarse as can be."""
        if count(span) <= self.size:
            yield span
        elif not splitters:
            yield from count.cut(span, self.size)
        else:
            for piece in splitters[0](text, span):
                yield from self._atoms(text, piece, count, splitters[1:])

    def _pack(self, atoms: Sequence[Span], count: _Counter) -> Iterator[Span]:
        """Neighbouring atoms put together while they fit, the next chunk beginning with the last
        atoms of this one as far as the overlap allows."""
        first = 0
        while first < len(atoms):
            last = first
            while (
                last + 1 < len(atoms) and count((atoms[first][0], atoms[last + 1][1])) <= self.size
            ):
                last += 1
            yield atoms[first][0], atoms[last][1]
            if last + 1 == len(atoms):
                return
            first = self._next(atoms, first, last, count)

    def _next(self, atoms: Sequence[Span], first: int, last: int, count: _Counter) -> int:
        """Where the next chunk starts: back over the overlap, but so that new text still fits."""
        end, new_end = atoms[last][1], atoms[last + 1][1]
        for start in range(first + 1, last + 1):
            shared = count((atoms[start][0], end))
            if shared <= self.overlap and count((atoms[start][0], new_end)) <= self.size:
                return start
        return last + 1


@dataclass(frozen=True)
class WholeDocument:
    """Each document one chunk: for collections of abstracts, such as SciFact."""

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        span = _trim(document.text, (0, len(document.text)))
        return (cut(document, 0, span, document.title),) if span[0] < span[1] else ()


def cut(document: Document, number: int, span: Span, heading: str) -> Chunk:
    """The chunk at `span`, with its document's card."""
    start, end = span
    return Chunk(
        chunk_id=f"{document.doc_id}#{number}",
        doc_id=document.doc_id,
        text=document.text[start:end],
        start=start,
        end=end,
        heading=heading,
        title=document.title,
        source=document.source,
        updated=document.updated,
        groups=document.groups,
    )


def sections(text: str) -> list[tuple[Span, str]]:
    """Spans between Markdown headings, each with the path of headings above it.

    A heading with no text of its own stays with the section that follows.  A `#` inside a code
    fence is no heading.

    >>> [(text, path) for (s, e), path in sections("# A\\n\\n## B\\none\\n## C\\ntwo")
    ...  for text in ["# A\\n\\n## B\\none\\n## C\\ntwo"[s:e]]]
    [('# A\\n\\n## B\\none', 'A > B'), ('## C\\ntwo', 'A > C')]
    """
    path: list[tuple[int, str]] = []
    found: list[tuple[Span, str]] = []
    start = position = 0
    fenced = has_body = False

    def close(end: int) -> None:
        span = _trim(text, (start, end))
        if span[0] < span[1]:
            found.append((span, " > ".join(title for _, title in path)))

    for line in text.splitlines(keepends=True):
        heading = None if fenced else _HEADING.match(line.rstrip("\r\n"))
        if heading:
            if has_body:
                close(position)
                start, has_body = position, False
            level = len(heading[1])
            path = [entry for entry in path if entry[0] < level] + [(level, heading[2])]
        elif line.strip():
            has_body = True
            if _FENCE.match(line):
                fenced = not fenced
        position += len(line)
    close(len(text))
    return found


def _paragraphs(text: str, span: Span) -> list[Span]:
    start, end = span
    breaks = [match.span() for match in _PARAGRAPH.finditer(text, start, end)]
    edges = [start, *(edge for pair in breaks for edge in pair), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if text[a:b].strip()]


def _sentences(text: str, span: Span) -> list[Span]:
    start, end = span
    return [(start + a, start + b) for a, b in sentence_spans(text[start:end])]


def _words(text: str, span: Span) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, *span)]


def _trim(text: str, span: Span) -> Span:
    piece = text[span[0] : span[1]]
    lead = len(piece) - len(piece.lstrip())
    return span[0] + lead, span[0] + lead + len(piece.strip())


Splitter = Callable[[str, Span], list[Span]]
_FINER: tuple[Splitter, ...] = (_paragraphs, _sentences, _words)


class _Counter:
    """Word pieces between two offsets, by bisection: the text is tokenized once."""

    def __init__(self, pieces: Sequence[Span]) -> None:
        self.starts = [start for start, _ in pieces]

    def __call__(self, span: Span) -> int:
        return bisect_left(self.starts, span[1]) - bisect_left(self.starts, span[0])

    def cut(self, span: Span, size: int) -> Iterator[Span]:
        """A single word that is too long, cut between word pieces."""
        first, last = bisect_left(self.starts, span[0]), bisect_left(self.starts, span[1])
        inner = (self.starts[position] for position in range(first + size, last, size))
        yield from pairwise([span[0], *inner, span[1]])
