"""A closer look at one chunk of a run: what matched what, word by word, and the exact prompt.

Late interaction's heat map has a row for each piece of the query and a column for each piece of
the chunk.  Most columns are nobody's best match, so only those near one are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raglab.answer.generate import SYSTEM, PromptedGenerator, grounded_prompt
from raglab.pipeline import Pipeline
from raglab.retrieve.rerank import token_matches
from raglab.trace import Trace


@dataclass(frozen=True, slots=True)
class Heat:
    """The cosines near the best matches. `best[i]` is the column that row i matches best."""

    query: tuple[str, ...]
    chunk: tuple[str, ...]
    cosines: tuple[tuple[float, ...], ...]  # [query pieces, kept chunk pieces], two decimals
    best: tuple[int, ...]


def heat(pipeline: Pipeline, query: str, chunk_id: str, near: int = 1) -> Heat | None:
    """None where the reranker compares no tokens, or the index does not hold the chunk."""
    for link in _links(pipeline.reranker):
        index, embedder = getattr(link, "index", None), getattr(link, "embedder", None)
        if index is None or embedder is None or chunk_id not in index.rows:
            continue
        matched = token_matches(index, embedder, query, chunk_id)
        if not matched.cosines.size:
            return None
        best = [int(column) for column in matched.cosines.argmax(axis=1)]
        last = matched.cosines.shape[1] - 1
        steps = range(-near, near + 1)
        kept = sorted({min(max(b + step, 0), last) for b in best for step in steps})
        return Heat(
            query=matched.query,
            chunk=tuple(matched.chunk[column] for column in kept),
            cosines=tuple(
                tuple(round(float(value), 2) for value in row) for row in matched.cosines[:, kept]
            ),
            best=tuple(kept.index(column) for column in best),
        )
    return None


def _links(reranker: Any) -> Iterator[Any]:
    """The reranker, or the links of a chain, or what a learned one reads its signals from."""
    for link in getattr(reranker, "rerankers", (reranker,)):
        yield link
        yield getattr(link, "signals", None)


def exact_prompt(pipeline: Pipeline, trace: Trace) -> tuple[str, str]:
    """The text that the generator read, letter for letter, and a line on who read it."""
    if isinstance(pipeline.generator, PromptedGenerator):
        prompt = grounded_prompt(trace.queries[0], trace.context)
        asked = [call.model for call in trace.stage("generate")[-1].calls]
        whom = f"Sent to {asked[0]}." if asked else "Not sent: there was no source to answer from."
        return f"{SYSTEM}\n\n{prompt}", f"{whom} The rules stand first, then the fenced sources."
    return trace.context.text, (
        "No language model was asked. The extractive generator read these fenced sources."
    )
