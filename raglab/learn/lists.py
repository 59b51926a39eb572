"""What a step read and what it returned, as lists of hits.

The learner has seen what a step read, and is asked about what it returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from raglab.trace import Step, Trace
from raglab.types import Context, Query, Ranking

RANKED = ("retrieve", "fuse", "rerank")  # stages whose output is a ranking
ASKED = (*RANKED, "assemble")  # stages that put chunks into an order


def returned(step: Step) -> Ranking:
    """Its hits, in its order. Of a prompt: the chunks in it, then those left out, by their rank."""
    if isinstance(step.output, Context):
        dropped = sorted((drop.hit for drop in step.output.dropped), key=lambda hit: hit.rank)
        return (*step.output.kept, *dropped)
    return cast(Ranking, step.output) if step.stage in RANKED else ()


def read(trace: Trace, step: Step) -> Mapping[str, Ranking]:
    """step name -> the list that it handed on; none for a retriever, which reads the index."""
    steps = {one.name: one for one in trace.steps}
    before = [steps[name] for name in step.after if name in steps]
    return {one.name: returned(one) for one in before if one.stage in RANKED}


def scored_by(trace: Trace, step: Step) -> Step:
    """The step whose scores these hits carry.

    Assembling keeps the scores that it read, and so does a reranker that changes nothing.
    """
    lists = read(trace, step)
    if len(lists) != 1:
        return step
    [(name, hits)] = lists.items()
    parts = {hit.chunk.chunk_id: hit.parts for hit in hits}
    kept = all(parts.get(hit.chunk.chunk_id) == hit.parts for hit in returned(step))
    return scored_by(trace, trace[name]) if kept else step


def queries(trace: Trace) -> tuple[Query, ...]:
    """What was searched with: the reader's query, and what the rewriter made of it."""
    return trace.queries if trace.stage("rewrite") else (trace.query,)
