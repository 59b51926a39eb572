"""The spare parts that `open_lab` lays beside a pipeline: see `raglab.kit`.

Everything here works offline, but for rewriters: without a language model they answer from kept
replies, and a query that has none gets a sentence that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raglab.explore.dials import OPENED
from raglab.ingest.index import Index
from raglab.kit import Kit
from raglab.pipeline import Pipeline
from raglab.prices import Price
from raglab.retrieve.chain import Chain
from raglab.retrieve.dense import Dense
from raglab.retrieve.diverse import MMR
from raglab.retrieve.feedback import RM3
from raglab.retrieve.fuse import RRF
from raglab.retrieve.fuse_scores import CombMNZ, CombSUM, Convex
from raglab.retrieve.learned import Learned, Weights
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import Decompose, HyDE, MultiQuery, PassThrough, StepBack, WithHistory
from raglab.retrieve.signals import Signals
from raglab.retrieve.sparse import BM25
from raglab.retrieve.unchanged import Unchanged
from raglab.types import LLM, Embedder, Readable

SIZES = (100, 200, 400)  # word pieces; the encoder reads 256, so the last one shows what that costs
DEPTH = 50
PRESETS: Mapping[str, Mapping[str, str]] = {
    "naive": {"retrievers": "dense", "reranker": "none"},
    "hybrid": {"retrievers": "dense and sparse", "reranker": "none"},
    "advanced": {"retrievers": "dense and sparse", "reranker": "learned"},
}


def spare_parts(
    pipeline: Pipeline,
    *,
    opened: str,
    size: int,
    resized: Callable[[int], Pipeline],
    index: Index,
    embedder: Embedder,
    bm25: BM25,
    weights: Callable[[], Weights],
    llm: LLM,
    price: Price | None,
) -> Kit:
    """The kit of a pipeline over `index`. `resized` opens the same over chunks of another size."""
    dense = Dense(index, embedder)
    rm3 = RM3(bm25)

    def late() -> LateInteraction:
        return LateInteraction(index, embedder, DEPTH)

    stages: dict[str, dict[str, Callable[[], Any]]] = {
        "rewriter": {
            "as typed": PassThrough,
            "with the turns before": WithHistory,
            "multi-query": lambda: MultiQuery(llm),
            "step back": lambda: StepBack(llm),
            "decompose": lambda: Decompose(llm),
            "HyDE": lambda: HyDE(llm),
        },
        "retrievers": {
            "dense and sparse": lambda: {"dense": dense, "sparse": bm25},
            "dense": lambda: {"dense": dense},
            "sparse": lambda: {"sparse": bm25},
            "dense and RM3": lambda: {"dense": dense, "RM3": rm3},
        },
        "allowed": {"everyone": Readable} | {name: _reader(name) for name in _groups(index)},
        "fuser": {"RRF": RRF, "CombSUM": CombSUM, "CombMNZ": CombMNZ, "convex": Convex},
        "reranker": {
            "none": Unchanged,
            "late interaction": late,
            "learned": lambda: Learned(Signals(index, embedder, bm25), weights(), DEPTH),
            "late interaction, then MMR": lambda: Chain((late(), MMR(index))),
        },
    }
    chosen = {field: _name(getattr(pipeline, field), makers) for field, makers in stages.items()}
    for field, name in chosen.items():
        if name == OPENED:
            stages[field][OPENED] = _same(getattr(pipeline, field))
    sizes = {str(number): _of_size(resized, number) for number in sorted({*SIZES, size})}
    sizes[str(size)] = lambda: pipeline
    return Kit(
        opened=opened,
        chunks=index.chunks,
        stages=stages,
        chosen={**chosen, "chunk_size": str(size)},
        sizes=sizes,
        presets=PRESETS,
        price=price,
    )


def _name(stage: object, makers: Mapping[str, Callable[[], Any]]) -> str:
    return next((name for name, make in makers.items() if make() == stage), OPENED)


def _same(stage: object) -> Callable[[], Any]:
    return lambda: stage


def _of_size(resized: Callable[[int], Pipeline], size: int) -> Callable[[], Pipeline]:
    return lambda: resized(size)


def _groups(index: Index) -> list[str]:
    return sorted({group for chunk in index.chunks for group in chunk.groups})


def _reader(group: str) -> Callable[[], Readable]:
    return lambda: Readable((group,))
