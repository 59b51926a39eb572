"""What is the same for all who are timed. It runs in each one's own environment: numpy, no raglab.

A script is called with the folder that `peers.py` handed over and the file to write.  It makes its
searches, and `compared` asks each the same queries in the same order, one at a time:

    seconds     wall time from the query's text to the ranked ids, encoding included
    searching   the same with the query's vector at hand: what the encoder does not cost
    cpu         processor time of that, over all threads: what else the machine does counts less
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 2  # of encoding
WARM = 5  # queries before the clock starts; the last ones, so that no first one is remembered
Search = Callable[[str], list[str]]  # a query -> ids of documents, best first


@dataclass(frozen=True)
class Work:
    """What was handed over."""

    folder: Path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """model: the folder of the encoder; k: hits of each retriever."""
        return dict(json.loads((self.folder / "settings.json").read_text()))

    @cached_property
    def documents(self) -> list[dict[str, str]]:
        return lines(self.folder / "documents.jsonl")

    @cached_property
    def queries(self) -> list[dict[str, str]]:
        return lines(self.folder / "queries.jsonl")

    @cached_property
    def vectors(self) -> np.ndarray[Any, Any]:
        """float32 [documents, d], rows of length 1."""
        return np.load(self.folder / "vectors.npy")

    @cached_property
    def held(self) -> dict[str, list[float]]:
        """A query's text -> its vector, made beforehand."""
        rows = np.load(self.folder / "query_vectors.npy").tolist()
        return {query["text"]: row for query, row in zip(self.queries, rows, strict=True)}


@dataclass(frozen=True)
class Contender:
    """`search` encodes the query; `found` has its vector at hand."""

    name: str
    search: Search
    found: Search


def lines(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as opened:
        return [json.loads(line) for line in opened]


def given() -> Work:
    return Work(Path(sys.argv[1]))


def timed(work: Work, search: Search) -> tuple[dict[str, list[str]], list[float], list[float]]:
    """query_id -> ids, and the wall and the processor seconds of each query."""
    for query in work.queries[-WARM:]:
        search(query["text"])
    run, seconds, cpu = {}, [], []
    for query in work.queries:
        started, worked = time.perf_counter(), time.process_time()
        run[query["id"]] = search(query["text"])
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - worked)
    return run, seconds, cpu


def compared(work: Work, contenders: Iterable[Contender], packages: Sequence[str]) -> None:
    """Times each, and writes what they found, how long it took, and the versions."""
    timings = {}
    for one in contenders:
        run, seconds, _ = timed(work, one.search)
        _, searching, cpu = timed(work, one.found)
        measured = {"seconds": seconds, "searching": searching, "cpu": cpu}
        timings[one.name] = {"run": run, **measured}
    give({"systems": timings}, packages)


def rates(
    encoders: dict[str, Callable[[list[str]], object]], texts: list[str]
) -> dict[str, list[float]]:
    """Texts a second of each, once a round; every second round runs backwards."""
    for encode in encoders.values():
        encode(texts[:32])
    found: dict[str, list[float]] = {name: [] for name in encoders}
    for turn in range(ROUNDS):
        for name in list(encoders)[:: 1 if turn % 2 == 0 else -1]:
            started = time.perf_counter()
            encoders[name](texts)
            found[name].append(len(texts) / (time.perf_counter() - started))
    return found


def evenly(items: Sequence[Any], count: int) -> list[Any]:
    return [items[place * len(items) // count] for place in range(count)]


def give(figures: dict[str, Any], packages: Sequence[str]) -> None:
    versions = {package: version(package) for package in packages}
    Path(sys.argv[2]).write_text(json.dumps({**figures, "versions": versions}))


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """A check that two encoders are the same one."""
    a, b = np.asarray(one), np.asarray(other)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
