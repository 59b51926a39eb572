"""What went wrong first: each stage by hand, then what must hold of any questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from fakes import FakeEmbedder, chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.answer.assemble import BudgetAssembler
from raglab.evaluate.attribution import (
    ANSWERED,
    BARRED,
    CUT,
    DROPPED,
    EVERY,
    MERGED,
    NOWHERE,
    OVER,
    REFUSED,
    REFUSED_WELL,
    RIGHT,
    SEVERED,
    STAGES,
    UNCITED,
    UNFOUND,
    UNFUSED,
    UNREAD,
    WRONG,
    Attribution,
    answered_right,
    attribute,
    context_recall_bound,
    counts,
    counts_by_kind,
    missed,
    reading,
)
from raglab.evaluate.judge import ABSENT, Verdict
from raglab.kit import Kit
from raglab.pipeline import Pipeline
from raglab.retrieve.fuse import RRF
from raglab.retrieve.ranking import rank
from raglab.retrieve.rewrite import PassThrough
from raglab.retrieve.unchanged import Unchanged
from raglab.types import (
    Allowed,
    Answer,
    Chunk,
    Citation,
    Context,
    Document,
    Evidence,
    Part,
    Query,
    Question,
    Ranking,
)

FEE = "The fee is 5 euro."


@dataclass(frozen=True)
class Listed:
    """Finds these chunks in this order, whatever is asked."""

    chunks: tuple[Chunk, ...]

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        seen = [one for one in self.chunks if allowed is None or allowed(one)]
        return rank(((one, [Part("given", 1 / n)]) for n, one in enumerate(seen, start=1)), k)


@dataclass(frozen=True)
class First:
    """As a fuser or a reranker: takes the first `depth` of what it is given."""

    depth: int
    backwards: bool = False

    def fuse(self, rankings: dict[str, Ranking]) -> Ranking:
        return RRF().fuse(rankings)[: self.depth]

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        order = hits[::-1] if self.backwards else hits
        return tuple(replace(hit, rank=n) for n, hit in enumerate(order[: self.depth], start=1))


@dataclass(frozen=True)
class Says:
    """Answers with this, citing these sources; a refusal where it is empty."""

    text: str = FEE
    numbers: tuple[int, ...] = (1, 2, 3)

    def generate(self, query: Query, context: Context) -> Answer:
        marks = tuple(
            Citation(n, context.kept[n - 1].chunk.chunk_id, "")
            for n in self.numbers
            if n <= len(context.kept)
        )
        return Answer(self.text or "No.", marks, not self.text, "test")


class Strict:
    """Supports nothing: an answer is right only where it says the quotes themselves."""

    def judge(self, claim: str, passages: Sequence[Chunk | str]) -> Verdict:
        return Verdict(ABSENT, 0.0)


X = chunk("doc#x", FEE)
A, B, C = (chunk(f"other#{name}", f"{name}1 {name}2 {name}3 {name}4") for name in "abc")
DOCUMENTS = (Document("doc", f"Fees. {FEE}"), Document("other", "a1"))
ASKED = Question("q", "What is the fee?", "numeric", "5 euro", (Evidence("doc", FEE),), True)
UNKNOWN = replace(ASKED, evidence=(), answerable=False, kind="unanswerable")


def words(text: str) -> int:
    return len(text.split())


def found(
    *lists: Sequence[Chunk],
    question: Question = ASKED,
    documents: Sequence[Document] = DOCUMENTS,
    chunks: Sequence[Chunk] = (A, B, C, X),
    limit: int = 254,
    keep: int = 8,
    budget: int = 1500,
    **stages: object,
) -> Attribution:
    lanes = zip(("dense", "sparse"), lists, strict=False)
    parts = {
        "rewriter": PassThrough(),
        "fuser": RRF(),
        "reranker": Unchanged(),
        "generator": Says(),
        "k": 3,
    } | stages
    pipeline = Pipeline(
        retrievers={name: Listed(tuple(one)) for name, one in lanes},
        assembler=BudgetAssembler(words, keep, budget),
        kit=Kit(chunks=tuple(chunks)),
        **parts,  # type: ignore[arg-type]
    )
    embedder = FakeEmbedder()
    embedder.limit = limit  # type: ignore[misc]
    (one,) = attribute(pipeline, [question], documents, Strict(), embedder)
    return one


def stage(*lists: Sequence[Chunk], **given_: object) -> str:
    return found(*lists, **given_).stage  # type: ignore[arg-type]


def test_each_stage_by_hand() -> None:
    three = [A, B, C]
    assert stage([A], documents=DOCUMENTS[1:]) == NOWHERE
    halves = [chunk("doc#0", "The fee is"), chunk("doc#1", "5 euro.")]
    assert stage(halves, chunks=halves) == SEVERED
    secret = replace(X, groups=("finance",))
    assert stage([secret], chunks=[secret]) == BARRED
    assert stage(three, three) == UNFOUND
    assert stage([A, X], [A], fuser=First(1)) == UNFUSED
    assert stage([A, X], reranker=First(1)) == DROPPED
    assert stage([A, B, X], keep=2) == CUT
    # RRF puts x first, the reranker last: it stood above the cut and was put below it.
    assert stage([X, A, B], keep=2, reranker=First(3, backwards=True)) == DROPPED
    # Each block: `<source number="1" chunk="other#a" heading="">`, 4 or 5 words, `</source>`.
    assert stage([A, X], budget=10) == OVER
    assert stage([X], generator=Says("")) == REFUSED
    assert stage([X], generator=Says("It is 9 euro.")) == WRONG
    assert stage([A, X], generator=Says(numbers=(1,))) == UNCITED
    assert stage([A, X], generator=Says(numbers=(2,))) == RIGHT


def test_a_duplicate_that_lacked_the_quote() -> None:
    """Nine of its ten triples are those of the kept one, and the quote's end is not."""
    text = "one two three four five six seven eight nine ten eleven"
    kept, copy = chunk("doc#0", text), chunk("doc#1", f"{text} end")
    asked = replace(ASKED, evidence=(Evidence("doc", "eleven end"),))
    documents = [Document("doc", f"{text} end")]
    one = found([kept, copy], question=asked, documents=documents, chunks=[kept, copy])
    assert (one.stage, one.reason) == (MERGED, "doc#1: duplicate of doc#0")


