"""raglab's three presets that fuse, timed as its peers are: `peers.py` runs it.

By hand: python tests/bench/peers/lab.py FOLDER OUT.json, with RAGLAB_SCIFACT set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from collected import scifact
from timing import Contender, Search, Work, compared, given

from raglab.evaluate.benchmark import search
from raglab.ingest.embed import SentenceEncoder
from raglab.pipeline import Pipeline
from raglab.presets import preset_pipeline
from raglab.recorder import Memo
from raglab.types import Encoding, Query, Readable

PRESETS = ("hybrid", "reranked", "learned")
ANYONE = Readable(())  # as the peers, which know no readers, see every document


class Held(SentenceEncoder):
    """Knows the queries' encodings beforehand."""

    def __init__(self, encoder: SentenceEncoder, queries: Iterable[str]) -> None:
        super().__init__()
        self.encodings = {query: encoder.encode_query(query) for query in queries}

    def encode_query(self, text: str) -> Encoding:
        return self.encodings[text]


def searcher(pipeline: Pipeline) -> Search:
    def ids(text: str) -> list[str]:
        # A new memo, for no query may find what an earlier pass left there.
        hits = search(replace(pipeline, memo=Memo()), Query("q", text), ANYONE)
        return [hit.chunk.doc_id for hit in hits]

    return ids


def contenders(work: Work) -> Iterable[Contender]:
    encoder, k = SentenceEncoder(), work.settings["k"]
    index, _ = scifact(encoder, "test")
    held = Held(encoder, (query["text"] for query in work.queries))
    for name in PRESETS:
        whole, rest = (preset_pipeline(name, index, one, k=k) for one in (encoder, held))
        yield Contender(f"raglab, {name}", searcher(whole), searcher(rest))


if __name__ == "__main__":
    work = given()
    compared(work, contenders(work), ("numpy", "torch", "sentence-transformers"))
