"""Fusion: several rankings become one.

Scores of different retrievers cannot be added: a cosine ends at 1, BM25 does not end.  Reciprocal
rank fusion looks at ranks alone (Cormack, Clarke and Büttcher 2009):

    RRF(c) = Σ_lists  1 / (k + rank of c in the list)          ranks from 1, k = 60

A large k makes the top of a list count little more than what follows it.

Left out: fusing by scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raglab.retrieve.ranking import rank
from raglab.types import Chunk, Part, RagLabError, Ranking


def reciprocal_rank(rank: int, k: int = 60) -> float:
    """
    >>> round(reciprocal_rank(1) + reciprocal_rank(5), 4)
    0.0318
    """
    return 1 / (k + rank)


@dataclass(frozen=True)
class RRF:
    """Reciprocal rank fusion; a part for each list that holds the chunk."""

    k: int = 60

    def __post_init__(self) -> None:
        if self.k < 0:
            raise RagLabError(f"RRF's k is {self.k}: it must be 0 or more; 60 is the usual value")

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every chunk of every list, best first."""
        chunks: dict[str, Chunk] = {}
        parts: dict[str, list[Part]] = {}
        for name, hits in rankings.items():
            for hit in hits:
                chunks[hit.chunk.chunk_id] = hit.chunk
                part = Part(name, reciprocal_rank(hit.rank, self.k))
                parts.setdefault(hit.chunk.chunk_id, []).append(part)
        return rank((chunks[chunk_id], addends) for chunk_id, addends in parts.items())
