"""Slides: which notebook, where it is cut, and who may see it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from presenting import Presentation, presenting
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.websocket import websocket_connect
from typer.testing import CliRunner

from raglab import cli
from raglab.present import find_notebook
from raglab.present.server import WIDGET, addresses, bound, opened, parted
from raglab.present.slides import cut, sections
from raglab.types import RagLabError

SHOWN = [new_output("stream", text="3\n")]


def code(source: str = "x = 1", *, outputs: Any = ()) -> nbformat.NotebookNode:
    return new_code_cell(source, outputs=list(outputs))


def slides(*cells: nbformat.NotebookNode) -> list[tuple[str, bool]]:
    """The first line of each slide, and whether its code is shown."""
    made = cut(new_notebook(cells=list(cells)))
    return [
        (cell.source.partition("\n")[0], cell.metadata.raglab_slide.code)
        for cell in made.cells
        if "raglab_slide" in cell.metadata
    ]


# -- which notebook -------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    for name in ("00_first_query.ipynb", "05_fuse.ipynb", "05_fuse_more.ipynb", "explorer.ipynb"):
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0", "00_first_query.ipynb"),
        ("00", "00_first_query.ipynb"),
        ("05_fuse.ipynb", "05_fuse.ipynb"),
        ("05_fuse_", "05_fuse_more.ipynb"),
        ("exp", "explorer.ipynb"),
    ],
)
def test_a_number_a_start_or_a_name_finds_a_notebook(shelf: Path, said: str, meant: str) -> None:
    assert find_notebook(said, shelf) == shelf / meant


def test_a_file_elsewhere_is_taken_as_it_is(shelf: Path, tmp_path: Path) -> None:
    mine = tmp_path / "elsewhere" / "mine.ipynb"
    mine.parent.mkdir()
    mine.write_text("{}")
    assert find_notebook(str(mine), shelf) == mine


def test_what_is_not_there_or_not_clear_is_told_with_what_there_is(shelf: Path) -> None:
    with pytest.raises(RagLabError, match=r"no notebook '7'.*00_first_query.*explorer"):
        find_notebook("7", shelf)
    with pytest.raises(RagLabError, match=r"more than one .*: 05_fuse.ipynb, 05_fuse_more.ipynb$"):
        find_notebook("5", shelf)
    with pytest.raises(RagLabError, match="there are: none"):
        find_notebook("5", shelf / "nothing")


def test_the_command_says_what_there_is() -> None:
    result = CliRunner().invoke(cli.app, ["present", "nothing"])
    assert isinstance(result.exception, RagLabError)
    assert "05_fuse.ipynb" in str(result.exception)


# -- slides ---------------------------------------------------------------------------------------


def test_text_is_cut_before_each_section_and_nothing_is_lost() -> None:
    text = "Aim.\n\n## One\na\n### Part\nb\n## Two\n"
    assert sections(text) == ["Aim.\n\n", "## One\na\n### Part\nb\n", "## Two\n"]
    assert sections("##not a heading\n#hash") == ["##not a heading\n#hash"]


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_heading_in_a_fence_is_code(fence: str) -> None:
    inside = f"{fence}sh\n## comment\n{fence}sh\n## comment\n{fence}\n"  # the second opens nothing
    assert sections(f"## One\n{inside}## Two\n") == [f"## One\n{inside}", "## Two\n"]


def test_each_section_is_a_slide() -> None:
    found = slides(
        new_markdown_cell("# Title\n\nAim.\n\n## One\n\nWords."),
        code(outputs=SHOWN),
        new_markdown_cell("More of one."),
        new_markdown_cell("## Two\n\nWords."),
        code(outputs=SHOWN),
    )
    assert found == [("# Title", True), ("## One", False), ("## Two", False)]


def test_a_section_that_shows_nothing_joins_the_next() -> None:
    found = slides(
        new_markdown_cell("## Set up"),
        code(),
        new_markdown_cell("## One\n\nWords."),
        code(outputs=SHOWN),
        new_markdown_cell("## Two"),
        code(outputs=SHOWN),
        new_markdown_cell("## Build\n\nIn three lines:"),
        code(),
    )
    # "Set up" and "One" are one slide. "Build" has words and no output: its code is what it shows.
    assert found == [("## Set up", False), ("## Two", False), ("## Build", True)]


def test_a_notebook_that_never_ran_keeps_every_section_and_hides_its_code() -> None:
    found = slides(new_markdown_cell("## One"), code(), new_markdown_cell("## Two"), code())
    assert found == [("## One", False), ("## Two", False)]


def test_cutting_leaves_the_notebook_as_it_was_and_its_cells_in_order() -> None:
    picture = {"a.png": {"image/png": "aGk="}}
    notebook = new_notebook(
        cells=[
            new_markdown_cell("Aim.\n## One\n![](attachment:a.png)", attachments=picture),
            code("1 + 2", outputs=SHOWN),
        ]
    )
    before = nbformat.writes(notebook)
    made = cut(notebook)
    assert nbformat.writes(notebook) == before
    assert [cell.source for cell in made.cells] == [
        "Aim.\n",
        "## One\n![](attachment:a.png)",
        "1 + 2",
    ]
    assert made.cells[1].attachments == picture
    assert len({cell.id for cell in made.cells}) == 3
    nbformat.validate(made)


def test_an_empty_notebook_is_one_slide() -> None:
    assert len(slides()) == 1


@pytest.mark.parametrize("path", sorted(cli.NOTEBOOKS.glob("0*.ipynb")), ids=lambda path: path.stem)
def test_the_workbook_s_sections_are_its_slides(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = re.findall(r"^## ", text, re.MULTILINE)
    assert len(slides(*notebook.cells)) == len(headings) + 1  # the aim stands before the first


# -- results --------------------------------------------------------------------------------------


def result(*outputs: dict[str, Any], last: int | None = 9) -> dict[str, Any]:
    cell = {"cell_type": "code", "outputs": list(outputs)}
    payload = {"output_cell": cell, "cell_index": 8, "total_cell": last}
    return {"action": "execution_result", "payload": payload}


def test_a_widget_ends_a_message_and_the_last_message_ends_the_run() -> None:
    words, widget = {"text": "words"}, {"data": {WIDGET: {"model_id": "1"}}}
    assert parted(result(words, words, widget)) == [result(words, words, widget)]
    assert parted(result(widget, words, widget, widget)) == [
        result(widget, last=None),
        result(words, widget, last=None),
        result(widget),
    ]
    assert parted(result()) == [result()]
    assert parted({"action": "initialized"}) == [{"action": "initialized"}]


# -- where it is served ---------------------------------------------------------------------------


def test_a_port_that_is_taken_names_the_mend() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RagLabError, match=rf"port {port} is taken: choose another with --port"):
            bound("127.0.0.1", port)


def test_an_address_that_is_not_here_names_the_mend() -> None:
    with pytest.raises(RagLabError, match=r"no address '192.0.2.1'.*leave --host out"):
        bound("192.0.2.1", 0)  # kept for documentation: no machine has it


def test_addresses_are_ones_that_a_browser_takes() -> None:
    assert addresses("127.0.0.1", 8866) == ["http://127.0.0.1:8866/"]
    assert addresses("::1", 8866) == ["http://[::1]:8866/"]
    assert addresses("0.0.0.0", 8866)[0] == "http://127.0.0.1:8866/"


def test_the_browser_learns_the_token_from_a_file_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", asked.append)
    with opened("http://127.0.0.1:1/?token=a&b"):
        (page,) = (tmp_path / "runtime").iterdir()
        assert "url=http://127.0.0.1:1/?token=a&amp;b" in page.read_text()
        assert page.stat().st_mode & 0o077 == 0
    assert asked == [page.as_uri()]
    assert not page.exists()


# -- who may see it -------------------------------------------------------------------------------

CELLS = [
    new_markdown_cell("# Small\n\nAim.\n\n## Where\n\nWords."),
    code("import os\nprint(os.getcwd())\nprint(os.environ['HF_HUB_OFFLINE'])"),
    code("undefined_name"),
    code("import time\ntime.sleep(300)"),
]
PNG = b"\x89PNG\r\n\x1a\n"
SOME = "5efb8c56-3e50-4108-bde2-42ae81dd05d1"
PATHS = (
    "/",
    "/small.ipynb",
    "/voila/render/small.ipynb",
    "/voila/files/picture.png",
    "/voila/static/voila.js",
    "/voila/templates/lab/static/voila.js",
    "/voila/labextensions/@voila-dashboards/widgets-manager8/package.json",
    "/voila/api/themes/@jupyterlab/theme-dark-extension/index.css",
    "/api/kernels",
    f"/api/kernels/{SOME}",
    f"/api/kernels/{SOME}/channels",
    f"/voila/execution/{SOME}",
    f"/voila/api/shutdown/{SOME}",
    "/login",
    "/logout",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("present")
    nbformat.write(new_notebook(cells=CELLS), made / "small.ipynb")
    (made / "picture.png").write_bytes(PNG)
    # A settings file of voila's lies in wait: it may not loosen anything.
    (made / "voila.json").write_text(json.dumps({"VoilaConfiguration": {"file_allowlist": [".*"]}}))
    return made


@pytest.fixture(scope="module")
def show(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Presentation]:
    """A server with one seat."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HF_HUB_OFFLINE", "1")
        with presenting(folder / "small.ipynb", home, seats=1) as shown:
            yield shown


