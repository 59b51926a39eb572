"""Prints the figures that the README states: `make bench`.

SciFact (BEIR layout) is used where `RAGLAB_SCIFACT` names its folder.  Its index takes some
minutes to build the first time and is kept in the cache folder.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from chunkers import chunkers, reindexing
from rich.console import Console
from rich.table import Table
from tqdm.auto import tqdm

from raglab.evaluate.evidence import found
from raglab.evaluate.metrics import mean, ndcg, recall
from raglab.ingest.cache import cache_folder
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.corpus import read_beir
from raglab.ingest.embed import SentenceEncoder, unit
from raglab.ingest.index import Index
from raglab.ingest.manifest import fingerprint
from raglab.lab import corpus_index, default_encoder, golden_questions, open_lab
from raglab.pipeline import Pipeline
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.sparse import BM25
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Query, Ranking, Readable

CONSOLE = Console(width=110, highlight=False)
STAGES = ("dense", "sparse", "fused", "reranked")


def start() -> None:
    """What a start costs."""
    code = "import time; t = time.perf_counter(); import raglab; print(time.perf_counter() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        for _ in range(7)
    ]
    CONSOLE.print(f"import raglab: {statistics.median(seconds) * 1000:.0f} ms (median of 7)")
    open_lab("handbook", progress=False)
    second = default_encoder()
    corpus_index("handbook", second, progress=False)
    CONSOLE.print(f"a second start embeds {second.embedded} texts")


def warm_ask(pipeline: Pipeline) -> None:
    """Milliseconds in all stages, each golden question asked once of a warm pipeline."""
    traces = [pipeline.run(question.text) for question in golden_questions()]
    totals = [1000 * sum(step.seconds for step in trace.steps) for trace in traces]
    low, high = statistics.median(totals), statistics.quantiles(totals, n=20)[-1]
    CONSOLE.print(
        f"all stages of a warm query: median {low:.0f} ms, 95th percentile {high:.0f} ms, "
        f"{len(totals)} questions"
    )
    turned = replace(pipeline, fuser=RRF(k=10)).run(golden_questions()[-1].text)
    again = [step.name for step in turned.steps if not step.reused]
    CONSOLE.print(f"turning RRF's k computes anew: {', '.join(again)}")


def handbook(pipeline: Pipeline) -> None:
    """Evidence recall by kind: the share of golden quotes among the first 5 of each stage and in
    the prompt; then what the extractive generator answers and refuses."""
    table = Table("split", "kind", "questions", *(f"{s}@5" for s in STAGES), "in the prompt")
    refusals = Table("split", "unanswerable: refused", "evidence in the prompt: refused", "cited")
    for split in ("dev", "test"):
        # A turn that leans on the turns before it has to be rewritten first; that is not done yet.
        questions = [q for q in golden_questions(split=split) if not q.history]
        traces = {q: replace(pipeline, allowed=Readable(q.groups)).run(q.text) for q in questions}
        answerable = [question for question in questions if question.answerable]
        kinds = [*dict.fromkeys(question.kind for question in answerable), "all"]
        for kind in kinds:
            of_kind = [q for q in answerable if kind in (q.kind, "all")]
            cells = []
            for stage in STAGES:
                shares = [
                    found(q, [hit.chunk for hit in traces[q].ranking(stage)[:5]]) for q in of_kind
                ]
                cells.append(f"{statistics.mean(shares):.2f}")
            kept = [found(q, [hit.chunk for hit in traces[q].context.kept]) for q in of_kind]
            table.add_row(split, kind, str(len(of_kind)), *cells, f"{statistics.mean(kept):.2f}")
        without = [traces[q].answer.refused for q in questions if not q.answerable]
        reached = [
            q for q in answerable if found(q, [hit.chunk for hit in traces[q].context.kept]) > 0
        ]
        refused = [traces[q].answer.refused for q in reached]
        cited = [
            any(
                quote.quote in citation.quote or citation.quote in quote.quote
                for quote in q.evidence
                for citation in traces[q].answer.citations
            )
            for q in reached
        ]
        refusals.add_row(split, *(f"{sum(x)} of {len(x)}" for x in (without, refused, cited)))
    CONSOLE.print("\nhandbook: share of the golden quotes found (few questions: read with care)")
    CONSOLE.print(table)
    CONSOLE.print("extractive answers; `cited` counts answers that cite a golden quote")
    CONSOLE.print(refusals)


def float16(pipeline: Pipeline) -> None:
    """What storing token vectors in half the bytes does to the reranked order."""
    reranker = pipeline.reranker
    assert isinstance(reranker, LateInteraction)
    index, encoder = reranker.index, SentenceEncoder()
    exact = []
    for chunk in tqdm(index.chunks, desc="float32 token vectors", unit="chunk"):
        (row,) = encoder._network.encode([chunk.indexed_text], output_value=None)
        exact.append(
            unit(row["token_embeddings"].numpy()[1 : 1 + len(encoder.spans(chunk.indexed_text))])
        )
    whole = replace(reranker, index=replace(index, tokens=np.concatenate(exact)))
    same, moved, questions = 0, 0.0, golden_questions()
    for question in questions:
        trace = pipeline.run(question.text)
        half, full = trace.ranking("reranked"), whole.rerank(trace.query, trace.ranking("fused"))
        same += [h.chunk for h in half[:10]] == [h.chunk for h in full[:10]]
        scores = {hit.chunk.chunk_id: hit.score for hit in full}
        moved = max(moved, *(abs(hit.score - scores[hit.chunk.chunk_id]) for hit in half))
    CONSOLE.print(
        f"float16 token vectors against float32: the first 10 are the same for {same} of "
        f"{len(questions)} questions, and no score moves by more than {moved:.4f}"
    )


def scifact(folder: Path) -> None:
    """nDCG@10 and recall@5 of each stage; each document is one chunk: title, space, text."""
    documents, queries, qrels = read_beir(folder)
    encoder, chunker = SentenceEncoder(), WholeDocument()
    wanted = fingerprint(documents, chunker, encoder)
    place = cache_folder() / "indexes" / f"scifact-{wanted[:16]}"
    if not place.exists():
        Index.build(documents, chunker, encoder, progress=True).save(place)
    index = Index.load(place, expect=wanted)
    size = sum(path.stat().st_size for path in place.iterdir()) / 2**20
    CONSOLE.print(
        f"\nSciFact: {index.manifest.documents} documents, {len(queries)} queries, index "
        f"{size:.0f} MB with float16 token vectors; {index.manifest.truncated} documents run past "
        f"the encoder's {index.manifest.limit} word pieces"
    )
    dense, bm25 = Dense(index, encoder), BM25(index.chunks)
    plain = BM25(index.chunks, Tokenizer(stem=False))
    reranker = LateInteraction(index, encoder)
    runs: dict[str, dict[str, Sequence[str]]] = {}
    seconds: dict[str, list[float]] = {}

    def timed(name: str, query: Query, call: Callable[[], Ranking]) -> Ranking:
        began = time.perf_counter()
        hits = call()
        seconds.setdefault(name, []).append(time.perf_counter() - began)
        runs.setdefault(name, {})[query.query_id] = [hit.chunk.doc_id for hit in hits]
        return hits

    for query in tqdm(queries, desc="SciFact", unit="query"):
        lists: Mapping[str, Ranking] = {
            "dense": timed("dense", query, lambda q=query: dense.retrieve(q, 100)),
            "sparse": timed("BM25, stems", query, lambda q=query: bm25.retrieve(q, 100)),
        }
        timed("BM25, whole words", query, lambda q=query: plain.retrieve(q, 100))
        fused = timed("RRF of dense and stems", query, lambda x=lists: RRF().fuse(x))
        for name, reranked in (
            ("late interaction, blended", reranker),
            ("late interaction, in place of the first stage", replace(reranker, first=0.0)),
        ):
            timed(name, query, lambda r=reranked, q=query, f=fused: r.rerank(q, f))
    table = Table("run", "nDCG@10", "R@5", "ms a query")
    for name, run in runs.items():
        cost = 1000 * statistics.median(seconds[name])
        scores = (mean(ndcg, run, qrels, 10), mean(recall, run, qrels, 5))
        table.add_row(name, *(f"{score:.4f}" for score in scores), f"{cost:.1f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    start()
    pipeline = open_lab("handbook", progress=False)
    warm_ask(pipeline)
    handbook(pipeline)
    float16(pipeline)
    chunkers(CONSOLE)
    reindexing(CONSOLE)
    given = os.environ.get("RAGLAB_SCIFACT")
    if given:
        scifact(Path(given))
    else:
        CONSOLE.print("\nSciFact: set RAGLAB_SCIFACT to its folder (BEIR layout) to measure it")
