"""How a pipeline decided: what it thought, searched for, found and said, from top to bottom.

One pass over a trace makes the rows.  Each row carries its picture and its sentence, so what is
drawn and what is read aloud cannot tell two stories.  Where nothing was decided, it is a short one.

Left out: scores of every hit (the flow view has them), and clock time, which no two runs share;
`times=True` draws it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from markupsafe import Markup

from raglab.prices import Price, after_call
from raglab.trace import DECIDE, Step, Trace
from raglab.types import Answer, Chunk, Completion, Context, Decision, Part, Query, Ranking
from raglab.views.bars import tint
from raglab.views.budgetview import Marked
from raglab.views.panel import Drawing, Knob, Panel

PLAN, SEARCH, STOP = "plan", "search", "stop"  # as an agent's steps and choices are called
GOOD, BAD = ("enough", "supported"), ("lacking", "not supported", "stop", "refused")
LONG = 240  # letters of a text that are shown at once
SOFT = "color-mix(in srgb, currentColor 74%, transparent)"  # readable on any ground, light or dark
LINE = "color-mix(in srgb, currentColor 22%, transparent)"
STAR = "var(--evidence-line, #d55e00)"
CHIPS = "list-style:none;margin:6px 0 0;padding:0;display:{};gap:6px"
GRID = CHIPS.format("grid") + ";grid-template-columns:repeat(auto-fill,minmax(min(215px,100%),1fr))"
WRAP = CHIPS.format("flex") + ";flex-wrap:wrap;align-items:center"
ICONS: Mapping[str, tuple[int, str]] = {  # a kind of row -> its colour, and a path of 16 by 16
    "asked": (5, "M5.6 6a2.4 2.4 0 1 1 3.5 2.2Q8 8.8 8 10M8 12.6v.1"),
    "decided": (3, "M8 3v2.5c0 2.5-4 2.5-4 5V13M8 5.5c0 2.5 4 2.5 4 5V13"),
    "searched": (0, "M7 3.5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7M9.6 9.6L13 13"),
    "found": (0, "M4 4.5h8M4 8h8M4 11.5h5"),
    "gathered": (4, "M3 4h10L9.5 8.5V13l-3-1.5v-3z"),
    "answered": (2, "M3 4h10v6.5H8L5 13v-2.5H3z"),
    "stands": (2, "M4 8.5l2.8 2.8L12 5"),
    "falls": (1, "M4.5 4.5l7 7M11.5 4.5l-7 7"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that happened."""

    kind: str  # one of ICONS
    head: str
    words: str  # the same as a sentence or two
    pill: str = ""  # what was chosen
    body: Markup = Markup("")
    steps: tuple[Step, ...] = ()  # what it tells of


def timeline(
    trace: Trace,
    evidence: Collection[str] = (),
    *,
    price: Price | None = None,
    times: bool = False,
) -> Markup:
    """The rows as an ordered list. evidence: chunk ids to star; price: of the model that was asked.

    times: also draw milliseconds; a picture with times differs from run to run.
    """
    rows = list(_rows(trace, evidence))
    items = Markup("").join(
        _drawn(row, price, times, first=n == 0, last=n == len(rows) - 1)
        for n, row in enumerate(rows)
    )
    return Markup(
        '<div style="max-width:760px;font-size:13px;line-height:1.45">'
        '<p style="margin:0 0 10px;color:{}">{}</p>'
        '<ol role="list" style="list-style:none;margin:0;padding:0">{}</ol></div>'
    ).format(SOFT, _summary(trace, evidence, price), items)


def decided_in_words(trace: Trace) -> str:
    """The same as sentences, for reading aloud and for a test to assert."""
    return " ".join(row.words for row in _rows(trace, ()))


def timeline_panel(
    run: Callable[..., Trace],
    query: str,
    evidence: Marked = lambda query: (),
    *,
    pipelines: Sequence[str],
    price: Price | None = None,
) -> Panel:
    """The timeline of `run(query, pipeline)`, where `pipeline` is one of `pipelines`."""

    def draw(query: str, pipeline: str) -> Drawing:
        trace = run(query, pipeline)
        marked = evidence(query)
        words = " ".join((decided_in_words(trace), *_stars(trace, marked)))
        return Drawing(timeline(trace, marked, price=price), words)

    knobs = (
        Knob("query", "Query", query),
        Knob("pipeline", "Pipeline", pipelines[0], choices=tuple(pipelines)),
    )
    return Panel("How it decided", draw, knobs)


