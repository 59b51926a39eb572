"""Why not this one: losses and rescues by hand, then what must hold of the handbook's pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from fakes import FakeLLM, chunk, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.answer.assemble import BudgetAssembler
from raglab.evaluate.evidence import found
from raglab.evaluate.rewriting import as_query
from raglab.explore.aside import Aside, aside, gated
from raglab.explore.dials import Dial, dials, turned
from raglab.explore.whynot import WhyNot, change, outwards, rescuing_dials, why_not
from raglab.fates import Wanted, first_loss, missing
from raglab.kit import Kit, Value
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.retrieve.fuse import RRF
from raglab.retrieve.ranking import rank
from raglab.retrieve.rewrite import MultiQuery, PassThrough
from raglab.retrieve.unchanged import Unchanged
from raglab.trace import Trace
from raglab.types import (
    Allowed,
    Answer,
    Chunk,
    Context,
    Evidence,
    Part,
    Query,
    Question,
    RagLabError,
    Ranking,
    Readable,
)
from raglab.views.model import flow_model


@dataclass(frozen=True)
class Listed:
    """Finds these chunks in this order, whatever is asked."""

    chunks: tuple[Chunk, ...]

    def retrieve(self, query: Query, k: int, allowed: Allowed | None = None) -> Ranking:
        seen = [one for one in self.chunks if allowed is None or allowed(one)]
        return rank(((one, [Part("given", 1 / n)]) for n, one in enumerate(seen, start=1)), k)


@dataclass(frozen=True)
class First:
    """Reranks by leaving the order alone, and cuts at `depth`."""

    depth: int

    def rerank(self, query: Query, hits: Ranking) -> Ranking:
        return hits[: self.depth]


@dataclass(frozen=True)
class Silent:
    def generate(self, query: Query, context: Context) -> Answer:
        raise AssertionError("no answer is needed to know what is in the prompt")


def words(text: str) -> int:
    return len(text.split())


def made(
    *lists: Sequence[Chunk],
    k: int = 20,
    keep: int = 8,
    budget: int = 1500,
    stages: Mapping[str, Mapping[str, object]] | None = None,
    **fields: object,
) -> Pipeline:
    """A pipeline whose lanes, "dense" and "sparse", find these lists; a kit of these stages."""
    lanes = {
        name: Listed(tuple(one)) for name, one in zip(("dense", "sparse"), lists, strict=False)
    }
    chunks = {one.chunk_id: one for lane in lists for one in lane}
    offered = stages or {}
    chosen = {field: next(iter(named)) for field, named in offered.items()}
    parts: dict[str, object] = {
        "rewriter": PassThrough(),
        "retrievers": lanes,
        "fuser": RRF(),
        "reranker": Unchanged(),
        "assembler": BudgetAssembler(words, keep, budget),
        "generator": Silent(),
        "k": k,
        **{field: offered[field][name] for field, name in chosen.items()},
        **fields,
    }
    makers = {
        field: {name: (lambda stage=stage: stage) for name, stage in named.items()}
        for field, named in offered.items()
    }
    kit = Kit(chunks=tuple(chunks.values()), stages=makers, chosen=chosen)
    return Pipeline(**parts, kit=kit)  # type: ignore[arg-type]


def named(letters: str) -> list[Chunk]:
    return [chunk(letter, f"{letter}1 {letter}2 {letter}3") for letter in letters]


def run(pipeline: Pipeline) -> Trace:
    """A run of all stages but the answer."""
    return aside(pipeline, pipeline.memo).run("q")


def lost(pipeline: Pipeline, wanted: Wanted) -> tuple[str, str, str, str] | None:
    loss = first_loss(pipeline, run(pipeline), wanted)
    return None if loss is None else (loss.chunk_id, loss.step, loss.stage, loss.reason)


# -- where it was lost ----------------------------------------------------------------------------


def test_lost_by_every_retriever() -> None:
    """Dense would put x fifth, and is cut at 3; sparse does not know it."""
    pipeline = made(named("abcdx"), named("ab"), k=3)
    assert lost(pipeline, Wanted("x")) == (
        "x", "retrieve", "retrieve", "rank 5 in dense, cut at 3; sparse does not find it",
    )  # fmt: skip


def test_lost_by_the_lists_of_every_query() -> None:
    @dataclass(frozen=True)
    class Two:
        def rewrite(self, query: Query) -> tuple[Query, ...]:
            return query, replace(query, text="other", lane="sparse")

    pipeline = made(named("abcdx"), named("abxc"), k=2, rewriter=Two())
    assert lost(pipeline, Wanted("x")) == (
        "x", "retrieve", "retrieve", "rank 5 in dense and rank 3 in sparse and rank 3 in sparse 2, "
        "cut at 2",
    )  # fmt: skip


def test_lost_by_the_rerank() -> None:
    """RRF takes dense's a, b, x in order: x is third, and two are looked at."""
    assert lost(made(named("abx"), reranker=First(2)), Wanted("x")) == (
        "x", "reranked", "rerank", "rank 3 in fused, cut at 2",
    )  # fmt: skip


