"""The presets: which stages search, and which generation of RAG answers.

A preset is a pipeline over an index that is there already.  `raglab.lab` opens the index, and says
who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.generate import Extractive, PromptedGenerator
from raglab.generations import DEPTH, GENERATIONS, Parts, with_model
from raglab.ingest.index import Index
from raglab.llm import DEFAULT_MODEL, ClaudeLLM
from raglab.pipeline import Pipeline
from raglab.prices import Price, read_price
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.learned import Learned, Weights
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import PassThrough
from raglab.retrieve.signals import Signals
from raglab.retrieve.sparse import BM25
from raglab.retrieve.unchanged import Unchanged
from raglab.types import LLM, Embedder, RagLabError, Reranker, Retriever

DATA = Path(__file__).resolve().parent.parent / "data"
SEARCHES = ("dense", "sparse", "hybrid", "reranked", "learned")
PRESETS = (*SEARCHES, *GENERATIONS)
DEFAULT_PRESET = "reranked"


def preset_pipeline(
    name: str,
    index: Index,
    embedder: Embedder,
    *,
    k: int | None = None,
    keep: int | None = None,
    depth: int = DEPTH,
    llm: LLM | None = None,
) -> Pipeline:
    """One of `PRESETS` over an index. Five ways to search:

        dense       the nearest vectors
        sparse      BM25
        hybrid      both, fused by RRF
        reranked    hybrid, its first `depth` hits reranked by late interaction: the default
        learned     hybrid, reranked by nine signals with the weights of data/rerank

    and the four of `raglab.generations`: naive, advanced, modular, agentic.

    k: hits that each retriever returns; keep: hits that reach the prompt, or that each search of an
    agent brings.  A modular pipeline chooses both by the question.
    llm: answers, and plans where the preset is agentic, in place of the offline rules.
    """
    check_preset(name)
    bm25 = bm25_of(index)
    if name == "modular" and (k, keep) != (None, None):
        raise RagLabError("a modular pipeline chooses how many hits it wants: leave k and keep out")
    if name in GENERATIONS:
        made = GENERATIONS[name](Parts(index, embedder, bm25, shipped_weights()))
        changes: dict[str, Any] = {} if k is None else {"k": k}
        if keep is not None:
            changes["assembler"] = replace(made.assembler, keep=keep)  # type: ignore[type-var]
        made = replace(made, **changes)
        return with_model(made, llm, price_of(llm)) if llm else made
    rerankers: dict[str, Callable[[], Reranker]] = {
        "reranked": lambda: LateInteraction(index, embedder, depth),
        "learned": lambda: Learned(Signals(index, embedder, bm25), shipped_weights(), depth),
    }
    lanes: dict[str, Retriever] = {"dense": Dense(index, embedder), "sparse": bm25}
    return Pipeline(
        rewriter=PassThrough(),
        retrievers={name: lanes[name]} if name in lanes else lanes,
        fuser=RRF(),
        reranker=rerankers.get(name, Unchanged)(),
        assembler=BudgetAssembler(embedder.count, keep=8 if keep is None else keep),
        generator=PromptedGenerator(llm) if llm else Extractive(index, embedder, bm25),
        k=20 if k is None else k,
    )


def check_preset(name: str, among: Sequence[str] = PRESETS) -> None:
    if name not in among:
        raise RagLabError(f"no preset {name!r}: there are {', '.join(among)}")


@lru_cache(maxsize=2)
def bm25_of(index: Index) -> BM25:
    """The presets of an index share one: inverting thousands of chunks takes seconds."""
    return BM25.of(index)


@lru_cache(maxsize=1)
def shipped_weights() -> Weights:
    """The learned reranker's weights; the file says what they were trained on."""
    return Weights.load(DATA / "rerank" / "weights.json")


def price_of(llm: LLM | None) -> Price | None:
    """The price of the model that answers, or of the usual one; None where the table has no row."""
    model = llm.model if isinstance(llm, ClaudeLLM) else DEFAULT_MODEL
    try:
        return read_price(DATA / "prices.json", model)
    except RagLabError:
        return None
