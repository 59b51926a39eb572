"""Condensing: of a source, only the statements that could answer the question at all.

Where `compress.py` goes by shared words, this goes by the support that the extractive answer
reckons with: a statement stays where its support, from 0 to 1, is at least `threshold`.  Headings
and table heads stay too.  A source without a statement above it stays whole, and so does one that
stands for a whole section.

The threshold is low, and was chosen on the handbook's dev questions: it takes out what is surely
beside the point, and hardly ever the answer.  Notebook 09 prints both.

Left out: sentences that make sense only with the one before them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raglab.answer.compress import only
from raglab.answer.extractive import Extractive
from raglab.types import Chunk, Context, Hit, Query


@dataclass(frozen=True)
class Condense:
    """For an assembler: `BudgetAssembler(count, compress=Condense(extractive))`."""

    supporter: Extractive = field(repr=False)
    threshold: float = 0.22

    def __call__(self, query: Query, chunk: Chunk) -> str:
        if chunk.section:
            return chunk.shown
        alone = Context("", (Hit(chunk, 0.0, 1, ()),), (), 0, 0)
        supports = self.supporter.supports(query, alone)
        kept = [(s.start, s.start + len(s.text)) for s in supports if s.score >= self.threshold]

        def stays(start: int, end: int) -> bool:
            return any(first < end and start < last for first, last in kept)

        return only(chunk.text, stays)
