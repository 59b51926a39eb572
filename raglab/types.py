"""The nouns of retrieval-augmented generation, and one protocol for each stage.

Everything that flows through the lab is one of these frozen values.  A stage takes values in
and returns new ones; it never changes what it was given.  That is what lets a trace keep every
step, and a widget draw it, without the stages knowing that they are watched.

One idea carries the whole lab: **every score explains itself**.  A `Hit` lists the `Part`s that
its score is the sum of.  BM25 has a part for each query term, RRF one for each source list,
late interaction one for each query token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Rows are vectors: float32, shape [n, d]."""


class RagLabError(Exception):
    """Something that the reader can mend; the message says how."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document as it was read. `text` is the original; every offset points into it."""

    doc_id: str
    text: str
    title: str = ""
    source: str = ""
    updated: str = ""  # ISO date, "2026-03-01", or empty where it is not known
    groups: tuple[str, ...] = ()  # who may read it; empty means everyone
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: `document.text[start:end] == text`, always.

    It carries its document's card (title, source, date, groups), so that a hit can be shown,
    cited and filtered without the document at hand.
    """

    chunk_id: str
    doc_id: str
    text: str
    start: int
    end: int
    heading: str = ""  # the path of headings above it, "Refund policy > Enterprise"
    context: str = ""  # a blurb put before the text when it is indexed; never shown as the source
    title: str = ""
    source: str = ""
    updated: str = ""
    groups: tuple[str, ...] = ()
    section: str = ""  # the whole passage that this small chunk was indexed for, if there is one

    @property
    def shown(self) -> str:
        """What the reader and the prompt get: the section where the chunk stands for one."""
        return self.section or self.text

    @property
    def indexed_text(self) -> str:
        """What the encoder and BM25 read: the context, if there is one, then the text."""
        return f"{self.context}\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. `origin` says who wrote it: the reader, or a rewriter."""

    query_id: str
    text: str
    origin: str = "reader"
    history: tuple[str, ...] = ()  # the turns before, where the query leans on them
    lane: str = ""  # the one retriever that it is meant for; empty means each of them


@dataclass(frozen=True, slots=True)
class Part:
    """One addend of a score."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk in a ranking. `rank` counts from 1; `score == sum(part.value for part in parts)`."""

    chunk: Chunk
    score: float
    rank: int
    parts: tuple[Part, ...]


Ranking = tuple[Hit, ...]
"""Hits, best first. Equal scores stand in order of chunk_id."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A hit that did not reach the prompt, and why, in words: "rank 23, cut at 20"."""

    hit: Hit
    reason: str
    tokens: int = 0  # that its source would have taken, where the budget was what left it out
    over: int = 0  # by how many of them the budget would have been broken


@dataclass(frozen=True, slots=True)
class Context:
    """What the generator reads. Citation [n] in `text` is `kept[n - 1]`."""

    text: str
    kept: Ranking
    dropped: tuple[Drop, ...]
    tokens: int  # of `text`, by the assembler's counter
    budget: int
    spent: tuple[int, ...] = ()  # tokens of each kept source, fence and all; with `kept`, by place

    @property
    def left(self) -> int:
        """Tokens of the budget that no source took."""
        return max(0, self.budget - self.tokens)


@dataclass(frozen=True, slots=True)
class Citation:
    """A claim's source: the number in the answer, the chunk, and the words that support it."""

    number: int
    chunk_id: str
    quote: str


