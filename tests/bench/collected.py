"""What the benches share: SciFact's index, the golden sets, and files of measured figures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raglab.benchmarks import open_benchmark
from raglab.evaluate.benchmark import Benchmark
from raglab.files import write_whole
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.presets import DATA

SCIFACT = os.environ.get("RAGLAB_SCIFACT", "")


def scifact(encoder: SentenceEncoder, split: str) -> tuple[Index, Benchmark]:
    """Each document one chunk: title, a space, text. The first time it is encoded: minutes."""
    return open_benchmark(SCIFACT, encoder, split=split)


def keep(name: str, figures: Mapping[str, Any], packages: tuple[str, ...] = ()) -> Path:
    """Writes data/measured/NAME.json: the figures, and when and with what they were taken."""
    taken = {
        "measured": date.today().isoformat(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        **{package: version(package) for package in packages},
    }
    content = json.dumps(taken | dict(figures), indent=1, ensure_ascii=False)
    return write_whole(DATA / "measured" / f"{name}.json", content + "\n")
