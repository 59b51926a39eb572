"""`raglab present`, started as a reader starts it, for the tests that look at it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

START = (
    "import raglab.present.guard as guard; guard.SEATS = {}; from raglab.cli import main; main()"
)


@dataclass(frozen=True)
class Presentation:
    """A server that runs. `address` holds the token; `log` is all that it printed."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    @property
    def root(self) -> str:
        return self.address.partition("/?")[0]

    @property
    def cookie(self) -> str:
        return f"raglab-{urlsplit(self.address).port}={self.address.rpartition('=')[2]}"

    def interrupt(self, seconds: float = 60) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(seconds)


@contextmanager
def presenting(
    notebook: Path, home: Path, *options: str, seats: int = 8, seconds: float = 120
) -> Iterator[Presentation]:
    """Shows `notebook`. Whatever Jupyter writes of its own goes under `home`."""
    places = ("CONFIG", "DATA", "RUNTIME")
    settings = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in places}
    home.mkdir(parents=True, exist_ok=True)
    log = home / "present.log"
    command = [sys.executable, "-c", START.format(seats), "present", str(notebook)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--no-browser", "--port", "0", *options],
            env={**os.environ, **settings, "IPYTHONDIR": str(home / "ipython")},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Presentation(process, _address(process, log, seconds), log)
    finally:
        process.terminate()  # it then ends its kernels
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        printed = log.read_text(errors="replace")
        if found := re.search(r"http://\S+\?token=\S+\n", printed):
            return found[0].strip()
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"raglab present did not start:\n{printed}")
        time.sleep(0.1)
