"""Which chunks hold the answer to a golden question.

Evidence is given as quotes, so the same question judges every chunking.  A chunk *supports* a
question when it holds a whole quote; a quote that no chunk holds whole was *severed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from raglab.types import Chunk, Context, Evidence, Question


def holds(chunk: Chunk, evidence: Evidence) -> bool:
    """Does the chunk hold the whole quote, letter for letter?"""
    return chunk.doc_id == evidence.doc_id and evidence.quote in chunk.shown


def shows(context: Context, evidence: Evidence) -> bool:
    """Does the prompt hold the whole quote? What was compressed may have lost it."""
    there = any(holds(hit.chunk, evidence) for hit in context.kept)
    return there and escape(evidence.quote) in context.text  # sources are fenced, so "<" is not "<"


def supporting(question: Question, chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """The ids of the chunks that hold a quote of the question, in the order given."""
    return tuple(
        chunk.chunk_id
        for chunk in chunks
        if any(holds(chunk, evidence) for evidence in question.evidence)
    )


def found(question: Question, chunks: Sequence[Chunk]) -> float:
    """Evidence recall, from 0 to 1: the share of the question's quotes that these chunks hold.

    Raises ZeroDivisionError for a question without evidence: it has nothing to find.
    """
    quotes = question.evidence
    return sum(any(holds(chunk, quote) for chunk in chunks) for quote in quotes) / len(quotes)
