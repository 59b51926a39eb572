"""The flow: one run of the pipeline as a picture that steps, selects and explains itself.

In a notebook with a kernel it is a widget.  Where nothing runs, the saved notebook shows the same
final state as a static SVG, and `export_html` writes a page that needs neither kernel nor network.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from raglab.files import write_whole
from raglab.trace import Trace
from raglab.views.figures import flow_svg
from raglab.views.tables import flow_model, trace_table

HERE = Path(__file__).parent
SCRIPTS = (
    "layout.js", "controls.js",
    "fit.js", "rows.js", "lines.js", "heads.js", "notes.js", "picture.js",
    "chunkpanel.js", "chunktable.js", "stepper.js", "flow.js",
)  # fmt: skip
STYLE = HERE / "flow.css"
EXPORT_LINE = "export default { render };"


def joined(names: Sequence[str]) -> str:
    """The files beside this one as one text: a widget's script or style."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def clean(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8; each becomes one question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class Flow(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget's base class is untyped
    """The picture of one trace. `evidence` names the chunks known to hold the answer."""

    _esm = joined(SCRIPTS)
    _css: Any = STYLE

    data = traitlets.Dict().tag(sync=True)  # flow_model(trace, evidence)
    step = traitlets.Int(0).tag(sync=True)  # how far the picture has advanced
    selected = traitlets.Unicode("").tag(sync=True)  # a chunk_id, or empty
    query = traitlets.Unicode("").tag(sync=True)
    knobs: Any = traitlets.List().tag(sync=True)  # dicts of name, label, min, max, value, help
    settings = traitlets.Dict().tag(sync=True)  # knob name -> value
    status = traitlets.Unicode("").tag(sync=True)  # plain words: what changed, what went wrong
    busy = traitlets.Bool(False).tag(sync=True)

    def __init__(self, trace: Trace, evidence: Collection[str] = (), **traits: Any) -> None:
        model = flow_model(trace, evidence)
        step = len(model["stages"]) - 1
        super().__init__(**{"data": model, "query": trace.query.text, "step": step, **traits})

    def __repr__(self) -> str:
        counts = [f"{column['name']} {column['count']}" for column in self.data["columns"]]
        answer = self.data["answer"]
        counts += [f"{len(answer['citations'])} cited"] if answer else []
        return f"Flow({self.data['query']!r}: {', '.join(counts)})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and a picture of it for viewers that run nothing.

        There is no text/html here on purpose: viewers prefer it to SVG, and GitHub strips
        pictures out of HTML, so the picture would be lost.
        """
        data, metadata = super()._repr_mimebundle_(**kwargs)
        data |= {"text/plain": repr(self), "image/svg+xml": flow_svg(self.data)}
        return data, metadata


def export_html(trace: Trace, path: Path | str, evidence: Collection[str] = ()) -> Path:
    """Write the flow as one page that works from a file: no kernel, no network."""
    return write_whole(path, page(trace, evidence))


def page(trace: Trace, evidence: Collection[str] = ()) -> str:
    """The flow as a page of its own."""
    model = flow_model(trace, evidence)
    state = {"data": model, "step": len(model["stages"]) - 1, "query": trace.query.text}
    state |= {"selected": "", "knobs": [], "settings": {}, "status": "", "busy": False}
    style = STYLE.read_text(encoding="utf-8")
    return widget_page(
        trace.query.text, state, joined(SCRIPTS), style, trace_table(trace, evidence)
    )


def widget_page(
    title: str,
    state: Mapping[str, Any],
    script: str,
    style: str,
    fallback: str,
    packed: Mapping[str, Any] | None = None,
) -> str:
    """A widget's traits and script as a page; `fallback` is HTML for who runs no script.

    `packed` are more traits, compressed: a page that is passed around should be small.
    A policy in its head lets the page run its own script and fetch nothing.
    """
    # "<" is written as an escape, so that no document's "</script>" can end the block.
    data = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    more = json.dumps(packed, separators=(",", ":")).encode() if packed else b""
    # mtime=0: equal states make equal pages.
    zipped = b64encode(gzip.compress(more, mtime=0)).decode() if more else ""
    script = script.replace(EXPORT_LINE, STUB)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return PAGE.format(
        title=escape(clean(title)),
        policy=POLICY.format(digest),
        style=style + PAGE_STYLE,
        fallback=clean(fallback),
        data=data,
        packed=zipped,
        script=script,
    )


# Images from data: are those that the page makes of itself; nothing is fetched.
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'sha256-{}'"
)

# The page's stand-in for the widget's model: the same verbs, no kernel behind them.
STUB = """
const state = JSON.parse(document.getElementById("raglab-data").textContent);
const packed = document.getElementById("raglab-packed").textContent;
if (packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  Object.assign(state, JSON.parse(await new Response(stream).text()));
}
const listeners = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (state[name] === value) return;
    state[name] = value;
    for (const act of listeners[`change:${name}`] ?? []) act();
  },
  on: (event, act) => (listeners[event] ??= []).push(act),
  off: (event, act) => (listeners[event] = (listeners[event] ?? []).filter((one) => one !== act)),
  save_changes: () => {},
  send: () => {},
};
const el = document.getElementById("raglab-flow");
el.model = model; // in reach of the browser's console
render({ model, el });
"""

PAGE_STYLE = """
:root { color-scheme: light dark; }
body.raglab-page {
  margin: 0; background: light-dark(#fff, #15181d); color: light-dark(#1b1f24, #e8eaed);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
.raglab-page main { max-width: 1480px; margin: 0 auto; padding: 16px clamp(10px, 2vw, 28px) 28px; }
.raglab-page h1 { font-size: 21px; line-height: 1.3; margin: 0 0 14px; overflow-wrap: anywhere; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="raglab-page">
<main>
<h1>{title}</h1>
<div id="raglab-flow"></div>
<noscript>{fallback}</noscript>
</main>
<script type="application/json" id="raglab-data">{data}</script>
<script type="text/plain" id="raglab-packed">{packed}</script>
<script type="module">{script}</script>
</body>
</html>
"""
