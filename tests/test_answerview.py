"""Panels for the prompt and the answer: what they show is what there is, and text stays text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from browser import Pages, open_browser
from fakes import chunk, ranking

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.citations import check
from raglab.answer.grounded import SYSTEM, grounded_prompt, read_answer
from raglab.answer.injection import naive_prompt
from raglab.types import REFUSAL, Answer, Citation, Context, Query, RagLabError
from raglab.views.answerview import (
    answers_panel,
    budget_drawing,
    budget_panel,
    citation_drawing,
    citation_panel,
    prompt_drawing,
    prompt_panel,
)
from raglab.views.panel import Panel
from raglab.views.refusalview import refusal_panel

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"
TEXTS = {
    "a#0": "A refund takes five days from the day of approval. Ask the billing owner.",
    "b#0": "Limits count by the minute and by the key.",
    "c#0": "Nobody reads this one, and it is longer than the other two are together, or so it is.",
    "d#0": "Cut.",
}
REPLY = """A refund takes five days. [1: "A refund takes five days"]
It runs from approval. [1: "five days from the day of approval"]
Limits count by the key. [2: "by the minute and by the key"] [9: "no"]
Snow falls."""


def assemble(query: str, *, keep: int = 3, budget: int = 45, order: str = "best first") -> Context:
    texts = {name: text if query == "refund" else query for name, text in TEXTS.items()}
    hits = ranking(*texts, texts=texts) if query.strip() else ()
    assembler = BudgetAssembler(lambda text: len(text.split()), keep, budget, order)
    return assembler.assemble(Query("q", query), hits)


def plain(markup: object) -> str:
    """What a reader sees, without tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", str(markup))).split())


# -- the budget -----------------------------------------------------------------------------------


def test_the_bar_is_the_budget() -> None:
    """Fences take 5 words each: 5 + 14 and 5 + 9 of 50, so 38% and 28%; c would take 5 + 18."""
    drawing = budget_drawing(assemble("refund", budget=50), {"b#0", "c#0", "z#0"})
    assert drawing.words == (
        "2 sources take 33 of 50 tokens; 17 are left. Over the budget: c#0. "
        "★ b#0 is [2]. ★ c#0: over the budget by 6 tokens. ★ z#0: not among the hits."
    )
    assert re.findall(r"width:([\d.]+)%", str(drawing.html)) == ["38.00", "28.00"]
    assert "17 left" in drawing.html
    assert re.findall(r"<b style[^>]*>([^<]*)</b></span>", str(drawing.html)) == ["1", "★2"]
    assert "★ c#0: over the budget by 6 tokens (it takes 23)" in plain(drawing.html)
    assert "1 more were cut by their rank" in plain(drawing.html)


def test_each_knob_of_the_budget_assembles_again() -> None:
    panel = budget_panel(assemble, "refund", lambda query: ["b#0"], keep=3, budget=400)
    assert panel.words.startswith("3 sources take 56 of 400 tokens")
    panel.turn(keep=1)
    assert panel.words.startswith("1 source takes 19 of 400 tokens")
    assert "★ b#0: rank 2, cut at 1." in panel.words
    panel.turn(keep=3, order="best at both ends")
    assert "★ b#0 is [3]." in panel.words
    panel.turn(budget=100)
    assert panel.words.startswith("3 sources take 56 of 100 tokens")
    panel.turn(order="worst first")
    assert "choose one of best first, best at both ends" in panel.status
    panel.turn(order="best first", query=" ")
    assert panel.words == "Nothing was found, so the prompt holds no source."


