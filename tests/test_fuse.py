"""Fusion by arithmetic that a reader can redo, by what holds for any lists, and against ranx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fakes import chunk, ids, ranking
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raglab.retrieve.fuse import RRF, Flip, flips
from raglab.retrieve.fuse_scores import GRID, CombMNZ, CombSUM, Convex, best_weight
from raglab.retrieve.ranking import rank
from raglab.types import Fuser, Hit, Part, RagLabError, Ranking
from raglab.views.fuseview import alpha_panel, k_panel, why_lost

FUSERS: tuple[Fuser, ...] = (
    RRF(),
    RRF(k=0, weights={"a": 2.5, "b": 0}),
    CombSUM(),
    CombSUM("z-score"),
    CombMNZ(),
    CombMNZ("z-score"),
    Convex(0.3, "a"),
    Convex(0.3, "a", "z-score"),
)


def scored(**scores: float) -> Ranking:
    return rank((chunk(name), [Part("given", score)]) for name, score in scores.items())


def by_id(hits: Ranking) -> dict[str, Hit]:
    return {hit.chunk.chunk_id: hit for hit in hits}


LISTS = st.dictionaries(
    st.sampled_from("abc"),
    st.dictionaries(st.sampled_from("mnopqrst"), st.integers(-9, 9), max_size=8).map(
        lambda scores: scored(**scores)
    ),
    max_size=3,
).map(lambda lists: {"a": scored(m=1), **lists})


# -- RRF ------------------------------------------------------------------------------------------


def test_rrf_by_hand() -> None:
    """Dense 1 and BM25 5 beat dense 10 and BM25 2: 1/61 + 1/65 > 1/70 + 1/62."""
    dense = ranking("x", *(f"d{i}" for i in range(8)), "y")
    sparse = ranking("s0", "y", "s1", "s2", "x")
    hits = by_id(RRF().fuse({"dense": dense, "sparse": sparse}))
    assert hits["x"].score == 1 / (60 + 1) + 1 / (60 + 5)
    assert hits["y"].score == 1 / (60 + 10) + 1 / (60 + 2)
    assert hits["x"].score > hits["y"].score
    assert hits["x"].parts == (Part("dense", 1 / 61), Part("sparse", 1 / 65))


def test_rrf_breaks_ties_by_chunk_id() -> None:
    assert ids(RRF().fuse({"a": ranking("z"), "b": ranking("m")})) == ["m", "z"]


def test_rrf_refuses_a_negative_k() -> None:
    with pytest.raises(RagLabError, match="60 is the usual value"):
        RRF(k=-1)


def test_a_weight_holds_for_the_branches_of_its_list() -> None:
    lists = {name: ranking("x") for name in ("dense", "dense 2", "dense 3", "sparse")}
    (hit,) = RRF(weights={"dense": 0.5, "dense 3": 2}).fuse(lists)
    assert {part.name: part.value for part in hit.parts} == {
        "dense": 0.5 / 61, "dense 2": 0.5 / 61, "dense 3": 2 / 61, "sparse": 1 / 61,
    }  # fmt: skip


def test_a_weight_that_acts_on_no_list_is_told() -> None:
    with pytest.raises(RagLabError, match="'dens' acts on no list: the lists are 'dense'"):
        RRF(weights={"dens": 2}).fuse({"dense": ranking("x")})
    with pytest.raises(RagLabError, match="alpha weighs 'dens', but the lists are 'dense'"):
        Convex(lane="dens").fuse({"dense": ranking("x")})
    assert RRF(weights={"dense": 2}).fuse({}) == ()


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf")])
def test_a_weight_is_a_number_from_0(weight: float) -> None:
    with pytest.raises(RagLabError, match="must be 0 or more"):
        RRF(weights={"dense": weight})


def test_a_weighted_rrf_is_a_value() -> None:
    """The pipeline's memo hashes stages; equal ones are one."""
    weighted = RRF(weights={"sparse": 2, "dense": 1})
    assert {weighted, RRF(weights={"dense": 1, "sparse": 2})} == {weighted}
    assert replace(weighted, k=10) == RRF(10, {"dense": 1, "sparse": 2}) != RRF(10)


@given(LISTS, st.sampled_from([lambda x: x**3 + x, lambda x: 2 * x + 7, lambda x: 2.0**x]))
def test_rrf_sees_no_scores(lists: dict[str, Ranking], grow) -> None:  # type: ignore[no-untyped-def]
    """Any strictly increasing change of the scores leaves the fused ranking as it is."""
    grown = {
        name: rank((hit.chunk, [Part("grown", grow(hit.score))]) for hit in hits)
        for name, hits in lists.items()
    }
    assert RRF().fuse(grown) == RRF().fuse(lists)


