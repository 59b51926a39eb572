"""Replies kept in files, each found by the hash of what was asked, and labelled with its origin.

They let the lessons run with no key and no network, and come out the same for everyone.

Left out: writing them. `raglab.listening.listen` shows what a live call returned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from raglab.listening import heard
from raglab.tooluse import as_sent, canonical, only_offered, tool_call
from raglab.types import Completion, RagLabError, Tool

COUNTED = ("input", "output", "cache_write", "cache_read")  # kinds of tokens


def prompt_hash(prompt: str, system: str = "", shared: str = "") -> str:
    """The name of a kept reply: sha256 over the system prompt, the shared part and the prompt."""
    parts = (system, shared, prompt) if shared else (system, prompt)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def conversation_hash(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Tool] = (),
    system: str = "",
    call: bool = True,
) -> str:
    """The same for a conversation: sha256 over the canonical JSON of all that shapes its reply."""
    asked = {"messages": messages, "tools": as_sent(tools), "system": system, "call": call}
    return hashlib.sha256(canonical(asked).encode()).hexdigest()


@dataclass(frozen=True)
class ReplayLLM:
    """Answers from `folder/*.jsonl`: a line a reply, with `prompt_hash`, `text` and `origin`.

    A reply that asks for tools has `tool_calls` too, `[{"name": ..., "arguments": {...}}]`, and
    may do without text.  Kept replies carry no token counts unless a live call recorded them.
    """

    folder: Path
    model: str = "replay"

    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion:
        return self._kept(prompt_hash(prompt, system, shared))

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Tool],
        system: str = "",
        max_tokens: int = 1024,
        call: bool = True,
    ) -> Completion:
        key = conversation_hash(messages, tools, system, call)
        return self._kept(key, tools if call else ())

    def _kept(self, key: str, at_hand: Sequence[Tool] = ()) -> Completion:
        reply = _replies(self.folder).get(key)
        if reply is None:
            raise RagLabError(
                f"no reply is kept for this prompt (hash {key[:12]}). Offline, the lab replays "
                "replies for the lessons' own queries only. Set ANTHROPIC_API_KEY and use "
                "llm=ClaudeLLM(), or go back to the default, which needs no model."
            )
        try:
            only_offered(reply.tool_calls, at_hand)
        except ValueError as error:
            raise RagLabError(
                f"the reply kept as {key[:12]} in {self.folder} cannot be followed ({error}): "
                "mend that line, or take it out"
            ) from error
        return heard(replace(reply, model=reply.model or self.model))


@lru_cache(maxsize=8)
def _replies(folder: Path) -> dict[str, Completion]:
    replies = {}
    for path in sorted(folder.glob("*.jsonl")):
        # Not splitlines(): JSON may hold U+2028 and its like as they are, inside a line.
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8"))
                replies[row["prompt_hash"]] = _reply(row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise RagLabError(
                    f"{path}:{number} is not a reply ({error!r}): each line needs "
                    "prompt_hash, text and origin; tool_calls, each of a name and an object of "
                    "arguments, may stand in for the text"
                ) from error
    return replies


def _reply(row: dict[str, Any]) -> Completion:
    calls = tuple(tool_call(call["name"], call["arguments"]) for call in row.get("tool_calls", ()))
    text = row.get("text", "") if calls else row["text"]
    model = row.get("model", "")
    words = (row["prompt_hash"], text, row["origin"], model)
    if not all(isinstance(value, str) for value in words):
        raise TypeError("prompt_hash, text, origin and model are strings")
    if not (text.strip() or calls):
        raise ValueError("it holds no text")
    counts = {f"{kind}_tokens": row.get(f"{kind}_tokens", 0) for kind in COUNTED}
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        raise TypeError("tokens are counted in whole numbers")
    return Completion(text, model, row["origin"], **counts, tool_calls=calls)
