"""Notebooks are kept as they ran: nbval compares outputs, and cannot compare what is not there."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
ASIDE = ("nbval-ignore-output", "nbval-skip")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def code(request: pytest.FixtureRequest) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(request.param, as_version=4)
    assert "widgets" not in notebook.metadata
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


def test_every_cell_was_run_in_order_and_none_failed(code) -> None:  # type: ignore[no-untyped-def]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = [output.output_type for cell in code for output in cell.outputs]
    assert "error" not in kinds
    errors = [o for cell in code for o in cell.outputs if o.get("name") == "stderr"]
    assert errors == []


def prints(source: str) -> bool:
    """Whether running it prints, and not only calling what it defines.

    >>> prints("for n in (1, 2):\\n    print(n)"), prints("def show(n):\\n    print(n)")
    (True, False)
    """
    ran = [n for n in ast.parse(source).body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return any("print(" in ast.unparse(node) for node in ran)


def test_a_cell_that_prints_kept_what_it_printed(code) -> None:  # type: ignore[no-untyped-def]
    for cell in code:
        if prints(cell.source) and not set(ASIDE) & set(cell.metadata.get("tags", [])):
            assert cell.outputs, cell.source


def test_few_cells_are_left_out_of_the_comparison(code) -> None:  # type: ignore[no-untyped-def]
    aside = [cell for cell in code if set(ASIDE) & set(cell.metadata.get("tags", []))]
    assert len(aside) <= len(code) / 8


def test_cells_are_short(code) -> None:  # type: ignore[no-untyped-def]
    assert max(len(cell.source.splitlines()) for cell in code) <= 15


def test_pictures_are_kept_for_viewers_that_run_nothing(code) -> None:  # type: ignore[no-untyped-def]
    flows = [
        output.data for cell in code for output in cell.outputs
        if output.get("data", {}).get("text/plain", "").startswith(("Flow(", "Explorer("))
    ]  # fmt: skip
    for data in flows:
        assert "image/svg+xml" in data
        assert "application/vnd.jupyter.widget-view+json" not in data
