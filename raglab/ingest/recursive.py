"""Recursive chunking: cut at the text's own joints, the coarsest first.

First headings, then paragraphs, then sentences, then words; the next finer joint is used only
where a piece is still too long.  Neighbouring pieces of a section are then put together again
while they fit.

Headings are Markdown's (`## Limits`), or lines underlined as in reStructuredText.

Left out: lists, tables and code as joints of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from raglab.ingest.chunk import Counter, Span, Spans, check_sizes, cut, fit, trim
from raglab.sentences import sentence_spans
from raglab.types import Chunk, Document

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$")
_UNDERLINE = re.compile(r"^(\*{3,}|={3,}|-{3,}|~{3,}|\^{3,})\s*$")
_LEVEL = {"*": 1, "=": 2, "-": 3, "~": 4, "^": 5}  # of an underlined heading, by its character
_FENCE = re.compile(r"^\s*(```|~~~)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")


@dataclass(frozen=True)
class Recursive:
    """Chunks of at most `size` word pieces; neighbours in a section share up to `overlap`."""

    spans: Spans = field(repr=False)
    size: int = 200
    overlap: int = 40

    def __post_init__(self) -> None:
        check_sizes(self.size, self.overlap)

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Chunks in order, ids `doc_id#0`, `doc_id#1`, ...; every word stands in one of them."""
        count = Counter(self.spans(document.text))
        spans = []
        for section, heading in sections(document.text):
            atoms = list(self._atoms(document.text, section, count, _FINER))
            spans += [(span, heading) for span in self._pack(atoms, count)]
        return tuple(
            cut(document, number, span, heading) for number, (span, heading) in enumerate(spans)
        )

    def _atoms(
        self, text: str, span: Span, count: Counter, splitters: Sequence[Splitter]
    ) -> Iterator[Span]:
        """Pieces that fit, each as coarse as can be."""
        if count(span) <= self.size:
            yield span
        elif not splitters:
            yield from fit(text, span, count, self.size)
        else:
            for piece in splitters[0](text, span):
                yield from self._atoms(text, piece, count, splitters[1:])

    def _pack(self, atoms: Sequence[Span], count: Counter) -> Iterator[Span]:
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

    def _next(self, atoms: Sequence[Span], first: int, last: int, count: Counter) -> int:
        """Where the next chunk starts: back over the overlap, but so that new text still fits."""
        end, new_end = atoms[last][1], atoms[last + 1][1]
        for start in range(first + 1, last + 1):
            shared = count((atoms[start][0], end))
            if shared <= self.overlap and count((atoms[start][0], new_end)) <= self.size:
                return start
        return last + 1


def sections(text: str) -> list[tuple[Span, str]]:
    """Spans between headings, each with the path of headings above it.

    A heading with no text of its own stays with the section that follows.  A `#` inside a code
    fence is no heading.

    >>> text = "# A\\n\\n## B\\none\\n## C\\ntwo"
    >>> [(text[start:end], path) for (start, end), path in sections(text)]
    [('# A\\n\\n## B\\none', 'A > B'), ('## C\\ntwo', 'A > C')]
    """
    path: list[tuple[int, str]] = []
    found: list[tuple[Span, str]] = []
    start = position = 0
    fenced = has_body = underline = False
    lines = text.splitlines(keepends=True)

    def close(end: int) -> None:
        span = trim(text, (start, end))
        if span[0] < span[1]:
            found.append((span, " > ".join(title for _, title in path)))

    for number, line in enumerate(lines):
        heading = None if fenced or underline else _heading(line, lines[number + 1 : number + 2])
        if heading:
            if has_body:
                close(position)
                start, has_body = position, False
            path = [entry for entry in path if entry[0] < heading[0]] + [heading]
        elif line.strip() and not underline:
            has_body = True
            if _FENCE.match(line):
                fenced = not fenced
        underline = bool(heading) and not line.startswith("#")
        position += len(line)
    close(len(text))
    return found


def _heading(line: str, following: Sequence[str]) -> tuple[int, str] | None:
    """(level, title) where the line is a heading: marked by `#`, or underlined by the next."""
    title = line.strip()
    marked = _HEADING.match(line.rstrip("\r\n"))
    if marked:
        return len(marked[1]), marked[2]
    rule = _UNDERLINE.match(following[0]) if following else None
    if rule and title and not line[0].isspace() and len(rule[1]) >= len(title):
        return _LEVEL[rule[1][0]], title
    return None


def _paragraphs(text: str, span: Span) -> list[Span]:
    start, end = span
    breaks = [match.span() for match in _PARAGRAPH.finditer(text, start, end)]
    edges = [start, *(edge for pair in breaks for edge in pair), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if text[a:b].strip()]


def _sentences(text: str, span: Span) -> list[Span]:
    start, end = span
    return [(start + a, start + b) for a, b in sentence_spans(text[start:end])]


Splitter = Callable[[str, Span], list[Span]]
_FINER: tuple[Splitter, ...] = (_paragraphs, _sentences)
