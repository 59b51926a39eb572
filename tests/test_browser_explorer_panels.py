"""The Explorer's panels in a real browser, beside a picture, in a shell of a few lines.

The shell below stands in for the Explorer's own: it gives the panels what they are promised and
no more, and it keeps what they send.  Python's answers are made here.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from browser import Pages, open_browser
from traces import QUESTION, a_trace

from raglab.retrieve.signals import NAMES
from raglab.views import flow
from raglab.views.figures import flow_svg
from raglab.views.model import flow_model

PANELS = (
    "explorerzoom.js", "explorerpredict.js", "explorerwhynot.js", "explorershare.js",
    "explorerpictures.js",
)  # fmt: skip
SHELL = """
const sent = [], hears = [], lights = [], again = [];
function render({ model, el }) {
  const live = element("div", { class: "rl-live", role: "status" });
  let side = "a";
  const ctx = {
    model,
    offline: Boolean(model.get("offline")),
    put: (name, value) => model.set(name, value),
    send: (content) => sent.push(content),
    watch(names, act) {
      let asked = false;
      const soon = () => {
        if (!asked) queueMicrotask(() => ((asked = false), act()));
        asked = true;
      };
      for (const name of names) model.on(`change:${name}`, soon);
      if (names.includes("selected")) again.push(soon);
    },
    onMessage: (act) => hears.push(act),
    announce: (words) => (live.textContent = words),
    choose(id, of = "a") {
      side = of;
      if (id && id === model.get("selected")) for (const act of again) act();
      else ctx.put("selected", id);
    },
    data: (of = "a") => model.get(of === "b" ? "other" : "data"),
    side: () => side,
    onWord: (act) => lights.push(act),
    word: (index) => lights.forEach((act) => act(index)),
  };
  Object.assign(window, { sent, ctx, hear: (content) => hears.forEach((act) => act(content)) });
  window.words = [];
  ctx.onWord((index) => window.words.push(index));
  const zoom = zoomPanel(ctx);
  const predict = predictPanel(ctx);
  window.holds = predict.holds;
  const picture = new Picture((id) => ctx.choose(id));
  const seen = () => Math.min(seenUpTo(ctx), ctx.data().stages.length - 1);
  const show = () => {
    picture.step = seen();
    picture.chosen = model.get("selected");
    picture.draw(ctx.data());
  };
  ctx.watch(["data", "step", "selected", "predicting"], show);
  const root = element(
    "section",
    { class: "raglab-flow raglab-explorer", "aria-label": "Explorer", onkeydown: keepKeys },
    element("div", { class: "rl-tools" }, sharePanel(ctx).el),
    predict.el,
    element(
      "div",
      { class: "rl-main" },
      element("div", { class: "rl-left" }, picture.el),
      element("div", { class: "rl-aside" }, zoom.el, whynotPanel(ctx).el),
    ),
    live,
  );
  el.append(root);
  show();
}
"""
HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"
LONG = "x" * 10_000
QUIET: dict[str, Any] = {
    "step": 5, "selected": "", "settings": {"k": 20, "keep": 8}, "status": "", "busy": False,
    "comparing": False, "other": {}, "predicting": False, "challenges": {}, "guess": {},
    "reveal": {}, "score": "", "knob_question": {}, "knob_guess": "", "whynot": {}, "progress": 0,
}  # fmt: skip
TRACE = a_trace()


def the_page(state=None, trace=TRACE, evidence=()) -> str:
    data = flow_model(trace, evidence)
    for card in data["chunks"]:
        del card["text"]
    shared = [name for name in flow.SCRIPTS if name not in ("flow.js", "stepper.js")]
    script = "\n".join((flow.joined([*shared, *PANELS]), SHELL, flow.EXPORT_LINE))
    style = flow.joined(("flow.css", "explorer.css", "explorerpanels.css"))
    return flow.widget_page(QUESTION, {**QUIET, "data": data, **(state or {})}, script, style, "")


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    pages = Pages(chromium, tmp_path)

    def open_page(state=None, *, trace=TRACE, evidence=(), **settings):
        return pages.open(the_page(state, trace, evidence), wait=".rl-row", **settings)

    yield open_page
    pages.close()


def trait(page, name):
    return page.evaluate(f"ctx.model.get({name!r})")


def put(page, **traits):
    """As a kernel would: all of them, then what watches them."""
    page.evaluate("(traits) => Object.entries(traits).forEach(([n, v]) => ctx.put(n, v))", traits)


def sent(page, do):
    return [one for one in page.evaluate("sent") if one["do"] == do]


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def announced(page):
    return page.locator(".raglab-explorer > .rl-live").inner_text()


def ranked(name, at):
    return TRACE.ranking(name)[at].chunk.chunk_id


FIRST = TRACE.context.kept[0].chunk.chunk_id
OTHER = TRACE.context.kept[1].chunk.chunk_id
LOST = ranked("fused", 25)


def a_detail(text="Refunds are due in 45 days. Customers ask.", **more):
    return {"text": text, "words": [], "cited": [], "evidence": [], **more}


def answer(page, chunk, detail, *, side="a", run=1):
    """Python's answer to "detail"."""
    said = {"kind": "detail", "side": side, "chunk": chunk, "run": run, "detail": detail}
    page.evaluate("(said) => hear(said)", said)


