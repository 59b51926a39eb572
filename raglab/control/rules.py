"""A planner without a model: it searches, judges what it found, and searches again by rule.

    nothing to look up      a greeting: answer at once, without a search
    first                   search for the question as it was asked
    enough                  answer
    not enough, analytical  search for the question and the heading of the best passage: a second
                            hop often lies near where the first one ended
    not enough, factual     search for the question again, further down the list
    no turn left            answer from what is there

A passage is relevant where its best statement answers the question nearly as well as the best of
all passages does.  The margin was chosen on the handbook's dev questions.

Left out: writing a question anew in other words, which takes a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from raglab.answer.extractive import Extractive
from raglab.control.agent import ANSWER, SEARCH
from raglab.control.enough import LACKING
from raglab.control.notes import Gather, Notes, named
from raglab.control.router import ANALYTICAL
from raglab.prices import Price
from raglab.retrieve.rewrite import WithHistory
from raglab.retrieve.tokens import Tokenizer
from raglab.types import Check, Decision, Part, Query, Router

_content = Tokenizer(drop_stop_words=True, stem=False)
SMALL_TALK = frozenset(("hello", "hi", "hey", "thanks", "thank", "bye", "goodbye", "ok", "okay"))


@dataclass(frozen=True)
class RulePlanner:
    """Plans by router, check and margin."""

    router: Router
    check: Check
    supporter: Extractive = field(repr=False)
    gather: Gather = field(repr=False)
    margin: float = 0.15  # of support, from 0 to 1, below the best passage's

    def plan(self, notes: Notes) -> Decision:
        asked = WithHistory().rewrite(notes.asked)[0]
        if not notes.searches:
            if nothing_to_look_up(notes.asked):
                return Decision(ANSWER, "nothing in it can be looked up")
            return Decision(SEARCH, "first, as it was asked", text=asked.text)
        relevant, parts = self.relevant(asked, notes)
        judged = f"relevant: {named(notes.numbers(), relevant) or 'none'}"
        context = self.gather.assemble(asked, notes.passages, relevant)
        checked = self.check.check(asked, context)
        if checked.choice != LACKING:
            return Decision(ANSWER, f"{judged}. {checked.why}", parts, relevant)
        if notes.turns_left == 1 or not notes.searches[-1].found:
            last = "no turn is left" if notes.turns_left == 1 else "nothing new is found"
            return Decision(ANSWER, f"{judged}. Not enough, and {last}", parts, relevant)
        text, how = self._next(asked, notes, relevant)
        return Decision(SEARCH, f"{judged}. {checked.why}: {how}", parts, relevant, text)

    def most(self, notes: Notes, price: Price) -> float:
        """Nothing: no model is asked."""
        return 0.0

    def relevant(self, asked: Query, notes: Notes) -> tuple[tuple[str, ...], tuple[Part, ...]]:
        """The relevant chunks in the order in which they were read, and each passage's support."""
        every = self.gather.assemble(asked, notes.passages)
        best = {hit.chunk.chunk_id: 0.0 for hit in every.kept}
        for one in self.supporter.supports(asked, every):
            best[one.chunk_id] = max(best[one.chunk_id], one.score)
        bar = max(best.values(), default=0.0) - self.margin
        parts = tuple(Part(name, round(value, 6)) for name, value in best.items())
        return tuple(name for name, value in best.items() if value >= max(bar, 1e-9)), parts

    def _next(self, asked: Query, notes: Notes, relevant: tuple[str, ...]) -> tuple[str, str]:
        """What to search for now, and why."""
        tried = {search.query for search in notes.searches}
        if self.router.route(notes.asked).choice == ANALYTICAL:
            for hit in notes.passages:
                text = f"{asked.text} {hit.chunk.heading}".strip()
                if hit.chunk.chunk_id in relevant and text not in tried:
                    return text, f"near “{hit.chunk.heading}”"
        return asked.text, "further down"


def nothing_to_look_up(query: Query) -> bool:
    """Is it a greeting or thanks? A question of small words leans on the turns before it.

    >>> nothing_to_look_up(Query("q", "Thanks!")), nothing_to_look_up(Query("q", "Thanks, VAT?"))
    (True, False)
    >>> nothing_to_look_up(Query("q", "Who are we?"))
    False
    >>> before = ("How long do refunds take?",)
    >>> [nothing_to_look_up(Query("q", text, history=before)) for text in ("Thanks!", "And why?")]
    [True, False]
    """
    words = _content(query.text)
    leans = bool(query.history) and (not words or "?" in query.text)
    empty = bool(words) or not re.search(r"\w", query.text)  # "Who are we?" is no greeting
    return not leans and empty and all(word in SMALL_TALK for word in words)
