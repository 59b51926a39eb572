"""The rows of a timeline: one for each thing that happened, with its picture and its sentence.

A row tells what came of it too: whether a plan did search, which passages the next plan went on
with.  That is read from the steps that follow.

Left out: how a row is framed (`timelinebits.py`), and the sums of all rows (`timeline.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from markupsafe import Markup

from raglab.trace import DECIDE, Step, Trace
from raglab.types import Answer, Context, Decision, Part, Query, Ranking
from raglab.views.bars import tint
from raglab.views.timelinebits import (
    BAD,
    LONG,
    aside,
    bar,
    block,
    capital,
    card,
    chip,
    chips,
    cut,
    ended,
    folded,
    many,
    quoted,
    source,
)

PLAN, SEARCH, STOP = "plan", "search", "stop"  # as an agent's steps and choices are called


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that happened."""

    kind: str  # one of timelinebits.ICONS
    head: str
    words: str  # the same as a sentence or two
    body: Markup
    pill: str = ""  # what was chosen
    steps: tuple[Step, ...] = ()  # what it tells of


def rows_of(trace: Trace, evidence: Collection[str] = ()) -> Iterator[Row]:
    """What happened, in order; evidence: chunk ids to star."""
    yield _asked(trace.query)
    # An agent's passages keep their numbers; elsewhere each context counts from 1.
    planned = any(step.name == PLAN for step, _ in trace.decisions)
    numbers: dict[str, int] = {}
    seen: frozenset[str] = frozenset()
    search: list[Step] = []
    for at, step in enumerate(trace.steps):
        later = trace.steps[at + 1 :]
        if step.stage == DECIDE:
            yield _decided(step, later, numbers)
        elif step.stage == "generate":
            yield _answered(step, later, evidence)
        elif step.stage != "assemble":
            search.append(step)
        elif search:
            yield _searched(search, trace.query)
            names = [hit.chunk.chunk_id for hit in cast(Context, step.output).kept]
            numbers = numbers if planned else {}
            numbers |= {name: n for n, name in enumerate(names, start=len(numbers) + 1)}
            yield _found(step, later, numbers, seen, evidence, planned)
            seen, search = seen | set(names), []
        else:
            yield _gathered(step, numbers, evidence)
    if search:
        yield _searched(search, trace.query)


def _asked(query: Query) -> Row:
    turns = len(query.history)
    head = f"Asked after {many(turns, 'turn')}" if turns else "Asked"
    return Row("asked", head, ended(f"{head}: “{cut(query.text)}”"), quoted(query.text))


def _decided(step: Step, later: Sequence[Step], numbers: Mapping[str, int]) -> Row:
    decision = cast(Decision, step.output)
    kind, why = "decided", decision.why
    if step.name == "grounded?":
        kind = "falls" if decision.choice in BAD else "stands"
    then = _then(step.name, decision, later)
    # What a model wrote stands in quotes; a rule's reasons do not.
    wrote = bool(why) and any(why in " ".join(call.text.split()) for call in step.calls)
    lacking = [part.name for part in decision.parts if kind == "falls" and not part.value]
    body = quoted(why) if wrote else block(folded(why)) if why else Markup("")
    shown = [part for part in decision.parts if part.name not in numbers]
    body += _parts([] if step.name == "grounded?" else shown)  # its parts are whole sentences
    for text in lacking:
        body += block(Markup("<del>{}</del>").format(cut(text)))  # whole in the draft above
    body += block(Markup('<b aria-hidden="true">→</b> {}').format(folded(then)), "margin-top:4px")
    head = step.name.capitalize()
    reason = f". “{cut(why)}”" if wrote else f" ({cut(why)})" if why else ""
    said = ended(f"{head}{'' if head.endswith('?') else ':'} {cut(decision.choice, 60)}{reason}")
    return Row(kind, head, f"{said} {ended(cut(capital(then)))}", body, decision.choice, (step,))


def _then(name: str, decision: Decision, later: Sequence[Step]) -> str:
    """What came of a decision, as the steps after it tell."""
    searches = any(step.stage in ("rewrite", "retrieve") for step in later)
    answers = [cast(Answer, step.output) for step in later if step.stage == "generate"]
    if name == "grounded?":
        if not answers:
            return "the answer stands as it is"
        return "nothing is left, so it refuses" if answers[-1].refused else "the rest is given"
    if name == "route":
        return f"it goes the {decision.choice} way"
    if decision.choice == SEARCH and not searches:
        return f"no turn is left to search for “{decision.text}”: it answers from what is there"
    if decision.choice == SEARCH:
        return "it searches"
    if decision.choice in BAD:
        return "it searches once more" if searches else "it answers from what is there"
    return "it writes the answer itself" if name == PLAN and decision.text else "it answers"


def _parts(parts: Sequence[Part]) -> Markup:
    """The numbers that a rule looked at; the longest bar is the largest."""
    most = max((abs(part.value) for part in parts), default=0.0) or 1.0
    return chips(
        chip(
            bar(abs(part.value) / most, f"{part.name} {round(part.value, 2):g}", 3),
            key=f"part: {part.name}",
            style="min-width:110px;padding:1px 7px 4px",
        )
        for part in parts
    )


