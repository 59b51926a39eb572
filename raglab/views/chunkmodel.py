"""What a picture of one document's chunks shows, as plain data.

A boundary is where a chunk starts or ends, where it passes what the encoder reads, or where a
quote starts or ends.  Between two neighbouring boundaries lies a *segment*: the same chunks cover
all of it, one of them, two or more (an overlap), or none.

All offsets are the document's own, counted in characters as Python counts them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from raglab.types import Chunk, Document
from raglab.views.model import Model

Span = tuple[int, int]
Spans = Callable[[str], Sequence[Span]]
"""An encoder's tokenizer: text -> where each of its word pieces stands, in characters."""

ROOM = 12_000  # characters that a picture shows at once
SLACK = 400  # a part may end so much early, to end with a line


def chunk_model(
    document: Document,
    chunks: Iterable[Chunk],
    *,
    quotes: Sequence[str] = (),
    spans: Spans | None = None,
    limit: int | None = None,
    window: Span | None = None,
) -> Model:
    """The document, its chunks, the segments between their boundaries, and what became of quotes.

    spans, limit: how the encoder counts word pieces, and how many of a chunk it reads.
    window: chunks and segments of this part of the text alone; the figures count all of it.
    """
    text = document.text
    low, high = window or (0, len(text))
    own = [chunk for chunk in chunks if chunk.doc_id == document.doc_id]
    cards = [_card(number, chunk, spans, limit) for number, chunk in enumerate(own)]
    reaches = [_section(chunk, text) for chunk in own]
    sections = sorted({reach for reach in reaches if reach})
    for card, reach in zip(cards, reaches, strict=True):
        card["section"] = sections.index(reach) + 1 if reach else None
    for card, after in pairwise(cards):
        card["shared"] = _shared(card, after)
    told = [
        _quote(number, quote, text, cards, sections)
        for number, quote in enumerate(filter(None, quotes), start=1)
    ]
    figures = _figures(cards, told)
    shown = [card for card in cards if card["start"] < high and low < card["end"]]
    segments = _segments(low, high, shown, told, sections)
    for card in cards:
        del card["starts"]
    return {
        "doc_id": document.doc_id,
        "title": document.title,
        "length": len(text),
        "window": [low, high],
        "text": text[low:high],
        "chunks": shown,
        "sections": [
            {"number": number, "start": start, "end": end}
            for number, (start, end) in enumerate(sections, start=1)
            if start < high and low < end
        ],
        "quotes": told,
        "segments": segments,
        "figures": figures,
        "says": _says(figures, limit),
    }


