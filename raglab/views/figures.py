"""Pictures that need no kernel: the flow as a static SVG, and (from `charts`) a score's parts.

The SVG holds no time and no random id, so equal traces give equal pictures and a committed
notebook changes only where its results do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

from raglab.views.charts import PLOTLY_CONFIG, Chart, parts_figure
from raglab.views.model import Model, fate_in_words

__all__ = ["PLOTLY_CONFIG", "Chart", "flow_svg", "parts_figure"]

WIDTH, QUERY_WIDTH, GAP, HEAD, ROW, CUT_ROOM = 1000, 110, 52, 46, 15, 16
LETTER, BOLD = 6.7, 7.4  # a letter's mean width at 11 pixels, in the widest of usual fonts
INK, SOFT, PILL, PLAIN, LOST = "#1b1f24", "#5a626c", "#f1f3f6", "#0072b2", "#b4bcc6"
MARKS = {  # mark -> line, text, wash, glyph
    "evidence": ("#d55e00", "#a84300", "#fdeadd", "★ "),
    "cited": ("#009e73", "#006b4e", "#ddf3ec", "● "),
    "only-here": ("#cc79a7", "#8f2d66", "#f9e6f0", "◆ "),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A row of a column, and where it stands in the picture."""

    column: Mapping[str, Any]
    card: Mapping[str, Any]
    number: str
    x: float
    y: float
    width: float
    left_out: bool = False

    @property
    def middle(self) -> float:
        return self.y + ROW / 2

    @property
    def lost(self) -> bool:
        return self.card["fate"]["kind"] in ("cut", "dropped")


@dataclass(slots=True)
class Board:
    """What the layout found: the rows, what is drawn around them, where the last column stands."""

    cells: dict[tuple[str, str], Cell]
    frame: list[str]
    bottoms: list[float]
    x: float = 0
    width: float = 0