# -- the rows -------------------------------------------------------------------------------------


def _rows(trace: Trace, evidence: Collection[str]) -> Iterator[Row]:
    yield _asked(trace.query)
    # An agent's passages keep their numbers; elsewhere each context counts from 1.
    planned = any(step.name == PLAN for step, _ in trace.decisions)
    numbers: dict[str, int] = {}
    seen: set[str] = set()
    search: list[Step] = []
    for at, step in enumerate(trace.steps):
        later = trace.steps[at + 1 :]
        if step.stage == DECIDE:
            yield _decided(step, later, numbers)
        elif step.stage == "generate":
            yield _answered(step, later)
        elif step.stage != "assemble":
            search.append(step)
        elif not search:
            yield _gathered(step, numbers, evidence)
        else:
            yield _searched(search, trace.query)
            kept = [hit.chunk.chunk_id for hit in cast(Context, step.output).kept]
            numbers = numbers if planned else {}
            numbers |= {name: n for n, name in enumerate(kept, start=len(numbers) + 1)}
            yield _found(step, numbers, seen, _judged(later), evidence, planned)
            seen |= set(kept)
            search = []
    if search:
        yield _searched(search, trace.query)


def _asked(query: Query) -> Row:
    turns = len(query.history)
    before = f" after {_many(turns, 'turn')}" if turns else ""
    said = f"Asked{before}: “{_cut(query.text)}”."
    return Row("asked", f"Asked{before}", said, body=_quoted(query.text))


def _decided(step: Step, later: Sequence[Step], numbers: Mapping[str, int]) -> Row:
    decision = cast(Decision, step.output)
    head = {"route": "Route", PLAN: "Plan"}.get(step.name, step.name.capitalize())
    kind = "decided"
    if step.name == "grounded?":
        kind = "falls" if decision.choice in BAD else "stands"
    then = _then(step.name, decision, later)
    # A part that is named for a passage is drawn with the passage.
    parts = [part for part in decision.parts if part.name not in numbers]
    thought = _quoted(decision.why) if step.calls and decision.why else _long(decision.why)
    lacking = decision.text.split("\n") if kind == "falls" and decision.text else []
    body = Markup("").join((
        _block(thought) if decision.why else Markup(""),
        _parts(parts),
        *(_block(Markup("<del>{}</del>").format(_long(text))) for text in lacking),
        Markup('<div style="margin-top:4px"><b aria-hidden="true">→</b> {}</div>').format(
            _long(then)
        ),
    ))  # fmt: skip
    why = f": {_cut(decision.why)}" if decision.why else ""
    asks = "" if head.endswith("?") else ":"
    said = f"{_ended(f'{head}{asks} {decision.choice}{why}')} {_ended(_cut(_capital(then)))}"
    return Row(kind, head, said, decision.choice, body, (step,))


def _then(name: str, decision: Decision, later: Sequence[Step]) -> str:
    """What came of a decision, as the steps after it tell."""
    searches = any(step.stage in ("rewrite", "retrieve") for step in later)
    answers = [cast(Answer, step.output) for step in later if step.stage == "generate"]
    if name == "grounded?":
        if not answers:
            return "the answer stands as it is"
        return "nothing is left, so it refuses" if answers[-1].refused else "the rest is given"
    if name == "route":
        return f"it goes the {decision.choice} way"
    if decision.choice == SEARCH:
        return (
            "it searches"
            if searches
            else f"no turn is left to search for “{decision.text}”: it answers from what is there"
        )
    if decision.choice in BAD:
        return "it searches once more" if searches else "it answers from what is there"
    return "it writes the answer itself" if name == PLAN and decision.text else "it answers"


def _searched(steps: Sequence[Step], asked: Query) -> Row:
    queries: list[Query] = []
    for step in steps:
        if step.stage == "rewrite":
            queries += cast(tuple[Query, ...], step.output)
    texts = list(dict.fromkeys(query.text for query in queries or [asked]))
    lists = [(step, len(cast(Ranking, step.output))) for step in steps if step.stage != "rewrite"]
    chips, before = [], ""
    for step, count in lists:
        if before and step.stage != before:
            chips.append(Markup('<li aria-hidden="true" style="color:{}">→</li>').format(SOFT))
        before = step.stage
        name = Markup("<b>{}</b> {}").format(step.name, _many(count, "hit"))
        chips.append(_chip(name, key=f"list {step.name}"))
    body = Markup("").join(_quoted(text) for text in texts)
    body += Markup('<ul role="list" style="{}">{}</ul>').format(WRAP, Markup("").join(chips))
    head = f"Search {steps[0].round}"
    ran = ", ".join(
        f"{step.name} {_many(count, 'hit')}" for step, count in lists if step.stage == "retrieve"
    )
    words = " and ".join(f"“{_cut(text)}”" for text in texts)
    return Row("searched", head, f"{head} for {words}: {ran or 'no list'}.", "", body, tuple(steps))


