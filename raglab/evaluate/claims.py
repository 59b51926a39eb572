"""Claims that people labelled, and how often a judge agrees with them.

Each claim stands beside one passage of the handbook, the section that holds its quote, and is
labelled `supported`, `contradicted` or `not in the context`.  Half of them are adversarial: one
number, date, name or "not" of what the passage says was changed, and nothing else.

    recall               of the supported claims, the share that the judge supports
    precision            of the claims that the judge supports, the share that is supported
    specificity          of the other claims, the share that the judge does not support
    balanced accuracy    (recall + specificity) / 2
    accuracy             of all claims, the share with the very label

A judge that supports all, or none, has a balanced accuracy of 0.5, however many claims are
supported (Brodersen et al. 2010, "The Balanced Accuracy and Its Posterior Distribution").

Left out: agreement between several people.  These labels are one person's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from raglab.evaluate.intervals import Interval, interval
from raglab.evaluate.judge import LABELS, SUPPORTED, Judge, Label, Verdict
from raglab.ingest.recursive import sections
from raglab.types import Chunk, Document, RagLabError


@dataclass(frozen=True, slots=True)
class Claim:
    """A labelled pair: what is claimed, and the quote that names its passage."""

    claim_id: str
    claim: str
    doc_id: str
    quote: str  # letter for letter; the passage is the section that holds it
    label: Label
    change: str  # what was changed, or how it was put in other words
    split: str  # "dev" or "test"
    why: str = ""


def read_claims(path: Path | str, split: str | None = None) -> tuple[Claim, ...]:
    """The claims of a file, a JSON object a line; all of them, or those of one split."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RagLabError(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            claim = Claim(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise RagLabError(
                f"{path}:{number} is not a claim ({error}): see data/README.md for the fields"
            ) from error
        if claim.label not in LABELS:
            raise RagLabError(f"{path}:{number}: no label {claim.label!r}, but {', '.join(LABELS)}")
        found.append(claim)
    return tuple(claim for claim in found if split in (None, claim.split))


def passage(claim: Claim, documents: Mapping[str, Document]) -> Chunk:
    """The section that holds the claim's quote, as a chunk under its headings.

    Raises RagLabError where no document, or no section of it, holds the quote.
    """
    document = documents.get(claim.doc_id)
    for (start, end), heading in sections(document.text) if document else ():
        text = document.text[start:end] if document else ""
        if document and claim.quote in text:
            name = f"{claim.doc_id}@{start}"
            return Chunk(name, claim.doc_id, text, start, end, heading, title=document.title)
    raise RagLabError(f"{claim.claim_id}: no section of {claim.doc_id!r} holds its quote")


@dataclass(frozen=True)
class Agreement:
    """Claims and a judge's verdicts on them, in the same order."""

    claims: tuple[Claim, ...]
    verdicts: tuple[Verdict, ...]

    @cached_property
    def confusion(self) -> Mapping[tuple[Label, Label], int]:
        """(the person's label, the judge's label) -> how many claims."""
        pairs = zip(self.claims, self.verdicts, strict=True)
        return Counter((claim.label, verdict.label) for claim, verdict in pairs)

    def right(self, label: Label, *, same: bool = False) -> list[float]:
        """For each claim of a label, 1.0 where the judge is right about its support, or, with
        `same`, gives the very label; else 0.0."""
        return [
            float(verdict.label == label if same else verdict.supported == (label == SUPPORTED))
            for claim, verdict in zip(self.claims, self.verdicts, strict=True)
            if claim.label == label
        ]

    @property
    def recall(self) -> Interval:
        return interval(self.right(SUPPORTED))

    @property
    def precision(self) -> Interval:
        pairs = zip(self.claims, self.verdicts, strict=True)
        return interval([float(c.label == SUPPORTED) for c, v in pairs if v.supported])

    @property
    def accuracy(self) -> Interval:
        return interval([x for label in LABELS for x in self.right(label, same=True)])

    @property
    def specificity(self) -> Interval:
        return interval([x for label in LABELS if label != SUPPORTED for x in self.right(label)])

    @property
    def balanced_accuracy(self) -> float:
        return (self.recall.value + self.specificity.value) / 2

    def __str__(self) -> str:
        """A text table: a row for each label, then the figures with their 95% intervals."""
        width = max(map(len, LABELS))
        rows = [" " * width + "".join(f"  {label:>{width}}" for label in LABELS)]
        for label in LABELS:
            counts = (self.confusion.get((label, given), 0) for given in LABELS)
            rows.append(f"{label:{width}}" + "".join(f"  {count:{width}}" for count in counts))
        rows.append(f"balanced accuracy {self.balanced_accuracy:.2f}, of {len(self.claims)} claims")
        rows.append(f"recall {self.recall}, specificity {self.specificity}")
        rows.append(f"precision {self.precision}, accuracy {self.accuracy}")
        return "\n".join(rows)


def agreement(judge: Judge, claims: Sequence[Claim], documents: Sequence[Document]) -> Agreement:
    """Has the judge judge every claim against its own passage."""
    by_id = {document.doc_id: document for document in documents}
    verdicts = tuple(judge.judge(one.claim, [passage(one, by_id)]) for one in claims)
    return Agreement(tuple(claims), verdicts)
