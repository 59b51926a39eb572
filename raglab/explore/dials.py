"""Dials: what can be turned on a pipeline.

A pipeline is a frozen value, so to turn a dial is to make another pipeline:

    turned(pipeline, k=30, reranker="learned", budget=800)

Copies share what was computed already: only what lies after the turned stage runs again.  A dial
is a number of a stage (RRF's k), a stage to choose (which reranker), or the size of the chunks.
The stages to choose from are the pipeline's `kit`; without one, only numbers can be turned.

A dial that the chosen stage does not have is *idle*: CombSUM has no k.  It keeps its setting for
when a stage comes back that has it.

Left out: dials for the encoder, since another encoder means another index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raglab.kit import Kit, Value
from raglab.pipeline import Pipeline
from raglab.types import RagLabError

Settings = Mapping[str, Value]
STAGES = ("ingest", "rewrite", "retrieve", "fuse", "rerank", "assemble", "generate")
SIZE = "chunk_size"
OPENED = "as opened"  # a stage that none of the spare parts makes


@dataclass(frozen=True, slots=True)
class Dial:
    """One dial of one pipeline: a number from `low` to `high`, or one of `choices`."""

    name: str
    stage: str  # one of STAGES
    label: str
    help: str
    value: Value  # as the pipeline was opened
    low: float | None = None
    high: float | None = None
    step: float = 1
    choices: tuple[str, ...] = ()

    def checked(self, value: Value) -> Value:
        """`value` as this dial's own type. Raises RagLabError where it lies outside."""
        if self.choices:
            if value in self.choices:
                return str(value)
            raise RagLabError(f"{self.label} is {value!r}: choose one of {', '.join(self.choices)}")
        low, high = float(self.low or 0), float(self.high or 0)
        try:
            # Settings may come as 30.0 out of JSON, for a dial that counts.
            number = int(value) if isinstance(self.value, int) else float(value)
            if low <= number <= high:
                return number
        except (TypeError, ValueError):
            pass
        raise RagLabError(f"{self.label} is {value!r}: choose a number from {low:g} to {high:g}")

    def grid(self) -> tuple[Value, ...]:
        """Every value that the dial can take, in order."""
        if self.choices:
            return self.choices
        low, high = float(self.low or 0), float(self.high or 0)
        steps = round((high - low) / self.step)
        values = (round(low + step * self.step, 6) for step in range(steps + 1))
        return tuple(int(v) if isinstance(self.value, int) else v for v in values)


@dataclass(frozen=True)
class Number:
    """A number in a pipeline: where to read it, and how to make a pipeline with another one."""

    name: str
    stage: str
    label: str
    help: str
    low: float
    high: float
    step: float
    read: Callable[[Pipeline], Value | None]  # None where this pipeline has no such number
    write: Callable[[Pipeline, Value], Pipeline]

    def dial(self, value: Value) -> Dial:
        low, high = min(self.low, float(value)), max(self.high, float(value))
        return Dial(self.name, self.stage, self.label, self.help, value, low, high, self.step)


@dataclass(frozen=True)
class Choice:
    """A field of the pipeline whose stage is chosen from the kit by name."""

    field: str
    stage: str
    label: str
    help: str


CHOICES = (
    Choice("rewriter", "rewrite", "Rewriter", "Which other queries are searched for too."),
    Choice("retrievers", "retrieve", "Retrievers", "Which lanes run side by side."),
    Choice("allowed", "retrieve", "Who asks", "A reader finds what their groups may read."),
    Choice("fuser", "fuse", "Fusion", "How the lanes' lists become one."),
    Choice("reranker", "rerank", "Reranker", "Who takes the second, closer look."),
)


_RECENT: deque[tuple[Pipeline, tuple[Dial, ...]]] = deque(maxlen=4)


def dials(pipeline: Pipeline) -> tuple[Dial, ...]:
    """The pipeline's dials, in the order of its stages, each at its present value."""
    for known, found in _RECENT:  # a pipeline is a value: what was found of it stays true
        if known is pipeline:
            return found
    found = tuple(sorted(_dials(pipeline), key=lambda dial: STAGES.index(dial.stage)))
    _RECENT.append((pipeline, found))
    return found


