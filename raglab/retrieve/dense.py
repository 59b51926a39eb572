"""Dense retrieval: the nearest vectors by cosine.

    score(q, c) = q · c            both of length 1, so the dot product is the cosine

Every chunk is compared: exact, and at the size of a workbook, instant.  `FaissFlat` gives the
same answer through FAISS (Douze et al. 2024, "The Faiss library").

Left out: approximate indexes, which trade a few right answers for speed on millions of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from raglab.ingest.index import Index
from raglab.retrieve.ranking import DIGITS, mask, rank, top
from raglab.types import Allowed, Embedder, Part, Query, RagLabError, Ranking


@dataclass(frozen=True)
class Dense:
    """Exact cosine in numpy: one matrix product a query."""

    index: Index
    embedder: Embedder

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """The k chunks nearest to the query, at most; cosines lie in [-1, 1]."""
        chunks = self.index.chunks
        eligible = mask(chunks, allowed)
        if not query.text.strip() or not eligible.any():
            return ()
        vector = self.embedder.encode_query(query.text).vector
        scores = np.round((self.index.vectors @ vector).astype(float), DIGITS)
        rows = top(scores, k, chunks, eligible)
        return rank((chunks[row], [Part("cosine", float(scores[row]))]) for row in rows)


@dataclass(frozen=True)
class FaissFlat:
    """The same ranking from FAISS's exact inner-product index."""

    index: Index
    embedder: Embedder

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        chunks = self.index.chunks
        eligible = mask(chunks, allowed)
        if not query.text.strip() or not eligible.any():
            return ()
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least 1 hit")
        faiss = _faiss()
        # The filter acts inside the search; filtering afterwards would return fewer than k.
        parameters = faiss.SearchParameters(sel=faiss.IDSelectorBatch(np.flatnonzero(eligible)))
        vector = self.embedder.encode_query(query.text).vector[None, :]
        # FAISS leaves ties at the cut in any order: ask for more until the tie lies inside.
        depth = k
        while True:
            depth = min(2 * depth, len(chunks))
            found, rows = _flat(self.index).search(vector, depth, params=parameters)
            scores = np.round(found[0][rows[0] >= 0].astype(float), DIGITS)
            rows = rows[0][rows[0] >= 0]
            if depth == len(chunks) or len(scores) <= k or scores[-1] < scores[k - 1]:
                break
        scored = (
            (chunks[row], [Part("cosine", float(score))])
            for row, score in zip(rows.tolist(), scores, strict=True)
        )
        return rank(scored, k)


@cache
def _flat(index: Index) -> Any:
    flat = _faiss().IndexFlatIP(index.vectors.shape[1])
    flat.add(np.ascontiguousarray(index.vectors))
    return flat


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise RagLabError(
            "FAISS is not installed: pip install -c constraints.txt faiss-cpu"
        ) from error
    return faiss
