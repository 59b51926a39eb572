"""Measures by hand, then against ir_measures; runs as files; comparisons; what is judged."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from fakes import FakeEmbedder, chunk, ids, ranking
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG

from raglab import lab as wiring
from raglab.evaluate import runs
from raglab.evaluate.benchmark import compared, measured, of_documents, of_questions, search
from raglab.evaluate.compare import helped_harmed, judged, kinds_table
from raglab.evaluate.evidence import found, supporting
from raglab.evaluate.intervals import difference, interval
from raglab.evaluate.metrics import (
    Measure,
    average_precision,
    hit,
    mean,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from raglab.evaluate.significance import compare, paired_randomisation
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.index import Index
from raglab.lab import golden_questions, open_lab
from raglab.pipeline import Pipeline
from raglab.presets import SEARCHES, preset_pipeline
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.sparse import BM25
from raglab.types import Document, Evidence, Query, Question, RagLabError, Ranking

DOCS = [f"d{i}" for i in range(12)]
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.lists(st.sampled_from(DOCS), unique=True, max_size=12)
)
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from(DOCS), st.integers(0, 3), min_size=1, max_size=6),
    min_size=1,
)
THEIRS = {
    ndcg: nDCG,
    recall: R,
    precision: P,
    hit: Success,
    reciprocal_rank: RR,
    average_precision: AP,
}


def question(query_id: str, kind: str = "numeric", *quotes: str, **card: object) -> Question:
    evidence = tuple(Evidence(doc_id, quote) for doc_id, quote in zip("abc", quotes, strict=False))
    card = {"text": "?", "answer": "", "answerable": bool(evidence)} | card
    return Question(query_id=query_id, kind=kind, evidence=evidence, **card)  # type: ignore[arg-type]


# -- measures -------------------------------------------------------------------------------------


def test_by_hand() -> None:
    """Grades 2 at rank 2 and 1 at rank 4; the best order is 2 then 1."""
    judged = {"b": 2, "d": 1, "e": 0}
    ranked = ["a", "b", "c", "d"]
    dcg = 2 / math.log2(3) + 1 / math.log2(5)
    assert ndcg(ranked, judged, 10) == pytest.approx(dcg / (2 / math.log2(2) + 1 / math.log2(3)))
    assert recall(ranked, judged, 2) == 1 / 2
    assert precision(ranked, judged, 10) == 2 / 10  # six places are empty
    assert reciprocal_rank(ranked, judged, 10) == 1 / 2
    assert average_precision(ranked, judged, 10) == (1 / 2 + 2 / 4) / 2
    assert hit(ranked, {"e": 0}, 10) == 0.0


@pytest.mark.parametrize("measure", THEIRS)
def test_what_is_repeated_counts_once(measure: Measure) -> None:
    assert measure(["a", "a", "b"], {"a": 1}, 3) == measure(["a", "x", "b"], {"a": 1}, 3)


@pytest.mark.parametrize("measure", THEIRS)
@given(run=RUNS, qrels=QRELS, k=st.integers(1, 12))
@settings(max_examples=30)
def test_parity_with_ir_measures(
    measure: Measure, run: dict[str, list[str]], qrels: dict[str, dict[str, int]], k: int
) -> None:
    scored = {q: {d: float(-i) for i, d in enumerate(docs)} for q, docs in run.items() if docs}
    theirs = ir_measures.calc_aggregate(
        [THEIRS[measure] @ k], qrels, scored or {"none": {"d": 0.0}}
    )
    assert mean(measure, run, qrels, k) == pytest.approx(theirs[THEIRS[measure] @ k], abs=1e-6)


def test_evidence_is_a_whole_quote_in_the_right_document() -> None:
    asked = question("q", "numeric", "five days", "ten")
    holds, other, cut = (
        chunk("a#0", "It takes five days."),
        chunk("c#0", "five days"),
        chunk("a#1", "five"),
    )
    assert supporting(asked, [cut, other, holds]) == ("a#0",)
    assert found(asked, [cut, other, holds]) == 1 / 2
    assert found(asked, [cut, other]) == 0


# -- runs -----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from([1.0, 1.0 + 1e-9, 0.5, 0.0, -3.25, 1e30, 1e-40, -1e-45]),
        min_size=1,
        max_size=12,
    ).map(lambda scores: sorted(scores, reverse=True))
)
def test_a_run_file_is_read_in_the_order_it_was_written(scores: list[float]) -> None:
    """By us and by trec_eval's rule, with ties and with scores that 32 bits cannot tell apart."""
    names = [f"d{(7 * place) % 12}" for place in range(len(scores))]
    text = runs.run_text({"q": tuple(zip(names, scores, strict=True))}, "t")
    read = [(doc.doc_id, doc.score) for doc in ir_measures.read_trec_run(text)]
    assert [name for name, _ in sorted(read, key=lambda pair: -np.float32(pair[1]))] == names
    gains = {name: len(names) - place for place, name in enumerate(names)}  # falls with the order
    best = ir_measures.calc_aggregate([nDCG], {"q": gains}, ir_measures.read_trec_run(text))
    assert best[nDCG] == pytest.approx(1.0)