def test_lost_by_assembly() -> None:
    copy = [chunk("a", "one two three four"), chunk("x", "one two three four")]
    assert lost(made(named("abx"), keep=2), Wanted("x")) == (
        "x", "context", "assemble", "rank 3, cut at 2",
    )  # fmt: skip
    assert lost(made(copy), Wanted("x")) == ("x", "context", "assemble", "duplicate of a")
    # Each block: `<source number="1" chunk="a" heading="">`, 4 words, 3 of its own, `</source>`.
    assert lost(made(named("ax"), budget=15), Wanted("x")) == (
        "x", "context", "assemble", "over the budget by 1 tokens",
    )  # fmt: skip
    assert lost(made(named("ax"), budget=16), Wanted("x")) is None


def test_the_evidence_is_told_by_the_chunk_that_came_furthest() -> None:
    """x and y hold the quote: no retriever finds y, and x is cut last."""
    x, y = (chunk(f"doc#{name}", f"{name} the fee is 5") for name in "xy")
    pipeline = made([*named("ab"), x, y], k=3, keep=2)
    wanted = Wanted(quotes=(Evidence("doc", "the fee is 5"),))
    assert lost(pipeline, wanted) == ("doc#x", "context", "assemble", "rank 3, cut at 2")
    assert lost(replace(pipeline, k=2), wanted) == (
        "doc#x", "retrieve", "retrieve", "rank 3 in dense, cut at 2",
    )  # fmt: skip


def test_a_severed_quote() -> None:
    pipeline = made(named("ab"))
    assert lost(pipeline, Wanted(quotes=(Evidence("a", "a2 b1"),))) == (
        "", "ingest", "ingest", "in no chunk whole: the quote was severed",
    )  # fmt: skip


def test_an_access_rule_is_told_before_any_rank() -> None:
    secret = chunk("pay#1", "the bonus is 7", groups=("hr", "board"))
    pipeline = made([*named("ab"), secret], allowed=Readable(("sales",)))
    quoted = Wanted(quotes=(Evidence("pay", "the bonus is 7"),))
    loss = first_loss(pipeline, run(pipeline), quoted)
    assert loss is not None
    assert loss.access
    assert (loss.chunk_id, loss.reason) == ("", "not in your groups: hr, board")
    assert lost(replace(pipeline, allowed=Readable(("hr",))), quoted) is None


def test_a_filter_that_minds_something_else_names_no_group() -> None:
    @dataclass(frozen=True)
    class No:
        def __call__(self, one: Chunk) -> bool:
            return one.chunk_id != "x"

    secret = chunk("x", "the bonus is 7", groups=("hr",))
    assert lost(made([secret], allowed=No()), Wanted("x")) == (
        "x", "retrieve", "retrieve", "the reader's filter leaves it out",
    )  # fmt: skip


def test_what_cannot_be_looked_for() -> None:
    pipeline = made(named("a"))
    with pytest.raises(RagLabError, match="there is no chunk 'x'"):
        first_loss(pipeline, run(pipeline), Wanted("x"))
    with pytest.raises(RagLabError, match="a chunk's id, or the quotes"):
        Wanted()
    with pytest.raises(RagLabError, match="take one from open_lab"):
        why_not(replace(pipeline, kit=None), {}, "q", Wanted("a"))
    nobody = Question("q", "q", "unanswerable", "", (), answerable=False)
    with pytest.raises(RagLabError, match="no evidence is known"):
        missing(nobody, run(pipeline).context)


