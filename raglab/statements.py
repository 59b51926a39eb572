"""Statements: the smallest pieces of a passage that can answer or support something.

A sentence is one.  So is a row of a table, read with the heads of its columns, for a row says
nothing without them: "Plan: Team; Buckets: 50".  Headings and a table's rules are none.

Left out: a table whose head stands in another chunk.  Its rows are read without heads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from raglab.sentences import sentence_spans

_RULE = re.compile(r"[\s|:-]+")


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` is how it reads; `said` is how it stands in the passage, letter for letter."""

    text: str
    said: str
    start: int  # where it begins in the passage
    cells: tuple[tuple[str, str], ...] = ()  # of a table's row: head and cell of each column


def statements(passage: str) -> tuple[Statement, ...]:
    """In the order of the passage.

    >>> passage = "# Plans\\n\\nTwo.\\n\\n| Plan | Keys |\\n|---|---|\\n| A | 5 |"
    >>> [one.text for one in statements(passage)]
    ['Two.', 'Plan: A; Keys: 5']
    """
    found: list[Statement] = []
    head: tuple[str, ...] = ()
    spans = sentence_spans(passage)
    for place, (start, end) in enumerate(spans):
        said = passage[start:end]
        if not said.startswith("|"):
            head = ()
            if not said.startswith("#") and re.search(r"\w", said):
                found.append(Statement(said, said, start))
            continue
        if _RULE.fullmatch(said):
            continue
        cells = _cells(said)
        below = passage[slice(*spans[place + 1])] if place + 1 < len(spans) else ""
        if below.startswith("|") and _RULE.fullmatch(below):
            head = cells
            continue
        named = tuple(zip(head or ("",) * len(cells), cells, strict=False))
        text = "; ".join(f"{name}: {cell}" if name else cell for name, cell in named)
        found.append(Statement(text, said, start, named))
    return tuple(found)


def _cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))