def test_a_run_comes_back(tmp_path: Path) -> None:
    run = {"q1": (("b", 2.0), ("a", 1.5)), "q2": (("é[x]", -1.0),)}
    path = runs.write_run(tmp_path / "a folder" / "run.trec", run, "bm25")
    assert path.read_text("utf-8").startswith("q1 Q0 b 1 2 bm25\nq1 Q0 a 2 1.5 bm25\n")
    assert runs.read_run(path) == run


def test_ties_of_another_tool_are_read_as_trec_eval_sorts_them(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 a 1 1.0 t\n\nq Q0 c 2 1.00000000001 t\nq Q0 b 3 1.0 t\n")
    assert [doc_id for doc_id, _ in runs.read_run(tmp_path / "run")["q"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q Q0 a 1 0.5", "2 holds 5 columns, not 6: a line is `query_id Q0 doc_id rank score tag`"),
        ("q Q0 a b 1 0.5 t", "2 holds 7 columns"),
        ("q Q0 a 1 high t", "2: the score 'high' is no number: write one, such as 12.5"),
        ("q Q0 a 1 nan t", "2: the score 'nan' is no number"),
        ("q Q0 d 2 0.5 t", "2 ranks 'd' a second time for the query 'q': keep one"),
    ],
)
def test_a_line_that_is_no_run(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "run").write_text(f"q Q0 d 1 0.5 t\n{line}\n")
    with pytest.raises(RagLabError, match="run:") as raised:
        runs.read_run(tmp_path / "run")
    assert says in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"q Q0 \xe9 1 1 t\n")
    for name in ("latin", "none"):
        with pytest.raises(RagLabError, match=r"cannot be read .* name a run file"):
            runs.read_run(tmp_path / name)


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a\u2003b", " a", "a\x00", "\ud800"])
def test_an_id_that_a_run_file_cannot_hold(name: str) -> None:
    for query_id, doc_id in (("q", name), (name, "d")):
        with pytest.raises(RagLabError, match="cannot stand in a TREC file"):
            runs.run_text({query_id: ((doc_id, 1.0),)}, "t")
        with pytest.raises(RagLabError, match="cannot stand in a TREC file"):
            runs.qrels_text({query_id: {doc_id: 1}})


def test_a_score_that_a_run_file_cannot_hold() -> None:
    with pytest.raises(RagLabError, match="finite numbers only"):
        runs.run_text({"q": (("d", math.nan),)}, "t")


def test_a_document_stands_where_its_best_chunk_does() -> None:
    hits = ranking("a#1", "b#0", "a#0")
    assert runs.by_document(hits) == (("a", 1.0), ("b", 1 / 2))
    assert runs.by_chunk(hits) == (("a#1", 1.0), ("b#0", 1 / 2), ("a#0", 1 / 3))


def test_other_tools_count_a_query_with_nothing_relevant() -> None:
    qrels = ir_measures.read_trec_qrels(runs.qrels_text({"q1": {"a": 1}, "q2": {}}))
    run = {"q1": {"a": 1.0}, "q2": {"a": 1.0}}
    assert ir_measures.calc_aggregate([R @ 5], qrels, run)[R @ 5] == 1 / 2


# -- two searches ---------------------------------------------------------------------------------

ASKED = (
    question("q1", "numeric", "five days", "ten"),
    question("q2", "table", "five days"),
    question("q3", "unanswerable"),
    question("q4", "numeric", "five days"),
)


def searched(asked: Question) -> Ranking:
    texts = {"a#0": "It takes five days.", "b#0": "ten"}
    return ranking(*(("b#0", "a#0") if asked.query_id == "q4" else ("a#0", "b#0")), texts=texts)


def test_judged_is_the_share_of_quotes_in_the_first_k() -> None:
    assert judged(searched, ASKED, k=1) == {"q1": 1 / 2, "q2": 1.0, "q4": 0.0}
    assert judged(searched, ASKED) == {"q1": 1.0, "q2": 1.0, "q4": 1.0}
    with pytest.raises(ValueError, match="k is 0"):
        judged(searched, ASKED, k=0)