# -- what would bring it back ---------------------------------------------------------------------


def by_dial(found: WhyNot) -> dict[str, tuple[Value, Value]]:
    return {rescue.dial: (rescue.was, rescue.value) for rescue in found.rescues}


def test_a_larger_k_and_what_comes_along() -> None:
    """x is fifth: k from 3 to 5 brings d and x. A block is 4 + 3 + 1 words, so 24 become 40."""
    found = why_not(made(named("abcdx"), k=3), {}, "q", Wanted("x"))
    assert by_dial(found) == {"k": (3, 5)}
    rescue = found.rescues[0]
    assert (rescue.chunk_id, rescue.place) == ("x", 5)
    assert (rescue.entered, rescue.left) == (("d",), ())
    assert (rescue.tokens_before, rescue.tokens_after) == (24, 40)
    assert rescue.share == 2 / 99
    assert found.words == (
        "x was lost at retrieve: rank 5 in dense, cut at 3. "
        "Smallest change: Hits a retriever (k) from 3 to 5; it also brings in 1 other."
    )
    assert rescuing_dials(found) == ("Hits a retriever (k)",)
    # 2 and 4, then 1 and 5: no other stage can bring back what retrieval lost.
    assert found.tried == 4


def test_the_dial_that_moves_least_comes_first() -> None:
    """Dense ranks x third and sparse first. Of 1/(60+3) + 1/(60+1) and a's 1/(60+1) + 1/(60+2),
    a's is more, and b, which sparse puts third, has 1/(60+2) + 1/(60+3)."""
    pipeline = made(named("abx"), named("xab"), keep=1)
    found = why_not(pipeline, {}, "q", Wanted("x"))
    turned_to = by_dial(found)
    assert turned_to["keep"] == (1, 2)
    # Below 1, dense counts less. w/63 + 1/61 > w/61 + 1/62 where w < (1/61 - 1/62)/(1/61 - 1/63),
    # which is 0.508.
    assert turned_to["dense_weight"] == (1.0, 0.5)
    # With a k of 1 dense gives a alone, and sparse x alone: 1/61 each, and a comes first.
    assert "k" not in turned_to
    shares = [rescue.share for rescue in found.rescues]
    assert shares == sorted(shares)
    assert shares == [1 / 19, pytest.approx(0.5 / 3)]
    assert found.rescues[1].left == ("a",)
    assert change(found.rescues[1]) == "Weight of dense from 1.0 to 0.5; 1 other leaves"


def test_nothing_helps_a_duplicate() -> None:
    """Whatever is turned, a stands before its copy: 99 values of k, 199 of RRF's k, 19 of the
    number kept and 78 of the budget, each without the present one."""
    copy = [chunk("a", "one two three four"), chunk("x", "one two three four")]
    found = why_not(made(copy), {}, "q", Wanted("x"))
    assert found.rescues == ()
    assert found.tried == 99 + 199 + 19 + 78
    assert found.words == (
        "x was lost at context: duplicate of a. "
        "No single knob rescues it: 395 settings of 4 knobs were tried."
    )


def test_settings_are_where_the_search_starts() -> None:
    pipeline = made(named("abcdx"), k=20)
    found = why_not(pipeline, {"k": 3}, "q", Wanted("x"))
    assert by_dial(found) == {"k": (3, 5)}
    there = why_not(pipeline, {}, "q", Wanted("x"))
    assert (there.loss, there.rescues, there.words) == (None, (), "x is in the prompt as [5].")
    # A list of one stage swapped for another is the whole way.
    stages = {"reranker": {"two": First(2), "all": Unchanged()}}
    swapped = why_not(made(named("abx"), stages=stages), {}, "q", Wanted("x"))
    assert [(r.dial, r.was, r.value, r.share) for r in swapped.rescues] == [
        ("depth", 2, 3, 1 / 99),
        ("reranker", "two", "all", 1.0),
    ]


