"""Hears what language models return, so that a step of a trace can show what it asked.

Left out: calls from other threads; each thread has a context of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from raglab.types import Completion

_calls: ContextVar[list[Completion] | None] = ContextVar("calls", default=None)


@contextmanager
def listen() -> Iterator[list[Completion]]:
    """Collects what models return while the block runs, so a step can show what it asked."""
    calls: list[Completion] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def heard(completion: Completion) -> Completion:
    """What every model passes its reply through. Whoever listens, the innermost, gets it."""
    calls = _calls.get()
    if calls is not None:
        calls.append(completion)
    return completion
