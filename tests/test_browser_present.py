"""A notebook as slides in a real browser: keys and buttons, live panels, and no network.

One page and one kernel serve all these tests, and each of them turns to the slide that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from browser import assert_stayed_here, need_browser, open_browser, watch_requests
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from presenting import presenting

PROJECTOR = {"width": 1280, "height": 720}
PANEL = """
from IPython.display import display
from markupsafe import Markup
from raglab.views.panel import Drawing, Knob, Panel

def draw(k):
    return Drawing(Markup("<p>drawn for {}</p>").format(k), f"The knob stands at {k}.")

display(Panel("Turn it", draw, [Knob("k", "Depth", 10, low=1, high=50)]))
print("after the panel")
"""
TABLE = "for row in range(3): print('x' * 99, 'y' * 20)\nprint('done')"
PRINTED = [new_output("stream", text="kept\n")]


def cell(source: str, *, silent: bool = False) -> nbformat.NotebookNode:
    return new_code_cell(source, outputs=[] if silent else PRINTED)


CELLS = [
    new_markdown_cell("# A small deck\n\nAim."),
    new_markdown_cell("## Words\n\nWith $x^2$ and `code`."),
    cell("import time\ntime.sleep(2)\nprint('printed')"),
    new_markdown_cell("## A panel\n\nTurn the knob."),
    cell(PANEL),
    new_markdown_cell("## Set up"),
    cell("y = 1", silent=True),
    new_markdown_cell("## Build\n\nIn one line:"),
    cell("z = 2", silent=True),
    new_markdown_cell("## A table\n\nWide.\n\n## It fails\n\nOn purpose."),
    cell("1 / 0"),
    new_markdown_cell("## Last\n\nThe end."),
    cell(TABLE),
]
TITLES = ("A small deck", "Words", "A panel", "Set up", "A table", "It fails", "Last")
COUNT = len(TITLES)


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page, once every cell has run."""
    need_browser()
    folder = tmp_path_factory.mktemp("deck")
    nbformat.write(new_notebook(cells=CELLS), folder / "deck.ipynb")
    home = tmp_path_factory.mktemp("home")
    with presenting(folder / "deck.ipynb", home) as shown, open_browser() as browser:
        context = browser.new_context(viewport=PROJECTOR)  # type: ignore[attr-defined]
        asked, errors = watch_requests(context), []
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(WATCH_STATUS + LATE_KERNEL)
        page.goto(shown.address)
        page.wait_for_function(
            "window.said.some((text) => /cell failed/.test(text))", timeout=90_000
        )
        page.root, page.cookie = shown.root, shown.cookie
        yield page
        context.close()
        assert_stayed_here(asked)
        assert not errors, errors


# Every text that the status has held.
WATCH_STATUS = """
window.said = [];
document.addEventListener("DOMContentLoaded", () => {
  const status = document.getElementById("deck-status");
  const note = () => window.said.push(status.textContent);
  new MutationObserver(note).observe(status, { childList: true });
  note();
});
"""

# What the kernel says comes late, as on a slow network: results are there before their widgets.
LATE_KERNEL = """
const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  set onmessage(act) {
    super.onmessage = this.url.includes("/channels") ? (event) => setTimeout(act, 300, event) : act;
  }
};
"""


def to(page: Any, slide: int) -> None:
    """Slide `slide`, counted from 1, with no focus anywhere."""
    page.evaluate("document.activeElement.blur()")
    page.evaluate(f"location.hash = '#{slide}'")
    page.wait_for_function(
        f"document.getElementById('deck-count').textContent === '{slide} of {COUNT}'"
    )


def at(page: Any) -> int:
    """The slide that is shown, after a look at all that tells it."""
    (shown,) = page.evaluate(
        "[...document.querySelectorAll('.deck-slide')].flatMap((s, n) => s.inert ? [] : [n + 1])"
    )
    assert page.locator("#deck-count").inner_text() == f"{shown} of {COUNT}"
    assert page.url.endswith(f"/#{shown}")
    live = page.locator("#deck-live").inner_text()
    assert live == f"Slide {shown} of {COUNT}: {TITLES[shown - 1]}"
    assert page.get_by_role("group", name=TITLES[shown - 1], exact=True).is_visible()
    return int(shown)


def printed(page: Any) -> Any:
    return page.locator(".deck-now .jp-OutputArea-output > pre")


def test_it_says_what_it_is_doing(deck: Any) -> None:
    said = deck.evaluate("window.said")
    assert said[0] == "Starting Python"
    running = [
        int(found[1]) for text in said if (found := re.search(r"^Running cell (\d) of 6$", text))
    ]
    assert running == sorted(running)
    assert 1 in running
    assert deck.locator("#deck-status").inner_text() == "A cell failed on slide 6"


def test_keys_turn_the_slides(deck: Any) -> None:
    to(deck, 1)
    for key, slide in (
        ("ArrowRight", 2),
        ("PageDown", 3),
        ("ArrowLeft", 2),
        ("PageUp", 1),
        ("ArrowLeft", 1),
        ("End", COUNT),
        ("ArrowRight", COUNT),
        ("Home", 1),
        ("Control+ArrowRight", 1),
    ):
        deck.keyboard.press(key)
        assert at(deck) == slide, key


