"""The Explorer from Python: all state is in traits, and every control is set and looked at."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raglab.explore.dials import turned
from raglab.explore.surprise import KINDS
from raglab.lab import evidence_for, golden_questions
from raglab.learn import Progress
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.trace import Trace
from raglab.views import Explorer, flow_svg
from raglab.views.explorer import EMPTY

QUESTIONS = golden_questions("handbook")
ASKED = "How much did contextual retrieval cut failed retrievals?"
BY_ID = {question.query_id: question for question in QUESTIONS}


@pytest.fixture
def explorer(lab: Pipeline, tmp_path: Path) -> Explorer:
    fresh = replace(lab, memo=Memo())
    return Explorer(fresh, QUESTIONS, query=ASKED, progress=Progress(tmp_path / "progress.jsonl"))


def heard(explorer: Explorer) -> list[dict[str, Any]]:
    """What the widget's script is sent from now on."""
    sent: list[dict[str, Any]] = []
    explorer.send = lambda content, buffers=None: sent.append(content)
    return sent


def tell(explorer: Explorer, **content: Any) -> None:
    """A message, as the widget's script sends it."""
    explorer._handle_custom_msg(content, [])


def prompt(model: dict[str, Any]) -> list[str]:
    (column,) = [column for column in model["columns"] if column["stage"] == "assemble"]
    return [row[0] for row in column["rows"]]


# -- the first picture -----------------------------------------------------------------------------


def test_it_opens_with_a_run_of_the_pipeline_as_it_is(explorer: Explorer, lab: Pipeline) -> None:
    assert explorer.trace == lab.run(replace_id(ASKED))
    assert explorer.step == len(explorer.data["stages"]) - 1
    assert prompt(explorer.data) == [h.chunk.chunk_id for h in explorer.trace.context.kept]
    assert explorer.settings == {knob["name"]: knob["value"] for knob in explorer.knobs}
    assert (explorer.undoable, explorer.comparing, explorer.predicting) == (0, False, False)


def replace_id(text: str) -> Any:
    from raglab.evaluate.rewriting import as_query

    return as_query(next(question for question in QUESTIONS if question.text == text))


def test_without_a_query_the_first_golden_question_is_asked(lab: Pipeline) -> None:
    assert Explorer(lab, QUESTIONS).query == QUESTIONS[0].text
    assert Explorer(lab).query


def test_golden_questions_stand_by_kind_each_once(explorer: Explorer) -> None:
    listed = [one["id"] for kind in explorer.kinds for one in kind["questions"]]
    assert sorted(listed) == sorted(BY_ID)
    for kind in explorer.kinds:
        assert {BY_ID[one["id"]].kind for one in kind["questions"]} == {kind["kind"]}


def test_the_evidence_is_that_of_the_golden_question(explorer: Explorer, lab: Pipeline) -> None:
    marked = [card["id"] for card in explorer.data["chunks"] if "evidence" in card["marks"]]
    assert set(marked) == set(evidence_for(ASKED, lab, "handbook"))
    explorer.query = "a question of my own about refunds"
    assert not any("evidence" in card["marks"] for card in explorer.data["chunks"])


def test_columns_say_what_their_chunks_hold_and_cost(explorer: Explorer, lab: Pipeline) -> None:
    """dense: the tokens of its 20 chunks, at 3 dollars a million."""
    column = explorer.data["columns"][0]
    hits = explorer.trace.ranking("dense")
    tokens = sum(lab.assembler.count(hit.chunk.shown) for hit in hits)  # type: ignore[attr-defined]
    assert column["tokens"] == tokens > 1000
    assert column["usd"] == pytest.approx(tokens * 3 / 1_000_000, rel=1e-5)
    context = next(c for c in explorer.data["columns"] if c["stage"] == "assemble")
    assert context["tokens"] == explorer.trace.context.tokens


# -- asking and turning ----------------------------------------------------------------------------


def test_turning_a_knob_runs_what_lies_after_it(explorer: Explorer) -> None:
    explorer.settings = {**explorer.settings, "rrf_k": 3}
    assert [step.name for step in explorer.trace.steps if not step.reused] == [
        "fused", "reranked", "context", "answer",
    ]  # fmt: skip
    assert explorer.status
    assert explorer.busy is False


