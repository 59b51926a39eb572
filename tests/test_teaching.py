"""The teacher's notes are measured: every rank, answer, time and name in them is tried again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import typer
from typer.testing import CliRunner

from raglab.cli import app
from raglab.evaluate.evidence import holds
from raglab.explore.dials import dials, turned
from raglab.explore.whynot import why_not
from raglab.fates import Wanted, first_loss
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.trace import Trace
from raglab.types import Evidence, Query, Question, Ranking, Readable

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
NOTES = (NOTEBOOKS / "TEACHING.md").read_text(encoding="utf-8")
GOLDEN = {question.query_id: question for question in golden_questions("handbook")}

RANKS = ("dense", "sparse", "fused", "reranked", "in the prompt")
CLAIMS = ("query", "what it shows", *RANKS, "answer")
TURNS = ("query", "turn", "in the prompt", "then", "answer", "then", "what it teaches")
LOSSES = ("query", "lost at", "because")
SCORES = ("query", "dense", "sparse", "fused", "is the first fused hit evidence?")
TIMETABLE = ("minutes", "block", "open")


def tables(text: str) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """The head and the rows of each table.

    >>> list(tables("|a|b|\\n|---|---|\\n| 1 | 2 |"))
    [(('a', 'b'), [('1', '2')])]
    """
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        rows = [
            tuple(cell.strip() for cell in line[1:-1].split("|"))
            for line in block.strip().split("\n")
        ]
        assert all(len(row) == len(rows[0]) for row in rows), rows[0]
        yield rows[0], rows[2:]


def rows_of(*head: str) -> list[tuple[str, ...]]:
    found = [row for first, rows in tables(NOTES) if first == head for row in rows]
    assert found, f"no table {head}"
    return found


# -- what is measured ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One question, followed through the pipeline. A rank for each quote of its evidence."""

    question: Question
    trace: Trace

    def ranks(self, where: str) -> list[int | None]:
        kept = self.trace.context.kept
        hits = kept if where == "in the prompt" else self.trace.ranking(where)
        return [rank(hits, quote) for quote in self.question.evidence]

    def told(self, where: str) -> str:
        """As the notes write it: `3`, `1, -`, or `-` where there is nothing to find."""
        return ", ".join(str(one or "-") for one in self.ranks(where)) or "-"

    def answer(self) -> str:
        """As the notes write it: `refuses`, `quotes it`, `quotes 1 of 2`, `cites its chunk`,
        `cites others`."""
        answer, evidence = self.trace.answer, self.question.evidence
        if answer.refused:
            return "refuses"
        quoted = sum(any(e.quote in c.quote for c in answer.citations) for e in evidence)
        if quoted:
            return "quotes it" if quoted == len(evidence) else f"quotes {quoted} of {len(evidence)}"
        cited = {citation.chunk_id for citation in answer.citations}
        chunks = [h.chunk for h in self.trace.context.kept if h.chunk.chunk_id in cited]
        own = any(holds(chunk, quote) for chunk in chunks for quote in evidence)
        return "cites its chunk" if own else "cites others"


def rank(hits: Ranking, quote: Evidence) -> int | None:
    return next((at for at, hit in enumerate(hits, start=1) if holds(hit.chunk, quote)), None)


def ask(pipeline: Pipeline, query_id: str) -> Measured:
    question = GOLDEN[query_id]
    return Measured(question, pipeline.run(Query(question.query_id, question.text)))


def name(cell: str) -> str:
    found = re.match(r"`([a-z]+-\d+)`", cell)
    assert found, f"{cell!r} does not begin with a question's name"
    return found[1]


# -- queries that teach --------------------------------------------------------------------------


def best(measured: Measured, where: str) -> float:
    return min((one for one in measured.ranks(where) if one), default=float("inf"))


def reached(measured: Measured) -> list[bool]:
    return [one is not None for one in measured.ranks("in the prompt")]


