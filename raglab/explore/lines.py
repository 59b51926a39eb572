"""The Python lines that rebuild a pipeline and ask its question again, ready to paste."""

from __future__ import annotations

from raglab.explore.dials import SIZE, Settings, dials
from raglab.pipeline import Pipeline
from raglab.types import Query


def lines(opened: Pipeline, settings: Settings, query: Query) -> str:
    """`opened` with its dials as in `settings`, asked `query`. Dials as they were are left out."""
    changed = [
        f"{dial.name}={literal(settings[dial.name])}"
        for dial in dials(opened)
        if settings.get(dial.name, dial.value) != dial.value
    ]
    asked = literal(query.text)
    if query.history:
        turns = ", ".join(map(literal, query.history))
        asked = f"Query({literal(query.query_id)}, {asked}, history=({turns},))"
    call = _opening(opened)
    heads = ["import raglab"] if call else []
    heads += ["from raglab.llm import ClaudeLLM"] if "llm=" in call else []
    heads += ["from raglab.explore.dials import turned"] if changed else []
    heads += ["from raglab.types import Query"] if query.history else []
    body = [f"pipeline = {call}"] if call else ["# pipeline is the one that you opened"]
    body += _call("pipeline = turned", ["pipeline", *changed]) if changed else []
    body += [f"trace = pipeline.run({asked})", "print(trace.answer.text)"]
    return "\n".join([*heads, "", *body] if heads else body) + "\n"


def _opening(opened: Pipeline) -> str:
    """The expression that opens it; none where it was changed after it was opened."""
    kit = opened.kit
    if kit is None or not kit.opened:
        return ""
    as_it_was = kit.sizes[kit.chosen[SIZE]]() if kit.sizes else opened
    return kit.opened if as_it_was == opened else ""


def _call(name: str, arguments: list[str]) -> list[str]:
    """A call on one line, or an argument a line where that would be too long."""
    whole = f"{name}({', '.join(arguments)})"
    if len(whole) <= 88:
        return [whole]
    return [f"{name}(", *(f"    {argument}," for argument in arguments), ")"]


def literal(value: object) -> str:
    """Python's own literal, in double quotes where that needs no escape."""
    said = repr(value)
    plain = isinstance(value, str) and said[0] == "'" and '"' not in said and "\\" not in said
    return f'"{said[1:-1]}"' if plain else said
