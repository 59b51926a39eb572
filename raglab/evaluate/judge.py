"""A judge: does a passage support a claim?

    supported            a statement of the passage covers the claim, and nothing in it disagrees
    contradicted         a statement covers the claim and says something else
    not in the context   no passage covers the claim

*OfflineJudge* needs no language model.  It finds the statement that the claim speaks of by late
interaction (`support.py`), and then compares numbers, dates, names and negations exactly
(`disagree.py`).  Its verdict says what disagrees.

Check a judge against people before you trust it (Es et al. 2023, "RAGAS").  On the labelled claims
of the handbook (`claims.py`) this one sees nine of ten changed numbers, dates, units and codes,
about half of the changed negations and names, and few other changes; it turns down one supported
claim in seven.  `make bench` prints the figures.

Left out: learned entailment, which sees that two wordings mean the same or the opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from raglab.evaluate.disagree import disagreements
from raglab.evaluate.support import coverage, matches
from raglab.types import Chunk, Embedder, RagLabError

Label = Literal["supported", "contradicted", "not in the context"]
LABELS: tuple[Label, ...] = get_args(Label)
SUPPORTED, CONTRADICTED, ABSENT = LABELS


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of a claim, and why."""

    label: Label
    score: float  # from 0 to 1: how well the passage covers the claim, or how sure the judge is
    why: tuple[str, ...] = ()  # what disagrees, or what is lacking, each in words
    sentence: str = ""  # the statement that was compared, letter for letter; empty if there is none
    source: int = -1  # which of the passages holds it, from 0; -1 for none

    @property
    def supported(self) -> bool:
        return self.label == SUPPORTED


class Judge(Protocol):
    def judge(self, claim: str, passages: Sequence[Chunk | str]) -> Verdict:
        """One claim against these passages, taken together."""
        ...


@dataclass(frozen=True)
class OfflineJudge:
    """Late interaction for what the claim is about, exact comparison for what it says of it.

    threshold: the coverage, from 0 to 1, below which the claim is not in the context; chosen on
    the `dev` claims.
    """

    embedder: Embedder = field(repr=False)
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise RagLabError(f"threshold={self.threshold}: choose one from 0 to 1")

    def judge(self, claim: str, passages: Sequence[Chunk | str]) -> Verdict:
        if not claim.strip():
            raise RagLabError("there is no claim to judge: give it some words")
        groups = matches(claim, passages, self.embedder)
        found = [match for group in groups for match in group]
        if not found:
            return Verdict(ABSENT, 0.0, ("the passages hold no statement",))
        best = max(found, key=lambda match: match.score)
        group = groups[best.source]
        covered = round(min(1.0, max(0.0, coverage(group))), 6)
        place = (best.statement.said, best.source)
        if covered < self.threshold:
            why = f"the passage covers {covered:.2f} of the claim, below {self.threshold:.2f}"
            return Verdict(ABSENT, covered, (why,), *place)
        against = disagreements(best, [match for match in group if match is not best])
        return Verdict(CONTRADICTED if against else SUPPORTED, covered, against, *place)
