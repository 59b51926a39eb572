"""The learned reranker: its signals by hand, its training, its weights on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeEmbedder, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.chunk import WholeDocument
from raglab.ingest.index import Index
from raglab.lab import golden_questions
from raglab.presets import preset_pipeline, shipped_weights
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.learned import Learned, Weights, train
from raglab.retrieve.signals import NAMES, Signals, alike, shares, weakest, weighted_mean
from raglab.retrieve.sparse import BM25
from raglab.types import Document, Query, RagLabError, Ranking

EMBEDDER = FakeEmbedder()
TEXTS = ("late fee for a late order", "refund policy", "refund form and policy", "fee late")
INDEX = Index.build(
    [Document(f"d{n}", text, title=text.split()[0]) for n, text in enumerate(TEXTS)],
    WholeDocument(),
    EMBEDDER,
)
SIGNALS = Signals(INDEX, EMBEDDER, BM25.of(INDEX))


def hits(text: str) -> Ranking:
    query = Query("q", text)
    dense = Dense(INDEX, EMBEDDER).retrieve(query, 9)
    return RRF().fuse({"dense": dense, "sparse": BM25.of(INDEX).retrieve(query, 9)})


def weights(**named: float) -> Weights:
    return Weights(tuple(named.get(name.replace(" ", "_"), 0.0) for name in NAMES))


def test_signals_are_z_scores() -> None:
    found = SIGNALS(Query("q", "late fee"), hits("late fee"))
    assert found.shape == (4, len(NAMES))
    assert np.allclose(found.mean(axis=0), 0)
    spread = found.std(axis=0)
    assert np.all(np.isclose(spread, 1) | (spread == 0))


def test_pairs_tell_order() -> None:
    """Both chunks hold "late" and "fee"; only d0 holds them side by side in that order."""
    query = Query("q", "late fee")
    found = hits("late fee")
    row = {hit.chunk.doc_id: n for n, hit in enumerate(found)}
    column = SIGNALS(query, found)[:, NAMES.index("pairs")]
    assert column[row["d0"]] > column[row["d3"]] == column[row["d1"]]


def test_overlaps_by_hand() -> None:
    """Of "late fee zzz", d0 holds two terms of three, and one pair of two; zzz weighs most."""
    weights = {term: SIGNALS.bm25.idf(term) for term in ("late", "fee", "zzz")}
    words, title, pairs = SIGNALS._overlaps("late fee zzz", [0, 1, 3])
    total = sum(weights.values())
    both = weights["late"] + weights["fee"]
    assert words.tolist() == pytest.approx([both / total, 0, both / total])
    assert title.tolist() == pytest.approx([weights["late"] / total, 0, weights["fee"] / total])
    beside = min(weights["late"], weights["fee"])
    assert pairs.tolist() == pytest.approx(
        [beside / (beside + min(weights["fee"], weights["zzz"])), 0, 0]
    )


def test_the_weakest_third_by_hand() -> None:
    matches = np.array([[0.9, 0.2, 0.4, 0.8, 0.7, 0.6]])
    assert weakest(matches).tolist() == pytest.approx([(0.2 + 0.4) / 2])
    assert weakest(np.zeros((2, 0))).tolist() == [0, 0]


def test_the_weighted_mean_by_hand() -> None:
    matches = np.array([[1.0, 0.5]])
    assert weighted_mean(matches, np.array([3.0, 1.0])).tolist() == [(3 * 1 + 1 * 0.5) / 4]
    assert weighted_mean(matches, np.zeros(2)).tolist() == [0]


def test_shares_of_nothing_are_nothing() -> None:
    assert shares(np.zeros((2, 0), bool), np.zeros(0)).tolist() == [0, 0]


def test_alike_leaves_a_chunk_itself_out() -> None:
    """Two equal vectors and a stranger: with two neighbours each twin sees the other."""
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    found = alike(vectors, np.zeros(3), most=2)
    assert found.tolist() == pytest.approx([1.0, 1.0, 0.0])


def test_each_part_is_weight_times_signal() -> None:
    query, found = Query("q", "late fee"), hits("late fee")
    given = weights(dense=0.5, BM25=2.0)
    ranked = Learned(SIGNALS, given).rerank(query, found)
    row = {hit.chunk.chunk_id: n for n, hit in enumerate(found)}
    values = SIGNALS(query, found)
    for hit in ranked:
        assert [part.name for part in hit.parts] == list(NAMES)
        parts = {part.name: part.value for part in hit.parts}
        assert parts["BM25"] == pytest.approx(2 * values[row[hit.chunk.chunk_id], 2])
        assert parts["title"] == 0
        assert hit.score == sum(part.value for part in hit.parts)


def test_the_rest_past_the_depth_is_cut() -> None:
    found = hits("late fee")
    ranked = Learned(SIGNALS, weights(first_stage=1.0), depth=2).rerank(
        Query("q", "late fee"), found
    )
    assert ids(ranked) == ids(found[:2])
    with pytest.raises(RagLabError, match="at least 1"):
        Learned(SIGNALS, weights(), depth=0)


@pytest.mark.parametrize("text", ["", "  ", "🙂", "\x00", "zzz " * 300])
def test_odd_queries_pass(text: str) -> None:
    ranked = Learned(SIGNALS, shipped_weights()).rerank(Query("q", text), hits("refund"))
    assert set(ids(ranked)) == set(ids(hits("refund")))


def test_training_finds_the_signal_that_tells() -> None:
    """Only the second signal says which candidate is right; the others are noise."""
    random = np.random.default_rng(0)
    examples = []
    for _ in range(60):
        signals = random.normal(size=(10, len(NAMES)))
        signals[4, 1] = 3.0
        examples.append((signals, [4]))
    learned = train(examples, "a made example").named
    assert max(learned, key=lambda name: learned[name]) == NAMES[1]
    assert learned[NAMES[1]] > 4 * max(abs(v) for n, v in learned.items() if n != NAMES[1])


def test_every_question_counts_the_same() -> None:
    """Repeating the irrelevant candidates of a question does not change the weights much."""
    random = np.random.default_rng(1)
    few = [(random.normal(size=(6, len(NAMES))), [0]) for _ in range(40)]
    many = [(np.concatenate([signals, signals[1:], signals[1:]]), rows) for signals, rows in few]
    assert train(few, "").values == pytest.approx(train(many, "").values, abs=2e-3)


def test_nothing_to_learn_from() -> None:
    for relevant in ([], [0, 1]):
        with pytest.raises(RagLabError, match="nothing to learn from"):
            train([(np.zeros((2, len(NAMES))), relevant)], "")


@settings(max_examples=20)
@given(st.lists(st.floats(-9, 9), min_size=len(NAMES), max_size=len(NAMES)))
def test_weights_come_back_from_disk(values: list[float]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        given = Weights(tuple(values), "a test")
        assert Weights.load(given.save(Path(folder) / "w.json")) == given


def test_weights_of_other_signals_are_refused(tmp_path: Path) -> None:
    path = shipped_weights().save(tmp_path / "w.json")
    content = json.loads(path.read_text())
    for change in ({"weights": {"dense": 1}}, {"format": 9}, {"weights": None}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(RagLabError, match="train them again"):
            Weights.load(path)
    path.write_text("not json")
    with pytest.raises(RagLabError, match="train them again"):
        Weights.load(path)
    with pytest.raises(RagLabError, match="finite"):
        Weights((float("nan"),) * len(NAMES))


def test_the_shipped_weights_do_not_lose_to_rrf(index: Index, encoder) -> None:  # type: ignore[no-untyped-def]
    """On the handbook's test questions, which they were not trained on."""
    from raglab.evaluate.compare import judged
    from raglab.types import Question, Readable

    questions = [q for q in golden_questions("handbook", "test") if q.evidence and not q.history]

    def found(preset: str) -> float:
        pipeline = preset_pipeline(preset, index, encoder, k=100)

        def search(question: Question) -> Ranking:
            query = Query(question.query_id, question.text)
            allowed = Readable(question.groups)
            lists = {n: r.retrieve(query, 100, allowed) for n, r in pipeline.retrievers.items()}
            return pipeline.reranker.rerank(query, pipeline.fuser.fuse(lists))

        return float(np.mean(list(judged(search, questions).values())))

    assert found("learned") > found("hybrid")
