"""Encodings kept on disk by content: the same text under the same model is never embedded twice.

One SQLite file.  The key is a hash over the model's fingerprint and the text, so a changed model
or a changed text simply is not found.  A cache can always be made again: a damaged file is set
aside, and a new one begun.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import platformdirs

from raglab.types import Encoding, RagLabError

_TABLE = (
    "CREATE TABLE IF NOT EXISTS encodings"
    " (key TEXT PRIMARY KEY, vector BLOB, tokens BLOB, spans BLOB) WITHOUT ROWID"
)
_READ = "SELECT vector, tokens, spans FROM encodings WHERE key = ?"


def cache_folder() -> Path:
    """The lab's folder among the user's caches; `RAGLAB_CACHE` in the environment moves it."""
    import os

    given = os.environ.get("RAGLAB_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("rag-lab-workbook"))


class EmbeddingCache:
    def __init__(self, file: Path) -> None:
        self.file = file

    def get(self, keys: Collection[str]) -> dict[str, Encoding]:
        """The encodings that are kept, of those asked for."""
        try:
            with closing(self._open()) as database:
                rows = {key: database.execute(_READ, (key,)).fetchone() for key in keys}
        except sqlite3.DatabaseError as error:
            aside = self.file.with_suffix(".damaged")
            warnings.warn(
                f"the cache {self.file} is damaged ({error}): set aside as {aside.name}; "
                "texts are embedded anew",
                stacklevel=2,
            )
            self.file.replace(aside)
            return {}
        return {key: _decode(row) for key, row in rows.items() if row}

    def put(self, encodings: Mapping[str, Encoding]) -> None:
        """Keep encodings: all of these, or, where the process dies, none."""
        rows = [
            (key, e.vector.tobytes(), e.tokens.tobytes(), e.spans.tobytes())
            for key, e in encodings.items()
        ]
        with closing(self._open()) as database, database:
            database.executemany("INSERT OR REPLACE INTO encodings VALUES (?, ?, ?, ?)", rows)

    def forget(self, keys: Collection[str]) -> None:
        """Take encodings out, and overwrite the bytes where they stood."""
        if not keys or not self.file.exists():
            return
        with closing(self._open()) as database:
            database.execute("PRAGMA secure_delete = ON")
            with database:
                database.executemany("DELETE FROM encodings WHERE key = ?", [(k,) for k in keys])

    def _open(self) -> sqlite3.Connection:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self.file, timeout=60)
        except (OSError, sqlite3.OperationalError) as error:
            raise RagLabError(
                f"the cache {self.file} cannot be opened ({error}): set RAGLAB_CACHE to a folder "
                "that can be written"
            ) from error
        try:
            database.execute(_TABLE)
        except BaseException:
            database.close()
            raise
        return database


def _decode(row: tuple[bytes, bytes, bytes]) -> Encoding:
    vector = np.frombuffer(row[0], np.float32)
    tokens = np.frombuffer(row[1], np.float16).reshape(-1, len(vector))
    return Encoding(vector, tokens, np.frombuffer(row[2], np.int32).reshape(-1, 2))
