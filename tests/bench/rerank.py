"""Trains the learned reranker, judges it beside its rivals, and keeps weights and figures.

    RAGLAB_SCIFACT=FOLDER python tests/bench/rerank.py

Writes data/rerank/weights.json and data/measured/scifact.json.  Weights come from SciFact's train
split and the golden sets' dev questions; every figure is of test questions.  To see what they do on
a collection that they never saw, they are also trained with that collection left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any, NamedTuple

from collected import SCIFACT, keep, scifact
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from raglab.benchmarks import open_benchmark
from raglab.evaluate.benchmark import Benchmark, measured, runs
from raglab.evaluate.intervals import interval
from raglab.evaluate.significance import compare
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.lab import default_encoder
from raglab.presets import DATA, preset_pipeline
from raglab.retrieve.learned import Learned, Weights, train
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.signals import Signals
from raglab.retrieve.sparse import BM25

DEPTH, K = 50, 100
MEASURES = ("nDCG@10", "R@5")
CONSOLE = Console()


class Collection(NamedTuple):
    name: str
    index: Index
    learn: Benchmark
    judge: Benchmark


def examples(one: Collection, encoder: SentenceEncoder) -> list[Any]:
    """(signals, relevant rows) of the first DEPTH of RRF, for each question to learn from."""
    hybrid = preset_pipeline("hybrid", one.index, encoder, k=K)
    signals = Signals(one.index, encoder, BM25.of(one.index))
    made = []
    for query in tqdm(one.learn.queries, desc=f"signals, {one.name}", unit="query"):
        quiet = replace(hybrid, allowed=one.learn.allowed[query.query_id])
        lists = {n: r.retrieve(query, K, quiet.allowed) for n, r in quiet.retrievers.items()}
        hits = quiet.fuser.fuse(lists)[:DEPTH]
        judged = one.learn.qrels[query.query_id]
        name = (lambda c: c.chunk_id) if one.learn.unit == "chunk" else (lambda c: c.doc_id)
        relevant = [row for row, hit in enumerate(hits) if judged.get(name(hit.chunk), 0) > 0]
        made.append((signals(query, hits), relevant))
    return made


def judge(
    one: Collection, encoder: SentenceEncoder, learned: Mapping[str, Weights]
) -> dict[str, dict[str, dict[str, float]]]:
    """run -> measure -> query_id -> value."""
    made = {n: preset_pipeline(n, one.index, encoder, k=K) for n in ("dense", "sparse", "hybrid")}
    late = LateInteraction(one.index, encoder, DEPTH)
    signals = Signals(one.index, encoder, BM25.of(one.index))
    rerankers = {"late interaction, replacing": replace(late, first=0.0), "late interaction": late}
    rerankers |= {name: Learned(signals, weights, DEPTH) for name, weights in learned.items()}
    made |= {name: replace(made["hybrid"], reranker=one) for name, one in rerankers.items()}
    found = runs(made, one.judge, K, progress=True)
    return {name: measured(run, one.judge.qrels) for name, run in found.items()}


def main() -> None:
    encoder = default_encoder()
    collections = []
    for name, learn, opened in (
        ("SciFact", "train", scifact),
        ("handbook", "dev", lambda e, split: open_benchmark("handbook", e, split=split)),
        ("python", "dev", lambda e, split: open_benchmark("python", e, split=split)),
    ):
        index, learned = opened(encoder, learn)
        collections.append(Collection(name, index, learned, opened(encoder, "test")[1]))
    taught = {one.name: examples(one, encoder) for one in collections}
    said = {one.name: f"{len(one.learn.queries)} questions of {one.name}" for one in collections}
    weights = train([e for made in taught.values() for e in made], ", ".join(said.values()))
    weights.save(DATA / "rerank" / "weights.json")
    CONSOLE.print(f"trained on {weights.trained_on}:", dict(weights.named))

    figures: dict[str, Any] = {}
    for one in collections:
        others = [e for name, made in taught.items() if name != one.name for e in made]
        rivals = {
            "learned": weights,
            "learned without it": train(others, f"all but {one.name}"),
            "learned on it alone": train(taught[one.name], said[one.name]),
        }
        figures[one.name] = report(one, judge(one, encoder, rivals))
    keep("rerank", {"depth": DEPTH, "k": K, "collections": figures}, ("sentence-transformers",))


def report(one: Collection, values: Mapping[str, Any]) -> dict[str, Any]:
    table = Table("run", *MEASURES, *(f"{m} against RRF" for m in MEASURES), title=one.name)
    kept: dict[str, Any] = {}
    for name, by_measure in values.items():
        means = {m: interval(list(by_measure[m].values())) for m in MEASURES}
        against = {m: compare(values["hybrid"][m], by_measure[m]) for m in MEASURES}
        table.add_row(
            name,
            *(f"{means[m].value:.4f} [{means[m].low:.3f}, {means[m].high:.3f}]" for m in MEASURES),
            *(str(against[m]) if name != "hybrid" else "" for m in MEASURES),
        )
        kept[name] = {
            m: {
                "mean": round(mean(by_measure[m].values()), 4),
                "low": round(means[m].low, 4),
                "high": round(means[m].high, 4),
                "p_against_hybrid": round(against[m].p, 4),
            }
            for m in MEASURES
        }
    CONSOLE.print(table)
    return {"questions": len(one.judge.queries), "runs": kept}


if __name__ == "__main__":
    if not SCIFACT:
        raise SystemExit("set RAGLAB_SCIFACT to SciFact's folder (BEIR layout)")
    main()
