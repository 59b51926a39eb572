"""Fusion: several rankings become one.

Scores of different retrievers cannot be added: a cosine ends at 1, BM25 does not end.  Reciprocal
rank fusion looks at ranks alone (Cormack, Clarke and Büttcher 2009):

    RRF(c) = Σ_lists  weight / (k + rank of c in the list)     ranks from 1, k = 60, weight = 1

A large k makes the top of a list count little more than what follows it.  So k decides whom to
believe: with a small one the chunk that one list puts first, with a large one the chunk that both
lists hold.  `flips` finds the k at which two chunks change places.

Left out: fusing by scores (`fuse_scores.py`), and weights that depend on the query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from raglab.retrieve.ranking import rank
from raglab.types import Chunk, Part, RagLabError, Ranking

Weights = tuple[tuple[str, float], ...]
"""(name of a list, how much it counts): a mapping that is frozen, so that a stage can be hashed."""


def reciprocal_rank(rank: int, k: int = 60) -> float:
    """
    >>> round(reciprocal_rank(1) + reciprocal_rank(5), 4)
    0.0318
    """
    return 1 / (k + rank)


@dataclass(frozen=True)
class RRF:
    """Reciprocal rank fusion; a part for each list that holds the chunk.

    weights: how much each list counts, at least 0; a list that is not named counts 1.  A weight
    for "dense" holds for its branches "dense 2" and "dense 3" too, unless they have their own.
    """

    k: int = 60
    weights: Mapping[str, float] | Weights = ()

    def __post_init__(self) -> None:
        if self.k < 0:
            raise RagLabError(f"RRF's k is {self.k}: it must be 0 or more; 60 is the usual value")
        object.__setattr__(self, "weights", _frozen(self.weights))

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every chunk of every list, best first.

        Raises RagLabError for a weight that is none of these lists'.
        """
        weights = weights_of(rankings, dict(self.weights))
        return add_up(
            {
                name: [
                    (hit.chunk, weights[name] * reciprocal_rank(hit.rank, self.k)) for hit in hits
                ]
                for name, hits in rankings.items()
            }
        )


def add_up(lists: Mapping[str, Iterable[tuple[Chunk, float]]]) -> Ranking:
    """list -> (chunk, what the list adds to it) becomes a ranking of every chunk of every list.

    The lists are read in order of their names: floats added in another order may differ in the
    last digit, and a ranking must not depend on the order in which the lists came.
    """
    chunks: dict[str, Chunk] = {}
    parts: dict[str, list[Part]] = {}
    for name in sorted(lists):
        for chunk, value in lists[name]:
            chunks[chunk.chunk_id] = chunk
            parts.setdefault(chunk.chunk_id, []).append(Part(name, value))
    return rank((chunks[chunk_id], addends) for chunk_id, addends in parts.items())


def lane(name: str) -> str:
    """The retriever that a list came from: a rewritten query's lists carry its number.

    >>> lane("dense 2"), lane("dense")
    ('dense', 'dense')
    """
    return re.sub(r" \d+$", "", name)


def weights_of(names: Collection[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Each list's weight: its own, or else its lane's, or else 1.

    Raises RagLabError for a weight that would act on no list, for that is a slip of the pen.

    >>> weights_of(["dense", "dense 2", "sparse"], {"dense": 0.5})
    {'dense': 0.5, 'dense 2': 0.5, 'sparse': 1.0}
    """
    lost = sorted(set(weights) - set(names) - {lane(name) for name in names})
    if lost and names:
        there = ", ".join(repr(name) for name in names)
        raise RagLabError(f"the weight for {lost[0]!r} acts on no list: the lists are {there}")
    return {name: float(weights.get(name, weights.get(lane(name), 1.0))) for name in names}


def _frozen(weights: Mapping[str, float] | Weights) -> Weights:
    pairs = weights.items() if isinstance(weights, Mapping) else weights
    for name, weight in pairs:
        if not 0 <= weight < math.inf:
            raise RagLabError(f"the weight for {name!r} is {weight}: it must be 0 or more")
    return tuple(sorted(pairs))


# -- what k does -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flip:
    """At k - 1, `below` still stood above `above`; at k they have changed places."""

    k: int
    above: str  # chunk ids
    below: str

    def __str__(self) -> str:
        """
        >>> str(Flip(23, "refunds#3", "sla#1"))
        'refunds#3 passes sla#1 at k=23'
        """
        return f"{self.above} passes {self.below} at k={self.k}"


def flips(
    rankings: Mapping[str, Ranking],
    chunk_ids: Collection[str],
    ks: Sequence[int] = range(1, 201),
    weights: Mapping[str, float] | Weights = (),
) -> tuple[Flip, ...]:
    """Where RRF puts two of these chunks the other way round as k goes through `ks`, upwards.

    A pair can flip more than once.
    """
    few = {
        name: tuple(hit for hit in hits if hit.chunk.chunk_id in chunk_ids)
        for name, hits in rankings.items()
    }
    found = []
    before: list[str] = []
    for k in ks:
        order = [hit.chunk.chunk_id for hit in RRF(k, weights).fuse(few)]
        if before and order != before:
            place = {chunk_id: position for position, chunk_id in enumerate(before)}
            found += [
                Flip(k, above, below)
                for row, above in enumerate(order)
                for below in order[row + 1 :]
                if place[below] < place[above]
            ]
        before = order
    return tuple(found)
