"""Where the stages are wired together: the one place that knows them all.

`open_lab("handbook")` gives the default pipeline, ready to run: weights found, index built or
loaded, replies at hand.  It needs no key and no network.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.generate import Extractive, PromptedGenerator
from raglab.evaluate.evidence import supporting
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
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import MultiQuery, PassThrough
from raglab.retrieve.sparse import BM25
from raglab.types import (
    LLM,
    Chunker,
    Document,
    Embedder,
    Query,
    Question,
    RagLabError,
    Readable,
    Retriever,
)

PYTHON = "python"  # the language reference that comes with Python itself
DATA = Path(__file__).resolve().parent.parent / "data"


def open_lab(
    corpus: str | Path = "handbook",
    *,
    groups: Sequence[str] = (),
    llm: LLM | None = None,
    multi_query: bool = False,
    k: int = 20,
    keep: int = 8,
    rebuild: bool = False,
    progress: bool = True,
) -> Pipeline:
    """The default pipeline over a corpus: "handbook", or a folder of Markdown files.

    groups: what the reader belongs to; documents of other groups are never retrieved.
    llm: answers with this model, `ClaudeLLM()` for one, in place of repeating sentences.
    k: hits that each retriever returns; keep: hits that survive the rerank.
    multi_query: also searches with other wordings, by `llm`, or offline from kept replies.
    """
    embedder = default_encoder()
    index = corpus_index(corpus, embedder, rebuild=rebuild, progress=progress)
    bm25 = BM25(index.chunks)
    retrievers: dict[str, Retriever] = {"dense": Dense(index, embedder), "sparse": bm25}
    # The first query pays for loading the weights and inverting the index. It is paid here, so
    # that the milliseconds of a trace are the stages' own.
    for retriever in retrievers.values():
        retriever.retrieve(Query("warm", "warm up"), 1)
    return Pipeline(
        rewriter=MultiQuery(llm or ReplayLLM(DATA / "replies")) if multi_query else PassThrough(),
        retrievers=retrievers,
        fuser=RRF(),
        reranker=LateInteraction(index, embedder),
        assembler=BudgetAssembler(embedder.count, keep=keep),
        generator=PromptedGenerator(llm) if llm else Extractive(index, embedder, bm25),
        k=k,
        allowed=Readable(tuple(groups)),
    )


def default_encoder() -> SentenceEncoder:
    """The bundled bi-encoder, with the user's cache."""
    return SentenceEncoder(cache=cache_folder() / "encodings.sqlite3")


def default_chunker(embedder: Embedder) -> Chunker:
    """Recursive chunks under their headings: chosen on the handbook's dev questions."""
    return Contextual(Recursive(embedder.spans), FromHeadings())


def corpus_index(
    corpus: str | Path,
    embedder: SentenceEncoder,
    *,
    rebuild: bool = False,
    progress: bool = True,
    say: Say = lambda _: None,
) -> Index:
    """The index of a corpus under the default chunker, kept in the user's cache folder."""
    documents = read_corpus(corpus, progress=progress)
    return open_index(
        documents,
        store_name(corpus),
        default_chunker(embedder),
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
    dense = pipeline.retrievers.get("dense")
    if not golden.is_file() or not isinstance(dense, Dense):
        return ()
    asked = [question for question in read_questions(golden) if question.text == query.strip()]
    return supporting(asked[0], dense.index.chunks) if asked else ()


def golden_questions(corpus: str = "handbook", split: str | None = None) -> tuple[Question, ...]:
    """A corpus's golden questions, all or those of one split ("dev", "test")."""
    questions = read_questions(DATA / "golden" / f"{corpus}.jsonl")
    return tuple(q for q in questions if split is None or q.split == split)
