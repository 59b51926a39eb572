"""The scorecard: pipelines, measures and kinds of question in one table, kept as a value.

Every measure is a mean over questions, and the card keeps the questions' values, not the means.  So
intervals, a paired test and the comparison with an earlier card (`gate.py`) need nothing else.

    retrieval    context precision, context recall
    generation   right, faithfulness, no hallucination, relevance
    citations    citation precision, citation recall
    refusals     refusal precision, refusal recall

A question has no value where a measure says nothing of it: the faithfulness of a refusal, say.
Refusal precision is the mean, over refused questions, of "it has no answer"; refusal recall the
mean, over questions without an answer, of "it was refused".  For every measure more is better.

Beside them stand the tokens read and written a question, what a language model would charge for
those, and the milliseconds of each stage on this machine.  Definitions: `generation.py`.

The encoder remembers its last queries, and is made to forget them before each pipeline.  So each
pays for encoding the questions.

Left out: corrections for many tests, and the cost of embedding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from raglab.evaluate.evidence import holds, shows
from raglab.evaluate.generation import (
    answer_relevance,
    citation_precision,
    citation_recall,
    cited,
    context_precision,
    context_recall,
    faithfulness,
    supported,
)
from raglab.evaluate.intervals import Interval, interval
from raglab.evaluate.judge import Judge
from raglab.evaluate.outcomes import Ask, Outcome, asked, outcomes, right
from raglab.evaluate.significance import Comparison, compare
from raglab.files import write_whole
from raglab.pipeline import Pipeline
from raglab.prices import Price, after_call, before_call
from raglab.types import Embedder, Question, RagLabError

FORMAT = 1
METRICS = (
    "context precision", "context recall", "right", "faithfulness", "no hallucination", "relevance",
    "citation precision", "citation recall", "refusal precision", "refusal recall",
)  # fmt: skip
ALL = "all"
MEND = "write it again with `raglab eval CORPUS --save FILE`"
Values = Mapping[str, Mapping[str, float]]
"""metric -> query_id -> value; a question that it says nothing of is left out."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one pipeline, a question on average. usd: None where the price table has no row."""

    read: float  # tokens of the prompt's sources and question
    written: float  # tokens of the answer
    usd: float | None  # a thousand questions
    milliseconds: Mapping[str, float]  # stage -> median, on the machine that made the card

    @property
    def total(self) -> float:
        """Milliseconds of all stages: a sum of medians."""
        return sum(self.milliseconds.values())


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What was measured, question by question."""

    corpus: str
    split: str
    kinds: Mapping[str, str]  # query_id -> kind
    values: Mapping[str, Values]  # pipeline -> its values
    spent: Mapping[str, Mapping[str, Spent]] = field(default_factory=dict, compare=False)
    """pipeline -> kind -> what it took; not compared, for no two machines take the same time."""

    @property
    def pipelines(self) -> tuple[str, ...]:
        return tuple(self.values)

    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """kind -> query ids, "all" last."""
        groups: dict[str, list[str]] = {}
        for query_id, kind in self.kinds.items():
            groups.setdefault(kind, []).append(query_id)
        return {kind: tuple(ids) for kind, ids in (groups | {ALL: list(self.kinds)}).items()}

    def of(self, pipeline: str, metric: str, kind: str = ALL) -> dict[str, float]:
        """query_id -> value, of the questions of a kind. Raises RagLabError for unknown names."""
        groups = self.by_kind()
        for name, there in ((pipeline, self.values), (metric, METRICS), (kind, groups)):
            if name not in there:
                raise RagLabError(f"the card has no {name!r}: choose one of {', '.join(there)}")
        values = self.values[pipeline].get(metric, {})
        return {query_id: values[query_id] for query_id in groups[kind] if query_id in values}

    def cell(self, pipeline: str, metric: str, kind: str = ALL) -> Interval | None:
        """The mean and its 95% interval; None where the measure says nothing of these questions."""
        values = list(self.of(pipeline, metric, kind).values())
        return interval(values) if values else None

    def compared(self, before: str, after: str, metric: str, kind: str = ALL) -> Comparison | None:
        """Two of its pipelines, over the questions that both have a value of; None where none."""
        return paired(self.of(before, metric, kind), self.of(after, metric, kind))

    def rows(self, kind: str = ALL, metrics: Sequence[str] = METRICS) -> list[tuple[str, ...]]:
        """A head and a row for each pipeline, as text: means with intervals, then what it costs."""
        head = ("pipeline", *metrics, "tokens", "USD/1,000", "ms here")
        rows = [head]
        for name in self.values:
            cells = (self.cell(name, metric, kind) for metric in metrics)
            rows.append(
                (name, *(str(one) if one else "–" for one in cells), *self._costs(name, kind))
            )
        return rows

    def spent_on(self, pipeline: str, kind: str = ALL) -> Spent | None:
        """What the questions of a kind took; None where the card does not say."""
        return self.spent.get(pipeline, {}).get(kind)

    def _costs(self, name: str, kind: str) -> tuple[str, str, str]:
        spent = self.spent_on(name, kind)
        if spent is None:
            return "–", "–", "–"
        usd = "–" if spent.usd is None else f"{spent.usd:.2f}"
        return f"{spent.read + spent.written:.0f}", usd, f"{spent.total:.1f}"

    def table(self, kind: str = ALL) -> str:
        """The card as text, a line for each measure, a column for each pipeline."""
        columns = list(zip(*self.rows(kind), strict=True))
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in columns
        ]
        asked = len(self.by_kind()[kind])
        return "\n".join((f"{self.corpus}, {self.split}, {kind}: {asked} questions", *lines))

    # -- JSON ------------------------------------------------------------------------------------

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=1) + "\n"

    def save(self, path: Path | str) -> Path:
        try:
            return write_whole(path, self.to_json())
        except OSError as error:
            mend = "name a place that can be written"
            raise RagLabError(f"{path} cannot be written ({error.strerror}): {mend}") from error

    @classmethod
    def load(cls, path: Path | str) -> Scorecard:
        """Raises RagLabError where the file is not a whole card."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data.pop("format") != FORMAT:
                raise RagLabError(f"{path} is a card of another format: {MEND}")
            spent = {
                name: {kind: Spent(**one) for kind, one in by_kind.items()}
                for name, by_kind in data.pop("spent").items()
            }
            card = cls(**data, spent=spent)
            _check(card)
        except OSError as error:
            raise RagLabError(f"{path} cannot be read ({error.strerror}): {MEND}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RagLabError(f"{path} is not a whole scorecard ({error!r}): {MEND}") from error
        return card


def paired(before: Mapping[str, float], after: Mapping[str, float]) -> Comparison | None:
    """The paired comparison over the questions that both hold; None where there are none."""
    both = [query_id for query_id in before if query_id in after]
    if not both:
        return None
    return compare({one: before[one] for one in both}, {one: after[one] for one in both})


def scorecard(
    pipelines: Mapping[str, Pipeline],
    questions: Sequence[Question],
    judge: Judge,
    embedder: Embedder,
    *,
    corpus: str = "",
    split: str = "",
    price: Price | None = None,
    ask: Ask = asked,
    progress: bool = False,
) -> Scorecard:
    """Asks every question of every pipeline, and judges context, answer, citations, refusal.

    ask: how a question is put, as in `outcomes`.
    """
    if not pipelines or not questions:
        raise RagLabError("a scorecard needs a pipeline and a question: give at least one of each")
    values, spent = {}, {}
    for name, pipeline in pipelines.items():
        embedder.forget_queries()  # or the first pipeline would pay for the others
        made = outcomes(pipeline, questions, ask=ask, progress=progress)
        values[name] = measured(made, judge, embedder)
        kinds = dict.fromkeys((*(one.question.kind for one in made), ALL))
        spent[name] = {
            kind: spending(
                [one for one in made if kind in (one.question.kind, ALL)], embedder.count, price
            )
            for kind in kinds
        }
    kind_of = {question.query_id: question.kind for question in questions}
    return Scorecard(corpus, split, kind_of, values, spent)


def measured(
    made: Sequence[Outcome], judge: Judge, embedder: Embedder
) -> dict[str, dict[str, float]]:
    """metric -> query_id -> value, for each of `METRICS`."""
    found: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}
    for one in made:
        for metric, value in _judged(one, judge, embedder).items():
            if value is not None:
                found[metric][one.question.query_id] = float(value)
    return found


