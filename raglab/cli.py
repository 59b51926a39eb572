"""The lab from a terminal: ask, index, chunk, eval, doctor, lab, present."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from raglab.evalcli import evaluate
from raglab.fates import hits_of
from raglab.terminal import inert
from raglab.types import Decision, RagLabError

if TYPE_CHECKING:
    from raglab.trace import Trace
    from raglab.types import Chunk, Chunker, Ranking

app = typer.Typer(
    help="Follow one real query through every stage of retrieval-augmented generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
FIRST = "explorer.ipynb"

Corpus = Annotated[str, typer.Option(help="A corpus of the workbook, or a folder of .md files.")]


@app.command()
def ask(
    query: Annotated[str, typer.Argument(help="A question, in quotes.")],
    corpus: Corpus = "handbook",
    preset: Annotated[
        str,
        typer.Option(
            help="Which stages search: dense, sparse, hybrid, reranked, learned; or which "
            "generation of RAG: naive, advanced, modular, agentic."
        ),
    ] = "reranked",
    k: Annotated[
        int | None, typer.Option(min=1, help="Hits that each retriever returns. As a rule 20.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Hits that survive the rerank. As a rule 8.")
    ] = None,
    claude: Annotated[bool, typer.Option(help="Answer with Claude; needs a key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the trace as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the flow as a page.")] = None,
) -> None:
    """Ask one question and see what each stage did with it."""
    from raglab.lab import evidence_for, open_lab
    from raglab.llm import ClaudeLLM

    model = ClaudeLLM() if claude else None
    pipeline = open_lab(corpus, preset=preset, llm=model, k=k, keep=keep, progress=not as_json)
    trace = pipeline.run(query)
    evidence = evidence_for(query, pipeline, corpus)
    if html:
        from raglab.views import export_html

        try:
            export_html(trace, html, evidence)
        except OSError as error:
            mend = "name a file in a folder that can be written"
            raise RagLabError(f"{html} cannot be written ({error.strerror}): {mend}") from error
        Console(stderr=True).print(inert(f"wrote {html}"), soft_wrap=True)
    if as_json:
        sys.stdout.write(trace.to_json(indent=1) + "\n")
    else:
        show(trace, Console(), evidence)


def show(trace: Trace, console: Console, evidence: Sequence[str] = ()) -> None:
    """The trace as a terminal can show it; `evidence` names the chunks known to hold the answer,
    else those that are cited are followed. Text from documents is
    printed as it is."""
    followed = list(evidence) or list(dict.fromkeys(c.chunk_id for c in trace.answer.citations))
    which = "rank of the chunks that " + ("hold the answer" if evidence else "are cited")
    table = Table("stage", "hits", "ms", "best hit", which, box=None)
    for step in trace.steps:
        if isinstance(step.output, Decision):
            continue
        hits: Ranking = hits_of(step)
        ranks = {hit.chunk.chunk_id: str(place) for place, hit in enumerate(hits, start=1)}
        table.add_row(
            inert(step.name if trace.rounds == 1 else f"{step.round} {step.name}"),
            str(len(hits)) if hits or step.stage not in ("rewrite", "generate") else "",
            f"{step.seconds * 1000:.1f}",
            inert(hits[0].chunk.chunk_id if hits else ""),
            inert("  ".join(ranks.get(c, "-") for c in followed) if hits else ""),
        )
    console.print(inert(trace.query.text, style="bold"))
    if len(trace.queries) > 1:
        console.print(inert("\n".join(f"  also: {q.text}" for q in trace.queries[1:])))
    console.print(table)
    for step, decided in trace.decisions:
        told = f"  {step.round} {step.name} {decided.choice}: {decided.why}"
        console.print(inert(told, style="dim"), soft_wrap=True)
    total = sum(step.seconds for step in trace.steps) * 1000
    calls = sum(call.seconds for step in trace.steps for call in step.calls) * 1000
    console.print(inert(f"{total - calls:.0f} ms in all stages but the model\n", style="dim"))
    console.print(inert(trace.answer.text))
    for number in sorted({citation.number for citation in trace.answer.citations}):
        chunk = trace.context.kept[number - 1].chunk
        line = f"  [{number}] {chunk.chunk_id}  {chunk.heading}  ({chunk.source})"
        console.print(inert(line, style="dim"))
    console.print(inert(f"  answer: {trace.answer.origin}", style="dim"))


@app.command()
def index(
    corpus: Corpus = "handbook",
    rebuild: Annotated[bool, typer.Option(help="Build it even if one is there.")] = False,
) -> None:
    """Build the index of a corpus, or bring it up to date with its documents."""
    from raglab.lab import corpus_index, default_encoder

    console = Console(highlight=False, soft_wrap=True)
    embedder = default_encoder()
    built = corpus_index(
        corpus, embedder, rebuild=rebuild, say=lambda done: console.print(inert(done))
    )
    manifest = built.manifest
    console.print(
        f"{manifest.documents} documents, {manifest.chunks} chunks, "
        f"{embedder.embedded} embedded now, in {built.folder}",
        markup=False,
    )
    if manifest.truncated:
        console.print(
            f"{manifest.truncated} chunks hold more than {manifest.limit} word pieces: "
            "the encoder does not see what follows"
        )


@app.command()
def chunk(
    file: Annotated[Path, typer.Argument(help="A document: md, txt, html, pdf or docx.")],
    strategy: Annotated[
        str, typer.Option(help="Which chunker; `all` compares them.")
    ] = "recursive",
    size: Annotated[int | None, typer.Option(min=1, help="Word pieces in a chunk.")] = None,
    overlap: Annotated[int | None, typer.Option(min=0, help="Word pieces shared.")] = None,
) -> None:
    """Show where a chunker cuts a document."""
    from raglab.ingest.load import load_file
    from raglab.lab import default_encoder, strategies

    encoder = default_encoder()
    document = load_file(file)
    chunkers = strategies(encoder)
    if strategy not in chunkers and strategy != "all":
        raise RagLabError(f"no strategy {strategy!r}: there are {', '.join(chunkers)}, and all")
    console = Console()
    pieces = Table("strategy", "chunks", "shortest", "mean", "longest", "past the limit", box=None)
    for name in chunkers if strategy == "all" else (strategy,):
        chunker = _turned(chunkers[name], strategy != "all", size=size, overlap=overlap)
        chunks = chunker.chunk(document)
        lengths = [encoder.count(one.indexed_text) for one in chunks] or [0]
        past = sum(max(0, length - encoder.limit) for length in lengths)
        mean = f"{sum(lengths) / len(lengths):.0f}"
        pieces.add_row(
            name, str(len(chunks)), str(min(lengths)), mean, str(max(lengths)), str(past)
        )
        if strategy != "all":
            _show_chunks(console, chunks, lengths)
    console.print(pieces)


def _turned(chunker: Chunker, strict: bool, **given: int | None) -> Chunker:
    """The chunker with the settings that were given and that it has; `strict` minds the others."""
    turned = {name: value for name, value in given.items() if value is not None}
    unknown = [name for name in turned if not hasattr(chunker, name)]
    if unknown and strict:
        raise RagLabError(f"{chunker!r} has no {unknown[0]}: leave --{unknown[0]} out")
    known = {name: value for name, value in turned.items() if name not in unknown}
    return cast("Chunker", replace(cast(Any, chunker), **known))


def _show_chunks(console: Console, chunks: Sequence[Chunk], lengths: Sequence[int]) -> None:
    styles = ("cyan", "yellow")  # neighbours differ, and each has a line of its own above it
    for number, (one, length) in enumerate(zip(chunks, lengths, strict=False)):
        title = f"── {one.chunk_id}  {length} word pieces, {one.start}–{one.end}  {one.heading}"
        console.print(inert(title, style="bold"))
        console.print(inert(one.text, style=styles[number % 2]))


app.command("eval")(evaluate)


@app.command()
def doctor() -> None:
    """Check each part of the lab, and say how to mend what is not well."""
    from raglab.doctor import checks

    failed = 0
    for check in checks():
        print(check, flush=True)
        failed += not check.ok
    print(f"\n{failed} to mend" if failed else "\nready")
    if failed:
        raise typer.Exit(1)


@app.command()
def lab(
    notebook: Annotated[
        str, typer.Argument(help="Its number, the start of its name, or a file.")
    ] = FIRST,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab at the Explorer, or at another notebook."""
    from raglab.present import find_notebook

    found = find_notebook(notebook, NOTEBOOKS)
    sign(found)
    for other in NOTEBOOKS.glob("*.ipynb"):  # one leads to another
        with suppress(Exception):  # one that cannot be read must not keep this one shut
            sign(other)
    # `raglab` may run from an environment that was never activated: use its own jupyter.
    command = [sys.executable, "-m", "jupyterlab", str(found)]
    # Neither news nor a list of extensions: nothing is asked of the network.
    command += [f"--ServerApp.root_dir={NOTEBOOKS}", "--LabApp.news_url=None"]
    command += ["--LabApp.extension_manager=readonly"]
    command += ["--ServerApp.jpserver_extensions={'voila.server_extension': False}"]
    command += [] if browser else ["--no-browser"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command += ["--allow-root"]  # in a container, root is often the only user
    try:
        raise typer.Exit(subprocess.call(command, env=_quiet()))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


@app.command()
def present(
    notebook: Annotated[str, typer.Argument(help="Its number, the start of its name, or a file.")],
    host: Annotated[
        str, typer.Option(help="Where to serve; 0.0.0.0 shows it to the room.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8866,
    dark: Annotated[bool, typer.Option("--dark", help="Light type on a dark page.")] = False,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Show a notebook as slides with live panels, for a projector."""
    from raglab.present import find_notebook

    found = find_notebook(notebook, NOTEBOOKS)
    from raglab.present.server import serve  # seconds to import: only once there is what to show

    serve(found, host=host, port=port, dark=dark, browser=browser)


def _quiet() -> dict[str, str]:
    """JupyterLab reads these settings too: no question about news, no button that asks a CDN."""
    ours = str(Path(__file__).resolve().parent / "jupyter")
    path = os.pathsep.join(filter(None, (ours, os.environ.get("JUPYTER_CONFIG_PATH"))))
    return {**os.environ, "JUPYTER_CONFIG_PATH": path}


def sign(notebook: Path) -> None:
    """Trust a notebook of the workbook: JupyterLab shows kept pictures of trusted ones alone."""
    import nbformat
    from nbformat.sign import NotebookNotary

    NotebookNotary().sign(nbformat.read(notebook, as_version=4))


def main() -> None:
    """Runs a command; an error that the reader can mend is a sentence, not a traceback."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        app()
    except RagLabError as error:
        Console(stderr=True).print(inert(f"raglab: {error}"), soft_wrap=True)
        sys.exit(1)
