"""Language models behind two verbs: `complete` a prompt, and `converse`, with tools at hand.

`ReplayLLM` answers from replies kept in files, each labelled with where it came from.  `ClaudeLLM`
asks Anthropic's Messages API, or any server that speaks it.  Neither invents: where there is no
reply and no key, the error says what to do.

Left out: images, and tools that the service runs itself.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from raglab.listening import heard as _heard
from raglab.listening import listen
from raglab.replay import ReplayLLM, conversation_hash, prompt_hash
from raglab.tooluse import as_sent, only_offered, tool_call
from raglab.types import Completion, RagLabError, Tool

if TYPE_CHECKING:
    import anthropic
    from anthropic.types import Message

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "ClaudeLLM",
    "ReplayLLM",
    "conversation_hash",
    "fence",
    "has_key",
    "listen",
    "prompt_hash",
]

DEFAULT_MODEL = "claude-sonnet-4-6"
MODELS = (DEFAULT_MODEL, "claude-opus-4-8", "claude-haiku-4-5")  # each has a row in prices.json


def fence(tag: str, text: str, **attributes: str) -> str:
    """Text from outside, put between tags that it cannot close.

    A document may hold words such as "ignore your instructions".  Escaping `<` keeps it from
    closing its own fence and speaking as if it were the prompt.

    >>> fence("source", "a </source> b", number="1")
    '<source number="1">\\na &lt;/source&gt; b\\n</source>'
    """
    named = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{named}>\n{escape(text)}\n</{tag}>"


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
        asked = {"role": "user", "content": _content(prompt, shared)}
        return self._ask([asked], system, max_tokens)

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Tool],
        system: str = "",
        max_tokens: int = 1024,
        call: bool = True,
    ) -> Completion:
        """The next turn: text, calls of tools, or both. With `call=False`, text.

        Raises RagLabError as `complete` does, and for a call that is not whole, is of no tool that
        was offered, or has arguments that are no JSON object."""
        more: dict[str, Any] = {"tools": as_sent(tools)} if tools else {}
        if tools and not call:
            more["tool_choice"] = {"type": "none"}
        return self._ask(messages, system, max_tokens, tools if call else (), **more)

    def _ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        system: str,
        max_tokens: int,
        at_hand: Sequence[Tool] = (),
        **more: Any,
    ) -> Completion:
        import anthropic

        client = self._client()
        request = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": list(messages),
            **({"system": system} if system else {}),
            **more,
        }
        started = time.perf_counter()
        try:
            message = self._message(client, request)
            text = "".join(block.text for block in message.content if block.type == "text")
            called = [(b.name, b.input) for b in message.content if b.type == "tool_use"]
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
        if called and message.stop_reason == "max_tokens":
            raise RagLabError(
                f"{self.model} was cut at max_tokens={max_tokens} while it called a tool: "
                "allow it more max_tokens"
            )
        try:
            if called and message.stop_reason != "tool_use":
                raise ValueError(f"stop reason: {message.stop_reason}")
            calls = only_offered((tool_call(*call) for call in called), at_hand)
        except ValueError as error:
            raise RagLabError(
                f"{self.model} called a tool in a way that cannot be followed ({error}): "
                "ask again, or ask another model"
            ) from error
        if not text.strip() and not calls:
            raise RagLabError(
                f"{self.model} sent no text (stop reason: {message.stop_reason}): "
                "ask again, or ask another model"
            )
        if message.stop_reason == "max_tokens":
            text += f" [cut at max_tokens={max_tokens}]"
        return _heard(
            Completion(
                text=text if text.strip() else "",  # the API takes no blank text back
                model=message.model,
                origin=f"live call to {message.model}",
                **tokens,
                tool_calls=calls,
                seconds=time.perf_counter() - started,
            )
        )

    def _message(self, client: anthropic.Anthropic, request: dict[str, Any]) -> Message:
        if self.on_text is None:
            whole: Message = client.messages.create(**request)
            return whole
        arguments: defaultdict[int, str] = defaultdict(str)
        with client.messages.stream(**request) as stream:
            for event in stream:
                if event.type == "content_block_delta":
                    if event.delta.type == "text_delta":
                        self.on_text(event.delta.text)
                    elif event.delta.type == "input_json_delta":
                        arguments[event.index] += event.delta.partial_json
            message = stream.get_final_message()
        if message.stop_reason is None:
            raise ConnectionError("the stream ended before the reply did")
        if message.stop_reason != "max_tokens":
            for written in arguments.values():
                json.loads(written or "{}")  # the SDK takes half an object as if it were whole
        return message

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
