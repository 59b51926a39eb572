"""Language models behind one verb: `complete`.

`ReplayLLM` answers from replies kept in files, each labelled with where it came from.  `ClaudeLLM`
asks Anthropic's Messages API, or any server that speaks it.  Neither invents: where there is no
reply and no key, the error says what to do.

Left out: tools, images and conversations of several turns.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from raglab.types import Completion, RagLabError

if TYPE_CHECKING:
    import anthropic

DEFAULT_MODEL = "claude-sonnet-4-6"
MODELS = (DEFAULT_MODEL, "claude-opus-4-8", "claude-haiku-4-5")  # each has a row in prices.json

_calls: ContextVar[list[Completion] | None] = ContextVar("calls", default=None)


@contextmanager
def listen() -> Iterator[list[Completion]]:
    """Collects what models return while the block runs, so a step can show what it asked."""
    calls: list[Completion] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def _heard(completion: Completion) -> Completion:
    calls = _calls.get()
    if calls is not None:
        calls.append(completion)
    return completion


def fence(tag: str, text: str, **attributes: str) -> str:
    """Text from outside, put between tags that it cannot close.

    A document may hold words such as "ignore your instructions".  Escaping `<` keeps it from
    closing its own fence and speaking as if it were the prompt.

    >>> fence("source", "a </source> b", number="1")
    '<source number="1">\\na &lt;/source&gt; b\\n</source>'
    """
    named = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{named}>\n{escape(text)}\n</{tag}>"


def prompt_hash(prompt: str, system: str = "", shared: str = "") -> str:
    """The name of a kept reply: sha256 over the system prompt, the shared part and the prompt."""
    parts = (system, shared, prompt) if shared else (system, prompt)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class ReplayLLM:
    """Answers from `folder/*.jsonl`: a line a reply, with `prompt_hash`, `text` and `origin`.

    Kept replies carry no token counts unless a live call recorded them.
    """

    folder: Path
    model: str = "replay"

    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion:
        key = prompt_hash(prompt, system, shared)
        reply = _replies(self.folder).get(key)
        if reply is None:
            raise RagLabError(
                f"no reply is kept for this prompt (hash {key[:12]}). Offline, the lab replays "
                "replies for the lessons' own queries only. Set ANTHROPIC_API_KEY and use "
                "llm=ClaudeLLM(), or go back to the default, which needs no model."
            )
        return _heard(
            Completion(
                text=reply["text"],
                model=reply.get("model", self.model),
                origin=reply["origin"],
                input_tokens=reply.get("input_tokens", 0),
                output_tokens=reply.get("output_tokens", 0),
            )
        )


@lru_cache(maxsize=8)
def _replies(folder: Path) -> dict[str, dict[str, Any]]:
    replies = {}
    for path in sorted(folder.glob("*.jsonl")):
        # Not splitlines(): JSON may hold U+2028 and its like as they are, inside a line.
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if not line.strip():
                continue
            try:
                reply = json.loads(line)
                for needed in ("prompt_hash", "text", "origin"):
                    reply[needed]
                replies[reply["prompt_hash"]] = reply
            except (ValueError, KeyError, TypeError) as error:
                raise RagLabError(
                    f"{path}:{number} is not a reply ({error!r}): each line needs "
                    "prompt_hash, text and origin"
                ) from error
    return replies


@dataclass(frozen=True)
class ClaudeLLM:
    """Claude through the anthropic SDK, which retries with back-off on 408, 409, 429 and 5xx.

    The key comes from ANTHROPIC_API_KEY.  ANTHROPIC_BASE_URL, or `base_url`, points it at another
    server that speaks the Messages API.  With `on_text`, the reply is streamed to that function.
    """

    model: str = DEFAULT_MODEL
    base_url: str | None = None
    timeout: float = 60.0  # seconds of silence that each try allows
    max_retries: int = 2
    on_text: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    def complete(
        self, prompt: str, *, system: str = "", max_tokens: int = 1024, shared: str = ""
    ) -> Completion:
        """One reply; `shared` is marked for the service's prompt cache.

        Raises RagLabError, with the mend, for every failure that the API names."""
        import anthropic

        client = self._client()
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": _content(prompt, shared)}],
        }
        if system:
            request["system"] = system
        started = time.perf_counter()
        try:
            if self.on_text is None:
                message = client.messages.create(**request)
            else:
                with client.messages.stream(**request) as stream:
                    for piece in stream.text_stream:
                        self.on_text(piece)
                    message = stream.get_final_message()
                if message.stop_reason is None:
                    raise ConnectionError("the stream ended before the reply did")
            text = "".join(block.text for block in message.content if block.type == "text")
            usage = message.usage
            tokens = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_write_tokens": usage.cache_creation_input_tokens or 0,
                "cache_read_tokens": usage.cache_read_input_tokens or 0,
            }
        except anthropic.AnthropicError as error:
            raise RagLabError(_mend(error, self)) from error
        except Exception as error:  # the SDK lets a parser's and a socket's own errors through
            raise RagLabError(
                f"the reply broke off, or is not one of the Messages API ({type(error).__name__}: "
                f"{error}): run again, or check ANTHROPIC_BASE_URL"
            ) from error
        if not text.strip():
            raise RagLabError(
                f"{self.model} sent no text (stop reason: {message.stop_reason}): "
                "ask again, or ask another model"
            )
        if message.stop_reason == "max_tokens":
            text += f" [cut at max_tokens={max_tokens}]"
        return _heard(
            Completion(
                text=text,
                model=message.model,
                origin=f"live call to {message.model}",
                **tokens,
                seconds=time.perf_counter() - started,
            )
        )

    def _client(self) -> anthropic.Anthropic:
        if not has_key():
            raise RagLabError(
                "no key for Claude: set ANTHROPIC_API_KEY, or leave the model out; "
                "the default pipeline needs none"
            )
        import anthropic

        return anthropic.Anthropic(
            base_url=self.base_url, timeout=self.timeout, max_retries=self.max_retries
        )


def _content(prompt: str, shared: str) -> str | list[dict[str, Any]]:
    if not shared:
        return prompt
    cached = {"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}}
    return [cached, {"type": "text", "text": prompt}]


def has_key() -> bool:
    """Is there a key for Claude in the environment?"""
    return bool(os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN"))


def _mend(error: Exception, llm: ClaudeLLM) -> str:
    import anthropic

    tried = f"after {llm.max_retries} retries"
    match error:
        case anthropic.AuthenticationError() | anthropic.PermissionDeniedError():
            return f"the key was refused: check ANTHROPIC_API_KEY ({error})"
        case anthropic.RateLimitError():
            return f"too many requests, {tried}: wait a minute and run again ({error})"
        case anthropic.APITimeoutError():
            return (
                f"no answer within {llm.timeout:g} s, {tried}: run again, "
                "or give ClaudeLLM(timeout=...) more"
            )
        case anthropic.APIConnectionError():
            return (
                f"the server could not be reached, {tried}: check the network and "
                f"ANTHROPIC_BASE_URL, or leave the model out ({error})"
            )
        case anthropic.NotFoundError():
            return f"no model {llm.model!r} there: name another, ClaudeLLM(model=...) ({error})"
        case anthropic.APIStatusError() if error.status_code >= 500:
            return f"the service is overloaded or down, {tried}: wait and run again ({error})"
    return f"the call to {llm.model} failed ({error}): mend what it names, or run again"
