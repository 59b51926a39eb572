"""The timeline tells what a trace holds, in order, once as a picture and once as sentences."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from browser import Pages, open_browser
from fakes import FakeAgentLLM, asks, chunk
from traces import a_trace

from raglab.generations import with_model
from raglab.lab import open_lab
from raglab.prices import Price
from raglab.trace import DECIDE, Output, Step, Trace
from raglab.types import (
    REFUSAL,
    Answer,
    Citation,
    Completion,
    Context,
    Decision,
    Drop,
    Hit,
    Part,
    Query,
    Ranking,
)
from raglab.views.panel import Panel
from raglab.views.timeline import decided_in_words, timeline, timeline_panel

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"
PRICE = Price("m", input=3, output=15, cache_write=3.75, cache_read=0.3, cache_least=1024, as_of="")


def hits(*names: str, heading: str = "Guide > Part") -> Ranking:
    cards = [chunk(name, "words", heading=heading) for name in names]
    return tuple(Hit(card, 1.0, n, (Part("p", 1.0),)) for n, card in enumerate(cards, start=1))


def context(*names: str, left_out: tuple[Drop, ...] = ()) -> Context:
    return Context("words", hits(*names), left_out, 10 * len(names), 100)


def decided(name: str, decision: Decision, round_: int = 1, thought: str = "") -> Step:
    calls = (Completion(thought, "m", "kept reply", 1000, 200),) if thought else ()
    return Step(name, DECIDE, (), decision, calls=calls, round=round_, seconds=0.25)


def search(round_: int, query: str, brought: Context) -> tuple[Step, ...]:
    """Two lists of 3 and 2 hits, fused to 4."""
    made: tuple[tuple[str, str, Output], ...] = (
        ("rewrite", "rewrite", (Query("q", query),)),
        ("dense", "retrieve", hits("x#0", "x#1", "x#2")),
        ("sparse", "retrieve", hits("x#0", "x#3")),
        ("fused", "fuse", hits("x#0", "x#1", "x#2", "x#3")),
        ("context", "assemble", brought),
    )
    return tuple(Step(name, stage, (), out, round=round_) for name, stage, out in made)


def answered(text: str, *cited: tuple[int, str], refused: bool = False) -> Step:
    citations = tuple(Citation(n, name, "words") for n, name in cited)
    return Step("answer", "generate", ("gathered",), Answer(text, citations, refused, "kept reply"))


READ = tuple(Drop(hit, "read already as [1]") for hit in hits("a#0"))
FIRST, ENOUGH, MARS = "Nothing is known.", "support 0.90, at least 0.67", "1 of 3: “On Mars”"
STANDS = (Part("All of it", 1.0), Part("On Mars", 0.0), Part("In May", 1.0))
SUPPORTS = (Part("a#0", 0.9), Part("c#0", 0.25))
AGENT = Trace(
    Query("q", "How much is paid back, and when?"),
    (
        decided("plan", Decision("search", FIRST, text="paid back"), thought=FIRST),
        *search(1, "paid back", context("a#0", "b#0")),
        decided(
            "plan",
            Decision("search", "The day is lacking.", chunk_ids=("a#0",), text="when paid"),
            thought="The day is lacking.",
        ),
        *search(2, "when paid", context("c#0", left_out=READ)),
        decided("plan", Decision("answer", ENOUGH, SUPPORTS, ("a#0", "c#0")), 2),
        Step("gathered", "assemble", (), context("a#0", "c#0", left_out=READ), round=2),
        answered("All of it [1]. On Mars [2]. In May [2].", (1, "a#0"), (2, "c#0")),
        decided("grounded?", Decision("not supported", MARS, STANDS), 2),
        answered("All of it [1]. In May [2].", (1, "a#0"), (2, "c#0")),
    ),
)  # fmt: skip
SIGNS = (Part("support", 0.4), Part("lead", 0.2))
MODULAR = Trace(
    Query("q", "Compare A, B and C", history=("Hello",)),
    (
        decided("route", Decision("analytical", "compares 2", (Part("compares", 2.0),))),
        *search(1, "Compare A, B and C", context("a#0", "b#0")),
        decided("enough?", Decision("lacking", "0.60, below 0.67", SIGNS)),
        *search(2, "Compare A, B and C", context("b#0", "a#0", "c#0")),
        decided("enough?", Decision("lacking", "0.61, below 0.67"), 2),
        answered(REFUSAL, refused=True),
    ),
)  # fmt: skip


def plain(markup: object) -> str:
    """What a reader sees, without tags."""
    inline = re.sub(r"</?(?:bdi|b|em|del)\b[^>]*>", "", str(markup))
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inline)).split())


def rows(markup: object) -> list[str]:
    """Each row of the outer list, as it is read."""
    opening = '<li style="display:grid'
    return [plain(opening + part) for part in str(markup).split(opening)[1:]]


def heads(markup: object) -> list[str]:
    return [plain(head) for head in re.findall(r"<strong[^>]*>(.*?)</strong>", str(markup))]


def cards(markup: object, name: str) -> list[str]:
    """What stands on every chip of this chunk."""
    found = re.findall(rf'<li data-key="{re.escape(name)}" style="([^"]*)">(.*?)</li>', str(markup))
    return [plain(f"{'dashed ' if 'dashed' in style else ''}{text}") for style, text in found]


# -- what happened, in order ----------------------------------------------------------------------


def test_an_agent_from_its_first_plan_to_its_check() -> None:
    assert heads(timeline(AGENT)) == [
        "Asked", "Plan", "Search 1", "2 passages", "Plan", "Search 2", "1 new passage", "Plan",
        "Gathered", "Draft", "Grounded?", "Answer",
    ]  # fmt: skip


def test_the_words_say_the_same() -> None:
    assert decided_in_words(AGENT) == (
        "Asked: “How much is paid back, and when?” "
        "Plan: search. “Nothing is known.” It searches. "
        "Search 1 for “paid back”: dense 3 hits, sparse 2 hits. "
        "It brings 2 passages, [1] to [2]; 1 judged not relevant. "
        "Plan: search. “The day is lacking.” It searches. "
        "Search 2 for “when paid”: dense 3 hits, sparse 2 hits. "
        "It brings 1 new passage; 1 more read already. "
        "Plan: answer (support 0.90, at least 0.67). It answers. "
        "Gathered: 2 sources, 20 of 100 tokens; numbered anew, as the answer cites them; "
        "1 passage left out. "
        "Draft: All of it [1]. On Mars [2]. In May [2]. Origin: kept reply. "
        "Grounded? not supported (1 of 3: “On Mars”). The rest is given. "
        "Answer: All of it [1]. In May [2]. Origin: kept reply."
    )


def test_every_row_is_drawn_and_said_in_one_order() -> None:
    words = decided_in_words(MODULAR)
    told = ("Asked", "Route: analytical", "Search 1", "Enough?", "Search 2", "Enough?", "Answer")
    assert re.findall("|".join(map(re.escape, told)), words) == list(told)
    assert heads(timeline(MODULAR)) == [
        "Asked after 1 turn", "Route", "Search 1", "2 passages", "Enough?", "Search 2",
        "3 passages", "Enough?", "Answer",
    ]  # fmt: skip
    assert words.count("It searches once more.") == 1
    assert "Enough? lacking (0.61, below 0.67). It answers from what is there." in words
    assert "It brings 3 passages, [1] to [3]; 1 of them new." in words


def test_passages_keep_their_number_where_an_agent_reads_them() -> None:
    """a and b are [1] and [2], so c is [3]; the answer's context holds a and c, as [1] and [2]."""
    drawn = timeline(AGENT, ["c#0"])
    assert cards(drawn, "a#0")[:2] == ["[1] a#0 Guide > Part", "[1] a#0"]
    assert cards(drawn, "b#0") == ["dashed [2] b#0 Guide > Part not relevant"]
    assert cards(drawn, "c#0")[:2] == ["[3] ★ c#0 Guide > Part support 0.25", "[2] ★ c#0"]
    assert "width:25.0%" in drawn  # the bar under "support 0.25"
    assert plain(drawn).count("0.25") == 1  # drawn with the passage, and not again with the plan


