"""Where to refuse: what a threshold turns away, and what it lets through.

    refused, as it should be    nothing answers the question, and its best support is too low
    refused wrongly             the context holds the evidence, and yet the support is too low

A threshold moves both at once.  `refusal_panel` is given the best support of each question, so
this module knows no generator.

Left out: whether an answer that was given is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raglab.types import RagLabError
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, curves

NOTHING, SOMETHING = "nothing answers it", "the context holds the evidence"
MOST = 0.6  # where the knob and the curves end; the best support is seldom higher
STEPS = 60


def refused(supports: Sequence[float], threshold: float) -> int:
    """How many are refused: those whose best support lies below the threshold.

    >>> refused([0.2, 0.3, 0.4], 0.3)
    1
    """
    return sum(support < threshold for support in supports)


def refusal_panel(
    nothing: Sequence[float], something: Sequence[float], *, threshold: float = 0.3
) -> Panel:
    """The share that is refused against the threshold, for two groups of questions.

    nothing: the best support of each question that nothing answers.
    something: the same of each question whose evidence is in the context.
    """
    if not nothing or not something:
        raise RagLabError("a curve needs questions of both groups: give at least one of each")
    groups = {NOTHING: nothing, SOMETHING: something}

    def draw(threshold: float) -> Drawing:
        return refusal_drawing(groups, threshold)

    knob = Knob("threshold", "Refuse below a support of", threshold, 0.0, MOST, MOST / STEPS)
    return Panel("Where to refuse", draw, (knob,))


def refusal_drawing(groups: Mapping[str, Sequence[float]], threshold: float) -> Drawing:
    """A curve for each group, marked where the threshold stands; in words the counts."""
    places = [MOST * step / STEPS for step in range(STEPS + 1)]
    series = {
        name: [(at, refused(supports, at) / len(supports)) for at in places]
        for name, supports in groups.items()
    }
    counts = {name: refused(supports, threshold) for name, supports in groups.items()}
    marks = [
        Mark(threshold, counts[name] / len(supports), f"{counts[name]} of {len(supports)}")
        for name, supports in groups.items()
    ]
    words = (
        f"Below {threshold:.2f}, {counts[NOTHING]} of {len(groups[NOTHING])} questions that "
        f"nothing answers are refused, as they should be. So are {counts[SOMETHING]} of "
        f"{len(groups[SOMETHING])} whose evidence is in the context: wrongly."
    )
    return Drawing(curves(series, "threshold", "share refused", marks=marks), words)