HEAT = {
    "query": ["enterprise", "customers", "refund"],
    "chunk": ["ref", "unds", "customers", "days"],
    "cosines": [[0.1, 0.2, 0.4, 0.3], [0.0, 0.1, 0.9, 0.2], [0.8, 0.5, 0.1, -0.2]],
    "best": [2, 2, 0],
}

# -- the text ------------------------------------------------------------------------------------


def test_a_text_is_asked_for_once_a_run(show):
    page = show()
    put(page, selected=FIRST)
    panel = page.get_by_role("region", name="Chunk details")
    assert "reading…" in panel.inner_text()
    assert sent(page, "detail") == [{"do": "detail", "chunk": FIRST, "side": "a"}]
    answer(page, FIRST, a_detail())
    assert "Refunds are due in 45 days." in panel.locator(".rl-text").inner_text()
    assert "reading…" not in panel.inner_text()
    put(page, selected=OTHER)
    put(page, selected=FIRST)
    assert "Refunds are due" in panel.inner_text()
    assert [one["chunk"] for one in sent(page, "detail")] == [FIRST, OTHER]


def test_a_new_run_drops_what_was_read_and_an_old_answer_is_not_shown(show):
    page = show()
    put(page, selected=FIRST)
    answer(page, FIRST, a_detail("of the first run"), run=7)
    page.evaluate("ctx.put('data', { ...ctx.data(), chunks: [...ctx.data().chunks] })")
    assert "of the first run" in page.locator(".rl-text").inner_text()  # marks alone may differ
    assert len(sent(page, "detail")) == 1
    page.evaluate("ctx.put('data', { ...ctx.data(), query: 'another' })")
    page.locator(".rl-waiting").wait_for()
    assert len(sent(page, "detail")) == 2
    answer(page, FIRST, a_detail("of the second run"), run=8)
    answer(page, FIRST, a_detail("late, of the first run"), run=7)
    assert page.locator(".rl-text").inner_text() == "of the second run"


def test_a_question_that_python_leaves_open_is_asked_again(show):
    """The chunk had gone with its run when the question came to Python."""
    page = show()
    put(page, selected=FIRST)
    whole = trait(page, "data")
    columns = [
        {**column, "rows": [row for row in column["rows"] if row[0] != FIRST]}
        for column in whole["columns"]
    ]
    without = [card for card in whole["chunks"] if card["id"] != FIRST]
    put(page, data={**whole, "columns": columns, "chunks": without})
    page.get_by_text("How to read this").wait_for()
    put(page, data=whole)
    page.locator(".rl-waiting").wait_for()
    assert len(sent(page, "detail")) == 2


def test_the_other_side_has_its_own_texts(show):
    page = show()
    put(page, other=trait(page, "data"), comparing=True)
    page.evaluate("(id) => ctx.choose(id, 'b')", FIRST)
    page.get_by_text("In pipeline B").wait_for()
    assert sent(page, "detail")[-1]["side"] == "b"
    answer(page, FIRST, a_detail("of A"), side="a")
    assert page.locator(".rl-waiting").count() == 1
    answer(page, FIRST, a_detail("of B"), side="b")
    assert page.locator(".rl-text").inner_text() == "of B"


def test_spans_count_characters_as_python_does(show):
    text = "🙂 Refunds 🙂🙂 for customers: within 45 days."
    refunds, customers, within = map(text.index, ("Refunds", "customers", "within"))
    detail = a_detail(
        text,
        words=[[refunds, refunds + 7, 4], [customers, customers + 9, 2]],
        cited=[[customers, len(text) - 1]],
        evidence=[[within, len(text) - 1]],
    )  # fmt: skip
    page = show({"selected": FIRST})
    answer(page, FIRST, detail)
    box = page.locator(".rl-text")
    assert box.evaluate("node => node.textContent") == text
    assert box.locator(".rl-word").all_inner_texts() == ["Refunds", "customers"]
    joined = "nodes => nodes.map(node => node.textContent).join('')"
    assert box.locator("mark.rl-cited").evaluate_all(joined) == "customers: within 45 days"
    assert box.locator("mark.rl-evidence").evaluate_all(joined) == "within 45 days"
    assert (
        box.locator(".rl-begins-cited").count() == box.locator(".rl-begins-evidence").count() == 1
    )


def test_the_cited_span_comes_into_sight_and_the_page_does_not_move(show):
    filler = "Nothing of note is said in this sentence. " * 60
    detail = a_detail(f"{filler}Within 45 days.", cited=[[len(filler), len(filler) + 15]])
    page = show()
    page.get_by_role("button", name=f"Citation 2, {OTHER}").first.click()
    answer(page, OTHER, detail)
    inside = """() => {
      const [box, at] = ['.rl-text', '.rl-begins-cited'].map((one) =>
        document.querySelector(one).getBoundingClientRect());
      return at.top >= box.top && at.bottom <= box.bottom;
    }"""
    assert page.evaluate(inside)
    assert page.evaluate("scrollY") == 0
    page.locator(".rl-text").evaluate("box => (box.scrollTop = 0)")
    assert not page.evaluate(inside)
    page.get_by_role("button", name=f"Citation 2, {OTHER}").first.click()  # chosen already
    page.wait_for_timeout(50)
    assert page.evaluate(inside)