def test_buttons_turn_the_slides_and_keep_the_focus(deck: Any) -> None:
    to(deck, COUNT - 1)
    following = deck.get_by_role("button", name="Next")
    following.click()
    assert at(deck) == COUNT
    assert following.get_attribute("aria-disabled") == "true"
    deck.keyboard.press("ArrowLeft")  # the focus is on a button that has nothing more to do
    assert at(deck) == COUNT - 1
    assert following.get_attribute("aria-disabled") == "false"
    deck.get_by_role("button", name="Previous").click()
    assert at(deck) == COUNT - 2


def test_the_address_keeps_the_place(deck: Any) -> None:
    for wanted, slide in (("#3", 3), ("#99", COUNT), ("#0", 1), ("#nonsense", 1)):
        deck.evaluate(f"location.hash = '{wanted}'")
        deck.wait_for_function(f"location.hash === '#{slide}'")
        assert at(deck) == slide
    assert "token" not in deck.url


def test_a_knob_is_live_and_its_arrows_turn_no_slide(deck: Any) -> None:
    to(deck, 3)
    deck.get_by_role("slider", name="Depth").focus()
    assert "Esc" in deck.locator("#deck-hint").inner_text()
    before = int(deck.get_by_role("slider", name="Depth").input_value())
    deck.keyboard.press("ArrowRight")
    deck.keyboard.press("ArrowRight")
    deck.get_by_text(f"drawn for {before + 2}").wait_for()  # Python drew it
    deck.keyboard.press("PageDown")
    deck.keyboard.press("c")
    assert at(deck) == 3
    assert deck.get_by_role("button", name="Code").get_attribute("aria-pressed") == "false"
    deck.keyboard.press("Escape")
    deck.wait_for_function("!document.getElementById('deck-hint').textContent.includes('Esc')")
    deck.keyboard.press("ArrowRight")
    assert at(deck) == 4


def test_what_follows_a_panel_in_its_cell_is_shown(deck: Any) -> None:
    to(deck, 3)
    assert printed(deck).inner_text().strip() == "after the panel"


def test_code_is_hidden_until_it_is_asked_for(deck: Any) -> None:
    to(deck, 2)
    code = deck.locator(".deck-now .jp-InputArea-editor")
    button = deck.get_by_role("button", name="Code")
    assert (code.count(), code.is_visible(), button.get_attribute("aria-pressed")) == (
        1,
        False,
        "false",
    )
    deck.keyboard.press("c")
    assert (code.is_visible(), button.get_attribute("aria-pressed")) == (True, "true")
    assert "time.sleep(2)" in code.inner_text()
    button.click()
    assert (code.is_visible(), button.get_attribute("aria-pressed")) == (False, "false")
    to(deck, 1)
    assert not button.is_visible()  # there is none to show


def test_a_slide_with_nothing_but_code_to_show_shows_it(deck: Any) -> None:
    to(deck, 4)  # "Set up" shows nothing, so it shares a slide with "Build"
    headings = deck.locator(".deck-now h2").all_inner_texts()
    assert [text.rstrip("¶") for text in headings] == ["Set up", "Build"]
    assert deck.locator(".deck-now .jp-InputArea-editor").last.is_visible()


def test_an_error_is_shown_and_what_follows_still_runs(deck: Any) -> None:
    to(deck, 6)
    assert "ZeroDivisionError" in deck.locator(".deck-now").inner_text()
    to(deck, 7)
    assert printed(deck).inner_text().strip().endswith("done")


def test_type_is_large_and_nothing_is_cut_off(deck: Any) -> None:
    size = "(node) => parseFloat(getComputedStyle(node).fontSize)"
    for slide in range(1, COUNT + 1):
        to(deck, slide)
        words = deck.locator(".deck-now .jp-RenderedMarkdown p")
        assert all(words.nth(n).evaluate(size) >= 20 for n in range(words.count()))
        assert deck.evaluate("document.documentElement.scrollWidth") <= PROJECTOR["width"]
    to(deck, 3)  # a panel's own type is 13 px and more
    assert (
        13
        * float(deck.locator(".deck-now .raglab-flow").evaluate("(n) => getComputedStyle(n).zoom"))
        >= 18
    )
    to(deck, 7)  # 120 letters a row, and each row on a line of its own
    table = printed(deck)
    assert table.evaluate(size) >= 15
    lines = table.evaluate(
        "(n) => n.getBoundingClientRect().height / parseFloat(getComputedStyle(n).lineHeight)"
    )
    assert 4 <= round(lines, 1) < 5.5


def test_what_an_output_would_load_from_elsewhere_is_not_loaded(deck: Any) -> None:
    blocked = deck.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", (event) => done(event.blockedURI));
          const picture = document.createElement("img");
          picture.src = "http://127.0.0.1:9/picture.png";  // another port is another place
        })"""
    )
    assert blocked.startswith("http://127.0.0.1:9/")


@pytest.mark.parametrize("slide", [1, 2, 3, 4, 6])
def test_axe_finds_nothing_to_mend(deck: Any, slide: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    to(deck, slide)
    found = Axe().run(deck).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told


def test_a_page_that_closes_ends_its_kernel(deck: Any) -> None:
    """The last test: it closes the page that the others used."""
    config = deck.locator("#jupyter-config-data").text_content()
    kernel = re.search(r'"kernelId": "([^"]+)"', config)
    assert kernel
    context, address = deck.context, f"{deck.root}/api/kernels/{kernel[1]}"
    assert context.request.get(address).status == 200
    deck.close(run_before_unload=True)
    for _ in range(100):
        if context.request.get(address).status == 404:
            return
        context.new_page().wait_for_timeout(100)
    pytest.fail("its kernel runs on")
