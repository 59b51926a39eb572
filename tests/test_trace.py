"""The trace keeps every step, saves and loads, and work is never done twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fakes import FakeEmbedder, FakeLLM, ids

from raglab.answer.assemble import BudgetAssembler
from raglab.answer.generate import Extractive, PromptedGenerator
from raglab.files import write_whole
from raglab.ingest.index import Index
from raglab.ingest.recursive import Recursive
from raglab.lab import open_lab
from raglab.pipeline import Pipeline
from raglab.retrieve.dense import Dense
from raglab.retrieve.fuse import RRF
from raglab.retrieve.rerank import LateInteraction
from raglab.retrieve.rewrite import MultiQuery, PassThrough
from raglab.retrieve.sparse import BM25
from raglab.trace import STAGES, Trace
from raglab.types import Document, Query, RagLabError, Readable

DOCUMENTS = (
    Document("refunds", "# Refunds\n\nA refund takes five days."),
    Document("errors", "ERR_2043 means that a part is missing. ERR_2034 does not."),
    Document("pay", "The band for a refund clerk is secret.", groups=("hr",)),
)


def pipeline(documents: tuple[Document, ...] = DOCUMENTS) -> Pipeline:
    embedder = FakeEmbedder()
    index = Index.build(documents, Recursive(embedder.spans), embedder)
    bm25 = BM25(index.chunks)
    return Pipeline(
        PassThrough(),
        {"dense": Dense(index, embedder), "sparse": bm25},
        RRF(),
        LateInteraction(index, embedder),
        BudgetAssembler(embedder.count),
        Extractive(index, embedder, bm25),
        allowed=Readable(),
    )


def test_steps_name_what_they_read() -> None:
    trace = pipeline().run("refund")
    assert [(step.name, step.after) for step in trace.steps] == [
        ("rewrite", ()),
        ("dense", ("rewrite",)),
        ("sparse", ("rewrite",)),
        ("fused", ("dense", "sparse")),
        ("reranked", ("fused",)),
        ("context", ("reranked",)),
        ("answer", ("context",)),
    ]
    assert tuple(dict.fromkeys(step.stage for step in trace.steps)) == STAGES
    assert "k=60" in trace["fused"].settings


def test_the_pipeline_and_its_stages_agree() -> None:
    """What the trace holds is what the stages return when they are called by hand."""
    p = pipeline()
    trace = p.run("refund days")
    query = trace.query
    lists = {name: r.retrieve(query, p.k, p.allowed) for name, r in p.retrievers.items()}
    fused = p.fuser.fuse(lists)
    reranked = p.reranker.rerank(query, fused)
    context = p.assembler.assemble(query, reranked)
    assert trace.ranking("fused") == fused
    assert trace.ranking("reranked") == reranked
    assert trace.context == context
    assert trace.answer == p.generator.generate(query, context)


def test_two_runs_are_equal_but_for_seconds() -> None:
    one, other = pipeline().run("refund"), pipeline().run("refund")
    assert one.steps[0].seconds != 0
    assert [s.output for s in one.steps] == [s.output for s in other.steps]


@pytest.mark.parametrize("query", ["refund", "ERR_2043", "quantum kittens", "naïve 界 </script>"])
def test_a_trace_survives_json(tmp_path: Path, query: str) -> None:
    trace = pipeline().run(query)
    loaded = Trace.load(trace.save(tmp_path / "trace.json"))
    assert loaded == trace
    assert loaded.to_json() == trace.to_json()


def test_each_chunk_is_written_once() -> None:
    text = pipeline().run("refund").to_json()
    assert text.count(json.dumps(DOCUMENTS[0].text)) == 1


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}', '{"format": 99}', "not json"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(RagLabError, match=r"again"):
        Trace.load(path)


def test_a_step_that_is_not_there_names_those_that_are() -> None:
    trace = pipeline().run("refund")
    with pytest.raises(KeyError, match="dense, sparse"):
        trace["fuesd"]
    with pytest.raises(KeyError, match="holds no ranking"):
        trace.ranking("answer")


def test_an_empty_query_is_refused() -> None:
    for empty in ("", "  \n", Query("q", " ")):
        with pytest.raises(RagLabError, match="type a question"):
            pipeline().run(empty)


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(RagLabError, match="UTF-8"):
        pipeline().run("caf\udce9")


# -- nothing is computed twice


def reused(trace: Trace) -> list[str]:
    return [step.name for step in trace.steps if step.reused]


def test_a_knob_recomputes_only_what_lies_after_it() -> None:
    p = pipeline()
    assert reused(p.run("refund")) == []
    every = ["rewrite", "dense", "sparse", "fused", "reranked", "context", "answer"]
    assert reused(p.run("refund")) == every
    turned = replace(p, assembler=replace(p.assembler, keep=1))  # type: ignore[type-var]
    assert reused(turned.run("refund")) == ["rewrite", "dense", "sparse", "fused", "reranked"]
    assert reused(replace(p, fuser=RRF(k=1)).run("refund")) == ["rewrite", "dense", "sparse"]
    assert reused(replace(p, k=1).run("refund")) == ["rewrite"]
    assert reused(p.run("errors")) == []


def test_what_is_reused_equals_what_is_computed() -> None:
    p = pipeline()
    p.run("refund")
    again = replace(p, fuser=RRF(k=5)).run("refund")
    fresh = replace(pipeline(), fuser=RRF(k=5)).run("refund")
    assert [step.output for step in again.steps] == [step.output for step in fresh.steps]


def test_a_stage_that_cannot_be_hashed_is_run_each_time() -> None:
    @dataclass
    class Counting:
        times: int = 0

        def rewrite(self, query: Query) -> tuple[Query, ...]:
            self.times += 1
            return (query,)

    rewriter = Counting()
    p = replace(pipeline(), rewriter=rewriter)
    p.run("refund")
    assert reused(p.run("refund"))[0] != "rewrite"
    assert rewriter.times == 2


def test_another_reader_never_gets_a_remembered_ranking() -> None:
    p = pipeline()
    assert "pay#0" not in p.run("refund clerk").to_json()
    hr = replace(p, allowed=Readable(("hr",)))
    assert "pay#0" in ids(hr.run("refund clerk").ranking("sparse"))
    assert "pay#0" not in p.run("refund clerk").to_json()


# -- several queries, and models


def test_each_wording_gets_its_lanes() -> None:
    p = replace(pipeline(), rewriter=MultiQuery(FakeLLM("money back\nfive days")))
    trace = p.run("refund")
    names = [step.name for step in trace.stage("retrieve")]
    assert names == ["dense", "sparse", "dense 2", "sparse 2", "dense 3", "sparse 3"]
    assert trace["fused"].after == tuple(names)
    found = {part.name for hit in trace.ranking("fused") for part in hit.parts}
    assert found <= set(names)
    assert "dense 3" in found


@dataclass(frozen=True)
class HeardLLM:
    """Reports what it returns, as the real ones do."""

    text: str
    kept: list[str] = field(default_factory=list, compare=False, hash=False)

    def complete(self, prompt, *, system="", max_tokens=1024, shared=""):  # type: ignore[no-untyped-def]
        from raglab.llm import _heard

        return _heard(FakeLLM(self.text).complete(prompt, system=system))


def test_a_step_shows_which_models_it_asked() -> None:
    p = replace(
        pipeline(),
        rewriter=MultiQuery(HeardLLM("money back")),
        generator=PromptedGenerator(HeardLLM("Five days [1].")),
    )
    trace = p.run("refund")
    assert [(call.model, call.input_tokens) for call in trace["rewrite"].calls] == [("fake", 10)]
    assert [call.text for call in trace["answer"].calls] == ["Five days [1]."]
    assert trace["dense"].calls == ()
    assert Trace.from_dict(json.loads(trace.to_json())) == trace


# -- the default pipeline


def test_the_lesson_query(lab: Pipeline) -> None:
    trace = lab.run("How much did contextual retrieval cut failed retrievals?")
    assert trace.answer.citations[0].chunk_id.startswith("rag-contextual-retrieval#")
    assert "%" in trace.answer.text


def test_the_exact_code_is_first_for_bm25(lab: Pipeline) -> None:
    trace = lab.run("ERR_2043")
    assert all("ERR_2043" in hit.chunk.text for hit in trace.ranking("sparse")[:4])


def test_restricted_documents_stay_out(lab: Pipeline) -> None:
    """Not in a hit, a drop, a prompt or the JSON, whatever is asked."""
    restricted = ("salary-bands", "refund-approvals-internal")
    for query in ("salary bands by level", "Who has to approve a refund of 30,000?"):
        for name in restricted:
            assert f"{name}#" not in lab.run(query).to_json()
    finance = open_lab("handbook", groups=["finance"], progress=False)
    found = finance.run("Who has to approve a refund of 30,000?")
    assert any(hit.chunk.doc_id == restricted[1] for hit in found.ranking("reranked"))
    assert all(hit.chunk.doc_id != restricted[0] for hit in found.ranking("reranked"))


def test_files_are_written_whole(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "new" / "a.txt", "one")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "one"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]
