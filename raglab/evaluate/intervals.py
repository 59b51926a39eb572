"""How sure a mean is: bootstrap intervals.

The questions are a sample.  Drawing as many again from them, with replacement, many times over,
shows how far the mean would swing with other questions of the same kind (Efron 1979; for ranking
measures, Sakai 2006).  Intervals are 95% percentile intervals, seeded so that they repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the bounds of its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    @property
    def signed(self) -> str:
        """With the signs, as a difference is written.

        >>> Interval(0.1, -0.001, 0.2).signed
        '+0.10 [+0.00, +0.20]'
        """
        # Adding 0.0 turns the -0.0 that rounding leaves into 0.0.
        value, low, high = (round(bound, 2) + 0.0 for bound in (self.value, self.low, self.high))
        return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def interval(values: Sequence[float]) -> Interval:
    """The mean, and how far it swings. One value, or equal values, swing nowhere.

    >>> str(interval([1.0, 1.0]))
    '1.00 [1.00, 1.00]'
    """
    return _bootstrap((values,), lambda sample, axis=-1: np.mean(sample, axis=axis))


def difference(before: Sequence[float], after: Sequence[float]) -> Interval:
    """mean after - mean before, over pairs: both are of the same questions, in the same order.

    Raises ValueError where one of them is longer.

    >>> str(difference([0.0, 0.5], [0.5, 1.0]))
    '0.50 [0.50, 0.50]'
    """
    return interval([now - was for was, now in zip(before, after, strict=True)])


def relative_change(before: Sequence[float], after: Sequence[float]) -> Interval:
    """(mean after - mean before) / mean before, over pairs: both are of the same questions.

    Raises ValueError where the mean before is 0: there is nothing to be relative to.
    """
    if not np.mean(before):
        raise ValueError("the mean before is 0: a change relative to it has no meaning")

    def change(one: Any, other: Any, axis: int = -1) -> Any:
        first, second = np.mean(one, axis=axis), np.mean(other, axis=axis)
        # A draw may hold no failure at all; nothing then changed.
        return np.where(first == 0, 0.0, (second - first) / np.where(first == 0, 1.0, first))

    return _bootstrap((before, after), change)


def _bootstrap(samples: Sequence[Sequence[float]], statistic: Callable[..., Any]) -> Interval:
    arrays = tuple(np.asarray(sample, float) for sample in samples)
    value = float(statistic(*arrays))
    if len(arrays[0]) < 2 or all(np.ptp(array) == 0 for array in arrays):
        return Interval(value, value, value)
    from scipy.stats import bootstrap

    drawn = bootstrap(
        arrays,
        statistic,
        n_resamples=DRAWS,
        paired=len(arrays) > 1,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(value, float(drawn.low), float(drawn.high))
