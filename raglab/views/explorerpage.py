"""The Explorer as a page of its own: all that is shown now, with no kernel behind it.

Whatever the widget would have fetched when it is asked for lies in the page: the chunks' texts and
what lights up in them, the prompt, the lines of Python, the picture.  Knobs say how the
pipeline was set; with no kernel they are not drawn, since nothing would turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raglab.explore.zoom import exact_prompt
from raglab.views.explorerrun import Run
from raglab.views.flow import SCRIPTS, joined, widget_page
from raglab.views.tables import trace_table

if TYPE_CHECKING:
    from raglab.views.explorer import Explorer

PARTS = (
    "explorerzoom.js", "explorerpredict.js", "explorerwhynot.js", "explorershare.js",
    "explorerask.js", "explorerknobs.js", "explorerpictures.js", "explorer.js",
)  # fmt: skip
SCRIPT = joined((*(name for name in SCRIPTS if name != "flow.js"), *PARTS))
STYLE = joined(("flow.css", "explorer.css", "explorerpanels.css"))
KEPT = (
    "title", "data", "step", "selected", "query", "comparing", "other", "difference",
    "predicting", "challenges", "score", "whynot", "knobs", "other_settings",
)  # fmt: skip


def page(explorer: Explorer, run: Run, other: Run | None) -> str:
    sides = {"a": run, **({"b": other} if other else {})}
    state: dict[str, Any] = {name: getattr(explorer, name) for name in KEPT}
    state |= {
        "offline": True,
        "settings": explorer.shown_settings,
        "idle": [], "other_idle": [], "presets": {},
        "kinds": [], "surprises": [],
        "undoable": 0, "guess": {}, "reveal": {}, "knob_question": {},
        "knob_guess": "", "status": "", "busy": False, "progress": 0.0,
    }  # fmt: skip
    packed = {
        "details": {
            side: {card["id"]: one.detail(card["id"]) for card in one.model["chunks"]}
            for side, one in sides.items()
        },
        "prompts": {
            side: dict(zip(("text", "note"), exact_prompt(one.pipeline, one.trace), strict=True))
            for side, one in sides.items()
        },
        "code": explorer.code(),
        "svg": explorer.svg(),
    }
    fallback = trace_table(run.trace, run.evidence)
    return widget_page(run.trace.query.text, state, SCRIPT, STYLE, fallback, packed)
