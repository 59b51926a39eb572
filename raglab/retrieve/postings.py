"""The inverted index: for each term the chunks that hold it, so that a query reads only those.

Two views of one table of counts.  By term, its *postings*: chunks and how often each holds it.
By chunk, its *bag*: terms and how often it holds each.  The table is mostly zeros, so each view
keeps the other entries only, in three arrays (compressed sparse rows; Zobel and Moffat 2006,
"Inverted files for text search engines").

The chunks' words are kept in their order too: that is what goes to disk, and what tells which
terms stand side by side.

Left out: compression, and updates in place.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.files import write_whole


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of (number, count), one behind the other: list i lies at `starts[i]:starts[i + 1]`."""

    starts: NDArray[np.intp]  # [lists + 1]
    numbers: NDArray[np.intp]  # ascending within a list
    counts: NDArray[np.int32]

    @classmethod
    def of(cls, table: Any) -> Lists:
        """The lists of a scipy table in compressed form, by its major axis."""
        # numpy adds by number fastest where no index must be cast: hence intp, at twice the bytes.
        return cls(table.indptr.astype(np.intp), table.indices.astype(np.intp), table.data)

    def at(self, position: int) -> slice:
        return self._slices[position]

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """int [lists]: how many entries each list has."""
        return np.diff(self.starts)

    @cached_property
    def _slices(self) -> list[slice]:
        starts = self.starts.tolist()  # Python's own numbers, which slice faster than numpy's
        return [slice(start, end) for start, end in pairwise(starts)]


@dataclass(frozen=True, eq=False)
class Inverted:
    """`postings` lists chunks by term, `bags` terms by chunk; `vocabulary` numbers the terms."""

    vocabulary: Mapping[str, int]
    postings: Lists
    bags: Lists
    lengths: NDArray[np.float64]  # terms in each chunk, relative to the mean: 1 is average
    words: NDArray[np.int32]  # the terms of all chunks in their order, one chunk behind the other
    ends: NDArray[np.int64]  # [chunks + 1]: chunk i owns words[ends[i] : ends[i + 1]]

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]]) -> Inverted:
        """Of each chunk's terms, in the order of the chunks.

        >>> inverted = Inverted.build([["late", "fee"], ["fee", "fee"]])
        >>> inverted.posted("fee")
        {0: 1, 1: 2}
        >>> inverted.bag(0)
        {'late': 1, 'fee': 1}
        """
        vocabulary: defaultdict[str, int] = defaultdict(lambda: len(vocabulary))
        words, ends = array("i"), [0]
        for text in texts:
            words.extend([vocabulary[term] for term in text])
            ends.append(len(words))
        return cls.of_words(dict(vocabulary), np.array(words, np.int32), np.array(ends, np.int64))

    @classmethod
    def of_words(
        cls, vocabulary: Mapping[str, int], words: NDArray[np.int32], ends: NDArray[np.int64]
    ) -> Inverted:
        """The index of texts that are numbers already."""
        from scipy.sparse import csr_array

        ones = np.ones(len(words), np.int32)
        # Copies, for scipy sums in place: words and ends must stay what they are.
        parts = (ones, words.copy(), ends.copy())
        table = csr_array(parts, shape=(len(ends) - 1, len(vocabulary)))
        table.sum_duplicates()  # a term that stands twice in a chunk: one entry, with a count of 2
        sizes = np.diff(ends).astype(float)
        return cls(
            vocabulary=vocabulary,
            postings=Lists.of(table.tocsc()),
            bags=Lists.of(table),
            lengths=sizes / sizes.mean() if sizes.any() else sizes,
            words=words,
            ends=ends,
        )

    def save(self, path: Path) -> Path:
        """Writes the words alone: the lists follow from them, in less time than reading takes."""
        terms = np.frombuffer("\n".join(self.vocabulary).encode("utf-8", "surrogatepass"), np.uint8)
        content = BytesIO()
        np.savez(content, terms=terms, words=self.words, ends=self.ends)
        return write_whole(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> Inverted:
        """Raises OSError, EOFError, ValueError, KeyError or BadZipFile where it is not whole."""
        with np.load(path, allow_pickle=False) as file:
            terms = file["terms"].tobytes().decode("utf-8", "surrogatepass")
            vocabulary = {term: n for n, term in enumerate(terms.split("\n")) if terms}
            return cls.of_words(vocabulary, file["words"], file["ends"])

    def posted(self, term: str) -> dict[int, int]:
        """chunk -> how often it holds the term; empty for a term that no chunk holds."""
        position = self.vocabulary.get(term)
        if position is None:
            return {}
        at = self.postings.at(position)
        numbers, counts = self.postings.numbers[at], self.postings.counts[at]
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def bag(self, row: int) -> dict[str, int]:
        """term -> how often the chunk holds it."""
        at = self.bags.at(row)
        numbers, counts = self.bags.numbers[at].tolist(), self.bags.counts[at].tolist()
        return {self._terms[term]: count for term, count in zip(numbers, counts, strict=True)}

    def sequence(self, row: int) -> NDArray[np.int32]:
        """int [terms]: the chunk's terms in their order, as the vocabulary numbers them."""
        return self.words[self.ends[row] : self.ends[row + 1]]

    @cached_property
    def _terms(self) -> list[str]:
        return list(self.vocabulary)
