"""Answering without a model: repeat the statements that answer best, each cited, or refuse.

A statement is a sentence or a row of a table.  Nine signals, each from about 0 to 1, ask whether
it answers the question:

    meaning    cosine of the query's vector and the mean of the statement's token vectors
    match      MaxSim with idf for weights; headings count for less
    weakest    mean match of the third of the query's pieces that the statement matches worst
    words      share of the query's idf that the statement, its headings and its title hold
    kind       1 where it holds what is asked for ("how many": a number), 0 where it does not,
               and 1/2 where the question asks for no kind of thing
    row        1 for a row of a table
    subject    1 where it begins with a name of the query, such as ERR_2043
    before     the best match of the two statements before it: an answer often follows its subject
    passage    cosine of the query's vector and the chunk's

    support(s) = Σ weight · signal,   the weights adding up to 1

The weights come from a softmax regression: of a context's statements and one choice more, "none of
them", which is right?  It learned from the handbook's dev questions, those that nothing answers
among them, and from the answerable ones once more with the documents that answer them taken away.
`tests/bench/extractive.py` trains them.

Names are exact.  A source that lacks a code, an acronym or a name with `_` that the query holds
supports nothing: a neighbouring code is no answer.

Left out: understanding.  It cannot see that a sentence about the same matter leaves the question
open.  Half of the questions that nothing answers get such a sentence for an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from raglab.amounts import Number
from raglab.facts import Code, Date, facts
from raglab.ingest.embed import unit
from raglab.ingest.index import Index
from raglab.retrieve.ranking import DIGITS
from raglab.retrieve.signals import weakest, weighted_mean
from raglab.retrieve.sparse import BM25
from raglab.statements import Statement, statements
from raglab.types import (
    REFUSAL,
    Answer,
    Chunk,
    Citation,
    Context,
    Embedder,
    Encoding,
    Part,
    Query,
    Sentence,
    Vectors,
)

Floats = NDArray[np.float64]
WEIGHTS: Mapping[str, float] = {
    "meaning": 0.133,
    "match": 0.182,
    "weakest": 0.252,
    "words": 0.129,
    "kind": 0.028,
    "row": 0.049,
    "subject": 0.054,
    "before": 0.05,
    "passage": 0.123,
}
SIGNALS = tuple(WEIGHTS)
ABOVE = 0.9  # what a match in the headings is worth, beside one in the statement itself

_ASKED = {
    "number": r"\bhow (?:many|much|long|often|large|big|far|late|old|soon|fast|quickly|high)\b"
    r"|\b(?:what|which) (?:is the )?(?:percent\w*|share|limit|price|cost|size|number|amount|rate)\b"
    r"|\b(?:what|which) (?:is the )?(?:fee|maximum|minimum|length|duration|period)\b"
    r"|\b(?:cost|price)\b",
    "date": r"\bwhen\b|\b(?:what|which) (?:date|day|time|year|month)\b|\bsince\b|\bdeadline\b",
    "name": r"\bwho(?:m|se)?\b",
    "code": r"\b(?:which|what) (?:error )?(?:code|call|function|scope|command|method|header)\b",
}
_ASKED_FOR = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _ASKED.items()}
_NAME = re.compile(r"(?<=[a-z,;:|] )[A-ZÀ-Ž]\w+")
_WORD = re.compile(r"\w+")
_UNITS = frozenset(("kb", "mb", "gb", "tb", "ms"))


@dataclass(frozen=True, slots=True)
class Support:
    """A statement of the context, and how well it supports an answer, from 0 to 1.

    The score is the sum of its parts, one for each signal.
    """

    number: int  # its source's citation number
    chunk_id: str
    start: int  # where it begins in the chunk's text
    text: str
    score: float
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Extractive:
    """Repeats the statements that support an answer best.

    Statements within `margin` of the best are taken, at most `sentences` of them, in the order of
    the context.  Below `threshold` the answer is a refusal; both were chosen on the handbook's dev
    questions, and `make bench` prints what they do there and on its test questions.
    """

    index: Index
    embedder: Embedder
    bm25: BM25
    threshold: float = 0.3
    margin: float = 0.05
    sentences: int = 3

    def generate(self, query: Query, context: Context) -> Answer:
        supports = self.supports(query, context)
        best = supports[0].score if supports else 0.0
        if not supports or best < self.threshold:
            return Answer(REFUSAL, (), refused=True, origin="extractive")
        taken = [s for s in supports if s.score >= best - self.margin][: self.sentences]
        taken.sort(key=lambda support: (support.number, support.start))
        citations = tuple(Citation(s.number, s.chunk_id, s.text) for s in taken)
        return Answer(
            text=" ".join(f"{one.quote} [{one.number}]" for one in citations),
            citations=citations,
            refused=False,
            origin="extractive",
            sentences=tuple(Sentence(one.quote, (one,)) for one in citations),
        )

    def supports(self, query: Query, context: Context) -> list[Support]:
        """Every statement of the context, best first; equal ones in the order of the context."""
        found = []
        for number, chunk, one, row in self.signals(query, context):
            parts = tuple(Part(n, round(w * row[n], DIGITS)) for n, w in WEIGHTS.items())
            score = sum(part.value for part in parts)
            found.append(Support(number, chunk.chunk_id, one.start, one.said, score, parts))
        return sorted(found, key=lambda support: -support.score)

    def signals(
        self, query: Query, context: Context
    ) -> list[tuple[int, Chunk, Statement, dict[str, float]]]:
        """For each statement of each source that holds the query's names: the citation number, the
        chunk, the statement, and its signals by name."""
        if not query.text.strip():
            return []
        return [
            (number, hit.chunk, one, row)
            for number, hit in enumerate(context.kept, start=1)
            for one, row in _read(self, query.text, hit.chunk)
            # What was compressed away, nobody who reads the prompt sees.
            if not context.text or escape(one.said) in context.text
        ]

    def read(self, query: str, chunk: Chunk) -> tuple[tuple[Statement, dict[str, float]], ...]:
        """Each statement of a chunk and its signals; none where it lacks a name of the query."""
        asked = {term: self.bm25.idf(term) for term in self.bm25.tokenizer(query)}
        names = exact_names(query)
        above = f"{chunk.title} {chunk.heading}"
        if not names <= _names_in(f"{above} {chunk.text}"):
            return ()
        encoding = self.embedder.encode_query(query)
        importance = self._importance(query, encoding)
        wanted = tuple(kind for kind, asks in _ASKED_FOR.items() if asks.search(query))
        passage = float(self.index.vectors[self.index.rows[chunk.chunk_id]] @ encoding.vector)
        terms_above = set(self.bm25.tokenizer(above))
        before: list[float] = []
        found = []
        for one, tokens, headings in self._tokens(chunk):
            best = _best(encoding.tokens, tokens, headings)
            match = float(weighted_mean(best[None], importance)[0])
            held = terms_above | set(self.bm25.tokenizer(one.text))
            mean = unit(tokens.mean(axis=0)) @ encoding.vector if len(tokens) else 0.0
            row = {
                "meaning": float(mean),
                "match": match,
                "weakest": float(weakest(best[None])[0]),
                "words": _share(asked, held),
                "kind": _kind(wanted, query, one),
                "row": float(bool(one.cells)),
                "subject": float(bool(names & _names_in(_subject(one)))),
                "before": max(before[-2:], default=0.0),
                "passage": passage,
            }
            before.append(match)
            found.append((one, row))
        return tuple(found)

    def _importance(self, text: str, encoding: Encoding) -> Floats:
        """float [q]: for each piece of the query the idf of the word that it stands in."""
        weights = np.zeros(len(encoding.spans))
        for word in _WORD.finditer(text):
            inside = (encoding.spans[:, 0] >= word.start()) & (encoding.spans[:, 0] < word.end())
            weights[inside] = max(map(self.bm25.idf, self.bm25.tokenizer(word[0])), default=0.0)
        return weights

    def _tokens(self, chunk: Chunk) -> list[tuple[Statement, Vectors, Vectors]]:
        """Each statement of a chunk with its token vectors, and those of what stands above."""
        tokens = self.index.token_vectors(chunk.chunk_id)
        # The text stands at the end of what was indexed; its offsets start there.
        places = self.index.token_spans(chunk.chunk_id)
        places = places - (len(chunk.indexed_text) - len(chunk.text))
        headings = tokens[places[:, 1] <= 0]
        found = []
        for one in statements(chunk.text):
            end = one.start + len(one.said)
            inside = (places[:, 0] >= one.start) & (places[:, 1] <= end)
            found.append((one, tokens[inside], headings))
        return found


@lru_cache(maxsize=64)  # what condenses, checks and answers reads the same chunks, one by one
def _read(
    reader: Extractive, query: str, chunk: Chunk
) -> tuple[tuple[Statement, dict[str, float]], ...]:
    return reader.read(query, chunk)


def exact_names(text: str) -> frozenset[str]:
    """What has to be matched letter for letter, but for case: words with `_`, with a digit among
    letters, or with two capitals. Units such as GB are none.

    >>> sorted(exact_names("Does ERR_2043 cost VAT on eu-west-2, in GB?"))
    ['err_2043', 'vat']
    """
    found = set()
    for word in _WORD.findall(text):
        capitals = sum(letter.isupper() for letter in word)
        digits = sum(letter.isdigit() for letter in word)
        mixed = 0 < digits < len(word)
        if ("_" in word or capitals > 1 or mixed) and word.lower() not in _UNITS:
            found.add(word.lower())
    return frozenset(found)


def _names_in(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _best(query: NDArray[np.float16], tokens: Vectors, headings: Vectors) -> Floats:
    """float [q]: each piece's best match in the statement, or a lesser one in the headings."""
    pieces = query.astype(np.float32)
    best = np.zeros(len(pieces))
    if len(tokens):
        best = (pieces @ tokens.T).max(axis=1).astype(float)
    if len(headings):
        best = np.maximum(best, ABOVE * (pieces @ headings.T).max(axis=1))
    return np.round(best, DIGITS)


def _kind(wanted: Sequence[str], query: str, one: Statement) -> float:
    """Does the statement hold something of a kind that is asked for, and that the query did not
    say itself? 1/2 where no kind is asked for."""
    if not wanted:
        return 0.5
    known = facts(query)
    new = [fact for fact in facts(one.text) if not any(fact.agrees(other) for other in known)]
    clock = any(isinstance(fact, Code) and ":" in fact.name for fact in new)
    holds = {
        "number": any(isinstance(fact, Number) for fact in new),
        "date": clock or any(isinstance(fact, Date) for fact in new),
        "name": bool(_NAME.search(one.said)),
        "code": "`" in one.said or any(isinstance(fact, Code) for fact in new),
    }
    return float(any(holds[kind] for kind in wanted))


def _subject(one: Statement) -> str:
    """What a statement is about, by its place: a row's first cell, a sentence's first word."""
    return one.cells[0][1] if one.cells else one.text.split(maxsplit=1)[0]


def _share(asked: Mapping[str, float], held: set[str]) -> float:
    """The share of the asked terms' weights whose terms are held."""
    total = sum(asked.values())
    return sum(idf for term, idf in asked.items() if term in held) / total if total else 0.0
