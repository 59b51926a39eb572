"""Where a chunk was lost: the first stage that let it go, and by how much.

What is looked for is a value: a chunk, or evidence as quotes, which any chunk may hold.  Of several
chunks that hold it, the one that came furthest tells the story.

A chunk that retrieval did not return is in no list, so its rank is nowhere in the trace.  Each
retriever is asked again, for every chunk there is: "rank 57 in dense, cut at 20".

A chunk that this reader may not see was lost to an access rule.  Its loss then names the group, and
nothing of the chunk.

Left out: chunks that entered the prompt and were not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from raglab.evaluate.evidence import holds
from raglab.pipeline import Pipeline
from raglab.trace import Step, Trace
from raglab.types import Chunk, Context, Evidence, Query, Question, RagLabError, Ranking, Retriever


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: one chunk by its id, or any chunk that holds one of the quotes whole.

    beside: other evidence, to be told when it leaves the prompt.
    """

    chunk_id: str = ""
    quotes: tuple[Evidence, ...] = ()
    beside: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.chunk_id) == bool(self.quotes):
            raise RagLabError("name what to look for: a chunk's id, or the quotes of its evidence")

    @property
    def name(self) -> str:
        return self.chunk_id or "the evidence"

    def among(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """Those of the chunks that are looked for."""
        if self.chunk_id:
            return tuple(chunk for chunk in chunks if chunk.chunk_id == self.chunk_id)
        return holding(self.quotes, chunks)


def holding(quotes: Iterable[Evidence], chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """The chunks that hold one of the quotes whole."""
    sought = tuple(quotes)
    return tuple(chunk for chunk in chunks if any(holds(chunk, quote) for quote in sought))


def missing(question: Question, context: Context) -> Wanted | None:
    """The quotes of the question that no chunk of the prompt holds; None where it holds them all.

    Raises RagLabError for a question without evidence.
    """
    if not question.evidence:
        raise RagLabError("no evidence is known for this question: choose one that has an answer")
    prompt = [hit.chunk for hit in context.kept]
    there = tuple(quote for quote in question.evidence if holding((quote,), prompt))
    lost = tuple(quote for quote in question.evidence if quote not in there)
    return Wanted(quotes=lost, beside=there) if lost else None


@dataclass(frozen=True, slots=True)
class Loss:
    """Where the wanted chunk was lost."""

    chunk_id: str  # of several that hold the evidence, the one that came furthest; "" if untold
    step: str  # the step that let it go, as in the trace; "retrieve" where no retriever found it
    stage: str  # "ingest" for a severed quote, else one of the trace's stages
    reason: str
    access: bool = False  # an access rule refused it: tell nothing of its text


def first_loss(pipeline: Pipeline, trace: Trace, wanted: Wanted) -> Loss | None:
    """The stage that lost it in `trace`, which `pipeline` ran; None where it is in the prompt.

    Raises RagLabError for a chunk that the pipeline's index does not hold.
    """
    trace = trace.last_round()
    holders = wanted.among(all_chunks(pipeline))
    if not holders and wanted.chunk_id:
        raise RagLabError(f"there is no chunk {wanted.chunk_id!r}: name one of this index")
    if not holders:
        return Loss("", "ingest", "ingest", "in no chunk whole: the quote was severed")
    readable = [chunk for chunk in holders if may_see(pipeline, chunk)]
    if not readable:
        why = refusal(pipeline, holders[0])
        return Loss(wanted.chunk_id, "retrieve", "retrieve", why, access=True)
    ids = [chunk.chunk_id for chunk in readable]
    if any(hit.chunk.chunk_id in ids for hit in trace.context.kept):
        return None
    # The last step that any of them reached, there the best rank.
    lost = [found for found in (_lost(trace, chunk_id) for chunk_id in ids) if found]
    furthest = max(lost, key=lambda found: found[:2], default=None)
    return furthest[-1] if furthest else _unfound(pipeline, trace, ids)


def all_chunks(pipeline: Pipeline) -> tuple[Chunk, ...]:
    if pipeline.kit is None or not pipeline.kit.chunks:
        raise RagLabError(
            "this pipeline does not say which chunks there are: take one from open_lab, "
            "or give it a Kit with its chunks"
        )
    return pipeline.kit.chunks


def may_see(pipeline: Pipeline, chunk: Chunk) -> bool:
    return pipeline.allowed is None or pipeline.allowed(chunk)


def refusal(pipeline: Pipeline, chunk: Chunk) -> str:
    """Why this reader may not see the chunk, in words that tell nothing of it."""
    # A filter may look at dates and sources too. Is it the groups that this one minds?
    if chunk.groups and may_see(pipeline, replace(chunk, groups=())):
        return f"not in your groups: {', '.join(chunk.groups)}"
    return "the reader's filter leaves it out"


# -- told from the trace -------------------------------------------------------------------------


def hits_of(step: Step) -> Ranking:
    """The list that a step returned; what the prompt holds, for assembly."""
    if isinstance(step.output, Context):
        return step.output.kept
    return () if step.stage in ("rewrite", "generate") else cast(Ranking, step.output)


def rank_in(hits: Ranking, chunk_id: str) -> int | None:
    """The chunk's place in the list, from 1."""
    places = (place for place, hit in enumerate(hits, 1) if hit.chunk.chunk_id == chunk_id)
    return next(places, None)


def _lost(trace: Trace, chunk_id: str) -> tuple[int, int, Loss] | None:
    """Which of the steps lost the chunk, minus its rank just before, and how; None where no step
    ever had it."""
    ranks: dict[str, int] = {}
    lost = None
    for place, step in enumerate(trace.steps):
        rank = rank_in(hits_of(step), chunk_id)
        seen = [name for name in step.after if name in ranks]
        if rank is not None:
            ranks[step.name], lost = rank, None  # lost in one list, it may be found again
        elif seen and step.stage != "generate":
            best = min(ranks[name] for name in seen)
            reason = _dropped(step, chunk_id) or _passed_over(trace, step, ranks)
            lost = place, -best, Loss(chunk_id, step.name, step.stage, reason)
        elif lost and (reason := _dropped(step, chunk_id)):
            # An agent reads a passage in one search and judges it after another.
            lost = place, lost[1], Loss(chunk_id, step.name, step.stage, reason)
    return lost


def _dropped(step: Step, chunk_id: str) -> str:
    """What assembly itself said about it."""
    drops = step.output.dropped if isinstance(step.output, Context) else ()
    return next((drop.reason for drop in drops if drop.hit.chunk.chunk_id == chunk_id), "")


def _passed_over(trace: Trace, step: Step, ranks: Mapping[str, int]) -> str:
    where = " and ".join(f"rank {ranks[name]} in {name}" for name in step.after if name in ranks)
    kept = {hit.chunk.chunk_id for hit in hits_of(step)}
    if len(step.after) == 1:
        read = [hit.chunk.chunk_id for hit in hits_of(trace[step.after[0]])]
        if set(read[: len(kept)]) == kept:  # it took the best so many, and nothing else
            return f"{where}, cut at {len(kept)}"
    return f"{where}, not among the {len(kept)} kept"


# -- told by asking again ------------------------------------------------------------------------


def _unfound(pipeline: Pipeline, trace: Trace, chunk_ids: Sequence[str]) -> Loss:
    """Why no list holds any of the chunks: how far each list would have had to go on."""
    ranks: dict[str, dict[str, int]] = {}  # list -> chunk -> its rank among all chunks
    for name, retriever, query in _lists(pipeline, trace):
        hits = retriever.retrieve(query, len(all_chunks(pipeline)), pipeline.allowed)
        found = {chunk_id: rank_in(hits, chunk_id) for chunk_id in chunk_ids}
        ranks[name] = {chunk_id: rank for chunk_id, rank in found.items() if rank is not None}
    nearest = {
        chunk_id: min((found.get(chunk_id, math.inf) for found in ranks.values()), default=math.inf)
        for chunk_id in chunk_ids
    }
    told = min(chunk_ids, key=lambda chunk_id: nearest[chunk_id])  # of equals the first
    known = {name: found[told] for name, found in ranks.items() if told in found}
    blind = [name for name in ranks if name not in known]
    said = [] if ranks else ["nothing was searched for"]
    if known:
        where = " and ".join(f"rank {rank} in {name}" for name, rank in known.items())
        # A later round may have asked for more than the pipeline's own k.
        k = max([pipeline.k, *(len(hits_of(step)) for step in trace.stage("retrieve"))])
        # An approximate search may find, when asked for more, what it should have found before.
        late = any(rank <= k for rank in known.values())
        said.append(f"{where} when all are asked for" if late else f"{where}, cut at {k}")
    if blind:
        said.append(f"{' and '.join(blind)} {'do' if len(blind) > 1 else 'does'} not find it")
    return Loss(told, "retrieve", "retrieve", "; ".join(said))


def _lists(pipeline: Pipeline, trace: Trace) -> Iterable[tuple[str, Retriever, Query]]:
    """The lists of the trace's retrieval: name, retriever and query of each."""
    for number, query in enumerate(trace.queries, start=1):
        for lane, retriever in pipeline.retrievers.items():
            if query.lane in ("", lane):
                yield lane if number == 1 else f"{lane} {number}", retriever, query
