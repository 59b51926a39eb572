"""Challenges are worth asking and explained truly, guesses are judged, and no result is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from threading import Thread

import pytest
from fakes import chunk, ids
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from traces import a_trace

from raglab.lab import evidence_for, golden_questions
from raglab.learn import (
    Attempt,
    Challenge,
    KnobChallenge,
    Progress,
    Summary,
    Tally,
    judge,
    judge_knob,
    order_challenge,
    progress,
    summarize,
)
from raglab.learn.choose import shuffled
from raglab.learn.lists import returned
from raglab.learn.progress import progress_file
from raglab.learn.why import why_above, widest
from raglab.pipeline import Pipeline
from raglab.presets import preset_pipeline
from raglab.retrieve.chain import Chain
from raglab.retrieve.diverse import MMR
from raglab.retrieve.fuse import RRF
from raglab.retrieve.fuse_scores import CombMNZ, CombSUM, Convex
from raglab.retrieve.ranking import rank
from raglab.trace import Step, Trace
from raglab.types import Context, Drop, Fuser, Hit, Part, Query, RagLabError, Ranking

DENSE, WORDS = "Dense()", "BM25()"
RRF_60 = RRF()
QUERY = Query("q", "refund for ERR_2043?")


def hits(**parts: dict[str, float]) -> Ranking:
    """Hits from their parts; `a_1` stands for the chunk id a#1."""
    return rank(
        (chunk(name.replace("_", "#")), [Part(*pair) for pair in each.items()])
        for name, each in parts.items()
    )


def cosines(**scores: float) -> Ranking:
    return hits(**{name: {"cosine": score} for name, score in scores.items()})


def trace_of(*steps: Step) -> Trace:
    return Trace(QUERY, (Step("rewrite", "rewrite", (), (QUERY,)), *steps))


def fused(lists: dict[str, Ranking], fuser: Fuser = RRF_60) -> Trace:
    steps = [Step(name, "retrieve", ("rewrite",), each) for name, each in lists.items()]
    return trace_of(*steps, Step("fused", "fuse", tuple(lists), fuser.fuse(lists)))


def reranked(trace: Trace, ranking: Ranking, settings: str = "") -> Trace:
    step = Step("reranked", "rerank", (trace.steps[-1].name,), ranking, settings)
    return Trace(trace.query, (*trace.steps, step))


def a_challenge(*truth: str) -> Challenge:
    return Challenge("dense", "retrieve", "q", "?", tuple(reversed(truth)), truth, "because")


def asked(trace: Trace, step: str, *evidence: str, n: int = 5) -> Challenge:
    challenge = order_challenge(trace, step, evidence, n)
    assert challenge is not None
    return challenge


# -- which chunks ----------------------------------------------------------------------------------


def test_chunks_are_spread_over_the_ranks() -> None:
    """Of 20 hits: the first, and the middle of 2-5, 6-10, 11-15 and 16-20."""
    trace = a_trace(k=20)
    challenge = asked(trace, "dense")
    order = ids(trace.ranking("dense"))
    assert [order.index(chunk_id) + 1 for chunk_id in challenge.truth] == [1, 3, 8, 13, 18]
    assert sorted(challenge.chunk_ids) == sorted(challenge.truth)
    assert (
        challenge.question == "Put these five chunks in the order in which dense search ranks them."
    )
    assert (challenge.step, challenge.stage, challenge.query) == (
        "dense", "retrieve", trace.query.text,
    )  # fmt: skip


@pytest.mark.parametrize("step", ["dense", "fused", "reranked", "context"])
@pytest.mark.parametrize("n", [3, 5, 7])
def test_the_evidence_is_there(step: str, n: int) -> None:
    trace = a_trace(k=20)
    for hit in returned(trace[step]):
        challenge = asked(trace, step, hit.chunk.chunk_id, "none of them", n=n)
        assert hit.chunk.chunk_id in challenge.truth
        assert len(challenge.truth) == n


def test_the_best_placed_evidence_is_there() -> None:
    trace = a_trace(k=20)
    order = ids(trace.ranking("dense"))
    challenge = asked(trace, "dense", order[9], order[5])
    assert order[5] in challenge.truth


def test_chunks_that_changed_places_come_first() -> None:
    """Eleven chunks; the rerank lifts k from 11 to 2 and changes nothing else, so of the pairs with
    k alone the order is turned round: k must be asked about."""
    before = cosines(**{name: 1 - n / 100 for n, name in enumerate("abcdefghijk")})
    after = hits(**{name: {"x": 1 - n / 100} for n, name in enumerate("akbcdefghij")})
    trace = reranked(trace_of(Step("dense", "retrieve", ("rewrite",), before)), after)
    challenge = asked(trace, "reranked")
    assert challenge.truth[:2] == ("a", "k")
    assert challenge.turned == 3


