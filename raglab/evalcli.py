"""`raglab eval`: pipelines judged on a collection, and compared with one of them.

Each mean comes with its 95% interval, and each difference with its own and with the p of a paired
randomisation test: the queries are a sample, and a small one.

`--save` and `--gate` judge the answers too (`gatecli.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from raglab.files import write_whole
from raglab.terminal import inert
from raglab.types import RagLabError

if TYPE_CHECKING:
    from raglab.evaluate.benchmark import Benchmark, Values
    from raglab.evaluate.runs import Run
    from raglab.evaluate.significance import Comparison

    Comparisons = Mapping[str, Mapping[str, Comparison]]  # preset -> measure -> against baseline

DEPTH = 100  # places of each ranking: recall@100 needs them
Corpus = Annotated[str, typer.Argument(help="A BEIR folder, or handbook, or python.")]
Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset", help="A pipeline to judge; may be repeated. Without it: all that search."
    ),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Only this kind of question; may be repeated.")
]


def evaluate(
    corpus: Corpus,
    presets: Presets = None,
    baseline: Annotated[
        str, typer.Option(help="What the others are compared with. Without it: the first.")
    ] = "",
    split: Annotated[str, typer.Option(help="Which judgements: dev, test, train.")] = "test",
    kinds: Kinds = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="At most so many, evenly spaced.")
    ] = None,
    chunker: Annotated[
        str, typer.Option(help="`whole` documents or the `default`. Without it: whole for BEIR.")
    ] = "",
    run: Annotated[
        Path | None,
        typer.Option(help="Write TREC runs and qrels into this folder, or one run to this file."),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Write every figure to this file.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Judge the answers too, and write the scorecard there.")
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(help="Fail where the answers got worse than in this scorecard, beyond luck."),
    ] = None,
) -> None:
    """Judge pipelines on queries whose relevant documents are known."""
    if save or gate:
        if run or as_json or baseline or chunker:
            raise RagLabError(
                "--save and --gate judge whole answers, --run, --json, --baseline and --chunker "
                "belong to rankings: leave out the one or the other"
            )
        from raglab.gatecli import card_of

        return card_of(
            corpus, presets=presets or (), split=split, kinds=kinds or (), most=queries,
            save=save, gate=gate,
        )  # fmt: skip
    from raglab.benchmarks import open_benchmark
    from raglab.evaluate.benchmark import compared, measured, runs
    from raglab.generations import GENERATIONS
    from raglab.lab import default_encoder
    from raglab.presets import SEARCHES, check_preset, preset_pipeline

    names = list(dict.fromkeys(([baseline] if baseline else []) + (presets or list(SEARCHES))))
    for name in names:
        if name in GENERATIONS:
            raise RagLabError(f"{name!r} is judged by its answers: add --save FILE or --gate FILE")
        check_preset(name, SEARCHES)
    if chunker not in ("", "whole", "default"):
        raise RagLabError(f"no chunker {chunker!r} here: there are whole and default")
    if run and run.suffix and not run.is_dir() and len(names) > 1:
        raise RagLabError(f"{len(names)} presets make {len(names)} runs: name a folder, not {run}")
    console = Console(highlight=False)
    embedder = default_encoder()
    index, whole_split = open_benchmark(
        corpus,
        embedder,
        split=split,
        whole=chunker == "whole" if chunker else None,
        say=lambda done: console.print(inert(done)),
    )
    benchmark = whole_split.only(kinds or (), queries)
    if run:
        benchmark.check_ids(index.chunks)
    pipelines = {
        name: preset_pipeline(name, index, embedder, k=DEPTH, depth=DEPTH) for name in names
    }
    made = runs(pipelines, benchmark, DEPTH, progress=True)
    values = {name: measured(found, benchmark.qrels) for name, found in made.items()}
    comparisons = {name: compared(values[names[0]], values[name]) for name in names[1:]}

    asked = f"{len(benchmark.queries)} of {len(whole_split.queries)} queries"
    console.print(inert(f"{corpus}, {split}: {asked}, {len(index.chunks)} chunks"), soft_wrap=True)
    for note in benchmark.notes:
        console.print(inert(f"  of the split: {note}", style="dim"), soft_wrap=True)
    _print_means(console, benchmark, values)
    _print_comparisons(console, names[0], comparisons)
    files = _files(run, benchmark, made) if run else {}
    if as_json:
        card = {"corpus": corpus, "split": split, "depth": DEPTH, "baseline": names[0]}
        figures = card | _figures(benchmark, values, comparisons)
        files[as_json] = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    for path, text in files.items():
        _write(path, text)
        console.print(inert(f"wrote {path}"), soft_wrap=True)


def _print_means(console: Console, benchmark: Benchmark, values: Values) -> None:
    from raglab.evaluate.intervals import interval

    measures = list(next(iter(values.values())))
    # No wider than 80 columns, which is what a pipe gets.
    table = Table("", *measures, box=None, padding=(0, 1, 0, 0))
    for kind, ids in benchmark.by_kind().items():
        table.add_row(inert(kind, style="bold"), f"n = {len(ids)}")
        for name, by_measure in values.items():
            means = [interval([by_measure[m][query_id] for query_id in ids]) for m in measures]
            table.add_row(f"  {name}", *(f"{mean.value:.3f}" for mean in means))
            bounds = (f"{mean.low:.2f}–{mean.high:.2f}" for mean in means)
            table.add_row("", *bounds, style="dim")
    console.print()
    console.print(table)
    console.print("under each mean: its 95% bootstrap interval over the queries", style="dim")


def _print_comparisons(console: Console, baseline: str, comparisons: Comparisons) -> None:
    if not comparisons:
        return
    columns = ("measure", "difference, 95% interval", "p", "helped", "harmed")
    table = Table(f"against {baseline}", *columns, box=None, padding=(0, 1, 0, 0))
    for name, by_measure in comparisons.items():
        for measure, comparison in by_measure.items():
            p = "<0.001" if comparison.p < 0.001 else f"{comparison.p:.3f}"
            counts = (str(len(comparison.helped)), str(len(comparison.harmed)))
            table.add_row(name, measure, comparison.difference.signed, p, *counts)
    console.print()
    console.print(table)
    count = sum(map(len, comparisons.values()))
    console.print(
        "p: two-sided, paired randomisation test. "
        f"{count} tests stand here: of twenty without any effect, about one has p < 0.05",
        style="dim",
    )


def _figures(benchmark: Benchmark, values: Values, comparisons: Comparisons) -> dict[str, Any]:
    """Plain data for JSON: means by kind, the values of each query, and the comparisons."""
    from raglab.evaluate.intervals import interval

    def means(by_query: Mapping[str, float]) -> dict[str, Any]:
        return {
            kind: asdict(interval([by_query[query_id] for query_id in ids]))
            for kind, ids in benchmark.by_kind().items()
        }

    return {
        "judged": benchmark.unit,
        "queries": len(benchmark.queries),
        "notes": benchmark.notes,
        "means": {
            name: {measure: means(by_query) for measure, by_query in by_measure.items()}
            for name, by_measure in values.items()
        },
        "comparisons": {
            name: {measure: asdict(comparison) for measure, comparison in by_measure.items()}
            for name, by_measure in comparisons.items()
        },
        "values": values,
    }


def _files(run: Path, benchmark: Benchmark, made: Mapping[str, Run]) -> dict[Path, str]:
    """path -> what to write there."""
    from raglab.evaluate.runs import qrels_text, run_text

    texts = {f"{name}.trec": run_text(found, name) for name, found in made.items()}
    if run.suffix and not run.is_dir():
        return {run: next(iter(texts.values()))}  # of one preset, as was checked
    texts["qrels.trec"] = qrels_text(benchmark.qrels)
    return {run / name: text for name, text in texts.items()}


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        mend = "name a place that can be written"
        raise RagLabError(f"{path} cannot be written ({error.strerror}): {mend}") from error