def _dials(pipeline: Pipeline) -> Iterator[Dial]:
    kit = pipeline.kit or Kit()
    if kit.sizes:
        help = "Word pieces a chunk may hold. A new size builds another index, once."
        size = kit.chosen[SIZE]
        yield Dial(SIZE, "ingest", "Chunk size", help, size, choices=tuple(kit.sizes))
    for choice in CHOICES:
        names = tuple(kit.stages.get(choice.field, ()))
        if len(names) > 1:
            chosen = kit.chosen[choice.field]
            if not _alike(kit.stages[choice.field][chosen](), getattr(pipeline, choice.field)):
                chosen = OPENED  # it was put in after the kit was laid out
                names = tuple(dict.fromkeys((*names, OPENED)))
            yield Dial(choice.field, choice.stage, choice.label, choice.help, chosen, choices=names)
    for number in NUMBERS:
        value = next(filter(_is_given, map(number.read, _possible(pipeline, kit))), None)
        if value is not None:
            yield number.dial(value)


def _alike(one: Any, other: Any) -> bool:
    """Stages of one make; their numbers may differ, for those are dials of their own."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(_alike(one[lane], other[lane]) for lane in one)
    return type(one) is type(other)


def _possible(pipeline: Pipeline, kit: Kit) -> Iterator[Pipeline]:
    """The pipeline, then the pipelines that differ from it in one stage."""
    yield pipeline
    for field, makers in kit.stages.items():
        for make in makers.values():
            yield replace(pipeline, **{field: make()})


def _is_given(value: Value | None) -> bool:
    return value is not None


def turned(pipeline: Pipeline, **settings: Value) -> Pipeline:
    """The pipeline with some dials turned, the others as they are.

    Raises RagLabError for a dial that it does not have, and for a value out of its range.
    """
    known = {dial.name: dial for dial in dials(pipeline)}
    for name in settings:
        if name not in known:
            there = ", ".join(known) or "none"
            raise RagLabError(f"there is no dial {name!r}; there are {there}")
    wanted = {name: known[name].checked(value) for name, value in settings.items()}
    changed = {name: value for name, value in wanted.items() if value != known[name].value}
    made = pipeline
    if SIZE in changed and pipeline.kit:
        own = next((dial.label for dial in known.values() if dial.value == OPENED), "")
        if own:
            raise RagLabError(
                f"{own} is a stage of your own, over the chunks as they are: choose another one "
                "before you turn the chunk size"
            )
        made = pipeline.kit.sizes[str(changed[SIZE])]()
        # The other dials keep what they were turned to, before this call and in it.
        changed = {**{name: dial.value for name, dial in known.items()}, **changed}
    for choice in CHOICES:
        if changed.get(choice.field, OPENED) != OPENED and made.kit:
            stage = made.kit.stages[choice.field][str(changed[choice.field])]()
            made = replace(made, **{choice.field: stage})
    for number in NUMBERS:
        if number.name in known:
            value = changed.get(number.name, known[number.name].value)
            if number.read(made) not in (None, value):
                made = number.write(made, value)
    return made


def idle(pipeline: Pipeline, opened: Pipeline) -> tuple[str, ...]:
    """The names of `opened`'s dials that turn nothing on `pipeline`, which was turned from it."""
    numbers = {number.name: number for number in NUMBERS}
    return tuple(
        dial.name
        for dial in dials(opened)
        if dial.name in numbers and numbers[dial.name].read(pipeline) is None
    )


# -- numbers: where they are ---------------------------------------------------------------------


def _read(owner: Callable[[Pipeline], Any], field: str) -> Callable[[Pipeline], Value | None]:
    def read(pipeline: Pipeline) -> Value | None:
        value = getattr(owner(pipeline), field, None)
        return value if isinstance(value, int | float) else None

    return read


