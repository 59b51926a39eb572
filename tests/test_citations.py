"""Citations: read as they were written, looked up letter for letter, and marked where wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from fakes import chunk, ranking
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.answer.citations import (
    MISQUOTED,
    UNCITED,
    UNKNOWN,
    UNQUOTED,
    UNRELATED,
    check,
    located,
    read_sentences,
    said,
    shares,
)
from raglab.answer.grounded import read_answer
from raglab.types import REFUSAL, Answer, Citation, Context, Hit, Sentence

PATIENT = settings(deadline=None)  # the first example loads word lists
TEXTS = {
    "fees#0": "The fee is due within ten days. It is “never” returned.",
    "plans#0": "| Plan | Keys |\n|---|---|\n| Team | 5 & more |",
}


def context_of(texts: dict[str, str]) -> Context:
    return Context("", ranking(*texts, texts=texts), (), 0, 0)


CONTEXT = context_of(TEXTS)


def answer(reply: str, context: Context = CONTEXT) -> Answer:
    return read_answer(reply, context, "test")


def kinds(reply: str, context: Context = CONTEXT) -> list[tuple[int, str, int]]:
    return [(f.sentence, f.kind, f.number) for f in check(answer(reply, context), context)]


# -- reading --------------------------------------------------------------------------------------


def test_a_line_a_sentence_with_its_quotes() -> None:
    told = answer(
        'Pay within ten days. [1: "due within ten days"]\n'
        'Team has five keys. [2: "| Team | 5 & more |"] [1: "The fee"]'
    )
    assert told.sentences == (
        Sentence("Pay within ten days.", (Citation(1, "fees#0", "due within ten days"),)),
        Sentence(
            "Team has five keys.",
            (Citation(2, "plans#0", "| Team | 5 & more |"), Citation(1, "fees#0", "The fee")),
        ),
    )
    assert told.text == "Pay within ten days. [1] Team has five keys. [2][1]"
    assert told.citations == tuple(one for s in told.sentences for one in s.citations)
    assert not told.refused


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('A. [1: "x"] B. [2: "y"]', [("A.", [1]), ("B.", [2])]),
        ('A. B. [1: "x"]', [("A.", []), ("B.", [1])]),
        ('A [1: "x"].', [("A.", [1])]),
        ('A\n[1: "x"]\n[2: "y"]\nB [1: "z"]', [("A", [1, 2]), ("B", [1])]),
        ("In the north [1] and the south [2, 1] it rains.",
         [("In the north and the south it rains.", [1, 2])]),
        ("A. [1]B", [("A.", [1]), ("B", [])]),
        ("[1] A.", [("A.", [1])]),
        ('A. [1: "x"][1: "x"] [1: "y"]', [("A.", [1, 1])]),
        ("- One\n- Two [2]", [("- One", []), ("- Two", [2])]),
        ("Set [x] and [1: y].", [("Set [x] and [1: y].", [])]),
        (f"Many [{'9' * 5000}].", [(f"Many [{'9' * 5000}].", [])]),
        ('It is a list. [1: "ids: ["a", "b"]"]', [("It is a list.", [1])]),
        ("", []),
        ("[1]", []),
    ],
)  # fmt: skip
def test_a_mark_belongs_to_the_sentence_it_stands_in_or_behind(
    reply: str, expected: list[tuple[str, list[int]]]
) -> None:
    found = read_sentences(reply, CONTEXT)
    assert [(s.text, [one.number for one in s.citations]) for s in found] == expected


def test_a_quote_is_kept_as_it_stands_in_the_source() -> None:
    """What the model read was escaped, and its quotation marks may be the straight ones."""
    told = answer('It stays. [1: "It is  "never" returned"]\nFive. [2: "5 &amp; more"]')
    assert [one.quote for one in told.citations] == ["It is “never” returned", "5 & more"]
    assert check(told, CONTEXT)[0].kind == UNRELATED  # "Five" does not stand in source 2
    assert len(check(told, CONTEXT)) == 1


def test_numbers_that_were_never_given_are_kept_with_the_sentence_alone() -> None:
    told = answer('A fee. [0: "fee"] [3: "fee"] [1: "fee"]')
    assert [(c.number, c.chunk_id) for c in told.sentences[0].citations] == [
        (0, ""), (3, ""), (1, "fees#0"),
    ]  # fmt: skip
    assert [c.number for c in told.citations] == [1]


def test_a_reply_without_quotes_stays_as_it_was_written() -> None:
    told = answer("The fee is due [1]. It is paid in days [1, 2].")
    assert told.text == "The fee is due [1]. It is paid in days [1, 2]."
    assert [(c.number, c.quote) for c in told.citations] == [(1, ""), (2, "")]


@pytest.mark.parametrize(
    "reply", [REFUSAL, f"{REFUSAL} [1]", f"Well. {REFUSAL}\nYet the fee is due."]
)
def test_a_refusal_is_a_refusal_whatever_stands_beside_it(reply: str) -> None:
    told = answer(reply)
    assert told == Answer(REFUSAL, (), refused=True, origin="test")
    assert check(told, CONTEXT) == said(told) == ()


def test_a_cut_reply_says_so_and_keeps_what_is_whole() -> None:
    told = answer('The fee is due. [1: "The fee is due"]\nIt is [1: "ne [cut at max_tokens=20]')
    assert told.text.endswith("[cut at max_tokens=20]")
    assert told.sentences[0].citations == (Citation(1, "fees#0", "The fee is due"),)
    assert [(f.sentence, f.kind) for f in check(told, CONTEXT)] == [(2, UNCITED)]


def test_what_an_answer_says_where_its_generator_does_not_tell() -> None:
    """Sentences are read from the marks; an answer that repeats its quotes is cut as it cites."""
    marked = Answer("Due in ten days [1]. Yes.", (Citation(1, "fees#0", "ten"),), False, "")
    assert said(marked) == (
        Sentence("Due in ten days.", (Citation(1, "fees#0", "ten"),)), Sentence("Yes.", ()),
    )  # fmt: skip
    row, end = "| Team | 5 & more |", "The fee is due within ten days."
    cited = (Citation(2, "plans#0", row), Citation(1, "fees#0", end))
    repeated = Answer(f"{row} [2] {end} [1]", cited, False, "")
    assert said(repeated) == (Sentence(row, cited[:1]), Sentence(end, cited[1:]))
    assert check(repeated, CONTEXT) == ()


# -- finding a quote ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "text", "there"),
    [
        ("ten days", "within ten\n  days", True),
        ("it's “so”", "it’s \"so\"", True),
        ("Ten days", "ten days", False),
        ("ten-days", "ten–days", False),
        ("10 days", "ten days", False),
        ("ten  days.", "ten days", False),
        ("a.b", "axb", False),
        ("", "text", False),
        (" \n", "a b", False),
    ],
)  # fmt: skip
def test_white_space_and_quotation_marks_may_differ_and_nothing_else(
    quote: str, text: str, there: bool
) -> None:
    assert (located(quote, text) is not None) == there


@PATIENT
@given(st.text(min_size=1, max_size=40), st.data())
def test_every_piece_of_a_text_is_found_in_it_and_a_stranger_is_not(
    text: str, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    piece = text[begin:end]
    if not piece.split():
        assert located(piece, text) is None
        return
    span = located("  ".join(piece.split()), text)
    assert span is not None
    assert text[slice(*span)].split() == piece.split()
    stranger = next(letter for letter in "äöüß@" if letter not in text)
    assert located(piece + stranger, text) is None


@PATIENT
@given(st.text(max_size=80))
def test_any_reply_can_be_read_and_checked(reply: str) -> None:
    told = answer(reply)
    check(told, CONTEXT)
    for one in told.citations:
        assert one.chunk_id == CONTEXT.kept[one.number - 1].chunk.chunk_id


# -- what is wrong --------------------------------------------------------------------------------


def test_each_fault_by_hand() -> None:
    assert kinds('The fee is due. [1: "The fee is due"]') == []
    assert kinds('The fee is due. [4: "The fee is due"]') == [(1, UNKNOWN, 4)]
    assert kinds("The fee is due.") == [(1, UNCITED, 0)]
    assert kinds("The fee is due. [1]") == [(1, UNQUOTED, 1)]
    assert kinds('The fee is due. [1: "due within 10 days"]') == [(1, MISQUOTED, 1)]
    assert kinds('Snow falls. [1: "ten days"]') == [(1, UNRELATED, 1)]
    assert kinds('The fee is due. [1: "fee"]\nIt snows. [2: "Team"] [7: "x"]') == [
        (2, UNRELATED, 2), (2, UNKNOWN, 7),
    ]  # fmt: skip


def test_findings_say_what_to_look_at() -> None:
    (found,) = check(answer('The fee. [1: "of ten"]'), CONTEXT)
    assert found.words == "[1], fees#0, does not hold “of ten”."
    (found,) = check(answer('The fee. [9: "of ten"]'), CONTEXT)
    assert found.words == "[9] was never given: the sources are [1] to [2]."
    (found,) = check(answer("A fee [1].", context_of({})), context_of({}))
    assert found.words == "[1] was never given: none was."


def test_a_section_may_be_quoted_and_a_heading_may_be_shared() -> None:
    child = replace(chunk("d#0", "Ten."), section="Ten. Paid to the card.", heading="Refunds")
    context = Context("", (Hit(child, 1.0, 1, ()),), (), 0, 0)
    assert kinds('A refund it is. [1: "Paid to the card"]', context) == []


@pytest.mark.parametrize(
    ("sentence", "shared"),
    [("Fees were due.", True), ("It is.", True), ("", True), ("Snow.", False), ("DUE!", True)],
)
def test_a_stem_is_enough_and_stop_words_are_nothing(sentence: str, shared: bool) -> None:
    assert shares(sentence, CONTEXT.kept[0].chunk) == shared


# -- any faithful answer, and any one fault in it -------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A sentence made of some words of a source, and a run of that source's words as its quote."""

    source: int  # from 1
    words: tuple[str, ...]
    quote: tuple[str, ...]

    def line(self) -> str:
        return f'{" ".join(self.words).capitalize()}. [{self.source}: "{" ".join(self.quote)}"]'


