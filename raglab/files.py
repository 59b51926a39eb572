"""Files are written whole: a reader sees the old one or the new one, never a half."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: Path | str, text: str) -> Path:
    """Write a text file so that a reader sees the old file or the new one, never a half."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
