"""Reranking: a closer look at the few that retrieval found.

*Late interaction* keeps a vector for each token (Khattab and Zaharia 2020, "ColBERT").  Each
token of the query looks for its best match in the chunk; the matches are added up:

    MaxSim(q, c) = Σ_i max_j  q_i · c_j

The encoder here was never trained for it.  What it gains in place of the first stage's score
depends on the collection, and it harms more questions than when it is added to that score.  So
both are brought to one scale, as z-scores over the candidates, and blended:

    score(c) = first · z(first stage) + late · z(MaxSim)

The parts show both: one for the first stage, and for each query token how much better the chunk
matches it than the average candidate does.  These sum to the score, for a z-score is linear:

    late · z(MaxSim) = Σ_i  late · (m_i(c) - mean of m_i) / standard deviation of MaxSim

Left out: an encoder that was trained for late interaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.index import Index
from raglab.retrieve.ranking import DIGITS, rank, z_scores
from raglab.types import Embedder, Part, Query, RagLabError, Ranking, Vectors


def max_sim(query: Vectors, chunk: Vectors) -> NDArray[np.float64]:
    """float [q]: for each query token, the cosine of its best match among the chunk's tokens.

    query is [q, d], chunk [t, d], rows of length 1.  Their sum is ColBERT's MaxSim.
    """
    if not len(chunk):
        return np.zeros(len(query))
    best: NDArray[np.float64] = (query @ chunk.T).max(axis=1).astype(float)
    return np.round(best, DIGITS)


def max_sims(index: Index, query: Vectors, chunk_ids: Sequence[str]) -> NDArray[np.float64]:
    """float [n, q]: `max_sim` of each chunk, from one matrix product over all their tokens."""
    tokens, lengths = index.tokens_of(chunk_ids)
    matches = np.zeros((len(chunk_ids), len(query)))
    filled = [row for row, length in enumerate(lengths) if length]
    if filled:
        starts = np.cumsum([0, *(lengths[row] for row in filled[:-1])])
        matches[filled] = np.maximum.reduceat(tokens.dots(query), starts, axis=0)
    return np.round(matches, DIGITS)


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Each piece of a query against each piece of a chunk, as late interaction sees them."""

    query: tuple[str, ...]  # q pieces
    chunk: tuple[str, ...]  # t pieces, of the chunk's indexed text
    cosines: NDArray[np.float64]  # [q, t]; the largest of each row add up to MaxSim


def token_matches(index: Index, embedder: Embedder, query: str, chunk_id: str) -> Matches:
    """Raises KeyError for a chunk that the index does not hold."""
    encoding, chunk = embedder.encode_query(query), index.chunks[index.rows[chunk_id]]
    tokens, _ = index.tokens_of([chunk_id])
    spans = index.token_spans(chunk_id).tolist()
    cosines = tokens.dots(encoding.tokens.astype(np.float32)).T.astype(float)
    return Matches(
        query=tuple(query[start:end] for start, end in encoding.spans.tolist()),
        chunk=tuple(chunk.indexed_text[start:end] for start, end in spans),
        cosines=np.round(cosines, DIGITS),
    )


@dataclass(frozen=True)
class LateInteraction:
    """Reranks the first `depth` hits; the rest are cut. `first` and `late` are the two weights."""

    index: Index
    embedder: Embedder
    depth: int = 50
    first: float = 1.0
    late: float = 1.0

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise RagLabError(f"depth is {self.depth}: rerank at least 1 hit")

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        """The same chunks in a new order, each with its parts."""
        hits = hits[: self.depth]
        if not hits or not query.text.strip():
            return hits
        encoding = self.embedder.encode_query(query.text)
        tokens = encoding.tokens.astype(np.float32)
        names = [f"match: {query.text[start:end]}" for start, end in encoding.spans.tolist()]
        matches = max_sims(self.index, tokens, [hit.chunk.chunk_id for hit in hits])
        addends = self.late * spread(matches)
        firsts = z_scores([hit.score for hit in hits])
        return rank(
            (
                hit.chunk,
                [
                    Part("first stage", self.first * firsts[row]),
                    *_parts(names, addends[row].tolist()),
                ],
            )
            for row, hit in enumerate(hits)
        )


def spread(matches: NDArray[np.float64]) -> NDArray[np.float64]:
    """float [n, q] -> [n, q]: addends whose row sums are the z-scores of the rows' sums.

    >>> spread(np.array([[1.0, 0.5], [0.5, 0.4]])).sum(axis=1).round(6).tolist()
    [1.0, -1.0]
    """
    deviation = matches.sum(axis=1).std()
    if deviation < 1e-12:
        return np.zeros_like(matches)
    scaled: NDArray[np.float64] = (matches - matches.mean(axis=0)) / deviation
    return scaled


def _parts(names: Sequence[str], values: Sequence[float]) -> list[Part]:
    """A part a token; a word that the query repeats gets a number, so that names stay apart."""
    seen: dict[str, int] = {}
    parts = []
    for name, value in zip(names, values, strict=True):
        seen[name] = seen.get(name, 0) + 1
        parts.append(Part(name if seen[name] == 1 else f"{name} ({seen[name]})", value))
    return parts
