"""A small server on this machine that speaks the Messages API, for tests of real HTTP calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

import pytest

from raglab.llm import ClaudeLLM

MODEL = "claude-test-1"
KEY = "sk-test-0123456789"


@dataclass(frozen=True)
class Reply:
    """What the server sends: a status, a body, and how long it waits before."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    wait: float = 0.0
    length: int | None = None  # more than len(body): the connection breaks before the end


Block = dict[str, Any]


def tool_use(name: Any, given: Any, **more: Any) -> Block:
    """A block that asks for a tool. `given` is what stands as its input, be it an object or not.

    When it is streamed, a string is the JSON text itself, so that it can be sent broken."""
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": given, **more}


def said(*pieces: str | Block, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """A whole message, a text block for each string. It was paid with 7 tokens in and 3 out."""
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in pieces]
    message = _message(content, stop_reason)
    message["usage"] |= usage
    return Reply(json.dumps(message).encode())


def streamed(*pieces: str | Block, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """The same message as server-sent events: a delta for each string, and for every five
    characters of a tool's input. Strings that follow one another are one block."""
    begun = _message([], None)
    begun["usage"] |= usage
    blocks: list[tuple[Block, list[Block]]] = []
    for text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        if text:
            blocks.append(
                (
                    {"type": "text", "text": ""},
                    [{"type": "text_delta", "text": piece} for piece in run],
                )
            )
        else:
            blocks += [(piece | {"input": {}}, _input_deltas(piece["input"])) for piece in run]
    end = {"delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 3}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, (block, deltas) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]
    events += [{"type": "message_delta", **end}, {"type": "message_stop"}]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply("".join(lines).encode(), kind="text/event-stream")


def _input_deltas(given: Any) -> list[Block]:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    pieces = ["", *(text[at : at + 5] for at in range(0, len(text), 5))]  # the first is empty there
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def interrupted(stream: Reply, before: str, error: Reply) -> Reply:
    """A stream in whose middle, before its first event of that type, an error event ends it."""
    begun, found, _ = stream.body.partition(f"event: {before}\n".encode())
    assert found, f"the stream has no {before}"
    return replace(stream, body=begun + b"event: error\ndata: " + error.body + b"\n\n")


def failed(status: int, kind: str, message: str) -> Reply:
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return Reply(json.dumps(error).encode(), status)


OVERLOADED = failed(529, "overloaded_error", "Overloaded")


def _message(content: list[Block], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


@dataclass
class MessagesServer:
    """Sends `replies` in order, the last of them again and again, and keeps what it was asked."""

    url: str
    replies: list[Reply] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.asked]


@contextmanager
def messages_server() -> Iterator[MessagesServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            here.asked.append((self.path, headers, body))
            reply = here.replies.pop(0) if len(here.replies) > 1 else here.replies[0]
            here.closed.wait(reply.wait)
            try:
                self.send_response(reply.status)
                self.send_header("content-type", reply.kind)
                self.send_header("content-length", str(reply.length or len(reply.body)))
                self.send_header("retry-after-ms", "1")  # the SDK waits 0.5 s and more by default
                self.end_headers()
                self.wfile.write(reply.body)
            except ConnectionError:
                pass  # the client gave up first

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = MessagesServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()


def hold_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with a key, and nothing else that could lead a call elsewhere."""
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def claude(server: MessagesServer, **options: object) -> ClaudeLLM:
    return ClaudeLLM(base_url=server.url, **{"max_retries": 0, **options})  # type: ignore[arg-type]
