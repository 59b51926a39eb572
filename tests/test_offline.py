"""The lab with the network cut off: no key, no hub, nothing cached. It runs on a plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Python reports each connection, datagram and name look-up to audit hooks before it is made.
# Whatever leaves this machine is noted, then refused.
GUARD = """
import ipaddress, json, sys

tried = []
CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
NAMES = ("socket.getaddrinfo", "socket.gethostbyname")

def stays_here(host):
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False  # a name

def guard(event, arguments):
    if event in CONNECTS:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a path: within this machine
    elif event in NAMES:
        host = arguments[0]
    else:
        return
    if not stays_here(host):
        tried.append(f"{event} {host}")
        raise OSError(f"the network is cut off: {event} {host}")

sys.addaudithook(guard)
"""

LAB = """
from pathlib import Path
from raglab import open_lab
from raglab.doctor import checks
from raglab.views import export_html

corpus, page = sys.argv[1:]
trace = open_lab(corpus, progress=False).run("How long does a refund take?")
export_html(trace, page)
json.dump({
    "answer": trace.answer.text,
    "cited": [citation.chunk_id for citation in trace.answer.citations],
    "counts": {s.name: len(trace.ranking(s.name)) for s in trace.stage("retrieve")},
    "doctor": [str(check) for check in checks()],
    "tried": tried,
}, sys.stdout)
"""

REACHING_OUT = """
import asyncio, socket

def outcome(act):
    try:
        return act() or "done"
    except OSError as error:
        return str(error)

def open_socket(kind):
    made = socket.socket(socket.AF_INET, kind)
    made.settimeout(5)
    return made

stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
listener = socket.create_server(("127.0.0.1", 0))
json.dump({
    "connect": outcome(lambda: open_socket(stream).connect(("192.0.2.1", 80))),
    "connect_ex": outcome(lambda: open_socket(stream).connect_ex(("192.0.2.1", 80))),
    "sendto": outcome(lambda: open_socket(datagram).sendto(b"x", ("192.0.2.1", 53)) and None),
    "name": outcome(lambda: socket.create_connection(("example.org", 80))),
    "async": outcome(lambda: asyncio.run(asyncio.open_connection("192.0.2.1", 80))),
    "loopback": outcome(lambda: open_socket(stream).connect(listener.getsockname())),
    "localhost": outcome(lambda: socket.getaddrinfo("localhost", 80) and None),
    "tried": tried,
}, sys.stdout)
"""


def cut_off(script: str, tmp_path: Path, *arguments: object) -> dict[str, Any]:
    """Run a script in a fresh process under the guard, with nothing cached and nothing set."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "TRANSFORMERS_", "ANTHROPIC_", "HUGGING"))
    }
    environment |= {"RAGLAB_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(
        [sys.executable, "-c", GUARD + script, *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tmp_path = tmp_path_factory.mktemp("offline")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, text in {
        "refunds": "# Refunds\n\nA refund takes five days from the day of approval.",
        "limits": "# Limits\n\nA key may ask sixty times a minute.",
        "errors": "# Errors\n\n`ERR_2043` means that a token has run out.",
    }.items():
        (corpus / f"{name}.md").write_text(text)
    page = tmp_path / "page.html"
    return cut_off(LAB, tmp_path, corpus, page) | {"page": page.read_text(encoding="utf-8")}


def test_a_query_is_answered(offline: dict[str, Any]) -> None:
    assert offline["counts"]["dense"] == 3
    assert offline["answer"] == "A refund takes five days from the day of approval. [1]"
    assert offline["cited"] == ["refunds#0"]


def test_the_page_is_written_and_asks_for_nothing(offline: dict[str, Any]) -> None:
    assert "A refund takes five days" in offline["page"]
    assert "default-src 'none'" in offline["page"]
    for fetching in ("<link", "<script src", "<img", "@import", "url(http"):
        assert fetching not in offline["page"]


def test_the_doctor_finds_all_well(offline: dict[str, Any]) -> None:
    assert len(offline["doctor"]) > 15
    assert [line for line in offline["doctor"] if not line.startswith("[OK] ")] == []


def test_no_connection_is_even_tried(offline: dict[str, Any]) -> None:
    assert offline["tried"] == []


def test_the_guard_itself(tmp_path: Path) -> None:
    outcomes = cut_off(REACHING_OUT, tmp_path)
    refused = ("connect", "connect_ex", "sendto", "name", "async")
    for act in refused:
        assert outcomes[act].startswith("the network is cut off: "), act
    assert outcomes["loopback"] == outcomes["localhost"] == "done"
    assert len(outcomes["tried"]) == len(refused)
    assert outcomes["tried"][0] == "socket.connect 192.0.2.1"
    assert "socket.getaddrinfo example.org" in outcomes["tried"]