def test_hostile_text_is_inert_and_stays_in_its_box(show):
    trace = a_trace(hostile=HOSTILE)
    hit = trace.context.kept[0].chunk.chunk_id
    page = show({"selected": hit}, trace=trace, viewport={"width": 390, "height": 800})
    heat = {**HEAT, "query": [HOSTILE, LONG, "\0"], "chunk": [LONG, HOSTILE, "a", "b"]}
    answer(page, hit, a_detail(f"{HOSTILE} \0 {LONG}", words=[[0, 8, 0]], heat=heat))
    put(
        page,
        whynot={
            "chunk": hit,
            "words": HOSTILE + LONG,
            "rescues": [
                {"dial": "k", "label": HOSTILE + LONG, "was": 1, "value": 2, "words": LONG}
            ],
        },
    )
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.locator(".rl-heat").wait_for()
    assert page.evaluate("window.hit") is None
    assert page.locator(".raglab-explorer :is(img, script)").count() == 0
    assert HOSTILE[:40] in page.locator(".rl-text").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in (".rl-text", ".rl-id >> nth=0", ".rl-zoom h2 >> nth=0"):
        node = page.locator(box)
        assert node.evaluate("node => getComputedStyle(node).unicodeBidi") == "isolate"
        assert node.evaluate("node => node.scrollWidth <= node.clientWidth + 1"), box


def test_without_a_kernel_all_lies_in_the_page(show):
    state = {
        "offline": True, "selected": LOST, "code": "import raglab", "svg": "<svg/>",
        "details": {"a": {LOST: a_detail("kept in the page")}},
        "prompts": {"a": {"text": "the whole prompt", "note": "Nobody was asked."}},
    }  # fmt: skip
    page = show(state)
    assert page.locator(".rl-text").inner_text() == "kept in the page"
    assert page.get_by_role("button", name="Why not this one?").count() == 0
    press(page, "The exact prompt")
    assert page.get_by_role("dialog").locator("pre").inner_text() == "the whole prompt"
    page.keyboard.press("Escape")
    page.get_by_text("Share", exact=True).click()
    shown = page.get_by_role("group", name="Share").get_by_role("button").all_inner_texts()
    assert shown == ["Picture as SVG", "Picture as PNG", "Python lines"]
    assert page.evaluate("sent") == []


# -- the words of the query ------------------------------------------------------------------------


def lit_page(show):
    text = "Enterprise customers have 45 days. Customers write."
    at = [index for index in range(len(text)) if text[index:].lower().startswith("customers")]
    index = [word["text"] for word in flow_model(TRACE)["words"]].index("customers")
    page = show({"selected": FIRST})
    answer(page, FIRST, a_detail(text, words=[[n, n + 9, index] for n in at], heat=HEAT))
    page.evaluate("document.querySelectorAll('.rl-fold').forEach((one) => (one.open = true))")
    return page, index


def lit(page):
    named = "(node) => (node.querySelector('th, .rl-part-name') ?? node).textContent.trim()"
    return set(page.locator(".rl-lit:not(button)").evaluate_all(f"nodes => nodes.map({named})"))


def test_a_word_that_is_pointed_at_here_lights_up_everywhere(show):
    page, index = lit_page(show)
    page.locator(".rl-text .rl-word").first.hover()
    assert page.evaluate("words.at(-1)") == index
    assert {"customers", "Customers", "match: customers"} <= lit(page)
    assert "match: enterprise" not in lit(page)
    page.locator(".rl-zoom h2").first.hover()
    assert page.evaluate("words.at(-1)") is None
    assert not lit(page)


def test_a_word_that_is_pointed_at_elsewhere_lights_up_here(show):
    page, index = lit_page(show)
    page.evaluate("(index) => ctx.word(index)", index)
    assert {"customers", "Customers", "match: customers"} <= lit(page)
    page.evaluate("ctx.word(null)")
    assert not lit(page)


def test_the_keyboard_reaches_each_word_and_goes_from_one_to_the_next(show):
    page, index = lit_page(show)
    chip = page.get_by_role("button", name="customers ×2, 2 in the text: show the next")
    chip.focus()
    assert page.evaluate("words.at(-1)") == index
    here = page.locator(".rl-here")
    page.keyboard.press("Enter")
    assert here.evaluate_all("nodes => nodes.map((node) => node.textContent)") == ["customers"]
    page.keyboard.press("Enter")
    assert here.evaluate_all("nodes => nodes.map((node) => node.textContent)") == ["Customers"]


# -- scores ----------------------------------------------------------------------------------------


def with_settings(**settings):
    from dataclasses import replace

    steps = [replace(step, settings=settings.get(step.name, "")) for step in TRACE.steps]
    return replace(TRACE, steps=tuple(steps))


def stage(page, name):
    node = page.locator(f".rl-fold[data-fold='{name}']")
    node.evaluate("node => (node.open = true)")
    return node


def test_the_furthest_stage_is_open_and_folds_are_remembered(show):
    page = show({"selected": FIRST})
    names = page.locator(".rl-fold").evaluate_all("nodes => nodes.map((one) => one.dataset.fold)")
    assert names[:2] == ["reranked", "fused"]
    assert page.locator(".rl-fold[open] > summary strong").all_inner_texts() == ["reranked"]
    page.locator("summary", has_text="fused").click()
    page.locator("summary", has_text="reranked").click()
    put(page, selected=OTHER)
    page.wait_for_timeout(50)
    assert page.locator(".rl-fold[open] > summary strong").all_inner_texts() == ["fused"]