@pytest.mark.parametrize(
    ("name", "value"),
    [("k", 5), ("k1", 0.5), ("b", 0.1), ("rrf_k", 1), ("dense_weight", 0.2), ("depth", 4),
     ("late", 3.0), ("keep", 2), ("budget", 300), ("threshold", 1.0), ("reranker", "learned"),
     ("fuser", "convex"), ("retrievers", "sparse"), ("allowed", "hr")],
)  # fmt: skip
def test_every_knob_does_what_turning_the_pipeline_does(
    explorer: Explorer, lab: Pipeline, name: str, value: Any
) -> None:
    explorer.settings = {**explorer.settings, name: value}
    assert explorer.trace == turned(lab, **{name: value}).run(replace_id(ASKED))
    explorer.undo()
    assert explorer.trace == lab.run(replace_id(ASKED))


def test_presets_are_whole_settings(explorer: Explorer, lab: Pipeline) -> None:
    assert list(explorer.presets) == ["naive", "hybrid", "advanced"]
    explorer.settings = {**explorer.settings, "keep": 3}
    explorer.settings = explorer.presets["naive"]
    assert explorer.settings["keep"] == 8
    assert [column["name"] for column in explorer.data["columns"]][:2] == ["dense", "fused"]
    naive = turned(lab, retrievers="dense", reranker="none")
    assert explorer.trace == naive.run(replace_id(ASKED))
    assert {"k1", "b", "depth", "late"} <= set(explorer.idle)


def test_undo_goes_back_a_step_at_a_time_and_says_where_it_ends(explorer: Explorer) -> None:
    start = (explorer.query, dict(explorer.settings), explorer.data)
    explorer.settings = {**explorer.settings, "k": 5}
    explorer.query = "what is ERR_2043"
    assert explorer.undoable == 2
    tell(explorer, do="undo")
    assert (explorer.query, explorer.settings["k"], explorer.undoable) == (ASKED, 5, 1)
    explorer.undo()
    assert (explorer.query, explorer.settings) == start[:2]
    assert prompt(explorer.data) == prompt(start[2])
    explorer.undo()
    assert explorer.status == "There is nothing to undo."


def test_what_goes_wrong_is_told_and_the_picture_stays(explorer: Explorer) -> None:
    before = explorer.data
    explorer.query = "   "
    assert explorer.status == EMPTY
    explorer.query = ASKED
    explorer.settings = {**explorer.settings, "k": 1000}
    assert explorer.status.startswith("This did not run: Hits a retriever (k) is 1000")
    explorer.settings = {**explorer.settings, "k": 20, "nothing": 1}
    assert "there is no dial 'nothing'" in explorer.status
    tell(explorer, do="fly")
    assert explorer.status.startswith("This did not run")
    assert prompt(explorer.data) == prompt(before)
    assert explorer.undoable == 1
    assert "k=" not in explorer.code()  # the lines are of what is shown
    explorer.undo()  # back to what the picture shows
    assert explorer.settings["k"] == 20
    assert "nothing" not in explorer.settings
    assert explorer.undoable == 0


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_surprise_is_asked_and_told_with_its_figures(explorer: Explorer, kind: str) -> None:
    tell(explorer, do="surprise", kind=kind)
    assert explorer.status
    assert explorer.busy is False
    assert explorer.progress == 0
    assert explorer.query in {question.text for question in QUESTIONS}


def test_dense_really_fails_the_surprise_and_the_next_one_is_another(explorer: Explorer) -> None:
    asked = []
    for _ in range(3):
        explorer.surprise("dense fails")
        asked.append(explorer.query)
        found = {hit.chunk.chunk_id for hit in explorer.trace.ranking("dense")}
        marked = {card["id"] for card in explorer.data["chunks"] if "evidence" in card["marks"]}
        assert marked
        assert not marked & found
    assert len(set(asked)) == 3


# -- beside another pipeline -----------------------------------------------------------------------


