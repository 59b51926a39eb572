"""Times raglab beside LangChain and LlamaIndex: writes data/measured/peers.json.

    RAGLAB_SCIFACT=FOLDER python tests/bench/peers.py [install] [search] [encoding] [int8]

Without a word it does all four.  Each peer has an environment of its own, made once in the cache
folder `peers`: the exact versions below, and all else as constraints.txt has it, but for what the
peer does not accept.  All get the same vectors of SciFact (BEIR layout), the same 300 claims in
the same order, the same encoder, and two threads.  Each runs in a process of its own, one after the
other, raglab first and last.  Times are wall times: let the machine do nothing else meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from collected import keep, scifact
from rich.table import Table

from raglab.evaluate.benchmark import Benchmark
from raglab.evaluate.metrics import mean, ndcg, recall
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.presets import DATA

sys.path.insert(1, str(Path(__file__).with_suffix("")))

from environments import CONSOLE, PEERS, THREADS, K, called, hand_over, interpreter

PARTS = ("search", "encoding", "int8")
BASELINE = "raglab, hybrid"
ENCODED, QUANTISED, OTHERS = 600, 400, 1500  # documents


def search(folder: Path, benchmark: Benchmark) -> dict[str, Any]:
    """raglab, the peers, raglab again."""
    peers = [(interpreter(name), PEERS[name].script) for name in ("langchain", "llamaindex")]
    turns = [(sys.executable, "lab.py"), *peers, (sys.executable, "lab.py")]
    outputs = [called(python, script, folder) for python, script in turns]
    systems: dict[str, dict[str, Any]] = {}
    for output in outputs:
        for name, timing in output["systems"].items():
            known = systems.setdefault(name, {"run": timing["run"], "turns": []})
            assert known["run"] == timing["run"], f"{name} found other documents the second time"
            known["turns"].append({key: timing[key] for key in ("seconds", "searching", "cpu")})
    rows = [row(name, system, benchmark) for name, system in systems.items()]
    ours = next(row for row in rows if row["system"] == BASELINE)
    for one in rows:
        one["times_ours"] = round(one["median_ms"] / ours["median_ms"], 2)
        one["times_ours_searching"] = round(one["searching_ms"] / ours["searching_ms"], 2)
    print_search(rows)
    versions = {
        script: output["versions"] for (_, script), output in zip(turns, outputs, strict=True)
    }
    return {
        "claims": len(benchmark.queries),
        "k": K,
        "threads": THREADS,
        "systems": rows,
        "versions": versions,
    }


def row(name: str, system: Mapping[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """Milliseconds over all turns, and how good what was found is."""
    whole, searching, cpu = (
        1000 * np.concatenate([turn[key] for turn in system["turns"]])
        for key in ("seconds", "searching", "cpu")
    )
    return {
        "system": name,
        "median_ms": round(float(np.median(whole)), 2),
        "p95_ms": round(float(np.percentile(whole, 95)), 2),
        "searching_ms": round(float(np.median(searching)), 2),
        "searching_p95_ms": round(float(np.percentile(searching, 95)), 2),
        "searching_cpu_ms": round(float(np.median(cpu)), 2),
        "turns_ms": [round(1000 * median(turn["seconds"]), 2) for turn in system["turns"]],
        "turns_searching_ms": [
            round(1000 * median(turn["searching"]), 2) for turn in system["turns"]
        ],
        "nDCG@10": round(mean(ndcg, system["run"], benchmark.qrels, 10), 4),
        "R@5": round(mean(recall, system["run"], benchmark.qrels, 5), 4),
    }


def print_search(rows: Iterable[Mapping[str, Any]]) -> None:
    """Milliseconds in twos: with the encoding of the query, and without it."""
    columns = {
        "ms": "median_ms",
        "95th": "p95_ms",
        "times ours": "times_ours",
        "search": "searching_ms",
        "95th ": "searching_p95_ms",
        "CPU": "searching_cpu_ms",
        "times ours ": "times_ours_searching",
        "nDCG@10": "nDCG@10",
        "R@5": "R@5",
    }
    table = Table("", *columns)
    for one in rows:
        figures = [one[key] for key in columns.values()]
        digits = [3 if key in ("nDCG@10", "R@5") else 2 for key in columns]
        cells = [f"{figure:.{few}f}" for figure, few in zip(figures, digits, strict=True)]
        table.add_row(one["system"], *cells)
    CONSOLE.print("\nmilliseconds a query, and of that the search, its vector at hand")
    CONSOLE.print(table)


def encoding(folder: Path) -> dict[str, Any]:
    figures = called(sys.executable, "encoding.py", folder)
    rows = speeds(figures["rates"])
    print_speeds(f"texts a second, {ENCODED} documents", rows)
    return {"documents": ENCODED, "rates": rows, "versions": figures["versions"]}


def int8(folder: Path, benchmark: Benchmark) -> dict[str, Any]:
    """Over the judged documents and others: an easier search than that of the whole corpus."""
    figures = called(interpreter("onnx"), PEERS["onnx"].script, folder)
    rows = speeds(figures["rates"])
    for one in rows:
        quality = mean(ndcg, figures["runs"][one["system"]], benchmark.qrels, 10)
        one["nDCG@10"] = round(quality, 4)
    print_speeds(f"texts a second, {QUANTISED} documents; dense search of a subset", rows)
    documents = sum(1 for _ in (folder / "documents.jsonl").open())
    return {
        "encoded": QUANTISED,
        "searched": documents,
        "rates": rows,
        "versions": figures["versions"],
    }


def speeds(rates: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """Each by its best round, the least disturbed one; all are measured by the first of them."""
    first = max(next(iter(rates.values())))
    return [
        {
            "system": name,
            "texts_a_second": round(max(found), 1),
            "rounds": [round(rate, 1) for rate in found],
            "times_first": round(max(found) / first, 3),
        }
        for name, found in rates.items()
    ]


def print_speeds(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table("", "texts a second", "rounds", "times the first", "nDCG@10")
    for one in rows:
        rounds = ", ".join(map(str, one["rounds"]))
        quality = f"{one['nDCG@10']:.3f}" if "nDCG@10" in one else ""
        speed = f"{one['texts_a_second']:.1f}", rounds, f"{one['times_first']:.2f}"
        table.add_row(one["system"], *speed, quality)
    CONSOLE.print(f"\n{title}")
    CONSOLE.print(table)


def judged_and_others(index: Index, benchmark: Benchmark) -> list[int]:
    """Rows of every judged document, and of others that are evenly spaced."""
    judged = {doc_id for found in benchmark.qrels.values() for doc_id in found}
    others = [row for row, chunk in enumerate(index.chunks) if chunk.doc_id not in judged]
    some = {others[place * len(others) // OTHERS] for place in range(OTHERS)}
    return [row for row, chunk in enumerate(index.chunks) if chunk.doc_id in judged or row in some]


def main(parts: list[str]) -> None:
    if "install" in parts:
        for name in PEERS:
            interpreter(name)
    parts = [part for part in PARTS if part in parts]
    if not parts:
        return
    encoder = SentenceEncoder()
    index, benchmark = scifact(encoder, "test")
    for part in parts:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if part == "search":
                hand_over(folder, index, benchmark, encoder)
                figures = search(folder, benchmark)
            elif part == "encoding":
                hand_over(folder, index, benchmark, encoder, sample=ENCODED)
                figures = encoding(folder)
            else:
                rows = judged_and_others(index, benchmark)
                hand_over(folder, index, benchmark, encoder, rows, sample=QUANTISED)
                figures = int8(folder, benchmark)
        loads = [round(load, 1), round(os.getloadavg()[0], 1)]
        CONSOLE.print(add(part, {**figures, "load_before_and_after": loads}))


def add(part: str, figures: Mapping[str, Any]) -> Path:
    """Keeps a part's figures beside those of the others."""
    file = DATA / "measured" / "peers.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    return keep("peers", {name: known[name] for name in PARTS if name in known} | {part: figures})


if __name__ == "__main__":
    main(sys.argv[1:] or ["install", *PARTS])
