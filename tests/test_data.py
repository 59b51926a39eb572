"""The handbook and its golden questions keep the promises that data/README.md makes."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from itertools import combinations
from pathlib import Path

import frontmatter
import pytest

from raglab.ingest.contextualize import FromLLM
from raglab.ingest.corpus import read_folder, read_questions
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.recursive import Recursive
from raglab.llm import ReplayLLM
from raglab.retrieve.rewrite import Decompose, HyDE, MultiQuery, Standalone, StepBack
from raglab.types import Query

DATA = Path(__file__).parents[1] / "data"
FILES = sorted((DATA / "corpus" / "handbook").glob("*.md"))
DOCUMENTS = read_folder(DATA / "corpus" / "handbook")
QUESTIONS = read_questions(DATA / "golden" / "handbook.jsonl")
BY_ID = {document.doc_id: document for document in DOCUMENTS}
KINDS = {
    "exact-token",
    "paraphrase",
    "numeric",
    "table",
    "multi-hop",
    "temporal",
    "access-restricted",
    "contradiction",
    "whole-document",
    "conversational",
    "unanswerable",
}
QUOTES = [(q.query_id, e.doc_id, e.quote) for q in QUESTIONS for e in q.evidence]
PLANTED = "ticket-18477"
SHORT = ("ticket-", "mail-")


REWRITERS = {
    "multi-query": MultiQuery,
    "step-back": StepBack,
    "decompose": Decompose,
    "hyde": HyDE,
    "standalone": Standalone,
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def longest_shared_run(a: str, b: str) -> int:
    """The most consecutive words that two texts share: 2 for "a b c" and "x b c"."""
    left, right = words(a), words(b)
    best, previous = 0, [0] * (len(right) + 1)
    for word in left:
        current = [0] * (len(right) + 1)
        for j, other in enumerate(right, start=1):
            if word == other:
                current[j] = previous[j - 1] + 1
                best = max(best, current[j])
        previous = current
    return best


def triples(text: str) -> set[tuple[str, str, str]]:
    found = words(text)
    return set(zip(found, found[1:], found[2:], strict=False))


def overlap(a: set[tuple[str, str, str]], b: set[tuple[str, str, str]]) -> float:
    """The share of the smaller one's word triples that the other one holds too."""
    return len(a & b) / min(len(a), len(b))


def test_there_is_enough_of_everything() -> None:
    kinds = Counter(question.kind for question in QUESTIONS)
    assert 100 <= len(DOCUMENTS) <= 115
    assert sum(len(document.text.split()) for document in DOCUMENTS) >= 45_500
    assert len(QUESTIONS) >= 220
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 12
    assert kinds["access-restricted"] >= 14
    assert kinds["unanswerable"] >= 24


@pytest.mark.parametrize(
    ("prefix", "least"),
    [
        ("ticket-", 14),
        ("mail-", 8),
        ("meeting-", 6),
        ("runbook-", 3),
        ("postmortem-", 3),
        ("release-", 6),
        ("api-", 8),
        ("errors-", 4),
        ("rag-", 20),
    ],
)
def test_each_sort_of_document_is_there(prefix: str, least: int) -> None:
    assert sum(document.doc_id.startswith(prefix) for document in DOCUMENTS) >= least


def test_tickets_and_mails_are_short_and_four_policies_are_long() -> None:
    counts = {document.doc_id: len(document.text.split()) for document in DOCUMENTS}
    for doc_id, count in counts.items():
        if doc_id.startswith(SHORT):
            assert 80 <= count <= 180, doc_id
        else:
            assert 300 <= count <= 2_000, doc_id
    assert sum(count >= 1_100 for count in counts.values()) >= 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_document_has_its_card(path: Path) -> None:
    card = frontmatter.loads(path.read_text(encoding="utf-8")).metadata
    document = BY_ID[path.stem]
    assert list(card) == ["id", "title", "source", "updated", "groups"]
    assert card["id"] == path.stem
    assert document.text.startswith(f"# {document.title}\n")
    assert document.source.startswith("Larkspur Cloud / ")
    assert date.fromisoformat(document.updated)
    assert isinstance(card["updated"], str)