def test_chunks_that_changed_places_are_preferred() -> None:
    """Of 21, the rerank lifts u from 21 to 5 and t from 20 to 8. Asked about are a, u, t, and two
    from below, one from each quarter. Turned: u with t and with those two, t with those two."""
    order = "abcdefghijklmnopqrstu"
    before = cosines(**{name: 1 - n / 100 for n, name in enumerate(order)})
    lifted = "abcd" + "u" + "ef" + "t" + "ghijklmnopqrs"
    after = hits(**{name: {"x": 1 - n / 100} for n, name in enumerate(lifted)})
    trace = reranked(trace_of(Step("dense", "retrieve", ("rewrite",), before)), after)
    challenge = asked(trace, "reranked")
    assert challenge.truth[:3] == ("a", "u", "t")
    assert challenge.turned == 5


def test_turned_pairs_are_counted() -> None:
    """`turned` counts the pairs of the truth that a list before has the other way round."""
    for seed in range(20):
        trace = a_trace(k=20, seed=seed)
        challenge = asked(trace, "reranked")
        place = {one: at for at, one in enumerate(ids(trace.ranking("fused")))}
        turned = sum(place[b] < place[a] for a, b in combinations(challenge.truth, 2))
        assert challenge.turned == turned > 0


def test_chunks_that_tie_are_not_asked_about_together() -> None:
    """b to f tie, so chunk_id alone orders them: one of them is enough."""
    tied = cosines(a=0.9, b=0.5, c=0.5, d=0.5, e=0.5, f=0.5, g=0.4, h=0.3, i=0.2, j=0.1)
    challenge = asked(trace_of(Step("dense", "retrieve", ("rewrite",), tied)), "dense", n=4)
    assert len(set(challenge.truth) & set("bcdef")) == 1


def test_only_what_the_learner_has_seen_is_asked_about() -> None:
    trace = trace_of(
        Step("dense", "retrieve", ("rewrite",), cosines(b=0.9, a=0.8)),
        Step("fused", "fuse", ("dense",), hits(a={"x": 3}, z={"x": 2}, b={"x": 1})),
    )
    assert asked(trace, "fused").truth == ("a", "b")


def test_nothing_is_asked_where_there_is_nothing_to_predict() -> None:
    one = cosines(a=0.5)
    assert order_challenge(trace_of(Step("dense", "retrieve", ("rewrite",), one)), "dense") is None
    none = trace_of(Step("dense", "retrieve", ("rewrite",), ()), Step("fused", "fuse", (), ()))
    assert order_challenge(none, "dense") is order_challenge(none, "fused") is None
    same = fused({"dense": cosines(a=0.5, b=0.4)})  # one list: fusion keeps its order
    assert order_challenge(same, "fused") is None
    assert order_challenge(reranked(same, same.ranking("fused")), "reranked") is None


def test_what_cannot_be_asked_says_what_can() -> None:
    trace = a_trace()
    for name in ("answer", "rewrite", "nonsense"):
        with pytest.raises(
            RagLabError, match="choose one of dense, sparse, fused, reranked, context"
        ):
            order_challenge(trace, name)
    with pytest.raises(RagLabError, match="n is 1: an order needs at least 2"):
        order_challenge(trace, "dense", n=1)


@given(st.lists(st.text(max_size=3), min_size=2, max_size=8, unique=True), st.text(max_size=5))
def test_a_shuffle_is_never_the_truth(truth: list[str], seed: str) -> None:
    order = shuffled(truth, seed)
    assert sorted(order) == sorted(truth)
    assert list(order) != truth
    assert order == shuffled(truth, seed)


def test_a_shuffle_is_the_same_in_every_process() -> None:
    code = (
        "from raglab.learn.choose import shuffled; "
        "print(*shuffled([f'policy#{n}' for n in range(8)], 'How long?\\ndense'))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert told == {
        " ".join(shuffled([f"policy#{n}" for n in range(8)], "How long?\ndense")) + "\n"
    }


def test_a_branch_names_its_query() -> None:
    question = asked(a_trace(queries=2), "dense 2").question
    assert question.endswith('in which dense 2 search ranks them for "rewrite 2".')
    assert asked(a_trace(queries=2), "fused").question.endswith("puts them, from 4 lists.")


# -- prompts ---------------------------------------------------------------------------------------


def prompt(kept: Ranking, dropped: Sequence[Drop], read: Ranking) -> Trace:
    before = trace_of(Step("reranked", "rerank", (), read))
    context = Context("", kept, tuple(dropped), 0, 0)
    return Trace(QUERY, (*before.steps, Step("context", "assemble", ("reranked",), context)))