def test_a_source_keeps_its_colour_when_the_order_changes() -> None:
    """Ranks 1 2 3 become 1 3 2. A colour is of a rank, not of a place."""

    def colours(order: str) -> dict[str, str]:
        bar = str(budget_drawing(assemble("refund", budget=400, order=order)).html)
        pairs = re.findall(r'<span data-key="([^"]*)"[^>]*background:(var[^;]*);', bar)
        return dict(pairs)

    first, ends = colours("best first"), colours("best at both ends")
    assert list(first) == ["a#0", "b#0", "c#0"]
    assert list(ends) == ["a#0", "c#0", "b#0"]
    assert first == ends
    assert len(set(first.values())) == 3


def test_a_context_that_tells_no_tokens_is_drawn_without() -> None:
    context = replace(assemble("refund"), spent=())
    assert "★ a#0 is [1]." in budget_drawing(context, ["a#0"]).words


# -- the prompt -----------------------------------------------------------------------------------


def grounded(query: str, context: Context) -> tuple[str, str]:
    return SYSTEM, grounded_prompt(Query("q", query), context)


def naive(query: str, context: Context) -> tuple[str, str]:
    return "", naive_prompt(Query("q", query), context)


def pieces(drawing: object) -> list[tuple[str, str]]:
    found = re.findall(r'<div data-key="([^"]*)"[^>]*>.*?<pre[^>]*>(.*?)</pre>', str(drawing), re.S)
    return [(key, html.unescape(text)) for key, text in found]


def test_the_prompt_is_shown_letter_for_letter_and_a_source_is_a_piece() -> None:
    context = assemble("refund", budget=400)
    for make in (grounded, naive):
        system, prompt = make("refund", context)
        shown = pieces(prompt_drawing(system, prompt, context).html)
        rules = [text for key, text in shown if key == "the rules"]
        assert rules == ([system] if system else [])
        sent = [(key, text) for key, text in shown if key != "the rules"]
        at = 0
        for _, text in sent:
            place = prompt.index(text, at)
            assert not prompt[at:place].strip()
            at = place + len(text)
        assert not prompt[at:].strip()
        assert [key for key, _ in sent if "#" in key] == ["a#0", "b#0", "c#0"]
        for hit, (key, text) in zip(context.kept, [x for x in sent if "#" in x[0]], strict=True):
            assert key == hit.chunk.chunk_id
            assert hit.chunk.text in text


def test_the_panel_says_whether_tags_stand_around_the_sources() -> None:
    panel = prompt_panel(assemble, {"grounded": grounded, "naive": naive}, "refund")
    assert panel.words.endswith("Each source stands between tags.")
    panel.turn(prompt="naive")
    assert panel.words.startswith("0 characters of rules")
    assert panel.words.endswith("Nothing tells a source from a rule.")
    assert "No rules are sent." in panel.html
    panel.turn(query=" ")
    assert panel.status == ""


# -- the citations --------------------------------------------------------------------------------


def cited(reply: str = REPLY) -> tuple[Answer, Context, tuple[Any, ...]]:
    context = assemble("refund", budget=400)
    answer = read_answer(reply, context, "written for a test")
    return answer, context, check(answer, context)


def lit(markup: object, key: str) -> list[str]:
    """The pieces of sources that carry a sentence's key."""
    parts = re.split(rf'<span data-key="{re.escape(key)}">', str(markup))[1:]
    return [plain(part.partition("</mark>")[0]) for part in parts]


def test_a_sentence_and_its_quotes_carry_the_same_key() -> None:
    """Quotes 1 and 2 overlap in "five days": that piece carries both keys."""
    drawing = citation_drawing(*cited())
    assert lit(drawing.html, "sentence 1") == ["A refund takes", "five days"]
    assert lit(drawing.html, "sentence 2") == ["five days", "from the day of approval"]
    assert lit(drawing.html, "sentence 3") == ["by the minute and by the key"]
    assert lit(drawing.html, "sentence 4") == []
    without_names = re.sub(r"<sup.*?</sup>", "", str(drawing.html))
    whole = html.unescape(re.sub(r"<[^>]+>", "", without_names))
    assert TEXTS["a#0"] in whole
    assert "Not cited: [3] c#0" in plain(drawing.html)


