"""Retrieval by arithmetic that a reader can redo, then against well-known libraries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import FakeEmbedder, chunk, ids, ranking
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from raglab.ingest.chunk import WholeDocument
from raglab.ingest.index import Index
from raglab.retrieve.dense import Dense, FaissFlat
from raglab.retrieve.fuse import RRF
from raglab.retrieve.ranking import rank, top
from raglab.retrieve.rerank import LateInteraction, max_sim, max_sims, token_matches
from raglab.retrieve.sparse import BM25
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Chunk, Document, Part, Query, Ranking

PLAIN = Tokenizer(stem=False)
WORDS = st.sampled_from(
    ["refund", "policy", "error", "limit", "user", "id", "cut", "rank", "late", "fee", "ERR_2043"]
)
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=8)


def chunks(*texts: str) -> tuple[Chunk, ...]:
    return tuple(chunk(f"d#{number}", text) for number, text in enumerate(texts))


def fake_index(*texts: str, embedder: FakeEmbedder | None = None) -> Index:
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    return Index.build(documents, WholeDocument(), embedder or FakeEmbedder())


def assert_sums(hits: Ranking) -> None:
    for hit in hits:
        assert hit.score == sum(part.value for part in hit.parts)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    order = [(-hit.score, hit.chunk.chunk_id) for hit in hits]
    assert order == sorted(order)


# -- BM25 by hand, on four tiny documents ---------------------------------------------------------

FOUR = chunks("refund policy", "refund refund form", "error list", "user list page")


def test_bm25_by_hand() -> None:
    """ "refund" stands in 2 of 4 chunks; the chunks hold 2, 3, 2 and 3 words, 2.5 on average."""
    hits = BM25(FOUR, PLAIN).retrieve(Query("q", "refund"), 10)
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    once = idf * 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * 2 / 2.5))
    twice = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2.5))
    assert ids(hits) == ["d#1", "d#0"]
    assert [hit.score for hit in hits] == pytest.approx([twice, once], abs=1e-12)


def test_a_term_that_is_asked_for_twice_counts_twice() -> None:
    bm25 = BM25(FOUR, PLAIN)
    once = bm25.retrieve(Query("q", "refund"), 10)
    twice = bm25.retrieve(Query("q", "refund refund"), 10)
    assert [hit.score for hit in twice] == pytest.approx([2 * hit.score for hit in once])


def test_okapi_idf_of_zero_still_finds() -> None:
    """In half of the chunks, Okapi's idf is ln(2.5 / 2.5) = 0: found, with a score of 0."""
    hits = BM25(FOUR, PLAIN, variant="okapi").retrieve(Query("q", "refund"), 10)
    assert ids(hits) == ["d#0", "d#1"]
    assert [hit.score for hit in hits] == [0, 0]


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_okapi_equals_rank_bm25(texts: list[str], asked: list[str]) -> None:
    bm25 = BM25(chunks(*texts), PLAIN, variant="okapi")
    theirs = BM25Okapi([PLAIN(text) for text in texts])
    expected = theirs.get_scores(PLAIN(" ".join(asked)))
    ours = {hit.chunk.chunk_id: hit.score for hit in bm25.retrieve(Query("q", " ".join(asked)), 99)}
    for row, score in enumerate(expected):
        assert ours.get(f"d#{row}", 0.0) == pytest.approx(score, abs=1e-9)


def test_codes_and_names_stay_findable() -> None:
    bm25 = BM25(chunks("ERR_2034 a", "ERR_2043 b", "get_user_by_id c", "get_user_by_email d"))
    assert ids(bm25.retrieve(Query("q", "what is err_2043?"), 1)) == ["d#1"]
    assert ids(bm25.retrieve(Query("q", "2043"), 1)) == ["d#1"]
    assert ids(bm25.retrieve(Query("q", "get_user_by_id"), 1)) == ["d#2"]
    assert ids(bm25.retrieve(Query("q", "user by email"), 1)) == ["d#3"]


def test_parts_are_named_by_the_words_that_were_asked() -> None:
    (hit,) = BM25(chunks("refunds")).retrieve(Query("q", "Refunded or refunding"), 1)
    assert [part.name for part in hit.parts] == ["Refunded"]


# -- late interaction -----------------------------------------------------------------------------


def test_max_sim_by_hand() -> None:
    query = np.array([[1, 0], [0, 1]], np.float32)
    page = np.array([[0.6, 0.8], [1, 0]], np.float32)
    assert max_sim(query, page).tolist() == pytest.approx([1.0, 0.8])


