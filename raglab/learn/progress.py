"""Progress: what a learner answered is kept, in a file of their own.

It stays on this machine.  Nothing is sent, and the file holds no name: only when something was
answered, about which step and query, and how good it was.  Only its owner may read it, for a query
may say more than its writer meant.  To forget it all, delete the file; `Progress().path` says where
it lies.

Each attempt is one line of JSON, put at the end of the file under a lock.  So two notebooks that
are open at once lose nothing of each other's, and a line that was broken off, or was written by
another version, harms no other: it stays where it is, a warning names the file, and the rest is
read.

A file that cannot be written stops no one: what was answered is kept in memory, and is written as
soon as that can be done.

Left out: progress that follows a learner from one machine to another.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock

from raglab.learn.attempt import Attempt
from raglab.learn.summary import Summary, summarize
from raglab.types import RagLabError

__all__ = ["Attempt", "Progress", "progress_file"]
FILE = "progress.jsonl"
LONGEST = 200  # characters of a line's fault that are told
PATIENCE = 10.0  # seconds to wait for another notebook that is writing


def progress_file() -> Path:
    """The file in the user's data folder; `RAGLAB_PROGRESS` in the environment names another one,
    or the folder that is to hold it."""
    given = os.environ.get("RAGLAB_PROGRESS")
    if not given:
        return Path(platformdirs.user_data_dir("rag-lab-workbook")) / FILE
    path = os.path.expanduser(given)
    return Path(path, FILE) if os.path.isdir(path) else Path(path)


class Progress:
    """The attempts of one learner.

    path: the file; where none is given, `progress_file()`.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else progress_file()
        self._waiting: list[Attempt] = []  # what could not be written yet
        self._warned: set[str] = set()

    def record(self, attempt: Attempt) -> None:
        """Adds it to the file; where that cannot be done, warns once and keeps it in memory."""
        self._waiting.append(attempt)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                _append(self.path, b"".join(one.line() for one in self._waiting))
        except OSError as error:
            self._warn(
                f"{self.path} cannot be written ({_reason(error)}): results are kept until this "
                "notebook's kernel stops. Set RAGLAB_PROGRESS to a file that can be written"
            )
        else:
            self._waiting.clear()

    def attempts(self) -> tuple[Attempt, ...]:
        """All that is kept, in the order in which it was recorded."""
        return (*self._read(), *self._waiting)

    def summary(self) -> Summary:
        """Counts and mean scores, by kind and by step."""
        return summarize(self.attempts())

    def words(self) -> str:
        """The summary in words."""
        return self.summary().words()

    def _read(self) -> Iterator[Attempt]:
        try:
            lines = self._lines()
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn(
                f"{self.path} cannot be read ({_reason(error)}): only results of this session are "
                "counted. Set RAGLAB_PROGRESS to a file that can be read and written"
            )
            return
        strange = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield Attempt.read(line)
            except RagLabError as error:
                strange.append(f"line {number}: {error}"[:LONGEST])
        if strange:
            more = f", and {len(strange) - 1} more" if len(strange) > 1 else ""
            self._warn(
                f"not all of {self.path} can be read ({strange[0]}{more}): the rest is counted, "
                "and what cannot be read stays in the file"
            )

    def _lines(self) -> list[bytes]:
        # Without the lock a line that is just being written would look broken. Where it cannot be
        # had, in a folder that may only be read, it is better to read than not.
        if self.path.exists():
            with suppress(OSError), self._alone():
                return self.path.read_bytes().split(b"\n")
        return self.path.read_bytes().split(b"\n")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with FileLock(f"{self.path}.lock").acquire(timeout=PATIENCE, poll_interval=0.01):
            yield

    def _warn(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            warnings.warn(words, stacklevel=3)


def _append(path: Path, lines: bytes) -> None:
    """All of the lines at the end of the file, or none."""

    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    with open(path, "a+b", buffering=0, opener=private) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":  # a line was broken off: it must not take this one with it
                lines = b"\n" + lines
        if file.write(lines) != len(lines):
            file.truncate(end)
            raise OSError("the disk is full")
        os.fsync(file.fileno())


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
