"""A small server on this machine that speaks the Messages API, for tests of real HTTP calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "claude-test-1"


@dataclass(frozen=True)
class Reply:
    """What the server sends: a status, a body, and how long it waits before."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    wait: float = 0.0
    length: int | None = None  # more than len(body): the connection breaks before the end


def said(*pieces: str, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """A whole message, a text block for each piece. It was paid with 7 tokens in and 3 out."""
    message = _message([{"type": "text", "text": piece} for piece in pieces], stop_reason)
    message["usage"] |= usage
    return Reply(json.dumps(message).encode())


def streamed(*pieces: str, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """The same message as server-sent events, a delta for each piece."""
    begun = _message([], None)
    begun["usage"] |= usage
    block = {"type": "text", "text": ""}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in pieces
    ]
    end = {"delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 3}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", **end},
        {"type": "message_stop"},
    ]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply("".join(lines).encode(), kind="text/event-stream")


def failed(status: int, kind: str, message: str) -> Reply:
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return Reply(json.dumps(error).encode(), status)


def _message(content: list[dict[str, str]], stop_reason: str | None) -> dict[str, Any]:
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
