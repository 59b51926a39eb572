"""Surprises: each kind on lists that a reader can check, then measured again on the handbook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from fakes import FakeLLM, chunk

from raglab.answer.assemble import BudgetAssembler
from raglab.evaluate.evidence import supporting
from raglab.evaluate.rewriting import as_query
from raglab.explore.aside import Aside
from raglab.explore.kinds import KINDS, kinds
from raglab.explore.surprise import surprise
from raglab.kit import Kit
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.retrieve.fuse import RRF
from raglab.retrieve.ranking import rank
from raglab.retrieve.rewrite import MultiQuery, PassThrough
from raglab.retrieve.unchanged import Unchanged
from raglab.trace import Trace
from raglab.types import (
    Allowed,
    Answer,
    Citation,
    Context,
    Evidence,
    Part,
    Query,
    Question,
    RagLabError,
    Ranking,
    Readable,
)

HR = {"s"}  # only this chunk is kept from the others


def given(letters: str) -> Ranking:
    chunks = [chunk(one, f"the {one}", groups=("hr",) if one in HR else ()) for one in letters]
    return rank((one, [Part("given", 1 / n)]) for n, one in enumerate(chunks, start=1))


@dataclass(frozen=True)
class Known:
    """Finds for each query the chunks that were written down for it."""

    lists: tuple[tuple[str, str], ...]

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        asked = " ".join((*query.history, query.text))
        hits = given(dict(self.lists).get(asked, ""))
        return tuple(hit for hit in hits if allowed is None or allowed(hit.chunk))[:k]


@dataclass(frozen=True)
class Backwards:
    """Reranks the first `depth` the other way round."""

    depth: int

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        turned = [hit.chunk for hit in hits[: self.depth]][::-1]
        return rank((one, [Part("turned", 1 / n)]) for n, one in enumerate(turned, start=1))


@dataclass(frozen=True)
class Willing:
    """Answers from the first source where the query says so."""

    def generate(self, query: Query, context: Context) -> Answer:
        if "answer" not in query.text:
            return Answer("No.", (), refused=True, origin="test")
        first = context.kept[0].chunk.chunk_id
        return Answer("Yes [1]", (Citation(1, first, ""),), refused=False, origin="test")


def made(
    dense: Mapping[str, str],
    sparse: Mapping[str, str] | None = None,
    *,
    k: int = 3,
    keep: int = 8,
    **fields: object,
) -> Pipeline:
    lanes = {"dense": Known(tuple(dense.items()))}
    if sparse is not None:
        lanes["sparse"] = Known(tuple(sparse.items()))
    chunks = tuple(hit.chunk for hit in given("abcdefgs"))
    parts: dict[str, object] = {
        "rewriter": PassThrough(),
        "fuser": RRF(),
        "reranker": Unchanged(),
        "generator": Willing(),
        "assembler": BudgetAssembler(len, keep=keep),
        "allowed": Readable(),
        **fields,
    }
    return Pipeline(retrievers=lanes, k=k, kit=Kit(chunks=chunks), **parts)  # type: ignore[arg-type]


def question(text: str, *letters: str, **fields: object) -> Question:
    """Its evidence is what these chunks say."""
    evidence = tuple(Evidence(one, f"the {one}") for one in letters)
    whole = {"kind": "numeric", "answer": "", "answerable": bool(letters), **fields}
    return Question(text, text, evidence=evidence, **whole)  # type: ignore[arg-type]


def said(pipeline: Pipeline, kind: str, *questions: Question) -> tuple[str | None, str]:
    """Which of the questions was chosen, and what was said."""
    found = surprise(pipeline, questions, kind)
    assert found.kind == kind
    return found.question and found.question.query_id, found.said


# -- the kinds by hand ----------------------------------------------------------------------------

BOTH = made(
    {"q1": "abc", "q2": "xab", "q3": "abcd", "answer q2": "ab"},
    {"q1": "dab", "q2": "abc", "q3": "bca"},
)


def test_a_lane_that_fails() -> None:
    """d is first for sparse and in none of dense's three; x is the other way round."""
    ask = (question("q1", "d"), question("q2", "a"))
    assert said(BOTH, "dense fails", *ask) == (
        "q1", "dense: the evidence is in none of its 3 hits; sparse: rank 1",
    )  # fmt: skip
    ask = (question("q1", "c"), question("q2", "a"))
    assert said(BOTH, "sparse fails", *ask) == (
        "q1", "sparse: the evidence is in none of its 3 hits; dense: rank 3",
    )  # fmt: skip


