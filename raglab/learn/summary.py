"""What attempts come to: how many of each kind, how good, and where the learner is at home.

A stage is called the best or the weakest only from three predictions on: one lucky guess says
little.

Left out: forgetting.  An answer of last month counts as much as one of today.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from raglab.learn.attempt import Attempt

ENOUGH = 3  # predictions of a stage before it is called the best or the weakest
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tally:
    count: int
    mean: float  # of the scores, from 0 to 1


@dataclass(frozen=True, slots=True)
class Summary:
    """Tallies of attempts. Branches such as "dense 2" count as their stage, "dense"."""

    kinds: Mapping[str, Tally]  # by kind: "order", "knob", ...
    steps: Mapping[tuple[str, str], Tally]  # by kind and what it was about

    def steps_of(self, kind: str) -> dict[str, Tally]:
        """what -> tally, of one kind."""
        return {what: tally for (one, what), tally in self.steps.items() if one == kind}

    def words(self) -> str:
        """A sentence for each kind."""
        if not self.kinds:
            return "Nothing is kept yet. Predict an order, and it will be."
        return " ".join(self._sentence(kind, tally) for kind, tally in self.kinds.items())

    def _sentence(self, kind: str, tally: Tally) -> str:
        n, share = tally.count, f"{tally.mean:.0%}"
        plural = "" if n == 1 else "s"
        if kind == "order":
            said = f"{n} prediction{plural}, {share} of pairs in the right order"
            return f"{said}{self._extremes()}."
        if kind == "knob":
            return f"{n} knob question{plural}, {share} right."
        return f"{kind.capitalize()}: {n} answer{plural}, {share} right."

    def _extremes(self) -> str:
        known = {w: t.mean for w, t in self.steps_of("order").items() if t.count >= ENOUGH}
        if not known:
            return ""
        best = max(known, key=lambda what: known[what])
        weakest = min(known, key=lambda what: known[what])
        if f"{known[best]:.0%}" == f"{known[weakest]:.0%}":
            return ""
        return (
            f"; {best} is your best stage ({known[best]:.0%}), "
            f"{weakest} your weakest ({known[weakest]:.0%})"
        )


def summarize(attempts: Iterable[Attempt]) -> Summary:
    """Kinds and steps come in the order of their first attempt.

    >>> two = (Attempt("order", "dense", "q", 1), Attempt("order", "dense 2", "q", 0.5))
    >>> summarize(two).words()
    '2 predictions, 75% of pairs in the right order.'
    """
    attempts = tuple(attempts)
    return Summary(
        kinds=_tallies(attempts, lambda one: one.kind),
        steps=_tallies(attempts, lambda one: (one.kind, _step(one))),
    )


def _step(attempt: Attempt) -> str:
    return re.sub(r" \d+$", "", attempt.what) if attempt.kind == "order" else attempt.what


def _tallies(attempts: Iterable[Attempt], key: Callable[[Attempt], Key]) -> dict[Key, Tally]:
    scores: dict[Key, list[float]] = {}
    for attempt in attempts:
        scores.setdefault(key(attempt), []).append(attempt.score)
    return {name: Tally(len(each), sum(each) / len(each)) for name, each in scores.items()}
