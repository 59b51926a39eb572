"""Tools, between the lab and a model: how they are offered, and what counts as a call.

A model calls nothing.  It writes which tool it would like, with which arguments, and waits to be
told what came of it.  What it writes is untrusted: a call is taken as it stands or not at all.

Left out: holding the arguments against the schema, which is for the tool that reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from raglab.types import RagLabError, Tool, ToolCall


def canonical(value: object) -> str:
    """JSON text that is the same for equal values. ValueError for what JSON cannot say.

    >>> canonical({"k": 5, "a": "ü"})
    '{"a": "ü", "k": 5}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def as_sent(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as the Messages API takes them. RagLabError where a schema is no JSON object."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": _schema(tool)}
        for tool in tools
    ]


def _schema(tool: Tool) -> dict[str, Any]:
    try:
        schema = json.loads(tool.schema)
    except ValueError as error:
        raise RagLabError(
            f"the schema of the tool {tool.name!r} is not JSON ({error}): mend its text"
        ) from error
    if not isinstance(schema, dict):
        raise RagLabError(
            f"the schema of the tool {tool.name!r} is not a JSON object: write one, such as "
            '{"type": "object", "properties": {}}'
        )
    return schema


def tool_call(name: object, arguments: object) -> ToolCall:
    """A call from plain data. ValueError where it names no tool or its arguments are no object.

    >>> tool_call("search", {"query": "refund", "k": 5})
    ToolCall(name='search', arguments='{"k": 5, "query": "refund"}')
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"a call names no tool, but {name!r}")
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of {name!r} are not a JSON object")
    return ToolCall(name, canonical(arguments))


def only_offered(calls: Iterable[ToolCall], tools: Sequence[Tool]) -> tuple[ToolCall, ...]:
    """The calls. ValueError where one of them is of a tool that was not offered."""
    calls = tuple(calls)
    names = [tool.name for tool in tools]
    for call in calls:
        if call.name not in names:
            offered = ", ".join(names) or "no tool"
            raise ValueError(f"it calls {call.name!r}, and was offered {offered}")
    return calls
