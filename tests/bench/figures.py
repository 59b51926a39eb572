"""Prints the figures that the README states: `make bench`.

SciFact (BEIR layout) is used where `RAGLAB_SCIFACT` names its folder.  Its index takes some
minutes to build the first time and is kept in the cache folder.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from chunkers import chunkers, reindexing
from collected import SCIFACT, scifact
from rich.console import Console
from rich.table import Table
from tqdm.auto import tqdm

from raglab.evaluate.claims import agreement, read_claims
from raglab.evaluate.evidence import found
from raglab.evaluate.intervals import interval
from raglab.evaluate.judge import OfflineJudge
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.lab import corpus_index, default_encoder, golden_questions, open_lab, read_corpus
from raglab.pipeline import Pipeline
from raglab.presets import DATA, preset_pipeline
from raglab.retrieve.fuse import RRF
from raglab.retrieve.sparse import BM25
from raglab.types import Ranking, Readable

CONSOLE = Console(width=110, highlight=False)
STAGES = ("dense", "sparse", "fused", "reranked")
ANSWERS = ("answers with a golden statement", "golden statements among the cited")


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
    refusals = Table("split", "unanswerable: refused", "evidence in the prompt: refused", *ANSWERS)
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
        # Of each answer, which of its statements hold a golden quote, or stand in one.
        golden = [
            [
                any(
                    evidence.quote in citation.quote or citation.quote in evidence.quote
                    for evidence in q.evidence
                )
                for citation in traces[q].answer.citations
            ]
            for q in reached
            if not traces[q].answer.refused
        ]
        statements = [one for answer in golden for one in answer]
        shares = (without, refused, [any(answer) for answer in golden], statements)
        refusals.add_row(split, *map(_share, shares))
    CONSOLE.print("\nhandbook: share of the golden quotes found (few questions: read with care)")
    CONSOLE.print(table)
    CONSOLE.print("extractive answers")
    CONSOLE.print(refusals)


def _share(flags: Sequence[bool]) -> str:
    """ "2 of 3, 0.67 [...]": the count, and the share with its 95% interval."""
    return f"{sum(flags)} of {len(flags)}, {interval([float(flag) for flag in flags])}"


def judging(encoder: SentenceEncoder) -> None:
    """How often the offline judge agrees with the labelled claims."""
    documents = read_corpus("handbook")
    for split in ("dev", "test"):
        claims = read_claims(DATA / "golden" / "claims.jsonl", split)
        CONSOLE.print(f"\noffline judge, {split} claims: rows are the labels, columns the verdicts")
        CONSOLE.print(str(agreement(OfflineJudge(encoder), claims, documents)))


def opening(encoder: SentenceEncoder) -> None:
    """SciFact's index: its bytes on disk, the seconds to open it, and the milliseconds of a query
    whose encoding is at hand, by stage."""
    index, test = scifact(encoder, "test")
    assert index.folder is not None
    BM25.of(index).search("warm up", 1)  # writes the words beside the index, the first time
    size = sum(path.stat().st_size for path in index.folder.iterdir()) / 2**20
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        opened = Index.load(index.folder)
        BM25.of(opened).search("warm up", 1)
        seconds.append(time.perf_counter() - began)
    CONSOLE.print(
        f"SciFact's index, {len(index.chunks)} chunks: {size:.0f} MB with token vectors and words, "
        f"opened in {statistics.median(seconds):.2f} s (median of 5, with the first search)"
    )
    spent: dict[str, list[float]] = {}
    reranked, learned = (preset_pipeline(n, index, encoder, k=100) for n in ("reranked", "learned"))
    for query in tqdm(test.queries, desc="SciFact, by stage", unit="query"):
        encoder.encode_query(query.text)

        def timed(name: str, call: Callable[[], Ranking]) -> Ranking:
            began = time.perf_counter()
            hits = call()
            spent.setdefault(name, []).append(1000 * (time.perf_counter() - began))
            return hits

        lists = {
            name: timed(name, lambda r=one, q=query: r.retrieve(q, 100))
            for name, one in reranked.retrievers.items()
        }
        fused = timed("fused", lambda x=lists: RRF().fuse(x))
        for name, pipeline in (("reranked", reranked), ("learned", learned)):
            timed(name, lambda p=pipeline, q=query, f=fused: p.reranker.rerank(q, f))
    whole = {
        name: [sum(row) for row in zip(*(spent[s] for s in (*STAGES[:3], name)), strict=True)]
        for name in ("reranked", "learned")
    }
    table = Table("stage", "median ms", "95th percentile")
    for name, row in {**spent, **{f"all, {n}": row for n, row in whole.items()}}.items():
        table.add_row(
            name, f"{statistics.median(row):.1f}", f"{statistics.quantiles(row, n=20)[-1]:.1f}"
        )
    CONSOLE.print(table)


if __name__ == "__main__":
    start()
    pipeline = open_lab("handbook", progress=False)
    warm_ask(pipeline)
    handbook(pipeline)
    judging(default_encoder())
    chunkers(CONSOLE)
    reindexing(CONSOLE)
    if SCIFACT:
        opening(SentenceEncoder())
    else:
        CONSOLE.print("\nSciFact: set RAGLAB_SCIFACT to its folder (BEIR layout) to measure it")
