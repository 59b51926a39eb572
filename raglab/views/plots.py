"""Plots for panels: curves, points and orders as SVG that follows the reader's theme.

Each returns `Markup`: its text is escaped, its colours are the panel's own with a fallback for
viewers without its styles, and a second cue stands beside every colour (a dash, a shape, a label).
Numbers are written with three digits, so equal data gives equal pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from raglab.views.axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    axis,
    drawn,
    frame,
    short,
    svg,
)
from raglab.views.bars import INK, SOFT, bars, heat, tint

__all__ = ["Mark", "Point", "bars", "curves", "heat", "scatter", "side", "slopes"]

DASHES = ("", "7 4", "2 4", "9 3 2 3", "4 2", "1 3")
Pair = tuple[float, float]
NOTHING = Markup("")


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on a curve that is named: where the knob stands, say."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Point:
    """A point on a map. Points of a `kind` share a colour and a shape; `big` ones carry a label."""

    key: str
    x: float
    y: float
    label: str
    kind: str = ""
    big: bool = False


def side(left: Markup, right: Markup) -> Markup:
    """Two pictures side by side; one above the other where there is no room."""
    return Markup('<div class="rl-side"><div>{}</div><div>{}</div></div>').format(left, right)


def curves(
    series: Mapping[str, Sequence[Pair]],
    x: str,
    y: str,
    *,
    marks: Sequence[Mark] = (),
    log_x: bool = False,
    log_y: bool = False,
) -> Markup:
    """A line for each series of (x, y) pairs, with axes named `x` and `y` and a legend."""
    points = [pair for pairs in series.values() for pair in pairs] + [(m.x, m.y) for m in marks]
    if not points:
        return NOTHING
    across = axis([px for px, _ in points], LEFT, WIDTH - RIGHT, log_x)
    up = axis([py for _, py in points], HEIGHT - BOTTOM, TOP, log_y)
    lines = [
        Markup(
            '<path d="{}" fill="none" stroke="{}" stroke-width="2.5" stroke-dasharray="{}">'
            "<title>{}</title></path>"
        ).format(_path(pairs, across, up), tint(n), DASHES[n % len(DASHES)], name)
        for n, (name, pairs) in enumerate(series.items())
        if pairs
    ]
    dots = [_mark(mark, across, up) for mark in marks]
    picture = svg([*frame(across, up, x, y), *lines, *dots], f"{y} against {x}")
    return picture + (_legend(series) if len(series) > 1 else NOTHING)


def scatter(points: Sequence[Point], x: str = "", y: str = "", note: str = "") -> Markup:
    """A map of points. Those with the same key elsewhere in the panel light up together."""
    if not points:
        return NOTHING
    across = axis([p.x for p in points], LEFT, WIDTH - RIGHT, False)
    up = axis([p.y for p in points], HEIGHT - BOTTOM, TOP, False)
    kinds = list(dict.fromkeys(p.kind for p in points))
    drawn = [
        _point(p, kinds.index(p.kind), across, up) for p in sorted(points, key=lambda p: p.big)
    ]
    picture = svg([*frame(across, up, x, y, ticks=bool(x or y)), *drawn], note or "a map of points")
    legend = _legend(kinds, shapes=True) if len(kinds) > 1 else NOTHING
    return picture + legend + (Markup("<p>{}</p>").format(note) if note else NOTHING)


def slopes(before: Sequence[str], after: Sequence[str], marked: Iterable[str] = ()) -> Markup:
    """Two orders side by side, and a line for each name from its rank to its rank.

    A name that only one side holds has no line. `marked` names are starred and drawn bold.
    """
    starred, rows = set(marked), max(len(before), len(after), 1)
    height, step = 22 * rows + 10, 22
    place = {name: rank for rank, name in enumerate(after)}
    old = {name: rank for rank, name in enumerate(before)}
    lines = []
    for rank, name in enumerate(before):
        if name in place:
            bold = name in starred
            moved = place[name] - rank
            colour = INK if not moved else tint(1 if moved > 0 else 2)
            lines.append(
                Markup(
                    '<path data-key="{}" d="M 250 {} C 320 {}, 320 {}, 390 {}" fill="none" '
                    'stroke="{}" stroke-width="{}" stroke-dasharray="{}"></path>'
                ).format(
                    name,
                    *(15 + step * at for at in (rank, rank, place[name], place[name])),
                    colour,
                    4 if bold else 2,
                    "5 3" if moved > 0 else "",
                )
            )
    names = [
        _ranked(name, rank, 244, "end", starred, name in place) for rank, name in enumerate(before)
    ]
    names += [
        _ranked(name, rank, 396, "start", starred, name in old) for rank, name in enumerate(after)
    ]
    moves = sum(place[name] != rank for name, rank in old.items() if name in place)
    return svg(lines + names, f"{moves} of {rows} change rank", height)


def _ranked(name: str, rank: int, x: int, anchor: str, starred: set[str], stays: bool) -> Markup:
    star = "★ " if name in starred else ""
    shown = name if len(name) <= 26 else name[:25] + "…"
    return Markup(
        '<text data-key="{}" x="{}" y="{}" font-size="13" text-anchor="{}" fill="{}" '
        'font-weight="{}"><title>{}</title>{}. {}{}{}</text>'
    ).format(
        name, x, 19 + 22 * rank, anchor, INK if stays else SOFT, 700 if star else 400,
        name, rank + 1, star, shown, "" if stays else " (gone)" if anchor == "end" else " (new)",
    )  # fmt: skip


def _path(pairs: Sequence[Pair], across: Axis, up: Axis) -> str:
    steps = (f"{short(across.at(px))} {short(up.at(py))}" for px, py in pairs)
    return "M " + " L ".join(steps)


def _mark(mark: Mark, across: Axis, up: Axis) -> Markup:
    px, py = across.at(mark.x), up.at(mark.y)
    left = px > (LEFT + WIDTH) * 0.62
    above = py > TOP + 22
    return Markup(
        '<circle cx="{}" cy="{}" r="6" fill="{}" stroke="var(--ground, #fff)" stroke-width="2">'
        '</circle><text x="{}" y="{}" font-size="13" font-weight="600" text-anchor="{}" '
        'paint-order="stroke" stroke="var(--ground, #fff)" stroke-width="4" fill="{}">{}</text>'
    ).format(
        *(short(px), short(py), INK),
        *(short(px + (-10 if left else 10)), short(py + (-8 if above else 18))),
        *("end" if left else "start", INK, mark.label),
    )


SHAPES = ("circle", "square", "diamond", "triangle", "cross", "ring")


def _shape(n: int, x: float, y: float, r: float) -> str:
    """A path for the n-th kind: colour alone would not tell kinds apart."""
    tall, thin = 1.3 * r, r / 2
    right, left = ("h", thin), ("h", -thin)
    down, up = ("v", thin), ("v", -thin)
    half = ("a", r, r, "0 1 0")
    return {
        "circle": drawn("M", x - r, y, *half, 2 * r, "0", *half, -2 * r, "0"),
        "square": drawn("M", x - r, y - r, "h", 2 * r, "v", 2 * r, "h", -2 * r, "z"),
        "diamond": drawn(
            "M", x, y - tall, "l", tall, tall, "l", -tall, tall, "l", -tall, -tall, "z"
        ),
        "triangle": drawn("M", x, y - 1.2 * r, "l", 1.2 * r, 2.2 * r, "h", -2.4 * r, "z"),
        "cross": drawn(
            *("M", x - r, y - thin, *right, *up, "h", r, *down, *right, "v", r),
            *(*left, *down, "h", -r, *up, *left, "z"),
        ),
        "ring": drawn("M", x - r, y - r, "L", x + r, y + r, "M", x + r, y - r, "L", x - r, y + r),
    }[SHAPES[n % len(SHAPES)]]


def _point(point: Point, kind: int, across: Axis, up: Axis) -> Markup:
    px, py, r = across.at(point.x), up.at(point.y), 6.5 if point.big else 3.5
    dot = Markup(
        '<path data-key="{}" d="{}" fill="{}" fill-opacity="{}" stroke="{}">'
        "<title>{}</title></path>"
    ).format(
        point.key, _shape(kind, px, py, r), tint(kind), 1 if point.big else 0.55,
        INK if point.big else tint(kind), point.label,
    )  # fmt: skip
    if not point.big:
        return dot
    left = px > (LEFT + WIDTH) * 0.62
    return dot + Markup(
        '<text data-key="{}" x="{}" y="{}" font-size="12" text-anchor="{}" '
        'paint-order="stroke" stroke="var(--ground, #fff)" stroke-width="3" fill="{}">{}</text>'
    ).format(
        point.key, short(px + (-9 if left else 9)), short(py + 4), "end" if left else "start", INK,
        point.label if len(point.label) <= 34 else point.label[:33] + "…",
    )  # fmt: skip


def _legend(names: Iterable[str], *, shapes: bool = False) -> Markup:
    def sign(n: int) -> Markup:
        if shapes:
            return Markup('<path d="{}" fill="{}" stroke="{}"></path>').format(
                _shape(n, 14, 8, 5), tint(n), tint(n)
            )
        return Markup(
            '<line x1="0" x2="28" y1="8" y2="8" stroke="{}" stroke-width="3" '
            'stroke-dasharray="{}"></line>'
        ).format(tint(n), DASHES[n % len(DASHES)])

    entries = Markup("").join(
        Markup(
            '<span style="display:inline-block;margin-right:16px"><svg aria-hidden="true" '
            'width="28" height="16" viewBox="0 0 28 16" style="display:inline;min-width:0;'
            'width:28px;vertical-align:-3px">{}</svg> {}</span>'
        ).format(sign(n), name or "the rest")
        for n, name in enumerate(names)
    )
    return Markup("<p>{}</p>").format(entries)