KEPT = 8
SHOWS: dict[str, Callable[[Measured], bool]] = {
    "dense fails, sparse finds": lambda m: best(m, "dense") > 10 and best(m, "sparse") <= 3,
    "sparse fails, dense finds": lambda m: best(m, "sparse") > 20 and best(m, "dense") <= 3,
    "fusion helps": lambda m: best(m, "fused") < min(best(m, "dense"), best(m, "sparse")),
    "fusion harms": lambda m: best(m, "fused") > min(best(m, "dense"), best(m, "sparse")),
    "reranking harms": lambda m: best(m, "fused") <= KEPT < best(m, "reranked"),
    "reranking rescues": lambda m: best(m, "fused") > KEPT >= best(m, "reranked"),
    "retrieval lost it": lambda m: bool(m.question.evidence) and best(m, "fused") > 1e9,
    "multi-hop, half found": lambda m: (
        m.question.kind == "multi-hop" and set(reached(m)) == {True, False}
    ),
    "the prompt lost it": lambda m: best(m, "reranked") <= KEPT and not any(reached(m)),
    "a mention is no answer": lambda m: best(m, "sparse") <= 3 and m.answer() == "cites others",
    "restricted, refused": lambda m: best(m, "fused") > 1e9 and m.answer() == "refuses",
    "restricted, answered wrongly": lambda m: (
        best(m, "fused") > 1e9 and m.answer() == "cites others"
    ),
    "restricted, with rights": lambda m: m.question.groups != () and m.answer() == "quotes it",
    "unanswerable, refused": lambda m: m.answer() == "refuses",
    "unanswerable, answered wrongly": lambda m: m.answer() == "cites others",
    "found, and refused": lambda m: best(m, "in the prompt") == 1 and m.answer() == "refuses",
}


@pytest.mark.parametrize("row", rows_of(*CLAIMS), ids=lambda row: row[0][:24].replace("`", ""))
def test_a_query_does_what_the_notes_say(lab: Pipeline, row: tuple[str, ...]) -> None:
    claim = dict(zip(CLAIMS, row, strict=True))
    query_id = name(claim["query"])
    groups = re.findall(r"as `(\w+)`", claim["query"])
    assert claim["query"].endswith(f"` {GOLDEN[query_id].text}")
    measured = ask(replace(lab, allowed=Readable(tuple(groups))), query_id)
    assert {where: measured.told(where) for where in RANKS} == {w: claim[w] for w in RANKS}
    assert measured.answer() == claim["answer"]
    found = re.match(r"\*\*(.+?)\*\*: \w", claim["what it shows"])
    assert found, "the lesson stands first, in bold"
    assert SHOWS[found[1]](measured), found[1]
    for kind in ("restricted", "unanswerable"):
        assert found[1].startswith(kind) == (kind in measured.question.kind)


def test_each_lesson_has_a_query() -> None:
    shown = {re.findall(r"\*\*(.+?)\*\*", row[1])[0] for row in rows_of(*CLAIMS)}
    assert shown == set(SHOWS)


def test_a_lesson_can_be_wrong(lab: Pipeline) -> None:
    shown = [lesson for lesson, holds_for in SHOWS.items() if holds_for(ask(lab, "numeric-01"))]
    assert shown == []  # every stage has it first, and the answer repeats it


def test_the_outdated_page_answers(lab: Pipeline) -> None:
    assert "the outdated page answers instead" in NOTES
    cited = {
        c.chunk_id.partition("#")[0] for c in ask(lab, "contradiction-01").trace.answer.citations
    }
    assert cited == {"backup-wiki"}  # and data/README.md says which page holds


# -- one turn of one knob ------------------------------------------------------------------------


def settings(turn: str) -> dict[str, int | float | str]:
    """
    >>> settings("`keep=9`"), settings("`threshold=0.4`"), settings("`fuser=CombSUM`")
    ({'keep': 9}, {'threshold': 0.4}, {'fuser': 'CombSUM'})
    """
    knob, value = turn.strip("`").split("=")
    for number in (int, float):
        try:
            return {knob: number(value)}
        except ValueError:
            continue
    return {knob: value}


