"""What approximate indexes give up, and what for: writes data/measured/approximate.json.

    RAGLAB_SCIFACT=folder python tests/bench/approximate.py [sizes]

SciFact's vectors (BEIR layout), and more vectors made from them: as many as the sizes say, two or
more.  A million need 7 GB of memory and, on two cores, some ten minutes.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from rich.console import Console
from rich.table import Table

from raglab.files import write_whole
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.corpus import read_beir
from raglab.ingest.index import Index
from raglab.lab import default_encoder
from raglab.presets import DATA
from raglab.retrieve.approximate import agreement, exponent, perturbed
from raglab.retrieve.structures import Plan
from raglab.types import RagLabError, Vectors

CONSOLE = Console(width=110, highlight=False)
SIZES = (10_000, 100_000, 300_000, 1_000_000)
NOISE = 0.7
K = 10
THREADS = os.cpu_count() or 1
TIMED = 50  # queries whose time is taken, one by one
RESCORED = 100
GRAPH = Plan("hnsw", m=16, ef_construction=40)
WALK, LEVEL = 64, 0.9  # growth with n is fitted at this ef_search, and at this recall


def plans() -> dict[Plan, list[Plan]]:
    """What is built -> how it is searched."""
    cells, codes, cut = Plan("ivf"), Plan("ivf-pq"), Plan("flat", dimensions=128)
    return {
        Plan("flat"): [Plan("flat")],
        GRAPH: [replace(GRAPH, ef_search=ef) for ef in (8, 16, 32, WALK, 128, 256, 512, 1024)],
        cells: [replace(cells, nprobe=count) for count in (1, 2, 4, 8, 16, 32, 64)],
        codes: [
            replace(codes, nprobe=count, rescored=r) for r in (0, RESCORED) for count in (8, 32)
        ],
        Plan("sq8"): [Plan("sq8")],
        Plan("bits"): [Plan("bits"), Plan("bits", rescored=RESCORED)],
        Plan("flat", dimensions=256): [Plan("flat", dimensions=256)],
        cut: [cut, replace(cut, rescored=RESCORED)],
        Plan("flat", dimensions=64): [Plan("flat", dimensions=64)],
    }


def settings(plan: Plan) -> dict[str, int]:
    """The knobs that this plan looks at."""
    of_kind = {
        "hnsw": ("m", "ef_construction", "ef_search"),
        "ivf": ("nprobe",),
        "ivf-pq": ("pieces", "bits", "nprobe"),
    }
    names = (*of_kind.get(plan.kind, ()), *(n for n in ("dimensions", "rescored") if vars(plan)[n]))
    return {name: vars(plan)[name] for name in names}


def measured(vectors: Vectors, queries: Vectors, source: str) -> Iterable[dict[str, Any]]:
    """A row for each way of searching."""
    exact = Plan("flat").build(vectors).search(queries, K)[1]
    for plan, searches in plans().items():
        began = time.process_time()
        built = plan.build(vectors, threads=THREADS if plan.kind in ("hnsw", "ivf") else 1)
        seconds = time.process_time() - began
        size = built.bytes_per_vector
        for search in searches:
            turned = replace(built, plan=search)
            times = []
            for query in queries[:TIMED]:
                began = time.thread_time()  # a busy machine takes longer, and works no more
                turned.search(query[None, :], K)
                times.append(time.thread_time() - began)
            yield {
                "vectors": source,
                "n": len(vectors),
                "structure": search.kind,
                "settings": settings(search),
                "recall@10": round(agreement(exact, turned.search(queries, K)[1][:, :K]), 4),
                "cpu_ms": round(1000 * statistics.median(times), 4),
                "compared": round(turned.compared(queries, K), 1),
                "bytes": round(size, 1),
                "build_cpu_seconds": round(seconds, 1),
            }


def median_nearest(vectors: Vectors) -> float:
    """The median cosine of a vector and the one that is nearest to it."""
    scores, _ = Plan("flat").build(vectors).search(vectors, 2)
    return float(np.median(scores[:, 1]))


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How the cost of a query grows with n: the a of n^a, over the made vectors.

    At one ef_search recall falls as n grows; at one recall, ef_search has to grow.
    """
    made = [row for row in rows if row["vectors"] == "made"]
    exact = [row for row in made if row["structure"] == "flat" and not row["settings"]]
    graphs = [row for row in made if row["structure"] == "hnsw"]
    walks = [row for row in graphs if row["settings"]["ef_search"] == WALK]
    sizes = [row["n"] for row in exact]
    found: dict[str, dict[str, float]] = {}
    for cost in ("cpu_ms", "compared"):
        level = [cost_at(LEVEL, [row for row in graphs if row["n"] == n], cost) for n in sizes]
        for name, costs in (
            ("exact", [row[cost] for row in exact]),
            (f"hnsw at ef_search {WALK}", [row[cost] for row in walks]),
            (f"hnsw at recall {LEVEL}", level),
        ):
            found.setdefault(name, {})[cost] = round(exponent(sizes, costs), 3)
    return found