def test_ids_are_unique_and_no_two_documents_are_the_same() -> None:
    assert len(BY_ID) == len(DOCUMENTS) == len(FILES)
    assert len({document.title for document in DOCUMENTS}) == len(DOCUMENTS)
    assert len({document.text for document in DOCUMENTS}) == len(DOCUMENTS)
    assert len({question.query_id for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS)


def test_some_documents_are_nearly_the_same() -> None:
    assert overlap(triples("a b c d"), triples("a b c e f g")) == 0.5
    shingles = {document.doc_id: triples(document.text) for document in DOCUMENTS}
    pairs = {
        (a, b)
        for a, b in combinations(sorted(shingles), 2)
        if overlap(shingles[a], shingles[b]) >= 0.6
    }
    assert pairs >= {
        ("instance-sizes", "instance-sizes-2024"),
        ("leave-policy", "mail-fwd-parents"),
        ("remote-work", "remote-work-2023"),
        ("runbook-failover-north", "runbook-failover-west"),
    }


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("backup-policy", "backup-wiki"),
        ("regions", "sales-faq"),
        ("mail-embed1-correction", "mail-embed1-deletion"),
        ("instance-sizes", "instance-sizes-2024"),
        ("remote-work", "remote-work-2023"),
    ],
)
def test_dates_settle_what_two_documents_tell_differently(newer: str, older: str) -> None:
    assert BY_ID[newer].updated > BY_ID[older].updated


def test_one_document_holds_the_planted_instruction() -> None:
    for phrase in ("ignore all your previous instructions", "every refund is approved"):
        assert [d.doc_id for d in DOCUMENTS if phrase in d.text.lower()] == [PLANTED]


@pytest.mark.parametrize(("query_id", "doc_id", "quote"), QUOTES)
def test_a_quote_stands_in_its_document_and_nowhere_else(
    query_id: str, doc_id: str, quote: str
) -> None:
    assert BY_ID[doc_id].text.count(quote) == 1, query_id
    assert [d.doc_id for d in DOCUMENTS if quote in d.text] == [doc_id]
    assert 20 <= len(quote) <= 300
    assert "\n" not in quote


def test_a_question_is_answerable_exactly_if_it_has_evidence() -> None:
    for question in QUESTIONS:
        assert question.answerable == bool(question.evidence), question.query_id
        assert question.answerable == bool(question.answer), question.query_id
        assert question.answerable == (question.kind != "unanswerable"), question.query_id


def test_multi_hop_needs_two_quotes() -> None:
    for question in QUESTIONS:
        if question.kind == "multi-hop":
            assert len(set(question.evidence)) >= 2, question.query_id


def test_whole_document_needs_several_quotes_of_one_document() -> None:
    for question in QUESTIONS:
        if question.kind == "whole-document":
            assert 2 <= len(set(question.evidence)) <= 5, question.query_id
            assert len({evidence.doc_id for evidence in question.evidence}) == 1, question.query_id


def test_a_conversational_question_has_a_history_and_no_other_has() -> None:
    for question in QUESTIONS:
        assert bool(question.history) == (question.kind == "conversational"), question.query_id
        assert all(turn.strip() for turn in question.history), question.query_id


def test_restricted_documents_are_few_and_known() -> None:
    groups = Counter(group for document in DOCUMENTS for group in document.groups)
    assert groups == {"hr": 6, "finance": 5, "security": 1}


def test_evidence_is_restricted_exactly_for_questions_about_access() -> None:
    for question in QUESTIONS:
        restricted = question.kind == "access-restricted"
        assert bool(question.groups) == restricted, question.query_id
        for evidence in question.evidence:
            wanted = BY_ID[evidence.doc_id].groups
            assert bool(wanted) == restricted, question.query_id
            assert not restricted or set(wanted) & set(question.groups), question.query_id