@st.composite
def faithful(draw: st.DrawFn) -> tuple[Context, list[Claim]]:
    """Sources that share no word, and claims about them."""
    count = draw(st.integers(2, 5))
    sizes = [draw(st.integers(2, 9)) for _ in range(count)]
    every = [[f"word{s}of{n}" for n in range(size)] for s, size in enumerate(sizes, start=1)]
    white = st.sampled_from([" ", "\n", "  "])
    texts = {
        f"s#{s}": "".join(word + draw(white) for word in words) for s, words in enumerate(every)
    }
    claims = []
    for _ in range(draw(st.integers(1, 5))):
        source = draw(st.integers(1, count))
        words = every[source - 1]
        chosen = draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
        begin = draw(st.integers(0, len(words) - 1))
        end = draw(st.integers(begin + 1, len(words)))
        claims.append(Claim(source, tuple(chosen), tuple(words[begin:end])))
    return context_of(texts), claims


@PATIENT
@given(faithful())
def test_a_faithful_answer_has_no_finding(made: tuple[Context, list[Claim]]) -> None:
    context, claims = made
    reply = "\n".join(claim.line() for claim in claims)
    assert kinds(reply, context) == []
    told = answer(reply, context)
    assert len(told.sentences) == len(claims)
    for one in told.citations:
        assert one.quote in context.kept[one.number - 1].chunk.text


