"""What the tests share. Caches lie in the clone, and nothing may reach for a model hub."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAGLAB_CACHE", str(Path(__file__).resolve().parent.parent / ".cache"))
os.environ["RAGLAB_PROGRESS"] = os.path.join(os.environ["RAGLAB_CACHE"], "progress-of-tests.jsonl")

import pytest

from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.lab import open_lab
from raglab.pipeline import Pipeline

collect_ignore = ["bench"]  # scripts that measure; some run in environments of their own


@pytest.fixture(scope="session")
def lab() -> Pipeline:
    """The default pipeline over the handbook."""
    return open_lab("handbook", progress=False)


@pytest.fixture(scope="session")
def index(lab: Pipeline) -> Index:
    return lab.retrievers["dense"].index  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def encoder() -> SentenceEncoder:
    """The bundled model, with no cache."""
    return SentenceEncoder()
