"""voila with our page: it runs the notebook in a kernel, and widgets talk to that kernel.

voila lets a page send a kernel widget messages, and no code.  It is configured here and nowhere
else: no file of voila's settings may loosen that.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import secrets
import shutil
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from subprocess import DEVNULL
from threading import Thread
from typing import Any

from jupyter_client.localinterfaces import public_ips
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_core.utils import run_sync
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from markupsafe import Markup
from nbformat import NotebookNode
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets
from traitlets.config import Config
from voila.app import Voila
from voila.tornado.execution_request_handler import ExecutionRequestHandler

from raglab.present.guard import guarded
from raglab.present.slides import cut
from raglab.types import RagLabError

PAGE = Path(__file__).with_name("page")
IDLE = 1800  # seconds after which a kernel that nobody watches ends
WIDGET = "application/vnd.jupyter.widget-view+json"
EVERYWHERE = ("0.0.0.0", "")


class Kernels(AsyncMappingKernelManager):
    """What a cell prints goes to the page. What a kernel says of itself as it ends, to nobody."""

    async def start_kernel(self, **options: Any) -> Any:  # type: ignore[override]
        return await super().start_kernel(**options, stdout=DEVNULL, stderr=DEVNULL)


class Results(ExecutionRequestHandler):  # type: ignore[misc]
    """Sends a cell's outputs, as voila does, but none after a widget in one message: the page
    passes over what follows a widget that it has yet to hear of."""

    def write_message(self, message: dict[str, Any], binary: bool = False) -> Any:
        *before, last = parted(message)
        for one in before:
            super().write_message(one, binary)
        return super().write_message(last, binary)


def parted(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A result as several, each of which ends with a widget or with the last output."""
    payload = message.get("payload", {})
    cell = payload.get("output_cell", {})
    runs: list[list[Any]] = [[]]
    for output in cell.get("outputs", ()):
        if runs[-1] and WIDGET in runs[-1][-1].get("data", ()):
            runs.append([])
        runs[-1].append(output)
    if len(runs) == 1:
        return [message]
    results = [{**payload, "output_cell": {**cell, "outputs": run}} for run in runs]
    for result in results[:-1]:
        result["total_cell"] = None  # at the last cell of all, the page hangs up
    return [{**message, "payload": result} for result in results]


class Stage(Voila):  # type: ignore[misc]  # voila's classes are untyped
    """voila with the page, the token and the socket of `serve`."""

    token_here = ""
    sockets: Sequence[socket.socket] = ()

    def setup_template_dirs(self) -> None:
        super().setup_template_dirs()
        self.template_paths.insert(0, str(PAGE))

    def init_settings(self) -> dict[str, Any]:
        own = {"raglab_token": self.token_here, "raglab_port": self.port}
        return {**super().init_settings(), **own}

    def init_handlers(self) -> list[Any]:
        own = {ExecutionRequestHandler: Results}
        found = super().init_handlers()
        return [(path, guarded(own.get(one, one)), *rest) for path, one, *rest in found]

    def listen(self) -> None:
        """Serves until Ctrl-C, then ends the kernels."""
        HTTPServer(self.app).add_sockets(self.sockets)
        self.ioloop = IOLoop.current()
        signal.signal(signal.SIGINT, self._handle_signal_stop)
        try:
            self.ioloop.start()
        finally:
            self.stop()

    def stop(self) -> None:
        """Kernels hold nothing that is to be kept: they end at once."""
        run_sync(self.kernel_manager.shutdown_all)(now=True)
        shutil.rmtree(self.connection_dir)


def before_a_kernel(handler: Any, notebook: NotebookNode, cwd: str) -> NotebookNode:
    """What voila runs of the notebook. The page sends its xsrf token to end its kernel, and to ask
    for the token here is what sets its cookie."""
    _ = handler.xsrf_token
    return cut(notebook)


def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen there. Raises RagLabError where that cannot be."""
    try:
        return bind_sockets(port, host)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            said = f"port {port} is taken: choose another with --port, or end what uses it"
        elif error.errno == errno.EACCES:
            said = f"port {port} may not be used: choose one above 1023 with --port"
        else:
            said = f"this machine has no address {host!r} to serve on: leave --host out"
        raise RagLabError(said) from error


def addresses(host: str, port: int) -> list[str]:
    """Where a browser finds the page; the first one works on this machine."""
    hosts = ["127.0.0.1", *public_ips()] if host in EVERYWHERE else [host]
    return [f"http://{f'[{one}]' if ':' in one else one}:{port}/" for one in hosts]


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    notebook: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8866,
    dark: bool = False,
    browser: bool = True,
) -> None:
    """Serves `notebook` as slides until Ctrl-C. Port 0 takes any that is free."""
    logging.getLogger("tornado").setLevel(logging.CRITICAL)  # what fails is told on the page
    sockets = bound(host, port)
    port = sockets[0].getsockname()[1]
    token = secrets.token_urlsafe(16)
    voila = {
        "progressive_rendering": True,  # a slide is there before the last cell has run
        "strip_sources": False,
        "show_tracebacks": True,
        "theme": "dark" if dark else "light",
        "allow_template_override": "NO",
        "allow_theme_override": "NO",
        "prelaunch_hook": before_a_kernel,
        "multi_kernel_manager_class": Kernels,
    }
    kernels = {"cull_idle_timeout": IDLE, "cull_interval": 60}
    stage = Stage.instance(
        config=Config({"VoilaConfiguration": voila, "MappingKernelManager": kernels}),
        notebook_path=str(notebook),
        root_dir=str(notebook.parent),
        port=port,
        config_file_paths=[],  # no file of voila's may loosen this
        log_level=logging.CRITICAL,
    )
    stage.token_here, stage.sockets = token, sockets
    stage.initialize([])
    found = [f"{address}?token={token}" for address in addresses(host, port)]
    print(f"{notebook.name} as slides. Ctrl-C ends it.", *found, sep="\n", flush=True)
    if not is_loopback(host):
        print(
            "Whoever has the address can turn the knobs. What is sent is not encrypted.", flush=True
        )
    with opened(found[0]) if browser else nullcontext():
        stage.start()


@contextmanager
def opened(address: str) -> Iterator[None]:
    """A browser at `address`, by way of a file: a command line is for every user to read."""
    folder = Path(jupyter_runtime_dir())
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(suffix=".html", dir=folder)  # readable by its owner alone
    page = Markup('<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={}">')
    with open(handle, "w", encoding="utf-8") as file:
        file.write(page.format(address))
    # A browser of the terminal would hold up the server: hence a thread.
    Thread(target=webbrowser.open, args=(Path(name).as_uri(),), daemon=True).start()
    try:
        yield
    finally:
        Path(name).unlink(missing_ok=True)
