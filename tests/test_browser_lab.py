"""Notebook 00 in JupyterLab, as a reader uses it: run, step, choose, turn, ask.

One server, one kernel and one page serve most of these tests. Each test brings the widget that it
uses into the state that it needs, so that any of them can run alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from browser import assert_stayed_here, need_browser, open_browser, watch_requests
from jupyter import copy_notebooks, jupyter_lab
from labpage import OUTPUTS, PROMPTS, in_kernel, open_notebook, scroll_to
from nbformat.v4 import new_code_cell, new_notebook, new_output
from traces import a_trace

from raglab.views import Flow

HERE = Path(__file__).resolve().parent
NOTEBOOK = "00_first_query.ipynb"
DESK = {"width": 1280, "height": 720}
START = "{knob['name']: knob['value'] for knob in lab.knobs}"
SLIDERS = ("Hits a retriever", "RRF's k", "Kept for the prompt")
EMPTY = "The query is empty: type a question, then press Enter."
HOSTILE = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
# Run in the kernel: from then on it counts which stages do work, whatever the picture says.
COUNT = """
from raglab.answer.assemble import BudgetAssembler
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.sparse import BM25

def count(name, owner, verb):
    plain = getattr(owner, verb)
    def counted(self, *arguments, **options):
        ran.add(name)
        return plain(self, *arguments, **options)
    setattr(owner, verb, counted)

if "ran" not in globals():
    ran = set()
    count("dense", Dense, "retrieve")
    count("sparse", BM25, "retrieve")
    count("fused", RRF, "fuse")
    count("reranked", LateInteraction, "rerank")
    count("context", BudgetAssembler, "assemble")
"""

# What a reader sees of one flow. Rows come in the order in which they stand on the screen.
SEEN = """(root) => {
  const beside = {};  // the words drawn at the head of each column, the count first
  for (const lane of root.querySelectorAll(".rl-lane:has(.rl-lane-name)")) {
    const name = lane.firstChild.textContent;
    beside[name] = lane.textContent.slice(name.length).trim();
  }
  for (const head of root.querySelectorAll(".rl-head")) {
    const words = (tag) => [...head.querySelectorAll(tag)].map((node) => node.textContent);
    beside[words("strong")[0]] ??= [...words("span"), ...words("small")].join(" · ");
  }
  const columns = {};
  for (const list of root.querySelectorAll(".rl-list")) {
    const name = list.getAttribute("aria-label").split(", ")[0];
    const rows = [...list.querySelectorAll(".rl-row:not(.rl-leftout)")];
    rows.sort((a, b) => a.getAttribute("aria-posinset") - b.getAttribute("aria-posinset"));
    columns[name] = {
      head: beside[name],
      ids: rows.map((row) => row.getAttribute("aria-label").split(", ")[0]),
      visible: rows.filter((row) => getComputedStyle(row).visibility === "visible").length,
    };
  }
  const text = (selector) => root.querySelector(selector).textContent;
  return {
    columns,
    says: text(".rl-says"), status: text(".rl-status"), live: text(".rl-live"),
    query: text(".rl-query"), answer: text(".rl-answer-text"),
    stage: text("[aria-current=step]"),
  };
}"""


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[SimpleNamespace]:  # type: ignore[no-untyped-def]
    """A server over a copy of the notebooks, and a browser whose every request is kept."""
    need_browser()
    home = tmp_path_factory.mktemp("jupyter")
    folder = copy_notebooks(HERE.parent / "notebooks", home / "notebooks")
    _write_static(folder / "static.ipynb", folder / NOTEBOOK)
    _write_hostile(folder / "hostile.ipynb")
    with jupyter_lab(folder, home) as lab, open_browser() as browser:
        context = browser.new_context(viewport=DESK)  # type: ignore[attr-defined]
        asked = watch_requests(context)
        yield SimpleNamespace(lab=lab, context=context, asked=asked, errors=[])
        context.close()


@pytest.fixture(scope="module")
def page(house):  # type: ignore[no-untyped-def]
    """Notebook 00, every cell of it run."""
    return open_notebook(house, NOTEBOOK, run=True)


@pytest.fixture
def first(page):  # type: ignore[no-untyped-def]
    """The first flow, whole, with nothing chosen."""
    flow = page.locator(".raglab-flow").nth(0)
    scroll_to(page, "Flow(trace")
    in_kernel(page, "_17.selected = ''; _17.step = 5")
    until(flow, lambda seen: seen["says"].startswith("6 of 6") and seen["stage"] == "Answer")
    return flow


@pytest.fixture
def panel(page):  # type: ignore[no-untyped-def]
    """The second flow, over the notebook's question, its knobs where they stood at first."""
    flow = page.locator(".raglab-flow").nth(1)
    scroll_to(page, "Explorer(pipeline")
    in_kernel(page, COUNT)
    # Messages keep their order: once this status is shown, all that was sent before it is drawn.
    reset = f"lab.query = query.text; lab.settings = {START}; lab.step = 5; lab.status = 'set'"
    in_kernel(page, f"lab.status = ''; {reset}; ran.clear()")
    drawn = until(flow, lambda seen: seen["status"] == "set")
    assert counts(drawn)["dense"] == 20
    assert counts(drawn)["context"] == 8
    if flow.locator("details.rl-group:not([open])").count():
        press(flow, "Knobs")
    values = [flow.get_by_role("slider", name=label).input_value() for label in SLIDERS]
    assert values == ["20", "60", "8"]
    return flow


