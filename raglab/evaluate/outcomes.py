"""Golden questions asked, each with the trace of what happened, and whether the answer is right.

A question is asked with the groups of who asks it, and with the turn before it in front where it
leans on that.  So a retriever, a judge and a scorecard see the same.

Where a pipeline makes its own use of the turns before, ask with `as_query` of `rewriting.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from raglab.answer.citations import located
from raglab.evaluate.evidence import holds
from raglab.evaluate.judge import Judge
from raglab.pipeline import Pipeline
from raglab.trace import Trace
from raglab.types import Answer, Query, Question, Readable

Ask = Callable[[Question], Query]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A golden question, and the run that answered it."""

    question: Question
    trace: Trace


def asked(question: Question) -> Query:
    """As it is put to the pipeline: the turn before it in front, the plainest of rewrites."""
    return Query(question.query_id, " ".join((*question.history[-1:], question.text)))


def for_asker(pipeline: Pipeline, question: Question) -> Pipeline:
    """The pipeline as who asks may use it."""
    return replace(pipeline, allowed=Readable(question.groups))


def outcomes(
    pipeline: Pipeline,
    questions: Sequence[Question],
    *,
    ask: Ask = asked,
    progress: bool = False,
) -> tuple[Outcome, ...]:
    """Every question through every stage, the answer among them.

    ask: how a question is put; `as_query` leaves the turns before it to the pipeline.
    """
    from tqdm.auto import tqdm

    bar = tqdm(questions, desc="asking", unit="question", disable=not progress)
    return tuple(Outcome(one, for_asker(pipeline, one).run(ask(one))) for one in bar)


def right(question: Question, answer: Answer, judge: Judge) -> bool:
    """Is it the right answer?

    To a question without an answer, a refusal is.  To another one, an answer is right that says
    every quote of the evidence, or that supports the golden answer, as the judge sees it.
    """
    if answer.refused or not question.answerable:
        return answer.refused and not question.answerable
    if not answer.text.strip():
        return False
    quotes = question.evidence
    if quotes and all(located(one.quote, answer.text) for one in quotes):
        return True
    return judge.judge(question.answer, [answer.text]).supported


def cites_evidence(outcome: Outcome) -> bool:
    """Does the answer name a source that holds a quote of the evidence?"""
    trace = outcome.trace
    cited = {citation.chunk_id for citation in trace.answer.citations}
    return any(
        hit.chunk.chunk_id in cited and holds(hit.chunk, quote)
        for hit in trace.context.kept
        for quote in outcome.question.evidence
    )