def test_other_evidence_that_leaves_is_told() -> None:
    """A larger share for sparse brings x, and pushes out a, the other half of the answer."""
    pipeline = made(named("abx"), named("xab"), keep=1)
    question = Question(
        "q", "q", "multi-hop", "", (Evidence("x", "x1 x2"), Evidence("a", "a1 a2")), answerable=True
    )
    wanted = missing(question, run(pipeline).context)
    assert wanted == Wanted(quotes=question.evidence[:1], beside=question.evidence[1:])
    found = why_not(pipeline, {}, "q", wanted)
    assert [rescue.evidence_left for rescue in found.rescues] == [(), ("a",)]
    assert "1 other leaves, which held other evidence" in change(found.rescues[1])
    both = replace(pipeline, assembler=BudgetAssembler(words, keep=2))
    assert missing(question, run(both).context) is None


def test_an_access_rule_is_no_advice() -> None:
    secret = [chunk(f"pay#{n}", f"pay {n} the bonus is {n}", groups=("hr",)) for n in (6, 7)]
    stages = {"allowed": {"everyone": Readable(), "hr": Readable(("hr",))}}
    pipeline = made([*named("ab"), *secret], stages=stages)
    found = why_not(pipeline, {}, "q", Wanted(quotes=(Evidence("pay", "the bonus is 7"),)))
    assert found.words == (
        "The evidence is not in your groups: hr. That is an access rule, and no knob should get "
        "round it: asked as hr, it is in the prompt."
    )
    (rescue,) = found.rescues
    assert rescue.access
    assert (rescue.dial, rescue.chunk_id, rescue.entered) == ("allowed", "", ())
    assert found.tried == 1
    # Where access is not what lost it, who asks is no knob.
    cut = why_not(turned(pipeline, k=1), {}, "q", Wanted("b"))
    assert {rescue.dial for rescue in cut.rescues} == {"k"}


def test_other_chunk_sizes_only_on_demand() -> None:
    small = made([chunk("doc#1", "the fee"), chunk("doc#2", "is 5")])
    large = made([chunk("doc#1", "the fee is 5")])
    kits = [
        replace(
            one.kit or Kit(),
            sizes={"2": lambda: opened[0], "4": lambda: opened[1]},
            chosen={"chunk_size": size},
        )
        for one, size in ((small, "2"), (large, "4"))
    ]
    opened = [replace(one, kit=kit) for one, kit in zip((small, large), kits, strict=True)]
    wanted = Wanted(quotes=(Evidence("doc", "the fee is 5"),))
    found = why_not(opened[0], {}, "q", wanted)
    assert (found.rescues, found.tried) == ((), 0)
    assert found.skipped == ("1 chunk size, each is another index",)
    assert found.words.startswith("The evidence is in no chunk whole: the quote was severed.")
    (rescue,) = why_not(opened[0], {}, "q", wanted, sizes=True).rescues
    assert (rescue.dial, rescue.was, rescue.value) == ("chunk_size", "2", "4")
    assert (rescue.chunk_id, rescue.entered, rescue.left) == ("doc#1", (), ())
    # A chunk by its id would be another chunk.
    cut = why_not(opened[0], {"k": 1}, "q", Wanted("doc#2"), sizes=True)
    assert (by_dial(cut), cut.skipped) == ({"k": (1, 2)}, ())


def test_rewriters_without_a_reply_are_counted_and_models_are_not_asked_unbidden() -> None:
    @dataclass(frozen=True)
    class Unheard:
        def rewrite(self, query: Query) -> tuple[Query, ...]:
            raise RagLabError("no reply is kept for this prompt (hash 12). Set a key")

    llm = FakeLLM("other words")
    stages = {"rewriter": {"as typed": PassThrough(), "a": Unheard(), "b": MultiQuery(llm)}}
    pipeline = made(named("abx"), k=2, stages=stages)
    found = why_not(pipeline, {}, "q", Wanted("x"))
    assert found.skipped == ("1 rewriter, no reply is kept", "1 rewriter, each would ask the model")
    assert llm.asked == []
    assert why_not(pipeline, {}, "q", Wanted("x"), ask=True).skipped == found.skipped[:1]
    assert len(llm.asked) == 1


