"""The picture against the trace it is drawn from, in a real browser, at every step.

Most of it is one property: what a reader sees at a step is what the trace holds up to there, once,
in order, counted right, and nothing more. The rest is what a property cannot say: that bars keep
their labels apart, that a word lights up where it counts, that the picture stays quick.
"""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from browser import Pages, open_browser, with_state
from traces import QUESTION, TERMS, a_chunk, a_ranking, a_trace, assemble, fuse, rerank

from raglab.prices import Price
from raglab.trace import Step, Trace
from raglab.types import Answer, Citation, Context, Part, Query
from raglab.views.flow import EXPORT_LINE, SCRIPTS, STYLE, joined, widget_page
from raglab.views.flow import page as exported
from raglab.views.model import flow_model

DESK = {"width": 1280, "height": 720}
PRICE = Price("a model", 3.0, 15.0, 3.75, 0.3, 1024, "2026-03-01")
CUT = re.compile(r"cut at \d+$")
HOSTILE = "</script><script>window.hit=1</script>\u202eevil\u2066\x00" + "w" * 10_000


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    pages = Pages(chromium, tmp_path)

    def open_page(trace, evidence=(), *, state=None, script="", **settings):
        text = exported(trace, evidence)
        if script:  # the widget's own script, and a line to get hold of its class
            traits = {"data": flow_model(trace, evidence), "step": 5, "selected": "", "knobs": []}
            traits |= {"query": trace.query.text, "settings": {}, "status": "", "busy": False}
            code = joined(SCRIPTS).replace(EXPORT_LINE, f"{script}\n{EXPORT_LINE}")
            text = widget_page("Picture", traits, code, STYLE.read_text(encoding="utf-8"), "")
        page = pages.open(
            with_state(text, state or {}), wait=".rl-steps button", **{"viewport": DESK, **settings}
        )
        until(page, "document.querySelector('.rl-row') !== null")
        return page

    yield open_page
    pages.close()


def until(page, expression, seconds=10):
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)


def at_rest(page):
    page.wait_for_timeout(100)
    until(page, "document.getAnimations().length === 0")


def put(page, **traits):
    for name, value in traits.items():
        page.evaluate(
            "([name, value]) => document.getElementById('raglab-flow').model.set(name, value)",
            [name, value],
        )


def words_in(text: str) -> int:
    """A count of tokens that a test can follow."""
    return len(text.split())


def priced(trace, evidence=()):
    return flow_model(trace, evidence, count=words_in, price=PRICE)


# -- the property --------------------------------------------------------------------------------

# What can be seen: of each list its rows from top to bottom, of heads and funnel their counts.
SEEN = """() => {
  const root = document.querySelector(".raglab-flow");
  const visible = (node) => {
    const style = getComputedStyle(node);
    return style.visibility === "visible" && style.display !== "none" && style.opacity !== "0";
  };
  const all = (selector) => [...root.querySelectorAll(selector)].filter(visible);
  const lists = {};
  for (const list of root.querySelectorAll(".rl-list")) {
    const rows = [...list.children].filter(visible).map((row) => {
      const box = row.getBoundingClientRect();
      return { row, y: box.top, x: box.left };
    });
    rows.sort((a, b) => a.y - b.y);
    if (new Set(rows.map(({ y }) => y)).size !== rows.length) throw new Error("rows in one place");
    lists[list.getAttribute("aria-label").split(", ")[0]] = {
      x: [...new Set(rows.map(({ x }) => Math.round(x)))],
      ids: rows.map(({ row }) => row.getAttribute("aria-label").split(", ")[0]),
      places: rows.map(({ row }) => Number(row.getAttribute("aria-posinset"))),
      sizes: [...new Set(rows.map(({ row }) => Number(row.getAttribute("aria-setsize"))))],
    };
  }
  const count = (words) => Number(words.trim().split(" ")[0].replaceAll(",", ""));
  const heads = {};
  for (const head of root.querySelectorAll(".rl-head")) {
    const [told] = [...head.querySelectorAll("span")].filter(visible);
    const x = Math.round(head.getBoundingClientRect().left);
    heads[head.dataset.place] = { x, told: told ? told.textContent : null };
  }
  const lanes = {};
  for (const lane of all(".rl-lane:has(.rl-lane-name)")) {
    const name = lane.firstChild.textContent;
    lanes[name] = count(lane.textContent.slice(name.length));
  }
  return {
    lists, heads, lanes,
    funnel: all(".rl-neck text").map((text) => count(text.textContent)),
    lines: all(".rl-line:not(.rl-from-query)").length,
    fed: all(".rl-line.rl-from-query").length,
    queries: root.querySelectorAll(".rl-query").length,
    answered: all(".rl-answer").length,
    cuts: all(".rl-cut text").map((text) => text.textContent),
    tab: root.querySelectorAll("[role=option][tabindex='0']").length,
  };
}"""


