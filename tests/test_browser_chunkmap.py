"""The chunk map as a page, in a real browser: no kernel, no network."""

from __future__ import annotations

import re

import pytest
from browser import Pages, open_browser, with_state

from raglab.ingest.chunk import FixedSize, ParentChild, Sentences, WholeDocument
from raglab.types import Document
from raglab.views import ChunkMap

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
TEXT = "# Refunds 🙂\n\n" + "\n\n".join(
    f"Rule {n}: a refund is due in {n} days. Ask for it in writing, and keep the invoice."
    for n in range(1, 13)
)
QUOTES = ("due in 1 days. Ask for it", "in 5 days. Ask for it in writing", "not in here")


def spans(text):
    """A word is a piece."""
    return [match.span() for match in re.finditer(r"\w+", text)]


STRATEGIES = {
    "fixed": FixedSize(spans, 23, 6),
    "sentences": Sentences(spans, 1, 40),
    "whole": WholeDocument(),
    "parents": ParentChild(Sentences(spans, 4, 80), Sentences(spans, 1, 40)),
}


def a_map(text=TEXT, *, title="Refunds", quotes=QUOTES, **more):
    return ChunkMap(
        Document("refunds", text, title), STRATEGIES, quotes=quotes, spans=spans, limit=60, **more
    )


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    """Opens a map's page; in the end no page may have failed or left the machine."""
    pages = Pages(chromium, tmp_path)

    def open_page(made, *, live=False, state=None, **settings):
        text = made.page()
        if live or state:
            text = with_state(text, (as_live(made) if live else {}) | (state or {}))
        return pages.open(text, wait=".rl-segment", **settings)

    yield open_page
    pages.close()


def as_live(made):
    """The traits as a kernel would have sent them: every strategy, and the sliders."""
    return {"data": made.data, "knobs": made.knobs, "settings": made.settings, "shown": made.shown}


def pane(page, name):
    return page.get_by_role("region", name=name, exact=True).first


def trait(page, name):
    return page.evaluate(f"document.getElementById('raglab-flow').model.get('{name}')")


def announced(page):
    return page.locator(".rl-live").inner_text()


def facts(page):
    return page.locator(".rl-line-of-facts").inner_text()


# -- the picture ---------------------------------------------------------------------------------


def test_each_pane_holds_the_whole_text_in_the_right_pieces(show):
    made = a_map()
    page = show(made)
    for found in made.data["maps"]:
        segments = pane(page, found["name"]).locator(".rl-document .rl-segment")
        texts = segments.evaluate_all("(nodes) => nodes.map((node) => node.textContent)")
        assert texts == [TEXT[one["start"] : one["end"]] for one in found["segments"]]
        figures = pane(page, found["name"]).locator(".rl-figures li").all_inner_texts()
        assert figures == found["says"]


def test_neighbouring_chunks_differ_in_colour_and_each_boundary_has_its_number(show):
    made = a_map()
    page = show(made)
    marks = pane(page, "sentences").locator(".rl-boundary")
    assert marks.all_inner_texts() == [str(n) for n in range(len(made.data["maps"][1]["chunks"]))]
    colour = "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    tints = pane(page, "sentences").locator(".rl-document [class*='rl-segment rl-tint']")
    found = tints.evaluate_all(colour)
    assert len(set(found)) == 4
    assert "rgba(0, 0, 0, 0)" not in found
    edges = marks.evaluate_all("(nodes) => nodes.map((n) => getComputedStyle(n).borderLeftWidth)")
    assert set(edges) == {"4px"}


def test_overlaps_are_striped_with_their_extent_and_unread_text_is_grey(show):
    page = show(a_map())
    overlap = pane(page, "fixed").locator(".rl-overlap").first
    image = overlap.evaluate("(node) => getComputedStyle(node).backgroundImage")
    assert image.startswith("repeating-linear-gradient")
    assert pane(page, "fixed").locator(".rl-note-shared").first.inner_text() == "6 shared"
    assert pane(page, "fixed").locator(".rl-note-end").first.inner_text() == "0 ends"
    unread = pane(page, "whole").locator(".rl-document .rl-unread").last
    assert TEXT.endswith(unread.inner_text()[-30:])
    past = pane(page, "whole").locator(".rl-note-unread").inner_text()
    assert re.fullmatch(r"\d+ not read", past)


