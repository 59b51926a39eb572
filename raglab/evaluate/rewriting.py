"""What a rewriter brings, and what it costs.

A rewriter pays three times: for the call to the model, for the time of the call, and for a search
of each query that it adds.  So its recall stands beside the searches and the tokens of a question:

    USD of 1,000 questions = (input tokens · input price + output tokens · output price) / 1,000

with the tokens of all calls over the number of questions, and prices for a million tokens.  A kept
reply carries no counts; its tokens are then estimated by `count`, the encoder's for one.

Left out: the time of the call, which no kept reply can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from raglab.evaluate.compare import helped_harmed, judged
from raglab.evaluate.intervals import Interval, interval
from raglab.llm import listen
from raglab.prices import Price
from raglab.retrieve.rewrite import Asking
from raglab.types import Fuser, Query, Question, Ranking, Readable, Retriever, Rewriter

Search = Callable[[Question], Ranking]


def as_query(question: Question) -> Query:
    """A golden question as it is asked: its text, and the turns before it."""
    return Query(question.query_id, question.text, history=question.history)


def searching(
    rewriter: Rewriter, retrievers: Mapping[str, Retriever], fuser: Fuser, k: int = 20
) -> Search:
    """The pipeline's first half: each query in each of its lanes, k hits of each, fused.

    A question that is asked again is not searched for again.
    """

    @cache
    def search(question: Question) -> Ranking:
        rankings = {
            f"{lane} {number}": retriever.retrieve(query, k, Readable(question.groups))
            for number, query in enumerate(rewriter.rewrite(as_query(question)), start=1)
            for lane, retriever in retrievers.items()
            if query.lane in ("", lane)
        }
        return fuser.fuse(rankings)

    return search


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a rewriter, for one question on average."""

    calls: float
    queries: float  # that are searched for, the reader's own among them
    input_tokens: float
    output_tokens: float

    def usd(self, price: Price) -> float:
        """For 1,000 questions.

        >>> price = Price("m", input=3, output=15, cache_write=0, cache_read=0, cache_least=0,
        ...               as_of="")
        >>> Cost(calls=1, queries=4, input_tokens=100, output_tokens=20).usd(price)
        0.6
        """
        return (self.input_tokens * price.input + self.output_tokens * price.output) / 1000


def cost(rewriter: Rewriter, questions: Sequence[Question], count: Callable[[str], int]) -> Cost:
    """What the rewriter asks for these questions. Tokens that a reply does not state are counted
    by `count`. Raises RagLabError where the model cannot be asked."""
    calls = queries = sent = received = 0
    for question in questions:
        query = as_query(question)
        with listen() as replies:
            queries += len(rewriter.rewrite(query))
        calls += len(replies)
        for reply in replies:
            received += reply.output_tokens or count(reply.text)
            sent += reply.input_tokens or _prompt_tokens(rewriter, query, count)
    return Cost(*(total / len(questions) for total in (calls, queries, sent, received)))


@dataclass(frozen=True, slots=True)
class Row:
    """One method beside the plain query, on the same questions."""

    method: str
    questions: int
    plain: Interval  # evidence recall@k of the queries as asked
    recall: Interval
    helped: tuple[str, ...]  # query ids
    harmed: tuple[str, ...]
    cost: Cost

    def cells(self, price: Price) -> tuple[str, ...]:
        return (
            self.method,
            str(self.questions),
            f"{self.plain.value:.2f}",
            str(self.recall),
            str(len(self.helped)),
            str(len(self.harmed)),
            f"{self.cost.queries:.1f}",
            f"{self.cost.calls:.0f}",
            f"{self.cost.input_tokens:.0f} + {self.cost.output_tokens:.0f}",
            f"{self.cost.usd(price):.2f}",
        )


HEAD = ("method", "asked", "plain", "rewritten", "+", "-", "queries", "calls", "tokens", "USD")


def measure(
    method: str,
    plain: Search,
    rewritten: Search,
    questions: Sequence[Question],
    spent: Cost,
    k: int = 5,
) -> Row:
    """A method's figures. Every question needs evidence: there must be something to find."""
    before, after = (judged(search, questions, k) for search in (plain, rewritten))
    helped, harmed = helped_harmed(before, after)
    return Row(
        method=method,
        questions=len(after),
        plain=interval(list(before.values())),
        recall=interval(list(after.values())),
        helped=helped,
        harmed=harmed,
        cost=spent,
    )


def _prompt_tokens(rewriter: Rewriter, query: Query, count: Callable[[str], int]) -> int:
    if not isinstance(rewriter, Asking):
        return 0
    prompt = rewriter.prompt(query)
    return count(prompt.system) + count(prompt.text)