def test_max_sims_equals_max_sim_chunk_by_chunk() -> None:
    """A chunk without a token matches nothing; the others stand where their text says."""
    embedder = FakeEmbedder()
    index = fake_index("late fee", "refund policy for late orders", "fee", embedder=embedder)
    query = embedder.encode_query("late refund").tokens.astype(np.float32)
    ids_of = [chunk.chunk_id for chunk in index.chunks]
    expected = np.stack([max_sim(query, index.token_vectors(chunk_id)) for chunk_id in ids_of])
    assert np.allclose(max_sims(index, query, ids_of), expected, atol=2e-6)
    bare = replace(index, offsets=np.zeros(4, np.int64))
    assert max_sims(bare, query, ids_of[:1]).tolist() == [[0, 0]]


def test_token_matches_add_up_to_max_sim() -> None:
    embedder = FakeEmbedder()
    index = fake_index("late fee", "refund policy", embedder=embedder)
    found = token_matches(index, embedder, "refund late", "d1#0")
    assert (found.query, found.chunk) == (("refund", "late"), ("refund", "policy"))
    query = embedder.encode_query("refund late").tokens.astype(np.float32)
    best = found.cosines.max(axis=1)
    assert best == pytest.approx(max_sims(index, query, ["d1#0"])[0], abs=2e-6)


def test_rerank_blends_both_stages() -> None:
    embedder = FakeEmbedder()
    index = fake_index("late fee", "refund policy", "refund form", embedder=embedder)
    first = ranking("d0#0", "d2#0", "d1#0")
    reranker = LateInteraction(index, embedder)
    blended = reranker.rerank(Query("q", "refund policy"), first)
    alone = replace(reranker, first=0.0).rerank(Query("q", "refund policy"), first)
    before = replace(reranker, late=0.0).rerank(Query("q", "refund policy"), first)
    assert ids(alone)[0] == "d1#0"
    assert ids(before) == ids(first)
    expected = {h.chunk.chunk_id: h.score for h in alone}
    for hit in before:
        expected[hit.chunk.chunk_id] += hit.score
    assert {h.chunk.chunk_id: h.score for h in blended} == pytest.approx(expected)
    assert [part.name for part in blended[0].parts] == [
        "first stage",
        "match: refund",
        "match: policy",
    ]


def test_rerank_cuts_at_its_depth() -> None:
    embedder = FakeEmbedder()
    index = fake_index("a", "b", "c", embedder=embedder)
    hits = LateInteraction(index, embedder, depth=2).rerank(
        Query("q", "c"), ranking("d0#0", "d1#0", "d2#0")
    )
    assert sorted(ids(hits)) == ["d0#0", "d1#0"]


# -- what holds for every scorer ------------------------------------------------------------------


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=4).map(" ".join))
@settings(deadline=None, max_examples=40)
def test_every_score_is_the_sum_of_its_parts(texts: list[str], asked: str) -> None:
    embedder = FakeEmbedder()
    index = fake_index(*texts, embedder=embedder)
    query = Query("q", asked)
    lists = {
        "dense": Dense(index, embedder).retrieve(query, 5),
        "faiss": FaissFlat(index, embedder).retrieve(query, 5),
        "lucene": BM25(index.chunks).retrieve(query, 5),
        "okapi": BM25(index.chunks, variant="okapi").retrieve(query, 5),
    }
    fused = RRF().fuse(lists)
    reranked = LateInteraction(index, embedder).rerank(query, fused)
    for hits in (*lists.values(), fused, reranked):
        assert_sums(hits)


def test_ties_at_the_cut_fall_by_chunk_id() -> None:
    page = [chunk(name) for name in ("e", "a", "d", "b", "c")]
    scores = np.array([1.0, 1.0, 2.0, 1.0, 1.0])
    assert [page[row].chunk_id for row in top(scores, 3, page, np.ones(5, bool))] == ["d", "a", "b"]


def test_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        top(np.zeros(1), 0, [chunk("a")], np.ones(1, bool))


@given(st.lists(st.tuples(st.text(min_size=1, max_size=3), st.integers(-3, 3)), max_size=20))
def test_rank_is_a_total_order(rows: list[tuple[str, int]]) -> None:
    assert_sums(rank((chunk(name), [Part("x", value)]) for name, value in rows))
