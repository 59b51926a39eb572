"""An agent: at each turn a planner decides to search, with which words, or to answer.

    plan ─ search ─> retrieve … assemble ─> plan ─ search ─> … ─> plan ─ answer ─> grounded?

Thoughts and actions in turn are ReAct's (Yao et al. 2023).  Whether to retrieve at all, which
passages are relevant, and whether the answer stands on them are the questions that Self-RAG puts
to itself (Asai et al. 2024); there one model was trained to answer them, here a planner, a judge of
passages and a judge of claims do.

A planner is `rules.py`, which asks no model, or `toolplanner.py`, a language model that calls the
search as a tool.  Nothing trusts it.  It has at most `turns` turns and `usd` dollars: a call of the
planner that could go beyond them, by an estimate made before, is not made.  A search brings no more
new passages than the pipeline's assembler keeps, and whatever is searched for, only what the reader
may see is found.

An answer of which a sentence is not supported loses that sentence, and refuses if none is left.

Left out: several tools at once, tools that change something, and a planner that remembers runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from raglab.answer.citations import said
from raglab.answer.grounded import read_answer
from raglab.control.notes import Fresh, Gather, Notes
from raglab.evaluate.generation import supported
from raglab.evaluate.judge import Judge
from raglab.pipeline import Pipeline
from raglab.prices import Price, after_call
from raglab.recorder import Recorder
from raglab.retrieve.rewrite import WithHistory
from raglab.trace import DECIDE
from raglab.types import (
    REFUSAL,
    Answer,
    Context,
    Decision,
    Generator,
    Part,
    Query,
    RagLabError,
    Sentence,
)

SEARCH, ANSWER, STOP = "search", "answer", "stop"
SUPPORTED, UNSUPPORTED = "supported", "not supported"


class Planner(Protocol):
    """Decides what to do next."""

    def plan(self, notes: Notes) -> Decision:
        """`SEARCH`, with the query as `text`; or `ANSWER`, with the answer as `text`, or empty:
        then the pipeline's generator gives it.  `chunk_ids`: the passages that it goes on with."""
        ...

    def most(self, notes: Notes, price: Price) -> float:
        """USD that the next plan can cost at most."""
        ...


@dataclass(frozen=True)
class Agent:
    """A guide that lets a planner search as often as it needs, within bounds."""

    planner: Planner
    gather: Gather = field(repr=False)
    judge: Judge = field(repr=False)  # of what the answer says
    fallback: Generator = field(repr=False)  # answers where a bound was reached
    turns: int = 4  # plans, the last of which must answer
    usd: float = 0.10  # for one question; counts only where `price` is known
    price: Price | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.turns < 1 or self.usd < 0:
            raise RagLabError(
                f"turns={self.turns}, usd={self.usd}: give an agent at least one turn, and no "
                "negative money"
            )

    def follow(self, pipeline: Pipeline, asked: Query, record: Recorder) -> None:
        notes = Notes(asked, turns_left=self.turns)
        plan = self._planned(notes, record)
        while plan.choice == SEARCH and notes.turns_left > 1:
            if notes.searches:
                record.search_again()
            notes = self._searched(pipeline, notes, plan, record)
            plan = self._planned(notes, record)
            notes = notes.judged(plan.chunk_ids)
        self._answer(pipeline, notes, plan, record)

    def _searched(
        self, pipeline: Pipeline, notes: Notes, plan: Decision, record: Recorder
    ) -> Notes:
        fresh = Fresh(pipeline.assembler, tuple(notes.numbers().items()))
        query = WithHistory().rewrite(notes.asked)[0]
        if plan.text and plan.text != query.text:
            query = replace(query, text=plan.text, origin="the planner")
        _, context = replace(pipeline, assembler=fresh).search(query, record)
        return notes.with_search(query.text, plan.why, context.kept)

    def _planned(self, notes: Notes, record: Recorder) -> Decision:
        """The planner's decision, or to stop where its next call might cost too much."""
        if self.price:
            calls = [call for step in record.steps for call in step.calls]
            spent = sum(after_call(self.price, call).usd for call in calls)
            most = self.planner.most(notes, self.price)
            if spent + most > self.usd:
                why = f"the next call may cost ${most:.4f}; ${spent:.4f} of ${self.usd:g} are spent"
                return record("plan", DECIDE, Stop(why).plan, notes)
        return record("plan", DECIDE, self.planner.plan, notes)

    def _answer(self, pipeline: Pipeline, notes: Notes, plan: Decision, record: Recorder) -> None:
        spoken = plan.choice == ANSWER and bool(plan.text)
        relevant = notes.searches[-1].relevant if notes.searches else ()
        # A model's numbers are those of all that it read; a rule's choice may be numbered anew.
        only = None if spoken or plan.choice != ANSWER else relevant
        context = record(
            "gathered", "assemble", self.gather.assemble, notes.asked, notes.passages, only,
            after=("context",) if notes.searches else (),
        )  # fmt: skip
        if spoken:
            calls = record.steps[-2].calls  # of the plan, before it was gathered
            author = Spoken(plan.text, calls[-1].origin if calls else "the planner")
            answer = record(
                "answer", "generate", author.generate, notes.asked, context, after=("gathered",)
            )
        else:
            stopped = plan.choice != ANSWER
            mine = replace(pipeline, generator=self.fallback) if stopped else pipeline
            whole = WithHistory().rewrite(notes.asked)[0]
            answer = mine.respond(whole, context, record, after=("gathered",))
        grounded = Grounded(self.judge)
        checked = record("grounded?", DECIDE, grounded.check, answer, context)
        if checked.choice == UNSUPPORTED:
            record("answer", "generate", grounded.keep, answer, checked, after=("gathered",))