@pytest.mark.parametrize("row", rows_of(*TURNS), ids=lambda row: f"{name(row[0])} {row[1]}")
def test_a_turn_does_what_the_notes_say(lab: Pipeline, row: tuple[str, ...]) -> None:
    query_id = name(row[0])
    before, after = ask(lab, query_id), ask(turned(lab, **settings(row[1])), query_id)
    assert (before.told("in the prompt"), after.told("in the prompt")) == row[2:4]
    assert (before.answer(), after.answer()) == row[4:6]


def test_knobs_are_called_as_the_explorer_calls_them(lab: Pipeline) -> None:
    labels = {dial.name: dial.label for dial in dials(lab)}
    turns = {knob for row in rows_of(*TURNS) for knob in settings(row[1])}
    by_label = dict(re.findall(r"`(\w+)`(?: is)? \*([^*]+)\*[,;]", NOTES))
    own = turns - set(by_label)
    assert {knob: labels[knob] for knob in by_label} == by_label
    assert {knob: labels[knob].lower() for knob in own} == {knob: knob for knob in own}


# -- where it fell -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows_of(*LOSSES), ids=lambda row: name(row[0]))
def test_a_chunk_was_lost_where_the_notes_say(lab: Pipeline, row: tuple[str, ...]) -> None:
    measured = ask(lab, name(row[0]))
    loss = first_loss(lab, measured.trace, Wanted(quotes=measured.question.evidence))
    assert loss
    assert (loss.step, loss.reason) == row[1:]


def test_no_single_knob_rescues(lab: Pipeline) -> None:
    (query_id,) = re.findall(r"For `([a-z]+-\d+)` it goes on: no single knob rescues it", NOTES)
    question = GOLDEN[query_id]
    wanted = Wanted(quotes=question.evidence)
    found = why_not(lab, {}, Query(question.query_id, question.text), wanted)
    assert not found.rescues
    assert "No single knob rescues it" in found.words


def test_a_knob_can_rescue_and_mend_nothing(lab: Pipeline) -> None:
    assert "a budget of 350 tokens rescues `temporal-09`" in NOTES
    assert ask(turned(lab, budget=350), "temporal-09").told("in the prompt") != "-"


# -- scores that mislead -------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows_of(*SCORES), ids=lambda row: name(row[0]))
def test_best_scores(lab: Pipeline, row: tuple[str, ...]) -> None:
    measured = ask(lab, name(row[0]))
    for where, told in zip(SCORES[1:4], row[1:4], strict=True):
        digits = len(told.partition(".")[2])
        assert f"{measured.trace.ranking(where)[0].score:.{digits}f}" == told, where
    first = {(): "no, there is none", (1,): "yes"}
    assert first.get(tuple(measured.ranks("fused")), "no") == row[4]


def test_the_highest_cosine_is_not_the_one_that_found() -> None:
    scores = {row[0]: (float(row[1]), row[4]) for row in rows_of(*SCORES)}
    assert max(scores.values())[1] == "no, there is none"
    assert min(scores.values())[1] == "yes"


# -- time ----------------------------------------------------------------------------------------

PLANS = {"A class of 60 minutes": 60, "A half day": 210}


def section(heading: str) -> str:
    return NOTES.split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("heading", PLANS)
def test_a_timetable_adds_up(heading: str) -> None:
    assert str(PLANS[heading]) in f"{heading} {section(heading)[:60]}"
    timetable = next(rows for head, rows in tables(section(heading)) if head == TIMETABLE)
    times = [tuple(map(int, row[0].split("–"))) for row in timetable]
    assert times[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(times))
    assert all(start < end for start, end in times)
    assert sum(end - start for start, end in times) == PLANS[heading]
    told = re.findall(r"^### (.+)$", section(heading), re.MULTILINE)
    assert told == [f"{row[0]} · {row[1]}" for row in timetable if row[1] != "Break"]


