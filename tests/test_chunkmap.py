"""The chunk map: boundaries worked out by hand, and what the widget does when a knob turns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import plotly.io as pio
import pytest

from raglab.evaluate.evidence import supporting
from raglab.ingest.chunk import FixedSize, ParentChild, Sentences, WholeDocument
from raglab.ingest.recursive import Recursive
from raglab.types import Chunk, Document, Evidence, Question, RagLabError
from raglab.views import ChunkMap, chunk_model, lengths_figure
from raglab.views.chunkhtml import HTML_ROOM
from raglab.views.chunkmap import turned
from raglab.views.chunkmodel import ROOM, parts_of

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
TEXT = "one two three four five six"
#       0   4   8     14   19   24


def spans(text):
    """A word is a piece."""
    return [match.span() for match in re.finditer(r"\w+", text)]


def chunk(number, start, end, text=TEXT, **more):
    return Chunk(f"d#{number}", "d", text[start:end], start, end, **more)


def model(*chunks, **more):
    return chunk_model(Document("d", TEXT, "Title"), chunks, **{"spans": spans, **more})


def cut(found):
    """Each segment's text, with the chunks that cover it."""
    return [(TEXT[one["start"] : one["end"]], one["chunks"]) for one in found["segments"]]


# -- segments ------------------------------------------------------------------------------------


def test_segments_lie_between_boundaries_and_name_the_chunks_that_cover_them():
    found = model(chunk(0, 0, 13), chunk(1, 8, 18), chunk(2, 19, 27))
    assert cut(found) == [
        ("one two ", [0]),
        ("three", [0, 1]),
        (" four", [1]),
        (" ", []),
        ("five six", [2]),
    ]
    assert found["chunks"][0]["shared"] == {"pieces": 1, "characters": 5}
    assert found["chunks"][1]["shared"] is None


def test_segments_tile_the_text():
    found = model(chunk(0, 4, 13), chunk(1, 8, 18), quotes=["two three", "x"], limit=1)
    edges = [(one["start"], one["end"]) for one in found["segments"]]
    assert [edges[0][0], *(end for _, end in edges)] == [start for start, _ in edges] + [27]
    assert edges[0][0] == 0


def test_a_chunk_has_its_pieces_its_heading_and_its_offsets():
    found = model(chunk(0, 4, 18, heading="A > B"))["chunks"][0]
    assert (found["id"], found["start"], found["end"]) == ("d#0", 4, 18)
    assert (found["pieces"], found["heading"]) == (3, "A > B")


def test_figures_are_counted_over_all_chunks():
    found = model(chunk(0, 0, 13), chunk(1, 14, 27), quotes=["two", "three four", "none"], limit=2)
    assert found["figures"] == {
        "chunks": 2,
        "mean": 3.0,
        "max": 3,
        "quotes": 2,
        "held": 1,
        "past": 2,
    }
    assert found["says"] == [
        "2 chunks",
        "word pieces: mean 3, max 3",
        "quotes held whole: 1 of 2",
        "2 pieces past the encoder's 2",
    ]


def test_with_no_tokenizer_nothing_is_said_of_pieces():
    found = model(chunk(0, 0, 13), chunk(1, 8, 27), spans=None, limit=2)
    assert found["says"] == ["2 chunks"]
    assert found["chunks"][0]["shared"] == {"pieces": None, "characters": 5}


def test_no_chunks_and_no_text_are_no_error():
    assert cut(model()) == [(TEXT, [])]
    assert chunk_model(Document("d", ""), ())["segments"] == []


def test_chunks_of_other_documents_are_left_out():
    other = Chunk("e#0", "e", "one", 0, 3)
    assert [one["id"] for one in model(other, chunk(0, 0, 3))["chunks"]] == ["d#0"]


# -- the encoder's limit -------------------------------------------------------------------------


def test_what_lies_past_the_limit_is_marked_from_its_first_piece():
    found = model(chunk(0, 0, 18), limit=3)
    assert (found["chunks"][0]["cut"], found["chunks"][0]["past"]) == (14, 1)
    assert [(one["start"], one["past"]) for one in found["segments"]] == [
        (0, []),
        (14, [0]),
        (18, []),
    ]


def test_the_context_before_a_chunk_counts_as_the_encoder_counts_it():
    told = model(chunk(0, 0, 18, context="a b"), limit=3)["chunks"][0]
    assert (told["pieces"], told["cut"], told["past"]) == (6, 4, 3)
    told = model(chunk(0, 0, 18, context="a b c d"), limit=3)["chunks"][0]
    assert told["cut"] == 0  # the context alone fills the limit


