"""Panels and their plots: what a knob changes, and that no text becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from raglab.types import Part, RagLabError
from raglab.views.axes import Axis
from raglab.views.bars import bars, heat
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, Point, curves, scatter, side, slopes

HOSTILE = "<script>alert(1)</script> \" ' & \u202e\x00 x"


def draw(k: int = 10, weight: float = 0.5, way: str = "rrf", query: str = "refund") -> Drawing:
    if way == "broken":
        raise RagLabError("this way is closed: take another")
    html = Markup("<p>{} {} {} {}</p>").format(k, weight, way, query)
    return Drawing(html, f"k is {k}, weight {weight}, {way}, {query}.")


def panel() -> Panel:
    knobs = [
        Knob("k", "k", 10, low=1, high=200),
        Knob("weight", "Weight", 0.5, low=0.0, high=1.0, step=0.05),
        Knob("way", "Way", "rrf", choices=("rrf", "sum", "broken")),
        Knob("query", "Query", "refund"),
    ]
    return Panel("Fusion", draw, knobs)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("k", 3, "k is 3"), ("weight", 1, "weight 1.0"), ("way", "sum", "sum"), ("query", "x", "x.")],
)
def test_each_knob_draws_again(name: str, value: object, words: str) -> None:
    made = panel()
    before = made.html
    made.settings = {**made.settings, name: value}
    assert words in made.words
    assert made.html != before
    assert not made.status


def test_turn_leaves_the_other_knobs() -> None:
    assert panel().turn(k=3).turn(way="sum").words == "k is 3, weight 0.5, sum, refund."


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k": 0}, "k is 0: choose a number from 1 to 200"),
        ({"k": "many"}, "choose a number from 1 to 200"),
        ({"weight": float("nan")}, "from 0.0 to 1.0"),
        ({"way": "other"}, "choose one of rrf, sum"),
        ({"knob": 1}, "no knob 'knob'; there are k, weight, way, query"),
        ({"way": "broken"}, "take another"),
    ],
)
def test_what_does_not_fit_is_told_and_the_picture_stays(
    settings: dict[str, object], said: str
) -> None:
    made = panel()
    before = (made.html, made.words)
    made.settings = {**made.settings, **settings}
    assert said in made.status
    assert (made.html, made.words) == before
    assert not made.busy
    made.settings = {"k": 10}
    assert not made.status


def test_a_knob_must_be_whole() -> None:
    with pytest.raises(RagLabError, match="give it low= and high="):
        Knob("k", "k", 10)
    with pytest.raises(RagLabError, match="choose one of a, b"):
        Knob("way", "Way", "c", choices=("a", "b"))


def test_the_saved_notebook_says_and_shows_it() -> None:
    data, _ = panel()._repr_mimebundle_()
    assert data["text/plain"] == "Fusion: k is 10, weight 0.5, rrf, refund."
    assert "<p>10 0.5 rrf refund</p>" in data["text/html"]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [name for name, _ in attrs]


PLOTS = {
    "bars": lambda text: bars([(text, [Part(text, 2.0), Part("b", -1.0)])], caption=text),
    "heat": lambda text: heat([text], [text], [[0.5]], pointed=[0], caption=text),
    "curves": lambda text: curves({text: [(0, 0), (1, 1)]}, text, text, marks=[Mark(1, 1, text)]),
    "scatter": lambda text: scatter([Point(text, 0, 0, text, text, True)], note=text),
    "slopes": lambda text: slopes([text, "b"], ["b", text], [text]),
}


@pytest.mark.parametrize("name", PLOTS)
def test_hostile_text_stays_text(name: str) -> None:
    tags = Tags()
    tags.feed(str(side(PLOTS[name](HOSTILE), PLOTS[name]("plain"))))
    assert "script" not in tags.seen
    assert not [name for name in tags.attributes if name.startswith("on")]


@pytest.mark.parametrize("name", PLOTS)
def test_equal_data_gives_equal_pictures_that_parse(name: str) -> None:
    first, again = (str(PLOTS[name]("a & b")) for _ in range(2))
    assert first == again
    ET.fromstring(f"<div>{first}</div>")


def test_plots_of_nothing_are_nothing() -> None:
    assert curves({}, "x", "y") == scatter([]) == Markup("")
    for plot in (bars([]), heat([], [], []), slopes([], [])):
        ET.fromstring(f"<div>{plot}</div>")


def test_a_bar_is_as_long_as_its_part() -> None:
    """3 and 1 of a row of 4, and a taking 1 before them: the room is 4 + 1."""
    drawn = str(bars([("row", [Part("a", 3.0), Part("b", 1.0), Part("c", -1.0)])]))
    assert [f"width:{share}%" in drawn for share in ("60.0", "20.0")] == [True, True]
    assert drawn.count("width:20.0%") == 2


def test_slopes_say_who_left_and_who_came() -> None:
    drawn = str(slopes(["a", "b"], ["b", "c"]))
    assert drawn.count("(gone)") == drawn.count("(new)") == 1
    assert 'aria-label="1 of 2 change rank"' in drawn


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_an_axis_keeps_its_values_inside(low: float, span: float) -> None:
    axis = Axis(low, low + span, 10, 90)
    for value in (low, low + span / 2, low + span):
        assert 10 - 1e-6 <= axis.at(value) <= 90 + 1e-6
    assert all(axis.low - span / 1e3 <= tick <= axis.high + span / 1e3 for tick in axis.ticks())
    assert 1 <= len(axis.ticks()) <= 9


def test_a_log_axis_ticks_in_tens() -> None:
    assert Axis(1, 1000, 0, 1, log=True).ticks() == [1, 10, 100, 1000]
    assert Axis(2, 5, 0, 1, log=True).ticks() == [2, 5]