def test_rrf_is_told_as_a_sum_of_reciprocal_ranks(show):
    ranks = [
        {hit.chunk.chunk_id: hit.rank for hit in TRACE.ranking(one)} for one in ("dense", "sparse")
    ]
    both = next(
        hit for hit in TRACE.ranking("fused") if all(hit.chunk.chunk_id in one for one in ranks)
    )
    d, s = (one[both.chunk.chunk_id] for one in ranks)
    page = show(
        {"selected": both.chunk.chunk_id}, trace=with_settings(fused="RRF(k=60, weights=())")
    )
    told = stage(page, "fused").inner_text()
    assert f"1 / (k + rank) for each list: dense 1 / (60 + {d}), sparse 1 / (60 + {s})." in told
    first, second, both_of = 1 / (60 + d), 1 / (60 + s), 1 / (60 + d) + 1 / (60 + s)
    assert f"{first:.4f} + {second:.4f}" in told
    assert f"{both_of:.4f}" in told


def test_late_interaction_is_a_first_stage_and_pieces(show):
    hit = TRACE.ranking("reranked")[0]
    page = show({"selected": hit.chunk.chunk_id})
    told = stage(page, "reranked").inner_text()
    first, late = hit.parts[0].value, sum(part.value for part in hit.parts[1:])
    assert min(first, late) >= 0.1  # so three decimals are shown
    assert f"{first:.3f} + {late:.3f} (10 pieces)" in told
    assert stage(page, "reranked").locator(".rl-parts li").count() == 11


def model_with(parts, settings=""):
    """The model of the trace, its reranked hits made of other parts: {name: value}."""
    data = flow_model(TRACE)
    at = len(data["names"])
    data["names"] += list(parts)
    pairs = [one for n, value in enumerate(parts.values()) for one in (at + n, value)]
    column = next(column for column in data["columns"] if column["name"] == "reranked")
    column["settings"] = settings
    column["rows"] = [[id_, rank, sum(parts.values()), pairs] for id_, rank, *_ in column["rows"]]
    return data


def test_mmr_names_the_trade_and_the_chunk_that_it_is_like(show):
    data = model_with({"relevance": 0.63, f"like {OTHER}": -0.13}, "MMR(trade=0.7, k=None)")
    page = show({"selected": FIRST, "data": data})
    told = stage(page, "reranked").inner_text()
    assert "The trade is 0.7: 0.7 × relevance − 0.3 × likeness to the chunk above it" in told
    assert "0.630 − 0.130 = 0.500" in told
    press(page, f"Choose {OTHER}")
    assert trait(page, "selected") == OTHER
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Chunk details"


def test_learned_weights_are_nine_signals(show):
    page = show({"selected": FIRST, "data": model_with(dict.fromkeys(NAMES, 0.1))})
    told = stage(page, "reranked")
    assert "Nine signals, each times the weight" in told.inner_text()
    assert told.locator(".rl-part-name").all_inner_texts() == list(NAMES)


def test_a_stage_that_keeps_its_scores_says_so(show):
    data = flow_model(TRACE)
    fused, reranked = (
        next(column for column in data["columns"] if column["name"] == name)
        for name in ("fused", "reranked")
    )
    was = {row[0]: row for row in fused["rows"]}
    reranked["rows"] = [[row[0], row[1], *was[row[0]][2:]] for row in reranked["rows"]]
    page = show({"selected": FIRST, "data": data})
    assert "The score with which it came from fused." in stage(page, "reranked").inner_text()


def test_the_heat_map_is_a_table_that_reads_aloud(show):
    page, _ = lit_page(show)
    table = page.get_by_role("table")
    assert table.get_by_role("rowheader").all_inner_texts() == HEAT["query"]
    assert table.get_by_role("columnheader").all_inner_texts() == HEAT["chunk"]
    assert table.get_by_role("cell").count() == 3 * 4 + 1  # and the empty corner
    best = table.locator(".rl-best")
    assert best.all_inner_texts() == ["0.40", "0.90", "0.80"]
    assert best.first.get_attribute("title") == "enterprise, customers: 0.40"
    assert best.first.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    told = stage(page, "Piece by piece").inner_text()
    assert "MaxSim 2.10" in told  # 0.4 + 0.9 + 0.8
    assert "(−0.20 to 0.90)" in told
    page.get_by_role("region", name="Heat map").focus()
    assert page.evaluate("document.activeElement.tabIndex") == 0


def test_the_welcome_tells_of_both_pipelines_only_when_two_are_compared(show):
    page = show(evidence=[OTHER])
    panel = page.get_by_role("region", name="Chunk details")
    assert "Where is the answer?" in panel.inner_text()
    assert f"{OTHER} is in the prompt as [2]" in panel.inner_text()
    assert "◆" not in panel.inner_text()
    put(page, comparing=True)
    page.get_by_text("◆ in this prompt, not in the other").wait_for()


# -- the exact prompt ------------------------------------------------------------------------------

PROMPT = "\n".join(
    ["The rules."]
    + [f'<source number="{n}" chunk="c{n}">\ntext of {n}\n</source>' for n in range(1, 40)]
)