@pytest.mark.parametrize("heading", PLANS)
def test_a_block_says_what_to_ask_and_what_to_expect(heading: str) -> None:
    for block in section(heading).split("\n### ")[1:]:
        if " · Close" not in block:
            for part in ("Hoped for:", "Common wrong answer:", "Fast:", "Slow:"):
                assert f"**{part}**" in block, block.split("\n")[0]
            assert re.search(r"\*\*(Ask|Do|Predict)\*\*", block), block.split("\n")[0]


def test_sums_are_right() -> None:
    sums = re.findall(r"`([\d/+\- ]+) = ([\d.]+)`", NOTES)
    assert len(sums) >= 3
    for added, told in sums:
        value = sum(
            Fraction(part) for part in re.findall(r"-?\d+(?:/\d+)?", added.replace(" ", ""))
        )
        assert f"{float(value):.{len(told.partition('.')[2])}f}" == told, added


# -- names ---------------------------------------------------------------------------------------

LINK = re.compile(
    r"\[(\d\d) › ([^\]]+)\]"  # notebook and section
    r"\(((\d\d)_\w+\.ipynb)#([^)]+)\)"  # its file, and the section again
    r"(?: prints (`[^`]+`(?: and `[^`]+`)?))?"
)


def sections(path: Path) -> dict[str, str]:
    """A notebook's headings, and what is printed below each."""
    found, heading = {"": ""}, ""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            for title in re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE):
                heading = title.replace("*", "")
                found.setdefault(heading, "")
        for output in cell.get("outputs", []):
            found[heading] += output.get("text", "") + "\n"
    return {heading: " ".join(text.split()) for heading, text in found.items()}


def test_every_section_named_is_there_and_prints_what_is_quoted() -> None:
    links = LINK.findall(NOTES)
    assert len(links) == NOTES.count(" › ") > 20
    for number, heading, file, of_file, fragment, printed in links:
        assert number == of_file
        there = sections(NOTEBOOKS / file)
        assert heading in there, f"{file} has no section {heading!r}"
        assert fragment == heading.replace(" ", "-")
        for line in re.findall(r"`([^`]+)`", printed):
            assert line in there[heading], f"{file}, {heading}: {line}"


def test_every_quoted_print_is_checked() -> None:
    assert len(re.findall(r"\) prints `", NOTES)) == sum(
        bool(link[5]) for link in LINK.findall(NOTES)
    )


def test_every_file_named_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", NOTES):
        assert (NOTEBOOKS / target).exists(), target


def test_every_command_named_is_in_the_help() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    listed = CliRunner().invoke(app, ["--help"]).output
    named = re.findall(r"`raglab ([a-z]+)([^`]*)`", NOTES)
    assert {"doctor", "lab", "present", "ask"} <= {command for command, _ in named}
    for command, rest in named:
        assert re.search(rf"^\W*{command}\b", listed, re.MULTILINE), command
        options = {option for one in commands[command].params for option in one.opts}
        assert set(re.findall(r"--[a-z]+", rest)) <= options, (command, rest)
    present = {option for one in commands["present"].params for option in one.opts}
    assert set(re.findall(r"`(--\w+) 0.0.0.0`", NOTES)) <= present
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z]+)`", NOTES)) <= set(targets)


def test_every_question_named_exists_and_was_measured() -> None:
    named = set(re.findall(r"`([a-z]+-\d\d)`", NOTES))
    assert named <= set(GOLDEN)
    measured = {name(row[0]) for head in (CLAIMS, TURNS, LOSSES, SCORES) for row in rows_of(*head)}
    assert named == measured


def test_facts_from_the_literature_have_a_source_in_the_data() -> None:
    listed = re.findall(r"^- ([^(]+) \((\d{4})\)\.", (ROOT / "data/README.md").read_text(), re.M)
    cited = re.findall(r"([A-ZÀ-Ž][\w.]+(?:, [A-ZÀ-Ž]\w+| et al\.)*) \((\d{4})\)", NOTES)
    assert len(cited) >= 7
    assert set(cited) <= set(listed)


def test_the_notes_are_short() -> None:
    assert len(NOTES.splitlines()) <= 300
