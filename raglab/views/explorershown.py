"""The Explorer's small data: dials, golden questions and challenges, as its script draws them."""

from __future__ import annotations

from collections.abc import Sequence

from raglab.explore.dials import SIZE, Dial, dials
from raglab.explore.whynot import WHO
from raglab.learn import KnobChallenge, order_challenge
from raglab.pipeline import Pipeline
from raglab.types import Question
from raglab.views.explorerrun import Run
from raglab.views.model import Model


def shown_dial(dial: Dial) -> Model:
    """What the widget's script needs to draw a dial."""
    common = {"name": dial.name, "label": dial.label, "value": dial.value, "help": dial.help}
    common |= {"stage": dial.stage}
    if dial.choices:
        return common | {"choices": list(dial.choices)}
    return common | {"min": dial.low, "max": dial.high, "step": dial.step}


def by_kind(questions: Sequence[Question]) -> list[Model]:
    kinds: dict[str, list[Model]] = {}
    for question in questions:
        one = {"id": question.query_id, "text": question.text}
        kinds.setdefault(question.kind, []).append(one)
    return [{"kind": kind, "questions": found} for kind, found in kinds.items()]


def challenges(run: Run) -> Model:
    """place -> the challenge of the first list there that has one."""
    heads = {card["id"]: card["heading"] or card["title"] for card in run.model["chunks"]}
    found: Model = {}
    for column in run.model["columns"]:
        made = order_challenge(run.trace, column["name"], run.evidence)
        if made and str(column["place"]) not in found:
            found[str(column["place"])] = {
                "step": made.step,
                "question": made.question,
                "chunk_ids": list(made.chunk_ids),
                "titles": {one: heads.get(one, "") for one in made.chunk_ids},
                "truth": list(made.truth),
                "why": made.why,
            }
    return found


def knob_question(run: Run, opened: Pipeline) -> Model:
    """Which knob rescues the answer? Asked where nothing that holds it is in the prompt."""
    if not run.lost_evidence:
        return {}
    # Not those that the search leaves alone: chunk sizes, an index each, and who asks.
    turnable = [dial.label for dial in dials(opened) if dial.name not in (SIZE, WHO)]
    question = "The answer's chunk is not in the prompt. Which knob brings it there?"
    return {"question": question, "options": [*turnable, KnobChallenge.NONE]}