def test_text_that_a_neighbour_reads_is_past_the_limit_of_one_chunk_only():
    found = model(chunk(0, 0, 18), chunk(1, 14, 27), limit=3)
    shared = next(one for one in found["segments"] if one["start"] == 14)
    assert (shared["chunks"], shared["past"]) == ([0, 1], [0])


# -- quotes --------------------------------------------------------------------------------------


def test_a_quote_is_held_or_severed_or_not_there():
    held, severed, absent = model(
        chunk(0, 0, 13), chunk(1, 14, 27), quotes=["two three", "three four", "seven"]
    )["quotes"]
    assert (held["start"], held["end"], held["held"]) == (4, 13, ["d#0"])
    assert held["says"] == "held whole by d#0"
    assert (severed["start"], severed["held"], severed["cuts"]) == (8, [], [13])
    assert severed["says"] == "severed: no chunk holds it whole"
    assert (absent["start"], absent["says"]) == (None, "not in this document")


def test_an_overlap_can_hold_what_a_boundary_would_sever():
    found = model(chunk(0, 0, 13), chunk(1, 8, 18), quotes=["three four"])
    assert found["quotes"][0]["held"] == ["d#1"]


def test_of_several_places_the_one_that_is_held_is_shown():
    text = "a b c a b"
    pair = [chunk(0, 0, 1, text), chunk(1, 2, 9, text)]
    found = chunk_model(Document("d", text), pair, quotes=["a b"])
    assert (found["quotes"][0]["start"], found["quotes"][0]["held"]) == (6, ["d#1"])


def test_a_quote_that_no_chunk_touches_is_cut_in_front():
    found = model(chunk(0, 0, 3), quotes=["five"])
    assert found["quotes"][0]["cuts"] == [19]


def test_a_quote_held_past_the_limit_says_that_it_is_not_read():
    found = model(chunk(0, 0, 27), quotes=["five six", "one two"], limit=4)
    assert [quote["says"] for quote in found["quotes"]] == [
        "held whole by d#0, but past what the encoder reads",
        "held whole by d#0",
    ]


def test_a_section_holds_for_its_chunks_and_is_drawn():
    children = [
        chunk(0, 0, 7, section=TEXT[:18]),
        chunk(1, 8, 18, section=TEXT[:18]),
        chunk(2, 19, 27, section=TEXT[19:]),
    ]
    found = model(*children, quotes=["two three", "four five"])
    assert found["sections"] == [
        {"number": 1, "start": 0, "end": 18},
        {"number": 2, "start": 19, "end": 27},
    ]
    assert [card["section"] for card in found["chunks"]] == [1, 1, 2]
    assert found["quotes"][0]["says"] == "held whole by the section of d#0, d#1"
    assert found["quotes"][1]["held"] == []


def test_what_is_held_agrees_with_how_questions_are_judged(encoder):
    text = "# A\n\n" + "The refund is due in 30 days. Ask in writing. " * 12
    document = Document("d", text)
    quote = "due in 30 days. Ask in writing."
    question = Question("q", "?", "k", "a", (Evidence("d", quote),), True)
    strategies = (
        FixedSize(encoder.spans, 9, 2),
        Recursive(encoder.spans, 40, 10),
        ParentChild(Recursive(encoder.spans, 60, 0), Sentences(encoder.spans, 1, 30)),
    )
    for strategy in strategies:
        chunks = strategy.chunk(document)
        found = chunk_model(document, chunks, quotes=[quote], spans=encoder.spans)
        assert sorted(found["quotes"][0]["held"]) == sorted(supporting(question, chunks))


# -- long documents ------------------------------------------------------------------------------


def test_parts_cover_the_text_and_none_is_too_long():
    text = ("A line of text.\n" * 7000)[:100_000]
    for at in (0, 31_234, 99_999):
        parts = parts_of(text, at)
        assert "".join(text[start:end] for start, end in parts) == text
        assert max(end - start for start, end in parts) <= ROOM
        start, end = next(part for part in parts if part[0] <= at < part[1])
        assert at == 0 or at - start >= 1000 or end == len(text)


