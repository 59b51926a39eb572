"""Sparse retrieval: BM25, a sum over the query's terms.

    score(q, c) = Σ_t  qtf(t) · idf(t) · tf(t, c) / (tf(t, c) + k1 · (1 - b + b · |c| / avg|c|))

A rare term counts more (idf), a repeated term counts more but ever less so (k1), and a long
chunk must repeat it more often (b).  Robertson and Zaragoza 2009, "The Probabilistic Relevance
Framework: BM25 and Beyond".

    idf, Lucene:   ln(1 + (N - n + 0.5) / (n + 0.5))        never negative
    idf, Okapi:    ln((N - n + 0.5) / (n + 0.5))            0 for a term in half of the chunks,
                   and where negative, 0.25 times the mean idf, as rank_bm25 does

Okapi also multiplies by (k1 + 1), which changes no order.  Since an idf can be 0, a chunk counts
as found when it holds a term of the query, not when its score is above 0.

Left out: fields, phrases, and the variants BM25+, BM25L and ATIRE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from raglab.retrieve.ranking import mask, rank, top
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Allowed, Chunk, Part, Query, Ranking

Variant = Literal["lucene", "okapi"]


def lucene_idf(n: NDArray[np.int64], total: int) -> NDArray[np.float64]:
    """n: int [terms], in how many of `total` chunks each term stands."""
    weights: NDArray[np.float64] = np.log(1 + (total - n + 0.5) / (n + 0.5))
    return weights


def okapi_idf(n: NDArray[np.int64], total: int, epsilon: float = 0.25) -> NDArray[np.float64]:
    """As rank_bm25's BM25Okapi: negative weights become epsilon times the mean over all terms."""
    weights: NDArray[np.float64] = np.log(total - n + 0.5) - np.log(n + 0.5)
    if len(weights):
        weights[weights < 0] = epsilon * weights.mean()
    return weights


def saturation(
    tf: NDArray[np.float64], length: NDArray[np.float64], k1: float, b: float
) -> NDArray[np.float64]:
    """tf / (tf + k1 · (1 - b + b · length)); `length` is relative to the mean, 1 is average."""
    return tf / (tf + k1 * (1 - b + b * length))


@dataclass(frozen=True)
class BM25:
    """BM25 over an inverted index of the chunks' indexed text."""

    chunks: Sequence[Chunk] = field(repr=False, hash=False)
    tokenizer: Tokenizer = Tokenizer()
    variant: Variant = "lucene"
    k1: float = 1.5
    b: float = 0.75

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """The k best chunks that hold a term of the query, at most; a part for each term."""
        scores = np.zeros(len(self.chunks))
        found = np.zeros(len(self.chunks), bool)
        weighted = [
            (word, *self._weights(term, times)) for term, word, times in self._asked(query.text)
        ]
        for _, rows, weights in weighted:
            scores[rows] += weights
            found[rows] = True
        best = top(scores, k, self.chunks, found & mask(self.chunks, allowed))
        parts: dict[int, list[Part]] = {row: [] for row in best}
        for word, postings, weights in weighted:
            for row, addends in parts.items():
                place = int(np.searchsorted(postings, row))
                if place < len(postings) and postings[place] == row:
                    addends.append(Part(word, float(weights[place])))
        return rank((self.chunks[row], parts[row]) for row in best)

    def idf(self, term: str) -> float:
        """A term's weight; that of the rarest possible term where no chunk holds it."""
        position = self._inverted.vocabulary.get(term)
        if position is None:
            return float(lucene_idf(np.zeros(1, np.int64), len(self.chunks))[0])
        return float(self._idf[position])

    def _asked(self, text: str) -> list[tuple[str, str, int]]:
        """(term, the word it came from, how often it is asked for), in order of the query."""
        pairs = list(self.tokenizer.terms(text))
        words = dict(reversed(pairs))  # reversed, so that a term keeps its first word
        times = Counter(term for term, _ in pairs)
        return [(term, words[term], count) for term, count in times.items()]

    def _weights(self, term: str, times: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The term's postings, and what it adds to the score of each."""
        position = self._inverted.vocabulary.get(term)
        if position is None:
            return np.zeros(0, np.int64), np.zeros(0)
        rows, tf = self._inverted.postings(position)
        weight = self._idf[position] * (self.k1 + 1 if self.variant == "okapi" else 1.0)
        length = self._inverted.lengths[rows] / self._inverted.lengths.mean()
        return rows, times * weight * saturation(tf, length, self.k1, self.b)

    @cached_property
    def _inverted(self) -> Inverted:
        return Inverted.build([self.tokenizer(chunk.indexed_text) for chunk in self.chunks])

    @cached_property
    def _idf(self) -> NDArray[np.float64]:
        n = np.diff(self._inverted.starts)
        formula = lucene_idf if self.variant == "lucene" else okapi_idf
        return formula(n, len(self.chunks))


@dataclass(frozen=True, eq=False)
class Inverted:
    """term -> the chunks that hold it, as three arrays: postings of term i lie at
    `starts[i] : starts[i + 1]` of `rows` (chunks, ascending) and `tf` (how often)."""

    vocabulary: dict[str, int]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    tf: NDArray[np.float64]
    lengths: NDArray[np.float64]  # terms in each chunk

    @classmethod
    def build(cls, texts: Sequence[Sequence[str]]) -> Inverted:
        vocabulary: dict[str, int] = {}
        terms: list[int] = []
        rows: list[int] = []
        tf: list[int] = []
        for row, text in enumerate(texts):
            for term, count in Counter(text).items():
                terms.append(vocabulary.setdefault(term, len(vocabulary)))
                rows.append(row)
                tf.append(count)
        order = np.argsort(np.array(terms, np.int64), kind="stable")  # stable: rows stay ascending
        counts = np.bincount(np.array(terms, np.int64), minlength=len(vocabulary))
        return cls(
            vocabulary=vocabulary,
            starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rows=np.array(rows, np.int64)[order],
            tf=np.array(tf, float)[order],
            lengths=np.array([len(text) for text in texts], float),
        )

    def postings(self, position: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        at = slice(self.starts[position], self.starts[position + 1])
        return self.rows[at], self.tf[at]