def test_a_prompt_is_asked_about_where_it_takes_something_out() -> None:
    """Rank 3 is a duplicate and rank 8 is over the budget: kept are 1, 2, 4, 5, 6 and 7."""
    trace = a_trace(keep=8)
    ranks = {hit.chunk.chunk_id: hit.rank for hit in trace.ranking("reranked")}
    challenge = asked(trace, "context")
    order = [ranks[chunk_id] for chunk_id in challenge.truth]
    assert 3 in order
    assert order[: order.index(3)] == sorted(order[: order.index(3)])
    assert any(rank > 3 for rank in order[: order.index(3)]), "one that the duplicate stood above"
    assert max(order) <= 14, "ranks far below the cut are no riddle"
    assert challenge.turned > 0
    duplicate = next(key for key, rank in ranks.items() if rank == 3)
    first = challenge.truth[0]
    assert challenge.why == (
        f"The prompt keeps the order of reranked, and leaves {duplicate} out: rank 3, duplicate of "
        f"{first}."
    )


def test_a_prompt_that_keeps_the_order_is_not_asked_about() -> None:
    read = cosines(a=0.4, b=0.3, c=0.2)
    trace = prompt(read[:2], [Drop(read[2], "rank 3, cut at 2")], read)
    assert order_challenge(trace, "context") is None
    assert (
        order_challenge(prompt((), [Drop(hit, "too long") for hit in read], read), "context")
        is None
    )


def test_a_prompt_with_an_order_of_its_own() -> None:
    read = cosines(a=0.4, b=0.3, c=0.2)
    challenge = asked(prompt((read[2], read[0], read[1]), [], read), "context")
    assert challenge.truth == ("c", "a", "b")
    assert challenge.why.startswith("The prompt begins with c, which was at rank 3 of reranked: ")


# -- why -------------------------------------------------------------------------------------------


def why(trace: Trace, step: str) -> str:
    first, second, *_ = returned(trace[step])
    return why_above(trace, trace[step], first, second)


def test_why_in_dense_search() -> None:
    trace = trace_of(Step("dense", "retrieve", ("rewrite",), cosines(a=0.6123, b=0.4411), DENSE))
    assert why(trace, "dense") == (
        "a stands first: its cosine with the query is 0.61, that of b 0.44."
    )
    near = trace_of(Step("dense", "retrieve", ("rewrite",), cosines(a=0.6151, b=0.6149), DENSE))
    assert "is 0.61510, that of b 0.61490" in why(near, "dense")


def test_why_in_sparse_search() -> None:
    found = hits(errors_3={"err_2043": 8.1}, policy_1={"refund": 0.3})
    trace = trace_of(Step("sparse", "retrieve", ("rewrite",), found, WORDS))
    assert why(trace, "sparse") == (
        'errors#3 stands first: the word "err_2043" adds 8.1, and policy#1 does not hold it.'
    )
    found = hits(a={"refund": 3.0, "for": 0.5}, b={"refund": 1.0, "for": 1.5})
    trace = trace_of(Step("sparse", "retrieve", ("rewrite",), found, WORDS))
    assert why(trace, "sparse") == (
        'a stands first: the word "refund" counts 3.0 for it and 1.0 for b; '
        "the rest takes 1.0 of that back."
    )


def test_a_word_may_be_called_cosine() -> None:
    found = hits(a={"cosine": 3.0}, b={"cosine": 1.0})
    trace = trace_of(Step("sparse", "retrieve", ("rewrite",), found, WORDS))
    assert 'the word "cosine" counts 3.0' in why(trace, "sparse")


def test_why_in_fusion() -> None:
    """x: 1/61 + 1/62; y: 1/61 of sparse alone. Dense makes the difference: 1/61 = 0.0164."""
    lists = {"dense": cosines(x=0.9, a=0.1), "sparse": hits(y={"w": 2}, x={"w": 1})}
    assert why(fused(lists), "fused") == (
        "x stands first: both lists hold it, at ranks 1 and 2; "
        "dense adds 0.016, and does not hold y."
    )
    lists = {"dense": cosines(x=0.9, y=0.8), "sparse": cosines(a=0.9), "title": cosines(b=0.9)}
    trace = fused(lists, RRF(k=1, weights={"dense": 9}))  # 9/2 = 4.5 and 9/3 = 3
    assert why(trace, "fused") == (
        "x stands first: dense alone holds it, at rank 1; dense counts 4.5 for it and 3.0 for y."
    )
    assert why(fused({"dense": cosines(x=0.9, y=0.8)}), "fused") == (
        "x stands first: dense, the only list, has it at rank 1 and y at 2."
    )


def test_why_where_a_list_takes() -> None:
    """z-scores over dense are 1, 1, -2 over √2: y's is -1.41. Sparse has nothing but x and y."""
    lists = {"dense": cosines(a=0.8, b=0.8, y=0.5), "sparse": hits(x={"w": 1}, y={"w": 1})}
    trace = fused(lists, CombSUM("z-score"))
    x, y = (next(h for h in trace.ranking("fused") if h.chunk.chunk_id == name) for name in "xy")
    assert why_above(trace, trace["fused"], x, y) == (
        "x stands first: sparse alone holds it, at rank 1; dense takes 1.4 from y."
    )


