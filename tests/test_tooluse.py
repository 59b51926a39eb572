"""Tools through the real SDK against a server on this machine, replayed, and in the stand-in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeAgentLLM, asks
from messages_server import (
    MODEL,
    OVERLOADED,
    Block,
    MessagesServer,
    Reply,
    claude,
    hold_key,
    interrupted,
    messages_server,
    said,
    streamed,
    tool_use,
)

from raglab.llm import ClaudeLLM, ReplayLLM, conversation_hash, listen, prompt_hash
from raglab.types import Completion, RagLabError, Tool, ToolCall

SEARCH = Tool(
    "search",
    "Finds passages.",
    '{"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}',
)
READ = Tool("read", "Opens a document.", '{"type": "object"}')
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Wie lange dauert die Rückzahlung?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "call_1", "name": "search", "input": {"query": "refund"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "<source>"}],
    },
]
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    hold_key(monkeypatch)
    with messages_server() as running:
        yield running


def sends(stream: bool, *pieces: str | Block, stop_reason: str = "tool_use") -> Reply:
    return (streamed if stream else said)(*pieces, stop_reason=stop_reason)


def talk(server: MessagesServer, *replies: Reply, stream: bool = False, **how: Any) -> Completion:
    server.replies = list(replies)
    options = {"max_retries": how.pop("max_retries", 0), "on_text": [].append if stream else None}
    return claude(server, **options).converse(TALK, **({"tools": (SEARCH, READ)} | how))


def no_turn(server: MessagesServer, *replies: Reply, **how: Any) -> str:
    with pytest.raises(RagLabError) as error, listen() as calls:
        talk(server, *replies, **how)
    assert calls == []
    return str(error.value)


# -- a live model ---------------------------------------------------------------------------------


@BOTH
def test_a_model_may_say_something_and_ask_for_tools(server: MessagesServer, stream: bool) -> None:
    looked = tool_use("search", {"query": "Rückzahlung", "k": 5})
    opened = tool_use("read", {"doc": {"id": "a"}}, id="toolu_2")
    server.replies = [sends(stream, "Let me ", "look.", looked, opened)]
    pieces: list[str] = []
    llm = claude(server, on_text=pieces.append if stream else None)
    with listen() as calls:
        turn = llm.converse(TALK, tools=(SEARCH, READ))
    assert turn.text == "Let me look."
    assert pieces == (["Let me ", "look."] if stream else [])
    assert turn.tool_calls == (
        ToolCall("search", '{"k": 5, "query": "Rückzahlung"}'),
        ToolCall("read", '{"doc": {"id": "a"}}'),
    )
    assert (turn.model, turn.origin) == (MODEL, f"live call to {MODEL}")
    assert (turn.input_tokens, turn.output_tokens) == (7, 3)
    assert turn.seconds > 0
    assert calls == [turn]
    assert {turn: 1}[turn] == 1  # it can be hashed


@BOTH
def test_a_call_alone_has_no_text_and_may_have_no_arguments(
    server: MessagesServer, stream: bool
) -> None:
    for blank in ((), ("\n",)):  # blank text would be refused, were it sent back
        turn = talk(server, sends(stream, *blank, tool_use("read", {})), stream=stream)
        assert (turn.text, turn.tool_calls) == ("", (ToolCall("read", "{}"),))
    bare = sends(stream, tool_use("read", "" if stream else {}))
    assert talk(server, bare, stream=stream).tool_calls == (ToolCall("read", "{}"),)


@BOTH
def test_a_turn_may_be_text_alone(server: MessagesServer, stream: bool) -> None:
    turn = talk(server, sends(stream, "Five days.", stop_reason="end_turn"), stream=stream)
    assert (turn.text, turn.tool_calls) == ("Five days.", ())
    cut = talk(server, sends(stream, "Five", stop_reason="max_tokens"), stream=stream, max_tokens=2)
    assert cut.text == "Five [cut at max_tokens=2]"


@BOTH
def test_what_a_conversation_sends(server: MessagesServer, stream: bool) -> None:
    before = deepcopy(TALK)
    for call in (True, False):
        talk(
            server,
            sends(stream, "x", stop_reason="end_turn"),
            stream=stream,
            system="Be brief.",
            max_tokens=99,
            call=call,
        )
    assert before == TALK
    free, held = server.bodies
    assert free == {
        "model": ClaudeLLM.model,
        "max_tokens": 99,
        "system": "Be brief.",
        "messages": before,
        "tools": [
            {
                "name": "search",
                "description": "Finds passages.",
                "input_schema": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                },
            },
            {
                "name": "read",
                "description": "Opens a document.",
                "input_schema": {"type": "object"},
            },
        ],
        **({"stream": True} if stream else {}),
    }
    assert held == free | {"tool_choice": {"type": "none"}}


def test_without_tools_none_are_sent(server: MessagesServer) -> None:
    for call in (True, False):
        talk(server, said("x"), tools=(), call=call)
    for body in server.bodies:
        assert set(body) == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize("schema", ["{", "[]", '"object"', ""])
def test_a_schema_that_is_no_object_is_not_sent(server: MessagesServer, schema: str) -> None:
    told = no_turn(server, said("x"), tools=(Tool("search", "", schema),))
    assert told.startswith("the schema of the tool 'search' is not")
    assert server.asked == []


@BOTH
def test_a_tool_that_was_not_offered_is_not_called(server: MessagesServer, stream: bool) -> None:
    reply = sends(stream, "So: ", tool_use("search", {}), tool_use("erase", {}, id="toolu_2"))
    told = no_turn(server, reply, stream=stream)
    assert "it calls 'erase', and was offered search, read" in told
    assert "ask again, or ask another model" in told
    told = no_turn(server, sends(stream, tool_use("search", {})), stream=stream, call=False)
    assert "it calls 'search', and was offered no tool" in told
    server.replies = [sends(stream, "So: ", tool_use("search", {}))]
    with pytest.raises(RagLabError, match="offered no tool"):
        claude(server, on_text=[].append if stream else None).complete("Hello?")
    for name in (None, ""):
        told = no_turn(server, sends(stream, tool_use(name, {})), stream=stream)
        assert f"a call names no tool, but {name!r}" in told


@pytest.mark.parametrize("given", [["refund"], "refund", 7, None, {"k": float("nan")}])
def test_arguments_that_are_no_json_object(server: MessagesServer, given: object) -> None:
    told = no_turn(server, said("So: ", tool_use("search", given), stop_reason="tool_use"))
    assert told.startswith(f"{ClaudeLLM.model} called a tool in a way that cannot be followed (")
    assert "not a JSON object" in told or "not JSON compliant" in told


def test_a_call_without_an_input(server: MessagesServer) -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "search"}
    told = no_turn(server, said(block, stop_reason="tool_use"))
    assert "the arguments of 'search' are not a JSON object" in told


@pytest.mark.parametrize("written", ['["refund"]', "7", "null", '{"k": NaN}'])
def test_streamed_arguments_that_are_no_json_object(server: MessagesServer, written: str) -> None:
    told = no_turn(
        server, streamed(tool_use("search", written), stop_reason="tool_use"), stream=True
    )
    assert "called a tool in a way that cannot be followed" in told


@pytest.mark.parametrize(
    "written",
    [
        '{"query": "refu',
        '{"query": "refund"',
        '{"query": }',
        '{"query": "a"} b',
        "{'a'",
        '"refund"',
    ],
)
def test_half_written_arguments_are_not_filled_in(server: MessagesServer, written: str) -> None:
    reply = streamed("So: ", tool_use("search", written), stop_reason="tool_use")
    told = no_turn(server, reply, stream=True)
    assert told.startswith("the reply broke off")
    assert "run again" in told


@BOTH
def test_a_call_that_was_cut_wants_more_tokens(server: MessagesServer, stream: bool) -> None:
    half = '{"query": "refu' if stream else {"query": "refu"}
    for given in (half, "" if stream else {}):
        reply = sends(stream, "So: ", tool_use("search", given), stop_reason="max_tokens")
        told = no_turn(server, reply, stream=stream, max_tokens=20)
        assert told == (
            f"{ClaudeLLM.model} was cut at max_tokens=20 while it called a tool: "
            "allow it more max_tokens"
        )


@BOTH
@pytest.mark.parametrize("stop_reason", ["refusal", "model_context_window_exceeded", "end_turn"])
def test_a_call_counts_where_the_model_stopped_for_it(
    server: MessagesServer, stream: bool, stop_reason: str
) -> None:
    reply = sends(stream, tool_use("search", {"query": "refund"}), stop_reason=stop_reason)
    told = no_turn(server, reply, stream=stream)
    assert f"(stop reason: {stop_reason}): ask again" in told


@BOTH
def test_a_turn_with_neither_text_nor_call(server: MessagesServer, stream: bool) -> None:
    for pieces in ((), (" \n",)):
        told = no_turn(server, sends(stream, *pieces, stop_reason="end_turn"), stream=stream)
        assert "sent no text (stop reason: end_turn): ask again, or ask another model" in told


@BOTH
def test_a_conversation_is_tried_again(server: MessagesServer, stream: bool) -> None:
    asked = sends(stream, tool_use("search", {"query": "refund"}))
    turn = talk(server, OVERLOADED, asked, stream=stream, max_retries=1)
    assert turn.tool_calls == (ToolCall("search", '{"query": "refund"}'),)
    first, second = server.bodies
    assert first == second
    told = no_turn(server, OVERLOADED, stream=stream, max_retries=1)
    assert "overloaded or down, after 1 retries: wait and run again" in told
    assert len(server.asked) == 2 + 2


def test_a_call_whose_stream_breaks_off_is_no_call(server: MessagesServer) -> None:
    whole = streamed("So: ", tool_use("search", {"query": "refund"}), stop_reason="tool_use")
    told = no_turn(server, interrupted(whole, "message_delta", OVERLOADED), stream=True)
    assert "Overloaded" in told
    assert "run again" in told
    for body in (
        whole.body.partition(b"event: message_delta")[0],  # all was said, but not that it is all
        whole.body[: whole.body.rindex(b"input_json_delta")],
        whole.body.replace(b'"partial_json": "', b'"partial_json": ', 1),
        whole.body.replace(b'"index": 1', b'"index": 4'),
    ):
        told = no_turn(server, Reply(body, kind="text/event-stream"), stream=True)
        assert told.startswith("the reply broke off")
        assert "run again" in told


# -- replayed turns -------------------------------------------------------------------------------


def turn_kept(folder: Path, **row: Any) -> ReplayLLM:
    key = conversation_hash(TALK, (SEARCH, READ), "Be brief.")
    return kept(folder, {"prompt_hash": key, "origin": "written for a test"} | row)


def kept(folder: Path, *rows: dict[str, Any]) -> ReplayLLM:
    (folder / "kept.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return ReplayLLM(folder)


def test_a_kept_turn_is_found_by_all_that_shapes_it(tmp_path: Path) -> None:
    called = [{"name": "search", "arguments": {"query": "Rückzahlung", "k": 5}}]
    llm = turn_kept(tmp_path, tool_calls=called)
    with listen() as calls:
        turn = llm.converse(TALK, tools=[SEARCH, READ], system="Be brief.")
    assert (turn.text, turn.origin, turn.model) == ("", "written for a test", "replay")
    assert turn.tool_calls == (ToolCall("search", '{"k": 5, "query": "Rückzahlung"}'),)
    assert calls == [turn]
    same = {"messages": TALK, "tools": (SEARCH, READ), "system": "Be brief.", "call": True}
    for other in (
        {"messages": TALK[:1]},
        {"tools": (SEARCH,)},
        {"tools": (READ, SEARCH)},
        {"system": ""},
        {"call": False},
    ):
        with pytest.raises(RagLabError, match="no reply is kept"):
            llm.converse(**(same | other))


def test_a_kept_turn_keeps_its_text_and_counts(tmp_path: Path) -> None:
    counts = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2}
    called = [{"name": "read", "arguments": {}}]
    llm = turn_kept(tmp_path, text="Let me look.", tool_calls=called, model=MODEL, **counts)
    turn = llm.converse(TALK, tools=(SEARCH, READ), system="Be brief.")
    calls = (ToolCall("read", "{}"),)
    assert turn == Completion(
        "Let me look.", MODEL, "written for a test", 7, 3, 0, 2, tool_calls=calls
    )


def test_a_turn_that_is_not_kept_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="no reply is kept") as error:
        kept(tmp_path).converse(TALK, tools=(SEARCH,), call=False)
    told = str(error.value)
    assert conversation_hash(TALK, (SEARCH,), "", False)[:12] in told
    assert "Set ANTHROPIC_API_KEY and use llm=ClaudeLLM(), or go back to the default" in told


def test_a_kept_call_of_a_tool_that_was_not_offered(tmp_path: Path) -> None:
    llm = turn_kept(tmp_path, tool_calls=[{"name": "erase", "arguments": {}}])
    with pytest.raises(RagLabError, match="it calls 'erase', and was offered search, read"):
        llm.converse(TALK, tools=(SEARCH, READ), system="Be brief.")
    called = {"origin": "test", "tool_calls": [{"name": "search", "arguments": {}}]}
    held = conversation_hash(TALK, (SEARCH,), call=False)
    (tmp_path / "held").mkdir()
    rows = ({"prompt_hash": key} | called for key in (held, prompt_hash("p")))
    llm = kept(tmp_path / "held", *rows)
    for ask in (
        lambda: llm.converse(TALK, tools=(SEARCH,), call=False),
        lambda: llm.complete("p"),
    ):
        with pytest.raises(RagLabError, match=r"offered no tool.*mend that line, or take it out"):
            ask()


def test_the_hash_of_a_conversation() -> None:
    """Spelled out, so that it cannot change unseen: kept replies would be lost."""
    text = (
        '{"call": true, "messages": [{"content": "Wie lange? ü", "role": "user"}], '
        '"system": "Be brief.", "tools": [{"description": "Opens a document.", '
        '"input_schema": {"type": "object"}, "name": "read"}]}'
    )
    asked = ({"role": "user", "content": "Wie lange? ü"},)
    for tool in (READ, Tool("read", "Opens a document.", '{ "type" :\n"object" }')):
        found = conversation_hash(asked, (tool,), "Be brief.")
        assert found == hashlib.sha256(text.encode()).hexdigest()


# -- the stand-in of other tests ------------------------------------------------------------------


def test_the_stand_in_takes_its_turns() -> None:
    search = asks("search", query="refund", k=5)
    assert search == ToolCall("search", '{"k": 5, "query": "refund"}')
    llm = FakeAgentLLM([("", [search]), ("Five days.", [search])], input_tokens=1_000)
    with listen() as heard:
        turns = [llm.converse(TALK, tools=(SEARCH,), call=call) for call in (True, True, False)]
    assert [turn.text for turn in turns] == ["", "Five days.", "Five days."]
    assert [turn.tool_calls for turn in turns] == [(search,), (search,), ()]
    assert heard == turns
    assert [turn.input_tokens for turn in turns] == [1_000] * 3
    assert [asked["call"] for asked in llm.asked] == [True, True, False]
    assert llm.asked[0]["messages"] == TALK
    assert llm.asked[0]["messages"][1] is not TALK[1]


def test_the_stand_in_refuses_what_the_service_would() -> None:
    result = TALK[2]["content"][0]
    for messages in (
        [],
        TALK[:2],  # the model spoke last
        TALK[1:],  # and first
        [*TALK[:2], {"role": "user", "content": "And?"}],  # a call with no result
        [*TALK[:2], TALK[2] | {"content": [result, result]}],
        [*TALK[:2], TALK[2] | {"content": [result | {"tool_use_id": "call_2"}]}],
        [*TALK[:2], TALK[2] | {"content": [{"type": "text", "text": "So:"}, result]}],
        [{"role": "user", "content": " "}],
        [TALK[0], {"role": "assistant", "content": []}, TALK[0]],
    ):
        llm = FakeAgentLLM([("x", ())])
        with pytest.raises(AssertionError):
            llm.converse(messages, tools=(SEARCH,))
        assert llm.asked == []
    with pytest.raises(AssertionError, match="needs a text"):
        FakeAgentLLM([("", [asks("search")])]).converse(TALK, tools=(SEARCH,), call=False)