def varied(seed: int) -> Trace:
    """A run of some shape: one lane or two, one query or several, cuts, refusals, early ends."""
    chance = random.Random(seed)
    k, queries = chance.choice([(1, 1), (5, 1), (20, 1), (60, 1), (8, 2), (12, 4), (20, 4)])
    kinds = chance.choice([("dense", "sparse"), ("dense", "sparse"), ("dense",), ("sparse",)])
    chunks = [a_chunk(number, chance) for number in range(2 * k + 1)]
    first = Query("q1", QUESTION)
    asked = [first, *(Query(f"q{n}", f"rewrite {n}", "rewriter") for n in range(2, queries + 1))]
    lists = {}
    for number in range(1, queries + 1):
        for kind in kinds:
            scored = {c: tuple(Part(t, chance.expovariate(1)) for t in TERMS) for c in chunks}
            name = kind if number == 1 else f"{kind} {number}"
            lists[name] = a_ranking(scored)[:k]
    if chance.random() < 0.3:
        lists[chance.choice(list(lists))] = ()
    fused = fuse(lists)
    reranked = rerank(fused[: chance.choice([3, 10, 1000])], chance)
    context = assemble(reranked, chance.choice([1, 4, 8, 30]))
    cites = tuple(
        Citation(n, hit.chunk.chunk_id, "a quote") for n, hit in enumerate(context.kept[:3], 1)
    )
    refused = chance.random() < 0.25 or not cites
    said = " ".join(f"Point {one.number} is so [{one.number}]." for one in cites)
    answer = (
        Answer("The sources do not answer this.", (), True, "extractive")
        if refused
        else Answer(said, cites, False, "extractive")
    )
    steps = [Step("rewrite", "rewrite", (), tuple(asked), seconds=0.0001)]
    steps += [
        Step(name, "retrieve", ("rewrite",), hits, seconds=0.01) for name, hits in lists.items()
    ]
    steps += [
        Step("fused", "fuse", tuple(lists), fused, seconds=0.001),
        Step("reranked", "rerank", ("fused",), reranked, seconds=0.02),
        Step("context", "assemble", ("reranked",), context, seconds=0.001),
        Step("answer", "generate", ("context",), answer, seconds=0.003),
    ]
    end = len(steps) if chance.random() < 0.8 else chance.randint(2, len(steps) - 1)
    if end <= len(lists):
        end = len(lists) + 1  # every lane, or none
    return Trace(first, tuple(steps[:end]))


def told_by(trace: Trace) -> SimpleNamespace:
    """What a picture of this trace has to show, read from the trace alone."""
    places, lists, left = {}, {}, {}
    for step in trace.steps:
        if step.stage in ("rewrite", "generate"):
            continue
        places[step.name] = 1 + max([places.get(name, 0) for name in step.after], default=0)
        hits = step.output.kept if isinstance(step.output, Context) else step.output
        lists[step.name] = [hit.chunk.chunk_id for hit in hits]
        drops = step.output.dropped if isinstance(step.output, Context) else ()
        left[step.name] = sorted(
            drop.hit.chunk.chunk_id for drop in drops if not CUT.search(drop.reason)
        )
    after = {step.name: step.after for step in trace.steps}
    return SimpleNamespace(places=places, lists=lists, left=left, after=after)


