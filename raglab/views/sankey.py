"""Every question through the stages of the pipeline: where the stream thins, answers are lost.

The stream flows from left to right, and its width is the number of questions that are still on
their way.  What a stage loses leaves downwards, to a name and a count.  At every stage, the stream
and all that left before it add up to the questions that were asked.

Each band can be reached by keyboard and says in words what it is; below the picture a fold for each
end lists its questions.  With `ask` each of them is a button, and an Explorer can follow it.

Left out: questions that were lost twice; each is told by what went wrong first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from raglab.evaluate.attribution import (
    ANSWERED,
    BARRED,
    CUT,
    DROPPED,
    GOOD,
    IGNORED,
    MERGED,
    NOWHERE,
    OVER,
    REFUSED,
    REFUSED_WELL,
    SEVERED,
    SQUEEZED,
    UNCITED,
    UNFOUND,
    UNFUSED,
    UNREAD,
    WRONG,
    Attribution,
    answered_right,
    context_recall_bound,
    counts,
)
from raglab.evaluate.outcomes import asked
from raglab.types import Question, RagLabError
from raglab.views.axes import drawn, short
from raglab.views.bars import INK, SOFT, tint
from raglab.views.panel import Drawing, Knob, Panel

ALL = "all"
ROAD = {
    "asked": (),
    "in corpus": (REFUSED_WELL, ANSWERED, NOWHERE),
    "chunked": (SEVERED, BARRED),
    "read": (UNREAD,),
    "retrieved": (UNFOUND,),
    "fused": (UNFUSED,),
    "reranked": (DROPPED,),
    "in prompt": (CUT, MERGED, OVER, IGNORED, SQUEEZED),
    "answered": (REFUSED,),
    "right": (WRONG, UNCITED),
}
"""Each station, and the ends that leave the stream just before it."""
WIDTH, TOP, STREAM, GAP, LEAST = 760, 40, 190, 6, 17
LEFT, STEP, NODE = 8, 66, 6


@dataclass(frozen=True, slots=True)
class Station:
    """`still` questions reach it; `left` says how many ended just before, and where."""

    name: str
    still: int
    left: Mapping[str, int]


def stations(attributions: Sequence[Attribution]) -> tuple[Station, ...]:
    """The stream, station by station. At each, `still` and all that left so far make the whole.

    >>> one = Attribution("q1", "table", UNFOUND, "")
    >>> [(s.name, s.still) for s in stations([one, Attribution("q2", "table", "right", "")])][3:6]
    [('read', 2), ('retrieved', 1), ('fused', 1)]
    """
    found = counts(attributions)
    exits = [{end: found[end] for end in ends if end in found} for ends in ROAD.values()]
    gone = accumulate(sum(left.values()) for left in exits)
    return tuple(
        Station(name, len(attributions) - lost, left)
        for name, lost, left in zip(ROAD, gone, exits, strict=True)
    )


def sankey(attributions: Sequence[Attribution], queries: Mapping[str, str]) -> Markup:
    """The picture and its folds. `queries`: query_id -> the text, as one would ask it."""
    whole = len(attributions)
    if not whole:
        return Markup("<p>There is no question of this kind here.</p>")
    scale, road = STREAM / whole, stations(attributions)
    ends = [(n, end, count) for n, one in enumerate(road) for end, count in one.left.items()]
    # What leaves first lands lowest: so no band crosses another.
    lands, y = {}, TOP + STREAM + 28.0
    for _, end, count in reversed(ends):
        lands[end] = y
        y += max(LEAST, count * scale) + GAP
    bands = []
    for n, one in enumerate(road):
        x = LEFT + n * STEP
        bands.append(_station(one, x, n, whole, scale))
        below = TOP + one.still * scale
        for end, count in reversed(tuple(one.left.items())):
            bands.append(_end(end, count, whole, x, below, lands[end], scale))
            below += count * scale
    label = f"Where {whole} questions were lost, stage by stage"
    picture = Markup(
        '<svg class="rl-wide" role="group" aria-label="{}" viewBox="0 0 {} {}" '
        'font-family="system-ui, sans-serif">{}</svg>'
    ).format(label, WIDTH, short(y + 4), Markup("").join(bands))
    return picture + _folds(attributions, queries)


def sankey_panel(
    attributions: Mapping[str, Sequence[Attribution]],
    questions: Sequence[Question],
    *,
    ask: Callable[[Question], object] | None = None,
) -> Panel:
    """The picture with two knobs: which split of the questions, and which kind of them.

    attributions: a name (a split, or a pipeline) -> what became of its questions.
    ask: what to do with a question that is pressed below the picture: ask an Explorer, say.
    """
    if not attributions:
        raise RagLabError("there is nothing to draw: give attributions for one split at least")
    known = {one.query_id: one for one in questions}
    queries = {query_id: asked(one).text for query_id, one in known.items()}
    kinds = dict.fromkeys(one.kind for group in attributions.values() for one in group)

    def draw(split: str, kind: str) -> Drawing:
        chosen = [one for one in attributions[split] if kind in (ALL, one.kind)]
        return Drawing(sankey(chosen, queries), words(chosen, pressed=ask is not None))

    def press(query_id: str) -> str:
        if ask is None or query_id not in known:
            raise RagLabError(f"{query_id!r} is none of these questions: press one that is listed")
        ask(known[query_id])
        return f"Asked: {queries[query_id]}"

    splits = tuple(attributions)
    return Panel(
        "Where the answers are lost",
        draw,
        [
            Knob("split", "Questions", splits[0], choices=splits),
            Knob("kind", "Kind", ALL, choices=(ALL, *kinds)),
        ],
        press=press if ask else None,
    )


def words(attributions: Sequence[Attribution], *, pressed: bool = False) -> str:
    """What the picture shows, in sentences. pressed: a question listed below is asked by a press.

    >>> words([Attribution("q1", "table", "wrong", "")]).split(". ")[2]
    'The largest loss: wrong, 1 of them'
    """
    found, bound = counts(attributions), context_recall_bound(attributions)
    said = [f"{len(attributions)} questions."]
    if bound is not None:
        well = answered_right(attributions) or 0.0
        known = len(attributions) - found.get(REFUSED_WELL, 0) - found.get(ANSWERED, 0)
        said.append(
            f"{known} have an answer: the evidence of {bound:.0%} reached the prompt, so no "
            f"generator can answer more from it, and {well:.0%} were answered right."
        )
    bad = {end: count for end, count in found.items() if end not in GOOD}
    if bad:
        most = max(bad, key=lambda end: bad[end])
        said.append(f"The largest loss: {most}, {bad[most]} of them.")
    said.append(
        "To follow one, open a list below and press it, while the notebook runs."
        if pressed
        else "To follow one, copy its words from a list below into the Explorer's query box."
    )
    return " ".join(said)


# -- drawing --------------------------------------------------------------------------------------


def _station(one: Station, x: float, n: int, whole: int, scale: float) -> Markup:
    high = one.still * scale
    says = f"{one.name}: {one.still} of {whole}"
    band = Markup("")
    if n:
        band = Markup(
            '<rect x="{}" y="{}" width="{}" height="{}" fill="{}" fill-opacity="0.45"></rect>'
        ).format(x - STEP + NODE, TOP, STEP - NODE, short(high), tint(0))
    return Markup(
        '<g tabindex="0" role="img" aria-label="{}" data-key="station: {}"><title>{}</title>{}'
        '<rect x="{}" y="{}" width="{}" height="{}" fill="{}"></rect>'
        '<text x="{}" y="14" font-size="12" fill="{}">{}</text>'
        '<text x="{}" y="30" font-size="13" font-weight="700" fill="{}">{}</text></g>'
    ).format(
        says, one.name, says, band, x, TOP, NODE, short(max(high, 1)), tint(0),
        x, SOFT, one.name, x, INK, one.still,
    )  # fmt: skip


def _end(
    end: str, count: int, whole: int, x: float, start: float, land: float, scale: float
) -> Markup:
    thick, says = count * scale, f"{end}: {count} of {whole}"
    left, middle, colour = x - STEP + NODE, x - STEP / 2, tint(2 if end in GOOD else 1)
    path = drawn(
        *("M", left, start, "C", middle, start, middle, land, x, land, "v", thick),
        *("C", middle, land + thick, middle, start + thick, left, start + thick, "z"),
    )
    label = f"{end} {count}"
    room = WIDTH - x - NODE - 6
    place, anchor = (x + NODE + 5, "start") if len(label) * 7 < room else (x - 12, "end")
    return Markup(
        '<g tabindex="0" role="img" aria-label="{}" data-key="end: {}"><title>{}</title>'
        '<path d="{}" fill="{}" fill-opacity="0.5"></path>'
        '<rect x="{}" y="{}" width="{}" height="{}" fill="{}"></rect>'
        '<text x="{}" y="{}" font-size="13" text-anchor="{}" paint-order="stroke" '
        'stroke="var(--ground, #fff)" stroke-width="3" fill="{}">{}</text></g>'
    ).format(
        says, end, says, path, colour, x, short(land), NODE, short(thick), colour,
        short(place), short(land + max(thick, 10) / 2 + 4), anchor, INK, label,
    )  # fmt: skip


def _folds(attributions: Sequence[Attribution], queries: Mapping[str, str]) -> Markup:
    folds = []
    for end, count in counts(attributions).items():
        rows = Markup("").join(
            Markup('<li><b data-press="{}">{}</b> <small>{}, {}: {}</small></li>').format(
                one.query_id, queries.get(one.query_id, one.query_id),
                one.query_id, one.kind, one.reason,
            )
            for one in attributions
            if one.stage == end
        )  # fmt: skip
        folds.append(
            Markup(
                '<details data-fold="end: {}" data-key="end: {}"><summary>{}: {}</summary>'
                '<ul class="rl-lost">{}</ul></details>'
            ).format(end, end, end, count, rows)
        )
    return Markup("").join(folds)