def _judged(later: Sequence[Step]) -> Decision | None:
    """The next plan, which says what of the passages it goes on with."""
    plans = (cast(Decision, step.output) for step in later if step.name == PLAN)
    plan = next(plans, None)
    return None if plan is None or plan.choice == STOP else plan


def _found(
    step: Step,
    numbers: Mapping[str, int],
    seen: Collection[str],
    judged: Decision | None,
    evidence: Collection[str],
    planned: bool,
) -> Row:
    context = cast(Context, step.output)
    kept = [hit.chunk for hit in context.kept]
    names = [chunk.chunk_id for chunk in kept]
    supports = {part.name: part.value for part in judged.parts} if judged else {}
    off = [name for name in names if judged and name not in judged.chunk_ids]
    chips = Markup("").join(
        _passage(chunk, numbers[chunk.chunk_id], evidence, chunk.chunk_id in off, supports)
        for chunk in kept
    )
    known = sum(drop.reason.startswith("read already") for drop in context.dropped)
    rest = len(context.dropped) - known
    fresh = len(names) - sum(name in seen for name in names)
    told = [
        f"{fresh} of them new" if seen and fresh < len(names) else "",
        f"{len(off)} judged not relevant" if off else "",
        f"{known} more read already" if known else "",
    ]
    new = "new " if seen and fresh == len(names) else ""
    head = _many(len(names), f"{new}passage") if names else f"No {new}passage"
    aside = "; ".join(filter(None, (*told, f"{_many(rest, 'hit')} left out" if rest else "")))
    body = Markup('<ul role="list" style="{}">{}</ul>').format(GRID, chips) if names else Markup("")
    body = (_block(aside, soft=True) if aside else Markup("")) + body
    if not planned:
        body += _budget(context)
    span = f", [{numbers[names[0]]}] to [{numbers[names[-1]]}]" if names[1:] else ""
    said = "; ".join(filter(None, (f"It brings {_small(head)}{span}", *told)))
    return Row("found", head, said + ".", body=body, steps=(step,))


def _gathered(step: Step, numbers: Mapping[str, int], evidence: Collection[str]) -> Row:
    context = cast(Context, step.output)
    names = [hit.chunk.chunk_id for hit in context.kept]
    chips = Markup("").join(
        _chip(_number(n, name, evidence) + Markup("<bdi>{}</bdi>").format(name), key=name)
        for n, name in enumerate(names, start=1)
    )
    anew = any(numbers.get(name) != n for n, name in enumerate(names, start=1))
    aside = "numbered anew, as the answer cites them" if anew else ""
    if context.dropped:
        aside += f"{'; ' if aside else ''}{_many(len(context.dropped), 'passage')} left out"
    body = (_block(aside, soft=True) if aside else Markup("")) + _budget(context)
    if names:
        body += Markup('<ul role="list" style="{}">{}</ul>').format(WRAP, chips)
    said = f"Gathered: {_sums(context)}{'; ' if aside else ''}{aside}."
    return Row("gathered", "Gathered", said, body=body, steps=(step,))


def _answered(step: Step, later: Sequence[Step]) -> Row:
    answer = cast(Answer, step.output)
    draft = any(other.stage == "generate" for other in later)
    head = "Draft" if draft else "Answer"
    cites = {one.number: one.chunk_id for one in answer.citations}
    chips = Markup("").join(
        _chip(Markup("[{}] <bdi>{}</bdi>").format(n, name), key=name)
        for n, name in sorted(cites.items())
    )
    body = _block(_long(answer.text, 2 * LONG, cites))
    if cites:
        body += Markup('<ul role="list" aria-label="cited" style="{}">{}</ul>').format(WRAP, chips)
    body += _block(f"by {_cut(answer.origin)}", soft=True)
    pill = "refused" if answer.refused else ""
    said = f"{head}{', a refusal,' if answer.refused else ''} by {_cut(answer.origin)}: "
    return Row("answered", head, said + _ended(_cut(answer.text)), pill, body, (step,))


