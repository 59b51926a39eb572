"""Running a pipeline aside: many what-ifs, without touching what the reader ran.

A search for what would help asks hundreds of pipelines the same question.  Three things keep that
cheap and out of the way, and none of them changes what a stage returns:

- a memo of its own, which reads the steps that the reader's runs left and adds none to them;
- stages after the last one that matters are left out;
- a *gate* leaves a stage out once nothing that is looked for is in what it reads.

Left out: running in several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from raglab.llm import ReplayLLM
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.trace import STAGES, Step
from raglab.types import Answer, Context, Query, Ranking

FIELDS = {"fuse": "fuser", "rerank": "reranker", "assemble": "assembler", "generate": "generator"}


def aside(pipeline: Pipeline, memo: Memo, until: str = "assemble") -> Pipeline:
    """The pipeline with this memo; of its stages after `until`, none is run."""
    last = STAGES.index(until)
    idle = {field: NOTHING for stage, field in FIELDS.items() if STAGES.index(stage) > last}
    return replace(pipeline, memo=memo, **idle)  # type: ignore[arg-type]


def gated(pipeline: Pipeline, chunk_ids: frozenset[str]) -> Pipeline:
    """The pipeline, whose stages return nothing as soon as they read none of these chunks.

    A stage after retrieval returns only chunks that it was given.  So a run through the gates has
    one of the chunks in its prompt exactly where a whole run has.  A pipeline with a guide is left
    as it is: it may find in a later search what the first one lacked.
    """
    if pipeline.guide:
        return pipeline
    return replace(
        pipeline,
        fuser=Gate(pipeline.fuser, chunk_ids),
        reranker=Gate(pipeline.reranker, chunk_ids),
        assembler=Gate(pipeline.assembler, chunk_ids),
    )


def asks_model(stage: object) -> bool:
    """Would this stage ask a language model anew, in place of reading kept replies?"""
    llm = getattr(stage, "llm", None)
    return llm is not None and not isinstance(llm, ReplayLLM)


class Aside(Memo):
    """Reads what lies in the memo `below`, and keeps what is new to itself."""

    def __init__(self, below: Memo, size: int = 64) -> None:
        super().__init__(size)
        self._below = below

    def get(self, key: object) -> Step | None:
        known = super().get(key)
        return self._below.get(key) if known is None else known


@dataclass(frozen=True)
class Written:
    """A rewriter that says again what was written once: a model may not say it twice."""

    queries: tuple[Query, ...]

    def rewrite(self, query: Query) -> tuple[Query, ...]:
        return self.queries


@dataclass(frozen=True)
class Nothing:
    """Stands where a stage need not run, and returns nothing."""

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        return ()

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        return ()

    def assemble(self, query: Query, hits: Ranking) -> Context:
        return Context("", (), (), 0, 0)

    def generate(self, query: Query, context: Context) -> Answer:
        return Answer("", (), refused=True, origin="not asked for")


NOTHING = Nothing()


@dataclass(frozen=True)
class Gate:
    """A stage that runs only while one of the chunks is in what it reads."""

    stage: Any
    chunk_ids: frozenset[str]

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        given = any(self._holds(hits) for hits in rankings.values())
        fused: Ranking = self.stage.fuse(rankings) if given else ()
        return fused

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        reranked: Ranking = self.stage.rerank(query, hits) if self._holds(hits) else ()
        return reranked

    def assemble(self, query: Query, hits: Ranking) -> Context:
        stage = self.stage if self._holds(hits) else NOTHING
        context: Context = stage.assemble(query, hits)
        return context

    def _holds(self, hits: Ranking) -> bool:
        return any(hit.chunk.chunk_id in self.chunk_ids for hit in hits)
