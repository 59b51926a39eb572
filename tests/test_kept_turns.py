"""The kept turns of an agent, a router and a check: each is found by the lesson's own run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from raglab.answer.citations import check
from raglab.control.enough import ModelCheck
from raglab.control.modular import Modular
from raglab.control.router import ModelRouter
from raglab.evaluate.rewriting import as_query
from raglab.generations import with_model
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.presets import DATA, preset_pipeline
from raglab.replay import ReplayLLM, conversation_hash, prompt_hash
from raglab.trace import Trace
from raglab.types import Completion, Query, RagLabError, Readable

FILE = DATA / "replies" / "agent.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
GOLDEN = {question.query_id: question for question in golden_questions("handbook")}
NOBODY = Readable(())


@dataclass(frozen=True)
class Noting(ReplayLLM):
    """Keeps the names of the replies that it gave."""

    given: list[str] = field(default_factory=list, compare=False)

    def complete(self, prompt: str, **more: Any) -> Completion:
        self.given.append(prompt_hash(prompt, more["system"]))
        return super().complete(prompt, **more)

    def converse(self, messages: Any, **more: Any) -> Completion:
        self.given.append(conversation_hash(messages, more["tools"], more["system"], more["call"]))
        return super().converse(messages, **more)


def queries(stage: str) -> list[Query]:
    found = {}
    for row in ROWS:
        if row["stage"] == stage:
            question = GOLDEN.get(row.get("query_id", ""))
            found[row["query"]] = as_query(question) if question else Query("q", row["query"])
    return list(found.values())


@pytest.fixture(scope="module")
def planned(lab: Pipeline) -> tuple[Noting, dict[str, Trace]]:
    dense: Any = lab.retrievers["dense"]
    llm = Noting(DATA / "replies")
    agent = with_model(preset_pipeline("agentic", dense.index, dense.embedder), llm)
    agent = replace(agent, allowed=NOBODY)
    return llm, {query.text: agent.run(query) for query in queries("plan")}


def test_every_turn_is_given_in_its_lesson(planned: tuple[Noting, dict[str, Trace]]) -> None:
    kept = [row["prompt_hash"] for row in ROWS if row["stage"] == "plan"]
    assert planned[0].given == kept
    assert len(set(kept)) == len(kept)


def test_the_answers_hold_what_they_cite(planned: tuple[Noting, dict[str, Trace]]) -> None:
    refused = {"get_user_by_name parameters", "Thanks, that helped!"}
    refused |= {GOLDEN["restricted-02"].text}
    for text, trace in planned[1].items():
        assert check(trace.answer, trace.context) == ()
        assert trace.answer.refused == (text in refused), text
        assert trace.answer.origin == "written for the workbook"


def test_the_router_and_the_check_are_asked_in_theirs(lab: Pipeline) -> None:
    dense: Any = lab.retrievers["dense"]
    llm = Noting(DATA / "replies")
    modular = preset_pipeline("modular", dense.index, dense.embedder)
    assert isinstance(modular.guide, Modular)
    guide = replace(modular.guide, router=ModelRouter(llm), check=ModelCheck(llm))
    asking = replace(modular, guide=guide, allowed=NOBODY)
    for query in queries("route"):
        asking.run(query)
    kept = {row["prompt_hash"] for row in ROWS if row["stage"] in ("route", "check")}
    assert set(llm.given) == kept


def test_another_question_has_no_reply(lab: Pipeline) -> None:
    dense: Any = lab.retrievers["dense"]
    agent = preset_pipeline("agentic", dense.index, dense.embedder, llm=ReplayLLM(DATA / "replies"))
    with pytest.raises(RagLabError, match="no reply is kept for this prompt"):
        agent.run("What is the notice period of the Team plan?")