def test_the_reader_s_run_is_read_and_left_alone() -> None:
    """A model that answered the reader is not asked again, and no step joins the reader's memo."""

    class Hashed(FakeLLM):
        def __hash__(self) -> int:
            return 0

    llm = Hashed("other words")
    pipeline = made(named("abx"), k=2, rewriter=MultiQuery(llm))
    run(pipeline)
    steps = dict(pipeline.memo._steps)
    why_not(pipeline, {}, "q", Wanted("x"))
    assert len(llm.asked) == 1
    assert pipeline.memo._steps == steps
    # No memo can hold what cannot be hashed: it is asked once more, and not once a setting.
    other = FakeLLM("other words")
    assert why_not(replace(pipeline, rewriter=MultiQuery(other)), {}, "q", Wanted("x")).tried > 1
    assert len(other.asked) == 1


def test_progress_goes_up_to_all_of_it() -> None:
    told: list[tuple[int, int]] = []
    why_not(
        made(named("abx"), keep=2),
        {},
        "q",
        Wanted("x"),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (395, 395)


# -- whatever the lists: the nearest value that works ---------------------------------------------

LETTERS = "abcdefx"


@settings(max_examples=10, deadline=None)
@given(
    st.permutations(LETTERS),
    st.permutations(LETTERS),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 7),
)
def test_each_rescue_is_the_smallest(
    dense: list[str], sparse: list[str], k: int, keep: int, depth: int
) -> None:
    pipeline = made(named("".join(dense)), named("".join(sparse)), k=k, keep=keep)
    pipeline = replace(pipeline, reranker=First(depth))
    found = why_not(pipeline, {}, "q", Wanted("x"))
    if found.loss is None:
        assert "x" in ids(run(pipeline).context.kept)
        return
    for dial in dials(pipeline):
        # Every value of every dial, whole runs of the plain pipeline.
        works = [
            value
            for value in dial.grid()
            if "x" in ids(run(turned(pipeline, **{dial.name: value})).context.kept)
        ]
        near = min((abs(float(value) - float(dial.value)) for value in works), default=None)
        told = by_dial(found).get(dial.name)
        if near is None:
            assert told is None
        else:
            assert told is not None
            assert told[1] in works
            assert abs(float(told[1]) - float(dial.value)) == near


@given(st.permutations(LETTERS), st.permutations(LETTERS), st.integers(1, 7), st.integers(1, 7))
def test_gates_change_nothing_that_matters(
    dense: list[str], sparse: list[str], k: int, depth: int
) -> None:
    pipeline = made(named("".join(dense)), named("".join(sparse)), k=k, keep=3)
    pipeline = replace(pipeline, reranker=First(depth))
    whole, through = (
        run(one).context.kept for one in (pipeline, gated(pipeline, frozenset({"x", "f"})))
    )
    assert set("xf") & set(ids(whole)) == set("xf") & set(ids(through))


def test_outwards_is_by_steps_and_for_choices_in_order() -> None:
    weight = Dial("w", "fuse", "W", "", 0.3, low=0, high=0.6, step=0.1)
    assert outwards(weight, 0.3) == (0.2, 0.4, 0.1, 0.5, 0.0, 0.6)
    choice = Dial("c", "fuse", "C", "", "b", choices=("a", "b", "c"))
    assert outwards(choice, "b") == ("a", "c")


# -- the handbook ---------------------------------------------------------------------------------


def unfound(lab: Pipeline, stage: str, number: int) -> list[tuple[Question, Wanted]]:
    """The first questions whose evidence this stage lost."""
    some = []
    for question in golden_questions():
        trace = aside(lab, lab.memo).run(as_query(question))
        wanted = missing(question, trace.context) if question.evidence else None
        if wanted is None or wanted.beside:
            continue
        loss = first_loss(lab, trace, wanted)
        if loss is not None and loss.stage == stage and not loss.access:
            some.append((question, wanted))
        if len(some) == number:
            break
    return some


