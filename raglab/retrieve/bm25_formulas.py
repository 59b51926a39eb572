"""Five formulas that are called BM25.  Each is an idf for the term and a weight for its count.

    score(q, c) = Σ_t  qtf(t) · idf(t) · weight(tf(t, c), |c| / avg|c|)      t in both q and c

    lucene   never negative, and ends at idf: Apache Lucene's
    okapi    the first; falls below 0 for a term in most chunks: Robertson et al. 1995
    atire    0 for a term in every chunk: Trotman, Jia and Crane 2012
    bm25+    a chunk that holds a term gets δ more, however long it is: Lv and Zhai 2011a
    bm25l    shifts the count by δ once length is taken out of it: Lv and Zhai 2011b

N chunks, n of them hold the term; `length` is relative to the mean, 1 is average.  Kamphuis et
al. 2020, "Which BM25 do you mean?", compare them, and find differences too small to matter.

Libraries differ.  Okapi is here as in rank_bm25, which lifts a negative idf to 0.25 times the mean
one.  BM25L is as in the paper and in bm25s; rank_bm25 multiplies by tf once more.  And both give
δ for BM25+ and BM25L to chunks that lack the term too.  Here, as in the papers, only the terms
that a chunk holds are added: for BM25+ the libraries' δ is the same for every chunk, and moves
none.

Left out: BM25F's fields, and a k3 for terms that are asked for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Variant = Literal["lucene", "okapi", "bm25+", "bm25l", "atire"]
Floats = NDArray[np.float64]
Counts = NDArray[Any]  # whole numbers, or floats that are


def lucene_idf(n: Counts, total: int) -> Floats:
    """ln(1 + (N - n + 0.5) / (n + 0.5)); n: [terms].

    >>> lucene_idf(np.array([1, 2, 4]), 4).round(3).tolist()
    [1.204, 0.693, 0.105]
    """
    weights: Floats = np.log(1 + (total - n + 0.5) / (n + 0.5))
    return weights


def okapi_idf(n: Counts, total: int, epsilon: float = 0.25) -> Floats:
    """ln((N - n + 0.5) / (n + 0.5)), and where negative, epsilon times the mean over all terms.

    >>> okapi_idf(np.array([1, 2, 4]), 4).round(3).tolist()  # 0.25 · (0.847 + 0 - 2.197) / 3
    [0.847, 0.0, -0.112]
    """
    weights: Floats = np.log(total - n + 0.5) - np.log(n + 0.5)
    if len(weights):
        weights[weights < 0] = epsilon * weights.mean()
    return weights


def atire_idf(n: Counts, total: int) -> Floats:
    """ln(N / n).

    >>> atire_idf(np.array([1, 2, 4]), 4).round(3).tolist()
    [1.386, 0.693, 0.0]
    """
    weights: Floats = np.log(total / n)
    return weights


def plus_idf(n: Counts, total: int) -> Floats:
    """ln((N + 1) / n).

    >>> plus_idf(np.array([1, 2, 4]), 4).round(3).tolist()
    [1.609, 0.916, 0.223]
    """
    weights: Floats = np.log((total + 1) / n)
    return weights


def bm25l_idf(n: Counts, total: int) -> Floats:
    """ln((N + 1) / (n + 0.5)).

    >>> bm25l_idf(np.array([1, 2, 4]), 4).round(3).tolist()
    [1.204, 0.693, 0.105]
    """
    weights: Floats = np.log((total + 1) / (n + 0.5))
    return weights


def saturation(tf: Counts, length: Floats, k1: float, b: float) -> Floats:
    """tf / (tf + k1 · (1 - b + b · length)): Lucene's weight, below 1 however large tf grows.

    >>> saturation(np.array([1, 2, 9]), np.ones(3), k1=1.0, b=0.75).tolist()
    [0.5, 0.6666666666666666, 0.9]
    """
    weights: Floats = tf / (tf + k1 * (1 - b + b * length))
    return weights


def okapi_weight(tf: Counts, length: Floats, k1: float, b: float) -> Floats:
    """(k1 + 1) · saturation: 1 for a term that stands once in a chunk of average length.

    >>> okapi_weight(np.array([1, 2, 9]), np.ones(3), k1=1.0, b=0.75).round(3).tolist()
    [1.0, 1.333, 1.8]
    """
    return (k1 + 1) * saturation(tf, length, k1, b)


def plus_weight(tf: Counts, length: Floats, k1: float, b: float, delta: float = 1.0) -> Floats:
    """(k1 + 1) · saturation + δ: never below δ, even in the longest chunk.

    >>> plus_weight(np.array([1, 1]), np.array([1.0, 1e9]), k1=1.0, b=0.75).round(3).tolist()
    [2.0, 1.0]
    """
    return okapi_weight(tf, length, k1, b) + delta


def bm25l_weight(tf: Counts, length: Floats, k1: float, b: float, delta: float = 0.5) -> Floats:
    """(k1 + 1) · (c + δ) / (k1 + c + δ), where c = tf / (1 - b + b · length).

    >>> bm25l_weight(np.array([1, 1]), np.array([1.0, 1e9]), k1=1.0, b=0.75).round(3).tolist()
    [1.2, 0.667]
    """
    shifted = tf / (1 - b + b * length) + delta
    weights: Floats = (k1 + 1) * shifted / (k1 + shifted)
    return weights


@dataclass(frozen=True)
class Formula:
    """A variant: `idf(n, total)` and `weight(tf, length, k1, b)`, over arrays."""

    idf: Callable[[Counts, int], Floats]
    weight: Callable[[Counts, Floats, float, float], Floats]


FORMULAS: Mapping[str, Formula] = {
    "lucene": Formula(lucene_idf, saturation),
    "okapi": Formula(okapi_idf, okapi_weight),
    "bm25+": Formula(plus_idf, plus_weight),
    "bm25l": Formula(bm25l_idf, bm25l_weight),
    "atire": Formula(atire_idf, okapi_weight),
}
VARIANTS: tuple[str, ...] = tuple(FORMULAS)