def test_a_table_has_a_row_a_kind_and_a_column_a_run() -> None:
    table = kinds_table(ASKED, {"at 1": judged(searched, ASKED, 1), "5": judged(searched, ASKED)})
    lines = table.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["kind", "questions"], ["numeric", "2"], ["table", "1"], ["all", "3"],
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert "0.25 [0.00, 0.50]  1.00 [1.00, 1.00]" in lines[1]  # (1/2 + 0) / 2
    assert str(interval([0.5, 1.0, 0.0])) in lines[-1]
    with pytest.raises(RagLabError, match="'short' does not judge 'q2': judge every run on"):
        kinds_table(ASKED, {"short": {"q1": 1.0}})


def test_only_the_same_queries_can_be_compared() -> None:
    for one, other in (({"q1": 1.0}, {"q1": 1.0, "q2": 0.0}), ({"q1": 1.0}, {})):
        with pytest.raises(RagLabError, match="only one of the two runs judges 'q"):
            helped_harmed(one, other)
    with pytest.raises(RagLabError, match="no query was judged"):
        compare({}, {})


def enumerated(changes: np.ndarray) -> float:
    """p from all 2^n swappings, one change after the other."""
    sums = np.zeros(1)
    for change in changes:
        sums = np.concatenate([sums + change, sums - change])
    return float(np.mean(np.abs(sums) >= abs(changes.sum()) - 1e-9))


@pytest.mark.parametrize(("pairs", "off"), [(3, 1e-9), (12, 1e-9), (20, 0.015)])
def test_p_is_the_share_of_swappings(pairs: int, off: float) -> None:
    """Up to 13 changes are enumerated; of 20, ten thousand draws come near all 2^20."""
    random = np.random.default_rng(pairs)
    before = random.random(pairs)
    after = before + random.normal(0.05, 0.2, pairs)
    named = [dict(zip(map(str, range(pairs)), values, strict=True)) for values in (before, after)]
    assert paired_randomisation(*named) == pytest.approx(enumerated(after - before), abs=off)
    assert paired_randomisation(*named) == paired_randomisation(*reversed(named))
    same = {"unchanged": 0.5}
    assert paired_randomisation(named[0] | same, named[1] | same) == paired_randomisation(*named)


def test_without_a_change_p_is_1() -> None:
    assert paired_randomisation({"q1": 0.5, "q2": 1.0}, {"q1": 0.5, "q2": 1.0}) == 1.0
    assert paired_randomisation({"q1": 0.0}, {"q1": 1.0}) == 1.0


def test_a_comparison_in_words() -> None:
    before = {f"q{place}": 0.0 for place in range(12)} | {"lost": 1.0}
    after = {f"q{place}": 1.0 for place in range(12)} | {"lost": 0.0}
    comparison = compare(before, after)
    # Of 2^13 swappings, those reach |11| where at most one pair, or all but one, is turned.
    assert comparison.p == pytest.approx(2 * (1 + 13) / 2**13)
    assert comparison.harmed == ("lost",)
    assert comparison.difference == difference(list(before.values()), list(after.values()))
    assert comparison.difference.value == pytest.approx(11 / 13)
    assert str(comparison).startswith("+0.85 [+0.")
    assert str(comparison).endswith("], p = 0.003, 12 helped, 1 harmed")


def test_a_difference_knows_that_its_values_are_pairs() -> None:
    """Values that differ much, each a tenth better: unpaired, the interval would hold 0."""
    before = [place / 20 for place in range(20)]
    gain = difference(before, [value + 0.1 for value in before])
    assert (round(gain.low, 9), round(gain.high, 9)) == (0.1, 0.1)
    with pytest.raises(ValueError, match="is longer"):
        difference([1.0], [1.0, 1.0])


# -- what is judged -------------------------------------------------------------------------------

EMBEDDER = FakeEmbedder()
DOCUMENTS = tuple(
    Document(name, text)
    for name, text in {
        "a": "a refund takes five days",
        "b": "a key may ask sixty times",
        "c": "refund refund policy",
        "d": "nothing of the kind",
    }.items()
)


@pytest.fixture(scope="module")
def small() -> Index:
    return Index.build(DOCUMENTS, WholeDocument(), EMBEDDER)