def test_a_second_pipeline_stands_beside_the_first(explorer: Explorer, lab: Pipeline) -> None:
    explorer.comparing = True
    naive = turned(lab, retrievers="dense", reranker="none").run(replace_id(ASKED))
    here, there = set(prompt(explorer.data)), {h.chunk.chunk_id for h in naive.context.kept}
    assert set(prompt(explorer.other)) == there
    only = {card["id"] for card in explorer.data["chunks"] if "only-here" in card["marks"]}
    other = {card["id"] for card in explorer.other["chunks"] if "only-here" in card["marks"]}
    assert (only, other) == (here - there, there - here)
    assert explorer.difference.startswith(f"{len(here & there)} chunks reach both prompts")
    assert "depth" in explorer.other_idle
    explorer.other_settings = dict(explorer.settings)
    assert explorer.difference == "Both send the same chunks to the prompt."
    explorer.comparing = False
    assert (explorer.other, explorer.difference) == ({}, "")
    assert not any("only-here" in card["marks"] for card in explorer.data["chunks"])


def test_the_other_pipeline_follows_the_query_and_is_told_apart_from_errors(
    explorer: Explorer,
) -> None:
    explorer.comparing = True
    explorer.query = "what is ERR_2043"
    assert explorer.other["query"] == "what is ERR_2043"
    explorer.other_settings = {**explorer.other_settings, "k": -1}
    assert explorer.status.startswith("B did not run: Hits a retriever (k) is -1")
    assert (explorer.other, explorer.difference) == ({}, "")  # not the B of another query
    explorer.other_settings = explorer.presets["naive"]
    assert explorer.other["query"] == "what is ERR_2043"