def seen(flow) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    return flow.evaluate(SEEN)


def until(flow, holds, seconds: float = 30) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    """Waits until what is drawn fits; returns it."""
    for _ in range(int(seconds * 20)):
        now = seen(flow)
        if holds(now):
            return now
        flow.page.wait_for_timeout(50)
    raise AssertionError(f"never drawn; the last that was: {now}")


def counts(drawn: dict[str, Any]) -> dict[str, int]:
    """The number that stands at the head of each column."""
    return {name: int(column["head"].split()[0]) for name, column in drawn["columns"].items()}


def visible(drawn: dict[str, Any]) -> dict[str, int]:
    return {name: column["visible"] for name, column in drawn["columns"].items()}


def ids(drawn: dict[str, Any]) -> dict[str, list[str]]:
    return {name: column["ids"] for name, column in drawn["columns"].items()}


def reused(drawn: dict[str, Any]) -> set[str]:
    return {name for name, column in drawn["columns"].items() if "reused" in column["head"]}


def press(flow, name: str) -> None:  # type: ignore[no-untyped-def]
    flow.get_by_role("button", name=name, exact=True).click()


def turn(flow, label: str, value: int) -> None:  # type: ignore[no-untyped-def]
    """One turn, one event: key by key, a slow machine would run the values between too."""
    slider = flow.get_by_role("slider", name=label)
    slider.fill(str(value))
    assert slider.input_value() == str(value)


def ask(flow, words: str) -> None:  # type: ignore[no-untyped-def]
    flow.get_by_role("textbox", name="Query").fill(words)
    flow.page.keyboard.press("Enter")


# -- the notebook as a whole ---------------------------------------------------------------------


def test_every_cell_runs_and_none_fails(page, house) -> None:  # type: ignore[no-untyped-def]
    prompts = page.evaluate(PROMPTS)
    assert prompts == [f"[{number}]:" for number in range(1, len(prompts) + 1)]
    assert len(prompts) > 10
    outputs = page.evaluate(OUTPUTS)
    assert {"stdout", "display_data", "execute_result"} <= set(outputs)
    assert "error" not in outputs
    assert house.errors == []


def test_both_flows_are_drawn_with_as_many_rows_as_the_heads_say(page, first, panel) -> None:  # type: ignore[no-untyped-def]
    assert page.locator(".raglab-flow").count() == 2
    for flow in (first, panel):
        drawn = seen(flow)
        assert list(drawn["columns"]) == ["dense", "sparse", "fused", "reranked", "context"]
        assert visible(drawn) == counts(drawn)
        assert counts(drawn)["dense"] == 20
        assert flow.locator(".rl-line:not(.rl-pending)").count() > 50


def test_the_chart_is_drawn_and_has_no_button_that_uploads(page) -> None:  # type: ignore[no-untyped-def]
    scroll_to(page, "parts_figure(by_words")
    assert page.locator(".js-plotly-plot .bars path").count() == 3
    buttons = page.locator(".modebar-btn").evaluate_all("(all) => all.map((b) => b.dataset.title)")
    assert buttons
    assert not [title for title in buttons if "cloud" in title.lower() or "Studio" in title]


# -- the first flow: stepping and choosing -------------------------------------------------------


