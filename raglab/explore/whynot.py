"""Why not this one? The smallest turn of one dial that brings a lost chunk into the prompt.

`loss` says where it was lost.  Here each dial is turned alone, from its present value outwards, one
step at a time, and the real pipeline runs at each step until the chunk is in the prompt.  So the
value found is the nearest one that works: all those nearer were tried, on both sides, and failed.

A rescue has a price, and it is told: which chunks come along, which leave, and what the prompt
grows by.  A dial that rescues this question may harm others; only an evaluation tells.

Not run, since it cannot matter: a dial of a stage after the one that lost the chunk, for no stage
returns what it did not read.

Left out: turning two dials at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from raglab.explore.aside import Aside, Written, aside, asks_model, gated
from raglab.explore.dials import SIZE, STAGES, Dial, Settings, dials, idle, turned
from raglab.explore.rescue import Rescue, change, plural
from raglab.fates import Loss, Wanted, all_chunks, first_loss, holding
from raglab.kit import Value
from raglab.pipeline import Pipeline
from raglab.recorder import Memo
from raglab.trace import Trace
from raglab.types import Chunk, Query, RagLabError

__all__ = ["Rescue", "WhyNot", "change", "outwards", "rescuing_dials", "why_not"]
Progress = Callable[[int, int], None]
"""Is told how many settings are done, and of how many."""
WHO = "allowed"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why the wanted chunk is not in the prompt, and what would bring it there."""

    wanted: Wanted
    loss: Loss | None  # None: it is in the prompt
    rescues: tuple[Rescue, ...]  # one a dial at most, the least movement first
    tried: int  # settings that were run
    skipped: tuple[str, ...]  # what was not tried, and why: "4 rewriters, no reply is kept"
    words: str


def why_not(
    pipeline: Pipeline,
    settings: Settings,
    query: str | Query,
    wanted: Wanted,
    *,
    sizes: bool = False,
    ask: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> WhyNot:
    """Search the dials of `pipeline`, as it was opened, from `settings`, for what would help.

    sizes: try other chunk sizes too, where evidence is looked for: each may need an index built.
    ask: try rewriters that put the query to a live model.
    Raises RagLabError where the query cannot be run as it is, or there is no such chunk.
    """
    now = turned(pipeline, **settings)
    search = _Search(pipeline, settings, query, wanted, now, Aside(now.memo))
    loss = first_loss(now, search.before, wanted)
    if loss is None:
        _, place = _in_prompt(search.before, search.holders) or ("", 0)
        return WhyNot(wanted, None, (), 0, (), f"{_name(wanted)} is in the prompt as [{place}].")
    turnable = tuple(search.turnable(loss, sizes))
    total = sum(len(values) for _, values in turnable)
    rescues: list[Rescue] = []
    done = 0
    for dial, values in turnable:
        for step, value in enumerate(values, start=1):
            on_progress(done + step, total)
            rescue = search.rescue(dial, value, ask)
            if rescue:
                rescues.append(rescue)
                break
        done += len(values)
        on_progress(done, total)
    rescues.sort(key=lambda rescue: rescue.share)
    knobs = len(turnable)
    return WhyNot(
        wanted=wanted,
        loss=loss,
        rescues=tuple(rescues),
        tried=search.tried,
        skipped=tuple(f"{_counted(key[0], n)}, {key[1]}" for key, n in search.skipped.items()),
        words=_words(wanted, loss, rescues, search.tried, knobs),
    )


def rescuing_dials(found: WhyNot) -> tuple[str, ...]:
    """The labels of the dials any of which, turned alone, brings the chunk into the prompt."""
    return tuple(rescue.label for rescue in found.rescues)


def outwards(dial: Dial, now: Value) -> tuple[Value, ...]:
    """Every other value of the dial, the nearest first; of two as near, the lower.

    >>> outwards(Dial("keep", "assemble", "Kept", "", 3, low=1, high=6), now=3)
    (2, 4, 1, 5, 6)
    """
    others = (value for value in dial.grid() if value != now)
    if dial.choices:
        return tuple(others)
    # Rounded: 0.1 + 0.2 is a step too, and no step is nearer by a last digit.
    return tuple(sorted(others, key=lambda value: (round(abs(_far(value, now)), 6), value)))


def _far(value: Value, now: Value) -> float:
    return float(value) - float(now)


def _share(dial: Dial, value: Value, now: Value) -> float:
    if dial.choices:
        return 1.0
    return abs(_far(value, now)) / (float(dial.high or 0) - float(dial.low or 0))


# -- the search ----------------------------------------------------------------------------------


@dataclass
class _Search:
    opened: Pipeline
    settings: Settings
    query: str | Query
    wanted: Wanted
    now: Pipeline
    memo: Memo
    tried: int = 0
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)  # (label, reason)

    def __post_init__(self) -> None:
        self.before: Trace = aside(self.now, self.memo).run(self.query)
        self.holders = self._holders(self.now)

    def turnable(self, loss: Loss, sizes: bool) -> Iterator[tuple[Dial, tuple[Value, ...]]]:
        """The dials that could matter, each with the values to try, in that order."""
        still = idle(self.now, self.opened)
        for dial in dials(self.opened):
            values = outwards(dial, self._present(dial))
            if dial.name in still or (loss.access != (dial.name == WHO)):
                continue  # who asks is no knob, but where an access rule is all there is to tell
            if STAGES.index(dial.stage) > STAGES.index(loss.stage):
                continue  # no stage returns what it did not read
            if dial.name == SIZE and self.wanted.chunk_id:
                continue  # another size makes other chunks: this one would not be among them
            if dial.name == SIZE and not sizes:
                self.skipped[_many(dial), "each is another index"] += len(values)
                continue
            yield dial, values

    def rescue(self, dial: Dial, value: Value, ask: bool) -> Rescue | None:
        """What this value does, where it brings the wanted chunk into the prompt."""
        try:
            made = turned(self.opened, **{**self.settings, dial.name: value})
            if made.rewriter == self.now.rewriter:
                made = replace(made, rewriter=Written(self.before.queries))
            elif asks_model(made.rewriter) and not ask:
                self.skipped[_many(dial), "each would ask the model"] += 1
                return None
            holders = self._holders(made) if dial.name == SIZE else self.holders
            run = aside(made, self.memo)
            self.tried += 1
            if not _in_prompt(gated(run, holders).run(self.query), holders):
                return None
            after = run.run(self.query)  # all of it, with no stage left out
        except RagLabError as error:
            self.skipped[_many(dial), _reason(error)] += 1
            return None
        there = _in_prompt(after, holders)
        return self._told(dial, value, *there, after) if there else None

    def _told(self, dial: Dial, value: Value, chunk_id: str, place: int, after: Trace) -> Rescue:
        then, now = (_prompt(trace) for trace in (self.before, after))
        resized, access = dial.name == SIZE, dial.name == WHO
        entered = [c for c in now if c not in then and c.chunk_id not in self.holders]
        left = [c for c in then if c not in now]
        lacking = [quote for quote in self.wanted.beside if not holding((quote,), now)]
        was = self._present(dial)
        return Rescue(
            dial=dial.name,
            label=dial.label,
            was=was,
            value=value,
            share=_share(dial, value, was),
            chunk_id=chunk_id if not access or self.wanted.chunk_id else "",
            place=place,
            entered=() if resized else tuple(c.chunk_id for c in entered if self._may_name(c)),
            left=() if resized else tuple(c.chunk_id for c in left),
            evidence_left=tuple(c.chunk_id for c in holding(lacking, then)),
            tokens_before=self.before.context.tokens,
            tokens_after=after.context.tokens,
            access=access,
        )

    def _present(self, dial: Dial) -> Value:
        return dial.checked(self.settings.get(dial.name, dial.value))

    def _may_name(self, chunk: Chunk) -> bool:
        return self.now.allowed is None or self.now.allowed(chunk)

    def _holders(self, pipeline: Pipeline) -> frozenset[str]:
        return frozenset(chunk.chunk_id for chunk in self.wanted.among(all_chunks(pipeline)))