def test_elsewhere_each_context_counts_from_one() -> None:
    drawn = timeline(MODULAR)
    assert cards(drawn, "a#0") == ["[1] a#0 Guide > Part", "[2] a#0 Guide > Part"]
    assert "not relevant" not in drawn
    assert "3 sources, 30 of 100 tokens" in plain(drawn)
    assert "width:30.0%" in drawn


def test_no_passage_is_called_irrelevant_where_a_bound_stopped_the_planner() -> None:
    steps = list(AGENT.steps[:6])
    steps.append(decided("plan", Decision("stop", "the next call may cost $0.2")))
    words = decided_in_words(Trace(AGENT.query, tuple(steps)))
    assert "relevant" not in words
    assert words.endswith(
        "Plan: stop (the next call may cost $0.2). It answers from what is there."
    )


def test_a_plan_that_found_no_turn_says_so() -> None:
    steps = (*AGENT.steps[:7], AGENT.steps[13], answered(REFUSAL, refused=True))
    words = decided_in_words(Trace(AGENT.query, steps))
    assert "No turn is left to search for “when paid”: it answers from what is there." in words
    assert "Answer, a refusal: The sources do not answer this." in words


def test_parts_of_a_decision_are_bars_beside_their_numbers() -> None:
    """Support 0.4 is the longest, and lead 0.2 is half as long."""
    row = str(timeline(MODULAR)).split('<li style="display:grid')[5]
    assert re.findall(r"(\w+ [\d.]+)<div aria-hidden.*?width:([\d.]+)%", row) == [
        ("support 0.4", "100.0"), ("lead 0.2", "50.0"),
    ]  # fmt: skip
    assert "0.60, below 0.67" in row


