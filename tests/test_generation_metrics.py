"""Answers measured: a five-row example by hand, then ir_measures, then what must always hold."""

from __future__ import annotations

from collections.abc import Sequence

import ir_measures
import numpy as np
import pytest
from fakes import chunk
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, R

from raglab.evaluate.generation import (
    Cited,
    answer_relevance,
    citation_precision,
    citation_recall,
    cited,
    context_precision,
    context_recall,
    faithfulness,
    hallucination_rate,
    refusal_precision,
    refusal_recall,
    supported,
    supports,
)
from raglab.evaluate.judge import ABSENT, SUPPORTED, Verdict
from raglab.types import Answer, Chunk, Citation, Context, Hit, Sentence

# Five questions.  Of each: which sentences of the answer are supported, which places of the context
# support it, which quotes the context holds, whether it was refused, and whether it has an answer.
ROWS = [
    # supported             supporting places           quotes held     refused  answerable
    ([True, True], [True, False, True], [True, True], False, True),
    ([True, False], [False, True], [True, False], False, True),
    ([False], [False, False], [False], False, True),
    ([], [True], [True], True, True),
    ([], [False, False], [], True, False),
]
SAID, PLACES, QUOTES, REFUSED, KNOWN = (list(column) for column in zip(*ROWS, strict=True))


def test_five_rows_by_hand() -> None:
    # Sentences: 2 of 2; 1 of 2; 0 of 1; refusals say nothing.
    assert [faithfulness(row) for row in SAID] == [2 / 2, 1 / 2, 0 / 1, None, None]
    # Three answers have sentences; the second and the third hold an unsupported one.
    assert hallucination_rate(SAID) == 2 / 3
    # Row 1: places 1 and 3, (1/1 + 2/3) / 2 = 5/6. Row 2: place 2, 1/2. Row 4: place 1.
    precisions = [context_precision(row) for row in PLACES]
    assert precisions == [pytest.approx(5 / 6), 1 / 2, 0, 1, 0]
    assert [context_recall(row) for row in QUOTES] == [1, 1 / 2, 0, 1, None]
    # Refused: rows 4 and 5, of which 5 has no answer. Without an answer: row 5 alone.
    assert refusal_precision(REFUSED, KNOWN) == 1 / 2
    assert refusal_recall(REFUSED, KNOWN) == 1 / 1


def test_citations_by_hand() -> None:
    """Five sentences: one good source; two of which one is idle; two that are needed together; a
    source that does not support it; none."""
    rows = [
        Cited(True, (True,), (False,)),
        Cited(True, (True, False), (False, True)),
        Cited(True, (False, False), (False, False)),
        Cited(False, (False,), (False,)),
        Cited(False),
    ]
    assert citation_recall(rows) == 3 / 5
    # Needed: 1 of 1, 1 of 2, 2 of 2, 0 of 1.
    assert citation_precision(rows) == (1 + 1 + 2 + 0) / (1 + 2 + 2 + 1)
    assert citation_precision(rows[4:]) is None  # nothing was cited


def test_relevance_by_hand() -> None:
    """Five answers to the query (1, 0)."""
    answers = [(1, 0), (0, 2), (-1, 0), (3, 4), (0, 0)]
    got = [answer_relevance(np.array([1.0, 0.0]), np.array(one, float)) for one in answers]
    assert got == [1, 0, -1, 3 / 5, 0]


def test_shares_of_nothing() -> None:
    for measure in (faithfulness, hallucination_rate, context_precision, context_recall):
        assert measure([]) is None
    assert refusal_precision([False], [True]) is None
    assert refusal_recall([False], [True]) is None
    with pytest.raises(ValueError, match="argument 2"):
        refusal_recall([True, False], [True])


FLAGS = st.lists(st.booleans(), min_size=1, max_size=12)


@settings(deadline=None)
@given(FLAGS)
def test_context_precision_is_average_precision_over_what_was_found(flags: list[bool]) -> None:
    """With the supporting chunks of the context as all that is relevant, RAGAS's is AP."""
    qrels = {"q": {f"d{n}": int(yes) for n, yes in enumerate(flags)}}
    run = {"q": {f"d{n}": float(-n) for n in range(len(flags))}}
    theirs = ir_measures.calc_aggregate([AP @ 12], qrels, run)[AP @ 12]
    assert context_precision(flags) == pytest.approx(theirs)