def test_golden_questions_become_qrels_of_what_the_asker_may_read() -> None:
    chunks = [chunk("a#0", "five days"), chunk("a#1", "in five days", groups=("hr",))]
    asked = [
        question("everyone", "numeric", "five days"),
        question("hr", "numeric", "five days", groups=("hr",)),
        question("turn", "conversational", "six", text="and there?", history=("first", "Here?")),
        question("none", "unanswerable"),
    ]
    benchmark = of_questions(asked, chunks)
    assert benchmark.qrels == {"everyone": {"a#0": 1}, "hr": {"a#0": 1, "a#1": 1}, "turn": {}}
    assert [query.text for query in benchmark.queries] == ["?", "?", "Here? and there?"]
    assert [note.partition(":")[0] for note in benchmark.notes] == [
        "1 questions without evidence left out",
        "1 questions counted as 0",
        "1 questions searched with the turn before put in front",
    ]
    assert not benchmark.allowed["everyone"](chunks[1])
    assert benchmark.by_kind() == {
        "numeric": ["everyone", "hr"],
        "conversational": ["turn"],
        "all": ["everyone", "hr", "turn"],
    }


def test_a_choice_of_queries_keeps_their_qrels() -> None:
    queries = [Query(f"q{place}", "x") for place in range(10)]
    benchmark = of_documents(queries, {query.query_id: {"d": 1} for query in queries})
    few = benchmark.only(most=3)
    assert [query.query_id for query in few.queries] == list(few.qrels) == ["q0", "q3", "q6"]
    assert benchmark.only(most=99) == benchmark.only(["all"]) == benchmark
    with pytest.raises(RagLabError, match="no questions of the kind 'table': there are all"):
        benchmark.only(["table"])


def test_a_document_that_is_the_query_is_not_found(small: Index) -> None:
    benchmark = of_documents([Query("c", "refund"), Query("q", "refund")], {"c": {}, "q": {}})
    pipeline = preset_pipeline("sparse", small, EMBEDDER)
    found_for = {
        query.query_id: ids(search(pipeline, query, benchmark.allowed[query.query_id]))
        for query in benchmark.queries
    }
    assert found_for == {"c": ["a#0"], "q": ["c#0", "a#0"]}


def test_presets_are_their_stages(small: Index) -> None:
    query = Query("q", "refund in five days")
    dense, sparse = Dense(small, EMBEDDER), BM25(small.chunks)
    lists = {"dense": dense.retrieve(query, 20), "sparse": sparse.retrieve(query, 20)}
    expected = {name: ids(hits) for name, hits in lists.items()}
    expected["hybrid"] = ids(RRF().fuse(lists))
    reached = {
        name: ids(preset_pipeline(name, small, EMBEDDER).run(query).ranking("reranked"))
        for name in SEARCHES
    }
    assert {name: reached[name] for name in expected} == expected
    assert sorted(reached["reranked"]) == sorted(expected["hybrid"])
    for make in (lambda: preset_pipeline("best", small, EMBEDDER), lambda: open_lab(preset="best")):
        with pytest.raises(RagLabError, match="no preset 'best': there are dense, sparse, hybrid"):
            make()


def test_the_default_preset_is_the_whole_pipeline(lab: Pipeline, index: Index) -> None:
    embedder = lab.retrievers["dense"].embedder  # type: ignore[attr-defined]
    whole = preset_pipeline("reranked", index, embedder)
    assert replace(whole, allowed=lab.allowed) == lab


def test_measures_of_a_run_and_their_comparison() -> None:
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    one = measured({"q1": (("a", 1.0),), "q2": (("c", 1.0), ("b", 0.5))}, qrels)
    other = measured({"q1": (("a", 1.0),), "q2": (("b", 1.0),)}, qrels)
    assert one["MRR@10"] == {"q1": 1.0, "q2": 1 / 2}
    assert list(one) == ["nDCG@10", "R@5", "R@10", "R@20", "R@100", "MRR@10"]
    assert compared(one, other)["MRR@10"].helped == ("q2",)
    assert compared(one, other)["R@5"].helped == ()


def test_a_question_whose_quote_this_python_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = wiring.read_python()
    asked = golden_questions("python", "test")
    gone = next(q for q in asked if q.evidence).evidence[0].doc_id
    kept = [document for document in everything if document.doc_id != gone]
    monkeypatch.setattr(wiring, "read_python", lambda: kept)
    lost = [q for q in asked if any(e.doc_id == gone for e in q.evidence)]
    with pytest.warns(UserWarning, match=f"^{len(lost)} of {len(asked)} questions left out"):
        left = golden_questions("python", "test")
    assert set(asked) - set(left) == set(lost)
    assert {"dev", "test"} == {q.split for q in golden_questions("handbook")}
