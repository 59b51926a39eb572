"""What happened to one query, step by step, as plain data.

A `Trace` is all that the views know.  It saves to JSON and loads again, and two runs of the same
query over the same pipeline are equal: only clock time differs, and time is not compared.

A pipeline that decides for itself may search more than once.  Each search is a *round*, and what
was decided between them stands in the trace too.  Where one asks for a step by its name, the last
round answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from raglab.files import write_whole
from raglab.types import (
    Answer,
    Chunk,
    Citation,
    Completion,
    Context,
    Decision,
    Drop,
    Hit,
    Part,
    Query,
    RagLabError,
    Ranking,
    Sentence,
    ToolCall,
)

STAGES = ("rewrite", "retrieve", "fuse", "rerank", "assemble", "generate")
DECIDE = "decide"  # a step between the stages: which of them to run, and whether again
FORMAT = 2

Output = tuple[Query, ...] | Ranking | Context | Answer | Decision


@dataclass(frozen=True, slots=True)
class Step:
    """One stage at work. `after` names the steps whose output it read."""

    name: str  # "dense", "sparse", "fused", ...; of equal ones in a round the last counts
    stage: str  # one of STAGES, or DECIDE
    after: tuple[str, ...]
    output: Output
    settings: str = ""  # the stage's repr: which knobs it ran with
    calls: tuple[Completion, ...] = ()  # what language models were asked on the way
    seconds: float = field(default=0.0, compare=False)
    reused: bool = field(default=False, compare=False)  # taken from an earlier run, unchanged
    round: int = 1  # which search it belongs to


@dataclass(frozen=True, slots=True)
class Trace:
    query: Query
    steps: tuple[Step, ...]

    def __getitem__(self, name: str) -> Step:
        for step in reversed(self.steps):
            if step.name == name:
                return step
        raise KeyError(f"no step {name!r}; this trace has {', '.join(s.name for s in self.steps)}")

    def ranking(self, name: str) -> Ranking:
        """The ranking that a retrieve, fuse or rerank step returned."""
        step = self[name]
        if step.stage not in ("retrieve", "fuse", "rerank"):
            raise KeyError(f"step {name!r} is a {step.stage} step and holds no ranking")
        return cast(Ranking, step.output)

    def stage(self, stage: str) -> tuple[Step, ...]:
        """The steps of one stage, in the order in which they ran."""
        return tuple(step for step in self.steps if step.stage == stage)

    @property
    def rounds(self) -> int:
        """How often it searched: at least 1, though the first may have been left out."""
        return max((step.round for step in self.steps), default=1)

    @property
    def decisions(self) -> tuple[tuple[Step, Decision], ...]:
        """What was decided on the way, in order; empty where each stage runs once."""
        return tuple((step, cast(Decision, step.output)) for step in self.stage(DECIDE))

    def last_round(self) -> Trace:
        """The run as if there had been its last search alone, without what was decided."""
        return Trace(
            self.query,
            tuple(s for s in self.steps if s.stage != DECIDE and s.round == self.rounds),
        )

    @property
    def queries(self) -> tuple[Query, ...]:
        """What the last search was for; empty where nothing was searched for."""
        written = self.stage("rewrite")
        return cast(tuple[Query, ...], written[-1].output) if written else ()

    @property
    def context(self) -> Context:
        return cast(Context, self.stage("assemble")[-1].output)

    @property
    def answer(self) -> Answer:
        return cast(Answer, self.stage("generate")[-1].output)

    # -- JSON: each chunk is written once, and hits name it by id --------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the widget and the exported page."""
        chunks: dict[str, Chunk] = {}
        steps = []
        for step in self.steps:
            entry = asdict(replace(step, output=()))
            entry["output"] = _encode(step.output, chunks)
            steps.append(entry)
        return {
            "format": FORMAT,
            "query": asdict(self.query),
            "chunks": {chunk_id: asdict(chunk) for chunk_id, chunk in chunks.items()},
            "steps": steps,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trace:
        """The inverse of `to_dict`. Raises RagLabError where `data` is not a trace."""
        try:
            if data["format"] != FORMAT:
                raise RagLabError(
                    f"this trace has format {data['format']!r}, this raglab reads {FORMAT}: "
                    "run the query again and save it anew"
                )
            chunks = {key: _chunk(value) for key, value in data["chunks"].items()}
            steps = tuple(_decode_step(entry, chunks) for entry in data["steps"])
            return cls(_query(data["query"]), steps)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RagLabError(
                f"this is not a whole trace ({type(error).__name__}: {error}): "
                "save it again with trace.save(path) or `raglab ask --json`"
            ) from error

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: Path | str) -> Path:
        """Write the trace whole, as JSON."""
        return write_whole(path, self.to_json(indent=1))

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise RagLabError(f"{path} is not JSON ({error}): save the trace again") from error
        return cls.from_dict(data)


