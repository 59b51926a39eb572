"""A notebook as slides for a room: `raglab present 05`.

    slides.py   cuts a notebook into slides         guard.py    who may look
    server.py   voila runs it, until Ctrl-C         page/       what the browser gets

Each `##` section is a slide; code is hidden and panels are live.  Every page that is opened has a
kernel of its own, and the notebook's file is only read.
"""

from __future__ import annotations

from pathlib import Path

from raglab.types import RagLabError


def find_notebook(name: str, folder: Path) -> Path:
    """The notebook that a number, the first letters of its name, or a file name means.

    Raises RagLabError, with what there is, where none or more than one fits.
    """
    given = Path(name)
    if given.suffix == ".ipynb" and given.is_file():
        return given.resolve()
    there = sorted(path.name for path in folder.glob("*.ipynb"))
    start = f"{int(name):02}_" if name.isdecimal() else name
    fits = [one for one in there if one == name] or [one for one in there if one.startswith(start)]
    if len(fits) != 1:
        said = f"more than one notebook starts with {name!r}" if fits else f"no notebook {name!r}"
        raise RagLabError(f"{said} in {folder}; there are: {', '.join(fits or there) or 'none'}")
    return folder / fits[0]