@pytest.mark.parametrize(("stage", "number"), [("retrieve", 2), ("assemble", 1)])
def test_each_rescue_holds_and_none_nearer_does(lab: Pipeline, stage: str, number: int) -> None:
    """In whole runs of pipelines that know nothing of the search."""
    asked = unfound(lab, stage, number)
    assert len(asked) == number

    for question, wanted in asked:

        def reached(
            dial: Dial, value: Value, question: Question = question, wanted: Wanted = wanted
        ) -> bool:
            pipeline = turned(lab, **{dial.name: value})
            kept = aside(pipeline, lab.memo).run(as_query(question)).context.kept
            prompt = [hit.chunk for hit in kept]
            return found(replace(question, evidence=wanted.quotes), prompt) > 0

        told = why_not(lab, {}, as_query(question), wanted)
        assert told.loss is not None
        values = by_dial(told)
        for dial in dials(lab):
            if dial.name in ("chunk_size", "allowed", "rewriter"):
                continue
            order = outwards(dial, dial.value)
            if dial.name in values:
                at = order.index(values[dial.name][1])
                assert reached(dial, order[at])
                # Both values before it, one step nearer on either side, and some further in.
                assert not any(reached(dial, value) for value in order[max(0, at - 2) : at])
                assert not any(reached(dial, value) for value in order[:at:25])
            else:  # nothing it can be turned to helps, whether it was tried or ruled out
                assert not any(reached(dial, value) for value in order[::25])


def test_later_dials_are_ruled_out_and_idle_ones_passed_over(lab: Pipeline) -> None:
    """Dense alone: 3 other choices of lanes, 99 of k and the rewriters; BM25's k1 and b are idle,
    and what comes after retrieval cannot matter."""
    (question, wanted), *_ = unfound(lab, "retrieve", 1)
    found = why_not(lab, {"retrievers": "dense"}, as_query(question), wanted)
    assert {rescue.dial for rescue in found.rescues} <= {"rewriter", "retrievers", "k"}
    assert found.tried <= 3 + 99 + 4
    assert found.tried == 3 + 99 + 4 or found.rescues


def test_a_loss_is_where_the_picture_says(lab: Pipeline) -> None:
    """Every chunk of a run, at the step and with the figures of the flow's own fate."""
    trace = lab.run("Who confirms an Enterprise refund, and how long does it take?")
    cards = flow_model(trace)["chunks"]
    assert {card["fate"]["step"] for card in cards} == {"context"}
    for pipeline in (lab, turned(lab, depth=10)):
        trace = pipeline.run(trace.query)
        for card in flow_model(trace)["chunks"]:
            loss = first_loss(pipeline, trace, Wanted(card["id"]))
            fate = card["fate"]
            if loss is None:
                assert fate["kind"] == "kept"
            else:
                said = re.sub(r" in fused(?=, cut)", "", loss.reason)
                assert (loss.step, said) == (fate["step"], fate["reason"])


def test_restricted_evidence_leaks_nothing(lab: Pipeline) -> None:
    question = next(q for q in golden_questions() if q.groups == ("hr",))
    trace = lab.run(as_query(question))
    wanted = missing(question, trace.context)
    assert wanted is not None
    found = why_not(lab, {}, as_query(question), wanted)
    assert found.loss is not None
    assert found.loss.access
    assert "not in your groups: hr" in found.words
    named = {chunk_id for r in found.rescues for chunk_id in (r.chunk_id, *r.entered, *r.left)}
    open_to_all = {one.chunk_id for one in lab.kit.chunks if not one.groups} if lab.kit else set()
    assert named - {""} <= open_to_all
    assert {rescue.dial for rescue in found.rescues} == {"allowed"}


def test_an_aside_memo_reads_below_and_writes_above() -> None:
    pipeline = made(named("ab"))
    before = run(pipeline)
    size = len(pipeline.memo._steps)
    memo = Aside(pipeline.memo)
    again = aside(pipeline, memo).run("q")
    assert all(step.reused for step in again.steps)
    assert again == before
    aside(replace(pipeline, k=1), memo).run("q")
    assert len(pipeline.memo._steps) == size