def test_fusion_hurts() -> None:
    """q1: a and b are in both lists, 1/61 + 1/62 and 1/62 + 1/63. d is first in one, 1/61, and
    third in the end. q2's a gains."""
    ask = (question("q1", "d"), question("q2", "a"))
    assert said(BOTH, "fusion hurts", *ask) == (
        "q1",
        "dense: not there; sparse: rank 1; fused: rank 3",
    )


def test_the_rerank_hurts_or_rescues() -> None:
    """The first three, turned round: a falls from 1 to 3, and c rises to 1, the only one kept."""
    pipeline = made({"q": "abcd"}, k=4, keep=1, reranker=Backwards(3))
    assert said(pipeline, "reranking hurts", question("q", "a")) == (
        "q", "fused: rank 1; reranked: rank 3",
    )  # fmt: skip
    assert said(pipeline, "reranking hurts", question("q", "d"))[1] == (
        "fused: rank 4; reranked: not there"
    )
    assert said(pipeline, "reranking hurts", question("q", "b"))[0] is None
    assert said(pipeline, "reranking rescues", question("q", "c")) == (
        "q",
        "fused: rank 3; reranked: rank 1, in the prompt as [1]; "
        "without the rerank: rank 3, cut at 1",
    )
    # In the prompt with it and without it: no rescue.
    assert said(replace(pipeline, assembler=BudgetAssembler(len, keep=3)), "reranking rescues",
                question("q", "c"))[0] is None  # fmt: skip


def test_nothing_finds_it() -> None:
    """d is fourth, where dense is cut at 3; g is in no list at all."""
    pipeline = made({"q": "abcd"})
    assert said(pipeline, "nothing finds it", question("q", "d")) == (
        "q",
        "rank 4 in dense, cut at 3",
    )
    assert said(pipeline, "nothing finds it", question("q", "g"))[1] == "dense does not find it"
    assert said(pipeline, "nothing finds it", question("q", "c"))[0] is None


def test_lost_at_the_last_cut() -> None:
    pipeline = made({"q": "abc"}, keep=2)
    assert said(pipeline, "lost at the last cut", question("q", "c")) == (
        "q", "reranked: rank 3; not in the prompt: rank 3, cut at 2",
    )  # fmt: skip
    assert said(pipeline, "lost at the last cut", question("q", "b"), question("q", "g"))[0] is None


def test_what_the_answer_gets_wrong() -> None:
    pipeline = made({"q": "abc", "answer this": "abc"})
    wrong = question("q", "b")
    assert said(pipeline, "refused", wrong, question("answer this", "b")) == (
        "q", "the evidence is in the prompt as [2]; the answer: No.",
    )  # fmt: skip
    assert said(pipeline, "refused", question("q", "g"))[0] is None  # it is right to refuse
    assert said(pipeline, "answered", wrong, question("q"), question("answer this")) == (
        "answer this", "no document answers it; the answer cites [1]",
    )  # fmt: skip


def test_a_part_of_several_quotes() -> None:
    pipeline = made({"q": "abcd"}, keep=2)
    assert said(pipeline, "several quotes needed", question("q", "a", "b", "c")) == (
        "q", "2 of 3 quotes are in the prompt; lost: rank 3, cut at 2",
    )  # fmt: skip
    for whole_or_nothing in (question("q", "a", "b"), question("q", "c", "d"), question("q", "c")):
        assert said(pipeline, "several quotes needed", whole_or_nothing)[0] is None


