"""A JupyterLab for a browser test: its own folder, settings and port, and gone afterwards."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
OPTIONS = (
    "--no-browser",
    "--ip=127.0.0.1",
    "--allow-root",
    "--ServerApp.port_retries=0",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.news_url=None",
    "--LabApp.extension_manager=readonly",
    "--ServerApp.jpserver_extensions={'voila.server_extension': False}",
)


@dataclass(frozen=True)
class Jupyter:
    """A running server, spoken to as JupyterLab itself does it."""

    port: int
    token: str

    def address(self, notebook: str) -> str:
        """A workspace for each notebook: where two pages share one, JupyterLab reloads a page."""
        place = f"doc/workspaces/{quote(Path(notebook).stem)}/tree/{quote(notebook)}"
        return f"{self._root}/{place}?token={self.token}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = Request(f"{self._root}/api/{path}", data, headers, method=method)
        with urlopen(request, timeout=30) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def start_kernel(self, notebook: str) -> None:
        """A session made before the page opens: the page then joins it, and asks nothing."""
        body = {"path": notebook, "name": notebook, "type": "notebook"}
        self.ask("POST", "sessions", {**body, "kernel": {"name": "python3"}})

    def stop_kernels(self) -> None:
        for session in self.ask("GET", "sessions"):
            self.ask("DELETE", f"sessions/{session['id']}")

    @property
    def _root(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def jupyter_lab(folder: Path, home: Path) -> Iterator[Jupyter]:
    """Serves `folder`. Whatever Jupyter writes of its own goes under `home`."""
    lab = Jupyter(_free_port(), secrets.token_hex(16))
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={lab.port}"]
    command += [f"--IdentityProvider.token={lab.token}", f"--ServerApp.root_dir={folder}"]
    home.mkdir(parents=True, exist_ok=True)
    log = home / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            env=_environment(home),
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_up(lab, server, log)
        yield lab
        lab.stop_kernels()
    finally:
        server.terminate()  # the server then ends the kernels that it started
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def copy_notebooks(source: Path, target: Path) -> Path:
    """A copy to run in, so that a test never writes into the repository's notebooks."""
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns(".ipynb_*")))


def _environment(home: Path) -> dict[str, str]:
    config = home / "config"
    (config / "labconfig").mkdir(parents=True, exist_ok=True)
    overrides = config / "labconfig" / "default_setting_overrides.json"
    overrides.write_text(json.dumps(SETTINGS), encoding="utf-8")
    places = {
        "JUPYTER_CONFIG_DIR": config,
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
    }
    return {**os.environ, **{name: str(place) for name, place in places.items()}}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_until_up(
    lab: Jupyter, server: subprocess.Popen[bytes], log: Path, seconds: float = 60
) -> None:
    deadline = time.monotonic() + seconds
    while True:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')}")
        try:
            lab.ask("GET", "status")
            return
        except (URLError, OSError):
            time.sleep(0.2)