def test_why_after_a_rerank() -> None:
    lists = fused({"dense": cosines(a=0.9, b=0.8)})
    late = hits(
        b={"first stage": -0.5, "match: refund": 1.25},
        a={"first stage": 0.5, "match: refund": -1.0},
    )
    assert why(reranked(lists, late), "reranked") == (
        'b stands first: the query\'s token "refund" counts 1.3 for it and -1.0 for a; '
        "the rest takes 1.0 of that back."
    ).replace("1.3", f"{1.25:.1f}")
    diverse = hits(a={"relevance": 0.7}, b={"relevance": 0.69, "like a": -0.3})
    assert why(reranked(lists, diverse), "reranked") == (
        "a stands first: likeness to a takes 0.30 from b."
    )
    learned = hits(a={"rare tokens": 2.0, "first stage": 0.1}, b={"rare tokens": -1.0})
    assert 'the signal "rare tokens" counts 2.0' in why(
        reranked(lists, learned, "Learned()"), "reranked"
    )
    read = hits(a={"first stage": 0.0, "cross-encoder": 3.0}, b={"first stage": 0.0})
    assert 'the part "cross-encoder" adds 3.0, and nothing to b' in why(
        reranked(lists, read), "reranked"
    )


def test_why_where_a_rerank_changes_nothing() -> None:
    """The scores are fusion's, and so is the reason."""
    lists = fused({"dense": cosines(x=0.9, y=0.8)})
    assert why(reranked(lists, lists.ranking("fused")), "reranked") == why(lists, "fused")


def test_why_of_a_tie() -> None:
    trace = trace_of(Step("dense", "retrieve", ("rewrite",), cosines(a=0.5, b=0.5), DENSE))
    assert why(trace, "dense") == (
        "a and b have the same score, 0.5, and equal scores stand in order of chunk id."
    )


def test_why_without_parts() -> None:
    one, other = Hit(chunk("a"), 0.9, 1, ()), Hit(chunk("b"), 0.2, 2, ())
    trace = trace_of(Step("mine", "retrieve", ("rewrite",), (one, other)))
    assert why(trace, "mine") == "a stands first: its score is 0.9, that of b 0.2."


PARTS = st.dictionaries(st.sampled_from("vwxyz"), st.integers(-50, 50), max_size=5)


@given(PARTS, PARTS)
def test_the_named_part_makes_the_largest_difference(
    one: dict[str, int], other: dict[str, int]
) -> None:
    first, second = hits(a={**one}, b={**other})
    gap = widest(first, second)
    parts = [{part.name: part.value for part in hit.parts} for hit in (first, second)]
    differences = {name: parts[0].get(name, 0) - parts[1].get(name, 0) for name in "vwxyz"}
    if first.score == second.score:
        assert gap is None
        return
    assert gap is not None
    assert gap.lead == differences[gap.name] == max(differences.values()) > 0
    assert gap.rest == sum(differences.values()) - gap.lead


# -- over real runs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pipelines(lab: Pipeline) -> dict[str, Pipeline]:
    """Every kind of score that the lab knows."""
    dense = lab.retrievers["dense"]
    index, encoder = dense.index, dense.embedder  # type: ignore[attr-defined]
    presets = {
        name: preset_pipeline(name, index, encoder) for name in ("dense", "sparse", "learned")
    }
    late = lab.reranker
    return presets | {
        "default": lab,
        "no rerank": replace(lab, reranker=Chain(())),
        "z-scores, MMR": replace(lab, fuser=CombSUM("z-score"), reranker=MMR(index, 0.5)),
        "MNZ, chain": replace(lab, fuser=CombMNZ(), reranker=Chain((late, MMR(index)))),
        "convex": replace(lab, fuser=Convex(0.7), k=5),
        "k = 1": replace(lab, fuser=RRF(k=1, weights={"sparse": 2}), k=50),
    }


def shown(value: float, words: str) -> bool:
    """Does the number stand in the words, rounded to some number of digits?"""
    numbers = re.findall(r"(?<![\w.])-?\d+\.\d+", words)
    return any(f"{value:z.{digits}f}" in numbers for digits in range(1, 10))


