"""The Sankey and the scorecard's panel: what adds up, what is escaped, what a keyboard reaches."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.evaluate.attribution import (
    CUT,
    EVERY,
    REFUSED_WELL,
    RIGHT,
    UNFOUND,
    WRONG,
    Attribution,
    counts,
)
from raglab.evaluate.scorecard import Scorecard, Spent
from raglab.types import Question, RagLabError
from raglab.views.sankey import ROAD, sankey, sankey_panel, stations, words
from raglab.views.scoreview import differences, score_heat, score_panel, score_table

HOSTILE = "<script>alert(1)</script> \" ' &"
ENDS = st.lists(
    st.builds(
        Attribution,
        st.uuids().map(str),
        st.sampled_from(["numeric", "table"]),
        st.sampled_from(EVERY),
        st.just("why"),
    ),
    max_size=30,
)


def some() -> list[Attribution]:
    ends = [UNFOUND, CUT, CUT, WRONG, RIGHT, RIGHT, RIGHT, REFUSED_WELL]
    return [
        Attribution(f"q{n}", "numeric" if n < 4 else "table", end, f"because {n}")
        for n, end in enumerate(ends)
    ]


def asked(text: str = "how much") -> list[Question]:
    return [Question(f"q{n}", f"{text} {n}", "numeric", "", (), True) for n in range(8)]


def drawn(html: str) -> ET.Element:
    return ET.fromstring(f"<div>{html}</div>")


# -- the Sankey -----------------------------------------------------------------------------------


def test_every_end_leaves_at_one_station() -> None:
    ends = [end for exits in ROAD.values() for end in exits]
    assert sorted([*ends, RIGHT]) == sorted(EVERY)


def test_stations_by_hand() -> None:
    """8 asked; 1 has no answer; 1 is not retrieved; 2 are cut; 1 is wrong; 3 are right."""
    still = {one.name: one.still for one in stations(some())}
    assert still == {
        "asked": 8, "in corpus": 7, "chunked": 7, "read": 7, "retrieved": 6, "fused": 6,
        "reranked": 6, "in prompt": 4, "answered": 4, "right": 3,
    }  # fmt: skip


@settings(deadline=None)
@given(ENDS)
def test_at_every_station_the_questions_add_up(ends: list[Attribution]) -> None:
    gone = 0
    for one in stations(ends):
        gone += sum(one.left.values())
        assert one.still + gone == len(ends)
    assert one.still == counts(ends).get(RIGHT, 0)


@settings(deadline=None)
@given(ENDS.filter(bool))
def test_widths_are_counts(ends: list[Attribution]) -> None:
    """Every end's bar is as high as its share of the stream of all questions."""
    root = drawn(str(sankey(ends, {})))
    whole = 190 / len(ends)
    for end, count in counts(ends).items():
        if end != RIGHT:
            (group,) = root.findall(f".//g[@data-key='end: {end}']")
            bar = group.find("rect")
            assert bar is not None
            assert float(bar.attrib["height"]) == pytest.approx(count * whole, abs=0.01)


@settings(deadline=None)
@given(ENDS.filter(bool))
def test_no_end_covers_another(ends: list[Attribution]) -> None:
    root = drawn(str(sankey(ends, {})))
    bars = [
        (float(bar.attrib["y"]), float(bar.attrib["height"]))
        for group in root.iter("g")
        if group.attrib["data-key"].startswith("end: ")
        for bar in group.findall("rect")
    ]
    rows = sorted(bars)
    assert all(y + high < after for (y, high), (after, _) in pairwise(rows))


def test_each_band_is_reached_by_keyboard_and_says_what_it_is() -> None:
    root = drawn(str(sankey(some(), {})))
    bands = list(root.iter("g"))
    assert len(bands) == len(ROAD) + 4  # and the four ends that are not "right"
    for band in bands:
        assert band.attrib["tabindex"] == "0"
        assert band.attrib["role"] == "img"
        assert band.findtext("title") == band.attrib["aria-label"]
    said = {band.attrib["aria-label"] for band in bands}
    assert {"cut by keep: 2 of 8", "retrieved: 6 of 8", "right: 3 of 8"} <= said
    picture = root.find("svg")
    assert picture is not None
    assert picture.attrib["role"] == "group"  # what is in a picture's role img is not read out


