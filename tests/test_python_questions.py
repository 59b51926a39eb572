"""The questions about the Python language reference keep the promises of data/README.md.

The reference is read from the interpreter at hand, and its words change a little from version to
version.  The quotes were copied on Python 3.11, so there all of them stand; on a later version a
question whose quote is gone is skipped, and few may be.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from raglab.ingest.corpus import read_questions
from raglab.types import Question

QUESTIONS = read_questions(Path(__file__).parents[1] / "data" / "golden" / "python.jsonl")
ANSWERABLE = [question for question in QUESTIONS if question.evidence]
AT_LEAST = {
    "exact-token": 10,
    "paraphrase": 10,
    "numeric": 6,
    "table": 6,
    "multi-hop": 10,
    "unanswerable": 10,
}
WORD_OF_THE_ANSWER = {  # what a topic that answers it would have to say
    "py-unanswerable-01": "most_common",
    "py-unanswerable-02": "asyncio",
    "py-unanswerable-03": "csv",
    "py-unanswerable-04": "rlock",
    "py-unanswerable-05": "json",
    "py-unanswerable-06": "lru_cache",
    "py-unanswerable-07": "recursion limit",
    "py-unanswerable-08": "nfkd",
    "py-unanswerable-09": "maxlen",
    "py-unanswerable-10": "threshold",
    "py-unanswerable-11": "ignorecase",
    "py-unanswerable-12": "logging level",
    "py-unanswerable-13": "dataclass",
    "py-unanswerable-14": "pip install",
}
HOME = (3, 11)  # the version that the quotes were copied on
VERSION = sys.version_info[:2]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def longest_shared_run(a: str, b: str) -> int:
    """The most consecutive words that two texts share: 2 for "a b c" and "x b c"."""
    left, right = words(a), words(b)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    return matcher.find_longest_match(0, len(left), 0, len(right)).size


def quotes_are_here(question: Question) -> bool:
    return all(evidence.quote in topics.get(evidence.doc_id, "") for evidence in question.evidence)


def test_there_is_enough_of_everything() -> None:
    kinds = Counter(question.kind for question in QUESTIONS)
    assert set(kinds) == set(AT_LEAST)
    assert len(QUESTIONS) >= 66
    for kind, least in AT_LEAST.items():
        assert kinds[kind] >= least, kind


def test_ids_are_unique_and_of_this_corpus() -> None:
    assert len({question.query_id for question in QUESTIONS}) == len(QUESTIONS)
    for question in QUESTIONS:
        name = question.kind.replace("exact-token", "exact").replace("multi-hop", "multihop")
        assert re.fullmatch(rf"py-{name}-\d\d", question.query_id), question.query_id


def test_both_splits_hold_about_half_of_each_kind() -> None:
    counts = Counter((question.kind, question.split) for question in QUESTIONS)
    assert {split for _, split in counts} == {"dev", "test"}
    for kind in AT_LEAST:
        assert abs(counts[kind, "dev"] - counts[kind, "test"]) <= 1, kind


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question.query_id)
def test_a_quote_stands_in_its_topic(question: Question) -> None:
    for evidence in question.evidence:
        assert 20 <= len(evidence.quote) <= 200
        assert "\n" not in evidence.quote
    if not quotes_are_here(question) and VERSION != HOME:
        pytest.skip(f"Python {VERSION[0]}.{VERSION[1]} words it in another way")
    for evidence in question.evidence:
        assert topics[evidence.doc_id].count(evidence.quote) == 1, evidence.quote


@pytest.mark.skipif(VERSION != HOME, reason="the quotes were chosen on Python 3.11")
def test_a_quote_stands_in_no_other_topic() -> None:
    for question in ANSWERABLE:
        for evidence in question.evidence:
            homes = [name for name, text in topics.items() if evidence.quote in text]
            assert homes == [evidence.doc_id], (question.query_id, evidence.quote)


@pytest.mark.skipif(not HOME <= VERSION <= (3, 14), reason="known to hold on Python 3.11 to 3.14")
def test_few_quotes_are_gone() -> None:
    gone = [question.query_id for question in ANSWERABLE if not quotes_are_here(question)]
    assert len(gone) <= (0 if VERSION == HOME else len(ANSWERABLE) // 5), gone


def test_a_question_is_answerable_exactly_if_it_has_evidence() -> None:
    for question in QUESTIONS:
        assert question.answerable == bool(question.evidence), question.query_id
        assert question.answerable == bool(question.answer), question.query_id
        assert question.answerable == (question.kind != "unanswerable"), question.query_id


def test_multi_hop_needs_two_quotes() -> None:
    for question in QUESTIONS:
        if question.kind == "multi-hop":
            assert len(set(question.evidence)) >= 2, question.query_id


@pytest.mark.skipif(VERSION != HOME, reason="searched for on Python 3.11")
def test_no_topic_answers_an_unanswerable_question() -> None:
    unanswerable = {q.query_id for q in QUESTIONS if q.kind == "unanswerable"}
    assert unanswerable == set(WORD_OF_THE_ANSWER)
    everything = "\n".join(topics.values()).lower()
    for query_id, word in WORD_OF_THE_ANSWER.items():
        assert word not in everything, query_id


def test_every_question_says_why_it_is_there() -> None:
    for question in QUESTIONS:
        assert question.why.strip(), question.query_id
        assert "\n" not in question.why, question.query_id


def test_no_question_copies_its_evidence() -> None:
    assert longest_shared_run("a b c", "x b c") == 2
    for question in QUESTIONS:
        for evidence in question.evidence:
            assert longest_shared_run(question.text, evidence.quote) < 8, question.query_id


def test_no_two_questions_are_near_copies() -> None:
    for one, other in combinations(QUESTIONS, 2):
        left, right = set(words(one.text)), set(words(other.text))
        both, either = len(left & right), len(left | right)
        assert both <= 0.6 * either, (one.query_id, other.query_id)
