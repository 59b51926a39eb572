"""A cross-encoder: a model that reads query and chunk together, and gives one number for the pair.

In a bi-encoder the two texts meet when their vectors are compared, and not before.  Here each word
of the query attends to each word of the chunk, in every layer (Nogueira and Cho 2019, "Passage
Re-ranking with BERT").  The price: nothing can be computed in advance.  Each query costs a full
pass of the model for each candidate, so only the first `depth` of them are read.

The number is the model's logit, with no upper or lower end.  A sigmoid would squeeze everything
that the model is sure of into the same 0.999.  As in `rerank`, it is brought to the first stage's
scale by z-scores over the candidates:

    score(c) = first · z(first stage) + cross · z(logit(query, c))

The model was trained for this task, so by default it replaces the first stage: first = 0.

Left out: models that rank by writing ("listwise" prompts), GPUs, and training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from raglab.retrieve.ranking import rank, z_scores
from raglab.types import Part, Query, RagLabError, Ranking

SMALL = "cross-encoder/ms-marco-MiniLM-L6-v2"
LARGE = "BAAI/bge-reranker-v2-m3"
BATCH = 32  # pairs a forward pass
DIGITS = 4
"""A logit may reach 10, and its float32 depends in the sixth digit on which pairs share a batch.
Rounded, equal chunks tie on every machine."""


@dataclass(frozen=True)
class CrossEncoder:
    """Reranks the first `depth` hits; the rest are cut. `first` and `cross` are the two weights.

    `model` is a name on a hub or a folder that holds the weights; they are loaded when they are
    first needed.  Weights must be safetensors: other formats may run code as they open.
    """

    model: str = SMALL
    depth: int = 20
    first: float = 0.0
    cross: float = 1.0

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise RagLabError(f"depth is {self.depth}: rerank at least 1 hit")

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        """The same chunks in a new order. Raises RagLabError where the model cannot be had."""
        hits = hits[: self.depth]
        if not hits or not query.text.strip():
            return hits
        read = z_scores(self.logits(query.text, [hit.chunk.indexed_text for hit in hits]))
        before = z_scores([hit.score for hit in hits])
        return rank(
            (
                hit.chunk,
                [
                    Part("first stage", self.first * before[row]),
                    Part("cross-encoder", self.cross * read[row]),
                ],
            )
            for row, hit in enumerate(hits)
        )

    def logits(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number a text, higher is better. What lies past the model's limit is not read."""
        from torch.nn import Identity

        scores = network(self.model).predict(
            [(query, text) for text in texts],
            batch_size=BATCH,
            activation_fn=Identity(),
            show_progress_bar=False,
        )
        return [round(float(score), DIGITS) for score in scores]


@lru_cache(maxsize=2)
def network(model: str) -> Any:
    """The loaded model, kept for copies of the reranker. Raises RagLabError, saying what to do."""
    from sentence_transformers import CrossEncoder as Network
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        loaded = Network(model, device="cpu", model_kwargs={"use_safetensors": True})
    except Exception as error:  # a hub's client raises a dozen kinds
        why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise RagLabError(
            f"the cross-encoder {model!r} cannot be loaded ({why}). Give a folder that holds its "
            f"weights as safetensors, or, with a network, a name on the hub: {SMALL!r} is small, "
            f"{LARGE!r} is large"
        ) from error
    made = (getattr(loaded.config, "architectures", None) or [""])[0]
    # A head that is not among the weights is filled with random numbers, and only a warning says so
    headless = len(loaded) == 1 and not made.endswith("ForSequenceClassification")
    if headless or loaded.num_labels != 1:
        gives = "no score" if headless else f"{loaded.num_labels} numbers"
        raise RagLabError(
            f"{model!r} gives {gives} for a pair, and a reranker needs one: a bi-encoder or a "
            f"classifier cannot stand in for a cross-encoder such as {SMALL!r}"
        )
    return loaded


def at_hand(model: str = SMALL) -> bool:
    """Are the weights on this machine: a folder, or in the hub's cache? Asks no network."""
    from huggingface_hub import try_to_load_from_cache

    if Path(model).is_dir():
        return True
    try:
        return isinstance(try_to_load_from_cache(model, "model.safetensors"), str)
    except ValueError:  # no name that a hub could know
        return False
