"""Rewriting: what is searched for need not be what was typed.

A searcher's words are seldom the document's.  Five methods ask a language model for better ones:

    MultiQuery   other wordings of the question              beside the reader's own
    StepBack     the broader question behind it              beside it    Zheng et al. 2023
    Decompose    the questions that it is made of            beside it    Press et al. 2022,
                                                                          Khattab et al. 2022
    HyDE         a passage that might answer it, made up,    beside it    Gao et al. 2022
                 for the dense retriever alone
    Standalone   a turn of a conversation as a query that    in place of  Elgohary et al. 2019
                 can be understood without the others        the turn

*Beside* means that each is searched for, and fusion puts the rankings together: such a branch may
add, never replace.  `Standalone` does replace: the later stages go on with what it wrote.
`WithHistory` is its offline rival, which joins the turns before with the turn and asks no model.

Left out: sub-questions that need the answer to the one before (self-ask as it was published), the
mean of several passages' vectors (HyDE as published), and one rewriter after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

from raglab.retrieve.prompts import (
    Prompt,
    decompose_prompt,
    hyde_prompt,
    multi_query_prompt,
    read_line,
    read_lines,
    read_passage,
    standalone_prompt,
    step_back_prompt,
)
from raglab.types import LLM, Completion, Query, RagLabError


@dataclass(frozen=True)
class PassThrough:
    """Searches with the reader's words as they are."""

    def rewrite(self, query: Query) -> tuple[Query, ...]:
        return (query,)


@dataclass(frozen=True)
class WithHistory:
    """The last turns before the query and the query, joined: no model, and no harm to a query
    that has no turn before it."""

    turns: int = 1

    def __post_init__(self) -> None:
        _at_least_one("turns", self.turns)

    def rewrite(self, query: Query) -> tuple[Query, ...]:
        if not query.history:
            return (query,)
        text = " ".join((*query.history[-self.turns :], query.text))
        return (replace(query, text=text, origin="the turns, joined", history=()),)


@dataclass(frozen=True)
class Asking(ABC):
    """What the methods with a model share: a prompt goes out, queries are read from the reply.

    A reply that holds no query leaves the reader's own to be searched for alone.
    """

    llm: LLM

    @abstractmethod
    def prompt(self, query: Query) -> Prompt: ...

    @abstractmethod
    def read(self, query: Query, reply: Completion) -> tuple[Query, ...]: ...

    def rewrite(self, query: Query) -> tuple[Query, ...]:
        """Raises RagLabError where the model cannot be asked, or no reply is kept."""
        prompt = self.prompt(query)
        reply = self.llm.complete(prompt.text, system=prompt.system, max_tokens=prompt.max_tokens)
        return self.read(query, reply)


@dataclass(frozen=True)
class Several(Asking):
    """The query, then up to `n` others that the model writes, one a line."""

    n: int = 3

    def __post_init__(self) -> None:
        _at_least_one("n", self.n)

    def read(self, query: Query, reply: Completion) -> tuple[Query, ...]:
        # One more is read than is kept: the query itself may be among them.
        return _beside(query, read_lines(reply.text, self.n + 1), reply)[: self.n + 1]


@dataclass(frozen=True)
class MultiQuery(Several):
    """The query, then other wordings of it."""

    def prompt(self, query: Query) -> Prompt:
        return multi_query_prompt(query.text, self.n)


@dataclass(frozen=True)
class Decompose(Several):
    """The query, then the questions that it is made of; none where it asks one thing."""

    def prompt(self, query: Query) -> Prompt:
        return decompose_prompt(query.text, self.n)


@dataclass(frozen=True)
class StepBack(Asking):
    """The query, then the broader question behind it."""

    def prompt(self, query: Query) -> Prompt:
        return step_back_prompt(query.text)

    def read(self, query: Query, reply: Completion) -> tuple[Query, ...]:
        return _beside(query, [read_line(reply.text)], reply)


@dataclass(frozen=True)
class HyDE(Asking):
    """The query, then a hypothetical passage for the retriever named `lane`.

    The passage may be wrong in every detail.  It is never shown as an answer: it only lies nearer
    to real passages than a question does.
    """

    lane: str = "dense"

    def prompt(self, query: Query) -> Prompt:
        return hyde_prompt(query.text)

    def read(self, query: Query, reply: Completion) -> tuple[Query, ...]:
        return _beside(query, [read_passage(reply.text)], reply, self.lane)


@dataclass(frozen=True)
class Standalone(Asking):
    """A query that stands alone, in place of one that leans on the turns before it.

    A query without turns before it is left as it is, and no model is asked.
    """

    turns: int = 6  # of the history, the last ones

    def __post_init__(self) -> None:
        _at_least_one("turns", self.turns)

    def prompt(self, query: Query) -> Prompt:
        return standalone_prompt(query.text, query.history[-self.turns :])

    def read(self, query: Query, reply: Completion) -> tuple[Query, ...]:
        text = read_line(reply.text)
        return (replace(query, text=text, origin=reply.origin, history=()) if text else query,)

    def rewrite(self, query: Query) -> tuple[Query, ...]:
        return super().rewrite(query) if query.history else (query,)


def _beside(
    query: Query, texts: Iterable[str], reply: Completion, lane: str = ""
) -> tuple[Query, ...]:
    """The query, then a query for each text that says something else."""
    fresh = [text for text in texts if text and text.casefold() != query.text.casefold()]
    return (
        query,
        *(
            Query(f"{query.query_id}.{number}", text, origin=reply.origin, lane=lane)
            for number, text in enumerate(fresh, start=2)
        ),
    )


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise RagLabError(f"{name} is {value}: it must be at least 1")
