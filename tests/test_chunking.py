"""Six chunkers by hand, then on every document of both corpora; and what compares them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeEmbedder, FakeLLM, chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.evaluate.chunking import compare, found_by, kept_whole
from raglab.evaluate.intervals import interval, relative_change
from raglab.ingest.chunk import FixedSize, ParentChild, Sentences, WholeDocument
from raglab.ingest.contextualize import (
    Contextual,
    FromHeadings,
    FromLLM,
    blurb_prompt,
)
from raglab.ingest.index import Index
from raglab.ingest.recursive import Recursive, sections
from raglab.ingest.semantic import Semantic
from raglab.lab import read_corpus, strategies
from raglab.llm import DEFAULT_MODEL
from raglab.presets import DATA
from raglab.prices import Price, blurb_cost, read_price
from raglab.types import Chunker, Document, Evidence, Question, RagLabError

EMBEDDER = FakeEmbedder()
SPANS = EMBEDDER.spans


def texts(chunker: Chunker, text: str) -> list[str]:
    return [one.text for one in chunker.chunk(Document("d", text))]


# -- by hand ------------------------------------------------------------------------------------


def test_fixed_size_severs_wherever_it_falls() -> None:
    assert texts(FixedSize(SPANS, size=3), "The fee is 40 euros.") == ["The fee is", "40 euros."]


def test_overlap_rescues_what_the_cut_severed() -> None:
    found = texts(FixedSize(SPANS, size=3, overlap=2), "The fee is 40 euros.")
    assert found == ["The fee is", "fee is 40", "is 40 euros."]


def test_no_window_is_only_overlap() -> None:
    assert texts(FixedSize(SPANS, size=3, overlap=2), "a b c") == ["a b c"]
    assert texts(FixedSize(SPANS, size=4, overlap=1), "a b c d e f g") == ["a b c d", "d e f g"]


def test_sentences_come_in_groups() -> None:
    text = "A one. B two. C three. D four. E five."
    assert texts(Sentences(SPANS, n=2), text) == ["A one. B two.", "C three. D four.", "E five."]
    assert texts(Sentences(SPANS, n=4, size=4), text)[:1] == ["A one. B two."]


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert texts(Sentences(SPANS, size=3), "A b c d e f g.") == ["A b c", "d e f", "g."]


def test_semantic_cuts_where_the_subject_changes() -> None:
    """Four sentences of the same words, then four of others: the gap is at the middle."""
    text = "Cat sat here. " * 4 + "Tax form due. " * 4
    chunks = texts(Semantic(EMBEDDER, percentile=90, window=0), text.strip())
    assert chunks == [("Cat sat here. " * 4).strip(), ("Tax form due. " * 4).strip()]


def test_semantic_distances_are_one_minus_the_cosine() -> None:
    text = "Cat sat. Cat sat. Tax form."
    spans = [(0, 8), (9, 17), (18, 27)]
    same, other = Semantic(EMBEDDER, window=0).distances(text, spans)
    vectors = EMBEDDER.embed(["Cat sat.", "Tax form."])
    assert same == pytest.approx(0, abs=1e-6)
    assert other == pytest.approx(1 - float(vectors[0] @ vectors[1]), abs=1e-6)


def test_parent_child_finds_small_and_returns_the_section() -> None:
    text = "# Fees\n\nEnterprise first. The fee is 40 euros."
    chunker = ParentChild(Recursive(SPANS, 50, 0), Recursive(SPANS, 5, 0))
    children = chunker.chunk(Document("d", text))
    assert [c.text for c in children][-1] == "The fee is 40 euros."
    assert {c.shown for c in children} == {text}
    assert all(text[c.start : c.end] == c.text for c in children)
    assert children[-1].heading == "Fees"


def test_underlined_headings_are_headings() -> None:
    text = "The try\n*******\n\nbody\n\nexcept clause\n=============\n\nmore\n\n---\nno"
    assert [path for _, path in sections(text)] == ["The try", "The try > except clause"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedSize(SPANS, 5, 5),
        lambda: Sentences(SPANS, n=0),
        lambda: Semantic(EMBEDDER, percentile=101),
    ],
)
def test_settings_that_cannot_be_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RagLabError, match=r"must|at least"):
        make()


# -- every document of both corpora ---------------------------------------------------------------


@pytest.mark.parametrize("corpus", ["handbook", "python"])
@pytest.mark.parametrize("name", list(strategies(EMBEDDER)))  # type: ignore[arg-type]
def test_nothing_is_lost(name: str, corpus: str, encoder) -> None:  # type: ignore[no-untyped-def]
    """Each word stands in a chunk, sizes hold, offsets are true, and a second run is the same.

    The semantic chunker reads a fake encoder here: where it cuts is its own test.
    """
    real = strategies(encoder)[name]
    chunker = Semantic(EMBEDDER) if name == "semantic" else real
    count = EMBEDDER.count if name == "semantic" else encoder.count
    # A word that a fixed window severs may need a word piece more on either side.
    bounds = {"whole document": float("inf"), "parent-child": 80}
    bound = bounds.get(name, 202 if name.startswith("fixed") else 200)
    for document in read_corpus(corpus):
        chunks = chunker.chunk(document)
        assert chunks == chunker.chunk(document)
        assert len({one.chunk_id for one in chunks}) == len(chunks)
        covered = bytearray(len(document.text))
        for one in chunks:
            assert document.text[one.start : one.end] == one.text
            assert one.text in one.shown
            assert 0 < count(one.text) <= bound
            covered[one.start : one.end] = b"\1" * (one.end - one.start)
        lost = "".join(c for c, seen in zip(document.text, covered, strict=True) if not seen)
        assert not lost.strip(), document.doc_id


@given(st.text(st.sampled_from("ab é.?!\n#=|-界\t"), max_size=300), st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_nothing_is_lost_whatever_the_text(text: str, size: int) -> None:
    for chunker in (
        FixedSize(SPANS, size, size // 2),
        Sentences(SPANS, 3, size),
        Semantic(EMBEDDER, size=size),
        WholeDocument(),
        ParentChild(Recursive(SPANS, 2 * size, 0), Recursive(SPANS, size, 0)),
    ):
        chunks = chunker.chunk(Document("d", text))
        covered = {place for one in chunks for place in range(one.start, one.end)}
        assert all(c.isspace() or place in covered for place, c in enumerate(text))
        assert all(text[one.start : one.end] == one.text for one in chunks)


def test_a_long_document_of_equal_sentences_is_cut_in_time() -> None:
    chunks = Semantic(EMBEDDER, size=50).chunk(Document("d", "Same words here. " * 4000))
    assert max(EMBEDDER.count(one.text) for one in chunks) <= 50


# -- blurbs ---------------------------------------------------------------------------------------

FEES = Document("fees", "# Fees\n\n## Enterprise\n\nThe period is 45 days.", title="Fees")


def test_a_blurb_is_indexed_and_never_shown() -> None:
    (one,) = Contextual(Recursive(SPANS), FromHeadings()).chunk(FEES)
    assert one.context == "Fees > Enterprise"
    assert one.indexed_text == f"Fees > Enterprise\n{one.text}"
    assert one.shown == one.text == FEES.text


def test_a_model_sees_the_fenced_document_first() -> None:
    llm = FakeLLM("Of the enterprise\n fees.")
    (one,) = Contextual(Recursive(SPANS), FromLLM(llm)).chunk(FEES)
    assert one.context == "Of the enterprise fees."
    ((_, prompt),) = llm.asked
    assert prompt.startswith("<document>\n# Fees")
    assert prompt.endswith(blurb_prompt(one))


def test_what_a_prompt_cache_saves() -> None:
    """100 tokens asked about 3 times, and 10 tokens asked about once, which no cache keeps."""
    price = Price("m", 2, 10, cache_write=2.5, cache_read=0.2, cache_least=50, as_of="")
    cost = blurb_cost([100, 10], [[5, 5, 5], [10]], price, output_tokens=4)
    rest = (15 + 10) * 2 + 4 * 4 * 10
    assert cost.plain == pytest.approx(((300 + 10) * 2 + rest) / 1e6)
    assert cost.cached == pytest.approx((100 * 2.5 + 2 * 100 * 0.2 + 10 * 2 + rest) / 1e6)
    assert (cost.calls, cost.input_tokens, cost.cacheable, cost.documents) == (4, 335, 1, 2)


def test_the_price_table_names_the_models_that_the_lab_offers(tmp_path: Path) -> None:
    table = DATA / "prices.json"
    for model in (DEFAULT_MODEL, "claude-opus-4-8", "claude-haiku-4-5"):
        price = read_price(table, model)
        assert price.cache_read < price.input < price.cache_write < price.output
    with pytest.raises(RagLabError, match="add a row"):
        read_price(table, "no-such-model")
    with pytest.raises(RagLabError, match="add a row"):
        read_price(tmp_path / "none.json", DEFAULT_MODEL)


# -- figures --------------------------------------------------------------------------------------

QUESTIONS = (
    Question("a", "enterprise period", "numeric", "45", (Evidence("fees", "45 days"),), True),
    Question("b", "the fee", "numeric", "40", (Evidence("x", "40 euros"),), True),
)
OTHER = Document("x", "The fee is 40 euros. Nothing else.")


def test_kept_whole_by_hand() -> None:
    assert kept_whole([chunk("fees#0", "45 days"), chunk("x#0", "40")], QUESTIONS) == 1 / 2


def test_a_severed_quote_is_found_by_no_retriever() -> None:
    index = Index.build((FEES, OTHER), FixedSize(SPANS, size=4), EMBEDDER, tokens=False)
    assert found_by(index, QUESTIONS, EMBEDDER, 20)["RRF"][1] == 0
    whole = Index.build((FEES, OTHER), WholeDocument(), EMBEDDER, tokens=False)
    assert found_by(whole, QUESTIONS, EMBEDDER, 20)["RRF"] == [1, 1]


def test_a_row_for_each_strategy() -> None:
    rows = compare(
        (FEES, OTHER),
        QUESTIONS,
        {"whole": WholeDocument(), "fixed": FixedSize(SPANS, size=4)},
        EMBEDDER,
    )
    assert [(row.strategy, row.whole) for row in rows] == [("whole", 1), ("fixed", 0)]
    assert rows[0].chunks == 2
    assert rows[0].read == EMBEDDER.count(FEES.text) + EMBEDDER.count(OTHER.text)


def test_questions_of_others_stay_closed() -> None:
    restricted = Document("pay", "The band is 90.", groups=("hr",))
    question = Question(
        "p", "band", "access-restricted", "90", (Evidence("pay", "90"),), True, groups=("hr",)
    )
    index = Index.build((restricted,), WholeDocument(), EMBEDDER, tokens=False)
    assert found_by(index, [question], EMBEDDER, 5)["BM25"] == [1]
    outsider = Question("q", "band", "x", "90", (Evidence("pay", "90"),), True)
    assert found_by(index, [outsider], EMBEDDER, 5)["BM25"] == [0]


def test_intervals() -> None:
    wide, narrow = interval([0, 1] * 5), interval([0, 1] * 200)
    assert wide.value == narrow.value == 0.5
    assert 0 < wide.low < narrow.low < 0.5 < narrow.high < wide.high < 1
    assert interval([0, 1] * 5) == wide
    assert (interval([1]).low, interval([1]).high) == (1, 1)


def test_a_relative_change_is_of_pairs() -> None:
    change = relative_change([1, 1, 0, 0] * 10, [1, 0, 0, 0] * 10)
    assert change.value == -0.5
    assert -1 < change.low < -0.5 < change.high < 0
    with pytest.raises(ValueError, match="before is 0"):
        relative_change([0, 0], [1, 0])