def test_all_lists_of_a_lane_count() -> None:
    """A rewritten query's list is dense's too: there it finds d."""

    @dataclass(frozen=True)
    class Two:
        def rewrite(self, query: Query) -> tuple[Query, ...]:
            return query, replace(query, text="q3")

    lists = {"q1": "abc", "q3": "efd"}
    pipeline = made(lists, {"q1": "dab"}, rewriter=Two())
    assert said(pipeline, "dense fails", question("q1", "d"))[0] is None
    assert said(pipeline, "dense fails", question("q1", "g"))[0] is None
    sees = made(lists, {"q1": "gab"}, rewriter=Two())
    assert said(sees, "dense fails", question("q1", "g"))[1] == (
        "dense: the evidence is in none of its 6 hits; sparse: rank 1"
    )


# -- how they are chosen --------------------------------------------------------------------------

MANY = [question(f"q{n}", "d") for n in range(6)]
SOME = made(
    {f"q{n}": "abc" if n % 2 else "dab" for n in range(6)}, {f"q{n}": "dbc" for n in range(6)}
)


def test_seeds_walk_through_all_of_them_once_and_begin_again() -> None:
    """Dense fails on three of six."""
    chosen = [surprise(SOME, MANY, "dense fails", seed=seed) for seed in range(6)]
    asked = [one.question.query_id for one in chosen if one.question]
    assert sorted(asked[:3]) == ["q1", "q3", "q5"]
    assert asked[3:] == asked[:3]
    tried = [one.tried for one in chosen]
    assert tried[:3] == sorted(tried[:3])
    assert tried[3:] == [6, 6, 6]
    assert {one.of for one in chosen} == {6}
    assert chosen[0] == surprise(SOME, MANY, "dense fails")
    # The order is chance's and not the file's.
    assert asked[:3] != sorted(asked[:3]) or tried[:3] != [2, 4, 6]


def test_none_is_said_plainly() -> None:
    none = surprise(SOME, MANY, "sparse fails")
    assert (none.question, none.tried, none.of) == (None, 6, 6)
    assert none.said == "None of the 6 questions: search by words fails, dense finds it."


def test_a_reader_is_asked_only_what_they_may_know() -> None:
    pipeline = made({"q": "abc"}, k=2)
    secret = question("q", "s", groups=("hr",))
    assert surprise(pipeline, [secret], "nothing finds it").of == 0
    of_hr = surprise(replace(pipeline, allowed=Readable(("hr",))), [secret], "nothing finds it")
    assert (of_hr.of, of_hr.said) == (1, "dense does not find it")
    # A quote that no chunk holds whole cannot be followed; beside one that is whole, it counts.
    severed = question("q", "a", "z")
    assert surprise(pipeline, [question("q", "z")], "nothing finds it").of == 0
    assert surprise(pipeline, [severed], "several quotes needed").said == (
        "1 of 2 quotes is in the prompt; lost: in no chunk whole: the quote was severed"
    )


def test_a_question_is_asked_with_the_turns_before_it() -> None:
    pipeline = made({"first then": "abc"}, {"first then": "dab"})
    follow_up = question("then", "d", history=("first",))
    assert said(pipeline, "dense fails", follow_up)[0] == "then"


def test_kinds_are_those_that_the_stages_allow() -> None:
    assert set(kinds(BOTH)) == set(KINDS) - {"reranking hurts", "reranking rescues"}
    alone = made({"q": "abc"}, reranker=Backwards(2))
    assert set(kinds(alone)) == set(KINDS) - {"dense fails", "sparse fails", "fusion hurts"}
    with pytest.raises(RagLabError, match="no 'dense fails': choose one of reranking hurts"):
        surprise(alone, MANY, "dense fails")
    with pytest.raises(RagLabError, match="no 'bad luck'"):
        surprise(BOTH, MANY, "bad luck")


def test_what_cannot_be_asked_is_counted() -> None:
    @dataclass(frozen=True)
    class Unheard:
        def rewrite(self, query: Query) -> tuple[Query, ...]:
            if query.text == "q0":
                raise RagLabError("no reply is kept for this prompt")
            return (query,)

    found = surprise(replace(SOME, rewriter=Unheard()), MANY, "sparse fails")
    assert found.said.endswith("1 of them could not be asked: no reply is kept.")


