"""From scores to a ranking: one rule for ties, one place where parts become a score.

Every scorer of the lab ends here, so all agree: higher scores first, equal scores in order of
chunk_id, ranks from 1, and a score that is the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.types import Allowed, Chunk, Hit, Part, Ranking

Mask = NDArray[np.bool_]
DIGITS = 6
"""float32 holds seven digits, and the seventh depends on the order in which a matrix product
adds.  Similarities are rounded to six, so that equal texts tie on every machine."""


def rank(scored: Iterable[tuple[Chunk, Sequence[Part]]], k: int | None = None) -> Ranking:
    """Hits in order, at most k of them. The score of each is the sum of its parts.

    >>> a, b = (Chunk(name, "doc", "", 0, 0) for name in ("a", "b"))
    >>> ranking = rank([(b, [Part("x", 1)]), (a, [Part("x", 1)])])
    >>> [(hit.chunk.chunk_id, hit.score, hit.rank) for hit in ranking]
    [('a', 1, 1), ('b', 1, 2)]
    """
    rows = [(sum(part.value for part in parts), chunk, tuple(parts)) for chunk, parts in scored]
    rows.sort(key=lambda row: (-row[0], row[1].chunk_id))
    return tuple(
        Hit(chunk, score, position, parts)
        for position, (score, chunk, parts) in enumerate(rows[:k], start=1)
    )


def top(scores: NDArray[Any], k: int, chunks: Sequence[Chunk], eligible: Mask) -> list[int]:
    """Rows of the k best eligible scores, best first, ties in order of chunk_id.

    A partial sort finds the k-th best score; all rows that reach it are then sorted, so that a
    tie at the cut falls as the rule says and not as the partial sort happened to leave it.
    """
    if k < 1:
        raise ValueError(f"k is {k}: ask for at least 1 hit")
    rows = np.flatnonzero(eligible)
    if len(rows) > k:
        worst = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= worst]
    return sorted(rows.tolist(), key=lambda row: (-scores[row], chunks[row].chunk_id))[:k]


def mask(chunks: Sequence[Chunk], allowed: Allowed | None) -> Mask:
    """bool [n], read-only: which chunks the reader may see.

    The masks of the last few filters are kept, so that a filter is asked about each chunk once and
    not once a query.  That needs a filter that is a value, a frozen dataclass such as `Readable`: a
    function may look at something that changes, and is asked every time.
    """
    if allowed is None:
        return _sealed(np.ones(len(chunks), bool))
    if isinstance(chunks, tuple) and _is_value(allowed):
        return _kept(_Same(chunks), allowed)
    return _asked(chunks, allowed)


def _asked(chunks: Sequence[Chunk], allowed: Allowed) -> Mask:
    return _sealed(np.fromiter((allowed(chunk) for chunk in chunks), bool, len(chunks)))


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A tuple as a key: equal to itself alone, and hashed without a look at its members.

    It holds the tuple, so that no other one can be given the same id while the key lives.
    """

    chunks: tuple[Chunk, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.chunks is other.chunks

    def __hash__(self) -> int:
        return id(self.chunks)


@lru_cache(maxsize=32)
def _kept(same: _Same, allowed: Allowed) -> Mask:
    return _asked(same.chunks, allowed)


def _is_value(allowed: object) -> bool:
    parameters = getattr(allowed, "__dataclass_params__", None)
    if not getattr(parameters, "frozen", False):
        return False
    try:
        hash(allowed)
    except TypeError:  # a list in a field: it could change
        return False
    return True


def _sealed(found: Mask) -> Mask:
    found.setflags(write=False)
    return found


def z_scores(values: Sequence[float]) -> list[float]:
    """(value - mean) / standard deviation; all 0 where the values are all the same.

    >>> z_scores([1.0, 3.0])
    [-1.0, 1.0]
    """
    array = np.asarray(values, float)
    spread = float(array.std()) if len(array) else 0.0
    if spread < 1e-12:
        return [0.0] * len(array)
    return [float(value) for value in (array - array.mean()) / spread]
