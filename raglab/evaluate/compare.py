"""Two searches on the same golden questions: how good is each, and which questions changed.

A mean hides what it is made of.  One search can win by a little on twenty questions and lose one
question wholly; a table by kind and the list of helped and harmed questions show that.

    evidence recall@k = quotes of the question that the first k chunks hold whole / its quotes

It is averaged over the questions that have evidence; the unanswerable ones have nothing to find.

Left out: whether a difference is more than luck (`significance.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from raglab.evaluate.evidence import found
from raglab.evaluate.intervals import interval
from raglab.types import Question, RagLabError, Ranking

Judgement = Mapping[str, float]
"""query_id -> how good its ranking is, from 0 to 1."""


def judged(
    search: Callable[[Question], Ranking], questions: Sequence[Question], k: int = 5
) -> dict[str, float]:
    """query_id -> evidence recall@k of what `search` returns, for each question with evidence."""
    if k < 1:
        raise ValueError(f"k is {k}: judge at least 1 hit")
    return {
        question.query_id: found(question, [hit.chunk for hit in search(question)[:k]])
        for question in questions
        if question.evidence
    }


def kinds_table(questions: Sequence[Question], runs: Mapping[str, Judgement]) -> str:
    """A text table: for each kind of question how many there are, and each run's mean with its
    95% interval; the last row is over all. Questions without evidence are left out."""
    asked = [question for question in questions if question.evidence]
    for name, run in runs.items():
        lacking = [question.query_id for question in asked if question.query_id not in run]
        if lacking:
            raise RagLabError(
                f"the run {name!r} does not judge {lacking[0]!r}: judge every run on the same "
                "questions, or give the table those alone that each run judges"
            )
    rows = [("kind", "questions", *runs)]
    for kind, ids in _by_kind(asked).items():
        means = (str(interval([run[query_id] for query_id in ids])) for run in runs.values())
        rows.append((kind, str(len(ids)), *means))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def helped_harmed(before: Judgement, after: Judgement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The queries that gained, and those that lost, in the order of `before`.

    >>> helped_harmed({"q1": 0.0, "q2": 1.0, "q3": 1.0}, {"q1": 0.5, "q2": 1.0, "q3": 0.0})
    (('q1',), ('q3',))
    """
    same_queries(before, after)
    return (
        tuple(query_id for query_id, was in before.items() if after[query_id] > was),
        tuple(query_id for query_id, was in before.items() if after[query_id] < was),
    )


def same_queries(before: Judgement, after: Judgement) -> None:
    """Raises RagLabError where a query was judged once only, or none was judged at all."""
    odd = sorted(before.keys() ^ after.keys())
    if odd:
        raise RagLabError(f"only one of the two runs judges {odd[0]!r}: judge the same queries")
    if not before:
        raise RagLabError("no query was judged: give questions that have something to find")


def _by_kind(questions: Sequence[Question]) -> dict[str, list[str]]:
    """kind -> query ids, in order of appearance; "all" comes last."""
    ids: dict[str, list[str]] = {}
    for question in questions:
        ids.setdefault(question.kind, []).append(question.query_id)
    if questions:
        ids["all"] = [question.query_id for question in questions]
    return ids


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, numbers to the right."""
    cells = [row[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join(cells)
