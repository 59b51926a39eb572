"""Runs notebooks and keeps their outputs in the files: `make execute`.

The widget view is taken out of what is kept.  It points at a model that lives no longer than the
kernel, and a viewer that finds it would show an error in place of the picture beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from raglab.files import write_whole

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def execute(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=1800,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for cell in notebook.cells:
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = []  # progress bars and times: nothing that another run would repeat
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
    write_whole(path, nbformat.writes(notebook) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
        print(f"ran {name}")