def _searched(steps: Sequence[Step], asked: Query) -> Row:
    rewritten = [step.output for step in steps if step.stage == "rewrite"]
    queries = [q for output in rewritten for q in cast(tuple[Query, ...], output)] or [asked]
    texts = list(dict.fromkeys(query.text for query in queries))
    lists = [step for step in steps if step.stage != "rewrite"]
    ran = []
    for before, step in zip([None, *lists], lists, strict=False):
        after = before is not None and before.stage != step.stage
        arrow = Markup('<span aria-hidden="true">→ </span>') if after else ""
        count = many(len(cast(Ranking, step.output)), "hit")
        inner = Markup("{}<b>{}</b> {}").format(arrow, step.name, count)
        ran.append(chip(inner, key=f"list {step.name}"))
    body = Markup("").join(map(quoted, texts)) + chips(ran)
    head = f"Search {steps[0].round}"
    found = ", ".join(
        f"{step.name} {many(len(cast(Ranking, step.output)), 'hit')}"
        for step in lists
        if step.stage == "retrieve"
    )
    said = f"{head} for {' and '.join(f'“{cut(text)}”' for text in texts)}"
    return Row("searched", head, ended(f"{said}: {found or 'no list'}"), body, steps=tuple(steps))


def _found(
    step: Step,
    later: Sequence[Step],
    numbers: Mapping[str, int],
    seen: Collection[str],
    evidence: Collection[str],
    planned: bool,
) -> Row:
    context = cast(Context, step.output)
    names = [hit.chunk.chunk_id for hit in context.kept]
    judged = _judged(later)
    supports = {part.name: part.value for part in judged.parts} if judged else {}
    off = [name for name in names if judged and name not in judged.chunk_ids]
    body = chips(
        (
            card(
                hit.chunk, numbers[hit.chunk.chunk_id], evidence,
                hit.chunk.chunk_id in off, supports.get(hit.chunk.chunk_id),
            )
            for hit in context.kept
        ),
        grid=True,
    )  # fmt: skip
    known = sum(drop.reason.startswith("read already") for drop in context.dropped)
    fresh = [name for name in names if name not in seen]
    new = "new " if seen and len(fresh) == len(names) else ""
    head = many(len(names), f"{new}passage") if names else f"No {new}passage"
    told = [
        f"{len(fresh)} of them new" if len(fresh) < len(names) else "",
        f"{len(off)} judged not relevant" if off else "",
        f"{known} more read already" if known else "",
    ]
    cuts = len(context.dropped) - known
    body = aside(*told, f"{many(cuts, 'hit')} left out" if cuts else "") + body
    if not planned:
        body += _budget(context)
    span = f", [{numbers[names[0]]}] to [{numbers[names[-1]]}]" if names[1:] else ""
    said = "; ".join(filter(None, (f"It brings {head.lower()}{span}", *told)))
    return Row("found", head, ended(said), body, steps=(step,))


def _judged(later: Sequence[Step]) -> Decision | None:
    """The next plan, which says with which of the passages it goes on."""
    plans = (cast(Decision, s.output) for s in later if s.stage == DECIDE and s.name == PLAN)
    plan = next(plans, None)
    return None if plan is None or plan.choice == STOP else plan


def _gathered(step: Step, numbers: Mapping[str, int], evidence: Collection[str]) -> Row:
    context = cast(Context, step.output)
    names = [hit.chunk.chunk_id for hit in context.kept]
    anew = any(numbers.get(name) != n for n, name in enumerate(names, start=1))
    told = [
        "numbered anew, as the answer cites them" if anew else "",
        f"{many(len(context.dropped), 'passage')} left out" if context.dropped else "",
    ]
    body = aside(*told) + _budget(context)
    body += chips(chip(source(n, x, evidence), key=x) for n, x in enumerate(names, start=1))
    said = "; ".join(filter(None, (f"Gathered: {_spent(context)}", *told)))
    return Row("gathered", "Gathered", ended(said), body, steps=(step,))


def _budget(context: Context) -> Markup:
    share = context.tokens / max(context.budget, 1)
    return block(bar(share, _spent(context), 4), "max-width:320px;margin-top:6px")


def _spent(context: Context) -> str:
    return f"{many(len(context.kept), 'source')}, {context.tokens:,} of {context.budget:,} tokens"


def _answered(step: Step, later: Sequence[Step], evidence: Collection[str]) -> Row:
    answer = cast(Answer, step.output)
    head = "Draft" if any(other.stage == "generate" for other in later) else "Answer"
    cites = {one.number: one.chunk_id for one in answer.citations}
    mix = f"color-mix(in srgb, {tint(1 if answer.refused else 2)} 9%, transparent)"
    ground = f"padding:6px 10px;border-radius:6px;background:{mix}"
    body = block(folded(answer.text, 2 * LONG, cites), ground)
    body += chips(chip(source(n, name, evidence), key=name) for n, name in sorted(cites.items()))
    body += aside(f"Origin: {cut(answer.origin)}")
    pill = "refused" if answer.refused else ""
    said = f"{head}{', a refusal' if pill else ''}: {ended(cut(answer.text))}"
    said += f" Origin: {ended(cut(answer.origin))}"
    return Row("answered", head, said, body, pill, (step,))