def test_scores_matter_to_the_others() -> None:
    """m leads in a and is second in b, n the other way round: only the gaps can tell them apart."""
    for gap, first in ((8, "n"), (2, "m")):
        lists = {"a": scored(m=10, n=gap, z=0), "b": scored(n=10, m=5, z=0)}
        assert ids(CombSUM().fuse(lists))[0] == first
        assert ids(RRF().fuse(lists))[0] == "m"  # a tie


def test_flips_by_hand() -> None:
    """x at 1 and 11, y at 4 and 4: 1/(k+1) + 1/(k+11) = 2/(k+4) where 4k = 26, so k = 6.5."""
    lists = {
        "a": ranking("x", "-", "-", "y"),
        "b": ranking("-", "-", "-", "y", *"------", "x"),
    }
    assert flips(lists, {"x", "y"}) == (Flip(7, "y", "x"),)
    assert flips(lists, {"x", "y"}, range(1, 7)) == ()


@given(LISTS, st.integers(1, 30))
def test_flips_account_for_every_change_of_order(lists: dict[str, Ranking], k: int) -> None:
    first, last = (ids(RRF(at).fuse(lists)) for at in (1, k))
    turned = Counter(
        frozenset((one.above, one.below)) for one in flips(lists, first, range(1, k + 1))
    )
    for above, below in combinations(first, 2):
        changed = last.index(below) < last.index(above)
        assert turned[frozenset((above, below))] % 2 == changed


# -- by scores ------------------------------------------------------------------------------------

TWO = {"dense": scored(m=0.75, n=0.5, o=0.25), "sparse": scored(n=9.0, p=5.0, q=1.0)}


def test_comb_sum_and_mnz_by_hand() -> None:
    """Min-max: dense m 1, n 0.5, o 0; sparse n 1, p 0.5, q 0. Both hold n."""
    assert {i: h.score for i, h in by_id(CombSUM().fuse(TWO)).items()} == {
        "n": 1.5, "m": 1, "p": 0.5, "o": 0, "q": 0,
    }  # fmt: skip
    mnz = by_id(CombMNZ().fuse(TWO))
    assert mnz["n"].parts == (Part("dense", 1.0), Part("sparse", 2.0))
    assert mnz["m"].score == 1


def test_convex_by_hand() -> None:
    assert by_id(Convex(0.25).fuse(TWO))["n"].score == 0.25 * 0.5 + 0.75 * 1
    lists = TWO | {"sparse 2": TWO["sparse"]}
    (dense, *sparse) = by_id(Convex(0.25).fuse(lists))["n"].parts
    assert dense == Part("dense", 0.25 * 0.5)
    assert sparse == [Part("sparse", 0.375), Part("sparse 2", 0.375)]
    lists = TWO | {"dense 2": TWO["dense"]}
    assert [part.value for part in by_id(Convex(0.25).fuse(lists))["m"].parts] == [0.125, 0.125]


def test_a_hit_that_stands_alone_keeps_its_worth() -> None:
    lone = {"dense": scored(m=3, n=1), "sparse": scored(code=7.5)}
    assert by_id(CombSUM().fuse(lone))["code"].score == 1
    assert by_id(CombSUM("z-score").fuse(lone))["code"].score == 0


def test_settings_that_mean_nothing_are_refused() -> None:
    for make in (CombSUM, CombMNZ, lambda norm: Convex(norm=norm)):
        with pytest.raises(RagLabError, match="choose one of min-max, z-score"):
            make("rank")  # type: ignore[arg-type]
    with pytest.raises(RagLabError, match="between 0 and 1"):
        Convex(1.5)


@given(LISTS, st.sampled_from([CombSUM(), CombMNZ(), Convex(0.25, "a")]))
def test_a_list_may_change_its_unit_and_its_zero(lists: dict[str, Ranking], fuser: Fuser) -> None:
    """Doubled and shifted scores are the same after min-max."""
    moved = {
        name: rank((hit.chunk, [Part("moved", 2 * hit.score + 5)]) for hit in hits)
        for name, hits in lists.items()
    }
    assert fuser.fuse(moved) == fuser.fuse(lists)


def test_the_best_weight() -> None:
    tried: list[float] = []
    found = best_weight(lambda weight: tried.append(weight) or -abs(weight - 0.35))  # type: ignore[func-returns-value]
    assert tried == list(GRID) == [round(0.05 * step, 2) for step in range(21)]
    assert (found.best, found.value) == (0.35, 0)
    assert [weight for weight, _ in found.curve] == list(GRID)
    assert best_weight(lambda weight: 1.0).best == 0.5
    with pytest.raises(RagLabError, match="at least one weight"):
        best_weight(lambda weight: 1.0, ())


# -- what holds for every fuser -------------------------------------------------------------------


