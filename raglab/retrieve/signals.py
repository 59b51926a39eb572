"""Signals: nine ways to ask whether a chunk answers a query, each a number.

No one of them is enough.  The encoder knows meaning and misses codes, BM25 knows words and misses
meaning, and each of the others sees a little that both overlook.  A reranker weighs them together.

    first stage      the score that the hit came with, of RRF say
    dense            cosine of the two sentence vectors
    BM25             the sparse score
    rare tokens      MaxSim in which a piece counts as much as its word's idf
    weakest tokens   mean match of the third of the query's pieces that the chunk matches worst
    words            share of the query's idf whose terms the chunk holds
    title            the same, of its title and headings
    pairs            share of the query's neighbouring terms that stand side by side in the chunk
    alike            likeness to the ten best candidates: answers tend to lie close together
                     (the cluster hypothesis, van Rijsbergen 1979)

Signals have different scales, so each is brought to z-scores over a query's candidates.

Left out: clicks, links, and the freshness of a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from raglab.ingest.index import Index
from raglab.retrieve.ranking import z_scores
from raglab.retrieve.rerank import max_sims
from raglab.retrieve.sparse import BM25
from raglab.types import Embedder, Encoding, Query, Ranking, Vectors

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
NAMES = (
    "first stage",
    "dense",
    "BM25",
    "rare tokens",
    "weakest tokens",
    "words",
    "title",
    "pairs",
    "alike",
)
NEIGHBOURS = 10
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Signals:
    """Computes the signals of a query's candidates; all of them read the same index."""

    index: Index
    embedder: Embedder
    bm25: BM25

    def __call__(self, query: Query, hits: Ranking) -> Floats:
        """float [n, 9]: a row for each hit, a column for each of NAMES, as z-scores."""
        rows = [self.index.rows[hit.chunk.chunk_id] for hit in hits]
        encoding = self.embedder.encode_query(query.text)
        vectors = self.index.vectors[rows]
        matches = max_sims(
            self.index, encoding.tokens.astype(np.float32), [hit.chunk.chunk_id for hit in hits]
        )
        dense = (vectors @ encoding.vector).astype(float)
        sparse = self.bm25.score_rows(query.text, rows)
        rare = weighted_mean(matches, self._importance(query.text, encoding))
        words, title, pairs = self._overlaps(query.text, rows)
        promise = _z(dense) + _z(sparse) + _z(rare)
        columns = (
            np.array([hit.score for hit in hits]), dense, sparse, rare, weakest(matches),
            words, title, pairs, alike(vectors, promise),
        )  # fmt: skip
        return np.column_stack([_z(column) for column in columns])

    def _importance(self, text: str, encoding: Encoding) -> Floats:
        """float [q]: for each piece of the query the idf of the word that it stands in."""
        weights = np.zeros(len(encoding.spans))
        for word in _WORD.finditer(text):
            inside = (encoding.spans[:, 0] >= word.start()) & (encoding.spans[:, 0] < word.end())
            weights[inside] = max(map(self.bm25.idf, self.bm25.tokenizer(word[0])), default=0.0)
        return weights

    def _overlaps(self, text: str, rows: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        """Three float [n]: the shares of the query's terms, terms in the title, and term pairs."""
        terms = self.bm25.tokenizer(text)
        idf = {term: self.bm25.idf(term) for term in terms}
        number = {term: n for n, term in enumerate(idf, start=1)}  # 0 is any other word
        words, owner = self._words(number, rows)
        held = np.zeros((len(rows), len(idf) + 1), bool)
        held[owner, words] = True

        pairs = {(a, b): min(idf[a], idf[b]) for a, b in pairwise(terms)}
        table = np.zeros((len(idf) + 1, len(idf) + 1), np.intp)
        for n, (a, b) in enumerate(pairs, start=1):
            table[number[a], number[b]] = n
        beside = np.zeros((len(rows), len(pairs) + 1), bool)
        inside = owner[:-1] == owner[1:]  # the last word of a chunk has no neighbour in the next
        beside[owner[:-1][inside], table[words[:-1], words[1:]][inside]] = True

        weights, pair_weights = np.array(list(idf.values())), np.array(list(pairs.values()))
        titles = self._in_titles(idf, rows)
        return (
            shares(held[:, 1:], weights),
            shares(titles, weights),
            shares(beside[:, 1:], pair_weights),
        )

    def _words(self, number: Mapping[str, int], rows: Sequence[int]) -> tuple[Ints, Ints]:
        """Two int [w], over the words of all these chunks: which term of the query each is, 0 for
        none, and the place in `rows` of the chunk that it stands in."""
        inverted = self.bm25.inverted
        column = np.zeros(len(inverted.vocabulary) + 1, np.intp)
        for term, n in number.items():
            if term in inverted.vocabulary:
                column[inverted.vocabulary[term]] = n
        sequences = [inverted.sequence(row) for row in rows]
        owner = np.repeat(np.arange(len(rows)), [len(sequence) for sequence in sequences])
        return column[np.concatenate(sequences)], owner

    def _in_titles(self, terms: Iterable[str], rows: Sequence[int]) -> NDArray[np.bool_]:
        """bool [n, terms]: which terms stand in each chunk's title and headings."""
        chunks = [self.index.chunks[row] for row in rows]
        titles = [set(self.bm25.tokenizer(f"{one.title} {one.heading}")) for one in chunks]
        asked = list(terms)
        held = [[term in title for term in asked] for title in titles]
        return np.array(held, bool).reshape(len(rows), len(asked))


def _z(column: Floats) -> Floats:
    return np.array(z_scores(column.tolist()))


def shares(held: NDArray[np.bool_], weights: Floats) -> Floats:
    """float [n]: of held [n, q], for each row the share of the weight that it holds, 0 to 1.

    >>> shares(np.array([[False, True], [True, True]]), np.array([3.0, 1.0])).tolist()
    [0.25, 1.0]
    """
    return weighted_mean(held.astype(float), weights)


def weighted_mean(matches: Floats, weights: Floats) -> Floats:
    """float [n]: the mean of each row of matches [n, q], by weight; 0 where nothing weighs."""
    total = float(weights.sum())
    mean: Floats = matches @ weights / total if total > 0 else np.zeros(len(matches))
    return mean


def weakest(matches: Floats) -> Floats:
    """float [n]: the mean of the lowest third of each row, at least one; 0 for an empty query.

    >>> weakest(np.array([[0.9, 0.1, 0.5]])).tolist()
    [0.1]
    """
    if not matches.shape[1]:
        return np.zeros(len(matches))
    lowest: Floats = np.sort(matches, axis=1)[:, : max(1, matches.shape[1] // 3)].mean(axis=1)
    return lowest


def alike(vectors: Vectors, promise: Floats, most: int = NEIGHBOURS) -> Floats:
    """float [n]: the mean cosine of each row to the `most` rows of the highest promise, itself
    left out, in which a row counts by exp(promise)."""
    best = np.argsort(-promise, kind="stable")[:most]
    weights = np.tile(np.exp(promise[best] - promise.max(initial=-np.inf)), (len(vectors), 1))
    weights[best, np.arange(len(best))] = 0.0  # no chunk vouches for itself
    cosines = (vectors @ vectors[best].T).astype(float)
    total = weights.sum(axis=1)
    means: Floats = (cosines * weights).sum(axis=1) / np.where(total > 0, total, 1.0)
    return means