def check(seen: dict[str, Any], trace: Trace, step: int) -> None:
    told = told_by(trace)
    last = max([0, *told.places.values()])
    assert set(seen["lists"]) == set(told.lists)
    lines = fed = 0
    for name, place in told.places.items():
        drawn, reached = seen["lists"][name], place <= step
        if not reached:
            assert drawn["ids"] == [], f"{name} is not reached yet"
            continue
        ids, left = told.lists[name], told.left[name]
        assert drawn["ids"][: len(ids)] == ids
        assert sorted(drawn["ids"][len(ids) :]) == left
        assert drawn["places"] == list(range(1, len(ids) + len(left) + 1))
        if ids or left:
            assert drawn["sizes"] == [len(ids) + len(left)]
            assert drawn["x"] == [seen["heads"][str(place)]["x"]]
        sources = [name for name in told.after[name] if name in told.lists]
        lines += sum((told.lists[source]).count(one) for source in sources for one in ids + left)
        fed += not sources
    assert (seen["lines"], seen["fed"]) == (lines, fed)

    funnel = []
    for place in range(1, last + 1):
        here = [name for name, at in told.places.items() if at == place]
        different = {one for name in here for one in told.lists[name]}
        head = seen["heads"][str(place)]["told"]
        if place > step:
            assert head is None
            continue
        funnel.append(len(different))
        if len(here) == 1:
            assert int(head.split()[0]) == len(told.lists[here[0]])
        else:
            assert head == f"{len(here)} side by side"
            assert {name: seen["lanes"][name] for name in here} == {
                name: len(told.lists[name]) for name in here
            }
    done = bool(trace.stage("generate")) and step >= last + 1
    if done:
        funnel.append(len({one.chunk_id for one in trace.answer.citations}))
    assert seen["funnel"] == funnel
    assert seen["answered"] == done
    assert seen["queries"] == len(trace.queries)
    assert seen["tab"] == (1 if any(seen["lists"][name]["ids"] for name in told.lists) else 0)
    for words in seen["cuts"]:
        assert CUT.fullmatch(words)


def test_at_every_step_the_picture_shows_what_the_trace_holds(show):
    """One page; other data and other steps are put into its model, as a kernel would."""
    page = show(a_trace(), reduced_motion="reduce")
    chance = random.Random(5)
    shapes = set()
    for seed in range(40):
        trace = varied(seed)
        shapes.add((len(trace.steps), len(trace.queries), trace.steps[-1].stage))
        model = (priced if seed % 2 else flow_model)(trace)
        steps = list(range(len(model["stages"])))
        chance.shuffle(steps)  # forwards, backwards, and several at once
        put(page, step=steps[0], data=model)
        for step in steps:
            put(page, step=step)
            try:
                check(page.evaluate(SEEN), trace, step)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from error
    assert len(shapes) > 12


def test_the_check_itself_can_fail(show):
    page = show(a_trace(), reduced_motion="reduce")
    seen = page.evaluate(SEEN)
    check(seen, a_trace(), 5)
    for broken in (a_trace(keep=4), a_trace(seed=8), a_trace(k=19)):
        with pytest.raises(AssertionError):
            check(seen, broken, 5)
    with pytest.raises(AssertionError):
        check(seen, a_trace(), 3)


# -- heads, costs, funnel ------------------------------------------------------------------------


def costs(page):
    return {
        head.locator("strong").inner_text(): head.get_attribute("title")
        for head in page.locator(".rl-head").all()
    }


def test_heads_tell_what_a_list_holds_took_and_would_cost(show):
    trace = a_trace()
    page = show(trace, state={"data": priced(trace)})
    tokens = sum(words_in(hit.chunk.shown) for hit in trace.ranking("fused"))
    usd = tokens * 3.0 / 1_000_000
    told = costs(page)["fused"]
    assert told == f"fused · 35 fused · reused · {tokens:,} tokens · ${usd:.3g} to send"
    shown = page.locator(".rl-head[data-place='2'] .rl-costs").inner_text()
    assert shown.startswith("reused · ")
    assert shown.endswith(f"${usd:.3g}")
    assert "1,312 of 1,500 tokens · $0.00394 to send" in costs(page)["context"]
    lane = page.locator(".rl-lane:has(.rl-lane-name)").first.text_content()
    assert lane.startswith("dense  20 hits")
    assert "tok" in lane
    assert "$0.0" in lane


