"""Assembling: what the generator will read, within a budget, numbered for citation.

The best hits are taken in order.  One that says again what a better one said is merged into it, and
so is a second piece of the same section.  One that would break the budget is left out; a shorter
one after it may still fit.  Each of them keeps its reason.

Then the sources are put into an *order*.  Models use best what stands at the beginning or at the
end of a long prompt (Liu et al. 2023, "Lost in the Middle"):

    best first           rank 1 2 3 4 5
    best at both ends    rank 1 3 5 4 2     the weakest stand in the middle

Either way, citation [n] names the n-th source of the prompt, `kept[n - 1]`.

Left out: a copy whose change is told without a number, "any day" for "three days", passes for the
same.  So does one that lacks a "not".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from raglab.answer.compress import matching
from raglab.llm import fence
from raglab.types import Chunk, Context, Drop, Hit, Query, RagLabError, Ranking

T = TypeVar("T")
ORDERS = BEST_FIRST, BOTH_ENDS = ("best first", "best at both ends")
SAME = 0.8  # share of a chunk's word triples that make it a duplicate of one that holds them
_WORD = re.compile(r"\w+")
_NUMBERS = frozenset(
    _WORD.findall(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
        "eighty ninety hundred thousand million billion dozen half quarter once twice"
    )
)


def at_both_ends(ranked: Sequence[T]) -> tuple[T, ...]:
    """The best first, the second last, the third second, and so on towards the middle.

    >>> at_both_ends([1, 2, 3, 4, 5])
    (1, 3, 5, 4, 2)
    """
    return (*ranked[::2], *reversed(ranked[1::2]))


def overlap(text: str, other: str) -> float:
    """The share, from 0 to 1, of the text's word triples that the other holds too.

    The containment of shingles (Broder 1997, "On the resemblance and containment of documents").

    >>> overlap("a refund takes five days", "A refund takes five days, or six.")
    1.0
    """
    first, second = _triples(text), _triples(other)
    return len(first & second) / len(first) if first else float(text.strip() == other.strip())


def same(kept: str, text: str) -> bool:
    """Does the text only say again what the kept one says?

    A copy in which a number or a code was changed is no duplicate: it may be the one that holds.

    >>> same("A refund takes five days, in all plans.", "a refund takes five days, in all plans")
    True
    >>> was = "The leave may begin {} weeks before the expected day, and must be asked for."
    >>> same(was.format("two"), was.format("three")), same(was.format(2), was.format(3))
    (False, False)
    """
    if overlap(text, kept) < SAME:
        return False
    held = iter(_figures(kept))
    return all(figure in held for figure in _figures(text))  # all of them, and in this order


def _figures(text: str) -> list[str]:
    """The words that hold a digit or name a number, in their order."""
    words = [word.lower() for word in _WORD.findall(text)]
    return [w for w in words if w in _NUMBERS or any(letter.isdigit() for letter in w)]


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

    order: one of `ORDERS`.
    compress: of each source only a part, such as `Condense` leaves; True: only the sentences that
    share a word with the query.
    dates: tells the date of each source, so that a reader of two versions can see which is newer.
    """

    count: Callable[[str], int] = field(repr=False)
    keep: int = 8
    budget: int = 1500
    order: str = BEST_FIRST
    compress: bool | Callable[[Query, Chunk], str] = False
    dates: bool = False

    def __post_init__(self) -> None:
        if self.keep < 1 or self.budget < 1:
            raise RagLabError(f"keep={self.keep}, budget={self.budget}: both must be at least 1")
        if self.order not in ORDERS:
            raise RagLabError(f"no order {self.order!r}: choose one of {', '.join(ORDERS)}")

    def assemble(self, query: Query, hits: Ranking) -> Context:
        """Fenced, numbered sources; `kept[n - 1]` is citation [n]."""
        kept: list[Hit] = []
        merged: list[tuple[Hit, str]] = []  # a kept hit, and the chunk that it stands for too
        dropped: list[Drop] = []
        room = self.budget
        for hit in hits:
            if hit.rank > self.keep:
                dropped.append(Drop(hit, f"rank {hit.rank}, cut at {self.keep}"))
                continue
            twin, why = _twin(kept, hit)
            if twin:
                dropped.append(Drop(hit, why))
                merged.append((twin, hit.chunk.chunk_id))
                continue
            cost = self.count(self._block(len(kept) + 1, hit, (), query))
            if cost > room:
                over = cost - room
                dropped.append(Drop(hit, f"over the budget by {over} tokens", cost, over))
                continue
            kept.append(hit)
            room -= cost
        placed = tuple(kept) if self.order == BEST_FIRST else at_both_ends(kept)
        blocks = [self._block(n, hit, (), query) for n, hit in enumerate(placed, start=1)]
        also: dict[int, list[str]] = {}  # place -> the chunks that stand there too
        for twin, name in merged:  # to name them takes tokens as well, so sources come first
            place = placed.index(twin)
            names = [*also.get(place, ()), name]
            block = self._block(place + 1, twin, names, query)
            cost = self.count(block) - self.count(blocks[place])
            if cost <= room:
                also[place], blocks[place] = names, block
                room -= cost
        text = "\n".join(blocks)
        spent = tuple(self.count(block) for block in blocks)
        return Context(text, placed, tuple(dropped), self.count(text), self.budget, spent)

    def _block(self, number: int, hit: Hit, also: Sequence[str], query: Query) -> str:
        chunk = hit.chunk
        named = {"number": str(number), "chunk": chunk.chunk_id, "heading": chunk.heading}
        if self.dates and chunk.updated:
            named["updated"] = chunk.updated
        if also:
            named["also"] = ", ".join(also)
        return fence("source", self._text(query, chunk), **named)

    def _text(self, query: Query, chunk: Chunk) -> str:
        if callable(self.compress):
            return self.compress(query, chunk)
        return matching(query.text, chunk.shown) if self.compress else chunk.shown


def _twin(kept: Sequence[Hit], hit: Hit) -> tuple[Hit | None, str]:
    """The kept hit that already brings what this one would, and why it does."""
    chunk = hit.chunk
    for other in kept:
        if chunk.section and (chunk.doc_id, chunk.section) == (
            other.chunk.doc_id,
            other.chunk.section,
        ):
            return other, f"same section as {other.chunk.chunk_id}"
        if same(other.chunk.shown, chunk.shown):
            return other, f"duplicate of {other.chunk.chunk_id}"
    return None, ""