def test_a_sentence_that_nothing_supports_is_struck_out() -> None:
    assert [plain(x) for x in re.findall(r"<del>.*?</del>", str(timeline(AGENT)))] == ["On Mars"]


def test_a_citation_is_tied_to_its_chunk_and_other_brackets_are_text() -> None:
    steps = (*AGENT.steps[:-3], answered("All [1]. See [7].", (1, "a#0")))
    drawn = timeline(Trace(AGENT.query, steps))
    assert re.findall(r'<b data-key="([^"]*)">([^<]*)</b>', str(drawn)) == [("a#0", "[1]")]
    assert "See [7]." in plain(drawn)


def test_a_plain_trace_is_one_search_and_its_answer() -> None:
    trace = a_trace(k=20, keep=8, queries=2)
    assert heads(timeline(trace)) == ["Asked", "Search 1", "6 passages", "Answer"]
    words = decided_in_words(trace)
    assert "dense 20 hits, sparse 20 hits, dense 2 20 hits, sparse 2 20 hits." in words
    assert "and “rewrite 2”" in words
    assert heads(timeline(AGENT.last_round()))[1:3] == ["Search 2", "1 passage"]
    assert heads(timeline(Trace(Query("q", "Well?"), ()))) == ["Asked"]


def test_an_agent_that_searched_nothing() -> None:
    plan = decided("plan", Decision("answer", "nothing in it can be looked up"))
    gathered = Step("gathered", "assemble", (), context())
    trace = Trace(Query("q", "thanks!"), (plan, gathered, answered(REFUSAL, refused=True)))
    assert plain(timeline(trace)).startswith("0 searches · 1 decision Asked")
    assert "Gathered: 0 sources, 0 of 100 tokens." in decided_in_words(trace)