def ask(show: Presentation, path: str, *, method: str = "GET", **headers: str) -> HTTPResponse:
    request = HTTPRequest(
        show.root + path,
        method,
        {name.replace("_", "-"): value for name, value in headers.items()},
        follow_redirects=False,
        allow_nonstandard_methods=True,
        request_timeout=60,
    )

    async def fetch() -> HTTPResponse:
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    return asyncio.run(fetch())


async def connect(show: Presentation, path: str, **headers: str) -> Any:
    address = show.root.replace("http", "ws", 1) + path
    return await websocket_connect(HTTPRequest(address, headers=headers, request_timeout=30))


def refused(show: Presentation, path: str, **headers: str) -> int:
    """The status with which a websocket is refused."""
    with pytest.raises(HTTPClientError) as error:
        asyncio.run(connect(show, path, **headers))
    return error.value.code


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["", "token=", "token=wrong"])
def test_without_the_token_nothing_is_served(show: Presentation, path: str, key: str) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
        reply = ask(show, f"{path}?{key}", method=method, Cookie=show.cookie[:-1])
        assert reply.code == 403, (method, path)
        assert len(reply.body or b"") < 100


@pytest.mark.parametrize(
    "path", [path for path in PATHS if SOME in path and "shutdown" not in path]
)
def test_without_the_token_no_websocket_opens(show: Presentation, path: str) -> None:
    assert refused(show, path) == 403
    assert refused(show, path, Authorization="token wrong") == 403


