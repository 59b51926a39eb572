"""One run of an Explorer: a pipeline as its dials stand, the trace, and what is drawn of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count as counting

from raglab.evaluate.evidence import supporting
from raglab.evaluate.rewriting import as_query
from raglab.explore.dials import SIZE, Settings, turned
from raglab.explore.zoom import heat
from raglab.fates import may_see, refusal
from raglab.kit import Kit
from raglab.pipeline import Pipeline
from raglab.trace import Trace
from raglab.types import Chunk, Hit, Query, Question
from raglab.views.model import LONGEST_TEXT, Model, flow_model
from raglab.views.words import akin

_number = counting(1)


@dataclass(frozen=True, eq=False)
class Run:
    number: int  # each run has another: a detail that comes late is told from a fresh one
    pipeline: Pipeline
    trace: Trace
    question: Question | None  # where the query is a golden question
    evidence: tuple[str, ...]
    model: Model

    @property
    def lost_evidence(self) -> bool:
        """Is there something to find, and none of it in the prompt?"""
        kept = {hit.chunk.chunk_id for hit in self.trace.context.kept}
        return bool(self.evidence) and not kept & set(self.evidence)

    def detail(self, chunk_id: str) -> Model:
        """What the picture shows of one chosen chunk: its text, and what in it is worth a light.

        Spans are [start, end) in characters of the text.
        """
        chunk = self.chunks[chunk_id]
        text = chunk.text[:LONGEST_TEXT]
        rest = len(chunk.text) - len(text)
        words = [word["text"].casefold() for word in self.model["words"]]
        found: Model = {
            "text": text + (f" … ({rest:,} more characters)" if rest else ""),
            "words": [
                [*match.span(), words.index(asked)]
                for match in re.finditer(r"\w+", text)
                if (asked := _asked(match.group(), words))
            ],
            "cited": self._cited(chunk_id, text),
            "evidence": self._quoted(chunk, text),
        }
        heated = heat(self.pipeline, self.trace.queries[0].text, chunk_id)
        return found | ({"heat": asdict(heated)} if heated else {})

    @property
    def chunks(self) -> Mapping[str, Chunk]:
        return {hit.chunk.chunk_id: hit.chunk for hit in _hits(self.trace)}

    def _cited(self, chunk_id: str, text: str) -> list[list[int]]:
        quotes = [c.quote for c in self.trace.answer.citations if c.chunk_id == chunk_id]
        return _spans(text, quotes)

    def _quoted(self, chunk: Chunk, text: str) -> list[list[int]]:
        evidence = self.question.evidence if self.question else ()
        return _spans(text, [e.quote for e in evidence if e.doc_id == chunk.doc_id])


def ask(opened: Pipeline, settings: Settings, text: str, questions: Mapping[str, Question]) -> Run:
    """Runs `opened` with its dials as in `settings`. A golden question is asked as it stands,
    with the turns before it, and its evidence is looked up."""
    pipeline = turned(opened, **settings)
    question = questions.get(text.strip())
    trace = pipeline.run(as_query(question) if question else Query("q", text.strip()))
    kit = pipeline.kit or Kit()
    evidence = supporting(question, kit.chunks) if question else ()
    model = flow_model(
        trace,
        evidence,
        count=getattr(pipeline.assembler, "count", None),
        price=kit.price,
        hidden=_hidden(pipeline, kit.chunks, evidence),
    )
    for card in model["chunks"]:
        del card["text"]  # fetched when the chunk is chosen
    return Run(next(_number), pipeline, trace, question, evidence, model)


def compared(run: Run, other: Run) -> tuple[Model, Model, str]:
    """Both models, with the chunks marked that reach one prompt only, and how they differ.

    Chunks are compared whole: over documents that are cut in another way, the same id is another
    chunk.
    """
    here, there = _prompt(run.trace), _prompt(other.trace)
    only = {"A": here - there, "B": there - here}
    a, b = _marked(run.model, only["A"]), _marked(other.model, only["B"])
    if cut_differently(run, other):
        sizes = f"A sends {len(here)}, B sends {len(there)}"
        return a, b, f"A and B cut the documents differently, so they share no chunk: {sizes}."
    if here == there:
        return a, b, "Both send the same chunks to the prompt."
    said = [f"only {name} sends {', '.join(_ids(sent))}" for name, sent in only.items() if sent]
    shared = len(here & there)
    reach = "1 chunk reaches" if shared == 1 else f"{shared} chunks reach"
    return a, b, f"{reach} both prompts; {'; '.join(said)}."


def cut_differently(run: Run, other: Run) -> bool:
    """Do the two search chunks of different sizes?"""
    one, two = (run.pipeline.kit or Kit(), other.pipeline.kit or Kit())
    return one.chosen.get(SIZE) != two.chosen.get(SIZE)


def _marked(model: Model, only: set[Chunk]) -> Model:
    ids = _ids(only)
    cards = [
        {**card, "marks": [*card["marks"], "only-here"]} if card["id"] in ids else card
        for card in model["chunks"]
    ]
    return {**model, "chunks": cards}


def _ids(chunks: set[Chunk]) -> list[str]:
    return sorted(chunk.chunk_id for chunk in chunks)


def _prompt(trace: Trace) -> set[Chunk]:
    return {hit.chunk for hit in trace.context.kept}


def _hidden(pipeline: Pipeline, chunks: Sequence[Chunk], evidence: Sequence[str]) -> dict[str, str]:
    """Which chunks that hold the answer this reader may not see, and why."""
    return {
        chunk.chunk_id: refusal(pipeline, chunk)
        for chunk in chunks
        if chunk.chunk_id in evidence and not may_see(pipeline, chunk)
    }


def _hits(trace: Trace) -> list[Hit]:
    lists = [s for stage in ("retrieve", "fuse", "rerank") for s in trace.stage(stage)]
    ranked = [hit for step in lists for hit in trace.ranking(step.name)]
    return [*ranked, *trace.context.kept, *(drop.hit for drop in trace.context.dropped)]


def _asked(word: str, words: Sequence[str]) -> str:
    """The word of the query that this word of the text goes with, or nothing."""
    return next((asked for asked in words if akin(asked, word.casefold())), "")


def _spans(text: str, quotes: Sequence[str]) -> list[list[int]]:
    starts = [(text.find(quote), len(quote)) for quote in quotes if quote]
    return [[start, start + length] for start, length in starts if start >= 0]
