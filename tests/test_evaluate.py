"""Metrics by hand, then against ir_measures; evidence by quotes."""

from __future__ import annotations

import math

import ir_measures
import pytest
from fakes import chunk
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import R, nDCG

from raglab.evaluate.evidence import found, supporting
from raglab.evaluate.metrics import mean, ndcg, recall
from raglab.types import Evidence, Question

DOCS = [f"d{i}" for i in range(12)]
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.lists(st.sampled_from(DOCS), unique=True, max_size=12)
)
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from(DOCS), st.integers(1, 3), min_size=1, max_size=6),
    min_size=1,
)


def test_by_hand() -> None:
    """Grades 2 at rank 2 and 1 at rank 4; the best order is 2 then 1."""
    judged = {"b": 2, "d": 1, "e": 0}
    ranked = ["a", "b", "c", "d"]
    dcg = 2 / math.log2(3) + 1 / math.log2(5)
    assert ndcg(ranked, judged, 10) == pytest.approx(dcg / (2 / math.log2(2) + 1 / math.log2(3)))
    assert recall(ranked, judged, 2) == 1 / 2


@given(RUNS, QRELS, st.integers(1, 12))
def test_parity_with_ir_measures(
    run: dict[str, list[str]], qrels: dict[str, dict[str, int]], k: int
) -> None:
    scored = {q: {d: float(-i) for i, d in enumerate(docs)} for q, docs in run.items() if docs}
    theirs = ir_measures.calc_aggregate([nDCG @ k, R @ k], qrels, scored or {"none": {"d": 0.0}})
    assert mean(ndcg, run, qrels, k) == pytest.approx(theirs[nDCG @ k], abs=1e-9)
    assert mean(recall, run, qrels, k) == pytest.approx(theirs[R @ k], abs=1e-9)


def test_evidence_is_a_whole_quote_in_the_right_document() -> None:
    question = Question(
        "q", "?", "numeric", "5", (Evidence("a", "five days"), Evidence("b", "ten")), True
    )
    holds, other, cut = (
        chunk("a#0", "It takes five days."),
        chunk("c#0", "five days"),
        chunk("a#1", "five"),
    )
    assert supporting(question, [cut, other, holds]) == ("a#0",)
    assert found(question, [cut, other, holds]) == 1 / 2
    assert found(question, [cut, other]) == 0
