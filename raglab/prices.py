"""What a language model costs: a dated table that the reader can edit, and the sums made with it.

A service can keep the start of a prompt and read it again at a tenth of the price, but writing it
there costs a quarter more, and a start that is shorter than `cache_least` is not kept at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raglab.types import RagLabError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens, by what happens to them. The cache keeps 5 minutes."""

    model: str
    input: float
    output: float
    cache_write: float
    cache_read: float
    cache_least: int  # tokens below which a service caches nothing, and says nothing
    as_of: str


def read_price(path: Path, model: str) -> Price:
    """A model's row of the table. Raises RagLabError where it has none."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return Price(model=model, as_of=table["as_of"], **table["models"][model])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RagLabError(f"no price for {model!r} in {path} ({error!r}): add a row") from error


@dataclass(frozen=True, slots=True)
class BlurbCost:
    """USD for one blurb a chunk, with and without a prompt cache, and what the cache could keep."""

    calls: int
    input_tokens: int  # read in all calls together, without a cache
    plain: float
    cached: float
    cacheable: int  # documents long enough for the cache
    documents: int


def blurb_cost(
    document_tokens: Sequence[int],
    chunk_tokens: Sequence[Sequence[int]],
    price: Price,
    output_tokens: int = 80,
) -> BlurbCost:
    """What blurbs for all chunks cost: each call reads its document and its chunk.

    document_tokens: a number for each document; chunk_tokens: for each document, its chunks'.
    output_tokens: what a blurb is taken to be long.

    >>> price = Price("m", input=1, output=0, cache_write=1.25, cache_read=0.1, cache_least=100,
    ...               as_of="")
    >>> cost = blurb_cost([1000], [[0] * 10], price)
    >>> round(cost.plain * MILLION), round(cost.cached * MILLION)
    (10000, 2150)
    """
    plain = cached = 0.0
    read = calls = cacheable = 0
    for document, chunks in zip(document_tokens, chunk_tokens, strict=True):
        n, own = len(chunks), sum(chunks)
        calls += n
        read += document * n + own
        rest = own * price.input + n * output_tokens * price.output
        whole = document * n * price.input
        plain += whole + rest
        if document >= price.cache_least:
            cacheable += 1
            whole = document * (price.cache_write + price.cache_read * (n - 1)) if n else 0.0
        cached += whole + rest
    documents = len(document_tokens)
    return BlurbCost(calls, read, plain / MILLION, cached / MILLION, cacheable, documents)
