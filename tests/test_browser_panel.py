"""A panel as a page, in a real browser: knobs, linked marks, the keyboard, hostile text."""

from __future__ import annotations

import pytest
from browser import Pages, open_browser, with_state
from markupsafe import Markup

from raglab.types import Part
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import Mark, Point, bars, curves, heat, scatter, side, slopes

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"
LONG = "x" * 400


def draw(k=10, way="rrf", query="refund"):
    rows = [(f"chunk#{n}", [Part("dense", 1 / n), Part("sparse", 0.5)]) for n in (1, 2, 3)]
    points = [Point(f"chunk#{n}", n, n % 2, f"chunk {n}", "policy", n == 1) for n in (1, 2, 3)]
    table = heat(["ref", query], ["refund", LONG], [[0.9, 0.1], [0.2, 0.4]], pointed=[0, 1])
    more = Markup('<details data-fold="more"><summary>k is {}</summary>{}</details>')
    html = Markup("").join(
        (
            side(bars(rows), scatter(points, note="a map")),
            table,
            curves({"recall": [(1, 0.5), (k, 1.0)]}, "k", "recall", marks=[Mark(k, 1.0, "here")]),
            slopes(["a", query], [query, "a"], [query]),
            more.format(k, way),
        )
    )
    return Drawing(html, f"k is {k}, {way}, {query}.")


def a_panel(query="refund"):
    knobs = [
        Knob("k", "RRF's k", 10, low=1, high=200, help="Usual: 60."),
        Knob("way", "Way", "rrf", choices=("rrf", "sum")),
        Knob("query", "Query", query),
    ]
    return Panel("Fusion", draw, knobs)


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
            text = with_state(text, {"knobs": made.knobs, "settings": made.settings})
        return pages.open(text, wait=".rl-picture svg", **settings)

    yield open_page
    pages.close()


def trait(page, name):
    return page.evaluate(f"document.getElementById('raglab-flow').model.get('{name}')")


def test_without_a_kernel_there_is_no_knob(show):
    page = show(a_panel(), live=False)
    assert page.locator("input, select").count() == 0
    assert page.locator(".rl-says").inner_text() == "k is 10, rrf, refund."


def test_each_knob_is_labelled_and_sets_the_settings(show):
    page = show(a_panel())
    page.get_by_role("slider", name="RRF's k").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(150)
    assert trait(page, "settings")["k"] == 11
    page.get_by_role("combobox", name="Way").select_option("sum")
    page.wait_for_timeout(150)
    assert trait(page, "settings") == {"k": 11, "way": "sum", "query": "refund"}
    box = page.get_by_role("textbox", name="Query")
    box.fill("late fee")
    box.press("Enter")
    page.wait_for_timeout(150)
    assert trait(page, "settings")["query"] == "late fee"


def test_a_new_picture_keeps_open_what_was_open_and_is_announced(show):
    page = show(a_panel())
    page.get_by_text("k is 10", exact=True).click()
    other = draw(k=20)
    page.evaluate(
        """([html, words]) => {
          const model = document.getElementById("raglab-flow").model;
          model.set("html", html); model.set("words", words);
        }""",
        [str(other.html), other.words],
    )
    assert page.locator("details[open]").count() == 1
    assert page.locator(".rl-live").inner_text() == other.words


def test_the_same_thing_lights_up_in_both_pictures(show):
    page = show(a_panel())
    page.locator("tr[data-key='chunk#2']").hover()
    lit = page.locator(".rl-warm").evaluate_all("nodes => nodes.map(n => n.dataset.key)")
    assert lit.count("chunk#2") == 2  # its bar, and its point on the map
    assert {key for key in lit if key.startswith("chunk")} == {"chunk#2"}


def test_plain_keys_stay_inside(show):
    page = show(a_panel())
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")
    page.locator(".rl-picture").focus()
    for key in ("d", "d", "Control+k", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == ["Control", "k", "Tab"]


def test_hostile_text_is_inert(show):
    page = show(a_panel(HOSTILE))
    assert page.evaluate("window.hit") is None
    assert page.locator(".raglab-panel img, .raglab-panel script").count() == 0
    assert HOSTILE[:20] in page.locator(".rl-says").inner_text()


def test_the_second_lock_takes_out_what_could_run(show):
    """Were Python ever to forget an escape, the script still lets nothing in that runs."""
    page = show(a_panel())
    page.evaluate("""() => document.getElementById("raglab-flow").model.set("html",
      '<p id="p">text<script>window.hit=1</scr' + 'ipt>' +
      '<iframe srcdoc="x"></iframe><a href="javascript:1">a</a></p>')""")
    page.locator("#p").click()
    assert page.evaluate("window.hit") is None
    assert page.locator(".rl-picture").inner_html() == '<p id="p">text<a>a</a></p>'


def test_the_page_is_no_wider_than_a_telephone(show):
    page = show(a_panel(), viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = show(a_panel(), color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told, f"{scheme}: {told}"