@settings(deadline=None)
@given(FLAGS)
def test_context_recall_is_recall_where_a_chunk_holds_a_quote(flags: list[bool]) -> None:
    qrels = {"q": {f"d{n}": 1 for n in range(len(flags))}}
    run = {"q": {f"d{n}": 1.0 for n, yes in enumerate(flags) if yes} or {"other": 1.0}}
    theirs = ir_measures.calc_aggregate([R @ 12], qrels, run)[R @ 12]
    assert context_recall(flags) == pytest.approx(theirs)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_refusals_are_precision_and_recall_of_sets(pairs: list[tuple[bool, bool]]) -> None:
    refused = {n for n, (no, _) in enumerate(pairs) if no}
    unknown = {n for n, (_, known) in enumerate(pairs) if not known}
    both = len(refused & unknown)
    columns = [no for no, _ in pairs], [known for _, known in pairs]
    assert refusal_precision(*columns) == (both / len(refused) if refused else None)
    assert refusal_recall(*columns) == (both / len(unknown) if unknown else None)


# -- asking a judge -------------------------------------------------------------------------------


class Words:
    """Supports a claim whose words all stand in the passages together; counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def judge(self, claim: str, passages: Sequence[Chunk | str]) -> Verdict:
        self.asked += 1
        texts = [one if isinstance(one, str) else one.shown for one in passages]
        there = set(" ".join(texts).lower().split())
        held = set(claim.lower().strip(".").split()) <= there
        return Verdict(SUPPORTED if held else ABSENT, float(held))


CHUNKS = [
    chunk("doc#0", "the fee is five euro"),
    chunk("doc#1", "refunds take ten days"),
    chunk("doc#2", "the fee is due in ten days"),
]
CONTEXT = Context("", tuple(Hit(one, 1.0, n + 1, ()) for n, one in enumerate(CHUNKS)), (), 0, 0)


def answer(*sentences: tuple[str, tuple[int, ...]]) -> Answer:
    said = tuple(
        Sentence(
            text,
            tuple(Citation(n, CHUNKS[n - 1].chunk_id if n <= 3 else "", "") for n in numbers),
        )
        for text, numbers in sentences
    )
    return Answer(" ".join(one.text for one in said), (), False, "test", said)


def test_a_sentence_letter_for_letter_needs_no_judge() -> None:
    judge = Words()
    assert supports("refunds take ten days", CHUNKS, judge)
    assert judge.asked == 0
    assert not supports("refunds take two days", CHUNKS, judge)
    assert judge.asked == 1
    assert not supports("refunds take ten days", [], judge)


def test_an_answer_is_judged_sentence_by_sentence() -> None:
    given_ = answer(
        ("the fee is five euro", (1, 2)),  # 1 alone supports it, 2 is idle
        ("five euro due in ten days", (1, 3)),  # only both together
        ("refunds take ten days", ()),  # true, and cites nothing
        ("the fee is nine euro", (1,)),  # false
        ("refunds take ten days", (7,)),  # a source that was never given
    )
    assert supported(given_, CONTEXT, Words()) == (True, True, True, False, True)
    rows = cited(given_, CONTEXT, Words())
    assert rows == (
        Cited(True, (True, False), (False, True)),
        Cited(True, (False, False), (False, False)),
        Cited(False, (), ()),
        Cited(False, (False,), (False,)),
        Cited(False, (False,), (False,)),
    )
    assert citation_recall(rows) == 2 / 5
    assert citation_precision(rows) == (1 + 2 + 0 + 0) / (2 + 2 + 1 + 1)


def test_a_refusal_says_nothing() -> None:
    refusal = Answer("The sources do not answer this.", (), True, "test")
    assert supported(refusal, CONTEXT, Words()) == ()
    assert cited(refusal, CONTEXT, Words()) == ()
