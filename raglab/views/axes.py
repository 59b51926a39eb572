"""Axes for plots: from values to pixels, round ticks, and the frame that they stand in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from raglab.views.bars import INK, SOFT

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 46
EDGE = "var(--edge, #d5dae0)"


@dataclass(frozen=True, slots=True)
class Axis:
    """Values to pixels, with round ticks. `log` axes hold values above 0 alone."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (self._scale(v) for v in (self.low, self.high, value))
        # A tenth of a pixel: the last digits of a model's numbers differ from machine to machine.
        return round(self.start + (self.end - self.start) * (value - low) / (high - low), 1)

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            tens = [10.0**power for power in range(first, last + 1)]
            inside = [t for t in tens if self.low * 0.999 <= t <= self.high * 1.001]
            return inside if len(inside) > 1 else [self.low, self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (step * m) <= 5.001)
        first = math.ceil(self.low / step - 1e-9)
        return [
            (first + i) * step for i in range(9) if (first + i) * step <= self.high + step / 1e6
        ]


def axis(values: Sequence[float], start: float, end: float, log: bool) -> Axis:
    low, high = min(values), max(values)
    if log:
        low = max(low, 1e-9)
        return Axis(low, high if high > low else low * 10, start, end, True)
    if low == high:
        low, high = low - 0.5, high + 0.5
    room = 0.04 * (high - low)
    return Axis(0.0 if 0 <= low < 0.2 * high else low - room, high + room, start, end)


def frame(across: Axis, up: Axis, x: str, y: str, ticks: bool = True) -> list[Markup]:
    made = []
    for tick in up.ticks() if ticks else ():
        made.append(
            Markup(
                '<line x1="{0}" x2="{1}" y1="{2}" y2="{2}" stroke="{3}"></line>'
                '<text x="{4}" y="{5}" font-size="12" text-anchor="end" fill="{6}">{7}</text>'
            ).format(
                LEFT,
                WIDTH - RIGHT,
                short(up.at(tick)),
                EDGE,
                LEFT - 6,
                short(up.at(tick) + 4),
                SOFT,
                short(tick),
            )
        )
    for tick in across.ticks() if ticks else ():
        made.append(
            Markup(
                '<text x="{}" y="{}" font-size="12" text-anchor="middle" fill="{}">{}</text>'
            ).format(short(across.at(tick)), HEIGHT - BOTTOM + 17, SOFT, short(tick))
        )
    middle, half = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    if x:
        made.append(
            Markup(
                '<text x="{}" y="{}" font-size="13" text-anchor="middle" fill="{}">{}</text>'
            ).format(short(middle), HEIGHT - 8, INK, x)
        )
    if y:
        made.append(
            Markup(
                '<text transform="translate(13 {}) rotate(-90)" font-size="13" '
                'text-anchor="middle" fill="{}">{}</text>'
            ).format(short(half), INK, y)
        )
    return made


def svg(content: Iterable[Markup], label: str, height: int = HEIGHT) -> Markup:
    return Markup(
        '<svg role="img" aria-label="{}" viewBox="0 0 {} {}" font-family="system-ui, sans-serif">'
        "{}</svg>"
    ).format(label, WIDTH, height, Markup("").join(content))


def short(value: float) -> str:
    """
    >>> short(0.30000000000000004), short(120.0), short(1234567.0)
    ('0.3', '120', '1234567')
    """
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{round(value, 3):g}" if abs(value) < 100_000 else f"{value:.0f}"


def drawn(*steps: str | float) -> str:
    """An SVG path's letters and numbers as one text.

    >>> drawn("M", 1.0, 2.5, "h", 4)
    'M 1 2.5 h 4'
    """
    return " ".join(step if isinstance(step, str) else short(step) for step in steps)
