"""Before the best k are sorted out: a floor that leaves few rows to look at.

Cut n scores into groups and take the best of each.  The k-th best of these is a floor: k groups
reach it, so at least k rows do, and a row below it is not among the k best.

Two passes over the scores find the floor, at a fraction of what a partial sort of them costs, and
what is left is little more than k rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raglab.retrieve.ranking import Mask

GROUPS = (
    16  # for each of the k: more groups leave fewer rows, and cost a longer sort of their bests
)


def contenders(scores: NDArray[np.float64], k: int, least: float) -> Mask:
    """bool [n]: the rows with a score of at least `least` that can be among the k best; all ties.

    >>> scores = np.tile([0.0, 1.0, 2.0, 3.0], 64)
    >>> scores[7] = 9.0
    >>> np.flatnonzero(contenders(scores, 1, least=1.0)).tolist()
    [7]
    """
    groups = GROUPS * k
    if k > 0 and len(scores) >= GROUPS * groups:
        deep = len(scores) // groups
        best = scores[: groups * deep].reshape(deep, groups).max(axis=0)
        least = max(least, float(np.partition(best, groups - k)[groups - k]))
    reached: Mask = scores >= least
    return reached
