"""The views' data: what the pictures draw equals what the trace recorded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from xml.etree import ElementTree

import plotly.io as pio
import pytest
from traces import a_trace, assemble, fuse

from raglab.trace import Trace
from raglab.types import Hit, Part, RagLabError
from raglab.views import (
    Flow,
    export_html,
    flow_model,
    flow_svg,
    parts_figure,
    ranking_table,
    trace_table,
)
from raglab.views.changes import changes
from raglab.views.charts import PLOTLY_CONFIG
from raglab.views.flow import STYLE

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"


def column(model, name):
    return next(one for one in model["columns"] if one["name"] == name)


def fate(model, chunk_id):
    return next(card for card in model["chunks"] if card["id"] == chunk_id)["fate"]


# -- the model equals the trace ------------------------------------------------------------------


def test_every_ranking_is_there_row_for_row():
    trace = a_trace()
    model = flow_model(trace)
    for name in ("dense", "sparse", "fused", "reranked"):
        hits = trace.ranking(name)
        found = column(model, name)
        assert found["count"] == len(hits) == len(found["rows"])
        assert [row[:2] for row in found["rows"]] == [
            [hit.chunk.chunk_id, hit.rank] for hit in hits
        ]
        assert [row[2] for row in found["rows"]] == pytest.approx([hit.score for hit in hits], 1e-5)
        assert found["ms"] == pytest.approx(trace[name].seconds * 1000, rel=0.01)


def test_counts_are_told_in_words_and_reuse_is_shown():
    model = flow_model(a_trace())
    assert column(model, "dense")["label"] == "20 hits"
    assert column(model, "fused")["label"] == f"{len(a_trace().ranking('fused'))} fused"
    assert column(model, "context")["label"] == "6 in the prompt"
    assert column(model, "fused")["reused"] is True
    assert column(model, "dense")["reused"] is False


def test_parts_in_the_model_add_up_to_the_score():
    model = flow_model(a_trace())
    for found in model["columns"]:
        for _, _, score, parts in found["rows"]:
            assert sum(parts[1::2]) == pytest.approx(score, abs=1e-4)
            assert all(0 <= name < len(model["names"]) for name in parts[::2])


def test_retrievers_stand_side_by_side_and_both_feed_fused():
    model = flow_model(a_trace())
    assert column(model, "dense")["place"] == column(model, "sparse")["place"] == 1
    assert column(model, "fused")["after"] == ["dense", "sparse"]
    assert [stage["title"] for stage in model["stages"]] == [
        "Query",
        "Retrieve",
        "Fuse",
        "Rerank",
        "Assemble",
        "Answer",
    ]


def test_rewritten_queries_add_lanes_not_places():
    model = flow_model(a_trace(10, queries=3))
    lanes = [one["name"] for one in model["columns"] if one["place"] == 1]
    assert lanes == ["dense", "sparse", "dense 2", "sparse 2", "dense 3", "sparse 3"]
    assert [query["text"] for query in model["queries"]][1:] == ["rewrite 2", "rewrite 3"]
    assert column(model, "fused")["after"] == lanes


def test_prompt_rows_are_numbered_as_citations_are():
    trace = a_trace()
    rows = column(flow_model(trace), "context")["rows"]
    kept = [hit.chunk.chunk_id for hit in trace.context.kept]
    assert [row[:2] for row in rows] == [[chunk_id, n] for n, chunk_id in enumerate(kept, start=1)]


# -- fates ---------------------------------------------------------------------------------------


def test_a_chunk_below_the_rerankers_depth_was_cut_and_the_ranks_say_where():
    trace = a_trace(depth=20)
    hit = trace.ranking("fused")[22]
    assert fate(flow_model(trace), hit.chunk.chunk_id) == {
        "step": "reranked",
        "place": 3,
        "kind": "cut",
        "reason": "rank 23, cut at 20",
    }


def test_the_contexts_own_reasons_are_kept_word_for_word():
    trace = a_trace(keep=8)
    model = flow_model(trace)
    reasons = {drop.hit.chunk.chunk_id: drop.reason for drop in trace.context.dropped}
    assert {chunk_id: fate(model, chunk_id)["reason"] for chunk_id in reasons} == reasons
    kinds = [fate(model, chunk_id)["kind"] for chunk_id in reasons]
    assert kinds.count("dropped") == 2  # the duplicate, and the one over the budget
    assert kinds.count("cut") == len(reasons) - 2


def test_a_fuser_that_keeps_fewer_names_the_ranks_in_every_list():
    trace = a_trace()
    lists = {name: trace.ranking(name) for name in ("dense", "sparse")}
    short = fuse(lists)[:10]
    steps = [replace(step, output=short) if step.name == "fused" else step for step in trace.steps]
    model = flow_model(Trace(trace.query, tuple(steps[:4])))
    lost = fuse(lists)[10].chunk.chunk_id
    ranks = [
        f"rank {hit.rank} in {name}"
        for name, hits in lists.items()
        for hit in hits
        if hit.chunk.chunk_id == lost
    ]
    assert fate(model, lost)["reason"] == f"{' and '.join(ranks)}, not among the 10 kept"
    assert fate(model, short[0].chunk.chunk_id)["kind"] == "open"


def test_a_reranker_that_picks_from_the_middle_did_not_cut():
    trace = a_trace()
    picked = trace.ranking("fused")[1::2]
    steps = [
        replace(step, output=picked) if step.name == "reranked" else step for step in trace.steps
    ]
    model = flow_model(Trace(trace.query, tuple(steps[:5])))
    first = trace.ranking("fused")[0].chunk.chunk_id
    said = f"rank 1 in fused, not among the {len(picked)} kept"
    assert fate(model, first)["reason"] == said


def test_every_candidate_has_one_fate_and_the_kept_ones_are_in_the_prompt():
    trace = a_trace(50, depth=50)
    model = flow_model(trace)
    kept = {card["id"] for card in model["chunks"] if card["fate"]["kind"] == "kept"}
    assert kept == {hit.chunk.chunk_id for hit in trace.context.kept}
    assert {card["id"] for card in model["chunks"]} == {
        hit.chunk.chunk_id for hit in trace.ranking("fused")
    }


def test_marks_and_verdicts_say_where_the_answer_is():
    trace = a_trace()
    cited = trace.answer.citations[0].chunk_id
    lost = trace.ranking("fused")[25].chunk.chunk_id
    model = flow_model(trace, [cited, lost, "nowhere#1"])
    marks = {card["id"]: card["marks"] for card in model["chunks"]}
    assert marks[cited] == ["evidence", "cited"]
    assert marks[lost] == ["evidence"]
    assert model["verdict"] == [
        f"{cited} is in the prompt as [2], and the answer cites it.",
        f"{lost} was lost at reranked: rank 26, cut at 20.",
        "nowhere#1 was never retrieved: it is in no list.",
    ]
    assert f"{lost} is rank 26 in fused" in model["stages"][2]["says"]
    assert f"{lost} is not here" in model["stages"][3]["says"]


def test_a_trace_that_stops_early_is_drawn_as_far_as_it_went():
    trace = a_trace()
    for length in range(1, len(trace.steps) + 1):
        model = flow_model(Trace(trace.query, trace.steps[:length]))
        ElementTree.fromstring(flow_svg(model))
        assert len(model["columns"]) == min(max(length - 1, 0), 5)


def test_the_model_of_fifty_candidates_is_small_json():
    model = flow_model(a_trace(50, depth=50))
    size = len(json.dumps(model, ensure_ascii=False).encode())
    assert size < 150_000
    numbers = [n for one in model["columns"] for row in one["rows"] for n in row[3][1::2]]
    assert numbers
    assert all(n == float(f"{n:.6g}") for n in numbers)


# -- pictures and tables -------------------------------------------------------------------------


def test_equal_traces_give_equal_pictures_whatever_the_clock_said():
    trace = a_trace()
    later = Trace(trace.query, tuple(replace(s, seconds=9.0, reused=True) for s in trace.steps))
    assert trace == later
    assert flow_svg(flow_model(trace)) == flow_svg(flow_model(later))
    assert repr(Flow(trace)) == repr(Flow(later))


def test_nothing_from_a_document_becomes_markup(tmp_path):
    trace = a_trace(hostile=HOSTILE)
    page = export_html(trace, tmp_path / "page.html").read_text(encoding="utf-8")
    texts = [flow_svg(flow_model(trace)), trace_table(trace), ranking_table(trace.ranking("dense"))]
    for text in [*texts, page]:
        assert "window.hit" in text  # it is shown
        assert "<img" not in text
        assert "<script>window" not in text
    assert page.count("</script>") == page.count("<script") == 3


def test_the_svg_is_whole_xml_even_with_characters_that_xml_forbids():
    svg = flow_svg(flow_model(a_trace(hostile="\x00\x0b\ud800 & <b>")))
    root = ElementTree.fromstring(svg)
    assert root.find("{http://www.w3.org/2000/svg}title").text.startswith("How long")


def test_the_tables_hold_every_rank_and_fate():
    trace = a_trace()
    table = ElementTree.fromstring(trace_table(trace))
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.find("tbody")}
    for place, name in enumerate(("dense", "sparse", "fused", "reranked")):
        for hit in trace.ranking(name):
            assert rows[hit.chunk.chunk_id][place] == str(hit.rank)
    assert rows[trace.ranking("fused")[22].chunk.chunk_id][-1] == (
        "lost at reranked: rank 23, cut at 20"
    )
    ranking = ElementTree.fromstring(ranking_table(trace.ranking("fused")))
    assert len(ranking.find("tbody")) == len(trace.ranking("fused"))


def test_a_chart_has_a_bar_for_each_part_and_no_button_to_a_cloud(monkeypatch):
    chunk = a_trace().ranking("dense")[0].chunk
    parts = (
        Part("a name " * 12, 2.0),
        Part("<b>x</b>", -0.5),
        Part("same", 1.0),
        Part("same", 1.0),
    )
    figure = parts_figure(Hit(chunk, 3.5, 1, parts))
    assert list(figure.data[0].x) == [2.0, -0.5, 1.0, 1.0]
    labels = figure.layout.yaxis.ticktext
    assert "<br>" in labels[0]
    assert labels[1] == "&lt;b&gt;x&lt;/b&gt;"
    assert len(labels) == 4
    assert PLOTLY_CONFIG["showSendToCloud"] is False
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    bundle = figure._repr_mimebundle_()
    assert bundle["application/vnd.plotly.v1+json"]["config"]["showSendToCloud"] is False


WASHES = {
    "ink": ("ground", "pill"),
    "soft": ("ground", "pill"),
    "plain": ("ground", "plain-wash"),
    "evidence": ("ground", "evidence-wash"),
    "cited": ("ground", "cited-wash"),
}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_colour_stands_out_from_what_lies_behind_it(theme):
    """axe does not look into SVG, so WCAG's contrast formula is worked out here."""
    css = STYLE.read_text(encoding="utf-8")
    pairs = re.findall(r"--([a-z-]+): (?:var\(--jp[^,]*, )?light-dark\((#\w+), (#\w+)\)", css)
    colours = {name: luminance(both[theme]) for name, *both in pairs}
    for text, behind in WASHES.items():
        for wash in behind:
            low, high = sorted((colours[text], colours[wash]))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {wash}"


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# -- the widget ----------------------------------------------------------------------------------


