"""A flow bound to a live pipeline: ask another question, turn a knob, see what it changes.

A pipeline is a frozen value, so a turned knob is a new pipeline: `replace(pipeline, k=10)`.
Steps whose inputs did not change are reused by the pipeline itself, not here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from raglab.trace import Trace
from raglab.types import RagLabError
from raglab.views.flow import Flow
from raglab.views.model import Model, flow_model, ranks_of


class Runs(Protocol):
    """What a panel needs of a pipeline: a frozen dataclass with stages as fields, and `run`."""

    def run(self, query: str) -> Trace: ...


class Knob(NamedTuple):
    name: str
    stage: str  # the pipeline's field that holds the value, or empty for the pipeline itself
    field: str
    label: str
    low: int
    high: int
    help: str


KNOBS = (
    Knob("k", "", "k", "Hits a retriever (k)", 5, 50, "How many each retriever may return."),
    Knob("rrf_k", "fuser", "k", "RRF's k", 1, 200, "Larger: ranks count more alike. Usual: 60."),
    Knob("keep", "assembler", "keep", "Kept for the prompt", 1, 20, "How many survive the rerank."),
)


def explore(pipeline: Any, query: str, evidence: Collection[str] = ()) -> Flow:
    """The flow of `query` with a query box and knobs; each change runs the pipeline again.

    `evidence` marks the chunks that hold the answer to the first query, and to that one only.
    """
    knobs = [knob for knob in KNOBS if _value(pipeline, knob) is not None]
    flow = Flow(
        _with(pipeline, {}).run(query),
        evidence,
        query=query,
        knobs=[_shown(knob, _value(pipeline, knob)) for knob in knobs],
        settings={knob.name: _value(pipeline, knob) for knob in knobs},
    )

    def run(change: object) -> None:
        if not flow.query.strip():
            flow.status = "The query is empty: type a question, then press Enter."
            return
        flow.busy = True
        try:
            trace = _with(pipeline, flow.settings).run(flow.query)
            model = flow_model(trace, evidence if flow.query == query else ())
        except Exception as error:  # whatever a stage raises is told, and the last picture stays
            flow.status = in_words(error)
        else:
            flow.status = changes(flow.data, model)
            flow.step = min(flow.step, len(model["stages"]) - 1)
            flow.data = model
        finally:
            flow.busy = False

    flow.observe(run, names=["query", "settings"])
    return flow


def changes(old: Model, new: Model) -> str:
    """What a run changed, in words.

    >>> empty = {"query": "q", "columns": [], "chunks": []}
    >>> changes(empty, empty)
    'The same chunks are in the same places.'
    """
    before = {column["name"]: column for column in old["columns"]}
    said = []
    for column in new["columns"]:
        was = before.get(column["name"])
        if was is None or was["count"] != column["count"]:
            said.append(f"{column['name']} {column['count']} (was {was['count'] if was else 0})")
    if old["query"] != new["query"]:
        counts = ", ".join(f"{column['name']} {column['count']}" for column in new["columns"])
        return f"A new query: {counts}."
    entered, left = _prompt(new) - _prompt(old), _prompt(old) - _prompt(new)
    said += [f"into the prompt: {', '.join(sorted(entered))}"] if entered else []
    said += [f"out of the prompt: {', '.join(sorted(left))}"] if left else []
    if said:
        return f"Now {'; '.join(said)}."
    if ranks_of(old) != ranks_of(new):
        return "The same chunks reach the prompt; some changed rank on the way."
    return "The same chunks are in the same places."


def _prompt(model: Model) -> set[str]:
    columns = [column for column in model["columns"] if column["stage"] == "assemble"]
    return {row[0] for column in columns for row in column["rows"]}


def _value(pipeline: Any, knob: Knob) -> int | None:
    """The knob's present value, or None where this pipeline has no such knob."""
    holder = getattr(pipeline, knob.stage, None) if knob.stage else pipeline
    value = getattr(holder, knob.field, None)
    return None if value is None else int(value)


def _shown(knob: Knob, value: int | None) -> dict[str, Any]:
    value = knob.low if value is None else value
    bounds = {"min": min(knob.low, value), "max": max(knob.high, value)}
    return {"name": knob.name, "label": knob.label, "value": value, "help": knob.help, **bounds}


def _with(pipeline: Any, settings: Mapping[str, Any]) -> Any:
    """The same pipeline with the knobs turned."""
    known = {knob.name: knob for knob in KNOBS}
    for name, value in settings.items():
        if name not in known:
            raise RagLabError(f"there is no knob {name!r}; there are {', '.join(known)}")
        knob = known[name]
        if knob.stage:
            stage = replace(getattr(pipeline, knob.stage), **{knob.field: int(value)})
            pipeline = replace(pipeline, **{knob.stage: stage})
        else:
            pipeline = replace(pipeline, **{knob.field: int(value)})
    return pipeline


def in_words(error: Exception) -> str:
    """One line of plain text; the widget shows it as text, so markup in it stays inert."""
    said = " ".join(str(error).split()) or "no reason given"
    kind = "" if isinstance(error, RagLabError) else f"{type(error).__name__}: "
    stop = "" if said.endswith((".", "?")) else "."
    return f"This did not run: {kind}{said}{stop} The picture still shows the run before."
