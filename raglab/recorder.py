"""Runs stages, keeps what they returned, and never does the same work twice."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from raglab.llm import listen
from raglab.trace import Output, Step, Trace
from raglab.types import Query

T = TypeVar("T")


class Recorder:
    """Runs stages and keeps what they returned. The stages do not know that it is there.

    `memo` outlives a run.  A stage that is asked again with equal settings and equal inputs is
    not run again: after a knob turns, only what lies after it is computed.
    """

    def __init__(self, memo: Memo) -> None:
        self.memo = memo
        self.steps: list[Step] = []
        self.round = 1

    def __call__(
        self,
        name: str,
        stage: str,
        call: Callable[..., T],
        *arguments: object,
        after: tuple[str, ...] = (),
    ) -> T:
        settings = repr(getattr(call, "__self__", call))
        # Not the bound method itself: Python compares those by identity, stages by value.
        owner, function = getattr(call, "__self__", None), getattr(call, "__func__", call)
        key = (owner, function, tuple(map(_hashable, arguments)))
        known = self.memo.get(key)
        if known is not None:
            done = replace(known, name=name, after=after, reused=True, round=self.round)
        else:
            started = time.perf_counter()
            with listen() as calls:
                output = call(*arguments)
            seconds = time.perf_counter() - started
            done = Step(name, stage, after, cast(Output, output), settings, tuple(calls), seconds)
            done = replace(done, round=self.round)
            self.memo.put(key, done)
        self.steps.append(done)
        return cast(T, done.output)

    def search_again(self) -> None:
        """What comes now belongs to another round."""
        self.round += 1

    def trace(self, query: Query) -> Trace:
        return Trace(query, tuple(self.steps))


class Memo:
    """The steps of the last runs, least recently used first out."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._steps: OrderedDict[object, Step] = OrderedDict()

    def get(self, key: object) -> Step | None:
        try:
            self._steps.move_to_end(key)
        except (KeyError, TypeError):  # TypeError: a stage that cannot be hashed is always run
            return None
        return self._steps[key]

    def put(self, key: object, step: Step) -> None:
        try:
            self._steps[key] = step
        except TypeError:
            return
        while len(self._steps) > self._size:
            self._steps.popitem(last=False)


def _hashable(argument: object) -> Hashable:
    return tuple(argument.items()) if isinstance(argument, Mapping) else argument
