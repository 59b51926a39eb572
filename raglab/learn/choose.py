"""Which chunks are worth asking about.

A guess that can only be a coin's throw teaches nothing.  So the chunks to put in order

    are ones that the learner can see: in the lists that the stage reads; a retriever reads the
        index, so there its own hits are shown
    begin with the stage's first, and are spread over the ranks after it
    hold the chunk with the answer, where it is there
    and are, where there is a choice, chunks whose order the stage turns round.

A stage that hands on the order which it read is not asked about: there is nothing to predict.

In the prompt, the order is: the chunks that are in it, then those left out, by their rank.  What is
predicted there is what the assembler takes out.

Left out: how hard a question is for this learner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from raglab.learn.lists import read, returned
from raglab.trace import Step, Trace
from raglab.types import Context, Hit, Ranking

Places = Mapping[str, int]  # chunk id -> where it stands in a list


def chosen(
    trace: Trace, step: Step, evidence: Collection[str] = (), n: int = 5
) -> tuple[Ranking, int]:
    """At most n hits in the order to predict, and how many pairs of them a list that the step read
    has the other way round; no hits where there is nothing to predict."""
    lists = read(trace, step).values()
    before = [{hit.chunk.chunk_id: at for at, hit in enumerate(hits)} for hits in lists]
    order = _candidates(step, before, evidence)
    if len(before) == 1 and _ids(order) == sorted(_ids(order), key=before[0].__getitem__):
        return (), 0
    held = [row for row, chunk_id in enumerate(_ids(order)) if chunk_id in evidence]
    found = _spread(order, n, [0, *held[:1]], before)
    if not _turned(found, before) and (widest := _turned(order, before)):
        found = _spread(order, n, [0, *held[:1], *widest[-1]], before)
    return found, len(_turned(found, before))


def shuffled(truth: Sequence[str], seed: str) -> tuple[str, ...]:
    """In an order that depends on the seed alone, and is not that of `truth` where there are two.

    >>> shuffled(("a", "b", "c"), "1"), shuffled(("a", "b", "c"), "2")
    (('b', 'c', 'a'), ('c', 'b', 'a'))
    """

    def key(chunk_id: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{chunk_id}".encode("utf-8", "surrogatepass")).digest()

    order = sorted(truth, key=key)
    return tuple(order if order != list(truth) else order[1:] + order[:1])


def _candidates(step: Step, before: Sequence[Places], evidence: Collection[str]) -> list[Hit]:
    """The chunks that may be asked about, in the order to predict."""
    order = {hit.chunk.chunk_id: hit for hit in returned(step)}
    if before:
        order = {key: hit for key, hit in order.items() if any(key in places for places in before)}
    if isinstance(step.output, Context):
        # As many ranks below the last one kept as down to it: what lies deeper is no riddle.
        deep = 2 * max((hit.rank for hit in step.output.kept), default=0)
        if not deep:
            return []
        order = {key: hit for key, hit in order.items() if hit.rank <= deep or key in evidence}
    return list(order.values())


def _spread(
    order: Sequence[Hit], n: int, wanted: Sequence[int], before: Sequence[Places]
) -> Ranking:
    """The wanted rows, and one from each of n - 1 bands of those after the first: one that is not
    tied with those taken so far, nor next to them, and that the stage moved past most of them."""
    if len(order) <= n:
        return tuple(order)
    ids = _ids(order)
    taken = set(wanted[:n])

    def turns(row: int, others: Iterable[int]) -> int:
        pairs = ((ids[min(row, other)], ids[max(row, other)]) for other in others)
        return sum(_turns(above, below, before) for above, below in pairs)

    def worth(row: int, middle: float) -> tuple[float, ...]:
        return (
            all(order[row].score != order[other].score for other in taken),
            all(abs(row - other) > 1 for other in taken),
            turns(row, taken),
            turns(row, range(len(order))),
            -abs(row - middle),
        )

    last = len(order) - 1
    for band in range(n - 1):
        rows = range(1 + band * last // (n - 1), 1 + (band + 1) * last // (n - 1))
        if len(taken) < n and not any(row in rows for row in taken):
            middle = (rows[0] + rows[-1]) / 2
            taken.add(max(rows, key=lambda row: worth(row, middle)))
    return tuple(order[row] for row in sorted(taken))


def _turned(order: Sequence[Hit], before: Sequence[Places]) -> list[tuple[int, int]]:
    """Pairs of rows that a list has the other way round, the furthest apart last."""
    ids = _ids(order)
    pairs = combinations(range(len(order)), 2)
    return sorted(
        ((a, b) for a, b in pairs if _turns(ids[a], ids[b], before)), key=lambda ab: ab[1] - ab[0]
    )


def _turns(above: str, below: str, before: Sequence[Places]) -> bool:
    """Does a list that holds both have them the other way round?"""
    return any(
        places[below] < places[above] for places in before if above in places and below in places
    )


def _ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]
