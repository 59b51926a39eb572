"""Assembling: orders, sections, copies with another number, compressing, and where tokens go."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes import chunk, ids, ranking
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.answer.assemble import (
    BEST_FIRST,
    BOTH_ENDS,
    ORDERS,
    BudgetAssembler,
    at_both_ends,
    same,
)
from raglab.answer.compress import GAP, matching
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.trace import Step, Trace
from raglab.types import Chunk, Hit, Part, Query, RagLabError, Ranking

QUESTION = Query("q", "How long does a refund take?")
FENCE = 4 + 1  # words: <source, number=, chunk=, heading="">, and </source>
PATIENT = settings(deadline=None)  # the first example loads word lists
LIKE = "The leave may begin {} weeks before the expected day and must be finished in time."


def words(text: str) -> int:
    return len(text.split())


def hits_of(*chunks: Chunk) -> Ranking:
    return tuple(
        Hit(one, 1 / rank, rank, (Part("given", 1 / rank),))
        for rank, one in enumerate(chunks, start=1)
    )


def reasons(context) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    return [(drop.hit.chunk.chunk_id, drop.reason) for drop in context.dropped]


# -- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "ranks"),
    [(0, ()), (1, (1,)), (2, (1, 2)), (3, (1, 3, 2)), (6, (1, 3, 5, 6, 4, 2))],
)
def test_the_best_stand_at_both_ends(count: int, ranks: tuple[int, ...]) -> None:
    assert at_both_ends(range(1, count + 1)) == ranks


def test_citation_n_names_the_nth_source_in_every_order() -> None:
    hits = ranking("a", "b", "c", "d")
    context = BudgetAssembler(words, order=BOTH_ENDS).assemble(QUESTION, hits)
    assert ids(context.kept) == ["a", "c", "d", "b"]
    assert [hit.rank for hit in context.kept] == [1, 3, 4, 2]
    for number, block in enumerate(context.text.split("</source>")[:-1], start=1):
        assert (
            f'<source number="{number}" chunk="{context.kept[number - 1].chunk.chunk_id}"' in block
        )


def test_the_order_decides_where_a_source_stands_and_not_whether() -> None:
    """Budgets are spent by rank: the second, last in the prompt, was counted second."""
    texts = {"a": "one two", "b": "three four five", "c": "six", "d": "seven eight nine ten"}
    hits = ranking("a", "b", "c", "d", texts=texts)
    first, ends = (
        BudgetAssembler(words, budget=FENCE * 3 + 7, order=order).assemble(QUESTION, hits)
        for order in ORDERS
    )
    assert ids(first.kept) == ["a", "b", "c"]  # 2 + 3 + 1 words; 1 is left, and d has 4
    assert ids(ends.kept) == ["a", "c", "b"]
    assert first.spent == (FENCE + 2, FENCE + 3, FENCE + 1)
    assert ends.spent == (FENCE + 2, FENCE + 1, FENCE + 3)
    assert first.left == ends.left == 1
    assert reasons(first) == reasons(ends)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(RagLabError, match="choose one of best first, best at both ends"):
        BudgetAssembler(words, order="worst first")


# -- tokens ---------------------------------------------------------------------------------------


def test_where_the_tokens_went() -> None:
    texts = {"a": "one two three", "b": "four " * 30, "c": "five"}
    context = BudgetAssembler(words, budget=20).assemble(
        QUESTION, ranking("a", "b", "c", texts=texts)
    )
    assert context.spent == (FENCE + 3, FENCE + 1)
    assert context.tokens == sum(context.spent)
    assert context.left == 20 - context.tokens
    (drop,) = context.dropped
    assert (drop.tokens, drop.over) == (FENCE + 30, FENCE + 30 - (20 - (FENCE + 3)))
    assert drop.reason == f"over the budget by {drop.over} tokens"


@PATIENT
@given(
    st.lists(st.sampled_from(["a", "a b c", "d e f g", "h " * 9, "one", "i j"]), max_size=8),
    st.integers(1, 9),
    st.integers(1, 60),
    st.sampled_from(ORDERS),
)
def test_whatever_comes_the_budget_holds_and_nothing_is_lost_unsaid(
    texts: list[str], keep: int, budget: int, order: str
) -> None:
    hits = hits_of(*(chunk(f"c#{n}", text) for n, text in enumerate(texts)))
    context = BudgetAssembler(words, keep, budget, order).assemble(QUESTION, hits)
    assert context.tokens == sum(context.spent) == words(context.text) <= budget
    assert len(context.spent) == len(context.kept) <= keep
    left_out = [drop.hit for drop in context.dropped]
    assert sorted(ids((*context.kept, *left_out))) == sorted(ids(hits))
    for drop in context.dropped:
        assert drop.reason
        assert (drop.over > 0) == drop.reason.startswith("over the budget")
        assert drop.tokens >= drop.over


def test_a_trace_keeps_the_tokens() -> None:
    texts = {"a": "one two three", "b": "four " * 30}
    context = BudgetAssembler(words, budget=20).assemble(QUESTION, ranking("a", "b", texts=texts))
    trace = Trace(QUESTION, (Step("context", "assemble", (), context),))
    told = json.loads(trace.to_json())
    assert Trace.from_dict(told) == trace
    # A trace that was saved before tokens were told opens as it did.
    output = told["steps"][0]["output"]
    del output["spent"], output["dropped"][0]["tokens"], output["dropped"][0]["over"]
    older = Trace.from_dict(told).context
    assert (older.kept, older.spent, older.dropped[0].over) == (context.kept, (), 0)


def test_naming_a_copy_never_breaks_the_budget() -> None:
    """The source takes 5 + 8 words, and each copy that it names one more."""
    text = "a refund takes five days in all plans"
    hits = ranking("a", "b", "c", texts=dict.fromkeys("abc", text))
    for budget, also in ((13, ""), (14, 'also="b"'), (15, 'also="b, c"')):
        context = BudgetAssembler(words, budget=budget).assemble(QUESTION, hits)
        assert ids(context.kept) == ["a"]
        assert context.tokens <= budget
        assert also in context.text
        assert bool(also) == ("also=" in context.text)


# -- copies and sections --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"), [("two", "three"), ("2", "3"), ("ten", "10"), ("twelve", "twenty")]
)
def test_a_copy_with_another_number_is_kept_however_it_is_written(one: str, other: str) -> None:
    assert same(LIKE.format(one), LIKE.format(one))
    assert not same(LIKE.format(one), LIKE.format(other))
    texts = {"old": LIKE.format(one), "new": LIKE.format(other), "copy": LIKE.format(other)}
    context = BudgetAssembler(words).assemble(QUESTION, ranking("old", "new", "copy", texts=texts))
    assert ids(context.kept) == ["old", "new"]
    assert reasons(context) == [("copy", "duplicate of new")]


def test_numbers_that_changed_places_are_no_copy() -> None:
    page = (
        "From {} to {} calls a minute are free in every plan, for each key that an account "
        "holds, in each region, and for every tool that the account has in use today."
    )
    assert not same(page.format(50, 60), page.format(60, 50))
    assert same(page.format(50, 60), page.format(50, 60))


def test_a_longer_text_is_no_copy_of_the_piece_that_was_kept() -> None:
    """All that the piece says stands in the longer one, but not the other way round."""
    piece = "A refund takes five days from the day of approval."
    longer = f"{piece} Bank holidays come on top, and a lost card makes it take longer still."
    assert not same(piece, longer)
    assert same(longer, piece)
    context = BudgetAssembler(words).assemble(
        QUESTION, ranking("piece", "longer", texts={"piece": piece, "longer": longer})
    )
    assert ids(context.kept) == ["piece", "longer"]


def test_a_section_comes_once() -> None:
    """Two children of one parent; the child of another that reads the same is a duplicate."""
    section = "Refunds take five days. They are paid to the card. Ask the billing owner."
    first, second = (
        replace(chunk(f"d#{n}", text), section=section)
        for n, text in enumerate(["Refunds take five days.", "Ask the billing owner."])
    )
    other = replace(chunk("e#0", "They are paid to the card."), section=section)
    context = BudgetAssembler(words).assemble(QUESTION, hits_of(first, second, other))
    assert ids(context.kept) == ["d#0"]
    assert reasons(context) == [("d#1", "same section as d#0"), ("e#0", "duplicate of d#0")]
    assert context.text.count("They are paid to the card.") == 1
    assert 'also="d#1, e#0"' in context.text


def test_the_draft_no_longer_hides_the_policy(lab: Pipeline) -> None:
    """The old page says two weeks, the one that holds says four."""
    (question,) = (q for q in golden_questions() if q.query_id == "temporal-16")
    kept = lab.run(question.text).context.kept
    assert any(question.evidence[0].quote in hit.chunk.text for hit in kept)


# -- dates and compressing ------------------------------------------------------------------------


def test_dates_are_told_where_they_are_asked_for() -> None:
    hits = hits_of(replace(chunk("a", "text"), updated="2026-03-01"), chunk("b", "other"))
    assert "updated=" not in BudgetAssembler(words).assemble(QUESTION, hits).text
    dated = BudgetAssembler(words, dates=True).assemble(QUESTION, hits)
    assert dated.text.count("updated=") == 1
    assert 'updated="2026-03-01"' in dated.text
    assert dated.tokens == sum(dated.spent)


TABLE = """# Refunds