def test_quotes_are_drawn_as_held_or_severed(show):
    made = a_map(shown=["sentences", "whole"])
    page = show(made)
    line = "(node) => getComputedStyle(node).textDecorationLine + getComputedStyle(node)"
    severed = pane(page, "sentences").locator(".rl-document .rl-severed").first
    assert severed.evaluate(f"{line}.textDecorationStyle") == "underlinedashed"
    assert pane(page, "sentences").locator(".rl-note-severed").first.inner_text() == "✂"
    whole = pane(page, "whole").locator(".rl-document .rl-whole").first
    assert whole.evaluate(f"{line}.textDecorationStyle") == "underlinesolid"
    told = pane(page, "sentences").get_by_role("listitem").all_inner_texts()
    assert any("Quote 1 is severed: no chunk holds it whole." in words for words in told)
    assert any("Quote 3 is not in this document." in words for words in told)


def test_sections_of_parents_are_marked(show):
    page = show(a_map(shown=["parents"]))
    assert pane(page, "parents").locator(".rl-note-section").first.inner_text() == "§1"
    pane(page, "parents").locator(".rl-boundary").first.hover()
    assert "stands for section §1" in facts(page)


# -- choosing ------------------------------------------------------------------------------------


def test_pointing_and_clicking_tell_of_a_chunk_in_a_line_that_stays(show):
    page = show(a_map())
    assert facts(page).startswith("Point at a chunk")
    height = page.locator(".rl-line-of-facts").bounding_box()["height"]
    pane(page, "sentences").locator(".rl-boundary").nth(1).hover()
    assert facts(page).startswith("sentences: refunds#1 · Refunds · ")
    assert "word pieces" in facts(page)
    assert page.locator(".rl-line-of-facts").bounding_box()["height"] == height
    page.mouse.move(2, 2)
    assert facts(page).startswith("Point at a chunk")
    pane(page, "fixed").locator(".rl-boundary").nth(0).click()
    page.locator("h1").hover()
    assert facts(page).startswith("fixed: refunds#0 · ")
    assert "shares 6 word pieces with chunk 1" in facts(page)
    assert page.locator(".rl-boundary.rl-chosen").count() == 1
    assert announced(page).startswith("Chose fixed: refunds#0")
    page.keyboard.press("Escape")
    assert page.locator(".rl-chosen").count() == 0


def test_the_keyboard_alone_reaches_every_chunk(show):
    made = a_map()
    page = show(made)
    assert page.locator(".rl-boundary[tabindex='0']").count() == 3  # one for each pane
    page.locator(".rl-pane[aria-label='sentences'] .rl-boundary[tabindex='0']").focus()
    last = len(made.data["maps"][1]["chunks"]) - 1
    for key, number in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("End", last)):
        page.keyboard.press(key)
        name = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert name.startswith(f"Chunk {number}: refunds#{number}, ")
        assert facts(page).startswith(f"sentences: refunds#{number} ")
    box = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
    sheet = page.locator(".rl-pane[aria-label='sentences'] .rl-sheet-of-text").bounding_box()
    assert sheet["y"] < box < sheet["y"] + sheet["height"]
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert announced(page).startswith("Chose sentences: refunds#0")


def test_the_focus_ring_is_for_the_keyboard_alone(show):
    page = show(a_map())
    ring = "getComputedStyle(document.activeElement).outlineStyle"
    pane(page, "fixed").locator(".rl-document .rl-segment").nth(1).click()
    assert page.evaluate("document.activeElement.className").startswith("rl-boundary")
    assert page.evaluate(ring) == "none"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(ring) == "solid"


