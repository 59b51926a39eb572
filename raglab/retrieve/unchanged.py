"""No reranking: what a pipeline without a reranker has in its place."""

from __future__ import annotations

from dataclasses import dataclass

from raglab.types import Query, Ranking


@dataclass(frozen=True)
class Unchanged:
    """Returns the hits as they are."""

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        return hits
