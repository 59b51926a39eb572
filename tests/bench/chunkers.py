"""The lab's recursive chunker beside two well-known ones, on the same text and token counter.

Part of `make bench`; needs the extra `bench`.  Printed: seconds as ratios measured in one run, and
the share of the golden quotes that some chunk holds whole.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from raglab.evaluate.chunking import kept_whole
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.ingest.recursive import Recursive
from raglab.lab import default_encoder, golden_questions, read_corpus
from raglab.types import Chunk, Document

Split = Callable[[str], Sequence[str]]
SIZE = 200
ROUNDS = 3


def splitters(encoder: SentenceEncoder) -> dict[str, Split]:
    import semchunk
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    ours = Recursive(encoder.spans, size=SIZE, overlap=0)
    langchain = RecursiveCharacterTextSplitter(
        chunk_size=SIZE, chunk_overlap=0, length_function=encoder.count
    )
    semantic = semchunk.chunkerify(encoder.count, SIZE)
    return {
        "raglab, recursive": lambda text: [c.text for c in ours.chunk(Document("d", text))],
        "langchain-text-splitters": langchain.split_text,
        "semchunk": lambda text: semantic(text),
    }


def chunkers(console: Console) -> None:
    """Seconds (median of three rounds, in turn) and quotes kept whole, without overlap."""
    encoder = default_encoder()
    for corpus in ("handbook", "python"):
        documents = read_corpus(corpus)
        questions = [question for question in golden_questions(corpus) if question.evidence]
        seconds: dict[str, list[float]] = {}
        chunks: dict[str, list[Chunk]] = {}
        for _ in range(ROUNDS):
            for name, split in splitters(encoder).items():
                began = time.perf_counter()
                found = [
                    Chunk(f"{document.doc_id}#{number}", document.doc_id, text, 0, len(text))
                    for document in documents
                    for number, text in enumerate(split(document.text))
                ]
                seconds.setdefault(name, []).append(time.perf_counter() - began)
                chunks[name] = found
        base = statistics.median(seconds["langchain-text-splitters"])
        table = Table("chunker", "chunks", "time beside langchain's", "quotes whole")
        for name, times in seconds.items():
            ratio = statistics.median(times) / base
            whole = kept_whole(chunks[name], questions)
            table.add_row(name, str(len(chunks[name])), f"{ratio:.2f}", f"{whole:.3f}")
        console.print(f"\nchunking {corpus}: {len(documents)} documents, at most {SIZE} pieces")
        console.print(table)


def reindexing(console: Console) -> None:
    """One edited document against a full build, with no cache to help either."""
    documents = list(read_corpus("handbook"))[:100]
    encoder = SentenceEncoder()
    chunker = Recursive(encoder.spans)
    encoder.embed(["warm up"])
    began = time.perf_counter()
    full = Index.build(documents, chunker, encoder)
    whole = time.perf_counter() - began
    middle = len(documents) // 2
    edited = replace(documents[middle], text=documents[middle].text + "\n\nOne more sentence.")
    documents[middle] = edited
    ratios = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        full.update(documents, chunker, encoder)
        ratios.append((time.perf_counter() - began) / whole)
    console.print(
        f"\nediting one document of {len(documents)}: "
        f"{100 * statistics.median(ratios):.1f}% of the time of a full build"
    )