def test_a_long_document_is_shown_in_parts_around_the_first_quote():
    text = "".join(f"Sentence number {n} is here.\n" for n in range(4000))
    quote = "number 3000 is here"
    made = ChunkMap(
        Document("d", text), {"fixed": FixedSize(spans, 50, 10)}, quotes=[quote], spans=spans
    )
    assert len(text) > 100_000
    assert quote in made.data["text"]
    assert len(made.data["text"]) <= ROOM
    assert len(json.dumps(made.data)) < 200_000
    assert made.data["maps"][0]["figures"]["chunks"] == 500
    part = made.data["part"]
    made.settings = {"part": part + 1}
    assert made.data["part"] == part + 1
    low, high = made.data["window"]
    assert made.data["text"] == text[low:high] != ""
    assert made.status == (
        f"Part {part + 2} of {made.data['parts']}: characters {low:,} to {high:,}."
    )
    first = made.data["maps"][0]["segments"][0]
    assert first["start"] == low


# -- the widget ----------------------------------------------------------------------------------

DOCUMENT = Document("refunds", "Refunds take 30 days. Ask in writing. Keep the invoice.", "Refunds")
STRATEGIES = {
    "fixed": FixedSize(spans, 6, 2),
    "sentences": Sentences(spans, 1, 8),
    "whole": WholeDocument(),
    "recursive": Recursive(spans, 8, 0),
}


def a_map(document=DOCUMENT, **more):
    return ChunkMap(document, STRATEGIES, quotes=["30 days. Ask"], spans=spans, limit=8, **more)


def test_a_map_starts_with_the_first_three_strategies_as_they_were_given():
    made = a_map()
    assert made.shown == ["fixed", "sentences", "whole"] == [m["name"] for m in made.data["maps"]]
    assert made.data["strategies"] == list(STRATEGIES)
    assert (made.settings, made.status, made.busy) == ({}, "", False)
    assert [(knob["name"], knob["value"]) for knob in made.knobs] == [("size", 6), ("overlap", 2)]
    assert made.knobs[0]["help"] == "As given, fixed: 6; sentences: 8; recursive: 8."
    synced = set(made.traits(sync=True))
    assert {"data", "knobs", "settings", "shown", "status", "busy"} <= synced


def test_turning_a_knob_cuts_again_where_there_is_such_a_knob():
    made = a_map()
    before = made.data
    made.settings = {"size": 4}
    # 10 words: 6 at a time, the next 4 further on; then 4 at a time, the next 2 further on
    assert [one["figures"]["chunks"] for one in before["maps"]] == [2, 3, 1]
    assert [one["figures"]["chunks"] for one in made.data["maps"]] == [4, 3, 1]
    assert made.status == "fixed: 4 chunks (was 2)."
    made.settings = {"size": 4, "overlap": 0}
    assert made.data["maps"][0]["figures"]["chunks"] == 3
    made.settings = {}
    assert made.data == before


def test_an_overlap_stays_below_the_size():
    assert turned(FixedSize(spans, 200, 40), {"size": 30, "overlap": 90}).overlap == 29
    assert turned(Sentences(spans, 2, 50), {"size": 30, "overlap": 9}) == Sentences(spans, 2, 30)
    assert turned(WholeDocument(), {"size": 30}) == WholeDocument()
    given = FixedSize(spans, 200, 40)
    assert turned(given, {}) is given


def test_choosing_strategies_draws_them():
    made = a_map()
    made.shown = ["recursive"]
    assert [one["name"] for one in made.data["maps"]] == ["recursive"]
    assert made.status == "Alone: recursive."
    made.shown = ["whole", "recursive"]
    assert made.status == "Side by side: whole, recursive."


@dataclass(frozen=True)
class Breaks:
    size: int = 5

    def chunk(self, document):
        if self.size < 5:
            raise ZeroDivisionError(HOSTILE)
        return WholeDocument().chunk(document)


@pytest.mark.parametrize(
    ("trait", "value", "said"),
    [
        ("settings", {"size": 3}, f"This did not run: ZeroDivisionError: {HOSTILE}."),
        ("settings", {"size": 0}, "This did not run: "),
        ("settings", {"size": "many"}, "This did not run: ValueError"),
        ("settings", {"nothing": 1}, "This did not run: there is no setting 'nothing'"),
        ("shown", ["nobody"], "This did not run: there is no strategy 'nobody'; there are breaks"),
        ("shown", [], "This did not run: choose from 1 to 3 strategies, not 0."),
    ],
)
def test_what_went_wrong_is_told_and_the_picture_stays(trait, value, said):
    made = ChunkMap(DOCUMENT, {"breaks": Breaks(), "fixed": FixedSize(spans, 6, 2)}, spans=spans)
    before = made.data
    setattr(made, trait, value)
    assert made.status.startswith(said)
    assert made.data == before
    assert made.busy is False
    made.settings, made.shown = {"size": 7}, ["fixed"]
    assert made.data["maps"][0]["figures"]["chunks"] == 2


