"""Variety: the next chunk should be relevant, and unlike those that were chosen already.

Ten hits that say one thing are worth one.  *Maximal marginal relevance* chooses greedily, each
time the chunk with the greatest (Carbonell and Goldstein 1998):

    MMR(c) = trade · relevance(c) - (1 - trade) · likeness(c)
    likeness(c) = max(0, cosines of c to the chunks chosen before)

Both must lie on one scale, so the hits' scores are brought to 0..1, the best is 1 and the worst 0.
A chunk's score is its MMR at the moment when it was chosen.  These never rise along the ranking:
the more is chosen, the larger the greatest likeness, so what is left can only lose.  (That is why a
cosine below 0 counts as 0.  The first chunk has nothing to be like, and no other may gain by it.)

Left out: relevance that means the same for every query.  0..1 is relative to these candidates, so
one outlier at the top pushes all others together, and `trade` then weighs more than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.index import Index
from raglab.retrieve.ranking import DIGITS, rank
from raglab.types import Chunk, Part, Query, RagLabError, Ranking


def marginal(relevance: float, likeness: float, trade: float) -> float:
    """The two sides of the trade, added.

    >>> round(marginal(0.88, 0.95, trade=0.7), 3), round(marginal(0.60, 0.20, trade=0.7), 3)
    (0.331, 0.36)
    """
    return trade * relevance - (1 - trade) * likeness


def scaled(scores: Sequence[float]) -> list[float]:
    """(score - worst) / (best - worst), from 0 to 1; all 1 where all are the same.

    >>> scaled([5.0, 4.0, 1.0])
    [1.0, 0.75, 0.0]
    """
    worst, best = min(scores, default=0.0), max(scores, default=0.0)
    if best - worst < 1e-12:
        return [1.0] * len(scores)
    return [(score - worst) / (best - worst) for score in scores]


@dataclass(frozen=True)
class MMR:
    """Maximal marginal relevance, over the index's sentence vectors.

    trade: near 0, variety alone (the first pick apart); at 1, the order as it was.
    k: how many to choose; None chooses all, in the new order.
    """

    index: Index
    trade: float = 0.7
    k: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.trade <= 1:
            raise RagLabError(
                f"trade is {self.trade}: it must be more than 0, or the query would not matter, "
                "and at most 1, which keeps the order"
            )
        if self.k is not None and self.k < 1:
            raise RagLabError(f"k is {self.k}: choose at least 1 hit, or None for all")

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        """The chosen hits, in the order in which they were chosen. The query is not read again."""
        if not hits:
            return hits
        cosines = self.likeness([hit.chunk.chunk_id for hit in hits])
        relevance = scaled([hit.score for hit in hits])
        nearest: list[int | None] = [None] * len(hits)  # row of the chosen hit it is most like
        like = [0.0] * len(hits)
        left = list(range(len(hits)))
        chosen: list[tuple[Chunk, list[Part]]] = []
        while left and len(chosen) != self.k:
            values = {row: marginal(relevance[row], like[row], self.trade) for row in left}
            best = min(left, key=lambda row: (-values[row], hits[row].chunk.chunk_id))
            parts = [Part("relevance", self.trade * relevance[best])]
            twin = nearest[best]
            if twin is not None:
                name = f"like {hits[twin].chunk.chunk_id}"
                parts.append(Part(name, -((1 - self.trade) * like[best])))
            chosen.append((hits[best].chunk, parts))
            left.remove(best)
            for row in left:
                if cosines[row, best] > like[row]:
                    nearest[row], like[row] = best, float(cosines[row, best])
        return rank(chosen)

    def likeness(self, chunk_ids: Sequence[str]) -> NDArray[np.float64]:
        """float [n, n]: the cosine of each chunk to each other one."""
        rows = self.index.vectors[[self.index.rows[chunk_id] for chunk_id in chunk_ids]]
        return np.round((rows @ rows.T).astype(float), DIGITS)