@given(LISTS, st.sampled_from(FUSERS), st.randoms())
@settings(max_examples=200)
def test_every_fuser(lists: dict[str, Ranking], fuser: Fuser, random) -> None:  # type: ignore[no-untyped-def]
    assume(not isinstance(fuser, RRF) or not fuser.weights or "b" in lists)
    fused = fuser.fuse(lists)
    assert set(ids(fused)) == {name for hits in lists.values() for name in ids(hits)}
    assert len(fused) == len(set(ids(fused)))
    assert [hit.rank for hit in fused] == list(range(1, len(fused) + 1))
    assert all(hit.score == sum(part.value for part in hit.parts) for hit in fused)
    order = [(-hit.score, hit.chunk.chunk_id) for hit in fused]
    assert order == sorted(order)
    for hit in fused:
        holding = [name for name, hits in lists.items() if hit.chunk.chunk_id in ids(hits)]
        assert sorted(part.name for part in hit.parts) == sorted(holding)
    shuffled = list(lists.items())
    random.shuffle(shuffled)
    assert fuser.fuse(dict(shuffled)) == fused


@given(LISTS, st.sampled_from([RRF(), RRF(0, {"a": 3}), *FUSERS[2:]]))
def test_one_list_keeps_its_order(lists: dict[str, Ranking], fuser: Fuser) -> None:
    assert ids(fuser.fuse({"a": lists["a"]})) == ids(lists["a"])


@given(LISTS)
def test_weights_of_one_change_nothing(lists: dict[str, Ranking]) -> None:
    assert RRF(weights=dict.fromkeys(lists, 1)).fuse(lists) == RRF().fuse(lists)


@pytest.mark.parametrize("fuser", [f for f in FUSERS if f != FUSERS[1]], ids=repr)
def test_no_list_and_empty_lists(fuser: Fuser) -> None:
    assert fuser.fuse({}) == fuser.fuse({"a": (), "b": ()}) == ()


# -- ranx -----------------------------------------------------------------------------------------

