"""The Explorer's shell in a real browser: what is asked, turned, undone, compared and stepped.

The page is the exported one with a model that no kernel stands behind.  What the widget would send
to Python is written down instead, and what Python would answer is set by hand.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from browser import Pages, open_browser
from traces import a_trace

from raglab.views.explorerpage import SCRIPT, STYLE
from raglab.views.flow import EXPORT_LINE, widget_page
from raglab.views.model import flow_model

DESK = {"width": 1280, "height": 720}
QUERY = a_trace().query.text
OTHER = "Which functions does the refund policy name?"
KNOBS: list[dict[str, Any]] = [
    {"name": "size", "stage": "ingest", "label": "Chunk size", "value": "200",
     "choices": ["100", "200", "400"]},
    {"name": "rewriter", "stage": "rewrite", "label": "Rewriter", "value": "as typed",
     "choices": ["as typed", "HyDE"]},
    {"name": "k", "stage": "retrieve", "label": "Hits", "value": 20, "min": 1, "max": 100},
    {"name": "rrf_k", "stage": "fuse", "label": "RRF's k", "value": 60, "min": 1, "max": 200},
    {"name": "reranker", "stage": "rerank", "label": "Reranker", "value": "learned",
     "choices": ["none", "learned"]},
    {"name": "trade", "stage": "rerank", "label": "MMR's trade", "value": 0.5, "min": 0.05,
     "max": 1, "step": 0.05},
    {"name": "keep", "stage": "assemble", "label": "Kept", "value": 8, "min": 1, "max": 20},
    {"name": "threshold", "stage": "generate", "label": "Support", "value": 0.3, "min": 0,
     "max": 1, "step": 0.025},
]  # fmt: skip
for knob in KNOBS:
    knob["help"] = f"What {knob['label']} does."
OPENED = {knob["name"]: knob["value"] for knob in KNOBS}
KINDS = [
    {"kind": "numeric", "questions": [{"id": "n1", "text": QUERY}]},
    {"kind": "multi-hop", "questions": [{"id": "m1", "text": OTHER}]},
]
SURPRISES = [
    {"name": "dense", "label": "a query that dense search fails"},
    {"name": "lost", "label": "an answer that is lost on the way"},
]

# Writes down what the widget puts and sends; what it put is kept, as a kernel would keep it.
WATCH = """() => {
  const model = document.getElementById("raglab-flow").model;
  window.puts = [];
  window.sent = [];
  const set = model.set;
  model.set = (name, value) => { window.puts.push([name, value]); set(name, value); };
  model.send = (content) => window.sent.push(content);
  window.python = set;
}"""


def a_model(**changes: Any) -> dict[str, Any]:
    trace = a_trace(**changes)
    model = flow_model(trace, [trace.context.kept[1].chunk.chunk_id])
    for card in model["chunks"]:
        del card["text"]
    return model


def a_state(**changes: Any) -> dict[str, Any]:
    return {
        "data": a_model(), "step": 5, "selected": "", "query": QUERY, "status": "", "busy": False,
        "title": "Explorer", "knobs": KNOBS, "settings": OPENED, "idle": [],
        "presets": {"naive": {**OPENED, "reranker": "none"}, "short": {**OPENED, "keep": 4}},
        "kinds": KINDS, "surprises": SURPRISES, "undoable": 0, "comparing": False, "other": {},
        "other_settings": {**OPENED, "keep": 4}, "difference": "", "predicting": False,
        "challenges": {}, "guess": {}, "reveal": {}, "score": "", "knob_question": {},
        "knob_guess": "", "whynot": {}, "progress": 0.0, "offline": False,
        **changes,
    }  # fmt: skip


def compared(**changes: Any) -> dict[str, Any]:
    difference = "4 chunks reach both prompts; only A sends api-auth#7."
    return a_state(comparing=True, other=a_model(keep=4), difference=difference, **changes)


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    """Opens an Explorer with these traits; in the end no page may have failed or gone online."""
    pages = Pages(chromium, tmp_path)

    def open_page(state, *, viewport=DESK, **settings):
        script = SCRIPT.replace(EXPORT_LINE, f"globalThis.rendered = render;\n{EXPORT_LINE}")
        text = widget_page("Explorer", state, script, STYLE, "")
        page = pages.open(text, wait=".rl-steps button", viewport=viewport, **settings)
        page.evaluate(WATCH)
        return page

    yield open_page
    pages.close()


def until(page, expression, seconds=10):
    """Waits for a JavaScript expression; the page's policy forbids Playwright's own way."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def python(page, **traits):
    """Sets traits as a kernel would, in one message."""
    page.evaluate(
        "(traits) => Object.entries(traits).forEach(([name, value]) => python(name, value))", traits
    )