def test_a_map_of_no_strategy_says_what_to_do():
    with pytest.raises(RagLabError, match="name at least one strategy"):
        ChunkMap(DOCUMENT, {})


def test_characters_that_cannot_be_sent_keep_their_place():
    document = Document("d", "a\ud800b 🙂 c", "t")
    made = ChunkMap(document, {"fixed": FixedSize(spans, 1)}, spans=spans)
    assert made.data["text"] == "a?b 🙂 c"
    json.dumps(made.data, ensure_ascii=False).encode()
    starts = [card["start"] for card in made.data["maps"][0]["chunks"]]
    assert starts == [0, 2, 6]


# -- where nothing runs --------------------------------------------------------------------------


def test_viewers_that_run_nothing_get_html_and_stable_text():
    data, _ = a_map()._repr_mimebundle_()
    again, _ = a_map()._repr_mimebundle_()
    assert (
        data["text/plain"]
        == "ChunkMap('refunds': fixed 2 chunks, sentences 3 chunks, whole 1 chunk)"
    )
    assert data["text/html"] == again["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    html = data["text/html"]
    assert "<script" not in html
    assert "<b>Refunds</b> cut by <b>fixed</b>: 2 chunks; " in html
    assert re.findall(r"\[\d[^]]*\]", html) == ["[0]", "[1, 2 shared]"]
    assert "held whole by refunds#0" in html


def test_html_holds_the_whole_text_of_a_short_document_and_part_of_a_long_one():
    made = ChunkMap(DOCUMENT, {"fixed": FixedSize(spans, 4)}, quotes=["days. Ask"], spans=spans)
    html = made._repr_mimebundle_()[0]["text/html"]
    body = re.sub(r"<b style[^>]*>[^<]*</b>|<[^>]+>|✂", "", html)
    assert DOCUMENT.text in body
    assert "✂" in html
    text = "word " * 3000
    made = ChunkMap(Document("d", text), {"fixed": FixedSize(spans, 100)}, spans=spans)
    html = made._repr_mimebundle_()[0]["text/html"]
    assert f"Shown are characters 0 to {HTML_ROOM:,} of 15,000." in html
    assert len(html) < 3 * HTML_ROOM


def test_nothing_from_a_document_becomes_markup():
    text = f"{HOSTILE} one two three {HOSTILE}"
    document = Document(f"d{HOSTILE}", text, f"T{HOSTILE}")
    made = ChunkMap(document, {f"s{HOSTILE}": FixedSize(spans, 6, 2)}, quotes=[HOSTILE, text])
    html = made._repr_mimebundle_()[0]["text/html"]
    page = made.page()
    for markup in (html, page):
        assert "window.hit" in re.sub(r"<b style[^>]*>[^<]*</b>|<[^>]+>", "", markup)
        assert "<img" not in markup
        assert "<script>window" not in markup
    assert page.count("</script>") == page.count("<script") == 3


# -- the chart -----------------------------------------------------------------------------------


def test_the_chart_has_a_box_for_each_strategy_and_the_limit(monkeypatch):
    figure = lengths_figure({"fixed": [200, 200, 31], "<b>whole</b>": [812], "none": []}, 254)
    assert [list(box.x) for box in figure.data] == [[200, 200, 31], [812], []]
    assert list(figure.layout.yaxis.ticktext) == [
        "fixed<br>3 chunks",
        "&lt;b&gt;whole&lt;/b&gt;<br>1 chunk, 1 past the limit",
        "none<br>0 chunks",
    ]
    assert list(figure.layout.xaxis.range) == [0, 861]
    line = figure.layout.shapes[0]
    assert (line.x0, line.line.dash) == (254, "dash")
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    assert (
        figure.to_json()
        == lengths_figure(
            {"fixed": (200, 200, 31), "<b>whole</b>": (812,), "none": ()}, 254
        ).to_json()
    )


def test_the_chart_of_no_strategy_and_no_limit_is_empty():
    figure = lengths_figure({})
    assert (len(figure.data), len(figure.layout.shapes)) == (0, 0)