def test_the_folds_list_every_question_once() -> None:
    texts = {one.query_id: one.text for one in asked()}
    root = drawn(str(sankey(some(), texts)))
    rows = {row.attrib["data-press"]: row.text for row in root.iterfind(".//li/b")}
    assert rows == texts
    assert len(list(root.iter("li"))) == len(texts)
    folds = {fold.findtext("summary"): len(list(fold.iter("li"))) for fold in root.iter("details")}
    assert folds["cut by keep: 2"] == 2
    assert "q1, numeric: because 1" in "".join(root.itertext())


def test_knobs_choose_split_and_kind() -> None:
    panel = sankey_panel({"dev": some(), "test": some()[:4]}, asked())
    assert panel.words.startswith("8 questions. 7 have an answer: the evidence of 57% ")  # 4 / 7
    assert "43% were answered right" in panel.words  # 3 / 7
    assert "largest loss: cut by keep, 2 of them" in panel.words
    assert panel.turn(split="test").words.startswith("4 questions.")
    panel.turn(split="dev", kind="table")
    assert panel.words.startswith("4 questions. 3 have an answer")
    assert "Explorer" in panel.words
    panel.turn(split="test", kind="table")
    assert "no question of this kind" in panel.html
    assert not panel.status
    with pytest.raises(RagLabError, match="give attributions"):
        sankey_panel({}, ())


def test_a_question_that_is_pressed_is_asked() -> None:
    heard: list[Question] = []
    turns = replace(asked()[0], history=("first turn", "what of Team?"))
    panel = sankey_panel({"dev": some()}, [turns, *asked()[1:]], ask=heard.append)
    assert panel.presses
    assert panel.words.endswith("open a list below and press it, while the notebook runs.")
    panel.press("q3")
    assert (heard[-1].query_id, panel.status) == ("q3", "Asked: how much 3")
    panel.press("q0")  # with the turn before it, as the pipeline was asked
    assert (heard[-1], panel.status) == (turns, "Asked: what of Team? how much 0")
    assert 'data-press="q0">what of Team? how much 0<' in panel.html
    picture = panel.html
    panel.press("other")
    assert "'other' is none of these questions" in panel.status
    assert ([one.query_id for one in heard], panel.html) == (["q3", "q0"], picture)
    panel.turn(kind="table")
    assert panel.status == ""


def test_what_asking_raises_is_told() -> None:
    def ask(question: Question) -> None:
        raise RagLabError(f"no kernel for {question.query_id}: start one")

    panel = sankey_panel({"dev": some()}, asked(), ask=ask).press("q2")
    assert "no kernel for q2: start one" in panel.status
    assert not panel.busy


@pytest.mark.parametrize("content", [{}, {"press": 3}, {"do": "press"}, "q3", None])
def test_a_message_that_presses_nothing_is_left_alone(content: object) -> None:
    heard: list[Question] = []
    panel = sankey_panel({"dev": some()}, asked(), ask=heard.append)
    panel._handle_custom_msg(content, [])
    assert (heard, panel.status) == ([], "")
    panel._handle_custom_msg({"press": "q3"}, [])
    assert [one.query_id for one in heard] == ["q3"]


def test_without_an_asker_nothing_is_a_button() -> None:
    panel = sankey_panel({"dev": some()}, asked())
    assert not panel.presses
    assert panel.words.endswith("copy its words from a list below into the Explorer's query box.")
    panel._handle_custom_msg({"press": "q3"}, [])
    assert panel.status == ""
    with pytest.raises(RagLabError, match="turn a knob"):
        panel.press("q3")


def test_nothing_of_a_question_becomes_markup() -> None:
    ends = [replace(one, query_id=one.query_id, reason=HOSTILE, kind=HOSTILE) for one in some()]
    panel = sankey_panel({HOSTILE: ends}, asked(HOSTILE))
    for html in (panel.html, panel.page(), panel._repr_mimebundle_()[0]["text/html"]):
        assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in panel.html
    assert drawn(panel.html).find(".//script") is None


