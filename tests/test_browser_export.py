"""The exported page, in a real browser, from a file, with no network and no kernel."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from browser import assert_stayed_here, open_browser, watch_requests
from traces import a_trace

from raglab.trace import Trace
from raglab.views import export_html, flow_model

HOSTILE = (
    "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'><svg onload=hit=1>"
)
DESK = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    """Opens a trace's exported page; in the end no page may have failed or left the machine."""
    contexts, asked, errors = [], [], []

    def open_page(trace, evidence=(), *, viewport=DESK, state=None, **settings):
        context = chromium.new_context(viewport=viewport, **settings)
        contexts.append(context)
        asked.append(watch_requests(context))
        path = export_html(trace, tmp_path / f"{len(contexts)}.html", evidence)
        if state:
            path.write_text(with_state(path.read_text(encoding="utf-8"), state), encoding="utf-8")
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(path.as_uri())
        page.wait_for_selector(".rl-steps button")
        return page

    yield open_page
    for context in contexts:
        context.close()
    for urls in asked:
        assert_stayed_here(urls)
    assert not errors


def with_state(page: str, state: dict) -> str:
    """The page with other traits, as a kernel would have sent them."""
    head, rest = page.split('id="raglab-data">')
    data, tail = rest.split("</script>", 1)
    text = json.dumps({**json.loads(data), **state}).replace("<", "\\u003c")
    return f'{head}id="raglab-data">{text}</script>{tail}'


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def until(page, expression, seconds=10):
    """Waits for a JavaScript expression; the page's policy forbids Playwright's own way."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)


def at_rest(page):
    until(page, "document.getAnimations().length === 0")


def row(page, column, chunk_id):
    return page.locator(f".rl-list[aria-label^='{column},'] .rl-row[aria-label^='{chunk_id},']")


def shown_rows(page, column):
    return page.locator(f".rl-list[aria-label^='{column},'] .rl-row:not(.rl-pending)").count()


def caption(page):
    return page.locator(".rl-says").inner_text()


# -- stepping ------------------------------------------------------------------------------------


def test_next_and_previous_bring_stages_in_and_take_them_away(show):
    trace = a_trace()
    page = show(trace)
    press(page, "Query")
    assert shown_rows(page, "dense") == 0
    press(page, "Next")
    assert shown_rows(page, "dense") == shown_rows(page, "sparse") == 20
    assert shown_rows(page, "fused") == 0
    press(page, "Next")
    assert shown_rows(page, "fused") == len(trace.ranking("fused"))
    assert caption(page).startswith("3 of 6, Fuse:")
    press(page, "Previous")
    at_rest(page)
    assert not page.locator(".rl-list[aria-label^='fused,']").is_visible()
    assert page.locator("[aria-current=step]").inner_text() == "Retrieve"


def test_play_runs_to_the_end_and_can_be_paused(show):
    page = show(a_trace())
    press(page, "Play")
    assert caption(page).startswith("1 of 6")
    until(page, "document.querySelector('.rl-says').textContent.startsWith('2 of 6')")
    press(page, "Pause")
    paused = caption(page)
    page.wait_for_timeout(1700)
    assert caption(page) == paused
    press(page, "Play")
    until(page, "document.querySelector('.rl-says').textContent.startsWith('6 of 6')")
    page.get_by_role("button", name="Play", exact=True).wait_for()


def test_home_and_end_jump_and_each_step_is_announced(show):
    page = show(a_trace())
    page.get_by_role("button", name="Play", exact=True).focus()
    page.keyboard.press("Home")
    assert caption(page).startswith("1 of 6")
    assert page.get_by_role("status").inner_text() == caption(page)
    page.keyboard.press("ArrowRight")
    assert caption(page).startswith("2 of 6")
    page.keyboard.press("End")
    assert caption(page).startswith("6 of 6")


def test_a_chunk_that_was_lost_greys_only_once_the_picture_gets_there(show):
    trace = a_trace()
    lost = trace.ranking("fused")[25].chunk.chunk_id
    page = show(trace)
    press(page, "Fuse")
    assert "rl-lost" not in row(page, "fused", lost).get_attribute("class")
    assert page.locator(".rl-cut").count() == 0
    press(page, "Rerank")
    assert "rl-lost" in row(page, "fused", lost).get_attribute("class")
    assert page.locator(".rl-cut:not(.rl-pending)").text_content() == "cut at 20"


def test_reduced_motion_moves_nothing(show):
    page = show(a_trace(), reduced_motion="reduce")
    press(page, "Query")
    press(page, "Next")
    assert page.evaluate("document.getAnimations().length") == 0


# -- choosing ------------------------------------------------------------------------------------


def test_a_click_shows_the_text_every_rank_and_the_parts_of_each_score(show):
    trace = a_trace()
    hit = trace.ranking("reranked")[1]
    page = show(trace)
    row(page, "fused", hit.chunk.chunk_id).click()
    panel = page.locator(".rl-panel")
    assert hit.chunk.text in panel.inner_text()
    assert hit.chunk.heading in panel.inner_text()
    heads = [" ".join(text.split()) for text in panel.locator("h4").all_inner_texts()]
    assert any(text.startswith("reranked rank 2 score") for text in heads)
    assert "context prompt [2]" in " ".join(heads)
    names = panel.locator(".rl-part-name").all_inner_texts()
    assert [part.name for part in hit.parts] == names[-len(hit.parts) :]
    negative = sum(part.value < 0 for part in hit.parts)
    assert panel.locator(".rl-negative").count() >= negative > 0
    lines = page.locator(".rl-line.rl-chosen").count()
    assert (
        lines
        == sum(
            any(one.chunk == hit.chunk for one in trace.ranking(name))
            for name in ("dense", "sparse")
        )
        + 2
    )  # into fused from each list, into reranked, into context
    page.keyboard.press("Escape")
    assert page.locator(".rl-chosen").count() == 0


def test_a_lost_chunk_says_where_and_why(show):
    trace = a_trace()
    lost = trace.ranking("fused")[25].chunk.chunk_id
    page = show(trace)
    row(page, "fused", lost).hover()
    assert "rank 26, cut at 20" in page.locator(".rl-hint").inner_text()
    row(page, "fused", lost).click()
    assert page.locator(".rl-fate").inner_text() == "Lost at reranked: rank 26, cut at 20."
    left = trace.context.dropped[0]
    row(page, "context", left.hit.chunk.chunk_id).click()
    assert left.reason in page.locator(".rl-fate").inner_text()


def test_the_keyboard_alone_reaches_every_chunk(show):
    trace = a_trace()
    page = show(trace)
    assert page.locator(".rl-row[tabindex='0']").count() == 1
    page.locator(".rl-row[tabindex='0']").focus()
    page.keyboard.press("End")  # the last row of the lower lane
    here = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert here.startswith(trace.ranking("sparse")[-1].chunk.chunk_id)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    second = trace.ranking("dense")[1].chunk.chunk_id
    page.keyboard.press("ArrowRight")  # the same chunk, in the next column
    here = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert here.startswith(f"{second},")
    assert "in fused" in here
    page.keyboard.press("Enter")
    assert page.locator(".rl-id").inner_text() == second
    assert page.locator(".rl-row[aria-selected=true]").count() >= 2
    assert second in page.get_by_role("status").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".rl-row[aria-selected=true]").count() == 0


def test_the_focus_ring_is_for_the_keyboard_alone(show):
    page = show(a_trace())
    ring = "getComputedStyle(document.activeElement.querySelector('.rl-pill')).strokeWidth"
    page.locator(".rl-row").nth(3).click()
    page.locator(".rl-row").nth(3).click()  # chosen, and let go again
    assert page.evaluate(ring) != "2.5px"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(ring) == "2.5px"


def test_plain_keys_stay_inside_and_tab_and_shortcuts_do_not(show):
    page = show(a_trace())
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")
    page.locator(".rl-row[tabindex='0']").focus()
    for key in ("d", "d", "Enter", "ArrowDown", "Control+k", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == ["Control", "k", "Tab"]


def test_a_citation_chooses_its_chunk(show):
    trace = a_trace()
    page = show(trace)
    citation = trace.answer.citations[0]
    page.get_by_role("button", name=f"Citation {citation.number}, ").first.click()
    assert page.locator(".rl-id").inner_text() == citation.chunk_id


def test_chunks_that_hold_the_answer_carry_more_than_a_colour(show):
    trace = a_trace()
    holder = trace.context.kept[1].chunk.chunk_id
    page = show(trace, [holder])
    found = row(page, "fused", holder)
    assert "★" in found.text_content()
    assert "holds the answer" in found.get_attribute("aria-label")
    width = "getComputedStyle(document.querySelector('.rl-line{}')).strokeWidth"
    marked = page.evaluate(width.format(".rl-evidence"))
    plain = page.evaluate(width.format(":not(.rl-evidence, .rl-cited, .rl-from-query)"))
    assert float(marked.removesuffix("px")) > 2 * float(plain.removesuffix("px"))


def test_the_table_holds_the_same_data(show):
    trace = a_trace()
    page = show(trace)
    press(page, "Show as table")
    assert page.locator(".rl-table tbody tr").count() == len(flow_model(trace)["chunks"])
    assert not page.locator(".rl-scroll").is_visible()
    hit = trace.ranking("fused")[4]
    line = page.locator(
        "tbody tr", has=page.get_by_role("button", name=hit.chunk.chunk_id, exact=True)
    )
    assert line.locator("td").nth(2).inner_text() == "5"
    line.get_by_role("button").click()
    assert page.locator(".rl-id").inner_text() == hit.chunk.chunk_id
    press(page, "Show as table")
    assert page.locator(".rl-scroll").is_visible()


# -- safety --------------------------------------------------------------------------------------


def test_a_hostile_document_is_inert_everywhere(show):
    trace = a_trace(hostile=HOSTILE)
    page = show(trace, state={"status": HOSTILE})
    page.locator(".rl-row").nth(2).click()
    page.locator(".rl-row").nth(2).hover()
    assert HOSTILE in page.locator(".rl-text").inner_text()
    press(page, "Show as table")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3  # the data, the packed data, the code
    assert page.locator("[onload], [onerror]").count() == 0
    assert page.locator(".rl-status").inner_text() == HOSTILE


def test_without_a_kernel_there_are_no_knobs_and_no_query_box(show):
    page = show(a_trace())
    assert page.locator("input").count() == 0


KNOB = {"name": "k", "label": "Hits", "min": 5, "max": 50, "value": 20, "help": "How many."}


def test_a_knob_is_a_labelled_slider_that_acts_once_after_a_burst(show):
    page = show(a_trace(), state={"knobs": [KNOB], "settings": {"k": 20}})
    slider = page.get_by_role("slider", name="Hits")
    assert page.locator("output").inner_text() == "20"
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("output").inner_text() == "23"
    assert page.get_by_role("textbox", name="Query").input_value() == a_trace().query.text


# -- layout, contrast, names ---------------------------------------------------------------------

OVERLAPS = """() => {
  const labels = [...document.querySelectorAll(
    '.rl-label, .rl-rank, .rl-why, .rl-lane, .rl-cut text, .rl-head')]
    .filter((node) => node.textContent && getComputedStyle(node).visibility !== 'hidden')
    .map((node) => [node, node.getBoundingClientRect()]);
  const found = [];
  labels.forEach(([a, p], i) => labels.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 0.5 && high > 0.5) found.push(`${a.textContent} / ${b.textContent} ${wide} ${high}`);
  }));
  return { found, count: labels.length };
}"""


@pytest.mark.parametrize("width", [1280, 1000])
@pytest.mark.parametrize(("k", "queries"), [(25, 1), (50, 1), (50, 3)])
def test_no_labels_overlap_at_fifty_candidates(show, width, k, queries):
    """Places of more than 54 rows draw them as bars; all other rows have room for their words."""
    trace = a_trace(k, depth=50, queries=queries)
    places = [2 * k * queries, *(len(trace.ranking(name)) for name in ("fused", "reranked")), 8]
    full = sum(rows for rows in places if rows <= 54)
    page = show(trace, viewport={"width": width, "height": 720})
    at_rest(page)
    overlaps = page.evaluate(OVERLAPS)
    assert overlaps["found"] == []
    rows = page.locator("g.rl-row")
    assert rows.count() == full >= 58
    assert overlaps["count"] > 2 * full
    height = rows.locator(".rl-pill").first.bounding_box()["height"]
    tops = [rows.nth(n).bounding_box()["y"] for n in (0, 1)]
    assert round(tops[1] - tops[0], 2) >= 13 > height - 2


@pytest.mark.parametrize("step", ["Query", "Fuse", "Answer"])
def test_the_page_is_no_wider_than_a_telephone(show, step):
    page = show(a_trace(), viewport={"width": 390, "height": 844})
    press(page, step)
    at_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".rl-row:not(.rl-pending)").first.click() if step != "Query" else None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_zoomed_to_twice_the_size_nothing_is_lost_sideways(show):
    page = show(a_trace(), viewport={"width": 640, "height": 360}, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    trace = a_trace()
    evidence = [trace.context.kept[1].chunk.chunk_id]
    state = {"knobs": [KNOB], "settings": {"k": 20}, "status": "Now 31 fused (was 37)."}
    page = show(trace, evidence, color_scheme=scheme, state=state)
    at_rest(page)
    views = {
        "start": lambda: press(page, "Query"),
        "whole": lambda: press(page, "Answer"),
        "chosen": lambda: row(page, "fused", evidence[0]).click(),
        "half way": lambda: press(page, "Retrieve"),
        "table": lambda: press(page, "Show as table"),
    }
    for name, act in views.items():
        act()
        at_rest(page)
        found = Axe().run(page).response["violations"]
        told = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found]
        assert not told, f"{name}, {scheme}: {told}"


@pytest.mark.parametrize("length", [1, 2, 4, 5, 6])
def test_a_trace_that_stopped_early_is_drawn_as_far_as_it_went(show, length):
    trace = a_trace()
    page = show(Trace(trace.query, trace.steps[:length]))
    assert page.locator(".rl-list").count() == length - 1
    assert page.locator(".rl-query").inner_text() == trace.query.text


def test_an_empty_list_is_drawn_as_an_empty_lane(show):
    trace = a_trace()
    steps = [replace(step, output=()) if step.name == "dense" else step for step in trace.steps]
    page = show(Trace(trace.query, tuple(steps)))
    assert "0 hits" in page.locator(".rl-lane").first.text_content()
    assert shown_rows(page, "dense") == 0


def test_when_a_knob_turns_rows_move_to_their_new_places_and_flash(show):
    """The widget's model is replaced by hand, as a kernel would do it."""
    old, new = a_trace(), a_trace(keep=4)
    page = show(old, state={"knobs": [KNOB], "settings": {"k": 20}})
    page.evaluate("window.before = document.querySelector('.rl-list[aria-label^=context] .rl-row')")
    first = page.locator(".rl-list[aria-label^=context] .rl-row").first.get_attribute("aria-label")
    page.evaluate(
        "(data) => document.getElementById('raglab-flow').model.set('data', data)", flow_model(new)
    )
    until(page, "document.querySelector('.rl-head[data-place=\"4\"]').textContent.includes('2 in')")
    assert page.locator(".rl-flash").count() > 0
    at_rest(page)
    assert page.evaluate("window.before.isConnected")  # the same row, moved
    assert first.split(",")[0] == new.context.kept[0].chunk.chunk_id
    assert shown_rows(page, "context") == 4  # two kept; a copy and one over the budget left out
