"""The scorecard as a panel: a heat map over kinds of question, and the table with its intervals.

The map answers "on which kind is it weak", the table "is that more than luck".  Both are tables, so
read aloud they say the same.

Left out: the questions behind a number; the card holds them (`Scorecard.of`).
"""

from __future__ import annotations

from markupsafe import Markup

from raglab.evaluate.scorecard import ALL, METRICS, Scorecard
from raglab.evaluate.significance import p_text
from raglab.views.bars import heat
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.tables import html_table


def score_table(card: Scorecard, kind: str = ALL, *, times: bool = True) -> Markup:
    """An HTML table: a row for each measure and cost, a column for each pipeline.

    times: False leaves out the milliseconds, so that every machine draws the same table.
    """
    head, *rows = zip(*card.rows(kind), strict=True)
    asked = len(card.by_kind()[kind])
    caption = f"{card.corpus}, {card.split}, {kind}: {asked} questions. Means with 95% intervals"
    if times:
        caption += "; the milliseconds are of the machine that made the card"
    return Markup(html_table(caption, head, rows if times else rows[:-1]))


def score_heat(card: Scorecard, metric: str) -> Markup:
    """A heat map: kinds down, pipelines across, the best of each kind framed.

    A kind of which the measure says nothing, for some pipeline, is named below the map.
    """
    rows, values, best, without = [], [], [], []
    for kind, ids in card.by_kind().items():
        cells = [card.cell(name, metric, kind) for name in card.pipelines]
        means = [cell.value for cell in cells if cell]
        if len(means) < len(cells):
            without.append(kind)
            continue
        rows.append(f"{kind} ({len(ids)})")
        values.append(means)
        top = max(means)
        # One pipeline alone is no best, and neither are two that tie.
        alone = len(means) > 1 and means.count(top) == 1
        best.append(means.index(top) if alone else None)
    picture = heat(rows, card.pipelines, values, pointed=best, caption=f"{metric}, by kind")
    if without:
        picture += Markup("<p>No value for each pipeline: {}.</p>").format(", ".join(without))
    return picture


def differences(card: Scorecard, baseline: str, metric: str, kind: str = ALL) -> list[str]:
    """A sentence for each other pipeline: its difference from the baseline, and p."""
    said = []
    for name in card.pipelines:
        change = card.compared(baseline, name, metric, kind) if name != baseline else None
        if change:
            luck = "more than luck" if change.p < 0.05 else "may be luck"
            said.append(f"{name} {change.difference.signed}, {p_text(change.p)}: {luck}.")
    return said


def score_panel(card: Scorecard, *, times: bool = True) -> Panel:
    """Knobs: the measure, the kind of question, and the pipeline that others are compared with.

    times: see `score_table`.
    """

    def draw(metric: str, kind: str, baseline: str) -> Drawing:
        best = {name: card.cell(name, metric, kind) for name in card.pipelines}
        known = {name: cell for name, cell in best.items() if cell}
        means = "; ".join(f"{name} {cell}" for name, cell in known.items()) or "no value"
        said = [f"{metric.capitalize()}, {kind}: {means}."]
        against = differences(card, baseline, metric, kind)
        said += [f"Against {baseline}: {' '.join(against)}"] if against else []
        return Drawing(
            score_heat(card, metric) + score_table(card, kind, times=times), " ".join(said)
        )

    kinds = (ALL, *(kind for kind in card.by_kind() if kind != ALL))
    return Panel(
        "Scorecard",
        draw,
        [
            Knob("metric", "Measure", "right", choices=METRICS),
            Knob("kind", "Kind", ALL, choices=kinds),
            Knob("baseline", "Compared with", card.pipelines[0], choices=card.pipelines),
        ],
    )