def test_over_other_chunks_the_same_id_is_another_chunk(lab: Pipeline, tmp_path: Path) -> None:
    """Two sizes; the second is made by cutting texts short, so that no index is built for it."""
    assert lab.kit
    short = {c.chunk_id: replace(c, text=c.text[: len(c.text) // 2]) for c in lab.kit.chunks}
    chosen = {**lab.kit.chosen, "chunk_size": "100"}
    dense = lab.retrievers["dense"]
    stages = {**lab.kit.stages, "retrievers": {"cut": lambda: {"dense": Cut(dense, short)}}}
    kit = replace(
        lab.kit, chunks=tuple(short.values()), stages=stages, chosen={**chosen, "retrievers": "cut"}
    )
    small = replace(lab, retrievers={"dense": Cut(dense, short)}, kit=kit, memo=Memo())
    sizes = {"100": lambda: small, "200": lambda: lab}
    only_sizes = replace(lab.kit, sizes=sizes, stages={})
    opened = replace(lab, kit=only_sizes, memo=Memo())
    explorer = Explorer(opened, QUESTIONS, query=ASKED, progress=Progress(tmp_path / "p"))
    explorer.selected = prompt(explorer.data)[0]
    explorer.other_settings = dict(explorer.settings)
    explorer.comparing = True
    explorer.settings = {**explorer.settings, "chunk_size": "100"}
    assert explorer.status.startswith("The documents are cut in another way")
    assert explorer.selected == ""
    assert "share no chunk" in explorer.difference
    only = {card["id"] for card in explorer.data["chunks"] if "only-here" in card["marks"]}
    assert only == set(prompt(explorer.data))
    assert only & set(prompt(explorer.other))  # by their ids alone they would look the same


class Cut:
    """A retriever over chunks that were cut shorter."""

    def __init__(self, lane: Any, chunks: dict[str, Any]) -> None:
        self.lane, self.chunks = lane, chunks

    def retrieve(self, query: Any, k: int, allowed: Any = None) -> Any:
        hits = self.lane.retrieve(query, k, allowed)
        return tuple(replace(hit, chunk=self.chunks[hit.chunk.chunk_id]) for hit in hits)


# -- predict, then reveal --------------------------------------------------------------------------


def test_challenges_are_there_while_predicting(explorer: Explorer) -> None:
    assert explorer.challenges == {}
    explorer.predicting = True
    assert explorer.challenges
    for place, made in explorer.challenges.items():
        assert sorted(made["chunk_ids"]) == sorted(made["truth"])
        assert made["chunk_ids"] != made["truth"]
        assert set(made["titles"]) == set(made["truth"])
        column = next(c for c in explorer.data["columns"] if c["name"] == made["step"])
        assert str(column["place"]) == place
        assert made["why"]
    explorer.predicting = False
    assert explorer.challenges == {}


def test_a_guess_is_judged_and_kept(explorer: Explorer, tmp_path: Path) -> None:
    explorer.predicting = True
    place, made = next(iter(explorer.challenges.items()))
    right = list(made["truth"])
    explorer.guess = {"place": int(place), "order": right}
    assert (explorer.reveal["score"], explorer.reveal["right"]) == (1.0, explorer.reveal["pairs"])
    first_two_swapped = [right[1], right[0], *right[2:]]
    explorer.guess = {"place": int(place), "order": first_two_swapped}
    assert explorer.reveal["right"] == explorer.reveal["pairs"] - 1
    kept = Progress(tmp_path / "progress.jsonl").attempts()
    assert [attempt.what for attempt in kept] == [made["step"]] * 2
    assert explorer.score.startswith("2 predictions")
    explorer.guess = {"place": int(place), "order": right[:2]}
    assert explorer.status.startswith("This did not run")
    assert len(Progress(tmp_path / "progress.jsonl").attempts()) == 2


def test_which_knob_rescues_it_is_asked_where_the_answer_is_lost(explorer: Explorer) -> None:
    explorer.predicting = True
    assert explorer.knob_question == {}  # nothing is lost
    explorer.settings = {**explorer.settings, "keep": 1}
    explorer.surprise("lost at the last cut")
    assert "Hits a retriever (k)" in explorer.knob_question["options"]
    assert "Chunk size" not in explorer.knob_question["options"]  # it is not tried
    explorer.knob_guess = "No single knob"
    assert explorer.whynot["guess"]
    assert explorer.score.startswith("1 knob question")


def test_a_guess_that_fits_nothing_is_told_or_ignored(explorer: Explorer) -> None:
    explorer.guess = {"place": 1, "order": ["a"]}  # nobody predicts
    explorer.predicting = True
    explorer.guess = {"place": 9, "order": []}
    explorer.guess = {"place": 1}
    assert explorer.status.startswith("This did not run")
    explorer.knob_guess = "RRF's k"  # nothing is lost
    assert (explorer.reveal, explorer.whynot) == ({}, {})


def test_while_predicting_the_status_tells_nothing(explorer: Explorer) -> None:
    explorer.predicting = True
    explorer.settings = {**explorer.settings, "keep": 2}
    assert explorer.status == "Another run: predict what it found."


def test_a_reader_learns_nothing_of_what_they_may_not_see(explorer: Explorer) -> None:
    explorer.query = BY_ID["restricted-05"].text
    assert explorer._run.evidence
    sent = heard(explorer)
    explorer.why_not()
    for chunk_id in explorer._run.evidence:
        tell(explorer, do="detail", chunk=chunk_id, side="a")
        assert chunk_id not in json.dumps(explorer.get_state())
    assert sent == []
    assert explorer.data["verdict"] == [
        "The evidence was not searched: it is not in your groups: hr."
    ]


# -- why not this one ------------------------------------------------------------------------------


def test_a_chunk_that_the_cut_lost_is_kept_by_the_dial_that_cut_it(explorer: Explorer) -> None:
    ninth = explorer.trace.ranking("reranked")[8].chunk.chunk_id
    tell(explorer, do="why-not", chunk=ninth)
    assert explorer.whynot["chunk"] == ninth
    (keep,) = [one for one in explorer.whynot["rescues"] if one["dial"] == "keep"]
    assert (keep["was"], keep["value"]) == (8, 9)
    explorer.settings = {**explorer.settings, "keep": keep["value"]}
    assert ninth in prompt(explorer.data)
    assert explorer.whynot == {}  # it was of the run before


def test_what_is_in_the_prompt_needs_no_rescue(explorer: Explorer) -> None:
    kept = prompt(explorer.data)[0]
    found = explorer.why_not(kept)
    assert found
    assert "is in the prompt as [1]" in explorer.whynot["words"]
    assert explorer.whynot["rescues"] == []
    assert explorer.whynot["sizes"] is False
    explorer.query = "a question of my own"
    assert explorer.why_not() is None
    assert "no golden question" in explorer.status
    assert explorer.whynot["words"] == explorer.status  # the panel does not wait for ever


# -- details, prompt, sharing ----------------------------------------------------------------------


def test_a_chunks_text_is_sent_when_it_is_asked_for_and_not_before(explorer: Explorer) -> None:
    state = json.dumps(explorer.get_state())
    card = explorer.data["chunks"][0]
    text = next(
        h.chunk.text for h in explorer.trace.ranking("dense") if h.chunk.chunk_id == card["id"]
    )
    assert "text" not in card
    assert json.dumps(text)[1:-1] not in state
    sent = heard(explorer)
    tell(explorer, do="detail", chunk=card["id"], side="a")
    (content,) = sent
    assert content["detail"]["text"] == text[:2000]
    assert content["chunk"] == card["id"]
    for start, end, word in content["detail"]["words"]:
        assert explorer.data["words"][word]["text"][:3].lower() == text[start:end][:3].lower()


def test_the_heat_map_holds_each_rows_best_match(explorer: Explorer) -> None:
    hit = explorer.trace.ranking("reranked")[0]
    heat = explorer._run.detail(hit.chunk.chunk_id)["heat"]
    assert len(heat["query"]) == len(heat["cosines"]) == len(heat["best"])
    assert all(
        row[best] == max(row) for row, best in zip(heat["cosines"], heat["best"], strict=True)
    )
    assert all(len(row) == len(heat["chunk"]) for row in heat["cosines"])


def test_the_cited_span_is_the_citations_quote(explorer: Explorer) -> None:
    citation = explorer.trace.answer.citations[0]
    detail = explorer._run.detail(citation.chunk_id)
    assert citation.quote in [detail["text"][start:end] for start, end in detail["cited"]]


def test_the_prompt_is_the_context_letter_for_letter(explorer: Explorer) -> None:
    sent = heard(explorer)
    tell(explorer, do="prompt", side="a")
    assert sent[0]["text"] == explorer.trace.context.text
    assert "No language model was asked" in sent[0]["note"]


def test_what_is_shared(explorer: Explorer, lab: Pipeline, tmp_path: Path) -> None:
    explorer.settings = {**explorer.settings, "k": 9}
    sent = heard(explorer)
    for what in ("page", "svg", "trace", "code"):
        tell(explorer, do="share", what=what)
    page, svg, trace, code = sent
    assert page["text"].startswith("<!doctype html>")
    assert svg["text"] == flow_svg(explorer.data) == explorer.svg()
    assert Trace.from_dict(json.loads(trace["text"])) == explorer.trace
    scope: dict[str, Any] = {}
    exec(code["text"], scope)
    assert scope["trace"].steps == turned(lab, k=9).run(ASKED).steps
    saved = explorer.trace.save(tmp_path / "trace.json")
    assert Trace.load(saved) == explorer.trace


def test_an_exported_page_is_small_and_whole(explorer: Explorer, tmp_path: Path) -> None:
    explorer.settings = {**explorer.settings, "k": 50}
    explorer.comparing = True
    explorer.predicting = True
    path = explorer.export_html(tmp_path / "page.html")
    assert path.stat().st_size < 400_000
    text = path.read_text(encoding="utf-8")
    state = json.loads(text.split('id="raglab-data">')[1].split("</script>")[0])
    packed = text.split('id="raglab-packed">')[1].split("</script>")[0]
    state |= json.loads(gzip.decompress(b64decode(packed)))
    shown = {card["id"] for card in explorer.data["chunks"]}
    assert set(state["details"]["a"]) == shown
    assert state["prompts"]["a"]["text"] == explorer.trace.context.text
    assert state["offline"] is True


def test_the_widgets_payload_for_fifty_candidates(explorer: Explorer) -> None:
    explorer.settings = {**explorer.settings, "k": 34}
    candidates = len(explorer.data["chunks"])
    assert candidates >= 50
    details = {card["id"]: explorer._run.detail(card["id"]) for card in explorer.data["chunks"]}
    sent = [len(json.dumps(one).encode()) for one in (explorer.data, details)]
    assert sum(sent) < 150_000  # every chunk's text and heat map, were each of them chosen
    assert sent[0] < 60_000  # what a turned knob sends


def test_the_saved_notebook_shows_the_static_picture(explorer: Explorer) -> None:
    data, _ = explorer._repr_mimebundle_()
    assert data["image/svg+xml"] == flow_svg(explorer.data)
    assert data["text/plain"].startswith("Explorer('How much did contextual")
