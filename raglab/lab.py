"""Where the stages are wired together: the one place that knows them all.

`open_lab("handbook")` gives the default pipeline, ready to run: weights found, index built or
loaded, replies at hand.  It needs no key and no network.
"""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from pathlib import Path

from raglab.evaluate.evidence import supporting
from raglab.explore.lines import literal
from raglab.generations import GENERATIONS
from raglab.ingest.cache import cache_folder
from raglab.ingest.chunk import FixedSize, ParentChild, Sentences, WholeDocument
from raglab.ingest.contextualize import Contextual, FromHeadings
from raglab.ingest.corpus import read_beir_documents, read_folder, read_python, read_questions
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.ingest.load import left_out, load_folder
from raglab.ingest.recursive import Recursive
from raglab.ingest.semantic import Semantic
from raglab.ingest.store import Say, open_index
from raglab.llm import ReplayLLM
from raglab.pipeline import Pipeline
from raglab.presets import (
    DATA,
    DEFAULT_PRESET,
    bm25_of,
    check_preset,
    preset_pipeline,
    price_of,
    shipped_weights,
)
from raglab.retrieve.dense import Dense
from raglab.retrieve.rewrite import MultiQuery
from raglab.retrieve.sparse import BM25
from raglab.spares import spare_parts
from raglab.types import (
    LLM,
    Chunker,
    Document,
    Embedder,
    Query,
    Question,
    RagLabError,
    Readable,
)

PYTHON = "python"  # the language reference that comes with Python itself
SIZE = 200  # word pieces a chunk: chosen on the handbook's dev questions


def open_lab(
    corpus: str | Path = "handbook",
    *,
    preset: str = DEFAULT_PRESET,
    groups: Sequence[str] = (),
    llm: LLM | None = None,
    multi_query: bool = False,
    k: int | None = None,
    keep: int | None = None,
    chunk_size: int = SIZE,
    rebuild: bool = False,
    progress: bool = True,
) -> Pipeline:
    """The default pipeline over a corpus: "handbook", or a folder of Markdown files.

    preset: which stages search, one of `PRESETS`; see `preset_pipeline`.
    groups: what the reader belongs to; documents of other groups are never retrieved, until *Who
    asks* is turned in an Explorer: that dial is a lesson, not a lock.
    llm: answers with this model, `ClaudeLLM()` for one, in place of repeating sentences.
    k: hits that each retriever returns, 20 where the preset does not say; keep: hits that survive
    the rerank, 8 where it does not say.
    multi_query: also searches with other wordings, by `llm`, or offline from kept replies.
    chunk_size: word pieces that a chunk holds at most; each size has an index of its own.
    """
    check_preset(preset)
    embedder = default_encoder()
    index = corpus_index(
        corpus, embedder, chunk_size=chunk_size, rebuild=rebuild, progress=progress
    )
    pipeline = preset_pipeline(preset, index, embedder, k=k, keep=keep, llm=llm)
    # The first query pays for loading the weights and inverting the index. It is paid here, so
    # that the milliseconds of a trace are the stages' own.
    embedder.encode_query("warm up")  # the answer asks for the encoder, whatever searches
    for retriever in pipeline.retrievers.values():
        retriever.retrieve(Query("warm", "warm up"), 1)
    pipeline = replace(pipeline, allowed=Readable(tuple(groups)))
    if multi_query and preset in GENERATIONS:
        raise RagLabError(f"{preset} has a rewriter of its own: leave multi_query out")
    if multi_query:
        rewriter = MultiQuery(llm or ReplayLLM(DATA / "replies"))
        pipeline = replace(pipeline, rewriter=rewriter)

    @lru_cache
    def resized(size: int) -> Pipeline:
        return open_lab(
            corpus, preset=preset, groups=groups, llm=llm, multi_query=multi_query, k=k,
            keep=keep, chunk_size=size, progress=progress,
        )  # fmt: skip

    given = {"preset": preset, "groups": tuple(groups), "multi_query": multi_query}
    given |= {"k": k, "keep": keep, "chunk_size": chunk_size}
    kit = spare_parts(
        pipeline,
        opened=_written(corpus, given, llm),
        size=chunk_size,
        resized=resized,
        index=index,
        embedder=embedder,
        bm25=bm25_of(index),
        weights=shipped_weights,
        llm=llm or ReplayLLM(DATA / "replies"),
        price=price_of(llm),
    )
    return replace(pipeline, kit=kit)