def cost_at(level: float, rows: list[dict[str, Any]], cost: str) -> float:
    """The cost at which this recall would be reached, between the settings that were measured."""
    recalls = [row["recall@10"] for row in rows]
    if not recalls[0] <= level <= recalls[-1]:
        raise RagLabError(f"no setting reaches recall {level}: measure more values of ef_search")
    return float(np.exp(np.interp(level, recalls, np.log([row[cost] for row in rows]))))


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    heads = ("n", "structure", "settings", "recall@10", "ms", "compared", "bytes", "build s")
    drawn = Table(*heads)
    for row in rows:
        knobs = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        figures = (f"{row['recall@10']:.3f}", f"{row['cpu_ms']:.2f}", f"{row['compared']:.0f}")
        sizes = (f"{row['bytes']:.0f}", f"{row['build_cpu_seconds']:.1f}")
        drawn.add_row(f"{row['n']:,}", row["structure"], knobs, *figures, *sizes)
    return drawn


def main(folder: Path, sizes: Sequence[int]) -> None:
    documents, asked, _ = read_beir(folder)
    encoder = default_encoder()
    index = Index.build(documents, WholeDocument(), encoder, tokens=False, progress=True)
    queries = encoder.embed([query.text for query in asked])
    faiss.omp_set_num_threads(1)
    report: dict[str, Any] = {
        "date": date.today().isoformat(),
        "cpus": os.cpu_count(),
        "times": "of the processor, not of the clock: ms of a query alone on one thread, seconds "
        "of a build summed over its threads; with other work on the machine, counts are firmer",
        "versions": {
            "faiss": faiss.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "vectors": (
            f"real: SciFact's {len(index.vectors)} documents by {encoder.model}, "
            f"{encoder.dimension} dimensions. made: each a real one with Gaussian noise about "
            f"{NOISE} long, scaled to length 1. Two copies of one document then have a cosine of "
            f"about {1 / (1 + NOISE**2):.2f}; a real document and its nearest neighbour have a "
            f"median of {median_nearest(index.vectors):.2f}"
        ),
        "queries": f"SciFact's {len(queries)} test queries as they are; ms is the median of the "
        f"first {TIMED}; bytes are of the saved structure, without the whole vectors that "
        "rescoring needs",
        "rows": [],
    }
    began = time.perf_counter()
    for n in (0, *sizes):
        vectors = perturbed(index.vectors, n, NOISE) if n else index.vectors
        found = list(measured(vectors, queries, "made" if n else "real"))
        report["rows"] += found
        CONSOLE.print(table(found))
        CONSOLE.print(f"{time.perf_counter() - began:.0f} s so far")
    report["exponents"] = exponents(report["rows"])
    CONSOLE.print(report["exponents"])
    write_whole(DATA / "measured" / "approximate.json", json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    given = os.environ.get("RAGLAB_SCIFACT")
    if not given:
        raise RagLabError("set RAGLAB_SCIFACT to SciFact's folder (BEIR layout)")
    main(Path(given), [int(size) for size in sys.argv[1:]] or SIZES)