# -- models and clock time ------------------------------------------------------------------------


def test_what_a_model_was_asked_and_what_it_cost() -> None:
    """1,000 tokens at 3 and 200 at 15 dollars a million: 0.003 + 0.003. It was asked twice."""
    assert "m, kept reply: 1,000 tokens in, 200 out" in rows(timeline(AGENT))[1]
    drawn = timeline(AGENT, price=PRICE)
    assert plain(drawn).startswith(
        "2 searches · 4 decisions · 2 calls of a model · 2,400 tokens · $0.0120"
    )
    assert plain(drawn).count("1,000 tokens in, 200 out: $0.0060") == 2


def test_only_what_a_model_wrote_stands_in_quotes() -> None:
    assert "“Nothing is known.”" in rows(timeline(AGENT))[1]
    steps = (replace(AGENT.steps[0], calls=()), *AGENT.steps[1:])
    assert "“Nothing is known.”" not in rows(timeline(Trace(AGENT.query, steps)))[1]


def test_clock_time_is_drawn_where_it_is_asked_for() -> None:
    slow = Trace(AGENT.query, tuple(replace(step, seconds=9.0) for step in AGENT.steps))
    assert timeline(slow) == timeline(AGENT)
    assert "250.0 ms" in rows(timeline(AGENT, times=True))[1]
    assert "36,000.0 ms" in rows(timeline(slow, times=True))[2]  # four steps of nine seconds


# -- the panel ------------------------------------------------------------------------------------


def run(query: str, pipeline: str) -> Trace:
    trace = {"agentic": AGENT, "modular": MODULAR}[pipeline]
    return replace(trace, query=replace(trace.query, text=query))


def panel(query: str = "refund") -> Panel:
    return timeline_panel(
        run, query, lambda query: ["c#0", "z#0"], pipelines=("agentic", "modular"), price=PRICE
    )


def test_the_panel_runs_again_for_another_pipeline_or_query() -> None:
    made = panel()
    assert made.words == (
        "Plan: search; search 1; 2 passages; plan: search; search 2; 1 new passage; plan: answer; "
        "draft; grounded? not supported; answer. "
        "★ c#0 came with search 2. ★ z#0 never came."
    )
    made.turn(pipeline="modular")
    assert made.words.startswith("Route: analytical; search 1; 2 passages; enough? lacking;")
    assert "answer: refused. ★ c#0 came with search 2." in made.words
    made.turn(query="another")
    assert "“another”" in made.html
    made.turn(pipeline="naive")
    assert "choose one of agentic, modular" in made.status


# -- any text, and any viewer ---------------------------------------------------------------------


def hostile() -> Trace:
    """Every text is hostile, and too long to be shown whole."""
    text = HOSTILE + " and so on" * 60
    name = f"a#{HOSTILE}"
    kept = hits(name, heading=text)
    found = Context(text, kept, (Drop(kept[0], text),), 10, 100)
    answer = Answer(f"{text} [1]", (Citation(1, name, text),), False, text)
    plan = Decision("search", text, (Part(HOSTILE, 1.0),), (), text)
    lacking = Decision("not supported", text, chunk_ids=(name,), text=text)
    return Trace(
        Query("q", text),
        (
            replace(
                decided(HOSTILE, Decision(text, text)),
                calls=(Completion(text, HOSTILE, text, 1, 1),),
            ),
            decided("plan", plan, thought=text),
            *search(1, text, found),
            Step("gathered", "assemble", (), found),
            Step("answer", "generate", (), answer),
            decided("grounded?", lacking),
            Step("answer", "generate", (), answer),
        ),
    )


def test_hostile_text_stays_text() -> None:
    drawn = timeline(hostile(), [f"a#{HOSTILE}"], price=PRICE)
    assert "<script" not in drawn
    assert "<img" not in drawn
    assert "&lt;script&gt;" in drawn