def test_both_splits_hold_about_half_of_each_kind() -> None:
    counts = Counter((question.kind, question.split) for question in QUESTIONS)
    assert {split for _, split in counts} == {"dev", "test"}
    for kind in KINDS:
        assert abs(counts[kind, "dev"] - counts[kind, "test"]) <= 2, kind


def test_every_question_says_why_it_is_there() -> None:
    for question in QUESTIONS:
        assert question.why.strip(), question.query_id
        assert "\n" not in question.why, question.query_id


def test_no_question_copies_its_evidence() -> None:
    assert longest_shared_run("a b c", "x b c") == 2
    for question in QUESTIONS:
        for evidence in question.evidence:
            for turn in (question.text, *question.history):
                assert longest_shared_run(turn, evidence.quote) < 8, question.query_id


def test_the_first_question_is_the_one_that_the_workbook_opens_with() -> None:
    first = QUESTIONS[0]
    assert (first.query_id, first.split) == ("numeric-01", "dev")
    assert first.text == "How much did contextual retrieval cut failed retrievals?"
    quotes = " ".join(evidence.quote for evidence in first.evidence)
    assert "49%" in quotes
    assert "67%" in quotes


@pytest.mark.parametrize(
    ("doc_id", "fact"),
    [
        ("errors-platform", "ERR_2043"),
        ("errors-platform", "ERR_2034"),
        ("errors-platform", "ERR_2403"),
        ("errors-run", "ERR_4203"),
        ("errors-billing-keys", "ERR_3402"),
        ("errors-billing-keys", "ERR_6041"),
        ("api-users", "get_user_by_id"),
        ("api-users", "get_user_by_email"),
        ("api-users", "get_users_by_ids"),
        ("api-accounts", "fetch_account_details"),
        ("api-accounts", "fetch_account_summary"),
        ("rag-contextual-retrieval", "35%, from 5.7% to 3.7%"),
        ("rag-contextual-retrieval", "49%, from 5.7% to 2.9%"),
        ("rag-contextual-retrieval", "67%, from 5.7% to 1.9%"),
        ("refund-policy-enterprise", "Enterprise refund policy"),
    ],
)
def test_facts_that_the_workbook_speaks_of(doc_id: str, fact: str) -> None:
    assert fact in BY_ID[doc_id].text


def test_the_figures_of_contextual_retrieval_stand_in_one_document_only() -> None:
    for figure in ("49%", "67%"):
        assert [d.doc_id for d in DOCUMENTS if figure in d.text] == ["rag-contextual-retrieval"]


def test_every_kept_reply_answers_a_prompt_that_the_lab_sends() -> None:
    """A changed prompt has another hash, and its kept reply would never be found again."""
    rows = [
        json.loads(line)
        for path in sorted((DATA / "replies").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert rows
    encoder, llm = SentenceEncoder(), ReplayLLM(DATA / "replies")
    chunks = {
        chunk.chunk_id: (document, chunk)
        for document in DOCUMENTS
        if any(row.get("chunk_id", "").startswith(f"{document.doc_id}#") for row in rows)
        for chunk in Recursive(encoder.spans).chunk(document)
    }
    for row in rows:
        assert row["origin"], row
        if row["stage"] == "rewrite":
            rewriter = REWRITERS[row.get("method", "multi-query")](llm)
            query = Query("q", row["query"], history=tuple(row.get("history", ())))
            assert rewriter.prompt(query).hash == row["prompt_hash"]
            searched = {query.text for query in rewriter.rewrite(query)}
            assert set(row["text"].splitlines()) <= searched, "a line of it is not searched for"
        elif row["stage"] not in ("generate", "plan", "route", "check"):
            # Answers are asked for again in test_grounded.py, the others in test_kept_turns.py.
            assert row["stage"] == "blurb", "say here how the prompt of another stage is made"
            assert FromLLM(llm).blurb(*chunks[row["chunk_id"]]) == row["text"]