def test_findings_stand_below_their_sentence_and_in_the_words() -> None:
    drawing = citation_drawing(*cited())
    assert drawing.words == (
        "4 sentences, 4 citations of 2 sources. Found wrong: sentence 3, unknown source; "
        "sentence 4, no citation. Origin: written for a test."
    )
    third, fourth = (
        plain(part) for part in str(drawing.html).split('<li data-key="sentence ')[3:5]
    )
    assert "✕ Unknown source. [9] was never given" in third
    assert "✕ No citation. This sentence cites no source." in fourth
    sound = citation_drawing(*cited(REPLY.split("\n")[0]))
    assert "1 sentence, 1 citation of 1 source. Nothing was found wrong." in sound.words


def test_a_refusal_and_an_answer_without_sentences() -> None:
    answer, context, findings = cited(REFUSAL)
    assert citation_drawing(answer, context, findings).words.startswith("A refusal:")
    quote = "Ask the billing owner."
    whole = Answer(f"{quote} [1]", (Citation(1, "a#0", quote),), False, "extractive")
    drawing = citation_drawing(whole, context)
    assert lit(drawing.html, "sentence 1") == [quote]


def test_answers_one_at_a_time() -> None:
    replies = {"first": REPLY, "second": REFUSAL}
    panel = answers_panel(lambda question: cited(replies[question]), tuple(replies))
    assert panel.words.startswith("4 sentences")
    assert panel.turn(question="second").words.startswith("A refusal:")


# -- refusing -------------------------------------------------------------------------------------

NOTHING, SOMETHING = (0.1, 0.25, 0.4), (0.2, 0.35, 0.5, 0.55)


def test_a_threshold_refuses_what_lies_below_it() -> None:
    """Below 0.30 lie 0.1 and 0.25 of the one group, and 0.2 of the other."""
    panel = refusal_panel(NOTHING, SOMETHING, threshold=0.3)
    assert panel.words == (
        "Below 0.30, 2 of 3 questions that nothing answers are refused, as they should be. "
        "So are 1 of 4 whose evidence is in the context: wrongly."
    )
    assert "2 of 3</text>" in panel.html
    assert "1 of 4</text>" in panel.html
    panel.turn(threshold=0.5)  # what lies on it is not below it
    assert panel.words.startswith("Below 0.50, 3 of 3")
    assert "So are 2 of 4" in panel.words
    panel.turn(threshold=0.7)
    assert "a number from 0.0 to 0.6" in panel.status


