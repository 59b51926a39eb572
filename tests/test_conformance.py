"""What every stage must bear: no query, no chunk, one chunk, a k too large, ties, any Unicode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes import FakeEmbedder, ids

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.generate import Extractive
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.index import Index
from raglab.ingest.recursive import Recursive
from raglab.retrieve.approximate import Approximate
from raglab.retrieve.chain import Chain
from raglab.retrieve.dense import Dense, FaissFlat
from raglab.retrieve.diverse import MMR
from raglab.retrieve.feedback import RM3
from raglab.retrieve.fuse import RRF
from raglab.retrieve.fuse_scores import CombMNZ, CombSUM, Convex
from raglab.retrieve.learned import Learned, Weights
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import PassThrough
from raglab.retrieve.signals import NAMES, Signals
from raglab.retrieve.sparse import BM25
from raglab.retrieve.structures import Plan
from raglab.types import Chunk, Document, Query, Reranker, Retriever

EMBEDDER = FakeEmbedder()

CORPORA: dict[str, tuple[Document, ...]] = {
    "empty": (),
    "one": (Document("one", "A refund takes five days."),),
    "an empty document": (Document("a", ""), Document("b", "  \n"), Document("c", "refund")),
    "ties": tuple(Document(name, "refund policy") for name in ("c", "a", "b")),
    "unicode": (
        Document("u", "Crème brûlée — 退款 takes 5 days 🙂 ‏مرحبا\u200b"),
        Document("v", "e\u0301 \U0001d54f \x00 \ud7ff refund"),
    ),
    "long": (Document("long", "word " * 20_000), Document("solid", "x" * 100_000)),
}
QUERIES = ("refund", "", "   ", "退款", "nothing that is there", "refund " * 500, "🙂", "\x00")

RETRIEVERS: dict[str, Callable[[Index], Retriever]] = {
    "dense": lambda index: Dense(index, EMBEDDER),
    "faiss": lambda index: FaissFlat(index, EMBEDDER),
    "lucene": lambda index: BM25(index.chunks),
    "okapi": lambda index: BM25(index.chunks, variant="okapi"),
    "bm25+": lambda index: BM25(index.chunks, variant="bm25+"),
    "bm25l": lambda index: BM25(index.chunks, variant="bm25l"),
    "atire": lambda index: BM25(index.chunks, variant="atire"),
    "rm3": lambda index: RM3(BM25(index.chunks)),
}

RERANKERS: dict[str, Callable[[Index], Reranker]] = {
    "late interaction": lambda index: LateInteraction(index, EMBEDDER, depth=5),
    "learned": lambda index: Learned(
        Signals(index, EMBEDDER, BM25(index.chunks)), Weights((1.0,) * len(NAMES)), depth=5
    ),
    "mmr": lambda index: MMR(index, k=5),
    "chain": lambda index: Chain((MMR(index), LateInteraction(index, EMBEDDER, depth=5))),
}

APPROXIMATE: dict[str, Callable[[Index], Retriever]] = {
    kind: lambda index, kind=kind: Approximate(index, EMBEDDER, Plan(kind))  # type: ignore[misc]
    for kind in ("hnsw", "ivf", "sq8", "bits")  # ivf-pq needs more vectors to learn from
}


def built(name: str) -> Index:
    return Index.build(CORPORA[name], Recursive(EMBEDDER.spans, size=100, overlap=10), EMBEDDER)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("text", QUERIES, ids=lambda text: repr(text[:12]))
def test_the_stages_bear_it(corpus: str, text: str) -> None:
    index = built(corpus)
    query = Query("q", text)
    assert PassThrough().rewrite(query)[0] == query
    lists = {}
    for name, make in {**RETRIEVERS, **APPROXIMATE}.items():
        hits = lists[name] = make(index).retrieve(query, 1000)
        assert hits == make(index).retrieve(query, 1000)
        assert len(set(ids(hits))) == len(hits) <= len(index.chunks)
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        if not text.strip():
            assert hits == ()
    fused = RRF().fuse(lists)
    assert set(ids(fused)) == {chunk_id for hits in lists.values() for chunk_id in ids(hits)}
    reranker = LateInteraction(index, EMBEDDER, depth=5)
    reranked = reranker.rerank(query, fused)
    assert set(ids(reranked)) == set(ids(fused[:5]))
    context = BudgetAssembler(EMBEDDER.count, keep=3, budget=400).assemble(query, reranked)
    assert context.tokens <= context.budget
    assert len(context.kept) + len(context.dropped) == len(reranked)
    answer = Extractive(index, EMBEDDER, BM25(index.chunks)).generate(query, context)
    assert answer.refused == (not answer.citations)
    for citation in answer.citations:
        assert citation.quote in context.kept[citation.number - 1].chunk.text


@pytest.mark.parametrize("name", RETRIEVERS)
def test_ties_stand_in_order_of_chunk_id(name: str) -> None:
    hits = RETRIEVERS[name](built("ties")).retrieve(Query("q", "refund"), 2)
    assert ids(hits) == ["a#0", "b#0"]
    assert hits[0].score == hits[1].score


@pytest.mark.parametrize("name", [*RETRIEVERS, *APPROXIMATE])
def test_the_filter_acts_before_the_cut(name: str) -> None:
    """Ten better chunks are forbidden; k = 1 still returns the best that is allowed."""
    documents = [Document(f"no{i}", "refund refund") for i in range(10)]
    documents.append(Document("yes", "refund other words here"))
    index = Index.build(documents, WholeDocument(), EMBEDDER)

    def only(chunk: Chunk) -> bool:
        return chunk.doc_id == "yes"

    retriever = {**RETRIEVERS, **APPROXIMATE}[name](index)
    assert ids(retriever.retrieve(Query("q", "refund"), 1, only)) == ["yes#0"]
    assert retriever.retrieve(Query("q", "refund"), 1, lambda chunk: False) == ()


@pytest.mark.parametrize("name", [*RETRIEVERS, *APPROXIMATE])
def test_k_must_be_at_least_one(name: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        {**RETRIEVERS, **APPROXIMATE}[name](built("one")).retrieve(Query("q", "refund"), 0)


@pytest.mark.parametrize("name", RERANKERS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_a_reranker_returns_some_of_its_hits_once(name: str, corpus: str) -> None:
    index = built(corpus)
    for text in QUERIES:
        query = Query("q", text)
        given = RRF().fuse({"dense": Dense(index, EMBEDDER).retrieve(query, 20)})
        reranker = RERANKERS[name](index)
        hits = reranker.rerank(query, given)
        assert hits == reranker.rerank(query, given)
        assert len(set(ids(hits))) == len(hits) == min(5, len(given))
        assert set(ids(hits)) <= set(ids(given))
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        assert all(hit.score == sum(part.value for part in hit.parts) for hit in hits)
        assert reranker.rerank(query, ()) == ()


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_fusers_bear_it(corpus: str) -> None:
    index = built(corpus)
    for text in QUERIES:
        query = Query("q", text)
        lists = {name: make(index).retrieve(query, 20) for name, make in RETRIEVERS.items()}
        for fuser in (RRF(), CombSUM(), CombMNZ("z-score"), Convex()):
            fused = fuser.fuse(lists)
            assert set(ids(fused)) == {one for hits in lists.values() for one in ids(hits)}
            assert [hit.rank for hit in fused] == list(range(1, len(fused) + 1))