def test_behind_what_the_encoder_reads() -> None:
    """The chunk has 4 + 5 words and the quote is the last 5: with a limit of 4 none is read."""
    long = chunk("doc#long", f"a b c d {FEE}")
    given_ = {"chunks": [A, long], "documents": [Document("doc", long.text)]}
    assert stage([A], limit=4, **given_) == UNREAD
    assert stage([A], limit=5, **given_) == UNFOUND  # its first word is read
    assert stage([long], limit=4, **given_) == RIGHT  # found all the same: nothing went wrong
    embedder = FakeEmbedder()
    embedder.limit = 4  # type: ignore[misc]
    assert reading(embedder)(long) == len("a b c d")
    assert reading(FakeEmbedder())(long) == len(long.text)


def test_the_lists_that_missed_it_are_named() -> None:
    one = found([A, X], [A, B])
    assert (one.stage, one.missed_by) == (RIGHT, ("sparse",))
    lost = found([A, B], [B])
    assert lost.missed_by == ("dense", "sparse")
    assert lost.reason == "doc#x: dense and sparse do not find it"
    assert missed([one, lost]) == {"sparse": 2, "dense": 1}


def test_of_two_quotes_the_one_that_was_lost_first() -> None:
    """One quote is cut by keep, the other is in no chunk: chunking is to be mended first."""
    asked = replace(ASKED, evidence=(Evidence("doc", FEE), Evidence("doc", "Fees. The")))
    assert stage([A, B, X], question=asked, keep=2) == SEVERED


def test_a_question_without_an_answer() -> None:
    assert stage([A], question=UNKNOWN, generator=Says("")) == REFUSED_WELL
    assert stage([A], question=UNKNOWN) == ANSWERED


ENDS = st.lists(
    st.builds(
        Attribution,
        st.uuids().map(str),
        st.sampled_from(["numeric", "table"]),
        st.sampled_from(EVERY),
        st.just(""),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(ENDS)
def test_nobody_answers_more_than_the_context_holds(ends: list[Attribution]) -> None:
    bound, well = context_recall_bound(ends), answered_right(ends)
    if all(one.stage not in STAGES for one in ends):
        assert bound is well is None
    else:
        assert bound is not None
        assert well is not None
        assert 0 <= well <= bound <= 1


@settings(deadline=None)
@given(ENDS)
def test_each_question_is_counted_once(ends: list[Attribution]) -> None:
    assert sum(counts(ends).values()) == len(ends)
    by_kind = counts_by_kind(ends)
    assert by_kind.pop("all") == counts(ends)
    for end, count in counts(ends).items():
        assert sum(kind.get(end, 0) for kind in by_kind.values()) == count


def test_the_handbook(lab: Pipeline) -> None:
    """A few questions of each kind: the bound is the share of whole context recall, computed by
    the scorecard's own way."""
    from raglab.evaluate.judge import OfflineJudge
    from raglab.evaluate.outcomes import outcomes
    from raglab.evaluate.scorecard import measured
    from raglab.lab import golden_questions, read_corpus

    questions = golden_questions("handbook", "dev")[::6]
    embedder = lab.retrievers["dense"].embedder  # type: ignore[attr-defined]
    judge = OfflineJudge(embedder)
    ends = attribute(lab, questions, read_corpus("handbook"), judge, embedder)
    values = measured(outcomes(lab, questions), judge, embedder)
    whole = [value == 1 for value in values["context recall"].values()]
    assert context_recall_bound(ends) == pytest.approx(sum(whole) / len(whole))
    good = {one.query_id for one in ends if one.stage in (RIGHT, UNCITED, REFUSED_WELL)}
    assert good <= {query_id for query_id, value in values["right"].items() if value}
    assert not {NOWHERE, BARRED} & set(counts(ends))
