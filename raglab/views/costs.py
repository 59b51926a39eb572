"""What each list of a run would cost: its tokens, and the dollars to send them.

A funnel saves money: forty hits hold thousands of tokens, and the eight that are kept hold one.
So every column of a picture says how many tokens its chunks hold, and what a language model would
charge for reading them once.  The assembler's counter counts them, in the encoder's word pieces as
a rule; a language model counts a little differently, so the price is an estimate.  What models were
really asked on the way stands beside its stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from raglab.prices import MILLION, Price, after_call
from raglab.trace import Step
from raglab.types import Context, Ranking

Model = dict[str, Any]


def cost(step: Step, count: Callable[[str], int] | None, price: Price | None) -> Model:
    """The tokens of a list's chunks, and the dollars of reading them once as a prompt."""
    if isinstance(step.output, Context):
        tokens = step.output.tokens
    elif count:
        tokens = sum(count(hit.chunk.shown) for hit in cast(Ranking, step.output))
    else:
        return {}
    return {"tokens": tokens, **_usd(tokens, price)}


def called(steps: Sequence[Step], count: Callable[[str], int] | None, price: Price | None) -> Model:
    """What language models read and wrote in a stage. A kept reply states no counts: then its text
    is counted."""
    calls = [call for step in steps for call in step.calls]
    if not calls:
        return {}
    counted = [
        replace(call, output_tokens=call.output_tokens or (count(call.text) if count else 0))
        for call in calls
    ]
    tokens = sum(
        call.input_tokens + call.cache_write_tokens + call.cache_read_tokens + call.output_tokens
        for call in counted
    )
    told: Model = {"calls": len(calls), "tokens": tokens}
    if price:
        told["usd"] = short(sum(after_call(price, call).usd for call in counted))
    return told


def _usd(read: int, price: Price | None) -> Model:
    return {"usd": short(read * price.input / MILLION)} if price else {}


def short(value: float) -> float:
    """Six significant digits: more than a picture shows, a third of the bytes."""
    return float(f"{value:.6g}")