def test_the_prompt_opens_with_the_chosen_block_and_escape_goes_back(show):
    page = show({"selected": OTHER})
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")
    opener = page.get_by_role("button", name="The exact prompt")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="The exact prompt")
    assert sent(page, "prompt") == [{"do": "prompt", "side": "a"}]
    page.evaluate(
        "(text) => hear({ kind: 'prompt', side: 'a', text, note: 'Sent to nobody.' })", PROMPT
    )
    assert dialog.locator("pre").inner_text() == PROMPT
    assert "Sent to nobody." in dialog.inner_text()
    block = dialog.locator("mark")
    assert block.inner_text() == '<source number="2" chunk="c2">\ntext of 2\n</source>'
    for key in ("d", "d", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert opener.evaluate("node => node === document.activeElement")
    assert trait(page, "selected") == OTHER
    assert page.evaluate("heard") == []


def test_the_prompt_is_in_reach_with_nothing_chosen(show):
    page = show()
    press(page, "The exact prompt")
    page.evaluate("(text) => hear({ kind: 'prompt', side: 'b', text: 'other', note: '' })", PROMPT)
    page.evaluate("(text) => hear({ kind: 'prompt', side: 'a', text, note: '' })", PROMPT)
    dialog = page.get_by_role("dialog")
    assert dialog.locator("pre").inner_text() == PROMPT
    assert dialog.locator("mark").count() == 0
    press(page, "Copy")
    dialog.get_by_role("status").filter(has_text="Cop").or_(
        dialog.get_by_role("status").filter(has_text="Selected")
    ).wait_for()
    press(page, "Close")
    assert not dialog.is_visible()


# -- predict ---------------------------------------------------------------------------------------

TRUTH = [ranked("fused", at) for at in (0, 4, 8, 12, 16)]
A, B, C, D, E = TRUTH


def a_challenge(*order, place=2, truth=TRUTH):
    return {
        "question": "Put these five chunks in the order that they have once fused.",
        "chunk_ids": list(order),
        "titles": {one: f"Heading of {one}" for one in truth},
        "truth": list(truth),
        "why": f"{truth[0]} stands first.",
    }


def predicting(show, *order, evidence=(), **state):
    return show(evidence=evidence, state={
        "predicting": True, "step": 1, "challenges": {"2": a_challenge(*order)},
        "score": "12 predictions, 71% of pairs in the right order", **state,
    })  # fmt: skip


def order(page):
    return page.locator(".rl-order li").evaluate_all(
        "nodes => nodes.map((one) => one.dataset.chunk)"
    )


def holds(page, place=2):
    return page.evaluate(f"holds({place})")


def test_a_prediction_by_the_keyboard_alone(show):
    page = predicting(show, E, B, A, C, D)
    assert holds(page)
    assert not holds(page, 3)
    page.locator(".rl-lift").first.focus()
    page.keyboard.press("Space")
    assert announced(page).startswith(f"Lifted {E}, place 1 of 5.")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert announced(page) == f"{E}, place 3 of 5."
    assert order(page) == [B, A, E, C, D]
    page.keyboard.press("Escape")
    assert order(page) == [E, B, A, C, D]
    assert "is put back" in announced(page)
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert announced(page) == f"Dropped {E} at place 2 of 5."
    assert order(page) == [B, E, A, C, D]
    page.keyboard.press("ArrowDown")  # moves among them, for nothing is lifted
    assert page.evaluate("document.activeElement.closest('li').dataset.chunk") == A
    assert order(page) == [B, E, A, C, D]
    page.get_by_role("button", name="Reveal").focus()
    page.keyboard.press("Enter")
    # Of the 10 pairs 6 are right: B-E, B-C, B-D, A-C, A-D, C-D. Wrong: B-A, E-A, E-C, E-D.
    assert page.locator(".rl-pairs").inner_text() == "6 of 10 pairs are right."
    assert trait(page, "guess") == {"place": 2, "order": [B, E, A, C, D]}
    assert announced(page) == f"6 of 10 pairs are right. {A} stands first."
    assert page.locator(".rl-moved [aria-hidden]").all_inner_texts() == [
        "▲ 2",
        "▼ 1",
        "▲ 1",
        "▲ 1",
        "▼ 3",
    ]
    assert holds(page)  # until the reader goes on
    assert page.evaluate("document.activeElement.textContent") == "Go on: show Fuse"
    page.keyboard.press("Enter")
    assert trait(page, "step") == 2
    assert not holds(page)


def drag(page, item, to):
    grip = page.locator(".rl-order li").nth(item).locator(".rl-grip").bounding_box()
    goal = page.locator(".rl-order li").nth(to).bounding_box()
    x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
    end = goal["y"] + (4 if to < item else goal["height"] - 4)
    return x, y, end


def test_a_prediction_by_dragging(show):
    page = predicting(show, B, A, C, D, E)
    x, y, end = drag(page, 4, 0)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, (y + end) / 2, steps=4)
    assert page.locator(".rl-dragged").count() == 1
    page.mouse.move(x, end, steps=4)
    page.mouse.up()
    assert order(page) == [E, B, A, C, D]
    assert announced(page) == f"Dropped {E} at place 1 of 5."
    assert page.locator(".rl-dragged, .rl-lifted").count() == 0
    press(page, "Reveal")
    # Of the 10 pairs 5 are right: B-C, B-D, A-C, A-D, C-D. Wrong: E-B, E-A, E-C, E-D, B-A.
    assert page.locator(".rl-pairs").inner_text() == "5 of 10 pairs are right."


