"""Files are written whole: a reader sees the old one or the new one, never a half."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path | str, text: str) -> Path:
    """Write a text file so that a reader sees the old file or the new one, never a half."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
