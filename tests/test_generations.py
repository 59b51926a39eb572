"""The four generations over the handbook: each answers, and none tells what its reader may not see.

Where nothing may be told is read as widely as it can be: the whole trace as JSON, every prompt and
conversation that a model was sent, the answer, and all log records.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from fakes import FakeAgentLLM, FakeLLM, asks

from raglab.control.agent import Agent
from raglab.evaluate.evidence import shows
from raglab.evaluate.rewriting import as_query
from raglab.generations import GENERATIONS, with_model
from raglab.ingest.cache import EmbeddingCache
from raglab.ingest.embed import SentenceEncoder
from raglab.lab import golden_questions, open_lab
from raglab.learn import Progress
from raglab.learn.progress import progress_file
from raglab.pipeline import Pipeline
from raglab.presets import DATA, PRESETS, preset_pipeline
from raglab.recorder import Memo
from raglab.statements import statements
from raglab.trace import Trace
from raglab.types import REFUSAL, Chunk, Question, RagLabError, Readable
from raglab.views import Explorer, flow_svg
from raglab.views.model import flow_model

QUESTIONS = golden_questions("handbook")
RESTRICTED = tuple(q for q in QUESTIONS if q.kind == "access-restricted")
NAMES = tuple(GENERATIONS)
WORD = re.compile(r"\w+")
EACH = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def made(lab: Pipeline) -> dict[str, Pipeline]:
    """The four, over the lab's index, for a reader of no group."""
    dense: Any = lab.retrievers["dense"]
    nobody = Readable()
    return {
        name: replace(preset_pipeline(name, dense.index, dense.embedder), allowed=nobody)
        for name in NAMES
    }


# -- each answers ---------------------------------------------------------------------------------


@EACH
def test_each_generation_answers(made: dict[str, Pipeline], name: str) -> None:
    question = next(q for q in QUESTIONS if q.query_id == "numeric-01")
    trace = made[name].run(as_query(question))
    assert not trace.answer.refused
    assert "49%" in trace.answer.text
    assert "rag-contextual-retrieval" in {
        c.chunk_id.partition("#")[0] for c in trace.answer.citations
    }
    for one in trace.answer.citations:
        source = trace.context.kept[one.number - 1].chunk
        assert source.chunk_id == one.chunk_id
        assert one.quote in source.text
    assert Trace.from_dict(json.loads(trace.to_json())) == trace
    assert flow_model(trace)["answer"]["text"] == trace.answer.text
    assert made[name].run(as_query(question)) == trace
    assert " at 0x" not in trace.to_json()  # an address would differ from process to process


def test_each_generation_is_a_few_stages_above_the_one_before(made: dict[str, Pipeline]) -> None:
    naive, advanced, modular, agentic = (made[name] for name in NAMES)
    assert list(naive.retrievers) == ["dense"]
    assert list(advanced.retrievers) == ["dense", "RM3"]
    assert [p.guide is None for p in (naive, advanced, modular, agentic)] == [True] * 2 + [
        False
    ] * 2
    for one in (modular, agentic):
        assert one.retrievers == advanced.retrievers
        assert one.reranker == advanced.reranker
    assert set(NAMES) < set(PRESETS)


@EACH
def test_a_turn_of_a_conversation_is_found_from_advanced_on(
    made: dict[str, Pipeline], name: str
) -> None:
    """Of the 18 turns the evidence of most is in the prompt once the turn is made whole."""
    turns = [q for q in QUESTIONS if q.kind == "conversational"]
    traces = [made[name].run(as_query(question)) for question in turns]
    held = sum(found(q, trace) for q, trace in zip(turns, traces, strict=True))
    refused = sum(trace.answer.refused for trace in traces)
    assert len(turns) == 18
    assert (held >= 14) == (name != "naive")
    if name != "naive":
        assert refused <= 4  # the answer is to the whole question too


def found(question: Question, trace: Trace) -> bool:
    return all(shows(trace.context, evidence) for evidence in question.evidence)


def test_a_model_answers_and_plans_where_an_agent_does(made: dict[str, Pipeline]) -> None:
    llm = FakeAgentLLM(
        [("", [asks("search", query="refund transfer", relevant=[])]), (REFUSAL, [])]
    )
    trace = with_model(made["agentic"], llm).run("How long do refunds take?")
    assert len(llm.asked) == 2
    assert [d.choice for s, d in trace.decisions if s.name == "plan"] == ["search", "answer"]
    with pytest.raises(RagLabError, match="an agent needs a model that can call tools"):
        with_model(made["agentic"], FakeLLM("x"))
    llm = FakeLLM(REFUSAL)  # type: ignore[assignment]
    assert with_model(made["modular"], llm).run("How long do refunds take?").answer.refused
    assert len(llm.asked) == 1  # the rules route and check still


# -- access ---------------------------------------------------------------------------------------


