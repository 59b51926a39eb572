"""The cross-encoder, maximal marginal relevance, chains of rerankers, and their panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeEmbedder, chunk, ids, ranking
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.chunk import WholeDocument
from raglab.ingest.embed import bundled_model, unit
from raglab.ingest.index import Index
from raglab.retrieve.chain import Chain
from raglab.retrieve.cross import CrossEncoder, at_hand, network
from raglab.retrieve.diverse import MMR
from raglab.retrieve.ranking import rank, z_scores
from raglab.retrieve.rerank import LateInteraction
from raglab.types import Document, Hit, Part, Query, RagLabError, Ranking
from raglab.views.rerankview import (
    blend_panel,
    moves_drawing,
    token_panel,
    variety_panel,
    weights_drawing,
    weights_panel,
)

HOSTILE = "<script>alert(1)</script>\u202e\x00"
ASKED = Query("q", "refund policy")


def fake_index(*texts: str) -> Index:
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    return Index.build(documents, WholeDocument(), FakeEmbedder())


def index_of(vectors: Sequence[Sequence[float]], names: str) -> Index:
    """An index whose chunks a#0, b#0, ... have these vectors, scaled to length 1."""
    documents = [Document(name, name) for name in names]
    index = Index.build(documents, WholeDocument(), FakeEmbedder())
    return replace(index, vectors=unit(np.array(vectors, np.float32)))


def hits_of(**scores: float) -> Ranking:
    return rank((chunk(f"{name}#0"), [Part("given", value)]) for name, value in scores.items())


# -- cross-encoder --------------------------------------------------------------------------------

TEXTS = {"a": "refund policy", "b": "error list page", "c": "the refund of a late fee"}
GIVEN = ranking("b", "a", "c", texts=TEXTS)