def test_a_drag_that_starts_on_the_words_is_no_press(show):
    page = predicting(show, B, A, C, D, E)
    box = page.locator(".rl-lift").first.bounding_box()
    x, y = box["x"] + 20, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 70, steps=5)
    page.mouse.up()
    assert order(page) == [A, B, C, D, E]
    assert page.locator(".rl-lifted").count() == 0
    page.locator(".rl-lift").first.click()
    assert page.locator(".rl-lifted").count() == 1


def test_a_finger_drags_too(show):
    page = predicting(show, B, A, C, D, E)
    x, y, end = drag(page, 0, 2)
    cdp = page.context.new_cdp_session(page)
    touch = lambda kind, *at: cdp.send(  # noqa: E731
        "Input.dispatchTouchEvent",
        {"type": kind, "touchPoints": [{"x": at[0], "y": at[1]}] if at else []},
    )
    touch("touchStart", x, y)
    for n in range(1, 9):
        touch("touchMove", x, y + (end - y) * n / 8)
    touch("touchEnd")
    assert order(page) == [A, C, B, D, E]


def test_small_buttons_move_for_who_does_not_drag(show):
    page = predicting(show, B, A, C, D, E)
    press(page, f"Move {A} up")
    assert order(page) == TRUTH
    assert announced(page) == f"{A}, place 1 of 5."
    assert page.get_by_role("button", name=f"Move {A} up").is_disabled()
    box = page.get_by_role("button", name=f"Move {A} down").bounding_box()
    assert min(box["width"], box["height"]) >= 24


def test_python_s_words_and_the_running_score_are_shown(show):
    page = predicting(show, B, A, C, D, E)
    press(page, "Reveal")
    assert page.locator(".rl-pairs").inner_text() == "9 of 10 pairs are right."  # all but B-A
    put(page, reveal={"place": "2", "words": f"Only {A} and {B} have changed places."},
        score="13 predictions, 73% of pairs in the right order")  # fmt: skip
    page.get_by_text("have changed places").wait_for()
    assert page.locator(".rl-score").inner_text().startswith("13 predictions")
    assert page.get_by_role("button", name="Go on: show Fuse").is_visible()


def test_skip_goes_on_and_a_new_run_asks_again(show):
    page = predicting(show, B, A, C, D, E)
    press(page, "Skip")
    assert trait(page, "step") == 2
    assert trait(page, "guess") == {}
    assert not holds(page)
    page.get_by_text("There is nothing to predict at Rerank.").wait_for()
    put(page, challenges={"2": a_challenge(C, A, B, D, E)})
    assert holds(page)


def test_going_on_is_seen_where_the_step_stood_there_already(show):
    """The stepper may ask for a stage that is held back: then the step does not change."""
    page = predicting(show, B, A, C, D, E, step=5)
    assert page.locator(".rl-list[aria-label^='dense'] .rl-row:not(.rl-pending)").count() == 20
    assert page.locator(".rl-list[aria-label^='fused'] .rl-row:not(.rl-pending)").count() == 0
    put(page, step=2)
    page.evaluate("window.steps = 0; ctx.watch(['step'], () => (window.steps += 1))")
    press(page, "Skip")
    page.wait_for_timeout(50)
    assert page.evaluate("steps") >= 1
    assert page.locator(".rl-list[aria-label^='fused'] .rl-row:not(.rl-pending)").count() > 0


def test_the_second_run_keeps_the_secret_too(show):
    page = predicting(show, B, A, C, D, E, comparing=True, other=flow_model(a_trace(seed=8)))
    page.evaluate("ctx.choose(ctx.data('b').columns[0].rows[0][0], 'b')")
    page.get_by_text("In pipeline B").wait_for()
    assert page.locator(".rl-fold > summary strong").all_inner_texts()[-1] in ("dense", "sparse")
    assert page.locator(".rl-fold[data-fold='fused']").count() == 0


def test_no_panel_tells_of_a_stage_that_is_held_back(show):
    page = predicting(show, B, A, C, D, E, step=5, selected=FIRST, whynot=FOUND)
    assert page.get_by_role("region", name="Why not?").count() == 0
    panel = page.get_by_role("region", name="Chunk details")
    answer(page, FIRST, a_detail(cited=[[0, 7]], heat=HEAT))
    told = panel.inner_text()
    assert "What becomes of it is not shown yet." in told
    for word in (
        "reranked",
        "fused",
        "context",
        "in the prompt",
        "cited",
        "MaxSim",
        "exact prompt",
    ):
        assert word not in told, word
    put(page, selected="")
    page.get_by_text("How to read this").wait_for()
    assert "Where is the answer?" not in panel.inner_text()
    put(page, predicting=False, selected=FIRST)
    page.get_by_text("In the prompt as [1].").wait_for()
    assert page.locator(".rl-predict").is_hidden()


KNOBS = [f"Knob {n}" for n in range(9)] + ["No single knob"]


