"""The Explorer's figures in Chromium: first picture, knob to repaint, frames, bytes.

    PYTHONPATH=tests python tests/bench/explorer.py

JupyterLab is started as the browser tests start it, over a copy of the notebooks. Times are taken
in the page, from the event to the frame that was painted.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from browser import open_browser
from jupyter import copy_notebooks, jupyter_lab
from labpage import in_kernel, open_notebook, scroll_to
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook
from test_browser_explorer import DESK, TURN, press, wait_for
from test_browser_picture import WALK, WATCH
from traces import a_trace

from raglab.views.flow import page as flow_page

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
IMPORTS = ("import torch", "import sentence_transformers")
CELL = """import raglab
from raglab.views import Explorer
explorer = Explorer(raglab.open_lab("handbook"), raglab.golden_questions("handbook"))
explorer"""
# Runs one cell; resolves when its rows, or else its output, have been painted.
RUN = """([index, rows]) => new Promise((resolve) => {
  const { commands, shell } = jupyterapp;
  const notebook = shell.currentWidget.content;
  notebook.activeCellIndex = index;
  const cell = notebook.widgets[index];
  const started = performance.now();
  const done = () => rows
    ? cell.node.querySelector(".rl-row:not(.rl-pending)")
    : cell.node.querySelector(".jp-InputPrompt")?.textContent.match(/[0-9]/);
  const look = () => done()
    ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)))
    : setTimeout(look, 5);
  commands.execute("notebook:run-cell");
  look();
})"""


def first_picture(house: Any, folder: Path) -> None:
    cells = [new_code_cell(source) for source in (*IMPORTS, CELL)]
    took: list[list[float]] = []
    for number in range(3):
        name = f"first-{number}.ipynb"
        write(new_notebook(cells=cells), folder / name)
        house.lab.start_kernel(name)
        page = open_notebook(house, name)
        page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.ready")
        page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        took.append([page.evaluate(RUN, [at, at == len(IMPORTS)]) for at in range(len(cells))])
        page.close()
    for line, *seconds in zip((*IMPORTS, "the cell, to its first picture"), *took, strict=True):
        print(f"{line:32} {statistics.median(seconds) / 1000:6.2f} s  (median of {len(seconds)})")


def knob_to_repaint(house: Any) -> None:
    page = open_notebook(house, "explorer.ipynb", run=True)
    scroll_to(page, "explorer = Explorer(pipeline")
    root = page.locator(".raglab-explorer")
    query = "How much did contextual retrieval cut failed retrievals?"
    in_kernel(page, f"explorer.query = {query!r}")
    for label, name, k in (("RRF's k", "rrf_k", 34), ("Kept for the prompt", "keep", 34)):
        in_kernel(page, f"explorer.settings = {{**explorer.presets['hybrid'], 'reranker': "
                        f"'late interaction', 'k': {k}}}")  # fmt: skip
        wait_for(page, "len(explorer.data['chunks']) >= 50")
        if root.locator("details.rl-group:not([open])").count():
            press(root, "Knobs")
        page.wait_for_timeout(2000)
        took = []
        for turn in range(40):
            value = (3, 200, 1, 90)[turn % 4] if name == "rrf_k" else (2, 9, 4, 12)[turn % 4]
            took.append(page.evaluate(TURN, [root.element_handle(), label, value]))
            page.wait_for_timeout(1100)
        took = sorted(one for one in took if one > 0)
        candidates = in_kernel(page, "", "len(explorer.data['chunks'])")
        print(
            f"{label}, to repaint: median {statistics.median(took):.0f} ms, "
            f"95th percentile {took[round(0.95 * (len(took) - 1))]:.0f} ms, {len(took)} turns, "
            f"{candidates} candidates"
        )
    data = in_kernel(page, "import json", "len(json.dumps(explorer.data))")
    code = in_kernel(page, "", "len(explorer.get_state()['_esm']) + len(explorer._css)")
    print(f"sent: {data / 1000:.0f} KB with a turned knob; script and style, {code / 1000:.0f} KB")
    page.close()


def frames(browser: Any, folder: Path) -> None:
    """100 candidates, played from the first stage to the last."""
    path = folder / "frames.html"
    path.write_text(flow_page(a_trace(50, depth=100, keep=20)), encoding="utf-8")
    page = browser.new_page(viewport=DESK)
    page.goto(path.as_uri())
    page.wait_for_selector(".rl-row")
    page.evaluate(WATCH)
    found = page.evaluate(WALK)
    print(
        f"stepping, 100 candidates: {1000 / found['median']:.0f} frames a second (median), "
        f"95% of frames within {found['p95']:.1f} ms, {len(found['long'])} long tasks"
    )
    page.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        folder = copy_notebooks(NOTEBOOKS, home / "notebooks")
        with jupyter_lab(folder, home) as lab, open_browser() as browser:
            context = browser.new_context(viewport=DESK)  # type: ignore[attr-defined]
            house = SimpleNamespace(lab=lab, context=context, errors=[])
            first_picture(house, folder)
            knob_to_repaint(house)
            frames(browser, home)
            assert house.errors == []


if __name__ == "__main__":
    main()