Ask in a ticket. Forms exist.

| Plan | Days |
|---|---|
| Team | 14 |
| Business refunds | 30 |

Nothing else."""


def test_compressing_keeps_what_shares_a_word_and_what_it_needs_to_be_read() -> None:
    text = matching("How long do refunds take?", TABLE)
    assert text.split("\n") == [
        "# Refunds", GAP, "| Plan | Days |", "|---|---|", GAP, "| Business refunds | 30 |", GAP,
    ]  # fmt: skip
    assert matching("How long do refunds take?", "Refunded. No. No! Refunds.") == (
        f"Refunded. {GAP} Refunds."
    )


def test_where_no_word_is_shared_the_source_stays_whole() -> None:
    assert matching("holiday", TABLE) == matching("the and of", TABLE) == TABLE


@PATIENT
@given(st.text(alphabet="ab .\n|#", max_size=60), st.text(alphabet="ab ", max_size=8))
def test_what_stays_stays_letter_for_letter_and_in_order(text: str, query: str) -> None:
    at = 0
    for piece in matching(query, text).split(GAP):
        place = text.find(piece.strip(), at)
        assert place >= at
        at = place + len(piece.strip())


def test_a_compressed_prompt_is_shorter_and_its_chunks_are_whole() -> None:
    texts = {"a": "A refund takes days. Forms exist. Call us any day of the week.", "b": "Other."}
    hits = ranking("a", "b", texts=texts)
    whole, short = (
        BudgetAssembler(words, compress=compress).assemble(QUESTION, hits)
        for compress in (False, True)
    )
    assert short.tokens < whole.tokens
    assert "A refund takes days. …" in short.text
    assert "Forms exist" not in short.text
    assert [hit.chunk.shown for hit in short.kept] == [texts["a"], texts["b"]]


def test_best_first_is_the_default(lab: Pipeline) -> None:
    assembler = lab.assembler
    assert isinstance(assembler, BudgetAssembler)
    assert (assembler.order, assembler.compress, assembler.dates) == (BEST_FIRST, False, False)
