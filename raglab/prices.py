"""What a language model costs: a dated table that the reader can edit, and the sums made with it.

A call is priced twice: before it is made, from an estimate, and after it, from what the service
says that it counted.

A service can keep the start of a prompt and read it again at a tenth of the price, but writing it
there costs a quarter more, and a start that is shorter than `cache_least` is not kept at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raglab.types import Completion, RagLabError

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
    """A model's row of the table. Raises RagLabError where it has none.

    A service may answer with a dated name, "claude-haiku-4-5-20251001"; it costs as its plain one.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        plain = re.sub(r"-\d{8}$", "", model)
        row = table["models"][model if model in table["models"] else plain]
        price = Price(model=model, as_of=table["as_of"], **row)
        for name, value in row.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"{name} is {value!r}, and no number from 0")
        return price
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RagLabError(
            f"no price for {model!r} in {path} ({error!r}): add a row, or mend it"
        ) from error


@dataclass(frozen=True, slots=True)
class CallCost:
    """One call of a language model: its tokens by what is paid for them, and USD."""

    model: str
    input_tokens: int  # read at the full price
    output_tokens: int
    cache_write_tokens: int
    cache_read_tokens: int
    usd: float
    estimated: bool

    def __str__(self) -> str:
        """
        >>> str(before_call(Price("m", 3.0, 15.0, 3.75, 0.3, 1024, ""), 1300, 100))
        '1,300 tokens in, 100 out: $0.0054 (estimated)'
        """
        read = self.input_tokens + self.cache_write_tokens + self.cache_read_tokens
        if not read + self.output_tokens:
            return "no tokens were counted: nothing was paid"
        kept = [
            f"{count:,} {verb} the cache"
            for count, verb in (
                (self.cache_write_tokens, "written to"),
                (self.cache_read_tokens, "read from"),
            )
            if count
        ]
        of_them = f" ({' and '.join(kept)})" if kept else ""
        told = f"{read:,} tokens in{of_them}, {self.output_tokens:,} out: ${self.usd:.4f}"
        return f"{told} (estimated)" if self.estimated else told


def before_call(
    price: Price,
    input_tokens: int,
    output_tokens: int,
    *,
    shared_tokens: int = 0,
    cached: bool = False,
) -> CallCost:
    """What a call will cost, as far as it can be told before.

    input_tokens: of the whole prompt, rules and sources with it.
    output_tokens: what the reply may be long; max_tokens gives the most that it can cost.
    shared_tokens: how many of the input tokens stand before the mark for the service's cache; 0
        without a mark. Too few for the cache, they are read like the rest.
    cached: an earlier call has put them there.
    """
    kept = shared_tokens if shared_tokens >= price.cache_least else 0
    return _cost(
        price,
        input_tokens - kept,
        output_tokens,
        0 if cached else kept,
        kept if cached else 0,
        estimated=True,
    )


def after_call(price: Price, completion: Completion) -> CallCost:
    """What a call did cost, by the service's counts. A kept reply has none: it cost nothing."""
    return _cost(
        price,
        completion.input_tokens,
        completion.output_tokens,
        completion.cache_write_tokens,
        completion.cache_read_tokens,
        estimated=False,
    )


def _cost(
    price: Price, read: int, written: int, cache_write: int, cache_read: int, *, estimated: bool
) -> CallCost:
    usd = read * price.input + written * price.output
    usd += cache_write * price.cache_write + cache_read * price.cache_read
    return CallCost(price.model, read, written, cache_write, cache_read, usd / MILLION, estimated)


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