# -- sums and sentences ---------------------------------------------------------------------------


def _summary(trace: Trace, evidence: Collection[str], price: Price | None) -> str:
    searches = len({step.round for step in trace.stage("retrieve")})
    decisions = len(trace.decisions)
    told = [_many(searches, "search", "es"), _many(decisions, "decision")]
    if calls := [call for step in trace.steps for call in step.calls]:
        tokens = sum(_read(call) + call.output_tokens for call in calls)
        told += [f"{_many(len(calls), 'call')} of a model", _many(tokens, "token")]
        if price:
            told.append(f"${sum(after_call(price, call).usd for call in calls):.4f}")
    return ". ".join((" · ".join(told), *_stars(trace, evidence))).removesuffix(".")


def _stars(trace: Trace, evidence: Collection[str]) -> list[str]:
    """For each chunk that holds the answer, which search brought it first."""
    first: dict[str, int] = {}
    for step in trace.stage("assemble"):
        for hit in cast(Context, step.output).kept:
            first.setdefault(hit.chunk.chunk_id, step.round)
    return [
        f"★ {name} came with search {first[name]}." if name in first else f"★ {name} never came."
        for name in sorted(evidence)
    ]


def _sums(context: Context) -> str:
    return f"{_many(len(context.kept), 'source')}, {context.tokens:,} of {context.budget:,} tokens"


def _read(call: Completion) -> int:
    return call.input_tokens + call.cache_write_tokens + call.cache_read_tokens


def _called(call: Completion, price: Price | None) -> str:
    name = call.origin if call.model in call.origin else f"{call.model}, {call.origin}"
    if not _read(call) + call.output_tokens:
        return f"{name}: no tokens were counted"
    if price:
        return f"{name}: {after_call(price, call)}"
    return f"{name}: {_read(call):,} tokens in, {call.output_tokens:,} out"


