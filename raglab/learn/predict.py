"""Predict, then reveal: five chunks, and the learner puts them in order before the stage does.

An answer that was guessed at first, even wrongly, is remembered better than one that was only read
(Kornell, Hays and Bjork 2009).

A guess is judged by its pairs.  Five chunks make 5 · 4 / 2 = 10 of them, and a pair is right where
the guess and the truth put the same one above the other (Kendall 1938, "A New Measure of Rank
Correlation", calls it concordant).  Chance gets half.  Places alone would be too strict: one chunk
that stands too high moves those below it out of their places, and their order is still right.
Kendall's tau is the same count on another scale, 2 · (right / all) - 1.

`choose` picks the chunks, `why` explains the truth, and `knob` asks another kind of question.

Left out: that a slip at the top costs more than one at the bottom, as nDCG has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from raglab.learn.choose import chosen, shuffled
from raglab.learn.knob import KnobChallenge, KnobReveal, judge_knob
from raglab.learn.lists import ASKED, queries
from raglab.learn.why import why_first
from raglab.learn.words import listed, number
from raglab.trace import Step, Trace
from raglab.types import RagLabError

__all__ = [
    "Challenge", "KnobChallenge", "KnobReveal", "Reveal", "concordant", "judge", "judge_knob",
    "order_challenge",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Challenge:
    """Chunks to put in order. `truth` and `why` are for after the guess."""

    step: str
    stage: str
    query: str  # the reader's
    question: str
    chunk_ids: tuple[str, ...]  # shuffled, the same way each time; never in the order of `truth`
    truth: tuple[str, ...]
    why: str
    turned: int = 0  # pairs that a list before has the other way round; a retriever reads none


def order_challenge(
    trace: Trace, step_name: str, evidence: Collection[str] = (), n: int = 5
) -> Challenge | None:
    """A challenge about a retrieve, fuse, rerank or assemble step, of at most `n` chunks.

    None where there is nothing to predict: fewer than 2 chunks, a prompt with none, or a step that
    hands on the order which it read, as a reranker that does nothing and most prompts do.

    evidence: the chunks that hold the answer.  Raises RagLabError for another step, and for n < 2.
    """
    names = [step.name for step in trace.steps if step.stage in ASKED]
    if step_name not in names:
        raise RagLabError(f"{step_name!r} orders no chunks: choose one of {', '.join(names)}")
    if n < 2:
        raise RagLabError(f"n is {n}: an order needs at least 2 chunks")
    step = trace[step_name]
    hits, turned = chosen(trace, step, evidence, n)
    if len(hits) < 2:
        return None
    truth = tuple(hit.chunk.chunk_id for hit in hits)
    return Challenge(
        step=step.name,
        stage=step.stage,
        query=trace.query.text,
        question=_question(trace, step, len(truth)),
        chunk_ids=shuffled(truth, f"{trace.query.text}\n{step.name}"),
        truth=truth,
        why=why_first(trace, step, hits),
        turned=turned,
    )


def _question(trace: Trace, step: Step, n: int) -> str:
    put = f"Put these {number(n)} chunks in the order"
    match step.stage:
        case "retrieve":
            return f"{put} in which {step.name} search ranks them{_for_which(trace, step)}."
        case "fuse":
            lists = listed(step.after) if len(step.after) < 4 else f"{len(step.after)} lists"
            return f"{put} in which fusion puts them, from {lists}."
        case "rerank":
            return f"{put} in which the rerank puts them."
    return f"{put} of the prompt; those that it leaves out go last, by their rank before."


def _for_which(trace: Trace, step: Step) -> str:
    """The rewritten query that a branch such as "dense 2" searches with."""
    _, _, branch = step.name.rpartition(" ")
    asked = queries(trace)
    if not branch.isdecimal() or not 0 < int(branch) <= len(asked):
        return ""
    return f' for "{asked[int(branch) - 1].text}"'


# -- judging ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reveal:
    """A guess beside the truth."""

    guess: tuple[str, ...]
    truth: tuple[str, ...]
    right: int  # pairs in the right order
    pairs: int  # all pairs
    places: int  # chunks that stand exactly where they belong
    words: str  # how good it was, in a sentence
    why: str  # why the truth is what it is

    @property
    def score(self) -> float:
        """The share of pairs that are right, from 0 to 1."""
        return self.right / self.pairs


def judge(challenge: Challenge, guess: Sequence[str]) -> Reveal:
    """Raises RagLabError unless the guess holds each of the challenge's chunks once."""
    given, truth = _checked(challenge, guess), challenge.truth
    right = concordant(given, truth)
    pairs = len(truth) * (len(truth) - 1) // 2
    return Reveal(
        guess=given,
        truth=truth,
        right=right,
        pairs=pairs,
        places=sum(one == other for one, other in zip(given, truth, strict=True)),
        words=_in_words(given, truth, right, pairs),
        why=challenge.why,
    )


def concordant(guess: Sequence[str], truth: Sequence[str]) -> int:
    """How many pairs stand in the same order in both.

    >>> concordant(("b", "a", "c"), ("a", "b", "c"))
    2
    """
    place = {chunk_id: at for at, chunk_id in enumerate(truth)}
    return sum(place[above] < place[below] for above, below in combinations(guess, 2))


def _checked(challenge: Challenge, guess: Sequence[str]) -> tuple[str, ...]:
    asked = challenge.chunk_ids
    given = tuple(guess) if isinstance(guess, Sequence) and not isinstance(guess, str) else ()
    strange = [one for one in given if one not in asked]
    missing = [one for one in asked if one not in given]
    if strange or missing or len(given) != len(asked):
        wrong = f"{missing[0]} is missing" if missing else "one of them stands there twice"
        if strange:
            wrong = f"{strange[0]!r} is none of them"
        raise RagLabError(
            f"a guess holds each of the {number(len(asked))} chunks once, best first, and {wrong}: "
            f"put these in order: {', '.join(asked)}"
        )
    return given


def _in_words(guess: tuple[str, ...], truth: tuple[str, ...], right: int, pairs: int) -> str:
    if right == pairs:
        return f"All {pairs} pairs are in the right order." if pairs > 1 else "That is the order."
    if right == 0:
        if pairs == 1:
            return "It is the other way round."
        return f"None of the {pairs} pairs is right: turn your idea round, and all of them are."
    head = f"{right} of {pairs} pairs {'is' if right == 1 else 'are'} in the right order"
    if 2 * right <= pairs:
        head += f" (chance gives {pairs / 2:g})"
    shift = {chunk_id: guess.index(chunk_id) - truth.index(chunk_id) for chunk_id in truth}
    # The chunks that are alone out of place: without such a one, the rest is in order.
    alone = [one for one in truth if _without(guess, one) == _without(truth, one)]
    if len(alone) == 2:
        return f"{head}; only {alone[0]} and {alone[1]} have changed places."
    if alone:
        return f"{head}; only {alone[0]} stood {_off(shift[alone[0]])}."
    worst = max(truth, key=lambda one: abs(shift[one]))
    return f"{head}; {worst} stood furthest off, {_off(shift[worst])}."


def _without(order: tuple[str, ...], left_out: str) -> tuple[str, ...]:
    return tuple(one for one in order if one != left_out)


def _off(places: int) -> str:
    """
    >>> _off(-2), _off(1)
    ('two places too high', 'one place too low')
    """
    plural = "" if abs(places) == 1 else "s"
    return f"{number(abs(places))} place{plural} too {'high' if places < 0 else 'low'}"