def puts(page, name):
    """Every value that the widget gave to a trait."""
    return [value for one, value in page.evaluate("puts") if one == name]


def said(page):
    return page.get_by_role("status").inner_text()


def caption(page):
    return page.locator(".rl-says").inner_text()


def pressed(page, group):
    found = page.get_by_role("group", name=group).locator("[aria-pressed=true]")
    return found.all_inner_texts()


def at_rest(page):
    until(page, "document.getAnimations().every((one) => one.playState !== 'running')")


# -- asking --------------------------------------------------------------------------------------


def test_a_typed_query_is_asked_on_enter(show):
    page = show(a_state())
    page.get_by_role("textbox", name="Query").fill("What is the notice period?")
    page.keyboard.press("Enter")
    assert puts(page, "query") == ["What is the notice period?"]


def test_golden_questions_are_grouped_by_kind_and_choosing_one_asks_it(show):
    page = show(a_state())
    golden = page.get_by_role("combobox", name="Golden questions")
    kinds = golden.locator("optgroup").evaluate_all("(all) => all.map((one) => one.label)")
    assert kinds == ["numeric", "multi-hop"]
    assert golden.input_value() == QUERY
    golden.select_option(OTHER)
    until(page, "puts.length > 0")
    assert puts(page, "query") == [OTHER]
    assert page.get_by_role("textbox", name="Query").input_value() == OTHER
    python(page, query="words of the reader's own")
    assert golden.input_value() == ""


def test_of_golden_questions_run_through_by_keys_only_the_last_is_asked(show):
    page = show(a_state())
    golden = page.get_by_role("combobox", name="Golden questions")
    for text in (OTHER, QUERY, OTHER):
        golden.select_option(text)
    page.wait_for_timeout(600)
    assert puts(page, "query") == [OTHER]