def test_colours_follow_the_theme_and_have_a_fallback() -> None:
    for fill in re.findall(r'(?:fill|stroke)="([^"]+)"', str(sankey(some(), {}))):
        assert fill == "none" or re.fullmatch(r"var\(--[\w-]+, #[0-9a-f]{3,6}\)", fill), fill


@settings(deadline=None)
@given(ENDS)
def test_words_for_any_questions(ends: list[Attribution]) -> None:
    assert words(ends).startswith(f"{len(ends)} questions.")


# -- the scorecard --------------------------------------------------------------------------------


def card() -> Scorecard:
    """The second of two pipelines is right on six more of eight numbers; both on no table."""
    kinds = {f"q{n}": "numeric" if n < 8 else "table" for n in range(10)}
    one = {query_id: float(query_id in ("q0", "q1")) for query_id in kinds}
    two = {query_id: float(kind == "numeric") for query_id, kind in kinds.items()}
    values = {
        "one": {"right": one, "refusal recall": {"q0": 1.0}},
        "two": {"right": two, "refusal recall": {"q0": 0.0}},
    }
    return Scorecard(
        "toy", "test", kinds, values, {"one": {"all": Spent(10, 2, None, {"fuse": 1.5})}}
    )


def test_the_heat_map_frames_the_best_of_each_kind() -> None:
    rows = {row[0].text: row[1:] for row in drawn(str(score_heat(card(), "right"))).iter("tr")}
    assert [cell.text for cell in rows["numeric (8)"]] == ["0.25", "→ 1.00"]
    assert [cell.text for cell in rows["table (2)"]] == ["0.00", "0.00"]  # a tie has no best
    assert [cell.text for cell in rows["all (10)"]] == ["0.20", "→ 0.80"]


def test_a_kind_without_a_value_is_named() -> None:
    html = str(score_heat(card(), "refusal recall"))
    assert "No value for each pipeline: table." in html
    assert "all (10)" in html


def test_one_pipeline_alone_is_no_best() -> None:
    alone = replace(card(), values={"one": card().values["one"]})
    assert "→" not in score_heat(alone, "right")


def test_the_table_holds_costs() -> None:
    rows = {row[0].text: row[1:] for row in drawn(str(score_table(card()))).iter("tr")}
    assert [cell.text for cell in rows["tokens"]] == ["12", "–"]
    assert [cell.text for cell in rows["ms here"]] == ["1.5", "–"]
    assert rows["right"][1].text is not None
    assert rows["right"][1].text.startswith("0.80 [")


def test_the_table_can_leave_out_what_another_machine_changes() -> None:
    html = str(score_table(card(), times=False))
    names = [row[0].text for row in drawn(html).iter("tr")]
    assert names[-2:] == ["tokens", "USD/1,000"]
    assert "ms here" not in html
    assert "milliseconds" not in html
    assert "milliseconds" not in score_panel(card(), times=False).html
    assert "milliseconds" in score_panel(card()).html


def test_differences_say_whether_it_may_be_luck() -> None:
    """Six numbers gained: p = 2 / 2^6 = 0.031. Refusal recall: one question, p = 1."""
    assert differences(card(), "one", "right")[0].endswith("p = 0.031: more than luck.")
    assert differences(card(), "one", "refusal recall")[0].endswith("p = 1.000: may be luck.")
    assert differences(card(), "one", "relevance") == []


def test_the_panel_turns() -> None:
    panel = score_panel(card())
    assert panel.words.startswith("Right, all: one 0.20 [")
    assert "Against one: two +0.60" in panel.words
    panel.turn(metric="refusal recall", kind="table", baseline="two")
    assert panel.words == "Refusal recall, table: no value."
    assert not panel.status


def test_names_are_escaped() -> None:
    hostile = replace(
        card(), corpus=HOSTILE, kinds=dict.fromkeys(card().kinds, HOSTILE),
        values={HOSTILE: card().values["one"]}, spent={},
    )  # fmt: skip
    panel = score_panel(hostile)
    assert "<script>alert" not in panel.html + panel.page()
    assert drawn(panel.html).find(".//script") is None