@pytest.mark.parametrize("options", [KNOBS, KNOBS[-3:]], ids=["many", "few"])
def test_the_knob_question_is_asked_once_the_prompt_is_seen(show, options):
    question = {"question": "Which one knob brings it there?", "options": options}
    page = predicting(show, B, A, C, D, E, knob_question=question, evidence=[LOST])
    assert page.get_by_text("Which knob?").count() == 0
    put(page, challenges={}, step=4)
    page.get_by_text("Which knob?").wait_for()
    assert page.get_by_role("button", name="Why").count() == 0  # it would give the answer away
    press(page, "Check my answer")  # nothing is chosen yet
    assert trait(page, "knob_guess") == ""
    if len(options) > 6:
        page.get_by_label("One knob").select_option("No single knob")
    else:
        page.get_by_label("No single knob").check()
    press(page, "Check my answer")
    assert trait(page, "knob_guess") == "No single knob"
    put(page, whynot={"chunk": "", "words": "It was lost.", "rescues": [], "tried": 9,
                      "guess": "Right: no single knob rescues the answer."})  # fmt: skip
    page.locator(".rl-predict").get_by_text("Right: no single knob").wait_for()
    assert announced(page) in ("Right: no single knob rescues the answer.", "It was lost.")


# -- why not? --------------------------------------------------------------------------------------

RESCUES = [
    {
        "dial": name, "label": label, "was": was, "value": value,
        "words": f"{label} from {was} to {value}; it also brings in 2 others.",
    }
    for name, label, was, value in (
        ("k", "Hits a retriever (k)", 20, 57),
        ("keep", "Kept for the prompt", 8, 12),
        ("rrf", "RRF's k", 60, 1),
        ("late", "Weight of late interaction", 1.0, 1.5),
    )
]  # fmt: skip
FOUND = {
    "chunk": LOST, "words": f"{LOST} was lost at reranked: rank 26, cut at 20.", "tried": 41,
    "rescues": RESCUES, "skipped": ["4 rewriters, no reply is kept"], "sizes": False,
}  # fmt: skip


def test_a_lost_chunk_can_be_asked_about_and_a_rescue_turns_its_knob(show):
    page = show({"selected": LOST})
    press(page, "Why not this one?")
    assert sent(page, "why-not") == [{"do": "why-not", "chunk": LOST}]
    put(page, whynot=FOUND)
    panel = page.get_by_role("region", name="Why not?")
    panel.get_by_text("rank 26, cut at 20").wait_for()
    assert announced(page) == FOUND["words"]
    assert "It also brings in 2 others." in panel.inner_text()
    assert "Not tried: 4 rewriters, no reply is kept." in panel.inner_text()
    assert panel.get_by_role("button", name="Set Weight of late").count() == 0  # folded away
    panel.get_by_text("1 more that would do").click()
    assert panel.get_by_role(
        "button", name="Set Weight of late interaction to 1.5 (was 1)"
    ).is_visible()
    press(page, "Set Hits a retriever (k) to 57 (was 20)")
    assert trait(page, "settings") == {"k": 57, "keep": 8}
    put(page, whynot={})  # as Python does with the new run
    panel.get_by_text("Hits a retriever (k) is now 57.").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Why not?"


def test_no_single_knob_is_an_answer(show):
    page = show()
    put(page, whynot={"chunk": LOST, "words": "It was lost at dense.", "rescues": [], "tried": 41})
    panel = page.get_by_role("region", name="Why not?")
    panel.get_by_text("No single knob rescues it. Settings tried: 41.").wait_for()
    put(
        page,
        whynot={"chunk": LOST, "words": "It is in the prompt as [3].", "rescues": [], "tried": 0},
    )
    panel.get_by_text("It is in the prompt as [3].").wait_for()
    assert "No single knob" not in panel.inner_text()


def test_the_lost_answer_can_be_asked_about(show):
    page = show(evidence=[LOST])
    press(page, "Why is the answer's chunk not in the prompt?")
    assert sent(page, "why-not") == [{"do": "why-not", "chunk": ""}]
    page.locator(".rl-whynot").get_by_text("Each knob is tried, one by one.").wait_for()
    put(page, whynot={**FOUND, "chunk": "", "sizes": True})
    press(page, "Try other chunk sizes too")
    assert sent(page, "why-not")[-1] == {"do": "why-not", "chunk": "", "sizes": True}


def test_what_is_in_the_prompt_is_not_asked_about(show):
    page = show({"selected": FIRST}, evidence=[FIRST])
    assert page.get_by_role("button", name="Why").count() == 0
    assert page.locator(".rl-whynot").is_hidden()


def test_a_finding_in_a_page_has_no_button(show):
    page = show({"offline": True, "whynot": FOUND, "details": {"a": {}}}, evidence=[LOST])
    panel = page.get_by_role("region", name="Why not?")
    assert "Set Hits a retriever (k) to 57 (was 20)" in panel.inner_text()
    assert panel.get_by_role("button").count() == 0


# -- share -----------------------------------------------------------------------------------------

SVG = flow_svg(flow_model(TRACE))


def share(page, name):
    page.locator(".rl-share summary").click()
    page.get_by_role("group", name="Share").get_by_role("button", name=name).click()


def file(page, name, type_, text):
    page.evaluate(
        "(said) => hear(said)", {"kind": "file", "name": name, "type": type_, "text": text}
    )


