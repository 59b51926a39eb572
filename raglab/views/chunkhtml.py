"""A chunk map as HTML that runs nothing: what a saved notebook shows.

Styles are inline, and every cue is also in the text, because some viewers drop styles: a chunk
begins at its number in brackets, and a severed quote carries a pair of scissors.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from raglab.views.model import Model

HTML_ROOM = 4_000  # characters: a committed notebook stays small
INK, UNREAD, MARK = "#1b1f24", "#5a626c", "#eef0f3"
TINTS = ("#dcebf7", "#fbe3d0", "#d6f0e6", "#f3dfee")  # after Okabe and Ito, each with its number
BODY = "line-height:1.8;white-space:pre-wrap;max-width:56em;overflow-wrap:anywhere"
HELD, SEVERED = "#00744f", "#b04a00"


def map_html(data: Model) -> str:
    """The first map of a `ChunkMap`'s data; equal data gives equal HTML."""
    first = data["maps"][0]
    low, high = _window(data, first)
    body = "".join(
        _segment(data, first, segment, low, high)
        for segment in first["segments"]
        if segment["start"] < high and low < segment["end"]
    )
    title = escape(data["title"] or data["doc_id"])
    head = f"<b>{title}</b> cut by <b>{escape(first['name'])}</b>: {'; '.join(first['says'])}."
    quotes = "".join(_quote(quote) for quote in first["quotes"])
    part = ""
    if high - low < data["length"]:
        part = f" Shown are characters {low:,} to {high:,} of {data['length']:,}."
    return (
        f"<div><p>{head}</p>"
        f'<div style="{BODY}">{body}</div>'
        f"{f'<ul>{quotes}</ul>' if quotes else ''}"
        "<p><small>[n] is where chunk n begins; italics are text that two chunks share."
        f"{part} Run the cell for sliders and other strategies.</small></p></div>"
    )


def _window(data: Model, first: Model) -> tuple[int, int]:
    """The part around the first quote, or the beginning."""
    low, high = data["window"]
    if high - low <= HTML_ROOM:
        return low, high
    starts = [quote["start"] for quote in first["quotes"] if quote["start"] is not None]
    at = next((start for start in starts if low <= start < high), low)
    low = max(low, min(at - HTML_ROOM // 3, high - HTML_ROOM))
    return low, low + HTML_ROOM


def _segment(data: Model, first: Model, segment: Model, low: int, high: int) -> str:
    start, end = max(segment["start"], low), min(segment["end"], high)
    offset = data["window"][0]
    text = escape(data["text"][start - offset : end - offset]).replace("\n", "<br>")
    chunks = {card["number"]: card for card in first["chunks"]}
    quotes = {quote["number"]: quote for quote in first["quotes"]}
    marks = []
    for number in segment["chunks"]:
        card = chunks[number]
        if max(card["start"], low) == start:
            before = chunks.get(number - 1)
            shared = before["shared"] if before and start < before["end"] else None
            much = f", {shared['pieces'] or shared['characters']} shared" if shared else ""
            marks.append(f"[{number}{much}]")
        if card["cut"] == segment["start"] == start:
            marks.append(f"[not read from here: {card['past']}]")
    scissors = any(start in quotes[number]["cuts"] for number in segment["quotes"])
    told = "".join(f'<b style="{_css(MARK, INK)};font-size:85%">{mark} </b>' for mark in marks)
    return f"{told}{'✂' if scissors else ''}{_styled(text, segment, quotes)}"


def _styled(text: str, segment: Model, quotes: Mapping[int, Model]) -> str:
    chunks = segment["chunks"]
    if segment["quotes"]:
        held = all(quotes[number]["held"] for number in segment["quotes"])
        line = f"3px solid {HELD}" if held else f"3px dashed {SEVERED}"
        text = f'<u style="text-decoration:none;border-bottom:{line}">{text}</u>'
    if not chunks:
        return text
    unread = len(segment["past"]) == len(chunks)
    style = _css(MARK, UNREAD) if unread else _css(TINTS[chunks[0] % len(TINTS)], INK)
    if len(chunks) > 1:
        style += f";border-top:2px dotted {INK}"
        text = f"<i>{text}</i>"
    return f'<span style="{style}">{text}</span>'


def _css(ground: str, ink: str) -> str:
    """Both colours, always: a viewer's own theme may be light or dark."""
    return f"background-color:{ground};color:{ink}"


def _quote(quote: Mapping[str, Any]) -> str:
    return f"<li>“{escape(quote['text'])}” {escape(quote['says'])}</li>"
