"""How small may token vectors be: quality, bytes and time of eight ways to keep them.

    RAGLAB_SCIFACT=FOLDER python tests/bench/storage.py

Writes data/measured/tokens.json.  Each way reranks the first 50 of RRF for the test claims, by
MaxSim alone (`replacing`) and blended with RRF, as the lab's default does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import mean, median
from typing import Any

import numpy as np
from collected import SCIFACT, keep, scifact
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from raglab.evaluate.benchmark import Benchmark
from raglab.evaluate.metrics import ndcg
from raglab.ingest.compact import Compact
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.presets import preset_pipeline
from raglab.retrieve.ranking import z_scores

DEPTH = 50
Dots = Callable[[slice, NDArray[Any]], NDArray[Any]]  # rows, query [q, d] -> [t, q]
CONSOLE = Console()


def ways(exact: NDArray[np.float16]) -> dict[str, tuple[float, Dots]]:
    """name -> bytes a token, and how its products with a query are taken."""
    made: dict[str, tuple[float, Dots]] = {
        "float16": (2.0 * exact.shape[1], lambda at, q: exact[at].astype(np.float32) @ q.T)
    }
    made["8 bits"] = _int8(exact, None)
    sample = exact[:: max(1, len(exact) // 60_000)].astype(np.float32)
    axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1].astype(np.float32)
    for width in (256, 192, 128, 64):
        made[f"8 bits, {width} dimensions (PCA)"] = _int8(exact, axes[:, :width])
    small = _by_blocks(exact, Compact.of)
    compact = Compact.joined(small, exact.shape[1])
    made["4 bits (the lab's)"] = (
        (compact.codes.nbytes + compact.scales.nbytes) / len(compact),
        lambda at, q: compact[at].dots(q),
    )
    return made


def _int8(exact: NDArray[np.float16], axes: NDArray[np.float32] | None) -> tuple[float, Dots]:
    def quantized(block: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
        block = block.astype(np.float32)
        turned = block if axes is None else block @ axes
        scales = np.abs(turned).max(axis=1, keepdims=True) / 127
        return np.round(turned / np.maximum(scales, 1e-9)).astype(np.int8), scales.astype(
            np.float16
        )

    blocks = _by_blocks(exact, quantized)
    codes = np.concatenate([block for block, _ in blocks])
    scales = np.concatenate([scale for _, scale in blocks])

    def dots(at: slice, query: NDArray[Any]) -> NDArray[Any]:
        turned = query if axes is None else query @ axes
        return codes[at].astype(np.float32) @ turned.T * scales[at].astype(np.float32)

    return (codes.nbytes + scales.nbytes) / len(codes), dots


def _by_blocks(exact: NDArray[Any], act: Callable[[NDArray[Any]], Any]) -> list[Any]:
    return [act(exact[start : start + 50_000]) for start in range(0, len(exact), 50_000)]


def measure(
    index: Index, benchmark: Benchmark, exact: NDArray[np.float16], encoder: SentenceEncoder
) -> list[dict[str, Any]]:
    hybrid = preset_pipeline("hybrid", index, encoder, k=100)
    candidates = []
    for query in tqdm(benchmark.queries, desc="candidates", unit="query"):
        lists = {n: r.retrieve(query, 100, None) for n, r in hybrid.retrievers.items()}
        hits = hybrid.fuser.fuse(lists)[:DEPTH]
        tokens = encoder.encode_query(query.text).tokens.astype(np.float32)
        candidates.append((benchmark.qrels[query.query_id], hits, tokens))
    rows = []
    for name, (size, dots) in ways(exact).items():
        figures: Mapping[str, list[float]] = {"replacing": [], "blended": [], "ms": []}
        for judged, hits, tokens in candidates:
            began = time.perf_counter()
            sums = []
            for hit in hits:
                row = index.rows[hit.chunk.chunk_id]
                at = slice(int(index.offsets[row]), int(index.offsets[row + 1]))
                sums.append(float(dots(at, tokens).max(axis=0).sum()))
            figures["ms"].append(1000 * (time.perf_counter() - began))
            blend = np.add(z_scores(sums), z_scores([hit.score for hit in hits]))
            for way, scores in (("replacing", np.array(sums)), ("blended", blend)):
                order = np.argsort(-scores, kind="stable")
                ranked = [hits[place].chunk.doc_id for place in order]
                figures[way].append(ndcg(ranked, judged, 10))
        rows.append(
            {
                "way": name,
                "bytes_per_token": round(size, 1),
                "ndcg10_replacing": round(mean(figures["replacing"]), 4),
                "ndcg10_blended": round(mean(figures["blended"]), 4),
                "ms_per_query": round(median(figures["ms"]), 1),
            }
        )
    return rows


def report(rows: list[dict[str, Any]], index: Index) -> None:
    table = Table(*rows[0], title="token vectors, SciFact test")
    for row in rows:
        table.add_row(*map(str, row.values()))
    CONSOLE.print(table)
    note = (
        f"SciFact (Wadden et al. 2020), 300 test claims, the first {DEPTH} of RRF; a document a "
        "chunk; milliseconds of MaxSim alone, chunk by chunk, for comparing the rows"
    )
    tokens = int(index.offsets[-1])
    keep("tokens", {"note": note, "tokens": tokens, "rows": rows}, ("numpy",))


if __name__ == "__main__":
    if not SCIFACT:
        raise SystemExit("set RAGLAB_SCIFACT to SciFact's folder (BEIR layout)")
    plain = SentenceEncoder()
    opened, test = scifact(plain, "test")
    encodings = plain.encode([chunk.indexed_text for chunk in opened.chunks], progress=True)
    report(measure(opened, test, np.concatenate([e.tokens for e in encodings]), plain), opened)
