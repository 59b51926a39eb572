"""`raglab eval --save` and `--gate`: answers judged too, and compared with an earlier scorecard.

The pipelines run whole, as `open_lab` opens them, offline and without a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from raglab.evaluate.gate import check_alike, regressions, verdict
from raglab.evaluate.judge import OfflineJudge
from raglab.evaluate.outcomes import asked
from raglab.evaluate.rewriting import as_query
from raglab.evaluate.scorecard import Scorecard, scorecard
from raglab.generations import GENERATIONS
from raglab.lab import corpus_index, default_encoder, golden_questions
from raglab.llm import DEFAULT_MODEL
from raglab.presets import DATA, DEFAULT_PRESET, check_preset, preset_pipeline
from raglab.prices import read_price
from raglab.terminal import inert
from raglab.types import Question, RagLabError


def card_of(
    corpus: str,
    *,
    presets: Sequence[str] = (),
    split: str = "test",
    kinds: Sequence[str] = (),
    most: int | None = None,
    save: Path | None = None,
    gate: Path | None = None,
) -> None:
    """Makes a card, prints it, writes it, and compares it. Exits 1 where something got worse.

    presets: without them those of the earlier card, or else the default one.
    """
    before = Scorecard.load(gate) if gate else None
    names = list(presets) or list(before.pipelines if before else (DEFAULT_PRESET,))
    for name in names:
        check_preset(name)
    questions = _chosen(corpus, split, kinds, most)
    if before:  # before minutes are spent on what cannot be compared
        asking = {one.query_id: one.kind for one in questions}
        check_alike(before, Scorecard(corpus, split, asking, {name: {} for name in names}))
    console = Console(highlight=False)
    embedder = default_encoder()
    index = corpus_index(corpus, embedder, say=lambda done: console.print(inert(done)))
    card = scorecard(
        {name: preset_pipeline(name, index, embedder) for name in names},
        questions,
        OfflineJudge(embedder),
        embedder,
        corpus=corpus,
        split=split,
        price=read_price(DATA / "prices.json", DEFAULT_MODEL),
        # A generation makes its own use of the turns before a question; a plain search needs them
        # in front of it.
        ask=as_query if set(names) & set(GENERATIONS) else asked,
        progress=True,
    )
    console.print(inert(card.table()), soft_wrap=True)
    worse = regressions(before, card) if before else ()
    if before:
        console.print(inert(f"against {gate}: {verdict(worse)}"), soft_wrap=True)
    if save and worse and gate and save.resolve() == gate.resolve():
        # The worse card would be what the next one is compared with.
        console.print(inert(f"{save} stays as it was"), soft_wrap=True)
    elif save:
        card.save(save)
        console.print(inert(f"wrote {save}"), soft_wrap=True)
    if worse:
        raise typer.Exit(1)


def _chosen(
    corpus: str, split: str, kinds: Sequence[str], most: int | None
) -> tuple[Question, ...]:
    there = sorted(path.stem for path in (DATA / "golden").glob("*.jsonl") if path.stem != "claims")
    if corpus not in there:
        raise RagLabError(
            f"a scorecard judges answers, and {corpus!r} has no golden ones: choose one of "
            f"{', '.join(there)}, or leave --save and --gate out"
        )
    questions = golden_questions(corpus, split)
    if not questions:
        raise RagLabError(f"{corpus} has no split {split!r}: there are dev and test")
    known = list(dict.fromkeys(one.kind for one in questions))
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        raise RagLabError(f"no questions of the kind {unknown[0]!r}: there are {', '.join(known)}")
    chosen = [one for one in questions if not kinds or one.kind in kinds]
    if most is not None and most < len(chosen):
        chosen = [chosen[place * len(chosen) // most] for place in range(most)]
    return tuple(chosen)
