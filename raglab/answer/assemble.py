"""Assembling: what the generator will read, within a budget, numbered for citation.

The best hits are taken in order.  One that says again what a better one said is merged into it,
one that would break the budget is left out (a shorter one after it may still fit), and each of
them keeps its reason.

Left out: orders other than best first, and compressing chunks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from raglab.llm import fence
from raglab.types import Context, Drop, Hit, Query, RagLabError, Ranking

_WORD = re.compile(r"\w+")
SAME = 0.8  # share of the shorter chunk's word triples that make two chunks duplicates


def overlap(one: str, other: str) -> float:
    """The share, from 0 to 1, of the shorter text's word triples that the other holds too.

    A containment of shingles (Broder 1997, "On the resemblance and containment of documents").

    >>> overlap("a refund takes five days", "A refund takes five days, or six.")
    1.0
    """
    first, second = _triples(one), _triples(other)
    shorter = min(len(first), len(second))
    return len(first & second) / shorter if shorter else float(one.strip() == other.strip())


def same(one: str, other: str) -> bool:
    """Does one of the texts say again what the other says?

    A copy in which a number or a code was changed is no duplicate: it may be the one that holds.

    >>> same("A refund takes five days, in all plans.", "a refund takes five days, in all plans")
    True
    >>> same("the limit is 50 in all plans and regions but one, and it never was anything else",
    ...      "the limit is 60 in all plans and regions but one, and it never was anything else")
    False
    """
    if overlap(one, other) < SAME:
        return False
    first, second = sorted((_figures(one), _figures(other)), key=len)
    return first <= second


def _figures(text: str) -> set[str]:
    """The words that hold a digit."""
    return {word.lower() for word in _WORD.findall(text) if any(c.isdigit() for c in word)}


@lru_cache(maxsize=1024)  # each hit is held against every one that is kept
def _triples(text: str) -> frozenset[tuple[str, ...]]:
    words = [word.lower() for word in _WORD.findall(text)]
    starts = range(max(1, len(words) - 2)) if words else ()
    return frozenset(tuple(words[i : i + 3]) for i in starts)


@dataclass(frozen=True)
class BudgetAssembler:
    """Keeps at most `keep` hits and `budget` tokens, as `count` counts them.

    `count` is the encoder's word pieces by default in the lab: a language model's own tokenizer
    counts a little differently, so leave some room.
    """

    count: Callable[[str], int] = field(repr=False)
    keep: int = 8
    budget: int = 1500

    def __post_init__(self) -> None:
        if self.keep < 1 or self.budget < 1:
            raise RagLabError(f"keep={self.keep}, budget={self.budget}: both must be at least 1")

    def assemble(self, query: Query, hits: Ranking) -> Context:
        """Fenced, numbered sources; `kept[n - 1]` is citation [n]."""
        kept: list[Hit] = []
        also: dict[str, list[str]] = {}  # kept chunk -> the duplicates that it stands for
        dropped: list[Drop] = []
        spent = 0
        for hit in hits:
            if hit.rank > self.keep:
                dropped.append(Drop(hit, f"rank {hit.rank}, cut at {self.keep}"))
                continue
            twin = next((k for k in kept if same(k.chunk.shown, hit.chunk.shown)), None)
            if twin:
                dropped.append(Drop(hit, f"duplicate of {twin.chunk.chunk_id}"))
                also.setdefault(twin.chunk.chunk_id, []).append(hit.chunk.chunk_id)
                continue
            cost = self.count(_block(len(kept) + 1, hit, ()))
            if spent + cost > self.budget:
                over = spent + cost - self.budget
                dropped.append(Drop(hit, f"over the budget by {over} tokens"))
                continue
            spent += cost
            kept.append(hit)
        text = "\n".join(
            _block(number, hit, also.get(hit.chunk.chunk_id, ()))
            for number, hit in enumerate(kept, start=1)
        )
        return Context(text, tuple(kept), tuple(dropped), self.count(text), self.budget)


def _block(number: int, hit: Hit, also: Sequence[str]) -> str:
    chunk = hit.chunk
    named = {"number": str(number), "chunk": chunk.chunk_id, "heading": chunk.heading}
    if also:
        named["also"] = ", ".join(also)
    return fence("source", chunk.shown, **named)