def test_the_curves_only_rise_and_pass_through_the_marks() -> None:
    """A mark stands on its curve: at 0.3 the share is 2/3 of the one group, 1/4 of the other."""
    html_ = str(refusal_panel(NOTHING, SOMETHING, threshold=0.3).html)
    lines = [
        [tuple(map(float, step.split())) for step in path.removeprefix("M ").split(" L ")]
        for path in re.findall(r'<path d="(M [^"]*)" fill="none"', html_)
    ]
    dots = [tuple(map(float, at)) for at in re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', html_)]
    assert len(lines) == len(dots) == 2
    for line, dot in zip(lines, dots, strict=True):
        assert dot in line
        assert all(before[1] >= after[1] for before, after in pairwise(line))  # down is up in SVG


def test_a_curve_needs_both_groups() -> None:
    with pytest.raises(RagLabError, match="at least one of each"):
        refusal_panel((), SOMETHING)


# -- any text, and any viewer ---------------------------------------------------------------------


def hostile() -> tuple[Answer, Context, tuple[Any, ...]]:
    hits = ranking(f"a#{HOSTILE}", texts={f"a#{HOSTILE}": f"words {HOSTILE} more"})
    hits = (replace(hits[0], chunk=replace(hits[0].chunk, heading=HOSTILE)),)
    context = BudgetAssembler(lambda text: len(text.split())).assemble(Query("q", HOSTILE), hits)
    answer = read_answer(f'{HOSTILE} [1: "words"] [1: "{HOSTILE}!"]', context, HOSTILE)
    return answer, context, check(answer, context)


def panels() -> dict[str, Panel]:
    return {
        "budget": budget_panel(assemble, "refund", lambda query: ["b#0"]),
        "prompt": prompt_panel(assemble, {"grounded": grounded, "naive": naive}, "refund"),
        "citations": citation_panel(*cited()),
        "refusals": refusal_panel(NOTHING, SOMETHING),
    }


def hostile_panels() -> dict[str, Panel]:
    answer, context, findings = hostile()
    prompts = {"grounded": lambda query, context: grounded(HOSTILE, context)}
    return {
        "budget": budget_panel(lambda query, **_: context, HOSTILE, lambda query: [HOSTILE]),
        "prompt": prompt_panel(lambda query: context, prompts, HOSTILE),
        "citations": citation_panel(answer, context, findings),
    }


@pytest.mark.parametrize("name", ["budget", "prompt", "citations"])
def test_hostile_text_stays_text(name: str) -> None:
    made = hostile_panels()[name]
    assert "<script" not in made.html
    assert "<img" not in made.html
    assert "&lt;script&gt;" in made.html


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def pages(chromium: object, tmp_path) -> Iterator[Pages]:  # type: ignore[no-untyped-def]
    opened = Pages(chromium, tmp_path)
    yield opened
    opened.close()  # fails where a page asked the network, or its script failed


@pytest.mark.parametrize("name", ["budget", "prompt", "citations", "refusals"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_page_stands_alone_and_axe_finds_nothing_to_mend(
    pages: Pages, name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = pages.open(panels()[name].page(), wait=".rl-picture *", color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told, f"{name}, {scheme}: {told}"


@pytest.mark.parametrize("name", ["budget", "prompt", "citations"])
def test_hostile_pages_are_inert_and_no_wider_than_a_telephone(pages: Pages, name: str) -> None:
    page = pages.open(
        hostile_panels()[name].page(), wait=".rl-picture *", viewport={"width": 390, "height": 844}
    )
    assert page.evaluate("window.hit") is None
    assert page.locator(".raglab-panel img, .raglab-panel script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_pointing_and_the_keyboard_light_a_sentence_with_its_quotes(pages: Pages) -> None:
    page = pages.open(panels()["citations"].page(), wait=".rl-picture *")

    def warm() -> list[str]:
        nodes = page.locator(".rl-warm mark, mark:has(.rl-warm), .rl-warm > mark")
        return sorted({text.strip() for text in nodes.all_inner_texts()})

    page.locator("li[data-key='sentence 2']").hover()
    assert warm() == ["five days", "from the day of approval"]
    page.locator("li[data-key='sentence 3']").focus()
    assert warm() == ["by the minute and by the key"]
    page.locator("mark").first.hover()  # the other way round: from the quote to its sentence
    assert page.locator("li.rl-warm").get_attribute("data-key") == "sentence 1"


def test_pointing_at_a_chunk_lights_its_piece_of_the_prompt(pages: Pages) -> None:
    page = pages.open(panels()["prompt"].page(), wait=".rl-picture *")
    page.locator("li[data-key='b#0']").hover()
    lit = page.locator(".rl-warm").evaluate_all("nodes => nodes.map(n => n.dataset.key)")
    assert lit == ["b#0", "b#0"]


def test_a_child_shows_its_section() -> None:
    child = replace(chunk("d#0", "Ten."), section="Ten. Paid to the card.")
    hits = ranking("d#0")
    context = Context("", (replace(hits[0], chunk=child),), (), 0, 0)
    answer = read_answer('It is paid. [1: "Paid to the card"]', context, "test")
    assert lit(citation_drawing(answer, context).html, "sentence 1") == ["Paid to the card"]
