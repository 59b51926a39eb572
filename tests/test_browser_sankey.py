"""A lost question is pressed in the Sankey's lists: as a page, and in JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import nbformat
import pytest
from browser import (
    Pages,
    assert_stayed_here,
    open_browser,
    watch_requests,
    with_state,
)
from jupyter import jupyter_lab
from labpage import OUTPUTS, in_kernel, open_notebook, scroll_to
from nbformat.v4 import new_code_cell, new_notebook

from raglab.evaluate.attribution import CUT, RIGHT, WRONG, Attribution
from raglab.types import Question
from raglab.views.panel import Panel
from raglab.views.sankey import sankey_panel

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
SENT = """() => {
  window.sent = [];
  document.getElementById("raglab-flow").model.send = (content) => void sent.push(content);
}"""


def a_panel(*, asks: bool = True) -> Panel:
    ends = [Attribution(f"q{n}", "table", end, "why") for n, end in enumerate((CUT, CUT, WRONG))]
    ends += [Attribution(HOSTILE, "table", CUT, HOSTILE), Attribution("q4", "table", RIGHT, "why")]
    texts = {one.query_id: f"question {one.query_id}" for one in ends} | {"q1": "x" * 400}
    questions = [Question(name, text, "table", "", (), True) for name, text in texts.items()]
    return sankey_panel({"test": ends}, questions, ask=print if asks else None)


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    pages = Pages(chromium, tmp_path)

    def open_page(made, *, live=True, **settings):
        text = made.page()
        if live:
            text = with_state(
                text, {"knobs": made.knobs, "settings": made.settings, "presses": made.presses}
            )
        page = pages.open(text, wait=".rl-picture svg", **settings)
        page.evaluate(SENT)
        page.get_by_text("cut by keep: 3", exact=True).last.click()
        return page

    yield open_page
    pages.close()


def test_a_question_is_pressed_by_pointer_and_by_keyboard(show):
    page = show(a_panel())
    page.get_by_role("button", name="question q0", exact=True).click()
    assert page.evaluate("sent") == [{"press": "q0"}]
    page.get_by_text("wrong: 1", exact=True).last.focus()
    page.keyboard.press("Enter")  # opens the list
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "question q2"
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert page.evaluate("sent") == [{"press": one} for one in ("q0", "q2", "q2")]
    assert page.locator("[aria-current]").all_inner_texts() == ["question q2"]  # the last alone


def test_what_was_asked_is_shown_and_announced(show):
    page = show(a_panel())
    page.evaluate("document.getElementById('raglab-flow').model.set('status', 'Asked: how much')")
    assert page.locator(".rl-status").inner_text() == "Asked: how much"
    assert page.locator(".rl-live").inner_text() == "Asked: how much"


@pytest.mark.parametrize(("asks", "live"), [(False, True), (True, False)])
def test_where_nobody_listens_there_is_no_button(show, asks, live):
    page = show(a_panel(asks=asks), live=live)
    assert page.locator(".rl-picture button").count() == 0
    assert page.get_by_text("question q0", exact=True).is_visible()


def test_hostile_text_is_inert(show):
    page = show(a_panel())
    page.get_by_role("button", name=f"question {HOSTILE}", exact=True).click()
    assert page.evaluate("sent") == [{"press": HOSTILE}]
    assert page.evaluate("window.hit") is None
    assert page.locator(".rl-picture img, .rl-picture script").count() == 0


def test_a_button_of_python_s_own_gets_no_further(show):
    """A button that came in the HTML is taken out; what is pressed was made by the script."""
    page = show(a_panel())
    page.evaluate("""() => document.getElementById("raglab-flow").model.set("html",
      '<button data-press="b">b</button><i data-press="k">i</i>')""")
    buttons = page.locator(".rl-picture button")
    assert buttons.all_inner_texts() == ["i"]
    buttons.click()
    assert page.evaluate("sent") == [{"press": "k"}]


def test_the_page_is_no_wider_than_a_telephone(show):
    page = show(a_panel(), viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.locator(".rl-press:visible").evaluate_all(
        "nodes => nodes.map((node) => node.getBoundingClientRect())"
    ):
        assert box["height"] >= 24
        assert box["right"] <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = show(a_panel(), color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told, f"{scheme}: {told}"


# -- in JupyterLab, with a kernel -----------------------------------------------------------------

OPEN = """import raglab
from raglab.evaluate.attribution import CUT, Attribution
from raglab.evaluate.outcomes import asked
from raglab.lab import golden_questions
from raglab.views import Explorer
from raglab.views.sankey import sankey_panel
questions = golden_questions("handbook", "dev")[:12]
explorer = Explorer(raglab.open_lab("handbook", progress=False), questions)"""
DRAW = """def ask(question):
    explorer.query = asked(question).text

ends = [Attribution(one.query_id, one.kind, CUT, "rank 9, cut at 8") for one in questions]
sankey_panel({"dev": ends}, questions, ask=ask)"""


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory) -> Iterator[object]:
    home = tmp_path_factory.mktemp("jupyter")
    (home / "notebooks").mkdir()
    cells = [new_code_cell(text) for text in (OPEN, DRAW, "explorer")]
    nbformat.write(new_notebook(cells=cells), home / "notebooks" / "lost.ipynb")
    with jupyter_lab(home / "notebooks", home) as lab:
        context = chromium.new_context(viewport={"width": 1280, "height": 720})
        asked = watch_requests(context)
        house = SimpleNamespace(lab=lab, context=context, asked=asked, errors=[])
        yield open_notebook(house, "lost.ipynb", run=True)
        context.close()
        assert_stayed_here(asked)
        assert house.errors == []


def test_the_explorer_asks_what_was_pressed(page):
    assert "error" not in page.evaluate(OUTPUTS)
    scroll_to(page, "sankey_panel({")
    panel = page.get_by_role("region", name="Where the answers are lost", exact=True)
    texts = in_kernel(page, "", "[asked(one).text for one in questions]")
    panel.get_by_text(f"cut by keep: {len(texts)}", exact=True).last.click()
    assert panel.locator("li button").all_inner_texts() == texts
    panel.get_by_role("button", name=texts[5], exact=True).focus()
    page.keyboard.press("Enter")
    panel.locator(".rl-status", has_text=f"Asked: {texts[5]}").wait_for()
    assert in_kernel(page, "", "explorer.trace.query.text") == texts[5]
    scroll_to(page, "explorer")
    flow = page.locator(".raglab-flow:not(.raglab-panel)")
    flow.locator(".rl-query", has_text=texts[5]).wait_for()
    assert in_kernel(page, "", "explorer.status").startswith("A new query: ")