def parts_of(text: str, at: int = 0, room: int = ROOM) -> list[Span]:
    """Parts of at most `room` characters that cover the text; `at` lies well inside one of them.

    >>> parts_of("x" * 30, at=20, room=12)
    [(0, 4), (4, 16), (16, 28), (28, 30)]
    """
    if len(text) <= room:
        return [(0, len(text))]
    slack = min(SLACK, room // 4) if "\n" in text else 0
    step, anchor = room - slack, max(0, at - room // 3)
    edges = {0, *range(anchor, 0, -step), *range(anchor, len(text), step)}
    lines = {text.rfind("\n", max(0, edge - slack), edge) + 1 or edge for edge in edges}
    return list(pairwise(sorted({0, *lines, len(text)})))


def _card(number: int, chunk: Chunk, spans: Spans | None, limit: int | None) -> Model:
    """A chunk. Its pieces are counted in what the encoder is given: its context, then its text."""
    given = chunk.indexed_text
    lead = chunk.start - (len(given) - len(chunk.text))
    starts = [lead + start for start, _ in spans(given)] if spans else None
    past = max(0, len(starts) - limit) if starts and limit is not None else 0
    return {
        "id": chunk.chunk_id,
        "number": number,
        "start": chunk.start,
        "end": chunk.end,
        "heading": chunk.heading,
        "pieces": None if starts is None else len(starts),
        "cut": max(chunk.start, starts[-past]) if starts and past else None,
        "past": past,
        "shared": None,
        "starts": starts,
    }


def _section(chunk: Chunk, text: str) -> Span | None:
    """Where the passage stands that this chunk was indexed for, if there is one."""
    if not chunk.section:
        return None
    start = text.rfind(chunk.section, 0, chunk.start + len(chunk.section))
    end = start + len(chunk.section)
    return (start, end) if start >= 0 and end >= chunk.end else None


def _shared(card: Model, after: Model) -> Model | None:
    """What a chunk has in common with the next one."""
    if after["start"] >= card["end"]:
        return None
    starts = card["starts"]
    inside = None if starts is None else len(starts) - bisect_left(starts, after["start"])
    return {"pieces": inside, "characters": card["end"] - after["start"]}


def _quote(
    number: int, quote: str, text: str, cards: Sequence[Model], sections: Sequence[Span]
) -> Model:
    """Where a quote stands, and which chunks hold it whole, themselves or by their section.

    A quote that stands in several places is told where a chunk holds it, or else where it is first.
    """
    told: Model = {"number": number, "text": quote, "start": None, "end": None}
    told |= {"held": [], "cuts": []}
    places = [(at.start(), at.start() + len(quote)) for at in re.finditer(_all(quote), text)]
    if not places:
        return told | {"says": "not in this document"}
    holders: list[Model] = []
    start, end = places[0]
    for place in places:
        inside = [card for card in cards if _holds(_reach(card, sections), place)]
        if inside and not holders:
            start, end = place
        holders += [card for card in inside if card not in holders]
    told |= {"start": start, "end": end, "held": [card["id"] for card in holders]}
    if not holders:
        return told | {"cuts": _cuts(start, end, cards), "says": "severed: no chunk holds it whole"}
    names = ", ".join(told["held"][:3]) + (" and others" if len(holders) > 3 else "")
    if not any(_holds((card["start"], card["end"]), (start, end)) for card in holders):
        return told | {"says": f"held whole by the section of {names}"}
    unread = all(card["cut"] is not None and card["cut"] < end for card in holders)
    more = ", but past what the encoder reads" if unread else ""
    return told | {"says": f"held whole by {names}{more}"}


def _all(quote: str) -> str:
    """A pattern for every place of the quote, those that overlap too."""
    return f"(?={re.escape(quote)})"


def _reach(card: Model, sections: Sequence[Span]) -> Span:
    section = card["section"]
    return sections[section - 1] if section else (card["start"], card["end"])


def _holds(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _cuts(start: int, end: int, cards: Sequence[Model]) -> list[int]:
    """Where a quote is cut: at ends of chunks within it, or else at a start, or in front of it."""
    ends = {card["end"] for card in cards if start < card["end"] < end}
    starts = {card["start"] for card in cards if start < card["start"] < end}
    return sorted(ends or starts or {start})


def _segments(
    low: int, high: int, cards: Sequence[Model], quotes: Sequence[Model], sections: Sequence[Span]
) -> list[Model]:
    marks: list[int] = [edge for pair in sections for edge in pair]
    marks += [card[key] for card in cards for key in ("start", "end", "cut") if card[key]]
    for quote in quotes:
        marks += [quote["start"] or 0, quote["end"] or 0, *quote["cuts"]]
    edges = sorted({low, high, *(edge for edge in marks if low < edge < high)})
    segments: list[Model] = [
        {"start": start, "end": end, "chunks": [], "quotes": [], "past": []}
        for start, end in pairwise(edges)
    ]

    def within(start: int, end: int) -> Sequence[Model]:
        return segments[bisect_left(edges, max(start, low)) : bisect_left(edges, min(end, high))]

    for card in cards:
        for segment in within(card["start"], card["end"]):
            segment["chunks"].append(card["number"])
        if card["cut"] is not None:
            for segment in within(card["cut"], card["end"]):
                segment["past"].append(card["number"])
    for quote in quotes:
        if quote["start"] is not None:
            for segment in within(quote["start"], quote["end"]):
                segment["quotes"].append(quote["number"])
    return segments


def _figures(cards: Sequence[Model], quotes: Sequence[Model]) -> Model:
    sizes = [card["pieces"] for card in cards if card["pieces"] is not None]
    here = [quote for quote in quotes if quote["start"] is not None]
    return {
        "chunks": len(cards),
        "mean": round(sum(sizes) / len(sizes), 1) if sizes else None,
        "max": max(sizes, default=None),
        "quotes": len(here),
        "held": sum(bool(quote["held"]) for quote in here),
        "past": sum(card["past"] for card in cards),
    }


def _says(figures: Model, limit: int | None) -> list[str]:
    """The figures in words."""
    told = [counted(figures["chunks"], "chunk")]
    if figures["mean"] is not None:
        mean = f"{figures['mean']:,}".removesuffix(".0")
        told.append(f"word pieces: mean {mean}, max {figures['max']:,}")
    if figures["quotes"]:
        told.append(f"quotes held whole: {figures['held']} of {figures['quotes']}")
    if limit is not None and figures["mean"] is not None:
        told.append(f"{counted(figures['past'], 'piece')} past the encoder's {limit}")
    return told


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "chunk"), counted(1200, "chunk")
    ('1 chunk', '1,200 chunks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
