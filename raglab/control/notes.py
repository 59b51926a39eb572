"""What an agent has found so far, and how it becomes the context of its answer.

Passages keep the number under which they were first read, [1] [2] …, whichever search brought them.
So a planner that is a language model and the reader of its answer mean the same by [3].  Where a
rule's planner leaves passages out, the context of its answer counts anew.

Left out: forgetting.  What was read stays in the notes until the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from raglab.llm import fence
from raglab.types import Assembler, Context, Drop, Hit, Query, Ranking


@dataclass(frozen=True, slots=True)
class Search:
    """One search: what for, why, and the passages that no search before it had brought."""

    query: str
    thought: str
    found: Ranking
    relevant: tuple[str, ...] = ()  # of all passages so far, those that the planner went on with


@dataclass(frozen=True, slots=True)
class Notes:
    """All that a planner is told."""

    asked: Query
    searches: tuple[Search, ...] = ()
    turns_left: int = 1  # with this one; at 1 it must answer

    @property
    def passages(self) -> Ranking:
        """All that was found, in the order in which it was read; ranks count on."""
        every = (hit for search in self.searches for hit in search.found)
        return tuple(replace(hit, rank=n) for n, hit in enumerate(every, start=1))

    def numbers(self) -> dict[str, int]:
        """chunk_id -> its number."""
        return {hit.chunk.chunk_id: hit.rank for hit in self.passages}

    def with_search(self, query: str, thought: str, found: Ranking) -> Notes:
        """After a search, and a turn nearer to the end."""
        made = Search(query, thought, found)
        return replace(self, searches=(*self.searches, made), turns_left=self.turns_left - 1)

    def judged(self, relevant: tuple[str, ...]) -> Notes:
        """With what the planner made of all passages so far."""
        if not self.searches:
            return self
        last = replace(self.searches[-1], relevant=relevant)
        return replace(self, searches=(*self.searches[:-1], last))


def passage(hit: Hit, number: int) -> str:
    """A passage as a planner and a generator read it: fenced, under its number."""
    chunk = hit.chunk
    return fence(
        "source", chunk.shown, number=str(number), chunk=chunk.chunk_id, heading=chunk.heading
    )


@dataclass(frozen=True)
class Fresh:
    """Assembles what a search brought that was not read before."""

    assembler: Assembler
    known: tuple[tuple[str, int], ...] = ()  # chunk_id and number of what was read

    def assemble(self, query: Query, hits: Ranking) -> Context:
        numbers = dict(self.known)
        fresh = [hit for hit in hits if hit.chunk.chunk_id not in numbers]
        ranked = tuple(replace(hit, rank=n) for n, hit in enumerate(fresh, start=1))
        context = self.assembler.assemble(query, ranked)
        read = tuple(
            Drop(hit, f"read already as [{numbers[hit.chunk.chunk_id]}]")
            for hit in hits
            if hit.chunk.chunk_id in numbers
        )
        return replace(context, dropped=(*read, *context.dropped))


@dataclass(frozen=True)
class Gather:
    """Puts the passages of all searches into one context, in the order in which they were read.

    `only`: the chunks to keep, as far as the budget goes.  Without it all are kept, for they were
    read, and [n] is the n-th passage that was.
    """

    count: Callable[[str], int] = field(repr=False)
    budget: int = 3000

    def assemble(self, query: Query, hits: Ranking, only: Collection[str] | None = None) -> Context:
        kept: list[Hit] = []
        blocks: list[str] = []
        dropped: list[Drop] = []
        room = self.budget
        for hit in hits:
            if only is not None and hit.chunk.chunk_id not in only:
                dropped.append(Drop(hit, "judged not relevant"))
                continue
            block = passage(hit, len(kept) + 1)
            cost = self.count(block)
            if only is not None and cost > room:
                over = cost - room
                dropped.append(Drop(hit, f"over the budget by {over} tokens", cost, over))
                continue
            kept.append(hit)
            blocks.append(block)
            room -= cost
        text = "\n".join(blocks)
        spent = tuple(self.count(block) for block in blocks)
        tokens = self.count(text)
        budget = max(self.budget, tokens)
        return Context(text, tuple(kept), tuple(dropped), tokens, budget, spent)


def named(numbers: Mapping[str, int], chunk_ids: Collection[str]) -> str:
    """
    >>> named({"a": 1, "b": 2, "c": 3}, ["c", "a"])
    '[1] [3]'
    """
    return " ".join(f"[{n}]" for name, n in numbers.items() if name in chunk_ids)
