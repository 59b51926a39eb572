"""Approximate retrieval: a few right answers given up, for speed or for bytes.

    recall of the approximation = exact neighbours that it found / exact neighbours       (at k)

How the structures work is in `structures.py`; here they become a retriever, with the filter inside
the search.  Whether recall against exact search matters to the reader is another question: a
neighbour that was missed need not have held the answer.

Left out: how equal scores fall at the cut, which is as FAISS leaves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from raglab.ingest.embed import unit
from raglab.ingest.index import Index
from raglab.retrieve.dense import Scored, cosine_parts, nearest
from raglab.retrieve.ranking import DIGITS, Mask
from raglab.retrieve.structures import Built, Plan, Rows
from raglab.types import Allowed, Embedder, Part, Query, Ranking, Vectors

BLOCK = 50_000  # vectors that are made at once


@dataclass(frozen=True)
class Approximate:
    """A retriever over any of these structures.

    exact_below: where a filter leaves no more chunks than this, hnsw and ivf compare all of them.
    A walk that may keep few of the vectors on its way ends with fewer than k hits, and comparing
    so few costs no more than the walk.
    """

    index: Index
    embedder: Embedder
    plan: Plan = Plan()
    exact_below: int = 1000

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """At most k chunks near to the query, most of them the nearest."""
        return self.retrieve_many((query,), k, allowed)[0]

    def retrieve_many(
        self, queries: Sequence[Query], k: int, allowed: Allowed | None = None
    ) -> tuple[Ranking, ...]:
        return nearest(self.index.chunks, self.embedder, queries, k, allowed, self._search)

    def _search(self, queries: Vectors, k: int, eligible: Mask) -> Iterable[Scored]:
        few = not eligible.all() and np.count_nonzero(eligible) <= self.exact_below
        if few and self.plan.kind in ("hnsw", "ivf", "ivf-pq"):
            rows = np.flatnonzero(eligible)
            return [cosine_parts(query, self.index.vectors, rows) for query in queries]
        built = replace(_built(self.index, self.plan.to_build), plan=self.plan)
        agreeing = self.plan.kind == "bits" and not self.plan.rescored
        name = "bits agreeing" if agreeing else "cosine"
        return [
            [(row, Part(name, round(s, DIGITS))) for s, row in zip(*found, strict=True) if row >= 0]
            for found in zip(*(x.tolist() for x in built.search(queries, k, eligible)), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Trial:
    """What plans cost and find on the same vectors [n, d] and queries [q, d]."""

    vectors: Vectors
    queries: Vectors
    k: int = 10
    _known: dict[Plan, Built] = field(default_factory=dict, repr=False)

    def __call__(self, plan: Plan) -> tuple[float, float]:
        """(vectors compared a query, recall@k against exact search); no clock, so it repeats."""
        built = self.built(plan)
        rows = built.search(self.queries, self.k)[1][:, : self.k]
        return built.compared(self.queries, self.k), agreement(self._exact, rows)

    def built(self, plan: Plan) -> Built:
        """Built once for all plans that differ only in how they search."""
        if plan.to_build not in self._known:
            self._known[plan.to_build] = plan.build(self.vectors)
        return replace(self._known[plan.to_build], plan=plan)

    def at(self, kind: str, effort: int) -> tuple[float, float]:
        """The same, by the knob that decides: ef_search of "hnsw", nprobe of "ivf"."""
        return self(Plan(kind, ef_search=effort, nprobe=effort))

    @cached_property
    def _exact(self) -> Rows:
        return Plan("flat").build(self.vectors).search(self.queries, self.k)[1]


def agreement(exact: Rows, found: Rows) -> float:
    """Recall of an approximate search: the share of the exact rows [q, k] that it found [q, any].

    >>> agreement(np.array([[1, 2], [3, 4]]), np.array([[2, 1], [3, 9]]))
    0.75
    """
    shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    return sum(shared) / exact.size


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The a of cost = c · size^a: the slope of the least-squares line through the logarithms.

    >>> round(exponent([10, 100, 1000], [2, 20, 200]), 6)  # ten times the size, ten times the cost
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def perturbed(vectors: Vectors, n: int, noise: float, seed: int = 0) -> Vectors:
    """[n, d]: more vectors than there are, by adding noise to real ones, over and over.

    The noise is Gaussian, the same in all directions, and about `noise` long; the sum is scaled to
    length 1.  A copy's cosine with its original is then about 1 / √(1 + noise²), and with another
    copy 1 / (1 + noise²).  Real text does not spread alike in all directions, and is easier.
    """
    random = np.random.default_rng(seed)
    made = np.empty((n, vectors.shape[1]), np.float32)
    scale = np.float32(noise / vectors.shape[1] ** 0.5)
    for start in range(0, n, BLOCK):
        rows = np.arange(start, min(start + BLOCK, n)) % len(vectors)
        shifts = random.standard_normal((len(rows), vectors.shape[1]), np.float32)
        made[start : start + BLOCK] = unit(vectors[rows] + scale * shifts)
    return made


@lru_cache(maxsize=8)
def _built(index: Index, plan: Plan) -> Built:
    return plan.build(index.vectors)
