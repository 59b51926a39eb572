"""Kinds of questions worth seeing: what each shows, and how it is measured in one run.

A kind reads a question, its trace, and the pipeline that made it, and says what it measured, such
as "fused: rank 2; reranked: rank 9".  Of several chunks with evidence the best rank counts.

Left out: how much worse is bad. One rank lower is lower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from raglab.fates import Wanted, first_loss, hits_of, holding, missing
from raglab.pipeline import Pipeline
from raglab.retrieve.fuse import lane
from raglab.retrieve.unchanged import Unchanged
from raglab.trace import Step, Trace
from raglab.types import Question

Measured = Callable[[Question, Trace, Pipeline], str]
"""What was measured, in words; "" where the question does not have the property."""


@dataclass(frozen=True)
class Kind:
    """A property, and how it is measured."""

    label: str
    measured: Measured
    until: str = "assemble"  # the last stage that has to run
    asks: Callable[[Question], bool] = lambda question: bool(question.evidence)
    fits: Callable[[Pipeline], bool] = lambda pipeline: True


def kinds(pipeline: Pipeline) -> dict[str, str]:
    """The kinds that this pipeline's stages allow, each with its label."""
    return {name: kind.label for name, kind in KINDS.items() if kind.fits(pipeline)}


# -- ranks of the evidence -----------------------------------------------------------------------


def _rank(question: Question, steps: Sequence[Step]) -> int | None:
    """The best rank of a chunk with evidence in these lists."""
    ranks = [
        place
        for step in steps
        for place, hit in enumerate(hits_of(step), start=1)
        if holding(question.evidence, (hit.chunk,))
    ]
    return min(ranks, default=None)


def _of_lane(trace: Trace, name: str) -> tuple[Step, ...]:
    """The lists of a retriever: one for each query that was written from the reader's."""
    return tuple(step for step in trace.stage("retrieve") if lane(step.name) == name)


def _lanes(question: Question, trace: Trace) -> dict[str, int | None]:
    names = dict.fromkeys(lane(step.name) for step in trace.stage("retrieve"))
    return {name: _rank(question, _of_lane(trace, name)) for name in names}


def _at(name: str, rank: int | None) -> str:
    return f"{name}: not there" if rank is None else f"{name}: rank {rank}"


def _why(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    """How the evidence was lost; "" where some of it is in the prompt."""
    loss = first_loss(pipeline, trace, Wanted(quotes=question.evidence))
    return loss.reason if loss else ""


# -- the kinds -----------------------------------------------------------------------------------


def _words(pipeline: Pipeline) -> str:
    """The retriever that goes by words: the one beside dense."""
    return next((name for name in pipeline.retrievers if name != "dense"), "")


def _has_both(pipeline: Pipeline) -> bool:
    return "dense" in pipeline.retrievers and len(pipeline.retrievers) > 1


def _only(question: Question, trace: Trace, blind: str, sees: str) -> str:
    ranks = _lanes(question, trace)
    if ranks[blind] is not None or ranks[sees] is None:
        return ""
    hits = {hit.chunk.chunk_id for step in _of_lane(trace, blind) for hit in hits_of(step)}
    return f"{blind}: the evidence is in none of its {len(hits)} hits; {_at(sees, ranks[sees])}"


def _dense_fails(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    return _only(question, trace, "dense", _words(pipeline))


def _sparse_fails(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    return _only(question, trace, _words(pipeline), "dense")


def _fusion_hurts(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    lanes, fused = _lanes(question, trace), _rank(question, trace.stage("fuse"))
    best = min((rank for rank in lanes.values() if rank is not None), default=None)
    if best is None or (fused is not None and fused <= best):
        return ""
    return "; ".join(_at(name, rank) for name, rank in {**lanes, "fused": fused}.items())


def _reranked(question: Question, trace: Trace) -> tuple[int | None, int | None]:
    return _rank(question, trace.stage("fuse")), _rank(question, trace.stage("rerank"))


def _reranking_hurts(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    before, after = _reranked(question, trace)
    if before is None or (after is not None and after <= before):
        return ""
    return f"{_at('fused', before)}; {_at('reranked', after)}"


def _reranking_rescues(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    place = _rank(question, trace.stage("assemble"))
    if place is None:
        return ""
    plain = replace(pipeline, reranker=Unchanged())
    without = _why(question, plain.run(trace.query), plain)
    before, after = _reranked(question, trace)
    told = f"{_at('fused', before)}; {_at('reranked', after)}, in the prompt as [{place}]"
    return f"{told}; without the rerank: {without}" if without else ""


def _nothing_finds_it(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    lost = all(rank is None for rank in _lanes(question, trace).values())
    return _why(question, trace, pipeline) if lost else ""


def _lost_at_the_last_cut(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    rank = _rank(question, trace.stage("rerank"))
    why = _why(question, trace, pipeline) if rank else ""
    return f"{_at('reranked', rank)}; not in the prompt: {why}" if why else ""


def _refused(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    place = _rank(question, trace.stage("assemble"))
    if place is None or not trace.answer.refused:
        return ""
    return f"the evidence is in the prompt as [{place}]; the answer: {trace.answer.text}"


def _answered(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    if trace.answer.refused:
        return ""
    cited = dict.fromkeys(f"[{citation.number}]" for citation in trace.answer.citations)
    return f"no document answers it; the answer cites {', '.join(cited) or 'nothing'}"


def _part_found(question: Question, trace: Trace, pipeline: Pipeline) -> str:
    lost = missing(question, trace.context)
    if lost is None or not lost.beside:
        return ""
    loss = first_loss(pipeline, trace, lost)
    there, of = len(lost.beside), len(question.evidence)
    why = f": {loss.reason}" if loss else ""
    return f"{there} of {of} quotes {'is' if there == 1 else 'are'} in the prompt; lost{why}"


KINDS: Mapping[str, Kind] = {
    "dense fails": Kind(
        "dense search fails, words find it", _dense_fails, "retrieve", fits=_has_both
    ),
    "sparse fails": Kind(
        "search by words fails, dense finds it", _sparse_fails, "retrieve", fits=_has_both
    ),
    "fusion hurts": Kind(
        "fusion puts the evidence lower than the better list had it", _fusion_hurts, "fuse",
        fits=lambda pipeline: len(pipeline.retrievers) > 1,
    ),
    "reranking hurts": Kind(
        "the rerank puts the evidence lower", _reranking_hurts, "rerank",
        fits=lambda pipeline: pipeline.reranker != Unchanged(),
    ),
    "reranking rescues": Kind(
        "only the rerank brings the evidence into the prompt", _reranking_rescues,
        fits=lambda pipeline: pipeline.reranker != Unchanged(),
    ),
    "nothing finds it": Kind("no retriever finds the evidence", _nothing_finds_it, "retrieve"),
    "lost at the last cut": Kind(
        "the evidence comes through the rerank, and not into the prompt", _lost_at_the_last_cut
    ),
    "refused": Kind(
        "refused, though the evidence is in the prompt", _refused, "generate",
    ),
    "answered": Kind(
        "answered, though nobody can answer it", _answered, "generate",
        asks=lambda question: not question.answerable and not question.evidence,
    ),
    "several quotes needed": Kind(
        "several quotes are needed, and a part is missing", _part_found,
        asks=lambda question: len(question.evidence) > 1,
    ),
}  # fmt: skip