def check(trace: Trace, step: Step, challenge: Challenge) -> None:
    """What a challenge promises, worked out again from the trace."""
    order = returned(step)
    places = {hit.chunk.chunk_id: at for at, hit in enumerate(order)}
    asked_about = [places[chunk_id] for chunk_id in challenge.truth]
    assert asked_about == sorted(set(asked_about))
    assert asked_about[0] == 0
    assert sorted(challenge.chunk_ids) == sorted(challenge.truth)
    assert challenge.chunk_ids != challenge.truth
    assert len(challenge.truth) == min(5, len(order))
    assert "\n" not in challenge.why
    assert challenge.why.endswith(".")
    if isinstance(step.output, Context):
        assert challenge.turned > 0
        return
    first, second = (order[places[chunk_id]] for chunk_id in challenge.truth[:2])
    for hit in (first, second):
        assert hit.chunk.chunk_id in challenge.why
    if first.score == second.score:
        assert "the same score" in challenge.why
        return
    one, other = ({part.name: part.value for part in hit.parts} for hit in (first, second))
    differences = {n: one.get(n, 0.0) - other.get(n, 0.0) for n in {**one, **other}}
    name = max(sorted(differences), key=lambda part: differences[part])
    assert re.sub("^(match:|like) ", "", name) in challenge.why
    if "the only list" in challenge.why:
        return
    assert shown(one[name], challenge.why) if name in one else "takes" in challenge.why
    if name in other:
        assert shown(other[name] if name in one else -other[name], challenge.why)
    else:
        assert re.search(r"does not hold|nothing to", challenge.why)
    if found := re.search(r"the rest (adds|takes) (\d+\.\d+)", challenge.why):
        rest = sum(differences.values()) - differences[name]
        assert (rest > 0) == (found[1] == "adds")
        assert abs(rest) == pytest.approx(float(found[2]), abs=10 ** -len(found[2].split(".")[1]))


def test_challenges_about_real_runs_are_true(lab: Pipeline, pipelines: dict[str, Pipeline]) -> None:
    made = dict.fromkeys(("retrieve", "fuse", "rerank", "assemble"), 0)
    for question in golden_questions("handbook")[::24]:
        evidence = evidence_for(question.text, lab)
        for pipeline in pipelines.values():
            trace = pipeline.run(question.text)
            for step in trace.steps:
                if step.stage not in made:
                    continue
                challenge = order_challenge(trace, step.name, evidence)
                if challenge is None:
                    assert step.stage != "retrieve"
                    continue
                made[step.stage] += 1
                check(trace, step, challenge)
                held = [one for one in ids(returned(step)) if one in evidence]
                assert step.stage == "assemble" or not held or held[0] in challenge.truth
    # 10 questions; nine pipelines, two of them with one list, so fusion has an order of its own in
    # seven, and reranking in six of those and in "learned" alike.
    assert made["retrieve"] == 10 * (2 * 1 + 7 * 2)
    assert made["fuse"] >= 10 * 7 - 5
    assert made["rerank"] >= 10 * 6 - 5


# -- judging ---------------------------------------------------------------------------------------


def test_a_guess_is_judged_by_its_pairs() -> None:
    """c stands before a and b, and belongs after them: 2 of 10 pairs are wrong."""
    reveal = judge(a_challenge(*"abcde"), ("c", "a", "b", "d", "e"))
    assert (reveal.right, reveal.pairs, reveal.places, reveal.score) == (8, 10, 2, 0.8)
    assert reveal.words == (
        "8 of 10 pairs are in the right order; only c stood two places too high."
    )
    assert reveal.why == "because"


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        ("abcde", "All 10 pairs are in the right order."),
        ("bacde", "9 of 10 pairs are in the right order; only a and b have changed places."),
        ("bcdea", "6 of 10 pairs are in the right order; only a stood four places too low."),
        ("ebcda", "3 of 10 pairs are in the right order (chance gives 5); a stood furthest off, "
                  "four places too low."),
        ("badce", "8 of 10 pairs are in the right order; a stood furthest off, one place too low."),
        ("edcab", "1 of 10 pairs is in the right order (chance gives 5); e stood furthest off, "
                  "four places too high."),
        ("edcba", "None of the 10 pairs is right: turn your idea round, and all of them are."),
    ],
)  # fmt: skip
def test_a_guess_in_words(guess: str, words: str) -> None:
    assert judge(a_challenge(*"abcde"), list(guess)).words == words


def test_two_chunks_make_one_pair() -> None:
    assert judge(a_challenge("a", "b"), ("a", "b")).words == "That is the order."
    assert judge(a_challenge("a", "b"), ("b", "a")).words == "It is the other way round."


@given(st.permutations("abcdefg"))
def test_pairs_are_kendall_s(guess: list[str]) -> None:
    reveal = judge(a_challenge(*"abcdefg"), guess)
    tau = kendalltau([guess.index(one) for one in "abcdefg"], range(7)).statistic
    assert 2 * reveal.score - 1 == pytest.approx(tau)
    assert reveal.places == sum(one == other for one, other in zip(guess, "abcdefg", strict=True))
    if told := re.search(r"only (\w) stood", reveal.words):
        rest = [one for one in guess if one != told[1]]
        assert rest == sorted(rest)
    elif "only" in reveal.words:
        a, b = re.findall(r"\b[a-g]\b", reveal.words)
        swapped = [{a: b, b: a}.get(one, one) for one in guess]
        assert swapped == sorted(swapped)