def test_plain_keys_stay_inside_and_tab_and_shortcuts_do_not(show):
    page = show(a_map())
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")
    page.locator(".rl-boundary[tabindex='0']").first.focus()
    for key in ("d", "d", "Enter", "ArrowDown", "Control+k", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == ["Control", "k", "Tab"]


# -- controls ------------------------------------------------------------------------------------


def test_without_a_kernel_there_is_no_slider_and_the_strategies_can_be_hidden(show):
    page = show(a_map())
    assert page.get_by_role("slider").count() == 0
    assert page.get_by_role("button", name="As given").count() == 0
    assert page.get_by_role("checkbox").count() == 3
    page.get_by_role("checkbox", name="whole").uncheck()
    assert page.locator(".rl-pane").count() == 2
    assert announced(page) == "Shown: fixed, sentences."
    page.get_by_role("checkbox", name="fixed").uncheck()
    assert page.get_by_role("checkbox", name="sentences").is_disabled()  # one stays


def test_sliders_are_labelled_and_set_the_settings(show):
    page = show(a_map(), live=True)
    size = page.get_by_role("slider", name="Chunk size, word pieces")
    size.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(150)
    assert trait(page, "settings") == {"size": 26}
    overlap = page.get_by_role("slider", name="Overlap, word pieces")
    overlap.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(150)
    assert trait(page, "settings") == {"size": 26, "overlap": 5}
    page.get_by_role("button", name="As given").click()
    assert trait(page, "settings") == {}
    assert size.input_value() == "23"
    assert page.evaluate("document.activeElement.type") == "range"  # the focus is not lost


def test_a_fourth_strategy_has_to_wait_until_one_is_taken_away(show):
    page = show(a_map(), live=True)
    parents = page.get_by_role("checkbox", name="parents")
    assert parents.is_disabled()
    page.get_by_role("checkbox", name="fixed").uncheck()
    parents.check()
    assert trait(page, "shown") == ["sentences", "whole", "parents"]


def test_new_data_keeps_the_focus_and_says_what_changed(show):
    made = a_map()
    page = show(made, live=True)
    page.locator(".rl-boundary[tabindex='0']").first.focus()
    page.keyboard.press("ArrowRight")
    made.settings = {"size": 30}
    page.evaluate(
        "([data, status]) => { const { model } = document.getElementById('raglab-flow');"
        " model.set('status', status); model.set('data', data); }",
        [made.data, made.status],
    )
    assert page.evaluate("document.activeElement.textContent") == "1"
    assert made.status in announced(page)
    assert facts(page).startswith("fixed: refunds#1 ")


def test_a_long_document_is_turned_part_by_part(show):
    made = a_map(TEXT * 103, quotes=())
    assert len(TEXT * 103) > 100_000
    page = show(made, live=True)
    bar = page.get_by_role("group", name="Parts of the document")
    assert f"of {len(TEXT * 103):,}." in bar.inner_text()
    assert bar.get_by_role("button", name="Previous part").is_disabled()
    bar.get_by_role("button", name="Next part").click()
    assert trait(page, "settings") == {"part": 1}
    assert len(page.locator(".rl-document").first.inner_text()) < 20_000


# -- safety, layout, names -----------------------------------------------------------------------


def test_a_hostile_document_is_inert_everywhere(show):
    made = a_map(f"{HOSTILE} {TEXT} {HOSTILE}", title=HOSTILE, quotes=(HOSTILE, "x" + HOSTILE))
    page = show(made, state={"status": HOSTILE})
    pane(page, "whole").locator(".rl-boundary").first.click()
    assert HOSTILE in facts(page)
    assert HOSTILE in pane(page, "whole").locator(".rl-document").inner_text()
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    assert page.locator("[onload], [onerror]").count() == 0
    assert page.locator(".rl-status").inner_text() == HOSTILE


def test_the_page_is_no_wider_than_a_telephone(show):
    page = show(a_map(TEXT + "x" * 300), viewport={"width": 390, "height": 844}, live=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    widths = page.locator(".rl-sheet-of-text").evaluate_all(
        "(nodes) => nodes.map((node) => node.scrollWidth - node.clientWidth)"
    )
    assert widths == [0, 0, 0]
    tops = [page.locator(".rl-pane").nth(n).bounding_box()["y"] for n in range(3)]
    assert tops[0] < tops[1] < tops[2]  # one below another


def test_reduced_motion_moves_nothing(show):
    page = show(a_map(), reduced_motion="reduce")
    pane(page, "fixed").locator(".rl-boundary").nth(1).click()
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    for shown in (["fixed", "sentences", "whole"], ["parents"]):
        made = a_map(shown=shown)
        page = show(made, live=True, color_scheme=scheme, state={"status": "Now 3 chunks."})
        for act in ("rest", "chosen"):
            if act == "chosen":
                pane(page, shown[0]).locator(".rl-boundary").nth(1).click()
            found = Axe().run(page).response["violations"]
            told = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found]
            assert not told, f"{shown}, {act}, {scheme}: {told}"


INKS = """() => {
  const nodes = [...document.querySelectorAll('.rl-document .rl-segment, .rl-boundary')];
  const styles = nodes.map((node) => getComputedStyle(node));
  return styles.map((style) => [style.color, style.backgroundColor]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_tint(show, scheme):
    page = show(a_map(), color_scheme=scheme)
    pairs = {tuple(pair) for pair in page.evaluate(INKS)}
    assert len(pairs) > 8
    for ink, ground in pairs:
        if ground != "rgba(0, 0, 0, 0)":
            low, high = sorted((luminance(ink), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{ink} on {ground}"


def luminance(colour):
    channels = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