def flow_svg(model: Model) -> str:
    """The flow's final state as a standalone SVG, with a title and a description in words."""
    board = _lay_out(model)
    cells = board.cells
    lines = [_line(cells, cell) for cell in sorted(cells.values(), key=_drawn_last)]
    rows = [_row(cell) for cell in cells.values()]
    texts = [query["text"] for query in model["queries"]]
    queries, query_bottom = _words(texts, 8, HEAD + 2, QUERY_WIDTH - 8, INK)
    answer, answer_bottom = _answer(model, board.x, board.bottoms[-1], board.width)
    height = round(max(*board.bottoms, query_bottom, answer_bottom) + 12)
    about = "; ".join(f"{column['name']}: {column['label']}" for column in model["columns"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="11">'
        f"<title>{_text(model['query'])}</title>"
        f"<desc>{_text(about)}. {_text(' '.join(model['verdict']))}</desc>"
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>'
        f"{''.join(board.frame)}{''.join(lines)}{''.join(rows)}{queries}{answer}</svg>"
    )


def _lay_out(model: Model) -> Board:
    depth = max((column["place"] for column in model["columns"]), default=1)
    unit = (WIDTH - QUERY_WIDTH - depth * GAP - 8) / (depth + 0.5)
    title = _label("Query", 8, 18, INK, 'font-size="13" font-weight="600"')
    board = Board({}, [title], [HEAD])
    for place in range(1, depth + 1):
        board.x = QUERY_WIDTH + GAP + (place - 1) * (unit + GAP)
        board.width = unit * 1.5 if place == depth else unit
        y: float = 0
        for column in (one for one in model["columns"] if one["place"] == place):
            y = _place_column(board, model, column, y)
        board.bottoms.append(y)
    return board


def _place_column(board: Board, model: Model, column: Mapping[str, Any], y: float) -> float:
    cards = {card["id"]: card for card in model["chunks"]}
    x, width = board.x, board.width
    board.frame += _column_head(column, x, y)
    y = top = y + HEAD
    cut = _cut(column, cards)
    for index, (chunk_id, rank, *_) in enumerate(column["rows"]):
        if cut and index == cut[0]:
            board.frame.append(_rule(x, y + CUT_ROOM / 2, width, cut[1]))
            y += CUT_ROOM
        cell = Cell(column, cards[chunk_id], str(rank), x, y, width)
        board.cells[column["name"], chunk_id] = cell
        y += ROW
    if not column["after"]:
        board.frame.append(_feed(x, top, y))
    for card in model["chunks"] if column["stage"] == "assemble" else ():
        if card["fate"]["kind"] == "dropped" and card["fate"]["step"] == column["name"]:
            cell = Cell(column, card, "×", x, y + 6, width, left_out=True)
            board.cells[column["name"], card["id"]] = cell
            y += 2 * ROW + 4
    return y + 6


def _column_head(column: Mapping[str, Any], x: float, y: float) -> list[str]:
    count = column["label"]
    if column.get("budget"):
        count += f" · {column['tokens']:,} of {column['budget']:,} tokens"
    return [
        _label(column["name"], x, y + 18, INK, 'font-size="13" font-weight="600"'),
        _label(count, x, y + 34, SOFT),
    ]


def _cut(
    column: Mapping[str, Any], cards: Mapping[str, Mapping[str, Any]]
) -> tuple[int, str] | None:
    """Where a whole tail of the column was cut by the next step, and the words for it."""
    rows = column["rows"]
    after = len(rows)
    while after and _was_cut(cards[rows[after - 1][0]], column):
        after -= 1
    if after == len(rows):
        return None
    found = re.search(r"cut at \d+$", cards[rows[after][0]]["fate"]["reason"])
    return after, found.group() if found else "cut"


def _was_cut(card: Mapping[str, Any], column: Mapping[str, Any]) -> bool:
    fate = card["fate"]
    return bool(fate["kind"] == "cut" and fate["place"] == column["place"] + 1)


def _drawn_last(cell: Cell) -> int:
    """Marked lines lie over plain ones, plain ones over lost ones."""
    return 2 if cell.card["marks"] else int(not cell.lost)


def _line(cells: Mapping[tuple[str, str], Cell], cell: Cell) -> str:
    colour, width = (LOST, 1.0) if cell.lost else (PLAIN, 1.2)
    if cell.card["marks"]:
        colour, width = MARKS[cell.card["marks"][0]][0], 2.8
    paths = []
    for name in cell.column["after"]:
        source = cells.get((name, cell.card["id"]))
        if source:
            start, middle = source.x + source.width, (source.x + source.width + cell.x) / 2
            paths.append(
                f"M{start:.0f} {source.middle:.1f}C{middle:.0f} {source.middle:.1f} "
                f"{middle:.0f} {cell.middle:.1f} {cell.x:.0f} {cell.middle:.1f}"
            )
    fate = cell.card["fate"]
    ends_here = cell.lost and not cell.left_out and fate["place"] == cell.column["place"] + 1
    if ends_here and (fate["step"], cell.card["id"]) not in cells:
        x, y = cell.x + cell.width + 4, cell.middle
        paths.append(f"M{x:.0f} {y - 2.5:.1f}l5 5m0 -5l-5 5")
    if not paths:
        return ""
    return f'<path d="{"".join(paths)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _feed(x: float, top: float, bottom: float) -> str:
    """The query feeds the whole lane: a line to its middle, and a bracket along it."""
    middle, start = (top + bottom) / 2, QUERY_WIDTH
    bend = (start + x - 8) / 2
    path = (
        f"M{start} {HEAD + 14}C{bend:.0f} {HEAD + 14} {bend:.0f} {middle:.1f} {x - 8:.0f} "
        f"{middle:.1f}M{x - 4:.0f} {top:.1f}h-4V{bottom - 1:.1f}h4"
    )
    return f'<path d="{path}" fill="none" stroke="{PLAIN}" stroke-width="1.6"/>'


def _row(cell: Cell) -> str:
    card = cell.card
    fill, ink, glyph = ("none" if cell.lost else PILL), (SOFT if cell.lost else INK), ""
    weight = ""
    if card["marks"]:
        _, ink, fill, glyph = MARKS[card["marks"][0]]
        weight = 'font-weight="600"'
    y = cell.y + ROW - 4
    height = 2 * ROW + 1 if cell.left_out else ROW - 1
    edge = f' stroke="{LOST}" stroke-dasharray="3 3"' if cell.left_out else ""
    room = int((cell.width - 32) / (BOLD if card["marks"] else LETTER))
    drawn = [
        f'<rect x="{cell.x:.1f}" y="{cell.y:.1f}" width="{cell.width:.1f}" height="{height}" '
        f'rx="3" fill="{fill}"{edge}/>',
        _label(cell.number, cell.x + 21, y, SOFT, 'text-anchor="end"'),
        _label(_elide(glyph + card["id"], room), cell.x + 27, y, ink, weight),
    ]
    if cell.left_out:
        drawn.append(_label(_elide(card["fate"]["reason"], room), cell.x + 27, y + ROW, SOFT))
    told = f"{card['id']}, {cell.column['name']} {cell.number}: {fate_in_words(card['fate'])}"
    return f"<g><title>{_text(told)}</title>{''.join(drawn)}</g>"


def _rule(x: float, y: float, width: float, words: str) -> str:
    half = width / 2 - 34
    return (
        f'<path d="M{x:.0f} {y:.1f}h{half:.0f}m68 0h{half:.0f}" stroke="{SOFT}" '
        f'stroke-dasharray="4 3"/>'
        + _label(words, x + width / 2, y + 4, SOFT, 'text-anchor="middle"')
    )


def _answer(model: Model, x: float, y: float, width: float) -> tuple[str, float]:
    answer = model["answer"]
    if not answer:
        return "", y
    head = f"{'No answer' if answer['refused'] else 'Answer'} ({answer['origin']})"
    quotes = [f"[{one['number']}] {one['chunk_id']}: {one['quote']}" for one in answer["citations"]]
    title = _label(head, x + 8, y + 26, INK, 'font-weight="600"')
    said, end = _words([answer["text"]], x + 8, y + 32, width - 16, INK)
    cited, end = _words(quotes, x + 8, end, width - 16, SOFT)
    box = (
        f'<rect x="{x:.1f}" y="{y + 10:.1f}" width="{width:.1f}" height="{end - y - 6:.1f}" rx="5" '
        f'fill="#ffffff" stroke="{MARKS["cited"][0]}"/>'
    )
    return f"{box}{title}{said}{cited}", end + 6


def _words(
    texts: Iterable[str], x: float, y: float, width: float, colour: str
) -> tuple[str, float]:
    """Paragraphs wrapped by counting letters; returns the SVG and where it ends."""
    lines: Sequence[str]
    drawn = []
    for text in texts:
        lines = wrap(text, int(width / LETTER), max_lines=12, placeholder=" …")
        for line in lines:
            y += ROW
            drawn.append(_label(line, x, y, colour))
        y += 5
    return "".join(drawn), y


def _label(words: str, x: float, y: float, colour: str, more: str = "") -> str:
    more = f" {more}" if more else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{_text(words)}</text>'


def _text(words: str) -> str:
    """Escaped, and without the characters that XML forbids."""
    return escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", " ", words))


def _elide(words: str, room: int) -> str:
    if len(words) <= room:
        return words
    tail = re.search(r"#[^#]{1,6}$", words)
    kept = tail.group() if tail else ""
    return f"{words[: max(1, room - 1 - len(kept))]}…{kept}"