def test_a_surprise_is_asked_for_and_then_another_one(show):
    page = show(a_state())
    page.get_by_text("Surprise me", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    asked = {"do": "surprise", "kind": "dense"}
    assert page.evaluate("sent") == [asked]
    assert said(page) == "Searching: a query that dense search fails."
    assert not page.get_by_role("button", name=SURPRISES[1]["label"]).is_visible()
    press(page, "Another: a query that dense search fails")
    assert page.evaluate("sent") == [asked, asked]
    python(page, busy=True)
    press(page, "Another: a query that dense search fails")
    assert page.evaluate("sent.length") == 2  # one search at a time
    assert said(page).startswith("Still at work")


def test_escape_closes_the_menu_and_goes_back_to_where_it_was_opened(show):
    page = show(a_state(selected=a_model()["chunks"][0]["id"]))
    page.get_by_text("Surprise me", exact=True).click()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Surprise me"
    assert not page.get_by_role("button", name=SURPRISES[0]["label"]).is_visible()
    assert puts(page, "selected") == []  # the chosen chunk stays


# -- knobs ---------------------------------------------------------------------------------------


def knob(page, name):
    return page.locator(f"[data-knob={name}]")


def open_knobs(page):
    press(page, "Knobs")
    page.get_by_role("slider", name="RRF's k").wait_for()


def test_knobs_are_folded_by_stage_and_a_fold_says_what_was_turned(show):
    page = show(a_state(settings={**OPENED, "rrf_k": 10}))
    folds = page.locator(".rl-group summary strong").all_inner_texts()
    assert folds == ["Ingest", "Query", "Retrieve", "Fuse", "Rerank", "Assemble", "Answer"]
    fuse = page.locator(".rl-group", has=knob(page, "rrf_k"))
    assert fuse.locator("summary").inner_text().split("\n")[-1] == "RRF's k 10, was 60"
    assert not page.get_by_role("slider", name="RRF's k").is_visible()
    fuse.locator("summary").press("Enter")
    assert page.get_by_role("slider", name="RRF's k").input_value() == "10"
    assert "1 turned" in fuse.locator("summary").inner_text()
    assert page.get_by_role("slider").count() == 1
    open_knobs(page)
    assert (
        page.get_by_role("button", name="Knobs", exact=True).get_attribute("aria-expanded")
        == "true"
    )
    assert page.get_by_role("slider").count() == 5


def test_of_a_burst_of_turns_the_first_and_the_last_are_sent(show):
    page = show(a_state())
    open_knobs(page)
    page.get_by_role("slider", name="RRF's k").evaluate("""(slider) => {
      for (const value of [61, 62, 63]) {
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
      }
    }""")
    until(page, "puts.length > 1")
    page.wait_for_timeout(150)
    assert puts(page, "settings") == [{**OPENED, "rrf_k": 61}, {**OPENED, "rrf_k": 63}]
    assert knob(page, "rrf_k").locator("output").inner_text() == "63"


def test_while_python_is_busy_turns_wait_and_go_together(show):
    page = show(a_state(busy=True))
    open_knobs(page)
    slider = page.get_by_role("slider", name="RRF's k")
    for value in (30, 20, 10):
        slider.fill(str(value))
        page.wait_for_timeout(90)
    page.get_by_role("combobox", name="Reranker").select_option("none")
    page.wait_for_timeout(120)
    assert puts(page, "settings") == []
    python(page, settings=OPENED)  # an older answer does not take the slider out of the hand
    assert slider.input_value() == "10"
    python(page, busy=False)
    assert puts(page, "settings") == [{**OPENED, "rrf_k": 10, "reranker": "none"}]


def test_a_knob_that_was_turned_is_marked_and_can_be_reset(show):
    page = show(a_state(settings={**OPENED, "rrf_k": 10}))
    open_knobs(page)
    assert page.locator(".rl-turned").evaluate_all("(all) => all.map((n) => n.dataset.knob)") == [
        "rrf_k"
    ]
    assert page.get_by_role("button", name="Reset").count() == 1
    press(page, "Reset RRF's k to 60")
    until(page, "puts.length > 0")
    assert puts(page, "settings") == [OPENED]
    assert page.locator(".rl-turned").count() == 0
    assert (
        page.evaluate("document.activeElement.type") == "range"
    )  # the button is gone, focus is not


def test_an_idle_knob_is_disabled_and_says_why(show):
    page = show(a_state(idle=["trade"]))
    open_knobs(page)
    trade = page.get_by_role("slider", name="MMR's trade")
    assert trade.is_disabled()
    words = "the chosen stage has no such knob"
    assert words in knob(page, "trade").inner_text()
    described = trade.evaluate(
        "(one) => one.getAttribute('aria-describedby').split(' ')"
        ".map((id) => document.getElementById(id).textContent).join(' ')"
    )
    assert described == f"What MMR's trade does. {words}"
    python(page, idle=[])
    assert trade.is_enabled()
    assert words not in knob(page, "trade").inner_text()


def test_the_help_of_the_knob_in_hand_is_shown_once_for_all(show):
    page = show(a_state(settings={**OPENED, "rrf_k": 10}))
    open_knobs(page)
    page.get_by_role("slider", name="Kept").focus()
    assert page.locator(".rl-told").inner_text() == "Kept: What Kept does."
    page.get_by_role("slider", name="RRF's k").hover()
    assert page.locator(".rl-told").inner_text() == "RRF's k: What RRF's k does. Opened at 60."


def test_each_group_of_knobs_stands_over_its_column(show):
    page = show(a_state())
    until(page, "document.querySelector('.rl-aligned') !== null")
    lefts = "(all) => all.map((one) => Math.round(one.getBoundingClientRect().left))"
    stacks = page.locator(".rl-stack").evaluate_all(lefts)
    heads = page.locator(".rl-head").evaluate_all(lefts)
    assert stacks == pytest.approx(heads, abs=2)
    page.set_viewport_size({"width": 700, "height": 720})
    until(page, "document.querySelector('.rl-aligned') === null")


def test_presets_show_which_one_fits_and_turn_everything_at_once(show):
    page = show(a_state(settings={**OPENED, "reranker": "none"}))
    assert pressed(page, "Presets") == ["naive"]
    press(page, "short")
    until(page, "puts.length > 0")
    assert puts(page, "settings") == [{**OPENED, "keep": 4}]
    assert pressed(page, "Presets") == ["short"]
    press(page, "as opened")
    until(page, "puts.length > 1")
    assert puts(page, "settings")[-1] == OPENED
    assert pressed(page, "Presets") == ["as opened"]
    python(page, settings={**OPENED, "k": 21})
    assert pressed(page, "Presets") == []


def test_undo_by_button_and_by_key_but_not_while_typing(show):
    page = show(a_state())
    assert page.get_by_role("button", name="Undo").is_disabled()
    python(page, undoable=2)
    press(page, "Undo (2)")
    assert page.evaluate("sent") == [{"do": "undo"}]
    page.locator(".rl-row[tabindex='0']").focus()
    for key in ("Control+z", "Meta+z"):
        page.keyboard.press(key)
    assert page.evaluate("sent.length") == 3
    page.get_by_role("textbox", name="Query").press("Control+z")
    assert page.evaluate("sent.length") == 3
    page.get_by_role("button", name="Undo (2)").focus()
    python(page, undoable=0)
    assert page.get_by_role("button", name="Undo").is_disabled()
    assert page.evaluate("document.activeElement.textContent") == "Compare"
    page.keyboard.press("Control+z")
    assert page.evaluate("sent.length") == 3
    assert said(page) == "There is nothing to undo."


# -- A and B -------------------------------------------------------------------------------------


def rows(page, side, column):
    frame = page.locator(".rl-side-frame").nth("ab".index(side))
    return frame.locator(f".rl-list[aria-label^='{column},'] .rl-row")


def test_comparing_shows_two_pictures_and_how_they_differ(show):
    page = show(a_state())
    assert page.locator(".rl-scroll:visible").count() == 1
    press(page, "Compare")
    assert puts(page, "comparing") == [True]
    python(page, other=a_model(keep=4), difference="4 chunks reach both prompts.")
    until(page, "document.querySelectorAll('.rl-side-frame:not([hidden]) .rl-list').length === 10")
    heads = [" ".join(one.split()) for one in page.locator(".rl-side-head").all_inner_texts()]
    assert heads == ["A Kept 8", "B Kept 4"]
    assert page.locator(".rl-difference").inner_text() == "4 chunks reach both prompts."
    assert said(page) == "4 chunks reach both prompts."
    a, b = rows(page, "a", "context").count(), rows(page, "b", "context").count()
    assert (a, b) == (8, 4)  # kept or left out, of eight and of four
    press(page, "Compare")
    assert page.locator(".rl-scroll:visible").count() == 1
    assert not page.locator(".rl-difference").is_visible()


def test_the_knobs_of_b_turn_b_alone(show):
    page = show(compared())
    open_knobs(page)
    kept = page.get_by_role("slider", name="Kept")
    assert kept.input_value() == "8"
    press(page, "Knobs of B")
    assert kept.input_value() == "4"
    assert pressed(page, "Presets of B") == ["short"]
    kept.fill("6")
    until(page, "puts.length > 0")
    press(page, "naive")
    until(page, "puts.length > 1")
    assert puts(page, "other_settings") == [
        {**OPENED, "keep": 6},
        {**OPENED, "reranker": "none"},
    ]
    assert puts(page, "settings") == []
    press(page, "Compare")
    assert kept.input_value() == "8"  # with one pipeline there are A's knobs alone


def test_both_pictures_step_play_and_choose_together(show):
    page = show(compared())
    shown = "document.querySelectorAll('.rl-side-frame .rl-list:not(.rl-pending)').length"
    until(page, f"{shown} === 10")
    press(page, "Retrieve")
    until(page, f"{shown} === 4")  # dense and sparse, twice
    press(page, "Next")
    until(page, f"{shown} === 6")
    chunk = rows(page, "b", "dense").nth(2).get_attribute("aria-label").split(",")[0]
    rows(page, "b", "dense").nth(2).click()
    assert puts(page, "selected") == [chunk]
    for side in "ab":
        assert rows(page, side, "dense").nth(2).get_attribute("aria-selected") == "true"
    assert "In pipeline B" in page.locator(".rl-aside").inner_text()
    press(page, "Query")
    press(page, "Play")
    until(page, f"{shown} === 4")
    press(page, "Pause")


def test_a_pipeline_with_fewer_stages_is_shown_as_far_as_the_other(show):
    whole = a_trace()
    short = flow_model(type(whole)(whole.query, whole.steps[:4]))  # it ends with the fused list
    page = show(compared() | {"other": short})
    shown = (
        "[...document.querySelectorAll('.rl-side-frame')]"
        ".map((one) => one.querySelectorAll('.rl-list:not(.rl-pending)').length).join()"
    )
    until(page, f"{shown} === '5,3'")
    press(page, "Retrieve")
    until(page, f"{shown} === '2,2'")
    press(page, "Fuse")
    until(page, f"{shown} === '3,3'")


def test_the_table_of_each_pipeline(show):
    page = show(compared())
    press(page, "Show as table")
    assert page.locator(".rl-scroll:visible").count() == 0
    tables = page.locator(".rl-table:visible")
    assert [tables.nth(n).get_attribute("aria-label")[-1] for n in (0, 1)] == ["A", "B"]
    for n, side in ((0, "data"), (1, "other")):
        count = len(compared()[side]["chunks"])
        assert tables.nth(n).locator("tbody tr").count() == count


# -- stepping, predicting ------------------------------------------------------------------------


def challenge(model, place, name):
    ids = [
        row[0] for column in model["columns"] if column["name"] == name for row in column["rows"]
    ]
    return {
        str(place): {
            "question": f"Which comes first in {name}?", "chunk_ids": ids[4::-1],
            "titles": {one: one for one in ids[:5]}, "truth": ids[:5], "why": "By its score.",
        }
    }  # fmt: skip


def test_a_stage_that_is_to_be_predicted_stays_hidden(show):
    model = a_model()
    held = challenge(model, 2, "fused") | challenge(model, 3, "reranked")
    page = show(a_state())
    press(page, "Predict")
    python(page, challenges=held)
    assert caption(page).startswith("2 of 6")
    assert puts(page, "step") == [1]
    press(page, "Show as table")
    head = page.locator(".rl-table:visible thead th").all_inner_texts()
    assert [one.split()[0] for one in head] == ["Chunk", "dense", "sparse", "What"]
    assert "context" not in page.locator(".rl-table:visible").inner_text()
    press(page, "Answer")
    assert caption(page).startswith("2 of 6")
    assert said(page) == "The prediction comes first: then Fuse is shown."
    press(page, "Reveal")
    press(page, "Go on: show Fuse")
    assert caption(page).startswith("3 of 6")
    press(page, "Predict")
    press(page, "Answer")
    assert caption(page).startswith("6 of 6")


def test_play_stops_where_a_prediction_is_due(show):
    model = a_model()
    page = show(a_state(step=0, predicting=True, challenges=challenge(model, 2, "fused")))
    press(page, "Play")
    until(page, "document.querySelector('.rl-says').textContent.startsWith('2 of 6')")
    page.get_by_role("button", name="Play", exact=True).wait_for()
    assert caption(page).startswith("2 of 6")


def test_each_step_is_announced_and_the_arrows_step(show):
    page = show(a_state())
    page.get_by_role("button", name="Play", exact=True).focus()
    page.keyboard.press("Home")
    assert caption(page).startswith("1 of 6")
    assert said(page) == caption(page)
    page.keyboard.press("ArrowRight")
    assert said(page).startswith("2 of 6")


# -- what Python says ----------------------------------------------------------------------------


def test_status_and_progress_are_shown_and_the_old_picture_stays(show):
    page = show(a_state())
    python(page, busy=True, progress=0.25)
    root = page.locator(".raglab-explorer")
    assert root.get_attribute("aria-busy") == "true"
    bar = page.get_by_role("progressbar", name="How far the search is")
    assert bar.evaluate("(one) => one.value") == 0.25
    assert "25%" in page.locator(".rl-progress").inner_text()
    assert page.locator(".rl-row:visible").count() > 40
    at_rest(page)
    until(page, "getComputedStyle(document.querySelector('.rl-pictures')).opacity === '0.9'")
    python(page, busy=False, progress=0, status="Now 31 fused (was 37).")
    assert root.get_attribute("aria-busy") == "false"
    assert not bar.is_visible()
    assert page.locator(".rl-status").inner_text() == said(page) == "Now 31 fused (was 37)."


def test_a_hostile_text_is_inert_wherever_the_shell_writes_it(show):
    hostile = "</script><img src=x onerror='window.hit=1'>"
    state = compared(
        status=hostile, query=hostile, title=hostile, surprises=[{"name": "x", "label": hostile}],
        kinds=[{"kind": hostile, "questions": [{"id": "x", "text": hostile}]}],
    ) | {"difference": hostile}  # fmt: skip
    state["knobs"] = [{**KNOBS[0], "label": hostile, "help": hostile}, *KNOBS[1:]]
    state["presets"] = {hostile: OPENED}
    page = show(state)
    open_knobs(page)
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert page.locator(".rl-status").inner_text() == hostile


def test_only_the_picture_that_changed_is_built_anew(show):
    page = show(a_state())
    page.evaluate(
        "window.kept = ['.rl-drawer', '.rl-bar', '.rl-scroll', '.rl-list', '.rl-ask input']"
        ".map((one) => document.querySelector(one))"
    )
    python(page, data=a_model(keep=4), settings={**OPENED, "keep": 4}, status="Now 4.")
    until(page, "document.querySelector('.rl-status').textContent === 'Now 4.'")
    assert page.evaluate("kept.every((one) => one.isConnected)")


# -- several, again, and gone --------------------------------------------------------------------


def test_a_second_view_shows_the_same_and_leaves_nothing_behind(show):
    chosen = a_model()["chunks"][0]["id"]
    page = show(compared(selected=chosen, step=3, undoable=1, status="Now 31."))
    page.evaluate("""() => {
      const model = document.getElementById("raglab-flow").model;
      const heard = [];
      const { on, off } = model;
      model.on = (event, act) => { heard.push(act); on(event, act); };
      model.off = (event, act) => { heard.splice(heard.indexOf(act), 1); off(event, act); };
      const el = document.createElement("div");
      document.querySelector("main").append(el);
      window.heard = heard;
      window.leave = rendered({ model, el });
    }""")
    shown = (
        "[...document.querySelectorAll('.raglab-explorer')].map((one) => "
        "['.rl-says', '.rl-status', '.rl-difference', '.rl-tools', '.rl-heads', '.rl-aside']"
        ".map((part) => one.querySelector(part).textContent).join())"
    )
    until(page, "document.querySelectorAll('.rl-chosen .rl-pill').length >= 8")
    first, second = page.evaluate(shown)
    assert first == second
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("heard.length") > 10
    page.evaluate("leave()")
    assert page.evaluate("heard.length") == 0
    python(page, step=1)  # the first view goes on, the second has let go
    assert [one[:6] for one in page.evaluate(shown)] == ["2 of 6", "4 of 6"]


def test_without_a_kernel_only_what_works_is_drawn(show):
    page = show(a_state(offline=True, knobs=[], kinds=[], surprises=[], presets={}))
    assert page.get_by_role("textbox").count() == 0
    shown = page.locator(".rl-tools :is(button, summary):visible").all_inner_texts()
    assert shown == ["Show as table", "Share"]
    state = compared(offline=True, knobs=[], kinds=[], surprises=[], presets={})
    page = show(state | {"comparing": False})
    press(page, "Compare")
    until(page, "document.querySelectorAll('.rl-side-frame:not([hidden]) .rl-list').length === 10")
    assert page.evaluate("sent") == []


# -- keyboard, layout, names ---------------------------------------------------------------------


def test_plain_keys_stay_inside_and_tab_and_shortcuts_do_not(show):
    page = show(a_state())
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")
    open_knobs(page)
    for place in (".rl-row[tabindex='0']", ".rl-knob input", ".rl-golden", ".rl-tools button"):
        page.locator(place).first.focus()
        for key in ("d", "ArrowDown", "Escape", "Control+z"):
            page.keyboard.press(key)
    page.keyboard.press("Control+k")
    page.keyboard.press("Tab")
    heard = [key for key in page.evaluate("heard") if key != "Control"]
    assert heard == ["k", "Tab"]


def test_every_control_is_reached_by_tab_alone(show):
    page = show(compared(undoable=1, settings={**OPENED, "rrf_k": 10}))
    open_knobs(page)
    wanted = page.evaluate("""() => {
      const seen = (one) => one.checkVisibility({ visibilityProperty: true });
      const all = document.querySelectorAll(
        ".raglab-explorer :is(button, input, select, summary)");
      window.wanted = [...all].filter(
        (one) => seen(one) && !one.disabled && !one.closest(".rl-panel"));
      return window.wanted.length;
    }""")
    assert wanted > 30
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(wanted + 30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("wanted.indexOf(document.activeElement)"))
    missed = page.evaluate(
        "(reached) => wanted.filter((_, at) => !reached.includes(at)).map((one) => one.outerHTML)",
        list(reached),
    )
    assert not missed


SIZES = {
    "desk": DESK,
    "zoomed": {"width": 640, "height": 720},
    "phone": {"width": 390, "height": 844},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend_and_nothing_is_too_wide_or_too_small(show, scheme, size):
    from axe_playwright_python.sync_playwright import Axe

    state = compared(
        idle=["trade"],
        undoable=2,
        status="Now 31 fused (was 37).",
        settings={**OPENED, "rrf_k": 10},
    )
    page = show(state, viewport=SIZES[size], color_scheme=scheme)
    menu = page.get_by_text("Surprise me", exact=True)
    views = {
        "compared": lambda: (open_knobs(page), menu.click()),
        "busy": lambda: (
            menu.press("Escape"),
            press(page, "Show as table"),
            python(page, busy=True, progress=0.5),
        ),
        "alone": lambda: (press(page, "Show as table"), press(page, "Compare")),
    }
    for name, act in views.items():
        act()
        at_rest(page)
        rules = {"exclude": [[".rl-aside"], [".rl-predict"], [".rl-share"]]}
        found = Axe().run(page, context=rules).response["violations"]
        told = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found]
        assert not told, f"{name}, {scheme}, {size}: {told}"
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
        small = page.evaluate("""() => [...document.querySelectorAll(
            ".raglab-explorer :is(button, input, select, summary):not(.rl-cite)")]
          .filter((one) => one.checkVisibility())
          .filter((one) => !one.closest(".rl-aside, .rl-predict, .rl-share"))
          .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
          .filter(([, box]) => box.height < 24 || box.width < 24).map(([html]) => html)""")
        assert not small, f"{name}, {size}: {small}"
