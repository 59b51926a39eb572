"""Rerankers one after another: each takes what the one before returned.

    Chain((LateInteraction(...), CrossEncoder(depth=20), MMR(...)))

A cascade grows slower and better from stage to stage: the cheap look cuts the candidates down, so
that the expensive one reads few (Wang, Lin and Metzler 2011).  A hit's parts are those of the last
reranker, for whose score they add up; what came before is in them as its "first stage".

Left out: a step for each reranker in the trace, which shows the chain as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from raglab.types import Query, Ranking, Reranker


@dataclass(frozen=True)
class Chain:
    """Applies the rerankers in order; none leaves the hits as they are."""

    rerankers: tuple[Reranker, ...]

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        for reranker in self.rerankers:
            hits = reranker.rerank(query, hits)
        return hits
