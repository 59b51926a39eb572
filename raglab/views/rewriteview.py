"""Panels for rewriting: the queries as branches, and which of them found the evidence.

The functions take traces, so this module knows no rewriter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from markupsafe import Markup

from raglab.trace import Trace
from raglab.types import Query, Ranking
from raglab.views.panel import Drawing, Knob, Panel

TOP = 3  # hits that a card shows
FIRST = 20  # ranks in which the evidence is looked for
SHOWN = 280  # characters of a long query


def branches_panel(
    run: Callable[[str, Query], Trace],
    methods: Sequence[str],
    lessons: Mapping[str, Query],
    evidence: Callable[[Query], Collection[str]] = lambda query: (),
) -> Panel:
    """A query rewritten by each of `methods`; the first of them is the one compared with.

    `run(method, query)` searches; `evidence(query)` names the chunks to star.  A text that is
    typed is searched for in place of the lesson's.
    """

    def draw(method: str, lesson: str, typed: str) -> Drawing:
        query = Query("typed", typed.strip()) if typed.strip() else lessons[lesson]
        return branches_drawing(run(method, query), run(methods[0], query), evidence(query))

    return Panel(
        "The query and its branches",
        draw,
        (
            Knob("method", "Method", methods[0], choices=tuple(methods)),
            Knob("lesson", "Query of the lesson", next(iter(lessons)), choices=tuple(lessons)),
            Knob("typed", "Your own query", "", help="Searched for in place of the lesson's."),
        ),
    )


def branches_drawing(
    trace: Trace, plain: Trace | None = None, evidence: Collection[str] = ()
) -> Drawing:
    """A card for each query of the trace, then the fused order, beside that of `plain`."""
    cards = Markup("").join(
        _card(number, query, lists_of(trace, number), evidence)
        for number, query in enumerate(trace.queries, start=1)
    )
    fused, before = _fused(trace), _fused(plain or trace)
    turns = [*trace.query.history, trace.query.text] if trace.query.history else []
    asked = Markup("").join(
        Markup("<p><small>turn {}</small> <bdi>{}</bdi></p>").format(n, _short(turn))
        for n, turn in enumerate(turns, start=1)
    )
    outcome = _table("fused", fused, evidence)
    picture = Markup(
        '<div>{}<div style="display:grid;gap:10px 16px;align-items:start;'
        'grid-template-columns:repeat(auto-fill,minmax(270px,1fr))">{}'
        '<section style="border-left:4px solid #009e73;padding:0 0 0 10px">'
        "<h4>Fused</h4>{}</section></div></div>"
    ).format(asked, cards, outcome)
    return Drawing(picture, _words(trace, fused, before, evidence))


def lists_of(trace: Trace, number: int) -> dict[str, Ranking]:
    """lane -> what it returned for the n-th query, counted from 1.

    The pipeline names the lanes of the first query as they are, "dense", and those of the second
    "dense 2".
    """
    count = len(trace.queries)
    others = {f" {n}" for n in range(2, count + 1)}
    lists = {}
    for step in trace.stage("retrieve"):
        end = next((end for end in others if step.name.endswith(end)), "")
        if end == (f" {number}" if number > 1 else ""):
            lists[step.name.removesuffix(end)] = trace.ranking(step.name)
    return lists


def ranks_in(hits: Ranking, evidence: Collection[str]) -> list[int]:
    """The ranks, among the first 20, at which evidence stands."""
    return [hit.rank for hit in hits[:FIRST] if hit.chunk.chunk_id in evidence]


def where(hits: Ranking, evidence: Collection[str]) -> str:
    """
    >>> where((), {"a#0"})
    'not in the first 20'
    """
    ranks = ranks_in(hits, evidence)
    if not ranks:
        return f"not in the first {FIRST}"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _card(
    number: int, query: Query, lists: Mapping[str, Ranking], evidence: Collection[str]
) -> Markup:
    tables = Markup("").join(_table(lane, hits, evidence) for lane, hits in lists.items())
    only = Markup(" · for {} alone").format(query.lane) if query.lane else ""
    return Markup(
        '<section style="border-left:4px solid #0072b2;padding:0 0 0 10px">'
        "<h4>Query {}</h4><p><q><bdi>{}</bdi></q></p><p><small>by: {}{}</small></p>{}</section>"
    ).format(number, _short(query.text), query.origin, only, tables)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _table(lane: str, hits: Ranking, evidence: Collection[str]) -> Markup:
    rows = Markup("").join(
        Markup('<tr data-key="{}"><td>{}</td><td>{}{}</td></tr>').format(
            hit.chunk.chunk_id,
            hit.rank,
            "★ " if hit.chunk.chunk_id in evidence else "",
            hit.chunk.chunk_id,
        )
        for hit in hits[:TOP]
    )
    found = Markup(": ★ {}").format(where(hits, evidence)) if evidence else ""
    return Markup("<table><caption>{}{}</caption><tbody>{}</tbody></table>").format(
        lane, found, rows
    )


def _words(trace: Trace, fused: Ranking, before: Ranking, evidence: Collection[str]) -> str:
    count = len(trace.queries)
    searched = "1 query is" if count == 1 else f"{count} queries are"
    words = [f"{searched} searched for."]
    if not evidence:
        return f"{words[0]} No evidence is known for it."
    best = {
        number: min((rank for hits in lists_of(trace, number).values()
                     for rank in ranks_in(hits, evidence)), default=0)
        for number in range(1, count + 1)
    }  # fmt: skip
    finders = [f"query {number} (rank {rank})" for number, rank in best.items() if rank]
    words.append(f"The evidence was found by {', '.join(finders) or 'none'}.")
    after, was = where(fused, evidence), where(before, evidence)
    words.append(f"Fused: {after}; as asked: {was}.")
    return " ".join(words)


def _fused(trace: Trace) -> Ranking:
    return trace.ranking(trace.stage("fuse")[-1].name)