@pytest.mark.parametrize(
    ("guess", "wrong"),
    [
        (("a", "b"), "c is missing"),
        (("a", "b", "b"), "c is missing"),
        (("a", "b", "c", "a"), "one of them stands there twice"),
        (("a", "b", "x"), "'x' is none of them"),
        ((), "c is missing"),
        ("abc", "c is missing"),
        (None, "c is missing"),
        ((["a"], "b", "c"), "is none of them"),
    ],
)
def test_a_guess_holds_each_chunk_once(guess: object, wrong: str) -> None:
    with pytest.raises(RagLabError, match=re.escape(wrong)) as raised:
        judge(a_challenge("a", "b", "c"), guess)  # type: ignore[arg-type]
    assert "each of the three chunks once" in str(raised.value)
    assert str(raised.value).endswith("put these in order: c, b, a")


# -- which knob ------------------------------------------------------------------------------------

KNOBS = ("k", "keep", "depth")
NONE = KnobChallenge.NONE


def test_no_single_knob_is_always_an_option() -> None:
    assert KnobChallenge("Which?", KNOBS, ("keep",)).options == (*KNOBS, NONE)
    assert KnobChallenge("Which?", (NONE, *KNOBS, "k"), ()).options == (*KNOBS, NONE)
    assert KnobChallenge("Which?", KNOBS, ()).truth == (NONE,)
    assert KnobChallenge("Which?", KNOBS, ("depth", "k")).truth == ("k", "depth")


@pytest.mark.parametrize(
    ("truth", "guess", "score", "words"),
    [
        (("k",), "k", 1, "Right: k rescues the answer."),
        (("k",), "keep", 0, "keep does not rescue the answer; k does."),
        (("k", "depth"), "k", 1, "Right: k rescues the answer; depth would too."),
        (("k", "depth"), ["k"], 1 / 2, "Right: k rescues the answer; depth would too."),
        (("k", "depth"), ["depth", "k"], 1, "Right: k and depth rescue the answer."),
        (("k", "depth"), {"k", "keep"}, 1 / 3,
         "k rescues the answer; keep does not; depth would too."),
        (("k", "depth"), "keep", 0, "keep does not rescue the answer; k and depth do."),
        (("k", "depth"), NONE, 0, "There is a way: k and depth rescue the answer."),
        ((), NONE, 1, "Right: no single knob rescues the answer."),
        ((), ["k", "keep"], 0, "k and keep do not rescue the answer, and no other knob does."),
    ],
)  # fmt: skip
def test_a_named_knob_is_judged(
    truth: tuple[str, ...], guess: str | list[str], score: float, words: str
) -> None:
    reveal = judge_knob(KnobChallenge("Which?", KNOBS, truth), guess)
    assert (reveal.score, reveal.words) == (score, words)


def test_a_knob_challenge_says_what_is_wrong() -> None:
    with pytest.raises(RagLabError, match="'b' is no option: add it to k, keep, depth"):
        KnobChallenge("Which?", KNOBS, ("b",))
    with pytest.raises(RagLabError, match="cannot be true beside 'k'"):
        KnobChallenge("Which?", KNOBS, ("k", NONE))
    challenge = KnobChallenge("Which?", KNOBS, ("k",))
    for guess, wrong in (
        ("b", "'b' is no option"), ("", "'' is no option"), ((), "nothing is named"),
        (("k", NONE), "cannot both be"),
    ):  # fmt: skip
        with pytest.raises(RagLabError, match=wrong):
            judge_knob(challenge, guess)


# -- attempts --------------------------------------------------------------------------------------


@given(
    st.builds(
        Attempt, kind=st.text(), what=st.text(), query=st.text(), score=st.floats(0, 1),
        detail=st.dictionaries(st.text(), st.text(), max_size=3),
        when=st.datetimes().map(lambda moment: f"{moment.isoformat()}+00:00"),
    )
)  # fmt: skip
def test_an_attempt_is_one_line(attempt: Attempt) -> None:
    line = attempt.line()
    assert line.count(b"\n") == 1
    assert Attempt.read(line) == attempt


def test_an_attempt_keeps_half_a_character() -> None:
    assert Attempt.read(Attempt("order", "dense", "\ud83d", 1).line()).query == "\ud83d"


def test_an_attempt_knows_its_time() -> None:
    attempt = Attempt("order", "dense", "q", 1, when="2026-03-01T10:30:00+01:00")
    assert attempt.when == "2026-03-01T09:30:00+00:00"
    now = Attempt.now("order", "dense", "q", 0.8, pairs="8 of 10")
    assert now == Attempt("order", "dense", "q", 0.8, {"pairs": "8 of 10"}, now.when)
    assert now.when.endswith("+00:00")


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"score": 1.2}, "between 0 and 1"),
        ({"score": float("nan")}, "between 0 and 1"),
        ({"score": True}, "give a number"),
        ({"score": "1"}, "give a number"),
        ({"kind": 3}, "kind is 3: give a text"),
        ({"query": None}, "query is None"),
        ({"detail": {"pairs": 8}}, "must be texts"),
        ({"detail": ["pairs"]}, "give a dict"),
        ({"when": "yesterday"}, "give an ISO time"),
        ({"when": "2026-03-01T09:30:00"}, "without a time zone"),
    ],
)
def test_an_attempt_that_could_not_be_read_again(values: dict[str, object], wrong: str) -> None:
    good: dict[str, object] = {"kind": "order", "what": "dense", "query": "q", "score": 1}
    with pytest.raises(RagLabError, match=wrong):
        Attempt(**{**good, **values})  # type: ignore[arg-type]