def test_stepping_brings_stages_in_and_tells_what_happened(page, first) -> None:  # type: ignore[no-untyped-def]
    whole = visible(seen(first))
    first.get_by_role("button", name="Play", exact=True).focus()
    page.keyboard.press("Home")
    drawn = until(first, lambda seen: not any(visible(seen).values()))
    assert drawn["stage"] == "Query"
    assert drawn["says"] == drawn["live"] == "1 of 6, Query: One query."

    press(first, "Next")
    drawn = until(first, lambda seen: visible(seen)["dense"] == visible(seen)["sparse"] == 20)
    assert visible(drawn)["fused"] == 0
    assert drawn["stage"] == "Retrieve"
    assert drawn["live"].startswith("2 of 6, Retrieve: dense: 20 hits; sparse: 20 hits.")

    press(first, "Next")
    drawn = until(first, lambda seen: visible(seen)["fused"] == whole["fused"])
    assert visible(drawn)["reranked"] == 0
    assert (drawn["stage"], drawn["live"]) == ("Fuse", drawn["says"])

    press(first, "Previous")
    drawn = until(first, lambda seen: visible(seen)["fused"] == 0)
    assert drawn["stage"] == "Retrieve"

    first.locator(".rl-steps [aria-current=step]").focus()
    page.keyboard.press("End")
    drawn = until(first, lambda seen: visible(seen) == whole)
    assert drawn["stage"] == "Answer"
    assert drawn["live"].startswith("6 of 6, Answer: ")


def test_play_starts_at_the_query_and_can_be_paused(page, first) -> None:  # type: ignore[no-untyped-def]
    first.evaluate(
        """(root) => {
          window.told = [];
          const says = root.querySelector(".rl-says");
          new MutationObserver(() => window.told.push(says.textContent)).observe(
            says, { childList: true });
        }"""
    )
    press(first, "Play")
    until(first, lambda seen: seen["stage"] not in ("Answer", "Query"))
    press(first, "Pause")
    paused = seen(first)["says"]
    page.wait_for_timeout(1700)  # longer than a stage lasts when played
    assert seen(first)["says"] == seen(first)["live"] == paused
    told = page.evaluate("window.told.map((words) => words.slice(0, 6))")
    assert told == [f"{place} of 6" for place in range(1, len(told) + 1)]


def test_a_chunk_is_chosen_by_the_keyboard_alone(page, first) -> None:  # type: ignore[no-untyped-def]
    first.get_by_role("button", name="Show as table").focus()
    page.keyboard.press("Tab")
    here = "document.activeElement.getAttribute('aria-label')"
    assert "rank 1 in dense" in page.evaluate(here)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    chunk_id = ids(seen(first))["dense"][1]
    assert page.evaluate(here).startswith(f"{chunk_id}, ")
    assert "in fused" in page.evaluate(here)

    page.keyboard.press("Enter")
    details = first.get_by_role("region", name="Chunk details")
    details.get_by_text(chunk_id, exact=True).first.wait_for()
    hits = f"next(hit for hit in fused if hit.chunk.chunk_id == {chunk_id!r})"
    text, parts = in_kernel(page, f"hit = {hits}", "(hit.chunk.text, [p.name for p in hit.parts])")
    assert details.locator(".rl-text").inner_text() == text
    assert set(parts) <= set(details.locator(".rl-part-name").all_inner_texts())
    assert first.locator(".rl-row[aria-selected=true]").count() >= 2
    assert seen(first)["live"].startswith(f"Chose {chunk_id}.")

    page.keyboard.press("Escape")
    details.get_by_text("How to read this").wait_for()
    assert first.locator(".rl-row[aria-selected=true]").count() == 0


def test_keys_typed_in_a_widget_do_not_reach_the_notebook(page, first) -> None:  # type: ignore[no-untyped-def]
    cells = "jupyterapp.shell.currentWidget.content.widgets.length"
    mode = "jupyterapp.shell.currentWidget.content.mode"
    before = page.evaluate(cells)
    for place in (".rl-row[tabindex='0']", ".rl-play", ".rl-panel"):
        first.locator(place).focus()
        for key in ("d", "d", "b", "a", "x", "Escape", "d", "d"):
            page.keyboard.press(key)
    page.wait_for_timeout(300)
    assert page.evaluate(cells) == before
    assert page.evaluate(mode) == "command"  # where each of these keys would have acted


