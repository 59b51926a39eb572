"""Support: which statement of a passage speaks of what a claim says, and how well it covers it.

Late interaction, word by word (Khattab and Zaharia 2020, "ColBERT").  Each word of the claim looks
for its best match among the pieces of a statement and of the headings above it:

    match(w, s)    = mean, over the pieces of w, of the highest cosine to a piece of s
    coverage(s)    = mean, over the claim's words, of match(w, s)
    coverage(p)    = mean, over the claim's words, of the best match in any statement of passage p

Words that carry no meaning of their own ("the", "of", "is") do not count.  Numbers, dates and codes
do not count either: to the encoder, 45 and 60 are nearly the same.  `disagree.py` compares them
exactly; here they only help to choose the statement that the claim speaks of.

Left out: claims that need arithmetic, or two statements at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from raglab.facts import Fact, facts
from raglab.retrieve.content import Word, words
from raglab.retrieve.ranking import DIGITS
from raglab.statements import Statement, statements
from raglab.types import Chunk, Embedder, Encoding

Floats = NDArray[np.float64]
AGREED = 0.1  # what it is worth for a statement to hold all facts of the claim
ABOVE = 0.95  # what a match in the headings is worth, beside one in the statement itself
_ABOUT = re.compile(r"\b(?:almost|about|nearly|some|roughly|around)\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Read:
    """A text and what is in it. What stands before `body` is the headings above a statement."""

    text: str
    encoding: Encoding
    body: int = 0

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return words(self.text)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        return facts(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The words that count: they carry meaning and belong to no fact."""
        starts = self.encoding.spans[:, 0]
        return tuple(
            word
            for word in self.words
            if word.content
            and not any(fact.start <= word.start < fact.end for fact in self.facts)
            and ((starts >= word.start) & (starts < word.end)).any()  # the encoder read it
        )

    def rows(self, word: Word) -> NDArray[np.intp]:
        """Which of the encoding's pieces are those of a word."""
        starts = self.encoding.spans[:, 0]
        return np.flatnonzero((starts >= word.start) & (starts < word.end))


@dataclass(frozen=True, eq=False)
class Match:
    """A claim beside one statement."""

    claim: Read
    read: Read
    statement: Statement
    source: int  # which of the passages, from 0

    @cached_property
    def cosines(self) -> Floats:
        """float [claim's pieces, statement's pieces], the headings' pieces among the latter."""
        one, other = self.claim.encoding.tokens, self.read.encoding.tokens
        product = one.astype(np.float32) @ other.astype(np.float32).T
        return np.round(product.astype(float), DIGITS)

    @cached_property
    def by_word(self) -> Floats:
        """float [w]: the match of each content word of the claim."""
        inside = self.read.encoding.spans[:, 0] >= self.read.body
        best = np.zeros(len(self.cosines))
        if inside.any():
            best = self.cosines[:, inside].max(axis=1)
        if not inside.all():
            best = np.maximum(best, ABOVE * self.cosines[:, ~inside].max(axis=1))
        rows = [self.claim.rows(word) for word in self.claim.content]
        if not rows:  # nothing but facts and function words: all of it counts
            return best
        return np.array([best[pieces].mean() for pieces in rows])

    def place(self, word: Word) -> int:
        """The character of `read.text` at which a word of the claim has its best match in the
        statement itself; -1 where the encoder read neither."""
        rows, starts = self.claim.rows(word), self.read.encoding.spans[:, 0]
        inside = np.flatnonzero(starts >= self.read.body)
        if not len(rows) or not len(inside):
            return -1
        best = int(self.cosines[rows][:, inside].mean(axis=0).argmax())
        return int(starts[inside[best]])

    def cosine(self, word: Word) -> float:
        """The mean cosine of a word's pieces in the claim and in the statement; the highest, where
        the statement has it more than once, and 0 where it has it not."""
        same = [
            self.cosines[np.ix_(self.claim.rows(word), self.read.rows(other))]
            for other in self.read.words
            if other.stem == word.stem and other.start >= self.read.body
        ]
        return max((float(block.mean()) for block in same if block.size), default=0.0)

    @cached_property
    def coverage(self) -> float:
        return float(self.by_word.mean()) if len(self.by_word) else 0.0

    @cached_property
    def missing(self) -> tuple[Fact, ...]:
        """The claim's facts that neither the statement nor a heading above it holds."""
        nearly = bool(_ABOUT.search(self.claim.text))
        return tuple(
            fact
            for fact in self.claim.facts
            if not any(fact.agrees(other, nearly) for other in self.read.facts)
        )

    @cached_property
    def score(self) -> float:
        """By which the statement that the claim speaks of is chosen."""
        asked = len(self.claim.facts)
        return self.coverage + AGREED * (1 - len(self.missing) / max(1, asked))


def matches(
    claim: str, passages: Sequence[Chunk | str], embedder: Embedder
) -> tuple[tuple[Match, ...], ...]:
    """For each passage its statements beside the claim, in their order.

    A chunk's statements are read under its headings; a plain text has none.
    """
    read: list[tuple[int, Statement, str, int]] = []
    for source, passage in enumerate(passages):
        if isinstance(passage, Chunk):
            above, text = _headings(passage.heading or passage.title), passage.shown
        else:
            above, text = "", passage
        for one in statements(text):
            read.append((source, one, above + one.text, len(above)))
    encodings = embedder.encode([claim, *(text for _, _, text, _ in read)])
    said = Read(claim, encodings[0])
    found: list[list[Match]] = [[] for _ in passages]
    for (source, one, text, body), encoding in zip(read, encodings[1:], strict=True):
        found[source].append(Match(said, Read(text, encoding, body), one, source))
    return tuple(tuple(group) for group in found)


def _headings(path: str) -> str:
    """ "Refunds > 2. Enterprise" as "Refunds. Enterprise. ": the number is no fact of the text."""
    titles = [re.sub(r"^\d+[.)]\s+", "", title) for title in path.split(" > ") if title]
    return "".join(f"{title}. " for title in titles)


def coverage(group: Sequence[Match]) -> float:
    """coverage(p), from 0 to 1, of a passage's statements; 0 where there are none."""
    if not group:
        return 0.0
    return float(np.max([match.by_word for match in group], axis=0).mean())