def _many(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def _cut(text: str, most: int = LONG) -> str:
    """
    >>> _cut("one two three", 9)
    'one two…'
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    words = text[:most].rpartition(" ")[0]
    return f"{words if len(words) > most // 2 else text[:most]}…"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "]")) else f"{text}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


# -- drawing --------------------------------------------------------------------------------------


def _drawn(row: Row, price: Price | None, times: bool, *, first: bool, last: bool) -> Markup:
    colour, path = ICONS[row.kind]
    # The line is the row's own ground: from the first dot down, and to the last dot.
    place = f"11px {'12px' if first else '0'} / 2px {'12px' if last else '100%'}"
    rule = "" if row.kind != "searched" else f"border-top:1px solid {LINE};padding-top:8px;"
    calls = Markup("").join(
        _block(_called(call, price), soft=True) for step in row.steps for call in step.calls
    )
    took = sum(step.seconds for step in row.steps) * 1000
    took_words = f"{took:,.1f} ms" if times and row.steps else ""
    return Markup(
        '<li style="display:grid;grid-template-columns:24px minmax(0,1fr);gap:0 12px;'
        'background:linear-gradient({},{}) {} no-repeat">'
        '<span aria-hidden="true" style="width:24px;height:24px;border-radius:50%;'
        'background:{};margin-top:{}">'
        '<svg viewBox="0 0 16 16" style="display:block;width:16px;height:16px;min-width:0;margin:4px"'
        ' fill="none" stroke="var(--ground, #fff)" stroke-width="1.8" stroke-linecap="round"'
        ' stroke-linejoin="round"><path d="{}"/></svg></span>'
        '<div style="{}padding-bottom:16px;overflow-wrap:anywhere">'
        '<div style="display:flex;flex-wrap:wrap;gap:2px 8px;align-items:baseline;margin-top:1px">'
        '<strong style="font-size:14px">{}</strong>{}'
        '<span style="margin-left:auto;color:{}">{}</span></div>{}{}</div></li>'
    ).format(
        LINE, LINE, place, tint(colour), "9px" if rule else "0", path, rule, row.head,
        _pill(row.pill), SOFT, took_words, row.body, calls,
    )  # fmt: skip


def _pill(choice: str) -> Markup:
    if not choice:
        return Markup("")
    colour = tint(2 if choice in GOOD else 1 if choice in BAD else 3)
    return Markup(
        '<span style="padding:0 8px;border-radius:9px;border:1px solid {};'
        'background:color-mix(in srgb, {} 14%, transparent)">{}</span>'
    ).format(colour, colour, _cut(choice, 60))


def _chip(inner: Markup, *, key: str, style: str = "") -> Markup:
    return Markup(
        '<li data-key="{}" style="border:1px solid {};border-radius:5px;padding:1px 7px;'
        'min-width:0;overflow-wrap:anywhere;{}">{}</li>'
    ).format(key, LINE, style, inner)


def _number(n: int, name: str, evidence: Collection[str]) -> Markup:
    star = Markup('<b style="color:var(--evidence, inherit)">★</b> ') if name in evidence else ""
    return Markup("[{}] {}").format(n, star)


def _passage(
    chunk: Chunk, n: int, evidence: Collection[str], off: bool, supports: Mapping[str, float]
) -> Markup:
    """A chunk: number, star, id, heading; how well it supports; and whether it was left aside."""
    name = chunk.chunk_id
    style = "padding:4px 8px;"
    style += f"border-color:{STAR};" if name in evidence else ""
    style += f"border-style:dashed;color:{SOFT};" if off else ""
    heading = Markup("<br>{}").format(_long(chunk.heading, 80)) if chunk.heading else ""
    value = supports.get(name)
    bar = "" if value is None else _bar(value, f"support {value:.2f}", 0)
    aside = Markup("<br><em>not relevant</em>") if off else ""
    # Only the id is bold, and the rest of the card is as quiet as it can be read.
    inner = Markup("{}<b><bdi>{}</bdi></b>{}{}{}").format(
        _number(n, name, evidence), name, heading, aside, bar
    )
    return _chip(inner, key=name, style=style)


def _parts(parts: Sequence[Part]) -> Markup:
    if not parts:
        return Markup("")
    most = max(abs(part.value) for part in parts) or 1.0
    chips = Markup("").join(
        _chip(
            _bar(abs(part.value) / most, f"{part.name} {part.value:.3g}", 3),
            key=f"part: {part.name}", style="min-width:110px;padding:1px 7px 4px;",
        )
        for part in parts
    )  # fmt: skip
    return Markup('<ul role="list" style="{}">{}</ul>').format(WRAP, chips)


def _budget(context: Context) -> Markup:
    share = context.tokens / max(context.budget, 1)
    return Markup('<div style="max-width:320px;margin-top:4px">{}</div>').format(
        _bar(share, _sums(context), 4)
    )


def _bar(share: float, label: str, colour: int) -> Markup:
    """A label over a thin bar; share: from 0 to 1. The label says it all, so the bar is silent."""
    return Markup(
        '<div style="margin-top:2px">{}<div aria-hidden="true" style="height:4px;border-radius:2px;'
        'background:{}"><div style="height:4px;border-radius:2px;width:{:.1f}%;background:{}">'
        "</div></div></div>"
    ).format(label, LINE, 100 * min(max(share, 0), 1), tint(colour))


def _block(inner: str | Markup, *, soft: bool = False) -> Markup:
    colour = f"color:{SOFT}" if soft else ""
    return Markup('<div style="margin-top:2px;{}">{}</div>').format(colour, inner)


def _quoted(text: str) -> Markup:
    return Markup('<div style="margin-top:2px">“{}”</div>').format(_long(text))


def _long(text: str, most: int = LONG, cites: Mapping[int, str] | None = None) -> Markup:
    """A text; what is beyond `most` letters is folded away. `cites`: number -> chunk id."""
    text = " ".join(text.split())
    shown = _cut(text, most)
    if shown == text:
        return Markup("<bdi>{}</bdi>").format(_marked(text, cites or {}))
    rest = text[len(shown) - 1 :].lstrip()
    return Markup(
        '<bdi>{}</bdi><details data-fold="{}"><summary style="cursor:pointer;min-height:24px">'
        "{:,} letters more</summary><bdi>…{}</bdi></details>"
    ).format(_marked(shown, cites or {}), text[:40], len(rest), _marked(rest, cites or {}))


def _marked(text: str, cites: Mapping[int, str]) -> Markup:
    """The text, with each [n] that cites a chunk tied to it."""
    pieces = re.split(r"(\[\d+\])", text)
    return Markup("").join(
        Markup('<b data-key="{}">{}</b>').format(cites[int(piece[1:-1])], piece)
        if re.fullmatch(r"\[\d{1,6}\]", piece) and int(piece[1:-1]) in cites
        else piece
        for piece in pieces
    )
