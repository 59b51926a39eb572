"""Where the stages are wired together: the one place that knows them all.

`open_lab("handbook")` gives the default pipeline, ready to run: weights found, index built or
loaded, replies at hand.  It needs no key and no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.generate import Extractive, PromptedGenerator
from raglab.evaluate.evidence import supporting
from raglab.ingest.cache import cache_folder
from raglab.ingest.corpus import read_folder, read_questions
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index, fingerprint
from raglab.ingest.recursive import Recursive
from raglab.llm import ReplayLLM
from raglab.pipeline import Pipeline
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import MultiQuery, PassThrough
from raglab.retrieve.sparse import BM25
from raglab.types import LLM, Chunk, Document, Query, Question, RagLabError, Retriever

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass(frozen=True)
class Readable:
    """Lets through what everyone may read, and what one of these groups may."""

    groups: tuple[str, ...] = ()

    def __call__(self, chunk: Chunk) -> bool:
        return not chunk.groups or any(group in chunk.groups for group in self.groups)


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
    documents = read_corpus(corpus)
    embedder = SentenceEncoder(cache=cache_folder() / "encodings.sqlite3")
    index = open_index(documents, Path(corpus).name, embedder, rebuild=rebuild, progress=progress)
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


def open_index(
    documents: Sequence[Document],
    name: str,
    embedder: SentenceEncoder,
    *,
    rebuild: bool = False,
    progress: bool = True,
) -> Index:
    """Load the index of these documents, or build and save it where there is none that fits."""
    chunker = Recursive(embedder.spans)
    wanted = fingerprint(documents, chunker, embedder)
    folder = cache_folder() / "indexes" / f"{name}-{wanted[:16]}"
    if folder.exists() and not rebuild:
        return Index.load(folder, expect=wanted)
    index = Index.build(documents, chunker, embedder, progress=progress)
    index.save(folder)
    return Index.load(folder, expect=wanted)


def read_corpus(corpus: str | Path = "handbook") -> tuple[Document, ...]:
    """A corpus of the workbook, by name, or a folder of your own."""
    shipped = DATA / "corpus" / str(corpus)
    if shipped.is_dir():
        return read_folder(shipped)
    if Path(corpus).is_dir():
        return read_folder(corpus)
    names = ", ".join(sorted(path.name for path in (DATA / "corpus").glob("*/"))) or "none"
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
