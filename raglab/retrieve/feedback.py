"""Relevance feedback: BM25 searches, reads what it found, and searches again with more words.

The first chunks are taken to be relevant, unseen ("pseudo-relevance feedback").  Their words, by
how often they occur, are a *relevance model* (Lavrenko and Croft 2001):

    P(t | R) = Σ_c  score(q, c) / Σ_c' score(q, c')  ·  tf(t, c) / |c|       over the first chunks

RM3 mixes it with the query, so that the search does not drift away (Abdul-Jaleel et al. 2004):

    w(t) = original · qtf(t) / |q|  +  (1 - original) · P(t | R)

and a second BM25 search gives each term its weight w(t) in place of qtf(t).  No model is asked and
nothing is trained; what helps where the first chunks are good harms where they are not.

Both searches obey the same filter: a word of a chunk that the reader may not see can not reach the
query, where the parts of a score would show it.

Left out: query likelihood for the weights of the first chunks (as published; here it is their
BM25 score), and feedback on vectors (Rocchio 1971).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from raglab.retrieve.sparse import BM25
from raglab.types import Allowed, Query, RagLabError, Ranking

Terms = Mapping[str, float]


def relevance_model(
    documents: Sequence[tuple[float, Mapping[str, int]]], terms: int
) -> dict[str, float]:
    """P(t | R) of the `terms` likeliest terms, scaled to add up to 1; ties in order of the term.

    documents: for each, its score and how often it holds each term.  Two documents of two terms,
    the first with three times the score: "fee" has 3/4 · 1/2, "due" 3/4 · 1/2 + 1/4 · 1/2.

    >>> relevance_model([(3.0, {"fee": 1, "due": 1}), (1.0, {"due": 1, "tax": 1})], terms=3)
    {'due': 0.5, 'fee': 0.375, 'tax': 0.125}
    """
    # Okapi's scores can be 0 or less. Where none is above, each document counts the same.
    scores = [max(score, 0.0) for score, _ in documents]
    total = sum(scores)
    likely: defaultdict[str, float] = defaultdict(float)
    for score, (_, counts) in zip(scores, documents, strict=True):
        share = score / total if total else 1 / len(documents)
        length = sum(counts.values())
        for term, times in counts.items():
            likely[term] += share * times / length
    return _scaled(dict(sorted(likely.items(), key=lambda item: (-item[1], item[0]))[:terms]))


def interpolated(query: Terms, model: Terms, original: float) -> dict[str, float]:
    """original · query + (1 - original) · model, each scaled to add up to 1 first.

    >>> interpolated({"fee": 1}, {"due": 0.5, "fee": 0.5}, original=0.6)
    {'fee': 0.8, 'due': 0.2}
    """
    asked, learned = _scaled(query), _scaled(model)
    if not learned:
        return asked
    return {
        term: original * asked.get(term, 0.0) + (1 - original) * learned.get(term, 0.0)
        for term in dict.fromkeys((*asked, *learned))
    }


@dataclass(frozen=True)
class RM3:
    """BM25 with the query's terms and those of the first chunks that it finds.

    The settings were chosen on the handbook's dev questions: its chunks are short, and the fourth
    is seldom about the question.  With 10 chunks and a weight of 0.5, which are common, more
    questions lost than gained, there as among SciFact's training questions.
    """

    bm25: BM25
    documents: int = 3  # chunks that are read
    terms: int = 20  # of the relevance model
    original: float = 0.9  # the weight of the query's own words, from 0 to 1

    def __post_init__(self) -> None:
        if self.documents < 1 or self.terms < 1:
            raise RagLabError(
                f"RM3 reads {self.documents} chunks and keeps {self.terms} terms: "
                "give at least 1 of each"
            )
        if not 0 <= self.original <= 1:
            raise RagLabError(f"original is {self.original}: choose a weight from 0 to 1")

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """The k best of the second search; a part for each weighted term that the chunk holds."""
        return self.bm25.retrieve_weighted(self.weights(query, allowed), k, allowed)

    def weights(self, query: Query, allowed: Allowed | None = None) -> dict[str, float]:
        """w(t) of each term of the second search: they add up to 1, or there is none."""
        first = self.bm25.retrieve(query, self.documents, allowed)
        read = [(hit.score, self.bm25.terms_of(self._rows[hit.chunk.chunk_id])) for hit in first]
        asked = Counter(self.bm25.tokenizer(query.text))
        return interpolated(asked, relevance_model(read, self.terms), self.original)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk.chunk_id: row for row, chunk in enumerate(self.bm25.chunks)}


def _scaled(weights: Terms) -> dict[str, float]:
    total = sum(weights.values())
    return {term: weight / total for term, weight in weights.items()} if total > 0 else {}
