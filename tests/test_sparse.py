"""BM25: five formulas against two libraries, an index that copies share, and what panels say."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import bm25s
import numpy as np
import pytest
import rank_bm25
from fakes import chunk, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.corpus import read_beir
from raglab.lab import golden_questions, read_corpus
from raglab.retrieve.bm25_formulas import FORMULAS, VARIANTS
from raglab.retrieve.contenders import contenders
from raglab.retrieve.postings import Inverted
from raglab.retrieve.ranking import top
from raglab.retrieve.sparse import BM25
from raglab.retrieve.tokens import SPLITS, Tokenizer, stop_words
from raglab.types import Chunk, Query, RagLabError, Readable
from raglab.views.sparseview import bars_panel, idf_panel, length_panel, saturation_panel

SCIFACT = os.environ.get("RAGLAB_SCIFACT", "")  # a BEIR folder
PLAIN = Tokenizer(stem=False)
WORDS = st.sampled_from(["refund", "policy", "error", "limit", "user", "late", "fee", "ERR_2043"])
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=10)
ASKED = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


def chunks(*texts: str) -> tuple[Chunk, ...]:
    return tuple(chunk(f"d#{number}", text) for number, text in enumerate(texts))


def every_score(bm25: BM25, text: str) -> np.ndarray:
    return bm25.score_rows(text, range(len(bm25.chunks)))


# -- the five formulas, against libraries ---------------------------------------------------------


def handbook() -> tuple[list[str], list[str]]:
    return [d.text for d in read_corpus("handbook")], [q.text for q in golden_questions()]


def scifact() -> tuple[list[str], list[str]]:
    if not SCIFACT:
        pytest.skip("RAGLAB_SCIFACT names no folder")
    documents, queries, _ = read_beir(SCIFACT)
    return [document.text for document in documents[:1000]], [query.text for query in queries]


def with_absent_terms(bm25: BM25, text: str) -> np.ndarray:
    """What libraries make of it: a term adds idf · weight(0) to the chunks that lack it."""
    scores = every_score(bm25, text)
    nothing = FORMULAS[bm25.variant].weight(np.zeros(1), np.ones(1), bm25.k1, bm25.b)[0]
    for term, times in Counter(bm25.tokenizer(text)).items():
        holders = bm25.posted(term)
        if holders:
            absent = np.ones(len(scores), bool)
            absent[list(holders)] = False
            scores[absent] += times * bm25.idf(term) * nothing
    return scores


def library(name: str, variant: str, texts: Sequence[list[str]]):  # type: ignore[no-untyped-def]
    if name == "rank_bm25":
        kinds = {"okapi": rank_bm25.BM25Okapi, "bm25+": rank_bm25.BM25Plus}
        return kinds[variant](texts)
    delta = {"bm25+": 1.0}.get(variant, 0.5)
    theirs = bm25s.BM25(method=variant, k1=1.5, b=0.75, delta=delta, dtype="float64")
    theirs.index(texts, show_progress=False)
    return theirs


@pytest.mark.parametrize("corpus", [handbook, scifact], ids=lambda corpus: corpus.__name__)
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("rank_bm25", "okapi"),
        ("rank_bm25", "bm25+"),
        ("bm25s", "lucene"),
        ("bm25s", "bm25+"),
        ("bm25s", "bm25l"),
        ("bm25s", "atire"),
    ],
)
def test_equal_to_the_libraries_on_real_corpora(name: str, variant: str, corpus) -> None:  # type: ignore[no-untyped-def]
    texts, queries = corpus()
    bm25 = BM25(chunks(*texts), variant=variant)  # type: ignore[arg-type]
    theirs = library(name, variant, [bm25.tokenizer(text) for text in texts])
    for query in queries[:40]:
        asked = [term for term in bm25.tokenizer(query) if bm25.posted(term)]
        if asked:
            ours = with_absent_terms(bm25, query)
            assert np.allclose(ours, theirs.get_scores(asked), rtol=0, atol=1e-6)


def test_the_libraries_delta_moves_no_chunk_and_the_paper_s_does() -> None:
    """A long chunk that holds the word twice, short ones that lack it: δ = 1 is its idf more."""
    texts = ["fee " * 2 + "word " * 400, "late word", "late late"]
    bm25 = BM25(chunks(*texts), PLAIN, variant="bm25+")
    gap = every_score(bm25, "fee")[0] - every_score(bm25, "fee")[1]
    theirs = rank_bm25.BM25Plus([PLAIN(text) for text in texts]).get_scores(["fee"])
    assert gap - (theirs[0] - theirs[1]) == pytest.approx(bm25.idf("fee"))


def test_rank_bm25_multiplies_bm25l_by_tf_once_more() -> None:
    texts = ["fee", "fee fee", "late fee fee fee", "late"]
    bm25 = BM25(chunks(*texts), PLAIN, variant="bm25l")
    theirs = rank_bm25.BM25L([PLAIN(text) for text in texts]).get_scores(["fee"])
    assert every_score(bm25, "fee") * [1, 2, 3, 0] == pytest.approx(theirs)


# -- what holds for every variant -----------------------------------------------------------------


@given(TEXTS, ASKED, st.sampled_from(VARIANTS), st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=80)
def test_filter_then_search_equals_search_then_filter(
    texts: list[str], asked: str, variant: str, seen: set[int]
) -> None:
    bm25 = BM25(chunks(*texts), PLAIN, variant=variant)  # type: ignore[arg-type]
    allowed = {f"d#{number}" for number in seen}
    before = bm25.retrieve(Query("q", asked), len(texts), lambda c: c.chunk_id in allowed)
    after = [h for h in bm25.retrieve(Query("q", asked), len(texts)) if h.chunk.chunk_id in allowed]
    assert [(h.chunk, h.score, h.parts) for h in before] == [
        (h.chunk, h.score, h.parts) for h in after
    ]


@given(TEXTS, ASKED, st.sampled_from(VARIANTS), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=80)
def test_the_order_of_the_corpus_changes_nothing(
    texts: list[str], asked: str, variant: str, dice: random.Random
) -> None:
    before = chunks(*texts)
    after = tuple(dice.sample(before, len(before)))
    one, other = (
        BM25(some, PLAIN, variant=variant).retrieve(Query("q", asked), 5)  # type: ignore[arg-type]
        for some in (before, after)
    )
    assert ids(one) == ids(other)
    assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-12)


@given(TEXTS, ASKED, st.sampled_from(VARIANTS), st.integers(1, 12))
@settings(deadline=None, max_examples=80)
def test_every_way_to_search_agrees(texts: list[str], asked: str, variant: str, k: int) -> None:
    bm25 = BM25(chunks(*texts), variant=variant)  # type: ignore[arg-type]
    query = Query("q", asked)
    hits = bm25.retrieve(query, k)
    rows, scores = bm25.search(asked, k)
    assert [bm25.chunks[row] for row in rows] == [hit.chunk for hit in hits]
    assert scores.tolist() == pytest.approx([hit.score for hit in hits], abs=1e-12)
    assert bm25.score_rows(asked, rows).tolist() == scores.tolist()
    assert bm25.retrieve_many([query, query], k) == (hits, hits)
    weighted = bm25.retrieve_weighted(Counter(bm25.tokenizer(asked)), k)
    assert [(h.chunk, h.score) for h in weighted] == [(h.chunk, h.score) for h in hits]
    holders = {row for term in bm25.tokenizer(asked) for row in bm25.posted(term)}
    assert len(hits) == min(k, len(holders))


def test_weights_stand_in_place_of_counts() -> None:
    bm25 = BM25(chunks("late fee", "fee", "late"), PLAIN)
    halves = bm25.retrieve_weighted({"late": 0.5, "fee": 0.0}, 9)
    whole = bm25.retrieve_weighted({"late": 1.0}, 9)
    assert ids(halves) == ["d#2", "d#0"]
    assert [h.score for h in halves] == [h.score / 2 for h in whole]
    against = bm25.retrieve_weighted({"late": -1.0}, 9)  # found, and below zero
    assert [h.score for h in against] == [-h.score for h in reversed(whole)]
    with pytest.raises(RagLabError, match="finite"):
        bm25.retrieve_weighted({"late": float("nan")}, 9)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"variant": "bm26"}, "choose one of lucene"),
        ({"k1": -1.0}, "0 or more"),
        ({"k1": float("nan")}, "0 or more"),
        ({"b": 1.5}, "between 0 and 1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: dict[str, object], says: str) -> None:
    with pytest.raises(RagLabError, match=says):
        BM25(chunks("fee"), **setting)  # type: ignore[arg-type]


# -- one index, shared ----------------------------------------------------------------------------


def test_another_k1_b_or_variant_inverts_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page = chunks("late fee", "fee fee", "refund policy")
    bm25 = BM25(page, PLAIN)
    fresh = {v: BM25(page, PLAIN, v, 0.9, 0.4) for v in VARIANTS}  # type: ignore[arg-type]
    expected = {v: every_score(other, "late fee").tolist() for v, other in fresh.items()}
    bm25.retrieve(Query("q", "fee"), 1)
    monkeypatch.setattr(Inverted, "build", lambda texts: pytest.fail("inverted again"))
    for variant in VARIANTS:
        turned = replace(bm25, variant=variant, k1=0.9, b=0.4)  # type: ignore[arg-type]
        assert every_score(turned, "late fee").tolist() == expected[variant]
    assert replace(turned, variant="lucene", k1=1.5, b=0.75) == bm25
    assert "shared" not in repr(bm25)


def test_other_chunks_and_another_tokenizer_are_not_shared() -> None:
    bm25 = BM25(chunks("fees"))
    assert ids(bm25.retrieve(Query("q", "fee"), 1)) == ["d#0"]
    assert replace(bm25, tokenizer=PLAIN).retrieve(Query("q", "fee"), 1) == ()
    assert replace(bm25, chunks=chunks("late")).retrieve(Query("q", "fee"), 1) == ()


def test_both_views_of_the_index_hold_the_same_counts() -> None:
    page = chunks(*(document.text for document in read_corpus("handbook")[:30]))
    bm25 = BM25(page)
    for row, one in enumerate(page):
        assert bm25.terms_of(row) == Counter(bm25.tokenizer(one.text))
        assert all(bm25.posted(term)[row] == n for term, n in bm25.terms_of(row).items())
        names = list(bm25.inverted.vocabulary)
        assert [names[n] for n in bm25.inverted.sequence(row)] == bm25.tokenizer(one.text)
    assert bm25.posted("nowhere") == {}
    frequencies = Counter(term for row in range(len(page)) for term in bm25.terms_of(row))
    assert bm25.idf_by_frequency() == {n: bm25.idf(term) for term, n in frequencies.items()}


@given(st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_contenders_hold_all_of_the_top(k: int, seed: int) -> None:
    """Few different scores, some below zero, so that many tie at the cut."""
    dice = np.random.default_rng(seed)
    scores = dice.integers(-2, 6, 1000).astype(float)
    eligible = dice.random(1000) < dice.random()
    page = [chunk(f"{number:04}") for number in dice.permutation(1000)]
    worth = np.where(eligible, scores, -np.inf)
    left = contenders(worth, k, -1000.0)
    assert not (left & ~eligible).any()
    assert top(worth, k, page, left) == top(scores, k, page, eligible)


def test_a_search_looks_at_few_chunks() -> None:
    """No Python for each chunk: only those at the cut are touched."""

    class Watched(tuple[Chunk, ...]):
        touched = 0

        def __getitem__(self, row):  # type: ignore[no-untyped-def]
            Watched.touched += 1
            return super().__getitem__(row)

    texts = ["fee " * (1 + n % 7) + "word " * (n % 50) for n in range(5000)]
    bm25 = BM25(Watched(chunks(*texts)), PLAIN)
    bm25.search("fee", 5)
    Watched.touched = 0
    rows, _ = bm25.search("fee word", 5)
    assert len(rows) == 5
    assert Watched.touched < 100


# -- words ----------------------------------------------------------------------------------------

TEXT = "The get_user_by_id call, ERR_2043?"


@pytest.mark.parametrize(
    ("tokenizer", "terms"),
    [
        (Tokenizer(), "the get_user_by_id get user by id call err_2043 err 2043"),
        (Tokenizer(split="whole"), "the get_user_by_id call err_2043"),
        (Tokenizer(split="parts"), "the get user by id call err 2043"),
        (Tokenizer(split="space"), "the get_user_by_id call, err_2043?"),
        # scikit-learn's list holds "the", "get", "by" and "call"
        (Tokenizer(drop_stop_words=True), "get_user_by_id user id err_2043 err 2043"),
    ],
    ids=repr,
)
def test_what_a_tokenizer_makes_of_names(tokenizer: Tokenizer, terms: str) -> None:
    assert tokenizer(TEXT) == terms.split()


def test_a_split_that_is_not_there_is_refused() -> None:
    with pytest.raises(RagLabError, match="both, whole, parts, space"):
        Tokenizer(split="letters")  # type: ignore[arg-type]


@given(st.text(max_size=40), st.sampled_from(SPLITS))
def test_a_word_that_is_remembered_gives_what_it_gave(text: str, split: str) -> None:
    tokenizer = Tokenizer(split=split)  # type: ignore[arg-type]
    once = list(tokenizer.terms(text))
    assert list(tokenizer.terms(text)) == once == list(Tokenizer(split=split).terms(text))  # type: ignore[arg-type]
    assert all(term for term, _ in once)


def test_long_words_are_cut_and_not_remembered() -> None:
    long = "x" * 100_000
    tokenizer = Tokenizer()
    assert tokenizer(f"{long} fees") == [long, "fee"]
    assert tokenizer("late fees") == ["late", "fee"]
    assert tokenizer._remembered.cache_info().currsize == 2  # type: ignore[attr-defined]


def test_stop_words_hold_words_of_the_trade() -> None:
    assert len(stop_words()) == 318
    assert {"bill", "call", "system"} <= stop_words()


# -- panels ---------------------------------------------------------------------------------------

FOUR = chunks("refund policy", "refund refund form", "error list", "user list page")
BASE = BM25(FOUR, PLAIN)
WEIGHTS = {name: formula.weight for name, formula in FORMULAS.items()}
HOSTILE = "<script>alert(1)</script>\u202e\x00 refund"


def test_the_idf_panel_marks_the_query_s_terms() -> None:
    panel = idf_panel(lambda variant: replace(BASE, variant=variant), VARIANTS, "refund page gone")
    assert panel.words == (
        "By lucene, 'page' stands in 1 chunk and weighs 1.20 and 'refund' stands in 2 chunks and "
        "weighs 0.69. No chunk holds 'gone'."
    )
    panel.turn(variant="atire", query="refund")
    assert panel.words == "By atire, 'refund' stands in 2 chunks and weighs 0.69."
    panel.turn(query="gone")
    assert panel.words == "No chunk holds a term of this query."


def test_the_saturation_panel_says_what_each_occurrence_adds() -> None:
    """k1 = 1: 1/2, then 2/3 - 1/2, then 10/11 - 9/10."""
    panel = saturation_panel(WEIGHTS, k1=1.0)
    assert panel.words.endswith("the first occurrence adds 0.50, the second 0.17, the tenth 0.01.")
    panel.turn(k1=0.0)
    assert panel.words.endswith("the first occurrence adds 1.00, the second 0.00, the tenth 0.00.")
    panel.turn(k1=1.0, variant="okapi")
    assert "the first occurrence adds 1.00, the second 0.33" in panel.words
    shown = panel.html
    panel.turn(b=0.0)
    assert panel.html != shown
    assert "b=0.00" in panel.words


def test_the_length_panel_says_what_a_long_chunk_loses() -> None:
    """k1 = 1, b = 1: 1 / (1 + 0.5) in the short chunk, 1 / (1 + 2) in the long one."""
    panel = length_panel(WEIGHTS, k1=1.0, b=1.0)
    assert "weighs 0.67 in a chunk half as long as the average, and 0.33" in panel.words
    assert panel.words.endswith("50% less.")
    panel.turn(b=0.0)
    assert panel.words.endswith("the same.")


def test_the_bars_panel_shows_the_sum_and_the_postings() -> None:
    panel = bars_panel(
        lambda variant, k1, b: replace(BASE, variant=variant, k1=k1, b=b), VARIANTS, "refund form"
    )
    (first, *_) = BASE.retrieve(Query("q", "refund form"), 8)
    said = " + ".join(f"{part.name} {part.value:.2f}" for part in first.parts)
    assert panel.words == f"First is d#1: {first.score:.2f} = {said}."
    assert "the term refund stands in 2 of 4 chunks, idf 0.69" in panel.html
    assert '<th scope="row">d#1</th><td>2</td>' in panel.html
    before = panel.words
    panel.turn(k1=0.0)
    assert panel.words != before
    panel.turn(query="nowhere")
    assert panel.words == "No chunk holds these words."
    assert "stands in 0 of 4 chunks" in panel.html


def test_the_bars_panel_names_no_chunk_that_may_not_be_read() -> None:
    secret = chunk("secret#0", "refund refund form", groups=("hr",))
    bm25 = BM25((secret, *chunks("refund form", "form")))
    panel = bars_panel(lambda variant, k1, b: bm25, VARIANTS, "refund", allowed=Readable())
    assert panel.words.startswith("First is d#0")
    assert "stands in 2 of 3 chunks" in panel.html
    assert "1 more" in panel.html
    for query in ("refund form", "form", "secret"):
        assert "secret#0" not in panel.turn(query=query).html + panel.words


def test_hostile_queries_and_chunks_stay_text() -> None:
    hostile = BM25((chunk("<b>d</b>#0", HOSTILE), *chunks("form")), Tokenizer(split="space"))
    for panel in (
        bars_panel(lambda variant, k1, b: hostile, VARIANTS, HOSTILE),
        idf_panel(lambda variant: hostile, VARIANTS, HOSTILE),
    ):
        assert "&lt;script&gt;" in panel.html
        assert "<script" not in panel.html
        assert "<b>" not in panel.html