WEIGHTS = (2.0, 0.5, 1.0)
CASES = (  # our fuser; which runs ranx gets, its normalisation, its method and settings
    (RRF(), "scores", None, "rrf", {"k": 60}),
    (RRF(k=5), "scores", None, "rrf", {"k": 5}),
    # ranx weighs no RRF; a weighted sum over runs that hold 1 / (60 + rank) is the same.
    (
        RRF(weights={str(n): weight for n, weight in enumerate(WEIGHTS)}),
        "reciprocal ranks", None, "wsum", {"weights": WEIGHTS},
    ),
    (CombSUM(), "scores", "min-max", "sum", {}),
    (CombSUM("z-score"), "scores", "zmuv", "sum", {}),
    (CombMNZ(), "scores", "min-max", "mnz", {}),
    (CombMNZ("z-score"), "scores", "zmuv", "mnz", {}),
    (Convex(0.3, "0"), "scores", "min-max", "wsum", {"weights": [0.3, 0.35, 0.35]}),
    (Convex(0.3, "0", "z-score"), "scores", "zmuv", "wsum", {"weights": [0.3, 0.35, 0.35]}),
)  # fmt: skip
ASK_RANX = """
import json, sys, ranx
runs, cases = json.load(sys.stdin)
for given, norm, method, params in cases:
    made = [ranx.Run(run) for run in runs[given]]
    fused = ranx.fuse(made, norm=norm, method=method, params=params).to_dict()
    print(json.dumps(fused, default=float))
"""
Run = dict[str, dict[str, float]]  # query_id -> chunk_id -> score


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Three runs of 30 queries, of 2 to 20 hits each; no two scores of a list are equal."""
    random = np.random.default_rng(0)

    def hits(low: float, high: float) -> dict[str, float]:
        names = random.permutation(30)[: random.integers(2, 21)]
        return {f"c{name:02}": float(random.uniform(low, high)) for name in names}

    bounds = ((-1, 1), (0, 40), (-100, 5))
    return [{f"q{n}": hits(*bound) for n in range(30)} for bound in bounds]


@pytest.fixture(scope="module")
def theirs(runs: list[Run]) -> list[Run]:
    """What ranx makes of each case. It runs apart, with its compiler off: compiling takes a minute,
    and would be off for other tests too."""
    pytest.importorskip("ranx")
    given = {"scores": runs, "reciprocal ranks": [reciprocal_ranks(run) for run in runs]}
    asked = json.dumps([given, [case[1:] for case in CASES]])
    command = [sys.executable, "-c", ASK_RANX]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    told = subprocess.run(
        command, input=asked, env=env, capture_output=True, text=True, check=True, timeout=120
    )
    return [json.loads(line) for line in told.stdout.splitlines()]


def reciprocal_ranks(run: Run) -> Run:
    return {
        query_id: {
            name: 1 / (60 + place)
            for place, name in enumerate(sorted(hits, key=lambda one: -hits[one]), start=1)
        }
        for query_id, hits in run.items()
    }


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: repr(CASES[case][0]))
def test_ranx_agrees(case: int, runs: list[Run], theirs: list[Run]) -> None:
    fuser = CASES[case][0]
    assert len(theirs[case]) == 30
    for query_id, expected in theirs[case].items():
        lists = {str(n): scored(**run[query_id]) for n, run in enumerate(runs)}
        ours = {hit.chunk.chunk_id: hit.score for hit in fuser.fuse(lists)}
        assert ours == pytest.approx(expected, abs=1e-9)


# -- panels ---------------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\u202e\x00"


def found(query: str) -> dict[str, Ranking]:
    """Two lists whose x and y change places at k = 7; other queries find one hostile chunk."""
    if not query.strip():
        return {"dense": (), "sparse": ()}
    if query != "refund":
        return {"dense": ranking(query), "sparse": ()}
    return {
        "dense": ranking("x", "d2", "d3", "y"),
        "sparse": ranking("s1", "s2", "s3", "y", *(f"s{n}" for n in range(5, 11)), "x"),
    }


def starred(query: str) -> Sequence[str]:
    return ("x",) if query == "refund" else ()


def test_the_panel_for_k() -> None:
    panel = k_panel(found, lambda lists, k: RRF(k).fuse(lists), flips, "refund", starred)
    assert panel.words.startswith("At k=60 the first is y. This is the usual k; ")
    assert "★ x is at rank 2." in panel.words
    panel.turn(k=5)
    assert panel.words.startswith("At k=5 the first is x. Between k=60 and k=5 these change places")
    assert "y and x at k=7" in panel.words
    assert "★ x is at rank 1." in panel.words
    assert "★ x" in panel.html
    assert "Order at k = 60, and at k = 5" in panel.html
    panel.turn(k=7)
    assert "y and x" not in panel.words
    panel.turn(k=6)
    assert "y and x at k=7" in panel.words
    panel.turn(k=59)
    assert "The order is the same as at k=60." in panel.words
    panel.turn(k=201)
    assert "choose a number from 1 to 200" in panel.status


def test_the_panel_for_the_weight() -> None:
    def fuse(lists: dict[str, Ranking], alpha: float) -> Ranking:
        return Convex(alpha).fuse(lists)

    panel = alpha_panel(found, fuse, "refund", starred, alpha=1.0)  # type: ignore[arg-type]
    assert panel.words.startswith("At alpha=1.00 the first is x. ★ x is at rank 1.")
    first = next(a for a in GRID if Convex(a).fuse(found("refund"))[0].chunk.chunk_id == "x")
    count = sum(Convex(a).fuse(found("refund"))[0].chunk.chunk_id == "x" for a in GRID)
    told = f"x reaches rank 1 at best, at {count} of 21 weights, the first of them {first:.2f}."
    assert told in panel.words
    assert ">rank 1<" in panel.html
    panel.turn(alpha=0.0)
    assert panel.words.startswith("At alpha=0.00 the first is s1.")
    assert told in panel.words
    worst = by_id(Convex(0.0).fuse(found("refund")))["x"].rank
    assert worst > 1
    assert f">rank {worst}<" in panel.html


@pytest.mark.parametrize("make", ["k", "alpha"])
def test_panels_bear_any_text_and_no_hit(make: str) -> None:
    if make == "k":
        panel = k_panel(found, lambda lists, k: RRF(k).fuse(lists), flips, "refund")
    else:
        panel = alpha_panel(found, lambda lists, a: Convex(a).fuse(lists), "refund")
    panel.turn(query=HOSTILE)
    assert panel.status == ""
    assert "the first is" in panel.words
    assert "<script" not in panel.html
    assert "&lt;script&gt;" in panel.html
    panel.turn(query=" ")
    assert panel.words == "Nothing was found, so there is nothing to fuse."


def test_why_a_chunk_was_lost() -> None:
    """Dense alone has the answer, at 2; a and b stand in both lists and pass it, as c does."""
    lists = {
        "dense": ranking("first", "answer", "a", "b"),
        "sparse": ranking("c", "a", "b", "first"),
    }
    fused = RRF().fuse(lists)
    assert ids(fused) == ["first", "a", "b", "c", "answer"]
    assert why_lost(lists, fused, ["answer", "not there"], k=3) == [
        "answer: only dense had it at 2; fused it is at 5, passed by 3 chunks, "
        "2 of them in both lists"
    ]
    assert why_lost(lists, fused, ["answer"], k=5) == []
    lists = {"dense": ranking("x", "y", "d"), "sparse": ranking("y", "s", "x")}
    assert why_lost(lists, RRF().fuse(lists), ["x"], k=1) == [
        "x: dense had it at 1 and sparse had it at 3; fused it is at 2, passed by 1 chunk, "
        "1 of them in both lists"
    ]