# -- progress --------------------------------------------------------------------------------------


def an_attempt(score: float = 0.5, what: str = "dense", kind: str = "order") -> Attempt:
    return Attempt(kind, what, "how long?", score)


def test_results_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "progress.jsonl"
    assert Progress(path).attempts() == ()
    assert not path.parent.exists(), "who only looks leaves nothing behind"
    kept = [an_attempt(score) for score in (0.1, 0.9)]
    for attempt in kept:
        Progress(path).record(attempt)
    assert Progress(path).attempts() == tuple(kept)
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert set(lines[0]) == {"format", "kind", "what", "query", "score", "detail", "when"}


def test_the_environment_moves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGLAB_PROGRESS", str(tmp_path / "mine.jsonl"))
    assert Progress().path == tmp_path / "mine.jsonl"
    monkeypatch.setenv("RAGLAB_PROGRESS", str(tmp_path))
    assert progress_file() == tmp_path / "progress.jsonl"
    monkeypatch.setenv("RAGLAB_PROGRESS", "")
    assert progress_file().parts[-2:] == ("rag-lab-workbook", "progress.jsonl")


WRITER = """
import sys, time, pathlib
from raglab.learn import Attempt, Progress
path, name, count = sys.argv[1:]
pathlib.Path(f"{path}.{name}.ready").touch()
while not pathlib.Path(f"{path}.go").exists():
    time.sleep(0.001)
for n in range(int(count)):
    Progress(path).record(Attempt("order", name, "q" * 5000, n / int(count)))
"""


def test_notebooks_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path, names, count = tmp_path / "progress.jsonl", ("one", "two", "three"), 60
    path.write_bytes(b'{"broken off')
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, str(count)])
        for name in names
    ]
    while not all(Path(f"{path}.{name}.ready").exists() for name in names):
        assert all(writer.poll() is None for writer in writers)
    Path(f"{path}.go").touch()
    seen = 0
    while any(writer.poll() is None for writer in writers):
        time.sleep(0.02)
        # Line 1 and no other: no line is read half written.
        with pytest.warns(UserWarning, match=r"\(line 1: it holds no attempt \(\w+\)\)"):
            now = len(Progress(path).attempts())
        assert now >= seen
        seen = now
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    with pytest.warns(UserWarning, match="line 1: it holds no attempt .*: the rest is counted"):
        kept = Progress(path).attempts()
    for name in names:
        scores = [attempt.score for attempt in kept if attempt.what == name]
        assert scores == [n / count for n in range(count)]