def _prompt(trace: Trace) -> tuple[Chunk, ...]:
    return tuple(hit.chunk for hit in trace.context.kept)


def _in_prompt(trace: Trace, chunk_ids: frozenset[str]) -> tuple[str, int] | None:
    """The first of the chunks in the prompt, and its number there."""
    for place, chunk in enumerate(_prompt(trace), start=1):
        if chunk.chunk_id in chunk_ids:
            return chunk.chunk_id, place
    return None


# -- in words ------------------------------------------------------------------------------------


def _words(wanted: Wanted, loss: Loss, rescues: list[Rescue], tried: int, knobs: int) -> str:
    name = _name(wanted)
    if loss.access:
        rule = f"{name} is {loss.reason}. That is an access rule, and no knob should get round it"
        seen = [str(rescue.value) for rescue in rescues]
        return f"{rule}: asked as {seen[0]}, it is in the prompt." if seen else f"{rule}."
    lost = f"{loss.chunk_id or name} was lost at {loss.step}: {loss.reason}."
    if loss.stage == "ingest":
        lost = f"{name} is {loss.reason}."
    if rescues:
        return f"{lost} Smallest change: {change(rescues[0])}."
    settings, of = plural(tried, "setting"), plural(knobs, "knob")
    none = f"{settings} of {of} {'was' if tried == 1 else 'were'} tried"
    return f"{lost} No single knob rescues it: {none}."


def _name(wanted: Wanted) -> str:
    return wanted.chunk_id or "The evidence"


def _many(dial: Dial) -> str:
    return {"rewriter": "rewriter", SIZE: "chunk size"}.get(dial.name, f"setting of {dial.label}")


def _counted(noun: str, count: int) -> str:
    if noun.startswith("setting ") and count > 1:
        noun = noun.replace("setting", "settings", 1)
        return f"{count} {noun}"
    return plural(count, noun)


def _reason(error: RagLabError) -> str:
    """The first clause of what went wrong."""
    said = str(error)
    return "no reply is kept" if said.startswith("no reply is kept") else said.partition(":")[0]
