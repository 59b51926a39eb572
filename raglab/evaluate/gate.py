"""The regression gate: what got worse than an earlier scorecard, beyond chance.

A mean always moves a little.  A measure of a kind of question fails the gate where, over the
questions that both cards judge, its mean fell by at least `floor`, and the paired randomisation
test gives p < 0.05.  Five questions that changed cannot fail it: p is then at least 2/2^5 = 0.06.

Many tests stand side by side, and of a hundred without any effect a few fall below 0.05.  So a gate
that fails says "look here", and names the questions that were harmed.

Left out: corrections for many tests, and cost and time, which another machine changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raglab.evaluate.scorecard import METRICS, Scorecard, paired
from raglab.evaluate.significance import Comparison
from raglab.types import RagLabError

FLOOR = 0.02
SURE = 0.05


@dataclass(frozen=True, slots=True)
class Worse:
    """A measure that fell, of a pipeline, on one kind of question."""

    pipeline: str
    metric: str
    kind: str
    comparison: Comparison

    def __str__(self) -> str:
        harmed = self.comparison.harmed
        named = ", ".join(harmed[:5]) + (f" and {len(harmed) - 5} more" if harmed[5:] else "")
        return f"{self.pipeline}, {self.metric}, {self.kind}: {self.comparison} ({named})"


def regressions(
    before: Scorecard, after: Scorecard, *, floor: float = FLOOR, sure: float = SURE
) -> tuple[Worse, ...]:
    """What got worse, pipeline by pipeline; empty where nothing did.

    floor: the least fall of a mean that counts.  sure: p must lie below it.
    Raises RagLabError where the cards judge other questions, or `after` lacks a pipeline.
    """
    check_alike(before, after)
    found = []
    for pipeline in before.pipelines:
        for metric in METRICS:
            for kind in before.by_kind():
                was, now = before.of(pipeline, metric, kind), after.of(pipeline, metric, kind)
                change = paired(was, now)
                if change and change.difference.value <= -floor and change.p < sure:
                    found.append(Worse(pipeline, metric, kind, change))
    return tuple(found)


def verdict(worse: Sequence[Worse]) -> str:
    """In words, a line for each.

    >>> verdict(())
    'nothing got worse beyond chance'
    """
    if not worse:
        return "nothing got worse beyond chance"
    return "\n".join((f"{len(worse)} got worse beyond chance:", *(f"  {one}" for one in worse)))


def check_alike(before: Scorecard, after: Scorecard) -> None:
    """Raises RagLabError where the two cannot be compared."""
    if (before.corpus, before.split) != (after.corpus, after.split):
        raise RagLabError(
            f"the earlier card is of {before.corpus}, {before.split}, this one of {after.corpus}, "
            f"{after.split}: compare like with like, or save a new one"
        )
    if dict(before.kinds) != dict(after.kinds):
        odd = sorted(set(before.kinds.items()) ^ set(after.kinds.items()))
        raise RagLabError(
            f"the two cards judge other questions ({odd[0][0]!r} for one): give the same --queries "
            "and --kind, or save a new card with --save"
        )
    lacking = [name for name in before.pipelines if name not in after.values]
    if lacking:
        raise RagLabError(
            f"the earlier card holds {lacking[0]!r}, this one does not: run it too with "
            f"--preset {lacking[0]}"
        )