STRANGE = {
    "broken off": b'{"format": 1, "kind": "order", "wha',
    "no JSON": b"hello",
    "no text": b"\xff\xfe\x00\x01",
    "zeros": b"\0" * 64,
    "a list": b"[1, 2]",
    "a number": b"7",
    "another format": an_attempt().line().replace(b'"format": 1', b'"format": 2').strip(),
    "before formats": b'{"kind": "order", "score": 1}',
    "no number": an_attempt().line().replace(b"0.5", b"NaN").strip(),
    "out of range": an_attempt().line().replace(b"0.5", b"7").strip(),
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_cannot_be_read_stays_and_harms_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "progress.jsonl"
    good = an_attempt(0.25)
    before = good.line() + STRANGE[name] + b"\n\n" + good.line() + STRANGE[name]
    path.write_bytes(before)
    kept = Progress(path)
    kept.record(an_attempt(1))
    with pytest.warns(UserWarning, match=r"progress\.jsonl can be read") as told:
        assert kept.attempts() == (good, good, kept.attempts()[-1])
    assert len(told) == 1, "once is enough"
    message = str(told[0].message)
    assert re.search(r"progress.jsonl can be read \(line 2: .*, and 1 more\)", message)
    assert kept.attempts()[-1].score == 1
    assert path.read_bytes().startswith(before)


def test_what_a_later_line_may_add_or_lack() -> None:
    data = json.loads(an_attempt().line())
    del data["detail"], data["query"]
    read = Attempt.read(json.dumps({**data, "mood": "good"}).encode())
    assert (read.query, read.detail, read.score) == ("", {}, 0.5)


def unwritable(kind: str, tmp_path: Path) -> tuple[Path, Callable[[], object]]:
    """A file that cannot be written, for its owner too, and what mends it."""
    if kind == "a file in place of the folder":
        (tmp_path / "folder").write_text("in the way")
        return tmp_path / "folder" / "progress.jsonl", (tmp_path / "folder").unlink
    (tmp_path / "progress.jsonl").mkdir()
    return tmp_path / "progress.jsonl", (tmp_path / "progress.jsonl").rmdir


@pytest.mark.parametrize("kind", ["a file in place of the folder", "a folder in place of the file"])
def test_a_file_that_cannot_be_written_stops_no_one(tmp_path: Path, kind: str) -> None:
    path, mend = unwritable(kind, tmp_path)
    kept = Progress(path)
    with pytest.warns(UserWarning, match=r"cannot be written .* Set RAGLAB_PROGRESS"):
        kept.record(an_attempt(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.record(an_attempt(0.2))  # told once
    with pytest.warns(UserWarning, match="cannot be read"):
        assert [attempt.score for attempt in kept.attempts()] == [0.1, 0.2]
    mend()
    kept.record(an_attempt(0.3))
    assert [attempt.score for attempt in kept.attempts()] == [0.1, 0.2, 0.3]
    assert Progress(path).attempts() == kept.attempts()


def test_who_reads_waits_for_who_writes(tmp_path: Path) -> None:
    path, attempt = tmp_path / "progress.jsonl", an_attempt()
    found: list[tuple[Attempt, ...]] = []
    reader = Thread(target=lambda: found.append(Progress(path).attempts()))
    with FileLock(f"{path}.lock"):
        path.write_bytes(attempt.line()[:20])
        reader.start()
        time.sleep(0.2)
        path.write_bytes(attempt.line())
    reader.join()
    assert found == [(attempt,)]


def test_a_lock_that_is_held_stops_no_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    kept = Progress(tmp_path / "progress.jsonl")
    kept.record(an_attempt(0.1))
    with FileLock(f"{kept.path}.lock"):
        with pytest.warns(UserWarning, match="cannot be written"):
            kept.record(an_attempt(0.2))
        assert [attempt.score for attempt in kept.attempts()] == [0.1, 0.2]
        assert len(kept.path.read_bytes().splitlines()) == 1
    kept.record(an_attempt(0.3))
    assert [attempt.score for attempt in Progress(kept.path).attempts()] == [0.1, 0.2, 0.3]


FULL = """
import resource, signal, sys, warnings
from raglab.learn import Attempt, Progress
warnings.simplefilter("ignore")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = Progress(sys.argv[1])
kept.record(Attempt("order", "dense", "q", 0.1))
size = kept.path.stat().st_size
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, most))
kept.record(Attempt("order", "dense", "q", 0.2))
assert kept.path.stat().st_size == size, "a half was written"
assert len(kept.attempts()) == 2
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
kept.record(Attempt("order", "dense", "q", 0.3))
print(*(attempt.score for attempt in Progress(kept.path).attempts()))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits the size of a file as POSIX does")
def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "progress.jsonl")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (told.stdout, told.returncode) == ("0.1 0.2 0.3\n", 0), told.stderr


# -- summaries -------------------------------------------------------------------------------------


def test_a_summary_in_words(tmp_path: Path) -> None:
    """(6 · 0.85 + 6 · 0.57) / 12 = 0.71."""
    kept = Progress(tmp_path / "progress.jsonl")
    assert kept.words() == "Nothing is kept yet. Predict an order, and it will be."
    for _ in range(6):
        kept.record(an_attempt(0.85))
        kept.record(an_attempt(0.57, "reranked"))
    assert kept.words() == (
        "12 predictions, 71% of pairs in the right order; dense is your best stage (85%), "
        "reranked your weakest (57%)."
    )
    kept.record(an_attempt(1, "context", "knob"))
    kept.record(an_attempt(0.5, "03_dense", "quiz"))
    assert kept.words().endswith("(57%). 1 knob question, 100% right. Quiz: 1 answer, 50% right.")
    assert kept.summary().kinds["knob"] == Tally(1, 1.0)
    assert kept.summary().steps["quiz", "03_dense"] == Tally(1, 0.5)


def test_a_stage_is_the_weakest_from_three_predictions_on() -> None:
    dense, weak = [an_attempt(1)] * 3, an_attempt(0, "sparse")
    assert "weakest" not in summarize([*dense, weak, weak]).words()
    assert "sparse your weakest (0%)" in summarize([*dense, weak, weak, weak]).words()
    assert "best" not in summarize([*dense, *[an_attempt(1, "sparse")] * 3]).words()
    assert summarize([weak]).words() == "1 prediction, 0% of pairs in the right order."


def test_branches_count_as_their_stage() -> None:
    found = summarize([an_attempt(1, "dense 2"), an_attempt(0), an_attempt(1, "part 2", "quiz")])
    assert found.steps_of("order") == {"dense": Tally(2, 0.5)}
    assert found.steps_of("quiz") == {"part 2": Tally(1, 1.0)}
    assert Summary({}, {}).words().startswith("Nothing is kept yet")


def test_learning_needs_nothing_heavy() -> None:
    heavy = ("torch", "faiss", "sklearn", "scipy", "anywidget", "raglab.lab", "raglab.views")
    code = f"import sys, raglab.learn; print([n for n in {heavy} if n in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