def size_of(png: bytes) -> tuple[int, int]:
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def test_the_picture_is_saved_as_svg_and_as_png_of_twice_its_size(show, tmp_path):
    page = show({"offline": True, "svg": SVG})
    with page.expect_download() as caught:
        share(page, "Picture as SVG")
    assert caught.value.suggested_filename == "raglab-flow.svg"
    assert caught.value.path().read_text(encoding="utf-8") == SVG
    assert announced(page) == "Saved raglab-flow.svg."
    with page.expect_download() as caught:
        share(page, "Picture as PNG")
    assert caught.value.suggested_filename == "raglab-flow.png"
    height = int(SVG.split('height="')[1].split('"')[0])
    assert size_of(caught.value.path().read_bytes()) == (2 * 1000, 2 * height)


def test_with_a_kernel_files_come_when_they_are_asked_for(show):
    page = show()
    file(page, "raglab-flow.svg", "image/svg+xml", SVG)  # another view asked for it
    for name, what, type_, text in (
        ("Save page", "page", "text/html", "<!doctype html>"),
        ("Trace as JSON", "trace", "application/json", '{"query": "é"}'),
    ):
        share(page, name)
        assert sent(page, "share")[-1] == {"do": "share", "what": what}
        with page.expect_download() as caught:
            file(page, f"raglab.{what}", type_, text)
        assert caught.value.path().read_text(encoding="utf-8") == text
    share(page, "Picture as PNG")
    with page.expect_download() as caught:
        file(page, "raglab-flow.svg", "image/svg+xml", SVG)
    assert caught.value.suggested_filename == "raglab-flow.png"
    assert size_of(caught.value.path().read_bytes())[0] == 2000


def test_a_picture_that_cannot_be_drawn_is_told(show):
    page = show({"offline": True, "svg": "<svg"})
    share(page, "Picture as PNG")
    page.locator(".rl-share").get_by_text("This viewer draws no PNG.").wait_for()


def test_the_lines_of_python_are_shown_and_copied(show):
    code = 'pipeline = raglab.open_lab("handbook")\nprint(pipeline.run("a < b"))'
    page = show()
    share(page, "Python lines")
    page.evaluate("(text) => hear({ kind: 'code', text })", code)
    dialog = page.get_by_role("dialog", name="Python lines")
    assert dialog.locator("pre").inner_text() == code
    page.evaluate(
        "() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }"
    )
    press(page, "Copy")
    dialog.get_by_text("Copied.").wait_for()
    assert page.evaluate("copied") == code
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }"
    )
    press(page, "Copy")
    dialog.get_by_text("Selected.").wait_for()
    assert page.evaluate("String(getSelection())") == code
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Share"


# -- keys, widths, contrast ------------------------------------------------------------------------


def everything(show, **settings):
    question = {"question": "Which one knob?", "options": KNOBS}
    page = show({
        "selected": LOST, "predicting": True, "step": 1, "whynot": FOUND,
        "challenges": {"2": a_challenge(B, A, C, D, E)}, "knob_question": question,
        "score": "12 predictions, 71% of pairs in the right order",
    }, evidence=[LOST], **settings)  # fmt: skip
    text = "Enterprise customers have 45 days."
    detail = a_detail(text, words=[[11, 20, 5]], cited=[[0, 20]], evidence=[[21, 33]], heat=HEAT)
    answer(page, LOST, detail)
    return page


def test_no_plain_key_leaves_a_panel(show):
    page = everything(show)
    page.evaluate("""() => {
      window.heard = [];
      document.body.addEventListener("keydown", (event) => window.heard.push(event.key));
    }""")

    def try_all(*selectors):
        for selector in selectors:
            page.locator(selector).first.focus()
            for key in ("d", "d", "ArrowDown", "Space", "Space", "Escape"):
                page.keyboard.press(key)

    try_all(".rl-text", ".rl-chip", ".rl-lift")
    put(page, predicting=False)
    page.locator(".rl-rescues").first.wait_for()
    page.evaluate("document.querySelectorAll('.rl-fold').forEach((one) => (one.open = true))")
    try_all(".rl-fold summary", ".rl-heat-box", ".rl-share summary", ".rl-rescues button")
    assert page.evaluate("heard") == []


@pytest.mark.parametrize("width", [390, 640])
def test_nothing_is_lost_sideways(show, width):
    page = everything(show, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    press(page, "Reveal")
    put(page, predicting=False)
    page.wait_for_timeout(50)
    page.evaluate("document.querySelectorAll('.rl-fold').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = everything(show, color_scheme=scheme)

    def check(name):
        page.wait_for_timeout(400)
        found = Axe().run(page).response["violations"]
        told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
        assert not told, f"{name}, {scheme}: {told}"

    check("a question")
    page.locator(".rl-lift").first.click()
    check("lifted")
    press(page, "Reveal")
    check("revealed")
    put(page, challenges={}, step=5)
    check("the knob question")
    put(page, predicting=False)
    page.evaluate("document.querySelectorAll('.rl-fold').forEach((one) => (one.open = true))")
    page.evaluate("ctx.word(5)")
    check("the chunk, all folds open")
    page.evaluate("ctx.word(null)")
    page.locator(".rl-share summary").click()
    check("the menu")
    page.keyboard.press("Escape")
    press(page, "The exact prompt")
    page.evaluate("(text) => hear({ kind: 'prompt', side: 'a', text, note: 'Sent.' })", PROMPT)
    check("the prompt")
    page.keyboard.press("Escape")
    put(page, selected="", comparing=True)
    check("the welcome")
