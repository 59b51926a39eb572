"""The token budget as a bar: which source takes how much of the prompt, and what was left out.

`budget_panel` is given a function that searches and assembles, so this module knows no assembler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from markupsafe import Markup

from raglab.types import Context, Drop, Hit
from raglab.views.bars import INK, SOFT, tint
from raglab.views.panel import Drawing, Knob, Panel

ORDERS = ("best first", "best at both ends")
Marked = Callable[[str], Collection[str]]  # query -> the chunks to star


class Assemble(Protocol):
    """Searches and assembles, with the assembler's settings as arguments."""

    def __call__(self, query: str, *, keep: int, budget: int, order: str) -> Context: ...


def budget_panel(
    assemble: Assemble,
    query: str,
    evidence: Marked = lambda query: (),
    *,
    keep: int = 8,
    budget: int = 1500,
    orders: Sequence[str] = ORDERS,
) -> Panel:
    """The token budget as a bar, a segment for each source in the order of the prompt."""

    def draw(query: str, keep: int, budget: int, order: str) -> Drawing:
        context = assemble(query, keep=keep, budget=budget, order=order)
        return budget_drawing(context, evidence(query))

    return Panel(
        "The token budget",
        draw,
        (
            Knob("query", "Query", query),
            Knob("keep", "Kept for the prompt", keep, 1, 20),
            Knob("budget", "Token budget", budget, 100, 4000, 50),
            Knob("order", "Order", orders[0], choices=tuple(orders)),
        ),
    )


def budget_drawing(context: Context, evidence: Collection[str] = ()) -> Drawing:
    """The bar, its sources as rows, and what was left out; in words the sums."""
    if not context.kept and not context.dropped:
        return Drawing(
            Markup("<p>No hit.</p>"), "Nothing was found, so the prompt holds no source."
        )
    share = 100 / max(context.budget, 1)
    segments = Markup("").join(
        _segment(n, hit, tokens, share, "★" if hit.chunk.chunk_id in evidence else "")
        for n, hit, tokens in _spent(context)
    )
    rest = Markup(
        '<span title="{} tokens left" style="flex:1;min-width:0;overflow:hidden;text-align:center;'
        'font-size:12px;line-height:26px;color:{}">{}</span>'
    ).format(context.left, SOFT, f"{context.left:,} left" if context.left * share > 12 else "")
    rows = Markup("").join(
        Markup(
            '<tr data-key="{}"><th scope="row">[{}]</th><td>{}</td><td>{}{}</td><td>{:,}</td></tr>'
        ).format(
            hit.chunk.chunk_id, n, hit.rank,
            "★ " if hit.chunk.chunk_id in evidence else "", hit.chunk.chunk_id, tokens,
        )
        for n, hit, tokens in _spent(context)
    )  # fmt: skip
    picture = Markup(
        '<div role="img" aria-label="{}" style="display:flex;height:28px;max-width:760px;'
        'border:1px dashed {};border-radius:4px;overflow:hidden">{}{}</div>'
        '<table style="margin-top:8px"><caption>sources, in the order of the prompt</caption>'
        '<thead><tr><td></td><th scope="col">rank</th><th scope="col">chunk</th>'
        '<th scope="col">tokens</th>'
        "</tr></thead><tbody>{}</tbody></table>{}"
    ).format(_sums(context), SOFT, segments, rest, rows, _left_out(context.dropped, evidence))
    return Drawing(picture, " ".join([_sums(context), *_stars(context, evidence)]))


def _spent(context: Context) -> list[tuple[int, Hit, int]]:
    tokens = context.spent or (0,) * len(context.kept)
    return [
        (n, hit, spent)
        for n, (hit, spent) in enumerate(zip(context.kept, tokens, strict=True), start=1)
    ]


def _segment(n: int, hit: Hit, tokens: int, share: float, star: str) -> Markup:
    """A source keeps its colour when the order changes: its rank gives it."""
    width = tokens * share
    return Markup(
        '<span data-key="{}" title="[{}] {}: {} tokens" style="flex:none;width:{:.2f}%;height:26px;'
        'background:{};border-right:1px solid var(--ground, #fff);overflow:hidden">'
        '<b style="font-size:12px;line-height:18px;margin:4px;padding:0 3px;display:inline-block;'
        'border-radius:3px;background:var(--ground, #fff);color:{}">{}</b></span>'
    ).format(
        hit.chunk.chunk_id, n, hit.chunk.chunk_id, tokens, width, tint(hit.rank - 1), INK,
        f"{star}{n}" if width > 4 else star,
    )  # fmt: skip


def _sums(context: Context) -> str:
    count = len(context.kept)
    sums = (
        f"{count} source{'' if count == 1 else 's'} take{'s' if count == 1 else ''} "
        f"{context.tokens:,} of {context.budget:,} tokens; {context.left:,} are left."
    )
    over = [drop for drop in context.dropped if drop.over]
    if over:
        sums += f" Over the budget: {', '.join(d.hit.chunk.chunk_id for d in over)}."
    return sums


def _stars(context: Context, evidence: Collection[str]) -> list[str]:
    places = {hit.chunk.chunk_id: n for n, hit in enumerate(context.kept, start=1)}
    reasons = {drop.hit.chunk.chunk_id: drop.reason for drop in context.dropped}
    return [
        f"★ {name} is [{places[name]}]."
        if name in places
        else f"★ {name}: {reasons.get(name, 'not among the hits')}."
        for name in sorted(evidence)
    ]


def _left_out(dropped: Sequence[Drop], evidence: Collection[str]) -> Markup:
    told = [drop for drop in dropped if "cut at" not in drop.reason or _starred(drop, evidence)]
    items = [
        Markup('<li data-key="{}">{}{}: {}{}</li>').format(
            drop.hit.chunk.chunk_id, "★ " if _starred(drop, evidence) else "",
            drop.hit.chunk.chunk_id, drop.reason,
            f" (it takes {drop.tokens:,})" if drop.tokens else "",
        )
        for drop in told
    ]  # fmt: skip
    if rest := len(dropped) - len(told):
        items.append(Markup("<li>{} more were cut by their rank</li>").format(rest))
    if not items:
        return Markup("")
    return Markup('<p style="margin-top:8px"><b>Left out</b></p><ul>{}</ul>').format(
        Markup("").join(items)
    )


def _starred(drop: Drop, evidence: Collection[str]) -> bool:
    return drop.hit.chunk.chunk_id in evidence
