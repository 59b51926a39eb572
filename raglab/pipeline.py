"""The pipeline: rewrite, retrieve, fuse, rerank, assemble, generate.

It knows the protocols and no concrete stage, and it is a value: a what-if is
`replace(pipeline, fuser=RRF(k=10)).run(query)`.  Copies share what was computed already, so only
the steps after a changed knob run again.

Most pipelines run each stage once, in this order.  One with a *guide* may choose its stages by the
query, and search again (`raglab.control`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from raglab.kit import Kit
from raglab.recorder import Memo, Recorder
from raglab.trace import Trace
from raglab.types import (
    Allowed,
    Answer,
    Assembler,
    Context,
    Fuser,
    Generator,
    Query,
    RagLabError,
    Ranking,
    Reranker,
    Retriever,
    Rewriter,
)


@dataclass(frozen=True)
class Pipeline:
    rewriter: Rewriter
    retrievers: Mapping[str, Retriever]  # by the name that the trace and RRF's parts show
    fuser: Fuser
    reranker: Reranker
    assembler: Assembler
    generator: Generator
    k: int = 20  # hits that each retriever returns
    allowed: Allowed | None = None  # what this reader may see
    guide: Guide | None = None  # decides which stages run, and whether again; without: each once
    memo: Memo = field(default_factory=Memo, repr=False, compare=False)
    kit: Kit | None = field(default=None, repr=False, compare=False)  # its spare parts

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RagLabError(f"k is {self.k}: each retriever must return at least 1 hit")
        if not self.retrievers:
            raise RagLabError("a pipeline needs a retriever: retrievers={'dense': Dense(...)}")

    def run(self, query: str | Query) -> Trace:
        """Follow one query through every stage. Raises RagLabError where it is empty."""
        asked = Query("q", query.strip()) if isinstance(query, str) else query
        if not asked.text.strip():
            raise RagLabError("the query is empty: type a question")
        if not asked.text.isascii() and re.search("[\ud800-\udfff]", asked.text):
            raise RagLabError("the query holds bytes that are no text: type it as UTF-8")

        record = Recorder(self.memo)
        if self.guide:
            self.guide.follow(self, asked, record)
        else:
            self.respond(*self.search(asked, record), record)
        return record.trace(asked)

    def search(self, asked: Query, record: Recorder) -> tuple[Query, Context]:
        """From the query to the prompt: what is asked for from here on, and what was found."""
        queries = record("rewrite", "rewrite", self.rewriter.rewrite, asked)
        wanted = queries[0]
        rankings: dict[str, Ranking] = {}
        for number, variant in enumerate(queries, start=1):
            for lane, retriever in self.retrievers.items():
                if variant.lane not in ("", lane):
                    continue
                name = lane if number == 1 else f"{lane} {number}"
                rankings[name] = record(
                    name, "retrieve", retriever.retrieve, variant, self.k, self.allowed,
                    after=("rewrite",),
                )  # fmt: skip
        fused = record("fused", "fuse", self.fuser.fuse, rankings, after=tuple(rankings))
        reranked = record(
            "reranked", "rerank", self.reranker.rerank, wanted, fused, after=("fused",)
        )
        context = record(
            "context", "assemble", self.assembler.assemble, wanted, reranked, after=("reranked",)
        )
        return wanted, context

    def respond(
        self,
        wanted: Query,
        context: Context,
        record: Recorder,
        after: tuple[str, ...] = ("context",),
    ) -> Answer:
        """From the prompt to the answer. `after`: the step that assembled the prompt."""
        return record("answer", "generate", self.generator.generate, wanted, context, after=after)


class Guide(Protocol):
    """Decides which stages run, and whether again."""

    def follow(self, pipeline: Pipeline, asked: Query, record: Recorder) -> None:
        """Records at least one search and one answer, by `pipeline.search` and `.respond`."""
        ...