REFUSAL = "The sources do not answer this."


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer, without its marks, and what it claims to stand on.

    A citation here is as it was written: the chunk_id is empty where the number was never given.
    """

    text: str
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the reader is told. A refusal is an answer too, and says so."""

    text: str
    citations: tuple[Citation, ...]
    refused: bool
    origin: str  # "extractive", or the model, or where a replayed reply came from
    sentences: tuple[Sentence, ...] = ()  # sentence by sentence, where the generator says so


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may ask to have done. `schema` is the JSON Schema of its arguments, as text."""

    name: str
    description: str
    schema: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asks to have done. `arguments` is a JSON object as text, its keys in order."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model returned. `origin` is shown wherever its text is."""

    text: str
    model: str
    origin: str
    input_tokens: int  # read at the full price
    output_tokens: int
    cache_write_tokens: int = 0  # put into the service's prompt cache by this call
    cache_read_tokens: int = 0  # read from there
    tool_calls: tuple[ToolCall, ...] = ()  # where there are some, the text may be empty
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step of control chose to do next, and why.

    Where a rule decided, `parts` are the numbers that it looked at; where a model did, `why` is
    what it wrote.
    """

    choice: str  # "factual", "enough", "search", ...
    why: str
    parts: tuple[Part, ...] = ()
    chunk_ids: tuple[str, ...] = ()  # the chunks that it speaks of
    text: str = ""  # what it does it with: the query to search for, the answer to give


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quote that answers a question, letter for letter as it stands in the document."""

    doc_id: str
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """A golden question. Its evidence is quotes, not chunk ids, so it can judge any chunking."""

    query_id: str
    text: str
    kind: str
    answer: str
    evidence: tuple[Evidence, ...]
    answerable: bool
    split: str = "dev"
    why: str = ""  # what this question tests, in a line
    groups: tuple[str, ...] = ()  # what the asker belongs to
    history: tuple[str, ...] = ()  # the turns before, where the question leans on them


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """What the encoder made of one text of t word pieces (its special tokens left out)."""

    vector: Vectors  # float32 [d], length 1
    tokens: NDArray[np.float16]  # [t, d], rows of length 1
    spans: NDArray[np.int32]  # [t, 2]: where each word piece stands in the text, in characters


Allowed = Callable[[Chunk], bool]
"""A filter: may this chunk be seen? It acts inside every retriever, before the cut at k."""


@dataclass(frozen=True)
class Readable:
    """Lets through what everyone may read, and what one of these groups may."""

    groups: tuple[str, ...] = ()

    def __call__(self, chunk: Chunk) -> bool:
        return not chunk.groups or any(group in chunk.groups for group in self.groups)


class Chunker(Protocol):
    def chunk(self, document: Document) -> tuple[Chunk, ...]: ...


class Embedder(Protocol):
    """Turns texts into unit vectors, and says how it counts them."""

    @property
    def fingerprint(self) -> str: ...  # changes whenever the vectors would
    @property
    def limit(self) -> int: ...  # word pieces that it reads; the rest is invisible to it
    @property
    def dimension(self) -> int: ...
    def spans(self, text: str) -> list[tuple[int, int]]: ...
    def count(self, text: str) -> int: ...
    def encode(
        self, texts: Sequence[str], *, tokens: bool = True, progress: bool = False
    ) -> list[Encoding]: ...
    def encode_query(self, text: str) -> Encoding: ...
    def forget_queries(self) -> None: ...  # so that the next ones are timed as new ones
    def embed(self, texts: Sequence[str]) -> Vectors: ...


class Rewriter(Protocol):
    """Returns the queries to search with.

    The first is the one that the later stages go on with: the reader's own, or, where that leans
    on the turns before it, one that stands alone.
    """

    def rewrite(self, query: Query) -> tuple[Query, ...]: ...


class Retriever(Protocol):
    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking: ...


class Fuser(Protocol):
    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking: ...


class Reranker(Protocol):
    def rerank(self, query: Query, hits: Ranking) -> Ranking: ...


class Assembler(Protocol):
    def assemble(self, query: Query, hits: Ranking) -> Context: ...


class Generator(Protocol):
    def generate(self, query: Query, context: Context) -> Answer: ...


class Router(Protocol):
    def route(self, query: Query) -> Decision: ...


class Check(Protocol):
    def check(self, query: Query, context: Context) -> Decision: ...


class LLM(Protocol):
    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion: ...

    # `shared` stands before the prompt and is the same for many calls: a service may cache it.


class ToolLLM(LLM, Protocol):
    """A model that can ask for tools. It calls none itself: who asked it does, and asks again."""

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Tool],
        system: str = "",
        max_tokens: int = 1024,
        call: bool = True,
    ) -> Completion: ...

    # `messages` is plain data, as the Messages API takes it. With `call=False` the model may ask
    # for no tool in this turn; the tools stay in sight, since earlier turns hold their calls.
