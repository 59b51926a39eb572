"""Small deterministic stand-ins for models. What is asserted is what our code computed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from raglab.ingest.embed import unit
from raglab.types import Chunk, Completion, Encoding, Hit, Part, Ranking, Vectors

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
