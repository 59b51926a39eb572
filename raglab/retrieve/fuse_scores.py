"""Fusion by scores: bring each list to one scale, then add.

Ranks forget how far apart two hits stand.  Scores know it, but each list has a scale of its own,
so every list is normalised first, over its own hits for this query:

    min-max   (s - min) / (max - min)              from 0, its last hit, to 1, its best
    z-score   (s - mean) / standard deviation      0 is the list's average hit

Then the lists are added up:

    CombSUM(c) = Σ_lists  s'(c)                                       Fox and Shaw 1994
    CombMNZ(c) = CombSUM(c) · number of lists that hold c             min-max by Lee 1997
    Convex(c)  = alpha · s'_dense(c) + (1 - alpha) · s'_sparse(c)     Bruch, Gai and Ingber 2023

A list that lacks a chunk adds 0, as in ranx (Bassani 2022).  After min-max that is the list's last
hit, the closest guess.  After z-scores it is the average one: a chunk that a list does not hold
then beats those of its lower half.  And min-max gives the first hit of every list exactly 1: at
equal weights, first hits that stand in one list alone tie, and chunk_id decides.

Left out: a bound from theory in place of the list's own min (Bruch et al. use -1 for a cosine and
0 for BM25), and scores turned into probabilities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from raglab.retrieve.fuse import add_up, lane
from raglab.retrieve.ranking import z_scores
from raglab.types import Chunk, RagLabError, Ranking

Norm = Literal["min-max", "z-score"]
Scored = dict[str, list[tuple[Chunk, float]]]  # list -> its chunks, and what each is worth there
GRID = tuple(step / 20 for step in range(21))  # 0, 0.05, ..., 1


def min_max(values: Sequence[float]) -> list[float]:
    """(value - min) / (max - min), from 0 to 1; all 1 where the values are all the same.

    0 / 0 asks for a choice.  1 keeps a hit that its list found alone, such as the one chunk with
    an error code; ranx's choice is 0, which makes it count as if it had not been found.

    >>> min_max([9.0, 4.0, 5.0]), min_max([7.5])
    ([1.0, 0.0, 0.2], [1.0])
    """
    if not values:
        return []
    low, high = min(values), max(values)
    if high - low < 1e-12:
        return [1.0] * len(values)
    return [(value - low) / (high - low) for value in values]


NORMS: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "min-max": min_max,
    "z-score": z_scores,
}


@dataclass(frozen=True)
class CombSUM:
    """The sum of the normalised scores; a part for each list that holds the chunk."""

    norm: Norm = "min-max"

    def __post_init__(self) -> None:
        _check(self.norm)

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every chunk of every list, best first."""
        return add_up(_normalised(rankings, self.norm))


@dataclass(frozen=True)
class CombMNZ:
    """CombSUM times the number of lists that hold the chunk; so each part is multiplied by it."""

    norm: Norm = "min-max"

    def __post_init__(self) -> None:
        _check(self.norm)

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every chunk of every list, best first."""
        holders = Counter(hit.chunk.chunk_id for hits in rankings.values() for hit in hits)
        return add_up(
            {
                name: [(chunk, holders[chunk.chunk_id] * value) for chunk, value in scored]
                for name, scored in _normalised(rankings, self.norm).items()
            }
        )


@dataclass(frozen=True)
class Convex:
    """alpha for one lane's list and 1 - alpha for the rest; a part for each list.

    alpha: from 0, only the others count, to 1, only this lane does.  Where rewritten queries give
    a lane several lists ("dense", "dense 2"), they share its weight in equal parts; so do the
    others.  The weights of all lists sum to 1.
    """

    alpha: float = 0.5
    lane: str = "dense"
    norm: Norm = "min-max"

    def __post_init__(self) -> None:
        _check(self.norm)
        if not 0 <= self.alpha <= 1:
            raise RagLabError(f"alpha is {self.alpha}: it must lie between 0 and 1")

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every chunk of every list, best first. Raises RagLabError where no list is the lane's."""
        mine = [name for name in rankings if self.lane in (name, lane(name))]
        if rankings and not mine:
            there = ", ".join(repr(name) for name in rankings)
            raise RagLabError(f"alpha weighs {self.lane!r}, but the lists are {there}: name one")
        weights = {
            name: (1 - self.alpha) / (len(rankings) - len(mine))
            for name in rankings
            if name not in mine
        }
        weights |= {name: self.alpha / len(mine) for name in mine}
        return add_up(
            {
                name: [(chunk, weights[name] * value) for chunk, value in scored]
                for name, scored in _normalised(rankings, self.norm).items()
            }
        )


def _normalised(rankings: Mapping[str, Ranking], norm: Norm) -> Scored:
    return {
        name: [
            (hit.chunk, value)
            for hit, value in zip(hits, NORMS[norm]([hit.score for hit in hits]), strict=True)
        ]
        for name, hits in rankings.items()
    }


def _check(norm: str) -> None:
    if norm not in NORMS:
        raise RagLabError(f"there is no norm {norm!r}: choose one of {', '.join(NORMS)}")


# -- finding the weight ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Searched:
    """The best weight, and how good each one was: pairs (weight, value), weights ascending."""

    best: float
    curve: tuple[tuple[float, float], ...]

    @property
    def value(self) -> float:
        """How good the best one was."""
        return dict(self.curve)[self.best]


def best_weight(judge: Callable[[float], float], grid: Sequence[float] = GRID) -> Searched:
    """Tries every weight of the grid. `judge(weight)` says how good it is, on questions that are
    for choosing; of equally good weights the one nearest to the middle is taken.

    >>> best_weight(lambda weight: 1 - abs(weight - 0.3)).best
    0.3
    >>> best_weight(lambda weight: 1.0 if weight >= 0.6 else 0.0).best
    0.6
    """
    if not grid:
        raise RagLabError("the grid is empty: give at least one weight to try")
    curve = tuple((weight, judge(weight)) for weight in sorted(grid))
    best, _ = max(curve, key=lambda pair: (pair[1], -abs(pair[0] - 0.5)))
    return Searched(best, curve)