def test_what_models_were_asked_stands_at_its_stage(show):
    trace = a_trace()
    data = priced(trace)
    data["stages"][0] |= {"calls": 1, "tokens": 210, "usd": 0.0006}
    data["stages"][-1] |= {"calls": 2, "tokens": 1410, "usd": 0.00631}
    page = show(trace, state={"data": data})
    assert "1 call · 210 tokens · $0.0006" in costs(page)["Query"]
    assert page.locator(".rl-head[data-place='0'] .rl-costs").inner_text() == "1 call · $0.0006"
    assert "2 calls · 1,410 tokens · $0.00631" in page.locator(".rl-answer-head").inner_text()


def test_older_data_is_drawn_without_tokens_prices_and_words(show):
    trace = a_trace()
    data = flow_model(trace)
    del data["words"]
    for column in data["columns"]:
        if column["stage"] != "assemble":
            assert "tokens" not in column
    page = show(trace, state={"data": data})
    assert costs(page)["fused"] == "fused · 35 fused · reused"
    assert page.locator(".rl-asked").count() == 0
    assert page.locator(".rl-query").inner_text() == trace.query.text


def test_the_funnel_is_as_high_as_what_was_counted(show):
    trace = a_trace()
    page = show(trace, reduced_motion="reduce")
    heights = page.evaluate(
        """() => [...document.querySelectorAll(".rl-neck")].map((neck) => {
          const [, flat] = /H([\\d.]+)V/.exec(neck.firstChild.getAttribute("d"));
          const x = Number(flat) - 1;  // just before the place's end
          const point = (y) => neck.firstChild.isPointInFill(new DOMPoint(x, y));
          let high = 0;
          for (let y = 0; y < 34; y += 0.05) high += point(y) ? 0.05 : 0;
          return [Number.parseInt(neck.lastChild.textContent), high];
        })"""
    )
    assert [count for count, _ in heights] == [35, 35, 20, 6, 2]
    for count, high in heights:
        assert high == pytest.approx(30 * count / 35, abs=0.2)
    told = page.locator(".rl-band").get_attribute("aria-label")
    assert told == "Funnel: 35 different at Retrieve, 35 fused, 20 reranked, 6 context, 2 cited"
    page.get_by_role("button", name="Fuse", exact=True).click()
    assert page.locator(".rl-band").get_attribute("aria-label").endswith("35 fused")


# -- many rows -----------------------------------------------------------------------------------

OVERLAPS = """() => {
  const labels = [...document.querySelectorAll(
    '.rl-label, .rl-rank, .rl-why, .rl-lane, .rl-cut text, .rl-head, .rl-query, .rl-answer')]
    .filter((node) => node.textContent && getComputedStyle(node).visibility !== 'hidden')
    .map((node) => [node, node.getBoundingClientRect()]);
  const found = [];
  labels.forEach(([a, p], i) => labels.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 0.5 && high > 0.5) found.push(`${a.textContent} / ${b.textContent} ${wide} ${high}`);
  }));
  return found;
}"""


@pytest.mark.parametrize("width", [1280, 1000, 390])
@pytest.mark.parametrize(
    ("k", "depth", "queries"), [(25, 50, 1), (50, 50, 1), (50, 100, 1), (100, 100, 1), (20, 80, 4)]
)
def test_no_labels_overlap_however_many_rows_there_are(show, width, k, depth, queries):
    trace = a_trace(k, depth=depth, keep=20, queries=queries)
    evidence = [hit.chunk.chunk_id for hit in trace.context.kept[1:9]]
    page = show(
        trace, evidence, state={"data": priced(trace, evidence)},
        viewport={"width": width, "height": 720}, reduced_motion="reduce",
    )  # fmt: skip
    for step in (1, 2, 5):
        put(page, step=step)
        assert page.evaluate(OVERLAPS) == []
    chosen = trace.ranking("fused")[30].chunk.chunk_id
    put(page, selected=chosen)
    assert page.evaluate(OVERLAPS) == []


def test_a_hundred_and_sixty_rows_are_no_taller_than_a_screen(show):
    trace = a_trace(20, depth=80, queries=4)
    page = show(trace)
    assert page.locator(".rl-list .rl-row").count() > 8 * 20
    assert page.locator(".rl-board").bounding_box()["height"] <= 720
    assert page.locator(".rl-list[aria-label^='dense 4,'] .rl-bar-row").count() == 20
    heights = page.locator(".rl-bar-row").evaluate_all(
        "(all) => all.map((r) => r.height.baseVal.value)"
    )
    assert min(heights) >= 2
    assert max(heights) <= 5


