"""Dense retrieval: the nearest vectors by cosine.

    score(q, c) = q · c            both of length 1, so the dot product is the cosine

Every chunk is compared: exact, and at the size of a workbook, instant.  `FaissFlat` gives the
same answer through FAISS (Douze et al. 2024, "The Faiss library").

A float32 product depends in its last digits on the order in which it adds, and so on how many
queries go in at once.  It only names the candidates here; they are scored again in float64.  So a
query has the same ranking alone, in a batch, and through FAISS.

Left out: approximate indexes, which are in `approximate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.index import Index
from raglab.retrieve.ranking import DIGITS, Mask, mask, rank
from raglab.types import Allowed, Chunk, Embedder, Part, Query, RagLabError, Ranking, Vectors

Scored = Iterable[tuple[int, Part]]  # a row of the index, and what it scores
Search = Callable[[Vectors, int, Mask], Iterable[Scored]]
"""(queries [b, d], k, eligible [n]) -> for each query its rows, at least the k best."""


@dataclass(frozen=True)
class Dense:
    """Exact cosine in numpy: one matrix product for all queries of a batch."""

    index: Index
    embedder: Embedder

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """The k chunks nearest to the query, at most; cosines lie in [-1, 1]."""
        return self.retrieve_many((query,), k, allowed)[0]

    def retrieve_many(
        self, queries: Sequence[Query], k: int, allowed: Allowed | None = None
    ) -> tuple[Ranking, ...]:
        """A ranking for each query, the same as one at a time; holds b · n floats meanwhile."""
        return nearest(self.index.chunks, self.embedder, queries, k, allowed, self._search)

    def _search(self, queries: Vectors, k: int, eligible: Mask) -> Iterable[Scored]:
        vectors, rows = self.index.vectors, np.flatnonzero(eligible)
        for query, similarities in zip(queries, queries @ vectors.T, strict=True):
            candidates = rows
            if len(rows) > k:
                reach = np.partition(similarities[rows], len(rows) - k)[len(rows) - k]
                candidates = rows[similarities[rows] >= reach - slack(len(query))]
            yield cosine_parts(query, vectors, candidates)


@dataclass(frozen=True)
class FaissFlat(Dense):
    """The same ranking, its candidates found by FAISS's exact inner-product index."""

    def _search(self, queries: Vectors, k: int, eligible: Mask) -> Iterable[Scored]:
        flat, vectors = _flat(self.index), self.index.vectors
        parameters = faiss().SearchParameters(sel=selector(eligible))
        for query in queries:
            # FAISS leaves ties at the cut in any order: ask for more until the tie lies inside.
            depth = k
            while True:
                depth = min(2 * depth, len(vectors))
                found, rows = flat.search(query[None, :], depth, params=parameters)
                found, rows = found[0][rows[0] >= 0], rows[0][rows[0] >= 0]
                if len(rows) < depth or depth == len(vectors):
                    break
                if found[-1] < found[k - 1] - slack(len(query)):
                    break
            yield cosine_parts(query, vectors, rows)


def nearest(
    chunks: tuple[Chunk, ...],
    embedder: Embedder,
    queries: Sequence[Query],
    k: int,
    allowed: Allowed | None,
    search: Search,
) -> tuple[Ranking, ...]:
    """What every search by vectors does around its search: filter, encode, rank, cut at k.

    An empty query finds nothing.  Raises ValueError where k is below 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: ask for at least 1 hit")
    eligible = mask(chunks, allowed)
    asked = [row for row, query in enumerate(queries) if query.text.strip()]
    rankings: list[Ranking] = [()] * len(queries)
    if asked and eligible.any():
        vectors = np.stack([embedder.encode_query(queries[row].text).vector for row in asked])
        for row, scored in zip(asked, search(vectors, k, eligible), strict=True):
            rankings[row] = rank(((chunks[found], [part]) for found, part in scored), k)
    return tuple(rankings)


def slack(d: int) -> float:
    """How far below the k-th best float32 product one of the k best may lie.

    Such a product of unit vectors errs by d · 2^-24 at most (Higham 2002, section 3.1), the k-th's
    as well as its own; and scores that are equal when rounded are ties.

    >>> f"{slack(384):.6f}"
    '0.000047'
    """
    return 2 * d * 2.0**-24 + 10.0**-DIGITS


def cosines(query: Vectors, vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 [r]: the cosine of the query with each of these rows, rounded.

    >>> v = np.array([[1.0, 0.0], [0.6, 0.8]], np.float32)
    >>> cosines(v[0], v, np.array([1, 0])).tolist()
    [0.6, 1.0]
    """
    exact: NDArray[np.float64] = vectors[rows].astype(float) @ query.astype(float)
    return np.round(exact, DIGITS)


def cosine_parts(query: Vectors, vectors: Vectors, rows: NDArray[np.int64]) -> Scored:
    scores = cosines(query, vectors, rows)
    return [(row, Part("cosine", s)) for row, s in zip(rows.tolist(), scores.tolist(), strict=True)]


def selector(eligible: Mask) -> Any:
    """The filter as FAISS takes it into a search; None where it lets everything through."""
    if eligible.all():
        return None
    return faiss().IDSelectorBitmap(np.packbits(eligible, bitorder="little"))


def faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise RagLabError(
            "FAISS is not installed: pip install -c constraints.txt faiss-cpu"
        ) from error
    return faiss


@lru_cache(maxsize=8)
def _flat(index: Index) -> Any:
    flat = faiss().IndexFlatIP(index.vectors.shape[1])
    flat.add(np.ascontiguousarray(index.vectors))
    return flat
