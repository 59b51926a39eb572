"""A trace as small plain data: what every picture and table of a run is drawn from.

`flow_model` answers the question that the workbook keeps asking: where is each candidate now, and
which stage lost it?  It computes no retrieval.  Ranks, scores, counts and times are read from the
trace; the one thing it works out is a candidate's *fate*: the first step that read a list with the
chunk in it and returned one without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from raglab.prices import Price
from raglab.trace import Step, Trace
from raglab.types import Answer, Chunk, Context, Hit, Query, Ranking
from raglab.views.costs import called, cost, short
from raglab.views.words import words_of

Model = dict[str, Any]

TITLES = {
    "rewrite": "Query",
    "retrieve": "Retrieve",
    "fuse": "Fuse",
    "rerank": "Rerank",
    "assemble": "Assemble",
    "generate": "Answer",
}
COUNTED = {"retrieve": "hits", "fuse": "fused", "rerank": "reranked", "assemble": "in the prompt"}
LONGEST_TEXT = 2000  # characters of a chunk that a picture carries


def flow_model(
    trace: Trace,
    evidence: Collection[str] = (),
    *,
    count: Callable[[str], int] | None = None,
    price: Price | None = None,
    hidden: Mapping[str, str] | None = None,
) -> Model:
    """What the pictures draw, as plain data.

    evidence: the chunks that hold the answer; hidden: those of them that this reader may not see,
    with the reason.  With `count` each list says how many tokens its chunks hold, and with `price`
    what it would cost to send them all to a language model.
    """
    trace = trace.last_round()  # the search that answered
    places = _places(trace)
    names: dict[str, int] = {}  # a part's name is written once; rows name it by number
    columns = [
        _column(step, places, names) | cost(step, count, price)
        for step in trace.steps
        if step.stage not in ("rewrite", "generate")
    ]
    chunks = _chunks(trace)
    fates = {chunk_id: _fate(chunk_id, trace, places) for chunk_id in chunks}
    answer = _answer(trace)
    cited = [citation["chunk_id"] for citation in answer["citations"]] if answer else []
    model: Model = {
        "query": trace.query.text,
        "queries": [{"text": query.text, "origin": query.origin} for query in _queries(trace)],
        "columns": columns,
        "names": list(names),
        "words": words_of(trace.query.text, list(names)),
        "chunks": [
            _card(chunks[chunk_id], fates[chunk_id], _marks(chunk_id, evidence, cited))
            for chunk_id in sorted(chunks, key=lambda key: _furthest_first(key, fates, columns))
        ],
        "answer": answer,
        "verdict": list(
            dict.fromkeys(_verdict(chunk_id, fates, cited, hidden or {}) for chunk_id in evidence)
        ),
        "stages": [],
    }
    model["stages"] = [
        stage | called(trace.stage(stage["stage"]), count, price)
        for stage in _stages(trace, places, model)
    ]
    return model


def fate_in_words(fate: Mapping[str, Any]) -> str:
    if fate["kind"] in ("kept", "open"):
        return str(fate["reason"])
    return f"lost at {fate['step']}: {fate['reason']}"


# -- columns: one for each step that returned a list ---------------------------------------------


def _places(trace: Trace) -> dict[str, int]:
    """How far along each step stands: steps that read the same lists stand side by side."""
    places: dict[str, int] = {}
    for step in trace.steps:
        after = [places[name] + 1 for name in step.after if name in places]
        places[step.name] = 0 if step.stage == "rewrite" else max([1, *after])
    return places


def _column(step: Step, places: Mapping[str, int], names: dict[str, int]) -> Model:
    hits = _hits(step)
    column: Model = {
        "name": step.name,
        "stage": step.stage,
        "place": places[step.name],
        "after": [name for name in step.after if places.get(name, 0) > 0],
        "count": len(hits),
        "label": f"{len(hits)} {_counted(step.stage, len(hits))}",
        "settings": step.settings[:200],
        **_time(step),
        "rows": [_row(hit, hit.rank, names) for hit in hits],
    }
    if isinstance(step.output, Context):
        # In the prompt a chunk's number is its place there: citation [n] names kept[n - 1].
        column["rows"] = [_row(hit, n, names) for n, hit in enumerate(step.output.kept, start=1)]
        column |= {"tokens": step.output.tokens, "budget": step.output.budget}
    return column


def _row(hit: Hit, rank: int, names: dict[str, int]) -> list[Any]:
    parts: list[float] = []
    for part in hit.parts:
        parts += [names.setdefault(part.name, len(names)), short(part.value)]
    return [hit.chunk.chunk_id, rank, short(hit.score), parts]


def _hits(step: Step) -> Ranking:
    if isinstance(step.output, Context):
        return step.output.kept
    return () if step.stage in ("rewrite", "generate") else cast(Ranking, step.output)


def _counted(stage: str, count: int) -> str:
    return "hit" if stage == "retrieve" and count == 1 else COUNTED[stage]


def _time(step: Step) -> Model:
    return {"ms": float(f"{step.seconds * 1000:.3g}"), "reused": step.reused}


# -- chunks and what became of them --------------------------------------------------------------


def _chunks(trace: Trace) -> dict[str, Chunk]:
    chunks = {hit.chunk.chunk_id: hit.chunk for step in trace.steps for hit in _hits(step)}
    for step in trace.stage("assemble"):
        for drop in cast(Context, step.output).dropped:
            chunks.setdefault(drop.hit.chunk.chunk_id, drop.hit.chunk)
    return chunks


def _fate(chunk_id: str, trace: Trace, places: Mapping[str, int]) -> Model:
    ranks = {
        step.name: rank
        for step in trace.steps
        for rank, hit in enumerate(_hits(step), start=1)
        if hit.chunk.chunk_id == chunk_id
    }
    fate: Model = {}
    for step in trace.steps:  # the last word holds: a chunk lost in one list may be found again
        dropped = _dropped(step).get(chunk_id)
        read = [name for name in step.after if name in ranks]
        if step.name in ranks and step.stage == "assemble":
            fate = _fated(step, places, "kept", f"in the prompt as [{ranks[step.name]}]")
        elif step.name in ranks:
            fate = _fated(step, places, "open", f"in the last list, {step.name}")
        elif dropped is not None:
            cut = re.search(r"\bcut at \d+$", dropped)
            fate = _fated(step, places, "cut" if cut else "dropped", dropped)
        elif read and step.stage != "generate":
            fate = _fated(step, places, *_why(trace, step, read, ranks))
    return fate


def _dropped(step: Step) -> dict[str, str]:
    if not isinstance(step.output, Context):
        return {}
    return {drop.hit.chunk.chunk_id: drop.reason for drop in step.output.dropped}


def _why(
    trace: Trace, step: Step, seen: Sequence[str], ranks: Mapping[str, int]
) -> tuple[str, str]:
    """Why a chunk that `step` read is not in what it returned, told from the ranks alone."""
    kept = {hit.chunk.chunk_id for hit in _hits(step)}
    if len(seen) == 1 and len(step.after) == 1:
        read = [hit.chunk.chunk_id for hit in _hits(trace[seen[0]])]
        if set(read[: len(kept)]) == kept:  # it took the best so many, and nothing else
            return "cut", f"rank {ranks[seen[0]]}, cut at {len(kept)}"
    where = " and ".join(f"rank {ranks[name]} in {name}" for name in seen)
    return "dropped", f"{where}, not among the {len(kept)} kept"


def _fated(step: Step, places: Mapping[str, int], kind: str, reason: str) -> Model:
    return {"step": step.name, "place": places[step.name], "kind": kind, "reason": reason}


def _card(chunk: Chunk, fate: Model, marks: list[str]) -> Model:
    text = chunk.text
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]} … ({len(text) - LONGEST_TEXT:,} more characters)"
    card = {
        "id": chunk.chunk_id,
        "title": chunk.title,
        "heading": chunk.heading,
        "source": chunk.source,
        "updated": chunk.updated,
    }
    return {**card, "text": text, "marks": marks, "fate": fate}


def _marks(chunk_id: str, evidence: Collection[str], cited: Collection[str]) -> list[str]:
    marks = {"evidence": evidence, "cited": cited}
    return [mark for mark, chunk_ids in marks.items() if chunk_id in chunk_ids]


def _furthest_first(
    chunk_id: str, fates: Mapping[str, Model], columns: Sequence[Model]
) -> tuple[int, int, str]:
    fate = fates[chunk_id]
    reached = fate["place"] + (fate["kind"] in ("kept", "open"))
    ranks = [row[1] for column in columns for row in column["rows"] if row[0] == chunk_id]
    return -reached, ranks[-1] if ranks else 0, chunk_id


def _verdict(
    chunk_id: str,
    fates: Mapping[str, Model],
    cited: Collection[str],
    hidden: Mapping[str, str],
) -> str:
    """The sentence that the workbook is about: where the chunk that holds the answer ended."""
    fate = fates.get(chunk_id)
    if fate is None and chunk_id in hidden:  # its very name would tell what lies there
        return f"The evidence was not searched: it is {hidden[chunk_id]}."
    if fate is None:
        return f"{chunk_id} was never retrieved: it is in no list."
    if fate["kind"] == "kept":
        use = "and the answer cites it" if chunk_id in cited else "but the answer does not cite it"
        return f"{chunk_id} is {fate['reason']}, {use}."
    return f"{chunk_id} {'is' if fate['kind'] == 'open' else 'was'} {fate_in_words(fate)}."


# -- stages: what the stepper lists, and what is said at each ------------------------------------


def _stages(trace: Trace, places: Mapping[str, int], model: Model) -> list[Model]:
    stages: list[Model] = []
    for place in range(max([0, *places.values()]) + 1):
        steps = [step for step in trace.steps if places[step.name] == place]
        stage = steps[0].stage if steps else "rewrite"
        found: Model = {"title": TITLES[stage], "stage": stage, "place": place}
        if len(steps) == 1:
            found |= {"name": steps[0].name, **_time(steps[0])}
        found["says"] = _says(stage, place, model)
        stages.append(found)
    return stages


def _says(stage: str, place: int, model: Model) -> str:
    columns = [column for column in model["columns"] if column["place"] == place]
    lost = sum(
        chunk["fate"]["place"] == place and chunk["fate"]["kind"] in ("cut", "dropped")
        for chunk in model["chunks"]
    )
    said = "; ".join(f"{column['name']}: {column['label']}" for column in columns)
    if len(columns) == 1:
        said = columns[0]["label"]
    if stage == "rewrite":
        count = len(model["queries"])
        said = "One query" if count == 1 else f"{count} queries, written from one"
    elif stage == "generate":
        answer = model["answer"]
        count = len(answer["citations"])
        said = f"{count} citation{'' if count == 1 else 's'}"
        said = f"No answer: {said}" if answer["refused"] else said
    elif len(columns) > 1:
        different = {row[0] for column in columns for row in column["rows"]}
        said += f". Together {len(different)} different chunks"
    if lost:
        said += f", {lost} left behind"
    return f"{said}.{_where_is_it(columns, model)}"


def _where_is_it(columns: Sequence[Model], model: Model) -> str:
    holders = [chunk["id"] for chunk in model["chunks"] if "evidence" in chunk["marks"]]
    said = []
    for chunk_id in holders if columns else ():
        at = [
            f"[{row[1]}]" if column["stage"] == "assemble" else f"rank {row[1]} in {column['name']}"
            for column in columns
            for row in column["rows"]
            if row[0] == chunk_id
        ]
        said.append(f"{chunk_id} is {', '.join(at)}" if at else f"{chunk_id} is not here")
    return f" The answer's chunk {'; '.join(said)}." if said else ""


def _queries(trace: Trace) -> tuple[Query, ...]:
    return trace.queries if trace.stage("rewrite") else (trace.query,)


def _answer(trace: Trace) -> Model | None:
    if not trace.stage("generate"):
        return None
    answer: Answer = trace.answer
    citations = [
        {"number": one.number, "chunk_id": one.chunk_id, "quote": one.quote}
        for one in answer.citations
    ]
    return {
        "text": answer.text,
        "origin": answer.origin,
        "refused": answer.refused,
        "citations": citations,
    }


def ranks_of(model: Model) -> dict[tuple[str, str], int]:
    return {(col["name"], row[0]): row[1] for col in model["columns"] for row in col["rows"]}