# -- the second flow: turning and asking ---------------------------------------------------------


def test_keep_changes_the_prompt_and_nothing_before_it(page, panel) -> None:  # type: ignore[no-untyped-def]
    before = seen(panel)
    turn(panel, "Kept for the prompt", 5)
    drawn = until(panel, lambda seen: counts(seen)["context"] == 5)
    assert visible(drawn)["context"] == 5
    assert ids(drawn)["context"] == ids(before)["context"][:5]
    assert ids(drawn)["reranked"] == ids(before)["reranked"]
    assert drawn["status"].startswith("Now context 5 (was 8); out of the prompt: ")
    assert drawn["live"] == drawn["status"]
    assert reused(drawn) == {"dense", "sparse", "fused", "reranked"}
    assert ran(page) == {"context"}


def test_k_changes_every_list(page, panel) -> None:  # type: ignore[no-untyped-def]
    before = seen(panel)
    turn(panel, "Hits a retriever", 9)
    drawn = until(panel, lambda seen: counts(seen)["dense"] == 9)
    assert visible(drawn) == counts(drawn)
    assert counts(drawn)["sparse"] == 9
    assert counts(drawn)["fused"] == counts(drawn)["reranked"] < counts(before)["fused"]
    assert ids(drawn)["dense"] == ids(before)["dense"][:9]
    assert drawn["status"].startswith("Now dense 9 (was 20); sparse 9 (was 20); fused ")
    assert reused(drawn) == set()
    assert {"dense", "sparse", "fused", "reranked"} <= ran(page)


def test_rrf_k_reorders_what_the_retrievers_found(page, panel) -> None:  # type: ignore[no-untyped-def]
    before = seen(panel)
    turn(panel, "RRF's k", 1)
    drawn = until(panel, lambda seen: ids(seen)["fused"] != ids(before)["fused"])
    assert counts(drawn) == counts(before)
    assert sorted(ids(drawn)["fused"]) == sorted(ids(before)["fused"])
    assert ids(drawn)["dense"] == ids(before)["dense"]
    assert drawn["status"].endswith(("on the way.", "the prompt.")) or "prompt: " in drawn["status"]
    assert {"dense", "sparse"} <= reused(drawn)
    assert not {"fused", "reranked"} & reused(drawn)
    assert {"fused", "reranked"} <= ran(page)
    assert not {"dense", "sparse"} & ran(page)


def test_another_query_changes_rows_and_answer(page, panel) -> None:  # type: ignore[no-untyped-def]
    before = seen(panel)
    ask(panel, "what is ERR_2043")
    drawn = until(panel, lambda seen: seen["query"] == "what is ERR_2043")
    assert ids(drawn) != ids(before)
    assert "ERR_2043" in drawn["answer"]
    assert drawn["answer"] != before["answer"]
    assert drawn["status"].startswith("A new query: dense 20, ")
    assert visible(drawn) == counts(drawn)
    evidence = in_kernel(page, "", "list(lab._run.evidence)")  # a golden question, of its own
    starred = panel.locator(".rl-row.rl-evidence").evaluate_all(
        "(rows) => rows.map((row) => row.getAttribute('aria-label').split(', ')[0])"
    )
    assert set(starred) == set(evidence)


def test_an_empty_query_says_what_to_do_and_keeps_the_picture(page, panel) -> None:  # type: ignore[no-untyped-def]
    before = seen(panel)
    ask(panel, "   ")
    drawn = until(panel, lambda seen: seen["status"] == EMPTY)
    assert drawn["live"] == EMPTY
    assert ids(drawn) == ids(before)
    assert (drawn["query"], drawn["answer"]) == (before["query"], before["answer"])


