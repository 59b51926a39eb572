"""What each list of a run would cost: its tokens, and the dollars to send them.

A funnel saves money: forty hits hold thousands of tokens, and the eight that are kept hold one.
So every column of a picture says how many tokens its chunks hold, and what a language model would
charge for reading them once.  The assembler's counter counts them, in the encoder's word pieces as
a rule; a language model counts a little differently, so the price is an estimate.  What models were
really asked on the way stands beside its stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from raglab.prices import MILLION, Price
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
    return {"tokens": tokens, **_usd(tokens, 0, price)}


def called(steps: Sequence[Step], count: Callable[[str], int] | None, price: Price | None) -> Model:
    """What language models read and wrote in a stage. A kept reply states no counts: then its text
    is counted."""
    calls = [call for step in steps for call in step.calls]
    if not calls:
        return {}
    read = sum(call.input_tokens for call in calls)
    written = sum(call.output_tokens or (count(call.text) if count else 0) for call in calls)
    return {"calls": len(calls), "tokens": read + written, **_usd(read, written, price)}


def _usd(read: int, written: int, price: Price | None) -> Model:
    if price is None:
        return {}
    return {"usd": short((read * price.input + written * price.output) / MILLION)}


def short(value: float) -> float:
    """Six significant digits: more than a picture shows, a third of the bytes."""
    return float(f"{value:.6g}")