def hidden_from(groups: tuple[str, ...], chunks: Iterable[Chunk]) -> list[Chunk]:
    may = Readable(groups)
    return [one for one in chunks if not may(one)]


@dataclass(frozen=True)
class Untold:
    """What a reader of no group may not be told, and what finds it in a heap of strings.

    Of each hidden chunk: id, text, heading and statements, as far as they do not stand in what
    everyone may read; as they are, and escaped as they would stand in a prompt.
    """

    secrets: tuple[tuple[str, frozenset[str]], ...]  # each with the words inside it

    @classmethod
    def among(cls, chunks: Iterable[Chunk]) -> Untold:
        chunks = tuple(chunks)
        hidden = hidden_from((), chunks)
        everyones = "\n".join(f"{c.text}\n{c.heading}" for c in chunks if not c.groups)
        told = {text for c in hidden for text in (c.chunk_id, c.text, c.heading) if text}
        told |= {one.said for c in hidden for one in statements(c.text) if len(one.said) > 15}
        told = {text for text in told if text not in everyones}
        assert {c.chunk_id for c in hidden} < told
        assert len(told & {c.heading for c in hidden}) > 10
        forms = told | {escape(text) for text in told}
        return cls(tuple((one, frozenset(WORD.findall(one)[1:-1])) for one in sorted(forms)))

    def in_(self, strings: Iterable[str]) -> list[str]:
        heap = "\n".join(set(strings))
        words = set(WORD.findall(heap))  # most secrets are ruled out by these, which is quick
        return [one for one, inside in self.secrets if inside <= words and one in heap]


@pytest.fixture(scope="module")
def untold(index: Any) -> Untold:
    return Untold.among(index.chunks)


def strings(value: object) -> Iterator[str]:
    """Every string of plain data, keys too: what its JSON holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


def told(trace: Trace, log: pytest.LogCaptureFixture, *models: Any) -> list[str]:
    """All that a run says or sends."""
    asked = [strings(one) for model in models for one in model.asked]
    return [*strings(trace.to_dict()), log.text, *chain.from_iterable(asked)]


def test_a_leak_would_be_seen(
    made: dict[str, Pipeline], untold: Untold, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked with its groups, what is told is full of secrets, in the trace and in the prompt."""
    question = RESTRICTED[0]
    llm = FakeLLM(REFUSAL)
    pipeline = replace(with_model(made["modular"], llm), allowed=Readable(question.groups))
    trace = pipeline.run(as_query(question))
    best = trace.context.kept[0].chunk
    for heap in (strings(trace.to_dict()), [llm.asked[0][1]], [f"x\n{best.text}y"]):
        assert set(untold.in_(heap)) & {best.text, best.chunk_id, escape(best.text)}
    assert untold.in_(told(trace, caplog, llm))
    logging.getLogger("raglab").warning("read %s", best.chunk_id)
    assert best.chunk_id in untold.in_([caplog.text])


