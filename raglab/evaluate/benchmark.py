"""A benchmark: queries, what is relevant to each, and what several pipelines make of them.

Two kinds of collection become one here.  A BEIR folder judges documents (Thakur et al. 2021,
"BEIR").  Golden questions carry quotes; under one chunking, the chunks that hold a quote are the
relevant ones.  Change the chunks and the qrels change with them: such figures compare pipelines
over one index, never two chunkers.  For those there is evidence recall (`compare.py`).

Left out: generation.  The answer is not written here, only the ranking is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from raglab.evaluate.evidence import supporting
from raglab.evaluate.metrics import Measure, Qrels, ndcg, recall, reciprocal_rank, values
from raglab.evaluate.runs import Ranked, Run, by_chunk, by_document, check_ids, ids
from raglab.evaluate.significance import Comparison, compare
from raglab.pipeline import Pipeline
from raglab.types import (
    Allowed,
    Answer,
    Chunk,
    Context,
    Query,
    Question,
    RagLabError,
    Ranking,
    Readable,
)

MEASURES: Mapping[str, tuple[Measure, int]] = {
    "nDCG@10": (ndcg, 10),
    "R@5": (recall, 5),
    "R@10": (recall, 10),
    "R@20": (recall, 20),
    "R@100": (recall, 100),
    "MRR@10": (reciprocal_rank, 10),
}
Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""pipeline -> measure -> query_id -> value."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Queries and their qrels. `notes` says in sentences what was left out, and why."""

    queries: tuple[Query, ...]
    qrels: Qrels
    kinds: Mapping[str, str]  # query_id -> kind; one kind for all where there are none
    allowed: Mapping[str, Allowed]  # query_id -> what its search may see
    unit: Literal["chunk", "document"]  # what the qrels judge
    notes: tuple[str, ...] = ()

    def only(self, kinds: Sequence[str] = (), most: int | None = None) -> Benchmark:
        """The queries of these kinds (all, where none is named), at most so many, evenly spaced."""
        there = list(dict.fromkeys(self.kinds.values()))
        unknown = [kind for kind in kinds if kind not in there]
        if unknown:
            raise RagLabError(
                f"no questions of the kind {unknown[0]!r}: there are {', '.join(there)}"
            )
        chosen = [q for q in self.queries if not kinds or self.kinds[q.query_id] in kinds]
        if most is not None and most < len(chosen):
            # The first ones would be of few kinds: files are often in order of kind.
            chosen = [chosen[place * len(chosen) // most] for place in range(most)]
        return replace(
            self,
            queries=tuple(chosen),
            qrels={query.query_id: self.qrels[query.query_id] for query in chosen},
            kinds={query.query_id: self.kinds[query.query_id] for query in chosen},
        )

    def check_ids(self, chunks: Sequence[Chunk]) -> None:
        """Raises RagLabError where a TREC file could not hold a run over these chunks: better
        before the search than after it."""
        found = (c.chunk_id if self.unit == "chunk" else c.doc_id for c in chunks)
        check_ids(self.qrels, chain(found, *self.qrels.values()))

    def by_kind(self) -> dict[str, list[str]]:
        """kind -> query ids, "all" last."""
        groups: dict[str, list[str]] = {}
        for query_id, kind in self.kinds.items():
            groups.setdefault(kind, []).append(query_id)
        groups.pop("all", None)
        return {**groups, "all": list(self.kinds)}


def of_questions(questions: Sequence[Question], chunks: Sequence[Chunk]) -> Benchmark:
    """Golden questions over an index's chunks: relevant are those that hold a quote and that the
    asker may read.

    A question that leans on the turn before it is searched with that turn put before it, the
    plainest of rewrites; it counts under its own kind.
    """
    asked = [question for question in questions if question.evidence]
    qrels = {}
    for question in asked:
        readable = filter(Readable(question.groups), chunks)
        qrels[question.query_id] = dict.fromkeys(supporting(question, readable), 1)
    severed = sum(not judged for judged in qrels.values())
    turns = sum(bool(question.history) for question in asked)
    counts = {
        "without evidence left out: nothing is relevant to them": len(questions) - len(asked),
        "counted as 0: no chunk holds their quote whole": severed,
        "searched with the turn before put in front": turns,
    }
    return Benchmark(
        queries=tuple(Query(q.query_id, " ".join((*q.history[-1:], q.text))) for q in asked),
        qrels=qrels,
        kinds={question.query_id: question.kind for question in asked},
        allowed={question.query_id: Readable(question.groups) for question in asked},
        unit="chunk",
        notes=tuple(f"{count} questions {what}" for what, count in counts.items() if count),
    )


@dataclass(frozen=True)
class Others:
    """Lets through every document but one."""

    doc_id: str

    def __call__(self, chunk: Chunk) -> bool:
        return chunk.doc_id != self.doc_id


def of_documents(queries: Sequence[Query], qrels: Qrels) -> Benchmark:
    """Queries and judged documents, as a BEIR folder holds them.

    A document that has the query's own id is never found, as in BEIR's own evaluation: in some of
    its collections the queries are documents.
    """
    for query in queries:
        if not query.text.strip():
            raise RagLabError(
                f"the query {query.query_id!r} has no text: write one in queries.jsonl, or take "
                "its lines out of the qrels"
            )
    lost = len(qrels) - len(queries)
    return Benchmark(
        queries=tuple(queries),
        qrels={query.query_id: qrels[query.query_id] for query in queries},
        kinds={query.query_id: "all" for query in queries},
        allowed={query.query_id: Others(query.query_id) for query in queries},
        unit="document",
        notes=(f"{lost} judged queries left out: queries.jsonl does not hold them",) * (lost > 0),
    )


def search(pipeline: Pipeline, query: Query, allowed: Allowed) -> Ranking:
    """What reaches the end of the reranking. Nothing is assembled and no answer is written."""
    quiet = replace(pipeline, allowed=allowed, assembler=_Silent(), generator=_Silent())
    return quiet.run(query).ranking("reranked")


def runs(
    pipelines: Mapping[str, Pipeline], benchmark: Benchmark, depth: int, progress: bool = False
) -> dict[str, Run]:
    """name -> its run, at most `depth` places a query."""
    from tqdm.auto import tqdm

    unit = by_chunk if benchmark.unit == "chunk" else by_document
    made: dict[str, dict[str, Ranked]] = {name: {} for name in pipelines}
    # Queries outside, pipelines inside: each query is then encoded once.
    for query in tqdm(benchmark.queries, desc="searching", unit="query", disable=not progress):
        for name, pipeline in pipelines.items():
            hits = search(pipeline, query, benchmark.allowed[query.query_id])
            made[name][query.query_id] = unit(hits)[:depth]
    return dict(made)


def measured(run: Run, qrels: Qrels) -> dict[str, dict[str, float]]:
    """measure -> query_id -> value, for each of `MEASURES`."""
    ranked = ids(run)
    return {name: values(measure, ranked, qrels, k) for name, (measure, k) in MEASURES.items()}


def compared(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> dict[str, Comparison]:
    """measure -> the paired comparison of two that `measured` returned."""
    return {name: compare(before[name], values) for name, values in after.items()}


@dataclass(frozen=True)
class _Silent:
    """Stands in for the assembler and the generator, whose work nobody reads here."""

    def assemble(self, query: Query, hits: Ranking) -> Context:
        return Context("", (), (), 0, 0)

    def generate(self, query: Query, context: Context) -> Answer:
        return Answer("", (), True, "not asked")
