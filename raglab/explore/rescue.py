"""A rescue: one dial, turned just far enough to bring a lost chunk into the prompt.

It has a price: other chunks come along, others leave, and a longer prompt costs more.

Left out: what the change does to other questions.
"""

from __future__ import annotations

from dataclasses import dataclass

from raglab.explore.dials import SIZE
from raglab.kit import Value


@dataclass(frozen=True, slots=True)
class Rescue:
    """One dial's smallest change that brings the wanted chunk into the prompt, and its price."""

    dial: str
    label: str
    was: Value
    value: Value
    share: float  # of the dial's range that it moves through; 1 where a stage is swapped
    chunk_id: str  # the wanted chunk that is in the prompt now, as [place]; "" by an access rule
    place: int
    entered: tuple[str, ...]  # the others that come in; none are named for another chunk size,
    left: tuple[str, ...]  # which makes other chunks, nor any that the reader may not see
    evidence_left: tuple[str, ...]  # of `left`, those that held a quote that the prompt now lacks
    tokens_before: int
    tokens_after: int
    access: bool = False  # it changes who asks


def change(rescue: Rescue) -> str:
    """A rescue in words: "Kept for the prompt from 8 to 9; nothing else moves"."""
    said = f"{rescue.label} from {rescue.was} to {rescue.value}"
    if rescue.dial == SIZE:
        return said
    brings, leave = len(rescue.entered), len(rescue.left)
    moves = [f"it also brings in {plural(brings, 'other')}"] if brings else []
    who = f"{leave}" if brings else plural(leave, "other")
    moves += [f"{who} {'leaves' if leave == 1 else 'leave'}"] if leave else []
    moved = ", and ".join(moves) or "nothing else moves"
    lost = ", other evidence among them" if leave > 1 else ", which held other evidence"
    return f"{said}; {moved}{lost if rescue.evidence_left else ''}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
