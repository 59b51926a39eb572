"""Sparse retrieval: BM25, a sum over the query's terms.

    score(q, c) = Σ_t  qtf(t) · idf(t) · tf(t, c) / (tf(t, c) + k1 · (1 - b + b · |c| / avg|c|))

A rare term counts more (idf), a repeated term counts more but ever less so (k1), and a long
chunk must repeat it more often (b).  Robertson and Zaragoza 2009, "The Probabilistic Relevance
Framework: BM25 and Beyond".  `bm25_formulas` has this and four relatives.

`postings` holds the counts, `impacts` what each of them adds to a score, and this module searches.
An idf can be 0 or less, so a chunk counts as found when it holds a term of the query, not when
its score is above 0.

Left out: fields, and phrases.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from raglab.ingest.index import Index
from raglab.retrieve.bm25_formulas import FORMULAS, VARIANTS, Floats, Variant, lucene_idf
from raglab.retrieve.contenders import contenders
from raglab.retrieve.impacts import Asked, Impacts, Rows
from raglab.retrieve.postings import Inverted
from raglab.retrieve.ranking import Mask, mask, rank, top
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Allowed, Chunk, Part, Query, RagLabError, Ranking

ABOVE_ZERO, LOWEST = np.nextafter(0.0, 1.0), np.finfo(float).min


@dataclass(frozen=True)
class BM25:
    """BM25 over an inverted index of the chunks' indexed text.

    A copy with another variant, k1 or b shares the index: `replace(bm25, k1=0.9)` only computes
    the postings' impacts again.
    """

    chunks: Sequence[Chunk] = field(repr=False, hash=False)
    tokenizer: Tokenizer = Tokenizer()
    variant: Variant = "lucene"
    k1: float = 1.5
    b: float = 0.75
    shared: Shared | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.variant not in FORMULAS:
            raise RagLabError(f"no BM25 {self.variant!r}: choose one of {', '.join(VARIANTS)}")
        if not 0 <= self.k1 < math.inf:
            raise RagLabError(f"k1 is {self.k1}: it must be 0 or more; 1.2 to 1.5 is usual")
        if not 0 <= self.b <= 1:
            raise RagLabError(f"b is {self.b}: it must lie between 0 and 1; 0.75 is usual")
        known = self.shared
        if known is None or known.chunks is not self.chunks or known.tokenizer != self.tokenizer:
            object.__setattr__(self, "shared", Shared(self.chunks, self.tokenizer))

    @classmethod
    def of(cls, index: Index, tokenizer: Tokenizer | None = None) -> BM25:
        """Over an index's chunks; the inverted index is kept beside it, where it has a folder."""
        tokenizer = tokenizer or Tokenizer()
        return cls(index.chunks, tokenizer, shared=Shared(index.chunks, tokenizer, index.folder))

    # -- searching

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        """The k best chunks that hold a term of the query, at most; a part for each term."""
        return self._ranking(self._asked(query.text), k, self._visible(allowed))

    def retrieve_many(
        self, queries: Iterable[Query], k: int, allowed: Allowed | None = None
    ) -> tuple[Ranking, ...]:
        """A ranking for each query. The filter is asked once about each chunk, not once a query."""
        visible = self._visible(allowed)
        return tuple(self._ranking(self._asked(query.text), k, visible) for query in queries)

    def retrieve_weighted(
        self, weights: Mapping[str, float], k: int, allowed: Allowed | None = None
    ) -> Ranking:
        """As `retrieve`, for terms of the tokenizer, each with a weight in place of how often it
        is asked for. A term of weight 0 finds nothing. Raises RagLabError unless all are finite."""
        if not all(math.isfinite(weight) for weight in weights.values()):
            raise RagLabError("a term's weight is no number: weigh each term with a finite one")
        asked = [(term, term, weight) for term, weight in weights.items() if weight]
        return self._ranking(asked, k, self._visible(allowed))

    def search(self, text: str, k: int, allowed: Allowed | None = None) -> tuple[Rows, Floats]:
        """Rows of the k best chunks and their scores, best first: `retrieve` without its parts."""
        rows, scores = self._best(self._asked(text), k, self._visible(allowed))
        return np.array(rows, np.intp), scores[rows]

    def score_rows(self, text: str, rows: Sequence[int] | Rows) -> Floats:
        """float [rows]: the scores of these chunks, 0 for one that holds no term of the query."""
        return self._impacts.scores(self._asked(text))[np.asarray(rows, np.intp)]

    # -- looking inside

    def idf(self, term: str) -> float:
        """A term's weight; that of the rarest possible term where no chunk holds it."""
        position = self.inverted.vocabulary.get(term)
        if position is None:
            return float(lucene_idf(np.zeros(1), len(self.chunks))[0])
        return float(self._impacts.idf[position])

    def idf_by_frequency(self) -> dict[int, float]:
        """In how many chunks a term stands -> its idf, for every number that occurs, ascending."""
        pairs = zip(
            self.inverted.postings.lengths.tolist(), self._impacts.idf.tolist(), strict=True
        )
        return dict(sorted(pairs))

    def posted(self, term: str) -> Mapping[int, int]:
        """row -> how often that chunk holds the term, in the order of the chunks."""
        return self.inverted.posted(term)

    def terms_of(self, row: int) -> Mapping[str, int]:
        """term -> how often the chunk holds it."""
        return self.inverted.bag(row)

    @property
    def inverted(self) -> Inverted:
        """The index, built when it is first asked for."""
        assert self.shared is not None
        return self.shared.inverted

    # -- the arithmetic

    def _asked(self, text: str) -> list[Asked]:
        """The query's terms, in its order, each named by the first word that it came from."""
        words: dict[str, str] = {}
        times: dict[str, int] = {}
        for term, word in self.tokenizer.terms(text):
            words.setdefault(term, word)
            times[term] = times.get(term, 0) + 1
        return [(term, words[term], count) for term, count in times.items()]

    def _best(
        self, asked: Sequence[Asked], k: int, visible: Mask | None
    ) -> tuple[list[int], Floats]:
        """Rows of the k best chunks that were found, best first, and the scores of all chunks."""
        impacts = self._impacts
        scores = impacts.scores(asked)
        if visible is None and impacts.adds(asked):
            return top(scores, k, self.chunks, contenders(scores, k, ABOVE_ZERO)), scores
        found = impacts.found(asked, scores)
        worth = np.where(found if visible is None else found & visible, scores, -np.inf)
        return top(worth, k, self.chunks, contenders(worth, k, LOWEST)), scores

    def _ranking(self, asked: Sequence[Asked], k: int, visible: Mask | None) -> Ranking:
        best, _ = self._best(asked, k, visible)
        parts: list[list[Part]] = [[] for _ in best]
        for name, rows, impacts in self._impacts.slices(asked):
            places = rows.searchsorted(best)
            held = rows.take(places, mode="clip") == best
            for at in held.nonzero()[0].tolist():
                parts[at].append(Part(name, float(impacts[places[at]])))
        return rank((self.chunks[row], of_row) for row, of_row in zip(best, parts, strict=True))

    def _visible(self, allowed: Allowed | None) -> Mask | None:
        return None if allowed is None else mask(self.chunks, allowed)

    @cached_property
    def _impacts(self) -> Impacts:
        return Impacts(self.inverted, FORMULAS[self.variant], self.k1, self.b)


@dataclass(frozen=True, eq=False)
class Shared:
    """What copies of a BM25 have in common: the inverted index of one corpus and one tokenizer."""

    chunks: Sequence[Chunk]
    tokenizer: Tokenizer
    folder: Path | None = None  # where the inverted index is kept; None keeps it in memory alone

    @cached_property
    def inverted(self) -> Inverted:
        if self.folder is None:
            return self._built()
        # The chunks belong to the folder's name: it is replaced whole when they change.
        name = hashlib.sha256(repr(self.tokenizer).encode()).hexdigest()[:8]
        path = self.folder / f"words-{name}.npz"
        try:
            kept = Inverted.load(path)
            if len(kept.lengths) == len(self.chunks):
                return kept
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass  # none yet, or not whole
        built = self._built()
        with contextlib.suppress(OSError):  # a folder that may only be read still serves
            built.save(path)
        return built

    def _built(self) -> Inverted:
        return Inverted.build(self.tokenizer(chunk.indexed_text) for chunk in self.chunks)