def test_each_query_stands_by_its_lanes_and_feeds_them(show):
    trace = a_trace(20, depth=80, queries=4)
    page = show(trace, reduced_motion="reduce")
    notes = page.locator(".rl-query").all()
    assert len(notes) == 4
    for number, note in enumerate(notes, 1):
        name = "dense" if number == 1 else f"dense {number}"
        lane = page.locator(f".rl-list[aria-label^='{name},']").bounding_box()
        box = note.bounding_box()
        assert lane["y"] - 40 < box["y"] < lane["y"]
    chosen = next(
        hit.chunk.chunk_id
        for hit in trace.ranking("dense 3")
        if all(hit.chunk not in [h.chunk for h in trace.ranking(n)] for n in ("dense", "sparse"))
    )
    put(page, selected=chosen)
    found_by = {
        int(name.rpartition(" ")[2]) if " " in name else 1
        for name in (step.name for step in trace.steps if step.stage == "retrieve")
        if chosen in [hit.chunk.chunk_id for hit in trace.ranking(name)]
    }
    lit = [n for n, note in enumerate(notes, 1) if "rl-fed" in note.get_attribute("class")]
    assert set(lit) == found_by
    assert 1 not in found_by
    assert page.locator(".rl-line.rl-fed").count() == sum(
        chosen in [hit.chunk.chunk_id for hit in trace.ranking(step.name)]
        for step in trace.steps
        if step.stage == "retrieve"
    )


def test_bars_are_options_that_the_keyboard_and_the_pointer_name(show):
    trace = a_trace(50, depth=100, keep=20)
    page = show(trace, reduced_motion="reduce")
    listbox = page.get_by_role("listbox", name="fused, 81 fused")
    assert listbox.get_by_role("option").count() == 81
    page.locator("[role=option][tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    hit = trace.ranking("fused")[30]
    here = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert here.startswith(f"{hit.chunk.chunk_id}, ")
    assert "rank 31 in fused" in here
    tags = page.locator(".rl-tag.rl-warm").all_text_contents()
    assert tags
    assert all(tag.endswith(f"#{hit.chunk.chunk_id.split('#')[1]}") for tag in tags)
    assert hit.chunk.chunk_id in page.locator(".rl-hint").inner_text()
    page.keyboard.press("Enter")
    assert page.locator(".rl-id").inner_text() == hit.chunk.chunk_id
    page.keyboard.press("Escape")
    other = trace.ranking("dense")[40].chunk.chunk_id
    page.locator(f".rl-list[aria-label^='dense,'] [aria-label^='{other},']").hover()
    assert other in page.locator(".rl-hint").inner_text()


def test_tab_goes_from_rows_to_words_to_citations_and_nowhere_else(show):
    page = show(a_trace())
    page.get_by_role("button", name="Show as table").focus()
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('class')").split()[0])
    assert reached == ["rl-row", "rl-asked", "rl-cite", "rl-cite"]
    assert page.locator("[role=option][tabindex='0']").count() == 1


def test_marked_bars_keep_a_label_and_others_have_none(show):
    trace = a_trace(50, depth=100, keep=20)
    holder = trace.context.kept[3].chunk.chunk_id
    page = show(trace, [holder], reduced_motion="reduce")
    bars = {"dense": 50, "sparse": 50, "fused": 81, "reranked": 81}
    for name, count in bars.items():
        assert page.locator(f".rl-list[aria-label^='{name},'] .rl-bar-row").count() == count
    marked = {holder, *(one.chunk_id for one in trace.answer.citations)}
    expected = [
        f"{hit.rank} {'★' if hit.chunk.chunk_id == holder else '●'}"
        for name in bars
        for hit in trace.ranking(name)
        if hit.chunk.chunk_id in marked
    ]
    tags = [" ".join(tag.split()[:2]) for tag in page.locator(".rl-tag").all_text_contents()]
    assert sorted(tags) == sorted(expected)


# -- following a chunk, and a word ---------------------------------------------------------------


def test_a_chosen_chunk_lights_its_way_to_the_sentence_that_cites_it(show):
    trace = a_trace()
    page = show(trace)
    second = trace.context.kept[1].chunk.chunk_id
    put(page, selected=second)
    lit = page.locator(".rl-answer-text .rl-sentence.rl-chosen").all_inner_texts()
    assert [text.strip() for text in lit] == [
        "Enterprise customers have 45 days from the invoice [2]."
    ]
    dim = page.locator(".rl-answer-text .rl-sentence.rl-aside").all_inner_texts()
    assert [text.strip() for text in dim] == ["Send a written request [1]."]
    assert page.locator(".rl-quotes .rl-chosen").count() == 1
    assert page.locator(".rl-query.rl-fed").count() == 1
    uncited = trace.context.kept[3].chunk.chunk_id
    put(page, selected=uncited)
    assert page.locator(".rl-answer .rl-chosen, .rl-answer .rl-aside").count() == 0
    page.get_by_role("button", name="Citation 1, ").first.click()
    assert (
        page.locator(".rl-answer-text .rl-chosen").inner_text().strip()
        == "Send a written request [1]."
    )


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. [1] Two [2].", ["One. [1]", " Two [2]."]),
        ("Is 3.11 out [1]? It is v. good [2]!", ["Is 3.11 out [1]?", " It is v. good [2]!"]),
        ("A table row [1] Another [2][1]", ["A table row [1]", " Another [2][1]"]),
        ("- first [1, 2]\n- second [2]", ["- first [1, 2]\n", "- second [2]"]),
        ("", []),
    ],
)  # fmt: skip
def test_an_answer_falls_into_the_sentences_that_cite(show, text, sentences):
    trace = a_trace()
    steps = [*trace.steps[:-1], replace(trace.steps[-1], output=replace(trace.answer, text=text))]
    page = show(Trace(trace.query, tuple(steps)))
    found = page.locator(".rl-answer-text .rl-sentence").all_text_contents()
    assert found == sentences
    assert "".join(found) == text
    numbers = re.findall(r"\d+", " ".join(re.findall(r"\[[\d, ]+\]", text)))
    assert page.locator(".rl-answer-text .rl-cite").count() == len(numbers)