def _judged(one: Outcome, judge: Judge, embedder: Embedder) -> dict[str, float | None]:
    question, context, answer = one.question, one.trace.context, one.trace.answer
    prompt = [hit.chunk for hit in context.kept]
    quotes = question.evidence
    values: dict[str, float | None] = {"right": right(question, answer, judge)}
    if quotes:
        helps = [any(holds(chunk, quote) for quote in quotes) for chunk in prompt]
        values["context precision"] = context_precision(helps)
        values["context recall"] = context_recall([shows(context, quote) for quote in quotes])
    if answer.refused:
        values["refusal precision"] = not question.answerable
    if not question.answerable:
        values["refusal recall"] = answer.refused
    if answer.refused:
        return values
    stands = supported(answer, context, judge)
    marks = cited(answer, context, judge)
    values["faithfulness"] = faithfulness(stands)
    values["no hallucination"] = all(stands) if stands else None
    values["citation precision"] = citation_precision(marks)
    values["citation recall"] = citation_recall(marks)
    vectors = embedder.encode_query(question.text).vector, embedder.embed([answer.text])[0]
    values["relevance"] = round(answer_relevance(*vectors), 6)
    return values


def spending(made: Sequence[Outcome], count: Callable[[str], int], price: Price | None) -> Spent:
    """Tokens by what models counted; where none did, what one would read and write."""
    bills = [_bill(one, count, price) for one in made]
    stages: dict[str, list[float]] = {}
    for one in made:
        seconds: dict[str, float] = {}
        for step in one.trace.steps:
            if not step.reused:  # its time was another run's
                seconds[step.stage] = seconds.get(step.stage, 0.0) + step.seconds
        for stage, took in seconds.items():
            stages.setdefault(stage, []).append(1000 * took)
    read, written, usd = (mean(column) for column in zip(*bills, strict=True))
    milliseconds = {stage: median(took) for stage, took in stages.items()}
    return Spent(read, written, 1000 * usd if price else None, milliseconds)