def save_tiny(folder: Path, labels: int = 1) -> Path:
    """A cross-encoder of two small layers with random weights, as a library saves it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = sorted({word for text in TEXTS.values() for word in text.split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
        num_labels=labels,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("models") / "tiny"))


def test_logits_are_the_library_s_own(tiny: str) -> None:
    from sentence_transformers import CrossEncoder as Theirs
    from torch.nn import Identity

    pairs = [(ASKED.text, text) for text in TEXTS.values()]
    theirs = Theirs(tiny, device="cpu").predict(pairs, activation_fn=Identity())
    ours = CrossEncoder(tiny).logits(ASKED.text, list(TEXTS.values()))
    assert np.ptp(theirs) > 0.01
    assert ours == pytest.approx(theirs.tolist(), abs=1e-4)


def test_it_replaces_the_first_stage_or_blends_with_it(tiny: str) -> None:
    alone = CrossEncoder(tiny)
    read = dict(zip(TEXTS, alone.logits(ASKED.text, list(TEXTS.values())), strict=True))
    assert ids(alone.rerank(ASKED, GIVEN)) == sorted(read, key=lambda name: -read[name])
    blended = replace(alone, first=2.0, cross=0.5).rerank(ASKED, GIVEN)
    firsts = z_scores([hit.score for hit in GIVEN])
    logits = z_scores([read[hit.chunk.chunk_id] for hit in GIVEN])
    for row, given_hit in enumerate(GIVEN):
        (hit,) = (hit for hit in blended if hit.chunk == given_hit.chunk)
        assert hit.parts == (
            Part("first stage", 2.0 * firsts[row]),
            Part("cross-encoder", 0.5 * logits[row]),
        )


def test_it_reads_the_blurb_too_and_cuts_at_its_depth(tiny: str) -> None:
    told = Hit(chunk("a", "policy", context="refund"), 1.0, 1, (Part("given", 1.0),))
    plain = Hit(chunk("b", "policy"), 1.0, 2, (Part("given", 1.0),))
    cross = CrossEncoder(tiny, depth=2)
    scores = {hit.chunk.chunk_id: hit.score for hit in cross.rerank(ASKED, (told, plain, *GIVEN))}
    with_blurb, without = cross.logits(ASKED.text, ["refund\npolicy", "policy"])
    assert set(scores) == {"a", "b"}
    assert (scores["a"] > scores["b"]) == (with_blurb > without)
    assert with_blurb != without


def test_equal_chunks_tie(tiny: str) -> None:
    twins = ranking(*"edcba", texts=dict.fromkeys("edcba", "refund policy"))
    assert ids(CrossEncoder(tiny).rerank(ASKED, twins)) == list("abcde")


def test_copies_share_the_loaded_model(tiny: str) -> None:
    assert network(CrossEncoder(tiny).model) is network(replace(CrossEncoder(tiny), first=1).model)


def test_a_missing_model_says_what_to_do() -> None:
    with pytest.raises(RagLabError, match=r"Give a folder .*ms-marco-MiniLM.*bge-reranker-v2-m3"):
        CrossEncoder("no/such-model").rerank(ASKED, GIVEN)
    assert CrossEncoder("no/such-model").rerank(ASKED, ()) == ()
    assert CrossEncoder("no/such-model").rerank(Query("q", " "), GIVEN) == GIVEN


def test_offline_the_default_name_is_a_clear_error() -> None:
    if at_hand():
        pytest.skip("the default weights are in this machine's cache")
    with pytest.raises(
        RagLabError, match=r"'cross-encoder/ms-marco-MiniLM-L6-v2' cannot be loaded"
    ):
        CrossEncoder().logits("refund", ["policy"])


def test_at_hand_asks_no_network(tiny: str) -> None:
    assert at_hand(tiny)
    assert not at_hand("no/such-model")
    assert not at_hand("/no/such/folder")


def test_a_bi_encoder_is_refused() -> None:
    """It loads, with a scoring head of random numbers: every order would be an accident."""
    with pytest.raises(RagLabError, match="gives no score for a pair"):
        CrossEncoder(str(bundled_model())).logits("refund", ["policy"])


def test_a_classifier_of_three_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="gives 3 numbers for a pair"):
        CrossEncoder(str(save_tiny(tmp_path / "three", labels=3))).logits("refund", ["policy"])


def test_weights_that_may_run_code_are_refused(tmp_path: Path, tiny: str) -> None:
    import shutil

    import torch
    from safetensors.torch import load_file

    folder = Path(shutil.copytree(tiny, tmp_path / "pickled"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(RagLabError, match="safetensors"):
        CrossEncoder(str(folder)).logits("refund", ["policy"])


def test_depth_must_be_at_least_one() -> None:
    with pytest.raises(RagLabError, match="depth is 0"):
        CrossEncoder(depth=0)


# -- maximal marginal relevance -------------------------------------------------------------------


def test_mmr_by_hand() -> None:
    """a and b point almost the same way: cosine 0.96. c is at a right angle to a, 0.28 to b.

    Relevance, scaled from 3, 2.8, 1, 0 to 0..1: 1, 0.933, 0.333, 0.  With trade 0.5 after a:
    b has 0.467 - 0.48 = -0.013 and c has 0.167 - 0, so c comes second.
    """
    index = index_of([[1, 0], [0.96, 0.28], [0, 1], [1, 0]], "abcd")
    hits = MMR(index, trade=0.5).rerank(ASKED, hits_of(a=3.0, b=2.8, c=1.0, d=0.0))
    assert ids(hits) == ["a#0", "c#0", "b#0", "d#0"]
    assert [hit.score for hit in hits] == pytest.approx(
        [0.5, 0.5 / 3, 0.5 * 2.8 / 3 - 0.5 * 0.96, -0.5], abs=1e-6
    )
    assert [[part.name for part in hit.parts] for hit in hits] == [
        ["relevance"],
        ["relevance"],
        ["relevance", "like a#0"],
        ["relevance", "like a#0"],
    ]


def test_trade_one_keeps_the_order() -> None:
    index = index_of([[1, 0]] * 4, "abcd")
    hits = hits_of(d=4.0, b=3.0, a=2.0, c=1.0)
    assert ids(MMR(index, trade=1.0).rerank(ASKED, hits)) == ids(hits)


def test_a_copy_goes_behind_what_is_new() -> None:
    index = fake_index("refund policy text", "refund policy text", "late fee", "error list page")
    hits = rank(
        (one, [Part("given", score)])
        for one, score in zip(index.chunks, (1.0, 0.99, 0.9, 0.8), strict=True)
    )
    assert ids(MMR(index, trade=0.5).rerank(ASKED, hits))[-1] == "d1#0"
    assert ids(MMR(index, trade=0.5, k=2).rerank(ASKED, hits)) == ["d0#0", "d2#0"]


def test_equal_candidates_stand_in_order_of_chunk_id() -> None:
    index = index_of([[1, 0]] * 3, "abc")
    assert ids(MMR(index).rerank(ASKED, hits_of(c=1.0, a=1.0, b=1.0))) == ["a#0", "b#0", "c#0"]


@given(
    st.lists(
        st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.integers(0, 4)), min_size=1, max_size=9
    ),
    st.sampled_from([0.01, 0.3, 0.5, 0.7, 1.0]),
)
@settings(deadline=None, max_examples=80)
def test_mmr_scores_never_rise(rows: list[tuple[float, float, int]], trade: float) -> None:
    """`rank` sorts by score; that this is the order of choosing is what makes MMR a ranking."""
    names = "abcdefghi"[: len(rows)]
    index = index_of([(x, y) for x, y, _ in rows], names)
    hits = hits_of(**{name: float(score) for name, (_, _, score) in zip(names, rows, strict=True)})
    chosen = MMR(index, trade=trade).rerank(ASKED, hits)
    assert ids(chosen) == _greedy(index, hits, trade)
    for hit in chosen:
        assert hit.score == sum(part.value for part in hit.parts)


def _greedy(index: Index, hits: Ranking, trade: float) -> list[str]:
    """The definition, slowly: look at every candidate and everything chosen, each time."""
    names, scores = ids(hits), [hit.score for hit in hits]
    low, high = min(scores), max(scores)
    cosines = MMR(index).likeness(names)
    chosen: list[int] = []

    def value(row: int) -> float:
        relevance = (scores[row] - low) / (high - low) if high > low else 1.0
        likeness = max([0.0, *(float(cosines[row, other]) for other in chosen)])
        return trade * relevance - (1 - trade) * likeness

    while len(chosen) < len(names):
        left = [row for row in range(len(names)) if row not in chosen]
        chosen.append(min(left, key=lambda row: (-value(row), names[row])))
    return [names[row] for row in chosen]


@pytest.mark.parametrize("bad", [{"trade": 0.0}, {"trade": 1.1}, {"k": 0}])
def test_mmr_refuses(bad: dict[str, float]) -> None:
    with pytest.raises(RagLabError, match=r"trade is|k is"):
        MMR(fake_index("a"), **bad)  # type: ignore[arg-type]


# -- chain ----------------------------------------------------------------------------------------


def test_a_chain_applies_its_rerankers_in_order() -> None:
    index = fake_index("late fee", "refund policy", "refund form")
    late, variety = LateInteraction(index, FakeEmbedder(), first=0.0), MMR(index, k=1)
    given_hits = ranking("d0#0", "d1#0", "d2#0")
    chained = Chain((late, variety)).rerank(ASKED, given_hits)
    assert chained == variety.rerank(ASKED, late.rerank(ASKED, given_hits))
    assert ids(chained) == ["d1#0"]
    assert ids(Chain((variety, late)).rerank(ASKED, given_hits)) == ["d0#0"]
    assert Chain(()).rerank(ASKED, given_hits) == given_hits


# -- panels ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FakeMatches:
    query: tuple[str, ...]
    chunk: tuple[str, ...]

    @property
    def cosines(self) -> np.ndarray:
        """Equal words match with 1, the rest by how close they stand: 0.1 times."""
        rows = [
            [1.0 if one == other else 0.1 / (1 + at) for at, other in enumerate(self.chunk)]
            for one in self.query
        ]
        return np.array(rows).reshape(len(self.query), len(self.chunk))


def matches(query: str, chunk_id: str) -> FakeMatches:
    texts = {"a": "the refund policy of a shop", "b": HOSTILE.replace(" ", ""), "c": ""}
    return FakeMatches(tuple(query.split()), tuple(texts[chunk_id].split()))


def test_the_token_panel_lists_the_row_maxima_and_adds_them_up() -> None:
    panel = token_panel(matches, "refund policy", ["a", "b", "c"])
    assert "2 query tokens add up to 2.000" in panel.words
    assert "Strongest: refund to refund, 1.000" in panel.words
    assert panel.html.count("→ 1.00") == 2
    assert "of" in panel.html
    assert ">shop<" not in panel.html
    panel.turn(columns="all")
    assert ">shop<" in panel.html
    panel.turn(query="refund nothing")
    assert "add up to 1.100" in panel.words
    assert "Weakest: nothing to the, 0.100" in panel.words
    panel.turn(chunk="c")
    assert panel.words == "The query or the chunk has no token."
    panel.turn(chunk="b", query=HOSTILE)
    assert panel.status == ""
    assert "<script>" not in panel.html


def test_the_blend_panel_says_what_moved() -> None:
    index = fake_index("late fee", "refund form", "refund policy", "error")
    embedder = FakeEmbedder()
    order = ("d0#0", "d1#0", "d3#0", "d2#0")

    def rerank(query: str, hits: Ranking, *, first: float, late: float, depth: int) -> Ranking:
        reranker = LateInteraction(index, embedder, depth=depth, first=first, late=late)
        return reranker.rerank(Query("q", query), hits)

    def evidence(query: str) -> tuple[str, ...]:
        return ("d2#0",) if query == "refund policy" else ()

    panel = blend_panel(lambda query: ranking(*order), rerank, "refund policy", evidence)
    assert "★" in panel.html
    panel.turn(first=0.0)
    assert "★ d2#0 rose from rank 4 to 1." in panel.words
    panel.turn(first=1.0, late=0.0)
    assert panel.words == (
        "0 of the first 4 ranks hold another chunk than before. ★ d2#0 stays at rank 4."
    )
    panel.turn(depth=5, query="error <script>")
    assert "★" not in panel.words
    assert "<script>" not in panel.html


def test_evidence_that_is_cut_or_missing_is_told() -> None:
    before = ranking(*(f"d{n}#0" for n in range(5)))
    words = moves_drawing(before, before[:2], ("d0#0", "d4#0", "x#0")).words
    assert "3 were cut" in words
    assert "★ d4#0, rank 5 before, was cut." in words
    assert "★ x#0 was not among the candidates." in words
    assert "Nothing was found" in moves_drawing((), ()).words


def test_the_weights_panel_explains_a_hit() -> None:
    weights = {"bm25": 0.5, "late": -2.0}
    hits = rank(
        (chunk(name), [Part("bm25", value), Part(HOSTILE, -0.25)])
        for name, value in (("a", 1.0), ("b", 0.5))
    )
    panel = weights_panel(weights, lambda query: hits, "refund")
    assert panel.words.startswith("Rank 1, a, scores 0.750. It gains most by bm25 (+1.000)")
    assert "<script>" not in panel.html
    panel.turn(rank=2)
    assert panel.words.startswith("Rank 2, b, scores 0.250.")
    panel.turn(rank=9)
    assert "there are 2 hits" in panel.status
    assert weights_drawing(weights).words == "2 signals; the heaviest is late with -2.000."


def test_the_variety_panel_shows_the_pairs() -> None:
    index = index_of([[1, 0], [0.96, 0.28], [0, 1]], "abc")
    hits = hits_of(a=3.0, b=2.8, c=1.0)

    def diversify(hits: Ranking, trade: float) -> Ranking:
        return MMR(index, trade=trade).rerank(ASKED, hits)

    panel = variety_panel(hits, diversify, MMR(index).likeness, ("c#0",), trade=1.0)
    assert "Most alike: a#0 and b#0, 0.960." in panel.words
    panel.turn(k=2, trade=0.5)
    assert panel.words == (
        "Mean likeness 0.000, by relevance alone 0.960. Most alike: a#0 and c#0, 0.000. "
        "In came c#0."
    )
    assert "★ c#0" in panel.html
