"""Dials: what is turned is what runs, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from raglab.answer.assemble import BudgetAssembler
from raglab.explore.dials import STAGES, dials, idle, turned
from raglab.explore.lines import lines
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.retrieve.fuse import RRF
from raglab.retrieve.fuse_scores import CombSUM
from raglab.retrieve.rerank import LateInteraction
from raglab.types import Query, RagLabError, Readable

QUERY = "How long does an enterprise customer have to ask for a refund?"


def by_name(pipeline: Pipeline) -> dict[str, Any]:
    return {dial.name: dial for dial in dials(pipeline)}


def test_dials_stand_in_the_order_of_the_stages_and_show_present_values(lab: Pipeline) -> None:
    found = by_name(lab)
    places = [STAGES.index(dial.stage) for dial in found.values()]
    assert places == sorted(places)
    assert set(places) == set(range(len(STAGES)))  # every stage has one
    assert all(dial.label and dial.help for dial in found.values())
    assert (found["k"].value, found["rrf_k"].value, found["keep"].value) == (20, 60, 8)
    assert (found["reranker"].value, found["chunk_size"].value) == ("late interaction", "200")


def test_a_dial_as_it_was_changes_nothing(lab: Pipeline) -> None:
    as_they_are = {dial.name: dial.value for dial in dials(lab)}
    assert turned(lab) == lab == turned(lab, **as_they_are)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("k", 7, lambda p: p.k),
        ("k1", 0.9, lambda p: p.retrievers["sparse"].k1),
        ("b", 0.5, lambda p: p.retrievers["sparse"].b),
        ("rrf_k", 10, lambda p: p.fuser.k),
        ("dense_weight", 0.5, lambda p: dict(p.fuser.weights)["dense"]),
        ("depth", 12, lambda p: p.reranker.depth),
        ("late", 2.5, lambda p: p.reranker.late),
        ("keep", 3, lambda p: p.assembler.keep),
        ("budget", 700, lambda p: p.assembler.budget),
        ("threshold", 0.5, lambda p: p.generator.threshold),
    ],
)
def test_a_number_is_turned_where_it_is_and_back_again(
    lab: Pipeline, name: str, value: float, read: Any
) -> None:
    other = turned(lab, **{name: value})
    assert read(other) == value
    assert other != lab
    assert turned(lab, **{name: by_name(lab)[name].value}) == lab
    trace = other.run(QUERY)
    assert trace.context.kept


def test_every_choice_makes_a_pipeline_that_runs(lab: Pipeline) -> None:
    for dial in dials(lab):
        if not dial.choices or dial.name in ("chunk_size", "rewriter"):
            continue  # sizes build an index; rewriters need a kept reply
        for choice in dial.choices:
            trace = turned(lab, **{dial.name: choice}).run(QUERY)
            assert trace.context.kept, (dial.name, choice)


def test_trade_is_that_of_the_chains_last_link(lab: Pipeline) -> None:
    chained = turned(lab, reranker="late interaction, then MMR", trade=0.3)
    first, last = chained.reranker.rerankers  # type: ignore[attr-defined]
    assert isinstance(first, LateInteraction)
    assert last.trade == 0.3


def test_who_asks_decides_what_is_found(lab: Pipeline) -> None:
    finance = turned(lab, allowed="finance")
    assert finance.allowed == Readable(("finance",))
    hits = finance.run("budget forecast for the year").ranking("dense")
    assert any(hit.chunk.groups for hit in hits)
    assert all(set(hit.chunk.groups) <= {"finance"} for hit in hits)


def test_a_dial_that_the_stage_does_not_have_is_idle_and_keeps_its_setting(lab: Pipeline) -> None:
    other = turned(lab, fuser="CombSUM", rrf_k=5)
    assert other.fuser == CombSUM()
    assert {"rrf_k", "trade"} <= set(idle(other, lab))
    assert "rrf_k" not in idle(lab, lab)
    assert turned(lab, fuser="RRF", rrf_k=5).fuser == RRF(k=5)


def test_only_what_lies_after_the_turned_stage_runs_again(lab: Pipeline) -> None:
    fresh = replace(lab, memo=Memo())
    fresh.run(QUERY)
    again = turned(fresh, rrf_k=9).run(QUERY)
    assert {step.name: step.reused for step in again.steps} == {
        "rewrite": True, "dense": True, "sparse": True,
        "fused": False, "reranked": False, "context": False, "answer": False,
    }  # fmt: skip


def test_another_chunk_size_keeps_the_other_dials(lab: Pipeline) -> None:
    """Opening another index is the kit's affair; here it hands out a pipeline that is marked."""
    marked = replace(lab, assembler=BudgetAssembler(len, keep=8, budget=1499))
    kit = lab.kit
    assert kit
    sizes = {"200": lambda: lab, "100": lambda: marked}
    opened = replace(lab, k=30, kit=replace(kit, sizes=sizes))
    other = turned(opened, chunk_size="100", reranker="learned")
    assert (other.k, other.assembler.budget) == (30, 1500)  # type: ignore[attr-defined]
    assert type(other.reranker).__name__ == "Learned"