def _bill(one: Outcome, count: Callable[[str], int], price: Price | None) -> tuple[int, int, float]:
    """Tokens read and written for one question, and USD; 0 USD without a price."""
    calls = [call for step in one.trace.steps for call in step.calls]
    read = sum(
        call.input_tokens + call.cache_write_tokens + call.cache_read_tokens for call in calls
    )
    if read:
        usd = sum(after_call(price, call).usd for call in calls) if price else 0.0
        return read, sum(call.output_tokens for call in calls), usd
    context, answer = one.trace.context, one.trace.answer
    read, written = context.tokens + count(one.trace.query.text), count(answer.text)
    return read, written, before_call(price, read, written).usd if price else 0.0


def _check(card: Scorecard) -> None:
    if not isinstance(card.kinds, dict) or not card.kinds or not card.values:
        raise ValueError("no question or no pipeline in it")
    if not all(isinstance(kind, str) for kind in card.kinds.values()):
        raise ValueError("a kind is no text")
    for name, by_metric in card.values.items():
        if not by_metric.get("right"):
            raise ValueError(f"{name!r} was judged on nothing")
        for metric, by_query in by_metric.items():
            for query_id, value in by_query.items():
                _check_value(card, metric, query_id, value)


def _check_value(card: Scorecard, metric: str, query_id: str, value: Any) -> None:
    if metric not in METRICS or query_id not in card.kinds:
        raise ValueError(f"{metric!r} of {query_id!r} is unknown")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{metric!r} of {query_id!r} is no number")
    if abs(value) > 1:
        raise ValueError(f"{metric!r} of {query_id!r} is {value}, beyond 1")
