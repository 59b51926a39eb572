"""Chunkers compared on the same questions: what is kept whole, and what is found.

A question's evidence is a set of quotes.  A quote that no chunk holds whole was *severed*, and no
retriever can find it.  *Evidence recall@k* is the share of a question's quotes that the first k
chunks hold, averaged over the questions.

Five long chunks hold more text than five short ones, so the table also says how many word pieces
the reader gets: a gain in recall that is paid for in text is not a better chunker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from raglab.evaluate.evidence import found, holds
from raglab.evaluate.intervals import Interval, interval
from raglab.ingest.index import Index
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.sparse import BM25
from raglab.types import (
    Chunk,
    Chunker,
    Document,
    Embedder,
    Query,
    Question,
    Ranking,
    Readable,
)

RETRIEVERS = ("dense", "BM25", "RRF")


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy's figures."""

    strategy: str
    chunks: int
    megabytes: float  # of the index's sentence vectors and texts
    whole: float  # share of the quotes that some chunk holds whole
    read: float  # word pieces in the first k chunks of RRF, on average
    recall: Mapping[str, Interval]  # retriever -> evidence recall@k

    def cells(self) -> tuple[str, ...]:
        figures = (str(self.chunks), f"{self.megabytes:.1f}", f"{self.whole:.3f}")
        recalls = (str(self.recall[name]) for name in RETRIEVERS)
        return (self.strategy, *figures, f"{self.read:.0f}", *recalls)


HEAD = ("strategy", "chunks", "MB", "whole", "pieces read", *(f"{name} @k" for name in RETRIEVERS))


def found_by(
    index: Index, questions: Sequence[Question], embedder: Embedder, k: int
) -> dict[str, list[float]]:
    """retriever -> for each question the share of its quotes among the first k chunks.

    1 minus that is the share of failed retrievals at k.
    """
    shares: dict[str, list[float]] = {name: [] for name in RETRIEVERS}
    for question, hits_by in _searched(index, questions, embedder, k):
        for name, hits in hits_by.items():
            shares[name].append(found(question, _chunks(hits, k)))
    return shares


def measure(
    strategy: str, index: Index, questions: Sequence[Question], embedder: Embedder, k: int = 5
) -> Row:
    """The figures of one index. Every question needs evidence: there must be something to find."""
    read = [
        sum(embedder.count(text) for text in {c.shown for c in _chunks(hits_by["RRF"], k)})
        for _, hits_by in _searched(index, questions, embedder, k)
    ]
    texts = sum(len(chunk.indexed_text.encode()) for chunk in index.chunks)
    shares = found_by(index, questions, embedder, k)
    return Row(
        strategy=strategy,
        chunks=len(index.chunks),
        megabytes=(index.vectors.nbytes + texts) / 2**20,
        whole=kept_whole(index.chunks, questions),
        read=mean(read),
        recall={name: interval(values) for name, values in shares.items()},
    )


def rankings(index: Index, embedder: Embedder, question: Question, k: int) -> dict[str, Ranking]:
    """The first k of dense, of BM25 and of their fusion, over what the asker may see."""
    return {
        name: hits[:k] for name, hits in _search(index, embedder, BM25(index.chunks), question, k)
    }


def _searched(
    index: Index, questions: Sequence[Question], embedder: Embedder, k: int
) -> Iterator[tuple[Question, dict[str, Ranking]]]:
    bm25 = BM25(index.chunks)
    for question in questions:
        yield question, dict(_search(index, embedder, bm25, question, k))


def _search(
    index: Index, embedder: Embedder, bm25: BM25, question: Question, k: int
) -> Iterator[tuple[str, Ranking]]:
    """RRF sees at least 20 of each list, however few are asked for."""
    query, allowed = Query(question.query_id, question.text), Readable(question.groups)
    lists = {
        "dense": Dense(index, embedder).retrieve(query, max(k, 20), allowed),
        "BM25": bm25.retrieve(query, max(k, 20), allowed),
    }
    yield from lists.items()
    yield "RRF", RRF().fuse(lists)


def compare(
    documents: Sequence[Document],
    questions: Sequence[Question],
    strategies: Mapping[str, Chunker],
    embedder: Embedder,
    *,
    k: int = 5,
    progress: bool = False,
) -> tuple[Row, ...]:
    """A row for each strategy, over the same documents and questions."""
    rows = []
    for name, chunker in strategies.items():
        index = Index.build(documents, chunker, embedder, tokens=False, progress=progress)
        rows.append(measure(name, index, questions, embedder, k))
    return tuple(rows)


def kept_whole(chunks: Sequence[Chunk], questions: Sequence[Question]) -> float:
    """The share of all quotes that at least one chunk holds whole, from 0 to 1."""
    by_document: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.doc_id, []).append(chunk)
    quotes = [quote for question in questions for quote in question.evidence]
    return mean(any(holds(c, quote) for c in by_document.get(quote.doc_id, ())) for quote in quotes)


def _chunks(hits: Ranking, k: int) -> list[Chunk]:
    return [hit.chunk for hit in hits[:k]]
