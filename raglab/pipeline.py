"""The pipeline: rewrite, retrieve, fuse, rerank, assemble, generate.

It knows the protocols and no concrete stage, and it is a value: a what-if is
`replace(pipeline, fuser=RRF(k=10)).run(query)`.  Copies share what was computed already, so only
the steps after a changed knob run again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from raglab.kit import Kit
from raglab.recorder import Memo, Recorder
from raglab.trace import Trace
from raglab.types import (
    Allowed,
    Assembler,
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
        record("answer", "generate", self.generator.generate, wanted, context, after=("context",))
        return record.trace(asked)