def test_a_flow_starts_at_the_last_stage_with_nothing_chosen():
    flow = Flow(a_trace())
    assert flow.step == len(flow.data["stages"]) - 1 == 5
    assert (flow.selected, flow.knobs, flow.settings, flow.status) == ("", [], {}, "")
    synced = set(flow.traits(sync=True))
    assert {"data", "step", "selected", "query", "knobs", "settings", "status", "busy"} <= synced


def test_viewers_that_run_nothing_get_the_svg_and_stable_text():
    trace = a_trace()
    data, _ = Flow(trace)._repr_mimebundle_()
    assert data["image/svg+xml"] == flow_svg(flow_model(trace))
    assert data["text/plain"] == repr(Flow(trace))
    assert data["text/plain"].startswith("Flow('How long do enterprise")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_raglab_itself_does_not_import_the_views():
    code = "import sys, raglab; print([m for m in sys.modules if 'views' in m or m == 'plotly'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- a live panel, over a pipeline as small as can be --------------------------------------------


@dataclass(frozen=True)
class FakeFuser:
    k: int = 60


@dataclass(frozen=True)
class FakeAssembler:
    keep: int = 8


@dataclass(frozen=True)
class FakePipeline:
    fuser: FakeFuser = FakeFuser()
    assembler: FakeAssembler = FakeAssembler()
    k: int = 20

    def run(self, query: str) -> Trace:
        if "mend" in query:
            raise RagLabError("Build the index first: <b>raglab index</b>")
        if "break" in query:
            raise ZeroDivisionError("division by zero")
        trace = a_trace(self.k, keep=self.assembler.keep, seed=len(query) + self.fuser.k)
        return replace(trace, query=replace(trace.query, text=query))


@dataclass(frozen=True)
class NoFuser:
    k: int = 3

    def run(self, query: str) -> Trace:
        return a_trace(self.k)


def test_changes_name_what_entered_and_left_the_prompt():
    trace = a_trace(keep=8)
    fewer = list(trace.steps)
    fewer[5] = replace(fewer[5], output=assemble(trace.ranking("reranked"), 4))
    old, new = flow_model(trace), flow_model(Trace(trace.query, tuple(fewer)))
    left = {h.chunk.chunk_id for h in trace.context.kept} - {
        row[0] for row in column(new, "context")["rows"]
    }
    assert changes(old, new) == (
        f"Now context 2 (was 6); out of the prompt: {', '.join(sorted(left))}."
    )
    assert changes(old, old) == "The same chunks are in the same places."
