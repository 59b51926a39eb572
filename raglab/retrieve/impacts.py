"""Impacts: what each posting adds to a score, computed before any query comes.

What a term adds to a chunk does not depend on the query.  So it is computed once for every posting
and kept in one array; a query then only adds, for each of its terms one slice (Anh and Moffat
2002; Lù 2024, "BM25S").

    impact(t, c) = idf(t) · weight(tf(t, c), |c| / avg|c|)

A term of very many chunks is kept as a whole row too, 0 where it is not held: adding a row is
several times faster than adding as many postings, each to its place.

Left out: small integers in place of floats, and skipping postings that cannot reach the first k.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from raglab.retrieve.bm25_formulas import Floats, Formula
from raglab.retrieve.postings import Inverted
from raglab.retrieve.ranking import Mask

COMMON = 1 / 8  # a term of more chunks than this share is kept as a whole row
Rows = NDArray[np.intp]
Asked = tuple[str, str, float]
"""A term of the query, what its part is called, and what its impacts are multiplied by."""


@dataclass(frozen=True, eq=False)
class Impacts:
    """The impacts of one formula, at one k1 and b."""

    inverted: Inverted
    formula: Formula
    k1: float
    b: float

    def scores(self, asked: Iterable[Asked]) -> Floats:
        """float [chunks]. The sums run in the order of the query, as those of the parts do."""
        scores = np.zeros(len(self.inverted.lengths))
        known, postings, values = self.inverted.vocabulary, self.inverted.postings, self.values
        for term, _, weight in asked:
            position = known.get(term, -1)
            common = self._common.get(position)
            if common is not None:
                scores += common if weight == 1 else weight * common
            elif position >= 0:
                at = postings.at(position)
                adds = values[at] if weight == 1 else weight * values[at]
                np.add.at(scores, postings.numbers[at], adds)
        return scores

    def slices(self, asked: Iterable[Asked]) -> Iterator[tuple[str, Rows, Floats]]:
        """Of each term that some chunk holds: its name, its chunks, what it adds to each."""
        known, postings = self.inverted.vocabulary, self.inverted.postings
        for term, name, weight in asked:
            if term in known:
                at = postings.at(known[term])
                values = self.values[at]
                yield name, postings.numbers[at], values if weight == 1 else weight * values

    def found(self, asked: Sequence[Asked], scores: Floats) -> Mask:
        """bool [chunks]: which hold a term of the query, whatever it adds."""
        if self.adds(asked):
            above: Mask = scores > 0
            return above
        found = np.zeros(len(scores), bool)
        for _, rows, _ in self.slices(asked):
            found[rows] = True
        return found

    def adds(self, asked: Iterable[Asked]) -> bool:
        """Is every impact above 0? Then a chunk was found exactly where its score is above 0."""
        return self._least > 0 and all(weight > 0 for _, _, weight in asked)

    @cached_property
    def idf(self) -> Floats:
        """float [terms]."""
        return self.formula.idf(self.inverted.postings.lengths, len(self.inverted.lengths))

    @cached_property
    def values(self) -> Floats:
        """float [postings]."""
        postings = self.inverted.postings
        lengths = self.inverted.lengths[postings.numbers]
        weights = self.formula.weight(postings.counts, lengths, self.k1, self.b)
        return np.repeat(self.idf, postings.lengths) * weights

    @cached_property
    def _least(self) -> float:
        return float(self.values.min(initial=math.inf))

    @cached_property
    def _common(self) -> dict[int, Floats]:
        """term -> float [chunks], of the terms of many chunks."""
        postings, rows = self.inverted.postings, {}
        for position in np.flatnonzero(
            postings.lengths > COMMON * len(self.inverted.lengths)
        ).tolist():
            at = postings.at(position)
            rows[position] = np.zeros(len(self.inverted.lengths))
            rows[position][postings.numbers[at]] = self.values[at]
        return rows
