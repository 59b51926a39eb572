"""Prints how fast BM25 is here and in two libraries: `python tests/bench/sparse.py`.

The corpora are SciFact (BEIR layout), where `RAGLAB_SCIFACT` names its folder, else the handbook;
and 100,000 chunks made by drawing sentences from it: the frequencies of words stay real, though
no chunk makes sense.  Every engine gets the tokens of raglab's tokenizer, and a query's time
runs from its text to the 10 best, tokens included.  Engines take turns, their CPU time is counted,
and the best of the rounds is shown, so that what else the machine does counts little.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi
from rich.console import Console
from rich.table import Table

from raglab.ingest.corpus import read_beir
from raglab.lab import golden_questions, read_corpus
from raglab.retrieve.postings import Inverted
from raglab.retrieve.sparse import BM25
from raglab.retrieve.tokens import Tokenizer
from raglab.sentences import sentence_spans
from raglab.types import Chunk, Query

CONSOLE = Console(width=110, highlight=False)
K, ROUNDS, LARGE = 10, 7, 100_000
BASELINE = "rank_bm25"
Search = Callable[[Sequence[str]], object]  # queries -> whatever it finds


def corpus() -> tuple[str, list[str], list[str]]:
    """Its name, its texts, and its test queries."""
    folder = os.environ.get("RAGLAB_SCIFACT")
    if not folder:
        texts = [document.text for document in read_corpus("handbook")]
        return "handbook", texts, [question.text for question in golden_questions()]
    documents, questions, _ = read_beir(Path(folder))
    return (
        "SciFact",
        [document.text for document in documents],
        [question.text for question in questions],
    )


def drawn(texts: Sequence[str], chunks: int) -> list[str]:
    """Chunks of two to six sentences of these texts, drawn with a fixed seed."""
    sentences = [text[start:end] for text in texts for start, end in sentence_spans(text)]
    dice = random.Random(0)
    return [" ".join(dice.choices(sentences, k=dice.randint(2, 6))) for _ in range(chunks)]


def measure(name: str, texts: Sequence[str], queries: Sequence[str], slow: int) -> None:
    """A table of all engines; the baseline answers the first `slow` queries only."""
    tokenizer = Tokenizer()
    started = time.process_time()
    tokens = [tokenizer(text) for text in texts]
    words = sum(map(len, tokens))
    per_word = 1e9 * (time.process_time() - started) / words
    CONSOLE.print(
        f"\n{name}: {len(texts)} chunks, {words} tokens at {per_word:.0f} ns each, "
        f"{len(queries)} queries of {np.mean([len(tokenizer(q)) for q in queries]):.0f} tokens"
    )
    chunks = tuple(Chunk(f"c{n}", f"c{n}", text, 0, len(text)) for n, text in enumerate(texts))
    ours = BM25(chunks, tokenizer)
    ours.search(queries[0], K)  # inverts
    builds, searches = engines(tokens, tokenizer, ours)
    build_seconds = {name: timed(build) for name, build in builds.items()}
    per_query: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(ROUNDS):
        for engine, search in searches.items():
            asked = queries[:slow] if engine == BASELINE else queries
            per_query[engine].append(timed(lambda s=search, a=asked: s(a)) / len(asked))
    table = Table("engine", "index, s", "µs a query", "queries a second", f"times {BASELINE}")
    for engine, seconds in per_query.items():
        best, build = min(seconds), build_seconds.pop(engine.partition(",")[0], None)
        table.add_row(
            engine,
            f"{build:.2f}" if build else "",
            f"{1e6 * best:.0f}",
            f"{1 / best:.0f}",
            f"{min(per_query[BASELINE]) / best:.1f}",
        )
    CONSOLE.print(table)


def engines(
    tokens: list[list[str]], tokenizer: Tokenizer, ours: BM25
) -> tuple[dict[str, Callable[[], object]], dict[str, Search]]:
    """What builds each engine's index from the tokens, and what searches it."""
    slow = BM25Okapi(tokens)
    fast = {name: bm25s.BM25(method="lucene", backend=name) for name in ("numpy", "numba")}

    def index(backend: str) -> None:
        fast[backend].index(tokens, show_progress=False)

    def batch(backend: str) -> Search:
        return lambda queries: fast[backend].retrieve(
            [tokenizer(query) for query in queries], k=K, show_progress=False
        )

    def invert() -> None:
        Inverted.build(tokens)
        replace(ours, k1=1.2).search("", K)  # the copy shares an index, and computes its impacts

    builds: dict[str, Callable[[], object]] = {
        BASELINE: lambda: BM25Okapi(tokens),
        "bm25s": lambda: index("numpy"),
        "bm25s (numba)": lambda: index("numba"),
        "raglab": invert,
    }
    searches: dict[str, Search] = {
        BASELINE: lambda queries: [
            np.argsort(slow.get_scores(tokenizer(query)))[::-1][:K] for query in queries
        ],
        "bm25s": batch("numpy"),
        "bm25s (numba)": batch("numba"),
        "raglab, search": lambda queries: [ours.search(query, K) for query in queries],
        "raglab, retrieve (with parts)": lambda queries: ours.retrieve_many(
            [Query("q", query) for query in queries], K
        ),
    }
    return builds, searches


def timed(call: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    started = time.process_time()
    call()
    return time.process_time() - started


if __name__ == "__main__":
    name, texts, queries = corpus()
    measure(name, texts, queries, slow=40)
    measure(f"sentences of {name}", drawn(texts, LARGE), queries, slow=4)