def lit_rows(page):
    return {
        name: sorted(ids)
        for name, ids in page.evaluate(
            """() => {
              const name = (node) => node.getAttribute("aria-label").split(", ")[0];
              const lit = (list) => [...list.querySelectorAll(".rl-worded")].map(name);
              const lists = [...document.querySelectorAll(".rl-list")];
              return Object.fromEntries(lists.map((list) => [name(list), lit(list)]));
            }"""
        ).items()
    }


def with_part(trace, name, *starts):
    ids = []
    hits = trace.context.kept if name == "context" else trace.ranking(name)
    for hit in hits:
        parts = [p for p in hit.parts if p.value > 0 and p.name.removeprefix("match: ") in starts]
        if parts:
            ids.append(hit.chunk.chunk_id)
    return sorted(ids)


def test_a_word_lights_up_wherever_it_counts(show):
    trace = a_trace()
    page = show(trace, script="window.told = []; window.Picture = Picture;")
    word = page.locator(".rl-asked", has_text="enterprise")
    word.hover()
    rows = lit_rows(page)
    for name in ("sparse", "reranked", "context"):
        assert rows[name] == with_part(trace, name, "enterprise")
    assert rows["dense"] == rows["fused"] == []  # a cosine has no words, nor have ranks
    assert page.locator(".rl-echo.rl-worded").all_inner_texts() == ["Enterprise"]
    page.mouse.move(5, 5)
    assert not any(lit_rows(page).values())

    page.locator(".rl-asked[tabindex='0']").focus()
    page.keyboard.press("End")
    here = page.evaluate("document.activeElement.textContent")
    assert here == "refund"
    assert lit_rows(page)["sparse"] == with_part(trace, "sparse", "refund")
    assert page.locator(".rl-asked[tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    assert not any(lit_rows(page).values())


def test_the_shell_is_told_of_a_word_and_can_light_one(show):
    trace = a_trace()
    page = show(trace, script="window.Picture = Picture;", state={"data": priced(trace)})
    told = page.evaluate(
        """(data) => {
          const host = document.createElement("div");
          host.className = "raglab-flow";
          document.body.prepend(host);
          const picture = new Picture(() => {});
          host.append(picture.el);
          picture.step = 5;
          picture.draw(data);
          const told = [];
          picture.onWord = (index) => told.push(index);
          const word = picture.el.querySelectorAll(".rl-asked")[1];
          word.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
          const lit = picture.el.querySelectorAll(".rl-row.rl-worded").length;
          picture.word(null);
          const left = picture.el.querySelectorAll(".rl-worded").length;
          picture.word(data.words.findIndex(({ text }) => text === "refund"));
          const again = picture.el.querySelectorAll(".rl-asked.rl-worded")[0].textContent;
          host.remove();
          return { told, lit, left, again, index: Number(word.dataset.word) };
        }""",
        priced(trace),
    )
    assert told["told"][:2] == [told["index"], None]
    assert told["lit"] > 0
    assert told["left"] == 0
    assert told["again"] == "refund"


def test_what_only_this_pipeline_found_has_a_sign_and_a_colour(show):
    trace = a_trace(50, depth=100, keep=20)
    data = flow_model(trace)
    only = trace.context.kept[4].chunk.chunk_id
    for card in data["chunks"]:
        card["marks"] += ["only-here"] if card["id"] == only else []
    page = show(trace, state={"data": data}, reduced_motion="reduce")
    row = page.locator(f".rl-list[aria-label^='context,'] .rl-row[aria-label^='{only},']")
    assert row.locator(".rl-label").text_content().startswith("◆ ")
    assert "in this prompt and not in the other one" in row.get_attribute("aria-label")
    assert page.locator(".rl-tag.rl-only-here").count() > 1
    colour = "(selector) => getComputedStyle(document.querySelector(selector))"
    line = page.evaluate(f"({colour})('.rl-line.rl-only-here').stroke")
    others = {
        page.evaluate(f"({colour})('.rl-line{more}').stroke")
        for more in (".rl-cited", ":not(.rl-cited, .rl-only-here)")
    }
    assert line not in others


# -- quickness -----------------------------------------------------------------------------------

WATCH = """() => {
  window.tasks = [];
  window.frames = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.tasks.push(duration);
  }).observe({ entryTypes: ["longtask"] });
  let last = 0;
  const tick = (now) => {
    if (last) window.frames.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""
WALK = """async () => {
  const { model } = document.getElementById("raglab-flow");
  const rest = (time) => new Promise((done) => setTimeout(done, time));
  const last = model.get("data").stages.length - 1;
  model.set("step", 0);
  await rest(900);
  window.tasks.length = window.frames.length = 0;
  for (let step = 1; step <= last; step += 1) {
    model.set("step", step);
    await rest(900);
  }
  for (let step = last - 1; step >= 0; step -= 1) {
    model.set("step", step);
    await rest(450);
  }
  const frames = window.frames.toSorted((a, b) => a - b);
  const at = (share) => frames[Math.floor((frames.length - 1) * share)];
  return { frames: frames.length, median: at(0.5), p95: at(0.95), long: window.tasks };
}"""
DRAWS = """async (models) => {
  const host = document.createElement("div");
  host.className = "raglab-flow";
  host.style.width = "980px";
  document.body.append(host);
  const picture = new Picture(() => {});
  host.append(picture.el);
  picture.step = 5;
  const took = [];
  for (let turn = 0; turn < 45; turn += 1) {
    const data = { ...models[turn % models.length] };
    const from = performance.now();
    picture.draw(data);
    took.push(performance.now() - from);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  }
  host.remove();
  took.splice(0, 5);
  took.sort((a, b) => a - b);
  const at = (share) => took[Math.floor((took.length - 1) * share)];
  return { median: at(0.5), p95: at(0.95) };
}"""


def busiest(path) -> float:
    """Milliseconds of processor time of the longest task on the page's main thread.

    Unlike time on the clock it does not grow when something else keeps the machine busy.
    """
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event.get("tdur", 0) / 1000
        for event in events
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in main
    ]
    assert tasks
    return max(tasks)


def test_stepping_through_a_hundred_candidates_keeps_the_page_free(show, chromium, tmp_path):
    trace = a_trace(50, depth=100, keep=20)
    page = show(trace, state={"data": priced(trace)})
    page.evaluate(WATCH)
    for attempt in range(3):  # another job may hold the processor for a while
        path = tmp_path / f"{attempt}.json"
        chromium.start_tracing(page=page, path=path, categories=["toplevel", "devtools.timeline"])
        figures = page.evaluate(WALK)
        chromium.stop_tracing()
        worked = busiest(path)
        print(
            f"stepping, 100 candidates: {figures['frames']} frames, median {figures['median']:.1f} "
            f"ms, p95 {figures['p95']:.1f} ms; long tasks {[round(ms) for ms in figures['long']]}; "
            f"busiest task {worked:.0f} ms of processor time"
        )
        if not figures["long"] or worked < 50:
            break
    assert not figures["long"] or worked < 50
    assert figures["median"] < 20


@pytest.mark.parametrize(("k", "candidates"), [(25, 50), (50, 100)])
def test_other_data_is_drawn_within_two_frames(show, k, candidates):
    settings = {"depth": candidates, "keep": 20}
    page = show(a_trace(k, **settings), script="window.Picture = Picture;")
    models = [priced(a_trace(k, seed=seed, **settings)) for seed in (7, 8, 9)]
    best = None
    for _ in range(3):
        figures = page.evaluate(DRAWS, models)
        told = f"median {figures['median']:.1f} ms, p95 {figures['p95']:.1f} ms"
        print(f"draw, {candidates} candidates: {told}")
        best = min(best or figures["median"], figures["median"])
        if best < 30:
            break
    assert best < 30


# -- sizes, safety, names ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(640, 720), (390, 844)])
def test_only_the_picture_scrolls_sideways(show, size):
    trace = a_trace(20, depth=80, queries=4)
    viewport = {"width": size[0], "height": size[1]}
    page = show(trace, viewport=viewport, reduced_motion="reduce")
    for step in range(6):
        put(page, step=step)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        newest = page.locator(".rl-head:not(.rl-pending)").last.bounding_box()
        scroll = page.locator(".rl-scroll").bounding_box()
        assert scroll["x"] - 1 <= newest["x"]
        assert newest["x"] + newest["width"] <= scroll["x"] + scroll["width"] + 1
    page.get_by_role("button", name="Show as table").click()
    heights = [one.bounding_box()["height"] for one in page.locator(".rl-table .rl-cite").all()[:5]]
    assert min(heights) >= 24


def test_hostile_text_stays_inside_its_box(show):
    trace = a_trace(hostile=HOSTILE)
    page = show(trace, state={"data": priced(trace)}, reduced_motion="reduce")
    put(page, selected=trace.context.kept[0].chunk.chunk_id)
    page.locator(".rl-list[aria-label^='fused,'] .rl-row").nth(3).hover()
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]
    labels = page.locator(".rl-board text, .rl-band text, .rl-head span").all_text_contents()
    assert labels
    assert not [one for one in labels if re.search("[\u202e\u2066\x00]", one)]
    outside = page.evaluate(
        """() => {
          const out = [];
          const within = (inner, outer) => {
            const [p, q] = [inner.getBoundingClientRect(), outer.getBoundingClientRect()];
            if (p.left < q.left - 1 || p.right > q.right + 1) out.push(inner.textContent);
          };
          for (const row of document.querySelectorAll("g.rl-row"))
            for (const text of row.querySelectorAll("text")) within(text, row.firstChild);
          for (const box of document.querySelectorAll(".rl-query, .rl-answer, .rl-hint"))
            for (const node of box.querySelectorAll("*")) within(node, box);
          return out;
        }"""
    )
    assert outside == []
    assert page.locator(".rl-query").bounding_box()["height"] <= 160
    assert page.locator(".rl-hint").bounding_box()["height"] <= 190


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend_in_bars_and_words(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    trace = a_trace(50, depth=100, keep=20)
    evidence = [trace.context.kept[1].chunk.chunk_id]
    data = priced(trace, evidence)
    for card in data["chunks"][3:6]:
        card["marks"].append("only-here")
    page = show(trace, evidence, state={"data": data}, color_scheme=scheme, reduced_motion="reduce")
    views = {
        "whole": lambda: None,
        "a word": lambda: page.locator(".rl-asked", has_text="refund").focus(),
        "a word and a chunk": lambda: put(page, selected=evidence[0]),
        "a chunk that was lost": lambda: put(page, selected=data["columns"][0]["rows"][30][0]),
        "half way": lambda: put(page, step=2),
    }
    for name, act in views.items():
        act()
        found = Axe().run(page).response["violations"]
        told = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found]
        assert not told, f"{name}, {scheme}: {told}"