@PATIENT
@given(faithful(), st.data())
def test_each_single_fault_is_found_where_it_is(
    made: tuple[Context, list[Claim]], data: st.DataObject
) -> None:
    context, claims = made
    at = data.draw(st.integers(0, len(claims) - 1))
    claim = claims[at]
    text = f"{' '.join(claim.words).capitalize()}."
    quote = list(claim.quote)
    place = data.draw(st.integers(0, len(quote) - 1))
    beside = claim.source % len(context.kept) + 1  # another source, with a word of its own
    theirs = context.kept[beside - 1].chunk.text.split()[0]
    stranger = data.draw(st.integers(1, 99)) + len(context.kept)
    changed = " ".join([*quote[:place], quote[place] + "x", *quote[place + 1 :]])
    faults = {
        UNKNOWN: (f'{text} [{stranger}: "{" ".join(quote)}"]', stranger),
        UNCITED: (text, 0),
        UNQUOTED: (f"{text} [{claim.source}]", claim.source),
        MISQUOTED: (f'{text} [{claim.source}: "{changed}"]', claim.source),
        UNRELATED: (f'{text} [{beside}: "{theirs}"]', beside),
    }
    for kind, (line, number) in faults.items():
        lines = [one.line() for one in claims]
        lines[at] = line
        assert kinds("\n".join(lines), context) == [(at + 1, kind, number)]
