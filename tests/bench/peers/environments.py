"""The peers' environments, and how a script gets its work there and its result back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from raglab.evaluate.benchmark import Benchmark
from raglab.ingest.cache import cache_folder
from raglab.ingest.embed import SentenceEncoder, bundled_model
from raglab.ingest.index import Index

CONSOLE = Console(width=120, highlight=False)
SCRIPTS = Path(__file__).resolve().parent
CONSTRAINTS = SCRIPTS.parents[2] / "constraints.txt"
K, THREADS = 100, 2


@dataclass(frozen=True)
class Peer:
    script: str
    packages: tuple[str, ...]  # of this version, or of that in constraints.txt
    free: tuple[str, ...]  # those whose version in constraints.txt the peer does not accept


PEERS = {
    "langchain": Peer(
        "langchain_ensemble.py",
        (
            "langchain-classic==1.0.8",
            "langchain-community==0.4.2",
            "langchain-huggingface[full]==1.2.3",
            "sentence-transformers==5.7.0",
            "huggingface_hub==1.33.0",
            "faiss-cpu",
            "rank-bm25",
        ),
        ("sentence-transformers", "huggingface_hub"),
    ),
    "llamaindex": Peer(
        "llamaindex_fusion.py",
        (
            "llama-index-core==0.14.25",
            "llama-index-embeddings-huggingface==0.8.0",
            "llama-index-retrievers-bm25==0.8.0",
            "llama-index-vector-stores-faiss==0.7.0",
            "PyStemmer==2.2.0.3",
            "faiss-cpu",
        ),
        ("PyStemmer",),
    ),
    "onnx": Peer(
        "quantised.py",
        (
            "optimum-onnx==0.1.0",
            "onnxruntime==1.32.0",
            "sentence-transformers==5.7.0",
            "transformers==4.57.6",
            "tokenizers==0.22.2",
            "huggingface_hub==0.36.2",
        ),
        ("sentence-transformers", "transformers", "tokenizers", "huggingface_hub"),
    ),
}


def interpreter(name: str) -> str:
    """The Python of a peer's environment; makes it, where it is not there as it should be."""
    peer, folder = PEERS[name], cache_folder().resolve() / "peers" / name
    python, done = folder / "bin" / "python", folder / "installed.txt"
    lines = CONSTRAINTS.read_text().splitlines()
    pins = [line for line in lines if line.partition("==")[0] not in peer.free]
    wanted = "\n".join([*peer.packages, *pins])
    if not done.is_file() or done.read_text() != wanted:
        CONSOLE.print(f"installing {', '.join(peer.packages)}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        (folder / "constraints.txt").write_text("\n".join(pins))
        install = [python, "-m", "pip", "install", "-q", "-c", folder / "constraints.txt"]
        subprocess.run([*install, "torch", *peer.packages], check=True)
        done.write_text(wanted)
    return str(python)


def hand_over(
    folder: Path,
    index: Index,
    benchmark: Benchmark,
    encoder: SentenceEncoder,
    rows: Sequence[int] | None = None,
    **settings: int,
) -> None:
    """Writes what a script reads: settings, texts, claims, and the vectors of both.

    rows: of the documents that it gets; None for all.
    """
    rows = range(len(index.chunks)) if rows is None else rows
    chunks = [index.chunks[row] for row in rows]
    documents = [{"id": chunk.doc_id, "text": chunk.indexed_text} for chunk in chunks]
    queries = [{"id": query.query_id, "text": query.text} for query in benchmark.queries]
    for name, lines in {"documents": documents, "queries": queries}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = {"model": str(bundled_model()), "k": K, **settings}
    (folder / "settings.json").write_text(json.dumps(given))
    np.save(folder / "vectors.npy", index.vectors[list(rows)])
    np.save(folder / "query_vectors.npy", encoder.embed([query["text"] for query in queries]))


def called(python: str, script: str, folder: Path) -> dict[str, Any]:
    """What a script wrote."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS))
    quiet = {"HF_HUB_OFFLINE": "1", "LANGSMITH_TRACING": "false"}
    out = folder / "out.json"
    CONSOLE.print(f"{script}, load {os.getloadavg()[0]:.1f}")
    subprocess.run(
        [python, SCRIPTS / script, folder, out], check=True, env={**os.environ, **threads, **quiet}
    )
    return dict(json.loads(out.read_text()))
