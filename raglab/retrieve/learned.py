"""A reranker that learned its weights, and shows them.

    score(q, c) = Σ_s  weight_s · z(signal_s)

The nine signals are those of `signals`.  The weights come from logistic regression on questions
whose answers are known: given the signals of a candidate, is it relevant?  A line through nine
numbers cannot learn much, which is its strength here.  It needs hundreds of questions and not
hundreds of thousands, it trains in about a second, and each part of a score is one weight times
one signal, there to be read (linear learning to rank: Liu 2009, "Learning to Rank for Information
Retrieval").

Every question counts the same, and in it the relevant candidates together as much as the others:
else the many easy wrong ones would drown the few right ones.

Left out: trees and networks, which gain on the collection they learned from and lose on others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raglab.files import write_whole
from raglab.retrieve.ranking import rank
from raglab.retrieve.signals import NAMES, Floats, Signals
from raglab.types import Part, Query, RagLabError, Ranking

FORMAT = 1


@dataclass(frozen=True)
class Weights:
    """A weight for each signal, and in words what they were trained on."""

    values: tuple[float, ...]  # in the order of NAMES
    trained_on: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(NAMES) or not all(map(math.isfinite, self.values)):
            raise RagLabError(f"a weight for each of {', '.join(NAMES)} is needed, and finite")

    @property
    def named(self) -> Mapping[str, float]:
        """signal -> weight."""
        return dict(zip(NAMES, self.values, strict=True))

    def save(self, path: Path | str) -> Path:
        """Write them as JSON that a person can read."""
        content = {"format": FORMAT, "trained_on": self.trained_on, "weights": self.named}
        return write_whole(path, json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> Weights:
        """Raises RagLabError where the file holds no weights, or those of other signals."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            named = content["weights"]
            if content["format"] != FORMAT or set(named) != set(NAMES):
                raise ValueError(f"weights of {', '.join(named)}")
            values = tuple(float(named[name]) for name in NAMES)
            return cls(values, str(content["trained_on"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RagLabError(
                f"{path} holds no weights for these signals ({error}): train them again with "
                "raglab.retrieve.learned.train and save them"
            ) from error


@dataclass(frozen=True)
class Learned:
    """Reranks the first `depth` hits by weighted signals; the rest are cut."""

    signals: Signals
    weights: Weights
    depth: int = 50

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise RagLabError(f"depth is {self.depth}: rerank at least 1 hit")

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        """The same chunks in a new order; a part for each signal, weight times z-score."""
        hits = hits[: self.depth]
        if not hits or not query.text.strip():
            return hits
        parts = (self.signals(query, hits) * np.array(self.weights.values)).tolist()
        return rank(
            (hit.chunk, [Part(name, value) for name, value in zip(NAMES, row, strict=True)])
            for hit, row in zip(hits, parts, strict=True)
        )


def train(
    examples: Iterable[tuple[Floats, Collection[int]]], trained_on: str, c: float = 1.0
) -> Weights:
    """Weights from questions: of each, its candidates' signals [n, 9] and the relevant rows.

    A question all of whose candidates are relevant, or none, teaches nothing and is left out.
    `c` is the inverse strength of regularization.  Raises RagLabError where nothing is left.
    """
    from sklearn.linear_model import LogisticRegression

    rows: list[Floats] = []
    labels: list[Floats] = []
    counts: list[Floats] = []
    for signals, relevant in examples:
        label = np.isin(np.arange(len(signals)), list(relevant)).astype(float)
        if 0 < label.sum() < len(label):
            rows.append(signals)
            labels.append(label)
            counts.append(np.where(label > 0, 1 / label.sum(), 1 / (len(label) - label.sum())))
    if not rows:
        raise RagLabError(
            "there is nothing to learn from: no question has both relevant candidates and others"
        )
    model = LogisticRegression(C=c, max_iter=1000)
    model.fit(np.concatenate(rows), np.concatenate(labels), np.concatenate(counts))
    return Weights(tuple(round(float(w), 3) for w in model.coef_[0]), trained_on)
