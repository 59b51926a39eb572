"""Charts of one score, for notebooks: plotly figures that share one configuration."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from raglab.types import Hit

ADDS, TAKES = "#0072b2", "#d55e00"
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