def test_the_address_is_traded_for_a_cookie_and_loses_its_token(show: Presentation) -> None:
    reply = ask(show, show.address.removeprefix(show.root))
    assert (reply.code, reply.headers["Location"]) == (302, "/")
    cookie, *flags = reply.headers["Set-Cookie"].split("; ")
    assert cookie == show.cookie
    assert set(flags) == {"HttpOnly", "Path=/", "SameSite=Lax"}


def test_no_settings_file_opens_other_files(show: Presentation) -> None:
    assert ask(show, "/voila/files/picture.png", Cookie=show.cookie).body == PNG
    assert ask(show, "/voila/files/voila.json", Cookie=show.cookie).code == 403
    assert ask(show, "/voila/files/small.ipynb", Cookie=show.cookie).code == 403


@pytest.fixture(scope="module")
def page(show: Presentation) -> tuple[str, HTTPResponse]:
    """The id of the page's kernel, and the page."""
    reply = ask(show, "/", Cookie=show.cookie)
    assert reply.code == 200
    config = re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', reply.body.decode(), re.S)
    assert config
    return json.loads(config[1])["kernelId"], reply


def test_the_page_holds_slides_and_names_no_other_machine(
    show: Presentation, page: tuple[str, HTTPResponse]
) -> None:
    text = page[1].body.decode()
    assert text.count('<section class="deck-slide') == 2
    assert show.cookie.partition("=")[2] not in text
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?([^\"' >]+)", text)
    assert len(loaded) > 3
    assert {one for one in loaded if not one.startswith(("/voila/", "data:"))} == set()
    policy = page[1].headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self' data: blob: ws://127.0.0.1:")
    assert "http:" not in policy.replace("ws://", "")
    assert "*" not in policy


def test_only_so_many_pages_open_at_a_time(
    show: Presentation, page: tuple[str, HTTPResponse]
) -> None:
    reply = ask(show, "/", Cookie=show.cookie)
    assert reply.code == 503
    assert b"close one, then reload" in reply.body


def test_another_site_may_not_speak_to_the_kernel(
    show: Presentation, page: tuple[str, HTTPResponse]
) -> None:
    for path in (f"/api/kernels/{page[0]}/channels", f"/voila/execution/{page[0]}"):
        assert refused(show, path, Cookie=show.cookie, Origin="http://elsewhere.example") == 403
        assert refused(show, path, Origin=show.root) == 403  # this site, without the cookie


def test_a_page_cannot_send_code(
    show: Presentation, page: tuple[str, HTTPResponse], folder: Path
) -> None:
    async def send() -> list[str]:
        socket = await connect(
            show, f"/api/kernels/{page[0]}/channels", Cookie=show.cookie, Origin=show.root
        )
        asked = {
            "execute_request": {"code": "open('written', 'w')", "silent": False},
            "kernel_info_request": {},
        }
        for kind, content in asked.items():
            header = {"msg_id": kind, "msg_type": kind, "username": "", "session": "s"}
            header |= {"version": "5.3", "date": "2026-01-01T00:00:00Z"}
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
            await socket.write_message(json.dumps({**message, "channel": "shell", "buffers": []}))
        heard: list[str] = []
        while "kernel_info_reply" not in heard:
            heard.append(json.loads(await asyncio.wait_for(socket.read_message(), 60))["msg_type"])
        socket.close()
        return heard

    heard = asyncio.run(send())
    assert "execute_reply" not in heard
    assert not (folder / "written").exists()


def test_cells_run_in_the_notebook_s_folder_and_errors_are_shown(
    show: Presentation, page: tuple[str, HTTPResponse], folder: Path
) -> None:
    before = (folder / "small.ipynb").read_bytes()

    async def run() -> list[dict[str, Any]]:
        socket = await connect(show, f"/voila/execution/{page[0]}", Cookie=show.cookie)
        asked = {"action": "execute", "payload": {"kernel_id": page[0]}}
        await socket.write_message(json.dumps(asked))
        cells: list[dict[str, Any]] = []
        while len(cells) < 4:  # two of words, two of code; the last one sleeps on
            message = json.loads(await asyncio.wait_for(socket.read_message(), 90))
            if message["action"] == "execution_result":
                cells.append(message["payload"]["output_cell"])
        return cells

    cells = asyncio.run(run())
    printed = cells[2]["outputs"][0]["text"].splitlines()
    assert Path(printed[0]).samefile(folder)
    assert printed[1] == "1"
    (error,) = cells[3]["outputs"]
    assert error["ename"] == "NameError"
    assert "undefined_name" in "".join(error["traceback"])
    assert (folder / "small.ipynb").read_bytes() == before


def test_ctrl_c_ends_it_and_its_kernels_while_a_cell_runs(
    show: Presentation, page: tuple[str, HTTPResponse]
) -> None:
    """The last test: it ends the server that the others used."""
    psutil = pytest.importorskip("psutil")
    kernels = psutil.Process(show.process.pid).children(recursive=True)
    assert kernels
    assert show.interrupt() == 0
    _, alive = psutil.wait_procs(kernels, timeout=10)
    assert alive == []
    printed = show.log.read_text()
    assert len(printed.splitlines()) == 2, printed  # what it is, and where
