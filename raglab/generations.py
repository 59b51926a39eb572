"""The generations of RAG: four presets of one `Pipeline`, each a few lines above the one before.

    naive      embed, take the nearest, put all of them into the prompt
    advanced   transform the query, search twice and fuse, rerank, condense
    modular    route the question, check the context, search wider if it lacks
    agentic    plan, search, judge what was found, plan again; check the answer
               (ReAct: Yao et al. 2023; Self-RAG: Asai et al. 2024)

All four share the index, so that a ladder of them shows what searching and deciding bring.  What
chunking brings is notebook 01's matter.  They work offline, by rules that were chosen on the
handbook's dev questions.  `with_model` has a language model answer, and plan where an agent does;
a router and a check that ask one are in `raglab.control` too.

Left out: fine-tuned retrievers and generators, and graphs over the documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.condense import Condense
from raglab.answer.extractive import Extractive
from raglab.answer.grounded import PromptedGenerator
from raglab.control.agent import Agent
from raglab.control.enough import SupportCheck
from raglab.control.modular import Modular
from raglab.control.notes import Gather
from raglab.control.router import ANALYTICAL, CONVERSATIONAL, FACTUAL, RuleRouter
from raglab.control.rules import RulePlanner
from raglab.control.toolplanner import ToolPlanner
from raglab.evaluate.judge import OfflineJudge
from raglab.ingest.index import Index
from raglab.llm import ClaudeLLM
from raglab.pipeline import Pipeline
from raglab.prices import Price
from raglab.retrieve.dense import Dense
from raglab.retrieve.feedback import RM3
from raglab.retrieve.fuse import RRF
from raglab.retrieve.learned import Learned, Weights
from raglab.retrieve.rewrite import PassThrough, WithHistory
from raglab.retrieve.signals import Signals
from raglab.retrieve.sparse import BM25
from raglab.retrieve.unchanged import Unchanged
from raglab.types import LLM, Embedder, RagLabError, ToolLLM

DEPTH = 50  # fused hits that the reranker looks at


@dataclass(frozen=True)
class Parts:
    """What the presets are made of."""

    index: Index
    embedder: Embedder
    bm25: BM25
    weights: Weights

    @property
    def extractive(self) -> Extractive:
        return Extractive(self.index, self.embedder, self.bm25)

    def assembler(self, keep: int, budget: int) -> BudgetAssembler:
        """Condensing: what cannot answer the question takes no room."""
        condense = Condense(self.extractive)
        return BudgetAssembler(self.embedder.count, keep=keep, budget=budget, compress=condense)


def naive(parts: Parts, k: int = 5) -> Pipeline:
    return Pipeline(
        rewriter=PassThrough(),
        retrievers={"dense": Dense(parts.index, parts.embedder)},
        fuser=RRF(),
        reranker=Unchanged(),
        assembler=BudgetAssembler(parts.embedder.count, keep=k),
        generator=parts.extractive,
        k=k,
    )


def advanced(parts: Parts) -> Pipeline:
    below = naive(parts)
    signals = Signals(parts.index, parts.embedder, parts.bm25)
    return replace(
        below,
        rewriter=WithHistory(),
        retrievers={**below.retrievers, "RM3": RM3(parts.bm25)},
        reranker=Learned(signals, parts.weights, DEPTH),
        assembler=parts.assembler(keep=8, budget=1500),
        k=20,
    )


def modular(parts: Parts) -> Pipeline:
    guide = Modular(
        RuleRouter(),
        routes={
            FACTUAL: {},
            ANALYTICAL: {
                "assembler": parts.assembler(keep=12, budget=2250),
                "generator": replace(parts.extractive, sentences=6, margin=0.15),
            },
            CONVERSATIONAL: {"rewriter": WithHistory()},
        },
        check=SupportCheck(parts.extractive),
        wider={"k": 50, "assembler": parts.assembler(keep=16, budget=3000)},
    )
    return replace(advanced(parts), rewriter=PassThrough(), guide=guide)


def agentic(parts: Parts) -> Pipeline:
    gather = Gather(parts.embedder.count)
    check = SupportCheck(parts.extractive)
    guide = Agent(
        RulePlanner(RuleRouter(), check, parts.extractive, gather),
        gather,
        judge=OfflineJudge(parts.embedder),
        fallback=parts.extractive,
    )
    assembler = BudgetAssembler(parts.embedder.count, keep=8)
    return replace(advanced(parts), assembler=assembler, guide=guide, k=50)


def with_model(pipeline: Pipeline, llm: LLM, price: Price | None = None) -> Pipeline:
    """The pipeline with a language model that answers, and that plans where an agent does."""
    guide = pipeline.guide
    if isinstance(guide, Agent):
        if not hasattr(llm, "converse"):
            raise RagLabError(f"an agent needs a model that can call tools: {llm!r} cannot")
        if price is None and isinstance(llm, ClaudeLLM):
            raise RagLabError(
                f"nothing says what {llm.model} costs, so an agent's dollars cannot be bounded: "
                "add its row to data/prices.json, or give a price"
            )
        planner = ToolPlanner(cast(ToolLLM, llm), guide.gather.count)
        guide = replace(guide, planner=planner, price=price)
    if isinstance(guide, Modular):  # the model answers on every route
        routes = {
            route: {field: stage for field, stage in changes.items() if field != "generator"}
            for route, changes in guide.routes.items()
        }
        guide = replace(guide, routes=routes)
    return replace(pipeline, generator=PromptedGenerator(llm), guide=guide)


GENERATIONS: dict[str, Callable[[Parts], Pipeline]] = {
    "naive": naive,
    "advanced": advanced,
    "modular": modular,
    "agentic": agentic,
}