def _written(corpus: str | Path, given: Mapping[str, object], llm: LLM | None) -> str:
    """`open_lab` as a reader would write it: what is as usual is left out."""
    usual = {name: parameter.default for name, parameter in signature(open_lab).parameters.items()}
    said = [literal(str(corpus))]
    said += [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
    said += ["llm=ClaudeLLM()"] if llm else []
    return f"raglab.open_lab({', '.join(said)})"


def default_encoder() -> SentenceEncoder:
    """The bundled bi-encoder, with the user's cache."""
    return SentenceEncoder(cache=cache_folder() / "encodings.sqlite3")


def default_chunker(embedder: Embedder, size: int = SIZE) -> Chunker:
    """Recursive chunks under their headings: chosen on the handbook's dev questions. Neighbours
    share a fifth of their size."""
    return Contextual(Recursive(embedder.spans, size, size // 5), FromHeadings())


def corpus_index(
    corpus: str | Path,
    embedder: SentenceEncoder,
    *,
    chunk_size: int = SIZE,
    rebuild: bool = False,
    progress: bool = True,
    say: Say = lambda _: None,
) -> Index:
    """The index of a corpus under the default chunker, kept in the user's cache folder. Chunks of
    another size have a folder of their own."""
    documents = read_corpus(corpus, progress=progress)
    name = store_name(corpus)
    return open_index(
        documents,
        name if chunk_size == SIZE else f"{name}-in-{chunk_size}",
        default_chunker(embedder, chunk_size),
        embedder,
        rebuild=rebuild,
        progress=progress,
        say=say,
    )


def strategies(embedder: Embedder) -> dict[str, Chunker]:
    """The six chunkers at settings that can be compared: at most 200 word pieces to find."""
    spans = embedder.spans
    return {
        "fixed": FixedSize(spans, size=200),
        "fixed, overlap 40": FixedSize(spans, size=200, overlap=40),
        "sentences": Sentences(spans),
        "recursive": Recursive(spans),
        "semantic": Semantic(embedder),
        "whole document": WholeDocument(),
        "parent-child": ParentChild(
            parent=Recursive(spans, size=400, overlap=0), child=Recursive(spans, size=80, overlap=0)
        ),
    }


def store_name(corpus: str | Path) -> str:
    """A corpus's folder in the store. Two folders of your own may share a name: theirs get a hash
    of where they lie."""
    if str(corpus) in shipped():
        return str(corpus)
    place = Path(corpus).resolve()
    return f"{place.name}-{hashlib.sha256(str(place).encode()).hexdigest()[:8]}"


def shipped() -> tuple[str, ...]:
    """The workbook's own corpora."""
    return (*sorted(path.name for path in (DATA / "corpus").glob("*/")), PYTHON)


def read_corpus(corpus: str | Path = "handbook", *, progress: bool = False) -> tuple[Document, ...]:
    """A corpus of the workbook, by name ("handbook", "python"), or a folder of your own: documents
    of any kind that `load_folder` reads, or a BEIR folder."""
    if str(corpus) == PYTHON:
        return read_python()
    if str(corpus) in shipped():
        return read_folder(DATA / "corpus" / str(corpus))
    if (Path(corpus) / "corpus.jsonl").is_file():
        return read_beir_documents(corpus)
    if Path(corpus).is_dir():
        loaded = load_folder(corpus, progress=progress)
        if not loaded.documents:
            raise RagLabError(f"{corpus} holds no document to read. {left_out(loaded)}".strip())
        if loaded.skipped:
            warnings.warn(left_out(loaded), stacklevel=2)
        return loaded.documents
    names = ", ".join(shipped())
    raise RagLabError(
        f"no corpus {str(corpus)!r}: name one of the workbook's ({names}), which lie in data/ of a "
        "clone installed with `pip install -e .`, or give a folder that is there"
    )


def evidence_for(
    query: str, pipeline: Pipeline, corpus: str | Path = "handbook"
) -> tuple[str, ...]:
    """The chunks that hold the answer, where the query is a golden question; else none."""
    golden = DATA / "golden" / f"{Path(corpus).name}.jsonl"
    lane = next(iter(pipeline.retrievers.values()))
    indexed = lane.index if isinstance(lane, Dense) else lane
    chunks = indexed.chunks if isinstance(indexed, Index | BM25) else ()
    if not golden.is_file():
        return ()
    asked = [question for question in read_questions(golden) if question.text == query.strip()]
    return supporting(asked[0], chunks) if asked else ()


def golden_questions(corpus: str = "handbook", split: str | None = None) -> tuple[Question, ...]:
    """A corpus's golden questions, all or those of one split ("dev", "test").

    The language reference is read from the Python at hand.  Where its version words a quote in
    another way, the question cannot be judged: it is left out, and a warning says how many are.
    """
    questions = read_questions(DATA / "golden" / f"{corpus}.jsonl")
    chosen = [q for q in questions if split is None or q.split == split]
    if corpus != PYTHON:
        return tuple(chosen)
    texts = {document.doc_id: document.text for document in read_python()}
    kept = [q for q in chosen if all(e.quote in texts.get(e.doc_id, "") for e in q.evidence)]
    if len(kept) < len(chosen):
        warnings.warn(
            f"{len(chosen) - len(kept)} of {len(chosen)} questions left out: Python "
            f"{platform.python_version()} words what answers them in another way than 3.11",
            stacklevel=2,
        )
    return tuple(kept)
