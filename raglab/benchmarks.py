"""Opens what a pipeline can be judged on: a BEIR folder, or a corpus with golden questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from raglab.evaluate.benchmark import Benchmark, of_documents, of_questions
from raglab.evaluate.metrics import Judged
from raglab.ingest.chunk import WholeDocument
from raglab.ingest.corpus import read_beir
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.index import Index
from raglab.ingest.store import Say, open_index
from raglab.lab import default_chunker, golden_questions, read_corpus, shipped, store_name
from raglab.presets import DATA
from raglab.types import Chunker, Document, Query, Question, RagLabError


def open_benchmark(
    corpus: str | Path,
    embedder: SentenceEncoder,
    *,
    split: str = "test",
    whole: bool | None = None,
    progress: bool = True,
    say: Say = lambda _: None,
) -> tuple[Index, Benchmark]:
    """A corpus's index, kept in the store, and what to find in it.

    whole: each document is one chunk.  As a rule that is so for a BEIR folder, whose published
    figures are made that way, and not for golden questions, which look for chunks.
    """
    if (Path(corpus) / "corpus.jsonl").is_file():
        documents, queries, qrels = _beir(Path(corpus), split)
        index = _index(corpus, documents, embedder, whole is not False, progress, say)
        return index, of_documents(queries, qrels)
    questions = _golden(str(corpus), split)
    documents = read_corpus(corpus)
    index = _index(corpus, documents, embedder, bool(whole), progress, say)
    return index, of_questions(questions, index.chunks)


def _beir(
    folder: Path, split: str
) -> tuple[tuple[Document, ...], tuple[Query, ...], Mapping[str, Judged]]:
    splits = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
    if not splits:
        raise RagLabError(
            f"{folder} has no qrels, so nothing says what is relevant: put them there as "
            "qrels/test.tsv, with the columns query-id, corpus-id and score"
        )
    _known(split, splits, str(folder))
    documents, queries, qrels = read_beir(folder, split)
    if not queries:
        raise RagLabError(
            f"no query of {folder}/qrels/{split}.tsv stands in queries.jsonl: below a header line, "
            "the column query-id must hold the _id of that file's lines"
        )
    ids = Counter(document.doc_id for document in documents)
    twice = [doc_id for doc_id, count in ids.items() if count > 1]
    if twice:
        raise RagLabError(f"{folder}/corpus.jsonl: the id {twice[0]!r} stands twice: change one")
    return documents, queries, qrels


def _golden(corpus: str, split: str) -> tuple[Question, ...]:
    there = [name for name in shipped() if (DATA / "golden" / f"{name}.jsonl").is_file()]
    if corpus not in there:
        raise RagLabError(
            f"nothing says what is relevant in {corpus!r}: give one of {', '.join(there)}, or a "
            "BEIR folder that is there, with corpus.jsonl, queries.jsonl and qrels/test.tsv"
        )
    questions = golden_questions(corpus)
    _known(split, sorted({question.split for question in questions}), corpus)
    return tuple(question for question in questions if question.split == split)


def _known(split: str, splits: Sequence[str], corpus: str) -> None:
    if split not in splits:
        raise RagLabError(f"{corpus} has no split {split!r}: there are {', '.join(splits)}")


def _index(
    corpus: str | Path,
    documents: Sequence[Document],
    embedder: SentenceEncoder,
    whole: bool,
    progress: bool,
    say: Say,
) -> Index:
    chunker: Chunker = WholeDocument() if whole else default_chunker(embedder)
    name = store_name(corpus) + ("-whole" if whole else "")
    return open_index(documents, name, chunker, embedder, progress=progress, say=say)