def test_the_colours_follow_the_theme(page, panel, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Screenshots are kept in pytest's folder, for eyes."""
    grounds = {}
    for theme in ("Dark", "Light"):
        page.evaluate(
            "(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })",
            f"JupyterLab {theme}",
        )
        page.wait_for_function(
            f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'"
        )
        page.wait_for_timeout(700)  # colours fade
        page.screenshot(path=tmp_path / f"{theme.lower()}.png")
        grounds[theme] = [
            sum(map(int, colour[colour.index("(") + 1 : -1].split(",")[:3]))
            for colour in panel.evaluate(
                "(root) => [getComputedStyle(root).backgroundColor, getComputedStyle(root).color]"
            )
        ]
    assert grounds["Light"][0] > 600 > 200 > grounds["Light"][1]
    assert grounds["Dark"][0] < 200 < 600 < grounds["Dark"][1]


def ran(page) -> set[str]:  # type: ignore[no-untyped-def]
    """The stages that did work since the panel was set."""
    return set(in_kernel(page, "", "sorted(ran)"))


# -- documents are data --------------------------------------------------------------------------


def _write_hostile(path: Path) -> None:
    code = (
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\nfrom traces import a_trace\n"
        f"from raglab.views import Flow\nFlow(a_trace(hostile={HOSTILE!r}))"
    )
    nbformat.write(new_notebook(cells=[new_code_cell(code)]), path)


# -- panels --------------------------------------------------------------------------------------


def test_a_slider_of_a_panel_asks_the_kernel_for_another_picture(house) -> None:  # type: ignore[no-untyped-def]
    """Notebook 04: what a third repetition adds, at another k1."""
    page = open_notebook(house, "04_sparse.ipynb", run=True)
    assert "error" not in page.evaluate(OUTPUTS)
    scroll_to(page, "repeats = saturation_panel")
    panel = page.get_by_role("region", name="What repeating a word adds", exact=True)
    says = panel.locator(".rl-says")
    before, picture = says.inner_text(), panel.locator(".rl-picture").inner_html()
    turn(panel, "k1", 3)
    page.wait_for_function(
        "([node, was]) => node.textContent !== was", arg=[says.element_handle(), before]
    )
    assert "k1=3.00" in says.inner_text()
    assert panel.locator(".rl-picture").inner_html() != picture
    assert house.errors == []
    page.close()


def test_a_hostile_document_is_inert(house) -> None:  # type: ignore[no-untyped-def]
    page = open_notebook(house, "hostile.ipynb", run=True)
    flow = page.locator(".raglab-flow")
    flow.wait_for()
    row = flow.locator(".rl-list[aria-label^='fused,'] .rl-row").first
    row.hover()
    row.click()
    flow.locator(".rl-id").wait_for()
    for place in (".rl-id", ".rl-panel h2", ".rl-about >> nth=0", ".rl-text", ".rl-answer-text"):
        assert HOSTILE in flow.locator(place).text_content(), place
    press(flow, "Show as table")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x'], [onerror]").count() == 0
    assert flow.locator("script, img").count() == 0
    page.close()


# -- before anything is run ----------------------------------------------------------------------


def _write_static(path: Path, source: Path) -> None:
    """The committed notebook, and below it a kept picture of a hostile trace."""
    notebook = nbformat.read(source, as_version=4)
    bundle, _ = Flow(a_trace(hostile=HOSTILE))._repr_mimebundle_()
    kept = {kind: bundle[kind] for kind in ("text/plain", "image/svg+xml")}
    output = new_output("display_data", data=kept)
    notebook.cells = [
        *(
            cell
            for cell in notebook.cells
            if "Flow(" in str(cell.get("outputs", ""))
            or "Explorer(" in str(cell.get("outputs", ""))
        ),
        new_code_cell("# hostile", outputs=[output], execution_count=1),
    ]
    nbformat.write(notebook, path)


def test_a_notebook_that_is_not_run_shows_the_kept_pictures_once_it_is_trusted(house) -> None:  # type: ignore[no-untyped-def]
    page = open_notebook(house, "static.ipynb")
    page.get_by_text("Flow('How much did contextual retrieval").first.wait_for()
    assert page.locator(".jp-OutputArea-output img").count() == 0

    page.evaluate("() => void jupyterapp.commands.execute('notebook:trust')")
    page.get_by_role("dialog").get_by_role("button", name="Trust").click()
    page.wait_for_function(
        """() => {
          const pictures = [...document.querySelectorAll(".jp-OutputArea-output img")];
          return pictures.length === 3 && pictures.every((one) => one.naturalWidth > 900);
        }"""
    )
    assert "Error displaying widget" not in page.locator("body").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x'], [onerror]").count() == 0
    page.close()


def test_nothing_was_asked_of_any_network(page, house) -> None:  # type: ignore[no-untyped-def]
    assert_stayed_here(house.asked)
    assert any(url.startswith("ws:") for url in house.asked)  # the watch sees sockets too
    assert house.errors == []