def _of(
    stage: str, field: str
) -> tuple[Callable[[Pipeline], Value | None], Callable[[Pipeline, Value], Pipeline]]:
    """How to read and write a field of one of the pipeline's stages."""

    def owner(pipeline: Pipeline) -> Any:
        return getattr(pipeline, stage)

    def write(pipeline: Pipeline, value: Value) -> Pipeline:
        return replace(pipeline, **{stage: replace(owner(pipeline), **{field: value})})

    return _read(owner, field), write


def _of_bm25(
    field: str,
) -> tuple[Callable[[Pipeline], Value | None], Callable[[Pipeline, Value], Pipeline]]:
    def owner(pipeline: Pipeline) -> Any:
        return pipeline.retrievers.get("sparse")

    def write(pipeline: Pipeline, value: Value) -> Pipeline:
        lanes = {**pipeline.retrievers, "sparse": replace(owner(pipeline), **{field: value})}
        return replace(pipeline, retrievers=lanes)

    return _read(owner, field), write


def _dense_weight(pipeline: Pipeline) -> Value | None:
    weights = getattr(pipeline.fuser, "weights", None)
    if weights is None or len(pipeline.retrievers) < 2 or "dense" not in pipeline.retrievers:
        return None
    return float(dict(weights).get("dense", 1.0))


def _weigh_dense(pipeline: Pipeline, value: Value) -> Pipeline:
    fuser: Any = pipeline.fuser
    weights = {**dict(fuser.weights), "dense": float(value)}
    if value == 1:
        del weights["dense"]  # what a list counts where nothing is said
    return replace(pipeline, fuser=replace(fuser, weights=weights))


def _last_reranker(pipeline: Pipeline) -> Any:
    """A chain's last link, or the reranker itself."""
    links = getattr(pipeline.reranker, "rerankers", None)
    return links[-1] if links else pipeline.reranker


def _trade_variety(pipeline: Pipeline, value: Value) -> Pipeline:
    reranker: Any = pipeline.reranker
    last = replace(_last_reranker(pipeline), trade=value)
    links = getattr(reranker, "rerankers", None)
    made = replace(reranker, rerankers=(*links[:-1], last)) if links else last
    return replace(pipeline, reranker=made)


NUMBERS = (
    Number("k", "retrieve", "Hits a retriever (k)", "How many each retriever may return.",
           1, 100, 1, _read(lambda p: p, "k"), lambda p, v: replace(p, k=int(v))),
    Number("k1", "retrieve", "BM25's k1", "How much a repeated word adds. Usual: 1.2 to 1.5.",
           0, 3, 0.1, *_of_bm25("k1")),
    Number("b", "retrieve", "BM25's b", "How much long chunks are held back, from 0 to 1.",
           0, 1, 0.05, *_of_bm25("b")),
    Number("rrf_k", "fuse", "RRF's k", "Larger: ranks count more alike. Usual: 60.",
           1, 200, 1, *_of("fuser", "k")),
    Number("dense_weight", "fuse", "Weight of dense", "Beside sparse, which weighs 1.",
           0, 3, 0.1, _dense_weight, _weigh_dense),
    Number("depth", "rerank", "Depth of rerank", "How many fused hits get the closer look.",
           1, 100, 1, *_of("reranker", "depth")),
    Number("late", "rerank", "Weight of late interaction", "Beside the first stage, which has 1.",
           0, 5, 0.1, *_of("reranker", "late")),
    Number("trade", "rerank", "MMR's trade", "At 1 relevance alone, near 0 variety alone.",
           0.05, 1, 0.05, _read(_last_reranker, "trade"), _trade_variety),
    Number("keep", "assemble", "Kept for the prompt", "How many survive the rerank.",
           1, 20, 1, *_of("assembler", "keep")),
    Number("budget", "assemble", "Token budget", "Tokens that the sources may take in the prompt.",
           100, 4000, 50, *_of("assembler", "budget")),
    Number("threshold", "generate", "Support to answer", "Below it, the answer is a refusal.",
           0, 1, 0.025, *_of("generator", "threshold")),
)  # fmt: skip
