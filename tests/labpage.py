"""A notebook in a JupyterLab page: opened, run, scrolled, its kernel asked through the page."""

from __future__ import annotations

import ast
from typing import Any

READY = """() => {
  const here = globalThis.jupyterapp?.shell?.currentWidget;
  return here?.context?.isReady && here.isRevealed && here.content.widgets.length > 0;
}"""

# Outputs are cleared first: what is there afterwards was made by this run.
RUN_ALL = """async (seconds) => {
  const { commands, shell } = jupyterapp;
  const run = async () => {
    await shell.currentWidget.sessionContext.ready;
    await commands.execute("notebook:clear-all-cell-outputs");
    await commands.execute("notebook:run-all-cells");
    return true;
  };
  const late = new Promise((resolve) => setTimeout(() => resolve(false), seconds * 1000));
  return Promise.race([run(), late]);
}"""

PROMPTS = """() => jupyterapp.shell.currentWidget.content.widgets
  .filter((cell) => cell.model.type === "code")
  .map((cell) => cell.node.querySelector(".jp-InputPrompt")?.textContent ?? "")"""

SCROLL = """async (index) => {
  const notebook = jupyterapp.shell.currentWidget.content;
  await notebook.scrollToItem(index, "start");
  notebook.widgets[index].node.scrollIntoView({ block: "start" });
}"""

ASK_KERNEL = """async ([code, wanted]) => {
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  const future = kernel.requestExecute({
    code, store_history: false, user_expressions: wanted ? { wanted } : {},
  });
  const { content } = await future.done;
  if (content.status !== "ok") throw new Error(`${content.ename}: ${content.evalue}`);
  return wanted ? content.user_expressions.wanted.data["text/plain"] : "None";
}"""

# Of the model, because cells far from the screen may not be drawn yet.
OUTPUTS = """() => jupyterapp.shell.currentWidget.content.widgets
  .filter((cell) => cell.model.type === "code")
  .flatMap((cell) => cell.model.outputs.toJSON())
  .map(({ output_type, name }) => name ?? output_type)"""


def open_notebook(house, name: str, run: bool = False):  # type: ignore[no-untyped-def]
    if run:
        house.lab.start_kernel(name)
    page = house.context.new_page()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: house.errors.append(f"{name}: {error}"))
    page.goto(house.lab.address(name))
    page.wait_for_function(READY, timeout=60_000)
    if run:
        page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        assert page.evaluate(RUN_ALL, 180), "the notebook did not run in three minutes"
    return page


def scroll_to(page, code: str) -> None:  # type: ignore[no-untyped-def]
    page.evaluate(SCROLL, page.evaluate(
        "(code) => jupyterapp.shell.currentWidget.content.widgets"
        ".findIndex((cell) => cell.model.sharedModel.source.includes(code))", code,
    ))  # fmt: skip


def in_kernel(page, code: str, wanted: str = "") -> Any:  # type: ignore[no-untyped-def]
    """Run code in the notebook's kernel, outside of its cells; the value of one expression."""
    return ast.literal_eval(page.evaluate(ASK_KERNEL, [code, wanted]))
