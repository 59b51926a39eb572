"""Is the difference between two runs more than luck: the paired randomisation test.

Suppose that the two runs were equally good.  Then, for each query, it was chance which run got
the better value, and the two could be swapped.  So they are swapped at random, many times over:

    p = share of the swappings whose |mean difference| >= the observed |mean difference|

Fisher 1935; for search, Smucker, Allan and Carterette 2007, "A comparison of statistical
significance tests for information retrieval evaluation".  Few pairs are enumerated: n of them can
be swapped in 2^n ways, and where that is no more than the draws, p is exact.

A small p says that luck alone would seldom do this.  It does not say that the difference is
large (its interval says how large), and of twenty comparisons without any effect one has p < 0.05.

Left out: corrections for many comparisons, and the t and sign tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from raglab.evaluate.compare import Judgement, helped_harmed, same_queries
from raglab.evaluate.intervals import Interval, difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one run to another, over the same queries."""

    difference: Interval  # of the means, after - before
    p: float  # two-sided, of the paired randomisation test
    helped: tuple[str, ...]  # query ids
    harmed: tuple[str, ...]

    def __str__(self) -> str:
        """
        >>> str(Comparison(Interval(0.1, -0.02, 0.2), 0.0421, ("q1", "q2"), ("q7",)))
        '+0.10 [-0.02, +0.20], p = 0.042, 2 helped, 1 harmed'
        """
        counts = f"{len(self.helped)} helped, {len(self.harmed)} harmed"
        return f"{self.difference.signed}, {p_text(self.p)}, {counts}"


def compare(before: Judgement, after: Judgement, draws: int = 10_000, seed: int = 0) -> Comparison:
    """The paired comparison. Raises RagLabError where the two do not judge the same queries."""
    p = paired_randomisation(before, after, draws, seed)
    pairs = [(before[query_id], after[query_id]) for query_id in before]
    change = difference([was for was, _ in pairs], [now for _, now in pairs])
    return Comparison(change, p, *helped_harmed(before, after))


def paired_randomisation(
    before: Judgement, after: Judgement, draws: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p, over matched queries; 1.0 where no query changed.

    Three pairs have 8 swappings.  Observed: (0.5 + 0.3 + 0.1) / 3 = 0.3; the only swappings that
    reach 0.3 either way are none and all, so p = 2/8:

    >>> before = {"q1": 0.0, "q2": 0.2, "q3": 0.4}
    >>> paired_randomisation(before, {"q1": 0.5, "q2": 0.5, "q3": 0.5})
    0.25
    """
    same_queries(before, after)
    changes = np.array([after[query_id] - was for query_id, was in before.items()])
    # Swapping a pair turns the sign of its change. A change of 0 has none: it leaves the sum, and
    # so p, as it is, and without it more comparisons can be enumerated.
    changes = changes[changes != 0]
    if len(changes) < 2:
        return 1.0  # the two swappings of a single change are both as large as what was observed
    from scipy.stats import permutation_test

    def summed(one: Any, other: Any, axis: int = -1) -> Any:
        return np.sum(other - one, axis=axis)

    tested = permutation_test(
        (np.zeros(len(changes)), changes),
        summed,
        permutation_type="samples",
        vectorized=True,
        n_resamples=draws,
        batch=1000,
        alternative="two-sided",
        rng=np.random.default_rng(seed),
    )
    return float(tested.pvalue)


def p_text(p: float) -> str:
    """
    >>> p_text(0.25), p_text(0.0002)
    ('p = 0.250', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
