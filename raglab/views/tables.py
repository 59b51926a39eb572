"""Tables: the same data as the pictures, as accessible HTML with everything escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from raglab.trace import Trace
from raglab.types import Ranking
from raglab.views.model import fate_in_words, flow_model, ranks_of

__all__ = ["flow_model", "html_table", "ranking_table", "trace_table"]

MARKS = {
    "evidence": "★ holds the answer",
    "cited": "● cited by the answer",
    "only-here": "◆ in this prompt only",
}


def ranking_table(hits: Ranking) -> str:
    """A ranking as an HTML table: rank, chunk, score, and the parts that add up to the score."""
    head = ("Rank", "Chunk", "Score", "Parts")
    rows = (
        (
            str(hit.rank),
            hit.chunk.chunk_id,
            f"{hit.score:.4f}",
            "; ".join(f"{part.name} {part.value:+.4f}" for part in hit.parts),
        )
        for hit in hits
    )
    return html_table("Hits, best first", head, rows)


def trace_table(trace: Trace, evidence: Collection[str] = ()) -> str:
    """The picture's data as an HTML table: for each chunk its rank at every step, and its fate."""
    model = flow_model(trace, evidence)
    ranks = ranks_of(model)
    columns = [column["name"] for column in model["columns"]]
    rows = (
        (
            chunk["id"],
            *(str(ranks.get((name, chunk["id"]), "")) for name in columns),
            "; ".join([*(MARKS[mark] for mark in chunk["marks"]), fate_in_words(chunk["fate"])]),
        )
        for chunk in model["chunks"]
    )
    head = ("Chunk", *columns, "What became of it")
    return html_table(f"Every candidate for: {model['query']}", head, rows)


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table with a caption and row heads; everything in it is escaped."""
    tops = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{tops}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )
