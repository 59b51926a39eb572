"""Small deterministic stand-ins for models. What is asserted is what our code computed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raglab.ingest.embed import unit
from raglab.listening import heard
from raglab.types import (
    Chunk,
    Completion,
    Encoding,
    Hit,
    Part,
    Ranking,
    Tool,
    ToolCall,
    Vectors,
)

WORD = re.compile(r"\S+")


class FakeEmbedder:
    """A word is a fixed random direction; a text is the mean of its words. 16 dimensions."""

    fingerprint = "fake"
    limit = 254
    dimension = 16
    model = "fake"

    def __init__(self) -> None:
        self.embedded = 0

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in WORD.finditer(text)]

    def count(self, text: str) -> int:
        return len(self.spans(text))

    def encode(
        self, texts: Sequence[str], *, tokens: bool = True, progress: bool = False
    ) -> list[Encoding]:
        self.embedded += len(texts)
        return [self.encode_query(text) for text in texts]

    def forget_queries(self) -> None:
        """It remembers none."""

    def encode_query(self, text: str) -> Encoding:
        spans = self.spans(text)[: self.limit]
        rows = [self._word(text[start:end].lower()) for start, end in spans]
        tokens = np.stack(rows) if rows else np.zeros((0, self.dimension), np.float32)
        vector = unit(tokens.mean(axis=0)) if rows else np.zeros(self.dimension, np.float32)
        places = np.array(spans, np.int32).reshape(-1, 2)
        return Encoding(vector, tokens.astype(np.float16), places)

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [self.encode_query(text).vector for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimension), np.float32)

    def _word(self, word: str) -> Vectors:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return unit(np.random.default_rng(seed).normal(size=self.dimension))


@dataclass
class FakeLLM:
    """Answers with what it is given, and keeps what it was asked."""

    reply: str
    asked: list[tuple[str, str]] = field(default_factory=list)

    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion:
        self.asked.append((system, shared + prompt))
        return Completion(self.reply, "fake", "written for a test", 10, 5)


def asks(name: str, **arguments: object) -> ToolCall:
    """A call as a model would write it: `asks("search", query="refund")`."""
    return ToolCall(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False))


@dataclass
class FakeAgentLLM:
    """Answers with its turns, (text, calls), in order, the last of them again and again.

    Where no call may be made, a turn's calls are left out, as the service does.  Like the service
    it takes no conversation that leaves a call without its result.  `.asked` holds each turn's
    keywords, with the messages as they were then.
    """

    turns: Sequence[tuple[str, Sequence[ToolCall]]]
    input_tokens: int = 10
    output_tokens: int = 5
    asked: list[dict[str, Any]] = field(default_factory=list)

    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion:
        message = {"role": "user", "content": shared + prompt}
        return self.converse([message], tools=(), system=system, max_tokens=max_tokens)

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Tool],
        system: str = "",
        max_tokens: int = 1024,
        call: bool = True,
    ) -> Completion:
        lawful(messages)
        text, calls = self.turns[min(len(self.asked), len(self.turns) - 1)]
        kept = deepcopy(list(messages))
        asked = {"tools": tuple(tools), "system": system, "max_tokens": max_tokens, "call": call}
        self.asked.append({"messages": kept, **asked})
        calls = tuple(calls) if call and tools else ()
        assert text.strip() or calls, "where no call may be made, this turn needs a text"
        counts = (self.input_tokens, self.output_tokens)
        return heard(Completion(text, "fake", "written for a test", *counts, tool_calls=calls))


def lawful(messages: Sequence[Mapping[str, Any]]) -> None:
    """Fails where the Messages API would refuse: who speaks, blank text, a call with no result."""
    assert [m["role"] for m in messages] == [
        "assistant" if n % 2 else "user" for n in range(len(messages))
    ]
    assert len(messages) % 2 == 1, "the last to speak is the user"
    open_calls: list[str] = []
    for message in messages:
        content = message["content"]
        assert content, "a message holds something"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(open_calls), "every call has its one result, right after"
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len(set(open_calls)) == len(open_calls)
        assert not open_calls or message["role"] == "assistant"
        assert all(isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use")
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")


def chunk(chunk_id: str, text: str = "", **card: object) -> Chunk:
    doc_id = chunk_id.partition("#")[0]
    return Chunk(chunk_id, doc_id, text, 0, len(text), **card)  # type: ignore[arg-type]


def ranking(*chunk_ids: str, texts: dict[str, str] | None = None) -> Ranking:
    """Hits in the given order, scored 1, 1/2, 1/3, ..."""
    texts = texts or {}
    return tuple(
        Hit(chunk(name, texts.get(name, name)), 1 / rank, rank, (Part("given", 1 / rank),))
        for rank, name in enumerate(chunk_ids, start=1)
    )


def ids(hits: Ranking) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]
