"""Trains the extractive generator's weights on the handbook's dev questions, and prints them with
what they do on dev questions that they did not see (ten folds).

    PYTHONPATH=tests/bench python tests/bench/extractive.py

Put what it prints into raglab/answer/extractive.py.  `make bench` judges them on test questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from raglab.answer.extractive import SIGNALS, Extractive
from raglab.evaluate.evidence import holds
from raglab.lab import golden_questions, open_lab
from raglab.pipeline import Pipeline
from raglab.types import Chunk, Context, Question, Readable

Floats = NDArray[np.float64]
FOLDS = 10
RIDGE = 10.0
UNANSWERABLE = 3.0  # what a question that nothing answers counts, beside the others' 1


@dataclass(frozen=True)
class Without:
    """What a reader may see, but for some documents."""

    groups: tuple[str, ...]
    documents: frozenset[str]

    def __call__(self, chunk: Chunk) -> bool:
        return Readable(self.groups)(chunk) and chunk.doc_id not in self.documents


@dataclass(frozen=True, eq=False)
class Example:
    """One question over one context: its statements' signals, and which of them answer it."""

    question: Question
    taken_away: bool  # are the documents that answer it left out?
    signals: Floats  # [n, 9]; none where no source holds the question's names
    golden: NDArray[np.bool_]  # [n]; none where nothing answers
    reached: bool  # does the context hold a golden quote?

    @property
    def weight(self) -> float:
        return 1.0 if self.question.answerable else UNANSWERABLE


def examples(pipeline: Pipeline, split: str) -> list[Example]:
    """Each question as it is, and each answerable one without the documents that answer it."""
    found = []
    for question in golden_questions(split=split):
        if question.history:
            continue
        documents = frozenset(evidence.doc_id for evidence in question.evidence)
        for left_out in (frozenset[str](), documents)[: 2 if question.answerable else 1]:
            asked = replace(pipeline, allowed=Without(question.groups, left_out))
            found.append(example(asked, question, asked.run(question.text).context, bool(left_out)))
    return found


def example(pipeline: Pipeline, question: Question, context: Context, taken_away: bool) -> Example:
    generator = pipeline.generator
    assert isinstance(generator, Extractive)
    query = replace(pipeline.run(question.text).query, text=question.text)
    rows = generator.signals(query, context)
    golden = [
        any(
            evidence.doc_id == chunk.doc_id
            and (evidence.quote in one.said or one.said in evidence.quote)
            for evidence in question.evidence
        )
        for _, chunk, one, _ in rows
    ]
    signals = np.array([[row[name] for name in SIGNALS] for *_, row in rows], float)
    reached = any(holds(hit.chunk, one) for hit in context.kept for one in question.evidence)
    signals = signals.reshape(-1, len(SIGNALS))
    return Example(question, taken_away, signals, np.array(golden, bool), reached)


def train(rows: Sequence[Example]) -> Floats:
    """Weights [9] that add up to 1, from a softmax over a context's statements and "none of
    them". Its bias is left out: the threshold takes its place."""
    # A question whose evidence did not reach the prompt teaches nothing: it may be answered there.
    known = [
        one
        for one in rows
        if len(one.signals) and (one.golden.any() or one.taken_away or not one.question.answerable)
    ]
    stacked = np.concatenate([one.signals for one in known])
    spread = stacked.std(axis=0)

    def loss(values: Floats) -> tuple[float, Floats]:
        weights, bias = values[:-1], values[-1]
        total, slope = RIDGE * float(weights @ weights) / 2, np.append(RIDGE * weights, 0.0)
        for one in known:
            scaled = one.signals / spread
            scores = np.append(scaled @ weights + bias, 0.0)
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            right = np.append(one.golden, not one.golden.any())
            hit = float(chances[right].sum())
            total -= one.weight * np.log(hit)
            pull = one.weight * (np.where(right, chances / hit, 0.0) - chances)
            slope[:-1] -= pull[:-1] @ scaled
            slope[-1] -= pull[:-1].sum()
        return total, slope

    best = minimize(loss, np.zeros(stacked.shape[1] + 1), jac=True, method="L-BFGS-B").x
    weights: Floats = best[:-1] / spread
    return weights / weights.sum()


def unseen(rows: Sequence[Example]) -> list[Floats]:
    """Each example's supports by weights that never saw its question."""
    names = sorted({one.question.query_id for one in rows})
    order = np.random.default_rng(0).permutation(len(names))
    fold = {name: int(place) % FOLDS for name, place in zip(names, order, strict=True)}
    found: dict[int, Floats] = {}
    for n in range(FOLDS):
        weights = train([one for one in rows if fold[one.question.query_id] != n])
        for place, one in enumerate(rows):
            if fold[one.question.query_id] == n:
                found[place] = one.signals @ weights
    return [found[place] for place in range(len(rows))]


def report(rows: Sequence[Example], scores: Sequence[Floats], margin: float) -> None:
    """For some thresholds: what is refused, and how many answers hold a golden statement."""
    print(f"margin {margin}")
    for threshold in np.arange(0.2, 0.45, 0.025):
        none, wrong = [0, 0], [0, 0]
        useful = sentences = 0
        for one, score in zip(rows, scores, strict=True):
            if one.taken_away:
                continue
            refused = not len(score) or score.max() < threshold
            if not one.question.answerable:
                none = [none[0] + refused, none[1] + 1]
            elif one.reached:
                wrong = [wrong[0] + refused, wrong[1] + 1]
                if not refused:
                    best = np.argsort(-score, kind="stable")[:3]
                    taken = best[score[best] >= score.max() - margin]
                    sentences += len(taken)
                    useful += bool(one.golden[taken].any())
        answers = wrong[1] - wrong[0]
        print(
            f"  threshold {threshold:.3f}: refuses {none[0]} of {none[1]} unanswerable and "
            f"{wrong[0]} of {wrong[1]} answerable; {useful} of {answers} answers hold a golden "
            f"statement, {sentences / max(1, answers):.1f} statements an answer"
        )


def main() -> None:
    rows = examples(open_lab("handbook", progress=False), "dev")
    print(dict(zip(SIGNALS, train(rows).round(3).tolist(), strict=True)))
    scores = unseen(rows)
    for margin in (0.025, 0.05, 0.075, 0.1):
        report(rows, scores, margin)


if __name__ == "__main__":
    main()
