"""Surprise me: a question on which this very pipeline shows something worth seeing.

No example is chosen by hand.  Golden questions are put to the pipeline as it is turned now, in an
order that chance made once, until one has the property that was asked for: dense search fails, the
rerank hurts, an answer is refused though its evidence lies in the prompt.  What is said of it was
measured in that run.  So a pipeline that was mended runs out of failures, and says so.

Left out: questions without a golden answer, on which no one can say what failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raglab.evaluate.rewriting import as_query
from raglab.explore.aside import Aside, aside, asks_model
from raglab.explore.kinds import KINDS, Kind, kinds
from raglab.fates import all_chunks, holding, may_see
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.types import Chunk, Question, RagLabError

__all__ = ["KINDS", "Surprise", "kinds", "surprise"]
Progress = Callable[[int, int], None]
"""Is told how many questions are done, and of how many."""


@dataclass(frozen=True)
class Surprise:
    """A question with the property, or None where no question has it."""

    question: Question | None
    kind: str
    said: str  # the figures of its run: "dense: in none of its 20 hits; sparse: rank 1"
    tried: int  # questions that were run to find it
    of: int  # that could be


def surprise(
    pipeline: Pipeline,
    questions: Sequence[Question],
    kind: str,
    *,
    seed: int = 0,
    ask: bool = False,
    memo: Memo | None = None,
    on_progress: Progress = lambda done, total: None,
) -> Surprise:
    """A question of this kind; the next seed gives the next one, and after the last the first.

    ask: go on where each question would be put to a live model.
    memo: give the same one to each call, and no question is run twice.
    Raises RagLabError for a kind that is not there, and where a live model would be asked.
    """
    chosen = KINDS.get(kind)
    if chosen is None or not chosen.fits(pipeline):
        there = ", ".join(kinds(pipeline))
        raise RagLabError(f"this pipeline has no {kind!r}: choose one of {there}")
    if not ask and _would_ask(pipeline, chosen):
        raise RagLabError(
            "each question would be put to the model: turn the rewriter to 'as typed' and the "
            "answer to the extractive one, or pass ask=True"
        )
    run = aside(pipeline, memo or Aside(pipeline.memo, 4096), chosen.until)
    chunks = all_chunks(pipeline)
    order = [q for q in questions if chosen.asks(q) and _may_ask(q, pipeline, chunks)]
    random.Random(kind).shuffle(order)
    found: list[tuple[Question, str]] = []
    unheard = 0
    for tried, question in enumerate(order, start=1):
        on_progress(tried, len(order))
        try:
            said = chosen.measured(question, run.run(as_query(question)), run)
        except RagLabError:  # no reply is kept for this question
            unheard += 1
            continue
        if said:
            found.append((question, said))
            if len(found) > seed:
                return Surprise(question, kind, said, tried, len(order))
    if found:
        question, said = found[seed % len(found)]
        return Surprise(question, kind, said, len(order), len(order))
    none = f"None of the {len(order)} questions: {chosen.label}."
    none += f" {unheard} of them could not be asked: no reply is kept." if unheard else ""
    return Surprise(None, kind, none, len(order), len(order))


def _would_ask(pipeline: Pipeline, kind: Kind) -> bool:
    return asks_model(pipeline.rewriter) or (
        kind.until == "generate" and asks_model(pipeline.generator)
    )


def _may_ask(question: Question, pipeline: Pipeline, chunks: Sequence[Chunk]) -> bool:
    """May this reader see each quote of the question? One that was severed is nobody's secret, but
    of a question without any whole one there is nothing to follow."""
    holders = [holding((quote,), chunks) for quote in question.evidence]
    seen = [not held or any(may_see(pipeline, chunk) for chunk in held) for held in holders]
    return all(seen) and (any(holders) or not holders)
