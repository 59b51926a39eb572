"""How a pipeline decided: what it thought, searched for, found and said, from top to bottom.

One pass over a trace makes the rows.  Each row carries its picture and its sentence, so what is
drawn and what is read aloud cannot tell two stories.  Where nothing was decided, it is a short one.

Left out: scores of every hit (the flow view has them), and clock time, which no two runs share;
`times=True` draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

from markupsafe import Markup

from raglab.prices import Price, after_call
from raglab.trace import Trace
from raglab.types import Completion, Context
from raglab.views.budgetview import Marked
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.timelinebits import LONG, SOFT, aside, capital, cut, ended, many, row
from raglab.views.timelinerows import rows_of


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
    rows = list(rows_of(trace, evidence))
    items = []
    for n, one in enumerate(rows):
        called = [_called(call, price) for step in one.steps for call in step.calls]
        took = f"{1000 * sum(step.seconds for step in one.steps):,.1f} ms"
        items.append(
            row(
                one.kind, one.head, one.body + Markup("").join(map(aside, called)),
                pill=one.pill, took=took if times and one.steps else "",
                place="first" if n == 0 else "last" if n == len(rows) - 1 else "",
            )
        )  # fmt: skip
    return Markup(
        '<div style="max-width:760px;font-size:13px;line-height:1.45">'
        '<p style="margin:0 0 10px;color:{}">{}</p>'
        '<ol role="list" style="list-style:none;margin:0;padding:0">{}</ol></div>'
    ).format(SOFT, _sums(trace, price), Markup("").join(items))


def decided_in_words(trace: Trace) -> str:
    """The same as sentences, for reading aloud and for a test to assert."""
    return " ".join(one.words for one in rows_of(trace))


def timeline_panel(
    run: Callable[..., Trace],
    query: str,
    evidence: Marked = lambda query: (),
    *,
    pipelines: Sequence[str],
    price: Price | None = None,
) -> Panel:
    """The timeline of `run(query, pipeline)`, where `pipeline` is one of `pipelines`.

    Its words are the way in short, and where the evidence came in.
    """

    def draw(query: str, pipeline: str) -> Drawing:
        trace, marked = run(query, pipeline), evidence(query)
        words = " ".join((_way(trace), *_stars(trace, marked)))
        return Drawing(timeline(trace, marked, price=price), words)

    knobs = (
        Knob("query", "Query", query),
        Knob("pipeline", "Pipeline", pipelines[0], choices=tuple(pipelines)),
    )
    return Panel("How it decided", draw, knobs)


# -- sums -----------------------------------------------------------------------------------------


def _way(trace: Trace) -> str:
    """The heads of the rows that something was done in."""
    told = [
        f"{one.head.lower()}{'' if one.head.endswith('?') else ':' if one.pill else ''} {one.pill}"
        for one in rows_of(trace)
        if one.kind not in ("asked", "gathered")
    ]
    return ended(capital(cut("; ".join(map(str.strip, told)), 2 * LONG)))


def _sums(trace: Trace, price: Price | None) -> str:
    searches = len({step.round for step in trace.stage("retrieve")})
    told = [many(searches, "search", "es"), many(len(trace.decisions), "decision")]
    if calls := [call for step in trace.steps for call in step.calls]:
        tokens = sum(_read(call) + call.output_tokens for call in calls)
        told += [f"{many(len(calls), 'call')} of a model", many(tokens, "token")]
        if price:
            told.append(f"${sum(after_call(price, call).usd for call in calls):.4f}")
    return " · ".join(told)


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


def _called(call: Completion, price: Price | None) -> str:
    name = call.origin if call.model in call.origin else f"{call.model}, {call.origin}"
    if not _read(call) + call.output_tokens:
        return f"{name}: no tokens were counted"
    if price:
        return f"{name}: {after_call(price, call)}"
    return f"{name}: {_read(call):,} tokens in, {call.output_tokens:,} out"


def _read(call: Completion) -> int:
    return call.input_tokens + call.cache_write_tokens + call.cache_read_tokens