def test_a_pipeline_without_a_kit_has_its_numbers(lab: Pipeline) -> None:
    bare = replace(lab, kit=None)
    names = list(by_name(bare))
    assert "reranker" not in names
    assert {"k", "rrf_k", "depth", "keep"} <= set(names)
    assert turned(bare, depth=3).reranker.depth == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nothing": 1}, "there is no dial 'nothing'; there are chunk_size"),
        ({"k": "many"}, "'many': choose a number from 1 to 100"),
        ({"k": 0}, "is 0: choose a number from 1 to 100"),
        ({"reranker": "magic"}, "'magic': choose one of none"),
    ],
)
def test_a_wrong_setting_names_the_mend(lab: Pipeline, settings: Any, said: str) -> None:
    with pytest.raises(RagLabError, match=said):
        turned(lab, **settings)


def test_a_grid_holds_every_value_and_the_present_one(lab: Pipeline) -> None:
    for dial in dials(lab):
        grid = dial.grid()
        assert dial.value in grid
        assert len(set(grid)) == len(grid)
        assert all(dial.checked(value) == value for value in grid)


# -- the lines of Python ---------------------------------------------------------------------------


def test_lines_rebuild_the_very_pipeline(lab: Pipeline) -> None:
    """The written program is run, in this process, and its trace compared."""
    settings = {"k": 9, "reranker": "learned", "late": 1.0, "budget": 650}
    written = lines(lab, settings, Query("q", 'He said "45 days": is it so?'))
    assert "late" not in written  # as it was
    scope: dict[str, Any] = {}
    exec(written, scope)
    assert repr(scope["pipeline"]) == repr(turned(lab, **settings))
    assert scope["trace"] == turned(lab, **settings).run('He said "45 days": is it so?')


def test_lines_of_an_untouched_pipeline_are_two_and_a_print(lab: Pipeline) -> None:
    assert lines(lab, {}, Query("q", "refund?")) == (
        'import raglab\n\npipeline = raglab.open_lab("handbook")\n'
        'trace = pipeline.run("refund?")\nprint(trace.answer.text)\n'
    )


def test_lines_of_a_pipeline_that_was_changed_do_not_claim_to_open_it(lab: Pipeline) -> None:
    changed = replace(lab, fuser=RRF(k=10))
    assert "open_lab" not in lines(changed, {}, Query("q", "refund?"))
    assert by_name(changed)["rrf_k"].value == 10
    assert by_name(changed)["fuser"].value == "RRF"


@dataclass(frozen=True)
class Loud:
    """A fuser that the lab does not have."""

    def fuse(self, rankings: Any) -> Any:
        return next(iter(rankings.values()))


def test_a_stage_of_ones_own_is_kept_as_it_was_opened(lab: Pipeline) -> None:
    own = replace(lab, fuser=Loud())
    assert by_name(own)["fuser"].value == "as opened"
    assert turned(own, k=5).fuser == Loud()
    assert turned(own, fuser="RRF").fuser == RRF()
    with pytest.raises(RagLabError, match="Fusion is a stage of your own"):
        turned(own, chunk_size="100")


def test_lines_ask_with_the_turns_before(lab: Pipeline) -> None:
    asked = Query("turn-1", "and for enterprise?", history=("How long is the refund window?",))
    scope: dict[str, Any] = {}
    exec(lines(lab, {"rewriter": "with the turns before"}, asked), scope)
    assert scope["trace"].queries[0].text.startswith("How long is the refund window?")