@dataclass(frozen=True)
class Stop:
    """Decides to stop: a bound is reached."""

    why: str

    def plan(self, notes: Notes) -> Decision:
        return Decision(STOP, self.why, chunk_ids=tuple(notes.numbers()))


@dataclass(frozen=True)
class Spoken:
    """A generator that reads what a planner wrote as its answer."""

    text: str
    origin: str

    def generate(self, query: Query, context: Context) -> Answer:
        return read_answer(self.text, context, self.origin)


@dataclass(frozen=True)
class Grounded:
    """Checks an answer before it is given: does each sentence stand on the passages?

    Each part is a sentence, and 1 where it is supported.
    """

    judge: Judge

    def check(self, answer: Answer, context: Context) -> Decision:
        if answer.refused:
            return Decision(SUPPORTED, "a refusal claims nothing")
        stands = zip(_sentences(answer), supported(answer, context, self.judge), strict=True)
        parts = tuple(Part(one.text, float(yes)) for one, yes in stands)
        lacking = [part.name for part in parts if not part.value]
        cited = tuple(dict.fromkeys(c.chunk_id for c in answer.citations))
        if not lacking:
            count = len(parts)
            why = f"{count} sentence{'' if count == 1 else 's'}, each supported"
            return Decision(SUPPORTED, why, parts, cited)
        why = f"{len(lacking)} of {len(parts)} not supported: “{lacking[0]}”"
        return Decision(UNSUPPORTED, why, parts, cited)

    def keep(self, answer: Answer, checked: Decision) -> Answer:
        """The answer's supported sentences; a refusal where there is none."""
        stands = zip(_sentences(answer), checked.parts, strict=True)
        left = tuple(one for one, part in stands if part.value)
        if not left:
            return Answer(REFUSAL, (), refused=True, origin=answer.origin)
        citations = tuple(dict.fromkeys(c for one in left for c in one.citations if c.chunk_id))
        marked = (
            " ".join((one.text, *dict.fromkeys(f"[{c.number}]" for c in one.citations)))
            for one in left
        )
        return Answer(" ".join(marked), citations, False, answer.origin, left)


def _sentences(answer: Answer) -> tuple[Sentence, ...]:
    return tuple(one for one in said(answer) if one.text.strip())
