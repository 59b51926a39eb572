"""What the Explorer's script asks for while it runs, and what it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raglab.explore.zoom import exact_prompt

if TYPE_CHECKING:
    from raglab.views.explorer import Explorer

Asked = dict[str, Any]


def answer(explorer: Explorer, asked: Asked) -> None:
    """Does what the message asks for. Raises KeyError for a message that no one understands."""
    acts: dict[str, Callable[[Explorer, Asked], object]] = {
        "undo": lambda explorer, asked: explorer.undo(),
        "surprise": lambda explorer, asked: explorer.surprise(asked["kind"]),
        "why-not": lambda explorer, asked: explorer.why_not(
            asked.get("chunk", ""), sizes=bool(asked.get("sizes"))
        ),
        "detail": _send_detail,
        "prompt": _send_prompt,
        "share": _send_share,
    }
    acts[asked["do"]](explorer, asked)


def _send_detail(explorer: Explorer, asked: Asked) -> None:
    """Of a chunk that is in the run alone: what the reader may not see is in none."""
    side, chunk = asked.get("side", "a"), asked["chunk"]
    run = explorer.run_of(side)
    if chunk in run.chunks:
        content = {"kind": "detail", "side": side, "chunk": chunk, "run": run.number}
        explorer.send({**content, "detail": run.detail(chunk)})


def _send_prompt(explorer: Explorer, asked: Asked) -> None:
    side = asked.get("side", "a")
    run = explorer.run_of(side)
    text, note = exact_prompt(run.pipeline, run.trace)
    explorer.send({"kind": "prompt", "side": side, "text": text, "note": note})


def _send_share(explorer: Explorer, asked: Asked) -> None:
    if asked["what"] == "code":
        explorer.send({"kind": "code", "text": explorer.code()})
        return
    makers: dict[str, tuple[str, str, Callable[[], str]]] = {
        "page": ("raglab-explorer.html", "text/html", explorer.page),
        "svg": ("raglab-flow.svg", "image/svg+xml", explorer.svg),
        "trace": ("raglab-trace.json", "application/json", explorer.trace.to_json),
    }
    name, kind, make = makers[asked["what"]]
    explorer.send({"kind": "file", "name": name, "type": kind, "text": make()})
