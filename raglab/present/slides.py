"""A notebook, cut into slides: a `##` heading begins one.

Left out: headings that are underlined, and slides that a notebook's metadata would mark.
"""

from __future__ import annotations

import re
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

FENCE = re.compile(r" {0,3}(```+|~~~+)")
HEADING = re.compile(r"##\s")


def sections(text: str) -> list[str]:
    """Markdown, cut before each `##` heading; a line in a code fence is no heading.

    >>> sections("Aim.\\n## One\\na\\n## Two")
    ['Aim.\\n', '## One\\na\\n', '## Two']
    """
    pieces, fence = [""], ""
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == mark[1] and mark[1].startswith(fence):
            fence = ""
        if HEADING.match(line) and not fence:
            pieces.append("")
        pieces[-1] += line
    return [piece for piece in pieces if piece.strip()]


def cut(notebook: NotebookNode) -> NotebookNode:
    """A copy in which the first cell of each slide says so, in `cell.metadata.raglab_slide`.

    A section that neither tells nor shows anything, as far as its kept outputs say, joins the next
    one. Where a slide has words but no output, its code is what it shows: `code` is true.
    """
    cells = [piece for cell in notebook.cells for piece in pieces(cell)]
    ran = any(cell.get("outputs") for cell in cells)
    slides: list[list[NotebookNode]] = []
    for cell in cells or [new_markdown_cell("This notebook holds no cell.")]:
        if not slides or (begins(cell) and (not ran or any(map(shows, slides[-1])))):
            slides.append([])
        slides[-1].append(cell)
    for slide in slides:
        silent = ran and not any(cell.get("outputs") for cell in slide)
        slide[0].metadata["raglab_slide"] = NotebookNode(code=silent)
    return NotebookNode({**notebook, "cells": [cell for slide in slides for cell in slide]})


def pieces(cell: NotebookNode) -> list[NotebookNode]:
    """Copies: prose with several sections becomes as many cells."""
    if cell.cell_type != "markdown":
        return [deepcopy(cell)]
    kept = {name: cell[name] for name in ("metadata", "attachments") if name in cell}
    return [new_markdown_cell(text, **deepcopy(kept)) for text in sections(cell.source)]


def begins(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(HEADING.match(cell.source.lstrip()))


def shows(cell: NotebookNode) -> bool:
    """Has it an output, or words beside a heading?"""
    if cell.cell_type != "markdown":
        return bool(cell.get("outputs"))
    return any(line.strip() and not line.startswith("#") for line in cell.source.splitlines())
