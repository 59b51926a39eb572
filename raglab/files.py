"""Files are written whole: a reader sees the old one or the new one, never a half."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: Path | str, content: str | bytes) -> Path:
    """Write text as UTF-8, or bytes as they are. A reader sees the old file or the new one, never
    a half."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