@EACH
def test_nothing_hidden_is_told_or_sent(
    made: dict[str, Pipeline],
    untold: Untold,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    """Each question is asked with its groups first, with the same memo: what was computed for one
    reader is not given to another."""
    caplog.set_level(logging.DEBUG)
    offline = replace(made[name], memo=Memo())
    evidence = 0
    for question in RESTRICTED:
        allowed = replace(offline, allowed=Readable(question.groups)).run(as_query(question))
        evidence += found(question, allowed)
        caplog.clear()
        runs = [offline.run(as_query(question))]
        llm: Any = FakeLLM(REFUSAL)
        if name != "agentic":
            runs.append(with_model(offline, llm).run(as_query(question)))
            assert llm.asked
        for trace in runs:
            assert untold.in_(told(trace, caplog, llm)) == [], question.query_id
            chunks = trace.to_dict()["chunks"].values()
            assert not any(one["groups"] for one in chunks)
    # naive finds fewer: dense alone, without the reranker
    assert evidence >= (11 if name == "naive" else 14)


def test_an_agent_that_searches_for_the_hidden_words_finds_and_is_told_nothing(
    made: dict[str, Pipeline],
    index: Any,
    untold: Untold,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its query is made of the hidden chunk's own words, in another order, so that the query itself
    is no leak; it cites a source that it was never given."""
    caplog.set_level(logging.DEBUG)
    for question in RESTRICTED:
        holders = [
            c for c in hidden_from((), index.chunks)
            if any(c.doc_id == e.doc_id and e.quote in c.text for e in question.evidence)
        ]  # fmt: skip
        assert holders, question.query_id
        words = " ".join(sorted(set(re.findall(r"\w{4,}", holders[0].text))))
        llm = FakeAgentLLM(
            [
                ("", [asks("search", query=words, relevant=[])]),
                ("", [asks("search", query=question.text, relevant=[1, 99])]),
                ('The bonus is nine percent. [99: "nine percent"]', []),
            ]
        )
        pipeline = with_model(made["agentic"], llm)
        trace = pipeline.run(as_query(question))
        assert len(llm.asked) == 3
        assert untold.in_(told(trace, caplog, llm)) == [], question.query_id
        assert trace.answer.refused
        assert trace.answer.citations == ()
        # With the groups the same search brings it.
        llm.asked.clear()
        seen = replace(pipeline, allowed=Readable(question.groups)).run(as_query(question))
        assert holders[0].chunk_id in seen.to_dict()["chunks"]


def digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    contents = [f"{file}:{file.read_bytes()!r}" for file in files if file.is_file()]
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()


def test_what_runs_leave_on_disk(index: Any, tmp_path: Path, untold: Untold) -> None:
    """Kept replies and the progress file are as they were.  A cache of encodings holds, under
    hashes, vectors of what the runs encoded: of no hidden chunk and of no hidden statement.

    The corpus's own index and the encodings that it was built from hold every document, whoever
    asks: they are the corpus, and are left out here.
    """
    cache = tmp_path / "encodings.sqlite3"
    encoder = SentenceEncoder(cache=cache)
    replies, kept = digest(DATA / "replies"), digest(progress_file())
    for name in NAMES:
        pipeline = preset_pipeline(name, index, encoder)
        for question in RESTRICTED[:6]:
            replace(pipeline, allowed=Readable()).run(as_query(question))
    assert (digest(DATA / "replies"), digest(progress_file())) == (replies, kept)
    hidden = hidden_from((), index.chunks)
    texts = {text for c in hidden for text in (c.text, c.indexed_text, c.heading)}
    texts |= {t for c in hidden for one in statements(c.text) for t in (one.said, one.text)}
    open_ = "\n".join(c.text for c in index.chunks if not c.groups)
    keys = {encoder.key(t, tokens=kind) for t in texts if t not in open_ for kind in (True, False)}
    assert EmbeddingCache(cache).get(keys) == {}
    if cache.exists():  # keys are hashes and values are numbers: no text of anyone's at all
        assert untold.in_([cache.read_bytes().decode("latin-1")]) == []


# -- the Explorer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["modular", "agentic"])
def test_the_explorer_opens_draws_turns_and_exports(preset: str, tmp_path: Path) -> None:
    pipeline = open_lab(preset=preset, progress=False)
    kept = Progress(tmp_path / "progress.jsonl")
    explorer = Explorer(pipeline, QUESTIONS, query=QUESTIONS[0].text, progress=kept)
    assert explorer.trace.decisions
    assert [c["stage"] for c in explorer.data["columns"]][:2] == ["retrieve", "retrieve"]
    assert flow_svg(explorer.data).startswith("<svg")

    first = explorer.trace
    turned = {"keep": 2, "k": 5, "budget": 300, "reranker": "none", "allowed": "hr"}
    for dial, value in turned.items():
        explorer.settings = {**explorer.settings, dial: value}
        assert "did not run" not in explorer.status
    explorer.undo()
    assert explorer.trace != first
    explorer.settings = {**explorer.settings, "threshold": 1.0}
    assert explorer.trace.answer.refused

    page = explorer.export_html(tmp_path / "page.html")
    assert QUESTIONS[0].text in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("preset", ["modular", "agentic"])
def test_why_not_names_the_stage_that_lost_a_chunk(preset: str, tmp_path: Path) -> None:
    pipeline = open_lab(preset=preset, progress=False)
    kept = Progress(tmp_path / "progress.jsonl")
    explorer = Explorer(pipeline, QUESTIONS, query=QUESTIONS[0].text, progress=kept)
    listed = {h.chunk.chunk_id for s in explorer.trace.stage("retrieve") for h in s.output}  # type: ignore[union-attr]
    chunks: Any = pipeline.kit.chunks  # type: ignore[union-attr]
    lost = next(c.chunk_id for c in chunks if not c.groups and c.chunk_id not in listed)
    finding = explorer.why_not(lost)
    assert finding is not None
    assert finding.words.startswith(f"{lost} was lost at retrieve: rank ")
    assert finding.tried > 0


def test_the_explorer_takes_a_greeting_that_searches_for_nothing(tmp_path: Path) -> None:
    pipeline = open_lab(preset="agentic", progress=False)
    kept = Progress(tmp_path / "progress.jsonl")
    explorer = Explorer(pipeline, QUESTIONS, query="Thanks!", progress=kept)
    assert explorer.trace.stage("retrieve") == ()
    assert explorer.data["answer"]["refused"]
    anywhere = pipeline.kit.chunks[0].chunk_id  # type: ignore[union-attr]
    finding = explorer.why_not(anywhere)
    assert finding is not None
    assert finding.loss is not None
    assert finding.rescues == ()


def test_an_agents_bounds_stand_in_the_preset(made: dict[str, Pipeline]) -> None:
    guide = made["agentic"].guide
    assert isinstance(guide, Agent)
    assert (guide.turns, guide.usd, guide.price) == (4, 0.10, None)