def _encode(output: Output, chunks: dict[str, Chunk]) -> dict[str, Any]:
    if isinstance(output, Answer | Decision):
        return asdict(output)
    if isinstance(output, Context):
        return {
            "text": output.text,
            "tokens": output.tokens,
            "budget": output.budget,
            "spent": list(output.spent),
            "hits": [_encode_hit(hit, chunks) for hit in output.kept],
            "dropped": [
                _encode_hit(drop.hit, chunks)
                | {"reason": drop.reason, "tokens": drop.tokens, "over": drop.over}
                for drop in output.dropped
            ],
        }
    if output and isinstance(output[0], Query):
        return {"queries": [asdict(query) for query in output]}
    return {"hits": [_encode_hit(cast(Hit, hit), chunks) for hit in output]}


def _encode_hit(hit: Hit, chunks: dict[str, Chunk]) -> dict[str, Any]:
    chunks[hit.chunk.chunk_id] = hit.chunk
    parts = [[part.name, part.value] for part in hit.parts]
    return {"chunk_id": hit.chunk.chunk_id, "score": hit.score, "rank": hit.rank, "parts": parts}


def _chunk(entry: Mapping[str, Any]) -> Chunk:
    return Chunk(**{**entry, "groups": tuple(entry["groups"])})


def _citations(rows: Iterable[Mapping[str, Any]]) -> tuple[Citation, ...]:
    return tuple(Citation(**row) for row in rows)


def _completion(entry: Mapping[str, Any]) -> Completion:
    tools = tuple(ToolCall(**call) for call in entry.get("tool_calls", ()))
    return Completion(**{**entry, "tool_calls": tools})


def _query(entry: Mapping[str, Any]) -> Query:
    return Query(**{**entry, "history": tuple(entry["history"])})


def _decode_step(entry: Mapping[str, Any], chunks: Mapping[str, Chunk]) -> Step:
    data = entry["output"]

    def hit(row: Mapping[str, Any]) -> Hit:
        parts = tuple(Part(name, value) for name, value in row["parts"])
        return Hit(chunks[row["chunk_id"]], row["score"], row["rank"], parts)

    def hits() -> Ranking:
        return tuple(hit(row) for row in data["hits"])

    output: Output
    match entry["stage"]:
        case "rewrite":
            output = tuple(_query(query) for query in data["queries"])
        case "assemble":
            dropped = tuple(
                Drop(hit(row), row["reason"], row.get("tokens", 0), row.get("over", 0))
                for row in data["dropped"]
            )
            spent = tuple(data.get("spent", ()))
            output = Context(data["text"], hits(), dropped, data["tokens"], data["budget"], spent)
        case "generate":
            sentences = tuple(
                Sentence(sentence["text"], _citations(sentence["citations"]))
                for sentence in data.get("sentences", ())
            )
            cited = {"citations": _citations(data["citations"]), "sentences": sentences}
            output = Answer(**{**data, **cited})
        case "retrieve" | "fuse" | "rerank":
            output = hits()
        case "decide":
            parts = tuple(Part(**part) for part in data["parts"])
            chunk_ids = tuple(data["chunk_ids"])
            output = Decision(data["choice"], data["why"], parts, chunk_ids, data["text"])
        case other:
            raise ValueError(f"unknown stage {other!r}")
    calls = tuple(_completion(call) for call in entry["calls"])
    rest = {**entry, "after": tuple(entry["after"]), "output": output, "calls": calls}
    return Step(**rest)