def test_no_model_is_asked_unbidden() -> None:
    llm = FakeLLM("other")
    pipeline = replace(SOME, rewriter=MultiQuery(llm))
    with pytest.raises(RagLabError, match="pass ask=True"):
        surprise(pipeline, MANY, "dense fails")
    assert llm.asked == []
    assert surprise(pipeline, MANY, "dense fails", ask=True).tried == len(llm.asked)


def test_the_reader_s_memo_stays_as_it_was_and_a_given_one_is_used() -> None:
    @dataclass(frozen=True)
    class Counting:
        seen: list[str]

        def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
            self.seen.append(query.text)
            return given("abc")

        def __hash__(self) -> int:
            return 1

    lane = Counting([])
    pipeline = replace(SOME, retrievers={"dense": lane}, memo=Memo())
    memo = Aside(pipeline.memo, 4096)
    told: list[tuple[int, int]] = []
    for _ in range(2):
        surprise(
            pipeline, MANY, "lost at the last cut", memo=memo,
            on_progress=lambda done, of: told.append((done, of)),
        )  # fmt: skip
    assert sorted(lane.seen) == [f"q{n}" for n in range(6)]
    assert not pipeline.memo._steps
    assert told[:6] == [(n, 6) for n in range(1, 7)]


# -- the handbook ---------------------------------------------------------------------------------

Check = Callable[[Trace, set[str]], bool]


def held(trace: Trace, step: str, evidence: set[str]) -> bool:
    return any(hit.chunk.chunk_id in evidence for hit in trace.ranking(step))


def place(hits: Ranking, evidence: set[str]) -> int:
    """The best place of the evidence; 10 ** 6 where it is not there."""
    places = (n for n, hit in enumerate(hits, start=1) if hit.chunk.chunk_id in evidence)
    return min(places, default=10**6)


def in_prompt(trace: Trace, evidence: set[str]) -> bool:
    return place(trace.context.kept, evidence) < 10**6


CHECKS: dict[str, Check] = {
    "dense fails": lambda t, e: not held(t, "dense", e) and held(t, "sparse", e),
    "sparse fails": lambda t, e: held(t, "dense", e) and not held(t, "sparse", e),
    "fusion hurts": lambda t, e: (
        place(t.ranking("fused"), e) > min(place(t.ranking(n), e) for n in ("dense", "sparse"))
    ),
    "reranking hurts": lambda t, e: place(t.ranking("reranked"), e) > place(t.ranking("fused"), e),
    "reranking rescues": lambda t, e: in_prompt(t, e) and place(t.ranking("fused"), e) > 8,
    "nothing finds it": lambda t, e: not held(t, "fused", e),
    "lost at the last cut": lambda t, e: held(t, "reranked", e) and not in_prompt(t, e),
    "refused": lambda t, e: in_prompt(t, e) and t.answer.refused,
    "answered": lambda t, e: not e and not t.answer.refused,
    "several quotes needed": lambda t, e: in_prompt(t, e),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_whole_run_shows_the_property(lab: Pipeline, kind: str) -> None:
    found = surprise(lab, golden_questions(), kind)
    assert found.question is not None
    assert lab.kit is not None
    trace = lab.run(as_query(found.question))
    evidence = set(supporting(found.question, lab.kit.chunks))
    assert CHECKS[kind](trace, evidence)
    assert 1 <= found.tried <= found.of
    for name in ("dense", "sparse", "fused", "reranked"):
        if f"{name}: rank " in found.said:
            assert f"{name}: rank {place(trace.ranking(name), evidence)}" in found.said


def test_the_next_seed_gives_another_question(lab: Pipeline) -> None:
    memo = Aside(lab.memo, 4096)
    chosen = [
        surprise(lab, golden_questions(), "reranking hurts", seed=seed, memo=memo)
        for seed in range(4)
    ]
    assert len({one.question for one in chosen}) == 4