def test_a_long_text_is_folded_and_nothing_of_it_is_lost() -> None:
    words = [f"word{n}" for n in range(100)]
    drawn = str(timeline(Trace(Query("q", " ".join(words)), ())))
    shown, _, rest = drawn.partition("<details")
    assert (
        re.findall(r"word\d+", shown) + re.findall(r"word\d+", rest.split("</summary>")[1]) == words
    )
    assert "letters more" in rest
    assert "<details" not in timeline(Trace(Query("q", "short"), ()))
    assert len(decided_in_words(Trace(Query("q", " ".join(words)), ()))) < 260


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def pages(chromium: object, tmp_path) -> Iterator[Pages]:  # type: ignore[no-untyped-def]
    opened = Pages(chromium, tmp_path)
    yield opened
    opened.close()  # fails where a page asked the network, or its script failed


@pytest.mark.parametrize("pipeline", ["agentic", "modular"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(pages: Pages, pipeline: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    text = panel().turn(pipeline=pipeline).page()
    page = pages.open(text, wait=".rl-picture ol > li", color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told, f"{pipeline}, {scheme}: {told}"


def test_a_hostile_page_is_inert_and_no_wider_than_a_telephone(pages: Pages) -> None:
    trace = hostile()
    text = timeline_panel(lambda query, pipeline: trace, "q", pipelines=("agentic",)).page()
    page = pages.open(text, wait=".rl-picture ol > li", viewport={"width": 390, "height": 844})
    for fold in page.locator("details > summary").all():
        fold.click()
    assert page.evaluate("window.hit") is None
    assert page.locator(".raglab-panel img, .raglab-panel script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide, room = page.locator(".rl-picture").evaluate(
        "node => [node.scrollWidth, node.clientWidth]"
    )
    assert wide <= room


def test_pointing_at_a_passage_lights_it_wherever_it_stands(pages: Pages) -> None:
    page = pages.open(panel().page(), wait=".rl-picture ol > li")
    page.locator("li[data-key='c#0']").first.hover()
    lit = page.locator(".rl-warm").evaluate_all("nodes => nodes.map(node => node.textContent)")
    assert len(lit) > 3
    assert all("c#0" in text or text == "[2]" for text in lit)


# -- a real run -----------------------------------------------------------------------------------

OUTAGE = "Was the search outage in November long enough that customers get money off, and how much?"


def test_a_real_agent_with_a_model_that_searches_twice() -> None:
    """The second search brings the table of credits, which the first one did not."""
    llm = FakeAgentLLM([
        ("First, how long it was.", [asks("search", query="search outage duration", relevant=[])]),
        ("Now the credit.", [asks("search", query="service credits uptime table", relevant=[1])]),
        ("The sources do not answer this.", []),
    ])  # fmt: skip
    pipeline = with_model(open_lab("handbook", preset="agentic", progress=False), llm)
    trace = pipeline.run(OUTAGE)
    drawn = timeline(trace, ["sla-credits#2"], price=PRICE)
    assert [head for head in heads(drawn) if head.startswith("Search")] == ["Search 1", "Search 2"]
    first, second = str(drawn).split("Search 2")
    assert "★" not in first
    assert "★ sla-credits#2" in plain(second)
    assert first.count("<em>not relevant</em>") == 7  # it went on with the first of eight
    assert "“Now the credit.”" in plain(drawn)
    assert plain(drawn).startswith("2 searches · 4 decisions · 3 calls of a model · 45 tokens")


def test_two_real_runs_give_the_same_picture_letter_for_letter() -> None:
    """The second one takes its steps from the first, and a notebook's check compares them."""
    pipeline = open_lab("handbook", preset="modular", progress=False)
    one, other = (timeline(pipeline.run("ERR_2043"), price=PRICE) for _ in range(2))
    assert one == other
    assert heads(one) == ["Asked", "Route", "Search 1", "8 passages", "Enough?", "Answer"]
