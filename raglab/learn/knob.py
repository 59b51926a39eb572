"""Which knob rescues the answer?

A stage has lost the chunk that holds the answer.  The learner says which knob, turned alone, would
bring it into the prompt.  Often none does: then what is needed is another chunk size, another
encoder, or another question, and no knob at all.

Several knobs may do.  To name one is right if it is among them.  To name all of them is judged by
the share of right ones among all that were named or should have been (Jaccard 1901):

    score = named and right / (named or right)

Left out: the search for the truth, which runs the pipeline and is given as an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from raglab.learn.words import listed
from raglab.types import RagLabError

NONE = "No single knob"


@dataclass(frozen=True, slots=True)
class KnobChallenge:
    """Options to choose from. `NONE` is always the last, and the truth where no other one is.

    >>> KnobChallenge("Which?", ("Keep", "RRF's k"), ()).options
    ('Keep', "RRF's k", 'No single knob')
    >>> KnobChallenge("Which?", ("Keep", "RRF's k"), ()).truth
    ('No single knob',)
    """

    question: str
    options: tuple[str, ...]
    truth: tuple[str, ...]  # the options that do, in the order of `options`

    NONE: ClassVar[str] = NONE

    def __post_init__(self) -> None:
        """Raises RagLabError for a truth that is no option, or `NONE` beside a knob."""
        options = tuple(dict.fromkeys(one for one in self.options if one != NONE))
        truth = tuple(one for one in options if one in self.truth)
        strange = [one for one in self.truth if one not in (*options, NONE)]
        if strange:
            raise RagLabError(f"{strange[0]!r} is no option: add it to {', '.join(options)}")
        if truth and NONE in self.truth:
            raise RagLabError(f"{NONE!r} cannot be true beside {truth[0]!r}: leave one out")
        object.__setattr__(self, "options", (*options, NONE))
        object.__setattr__(self, "truth", truth or (NONE,))


@dataclass(frozen=True, slots=True)
class KnobReveal:
    """A guess beside the truth."""

    guess: tuple[str, ...]
    truth: tuple[str, ...]
    score: float  # from 0 to 1
    words: str  # how good it was, in a sentence


def judge_knob(challenge: KnobChallenge, guess: str | Collection[str]) -> KnobReveal:
    """A text names one option and scores 1 or 0; a collection stands for all that do.

    Raises RagLabError where nothing is named, something that is no option, or `NONE` and a knob.
    """
    options, truth = challenge.options, challenge.truth
    named = (guess,) if isinstance(guess, str) else tuple(guess)
    strange = [one for one in named if one not in options]
    if strange or not named:
        wrong = f"{strange[0]!r} is no option" if strange else "nothing is named"
        raise RagLabError(f"{wrong}: choose from {', '.join(options)}")
    given = tuple(one for one in options if one in named)
    if NONE in given and len(given) > 1:
        raise RagLabError(f"{NONE!r} and {given[0]!r} cannot both be: leave one out")
    right = [one for one in given if one in truth]
    score = len(right) / (1 if isinstance(guess, str) else len({*given, *truth}))
    return KnobReveal(given, truth, score, _in_words(given, truth, right))


def _in_words(given: Sequence[str], truth: Sequence[str], right: Sequence[str]) -> str:
    wrong = [one for one in given if one not in truth]
    missed = [one for one in truth if one not in given]
    if NONE in right:
        return "Right: no single knob rescues the answer."
    if NONE in truth:
        return f"{listed(wrong)} {_do(wrong)} not rescue the answer, and no other knob does."
    if NONE in wrong:
        return f"There is a way: {listed(missed)} {_rescue(missed)} the answer."
    said = []
    if right:
        said.append(f"{'' if wrong else 'Right: '}{listed(right)} {_rescue(right)} the answer")
    if wrong:
        said.append(f"{listed(wrong)} {_do(wrong)} not{'' if right else ' rescue the answer'}")
    if missed:
        said.append(f"{listed(missed)} {'would too' if right else _do(missed)}")
    return f"{'; '.join(said)}."


def _do(options: Sequence[str]) -> str:
    return "does" if len(options) == 1 else "do"


def _rescue(options: Sequence[str]) -> str:
    return "rescues" if len(options) == 1 else "rescue"
