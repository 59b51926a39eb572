"""Charts for notebooks: plotly figures that share one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from raglab.types import Hit

ADDS, TAKES = "#0072b2", "#d55e00"
KINDS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito's, one after another
PLOTLY_CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,  # charts of a reader's own documents stay with the reader
    "modeBarButtonsToRemove": ["sendDataToCloud", "lasso2d", "select2d"],
}


class Chart(go.Figure):  # type: ignore[misc]  # plotly is untyped
    """A plotly figure that always shows itself with `PLOTLY_CONFIG`."""

    def show(self, *args: Any, **kwargs: Any) -> None:
        super().show(*args, **{"config": PLOTLY_CONFIG, **kwargs})

    def _ipython_display_(self) -> None:
        self.show()

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        return super()._repr_mimebundle_(*args, **{"config": PLOTLY_CONFIG, **kwargs})


def parts_figure(hit: Hit) -> Chart:
    """One hit's score as bars, a bar for each part; bars left of zero take away."""
    labels = ["<br>".join(escape(line) for line in wrap(part.name, 28)) for part in hit.parts]
    places = list(range(len(hit.parts)))  # two parts may share a name, so rows go by number
    values = [float(f"{part.value:.6g}") for part in hit.parts]
    colours = [ADDS if value >= 0 else TAKES for value in values]
    bars = go.Bar(
        x=values,
        y=places,
        orientation="h",
        marker={"color": colours, "pattern": {"shape": ["" if v >= 0 else "/" for v in values]}},
        text=[f"{value:+.4g}" for value in values],
        hovertemplate="%{text}<extra></extra>",
    )
    lines = sum(label.count("<br>") + 1 for label in labels)
    title = f"{escape(hit.chunk.chunk_id)}: rank {hit.rank}, score {hit.score:.4g}"
    return Chart(
        bars,
        layout={
            "title": {"text": title},
            "height": 110 + 24 * max(1, lines),
            "margin": {"l": 10, "r": 10, "t": 50, "b": 40},
            "xaxis": {"title": {"text": "addend of the score"}, "zeroline": True},
            "yaxis": {
                "tickvals": places,
                "ticktext": labels,
                "autorange": "reversed",
                "automargin": True,
            },
        },
    )


def lengths_figure(lengths: Mapping[str, Sequence[int]], limit: int | None = None) -> Chart:
    """Lengths of chunks in word pieces: a box and a point for each, a row for each strategy.

    A dashed line stands where the encoder stops reading.
    """
    rows = {name: [round(length) for length in found] for name, found in lengths.items()}
    boxes = [
        go.Box(
            x=found,
            y=[place] * len(found),
            orientation="h",
            boxpoints="all",
            pointpos=0,
            jitter=0.5,
            marker={"color": KINDS[place % len(KINDS)], "size": 4, "opacity": 0.6},
            line={"width": 1.5},
            hovertemplate="%{x} word pieces<extra></extra>",
        )
        for place, found in enumerate(rows.values())
    ]
    longest = max([limit or 0, *(length for found in rows.values() for length in found)])
    chart = Chart(
        boxes,
        layout={
            "height": 130 + 62 * max(1, len(rows)),
            "margin": {"l": 10, "r": 10, "t": 40, "b": 40},
            "showlegend": False,
            "xaxis": {
                "title": {"text": "word pieces in a chunk"},
                "range": [0, max(1, round(longest * 1.06))],
            },
            "yaxis": {
                "tickvals": list(range(len(rows))),  # names may be alike once they are wrapped
                "ticktext": [_length_label(name, found, limit) for name, found in rows.items()],
                "range": [max(1, len(rows)) - 0.5, -0.5],
                "automargin": True,
            },
        },
    )
    if limit is not None:
        chart.add_vline(
            x=limit,
            line={"dash": "dash", "width": 2, "color": "#5a626c"},
            annotation={"text": f"the encoder reads {limit}", "yanchor": "bottom", "y": 1},
        )
    return chart


def _length_label(name: str, found: Sequence[int], limit: int | None) -> str:
    label = "<br>".join(escape(line) for line in wrap(name, 28))
    chunks = f"{len(found)} chunk{'' if len(found) == 1 else 's'}"
    past = sum(length > limit for length in found) if limit is not None else 0
    return f"{label}<br>{chunks}{f', {past} past the limit' if past else ''}"
