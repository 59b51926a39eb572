"""`raglab eval`: what it prints and writes, that other tools agree, and how it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import ir_measures
import pytest
from ir_measures import RR, R, nDCG
from typer.testing import CliRunner, Result

from raglab import cli
from raglab.evaluate.intervals import interval
from raglab.evaluate.runs import read_run
from raglab.presets import SEARCHES
from raglab.types import RagLabError

SHARED = os.environ["RAGLAB_CACHE"]
THEIRS = {
    "nDCG@10": nDCG @ 10, "R@5": R @ 5, "R@10": R @ 10, "R@20": R @ 20, "R@100": R @ 100,
    "MRR@10": RR @ 10,
}  # fmt: skip
SUBJECTS = {
    "tea": "Green tea is steeped for two minutes below the boil.",
    "bread": "A sour dough rises overnight in a cool kitchen.",
    "rope": "A bowline holds a loop that does not slip under load.",
    "moon": "The moon turns once on its axis in each orbit.",
    "bees": "Bees dance to tell the hive where flowers stand.",
    "ice": "Sea ice holds less salt than the water it froze from.",
    "clock": "A longer pendulum swings more slowly.",
    "glass": "Tempered glass breaks into small blunt pieces.",
}
QUERIES = {
    "q1": ("how long should I brew green tea", {"tea-0": 2, "tea-1": 1}),
    "q2": ("knot that keeps its loop", {"rope-0": 1}),
    "q3": ("why do bees dance", {"bees-0": 1, "bees-1": 1}),
    "q4": ("saltiness of frozen sea water", {"ice-1": 1, "moon-0": 0}),
    "q5": ("slowing down a pendulum clock", {"clock-0": 1, "not-in-the-corpus": 1}),
    "q6": ("who won the match", {"glass-1": 0}),
}


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen documents of a sentence or two, in pairs that nearly tie, and six queries."""
    folder = tmp_path_factory.mktemp("beir")
    documents = [
        {"_id": f"{name}-{number}", "title": name, "text": text + " Much is told of it." * number}
        for name, text in SUBJECTS.items()
        for number in (0, 1)
    ]
    (folder / "corpus.jsonl").write_text(lines(*documents))
    asked = ({"_id": query_id, "text": text} for query_id, (text, _) in QUERIES.items())
    (folder / "queries.jsonl").write_text(lines(*asked))
    (folder / "qrels").mkdir()
    rows = [
        f"{query_id}\t{doc_id}\t{grade}\n"
        for query_id, (_, judged) in QUERIES.items()
        for doc_id, grade in judged.items()
    ]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    return folder


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("RAGLAB_CACHE", str(folder))
        yield folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["eval", *(str(argument) for argument in arguments)])


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, RagLabError), result.output
    return str(result.exception)


def test_ir_measures_reads_the_same_figures_from_the_run_files(beir: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    result = run(beir, "--run", tmp_path / "runs", "--json", figures)
    assert result.exit_code == 0, result.output
    stored = json.loads(figures.read_text())
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "runs" / "qrels.trec")))
    assert list(stored["means"]) == list(SEARCHES)
    for name, means in stored["means"].items():
        file = tmp_path / "runs" / f"{name}.trec"
        trec = list(ir_measures.read_trec_run(str(file)))
        theirs = ir_measures.calc_aggregate(THEIRS.values(), qrels, trec)
        each = {
            (m.query_id, m.measure): m.value
            for m in ir_measures.iter_calc(THEIRS.values(), qrels, trec)
        }
        for label, measure in THEIRS.items():
            assert means[label]["all"]["value"] == pytest.approx(theirs[measure], abs=1e-6)
            for query_id, value in stored["values"][name][label].items():
                assert value == pytest.approx(each[query_id, measure], abs=1e-6)
    assert stored["means"]["dense"]["R@5"]["all"]["value"] > 0.5  # it did search


def test_a_table_for_means_and_one_for_differences(beir: Path) -> None:
    result = run(beir, "--preset", "dense", "--preset", "sparse", "--baseline", "sparse")
    assert result.exit_code == 0, result.output
    shown = result.stdout.splitlines()
    assert shown[0] == "built from 16 documents" or shown[0].startswith(str(beir))
    assert "test: 6 of 6 queries, 16 chunks" in result.stdout
    assert max(map(len, shown[2:])) <= 80
    rows = [line.split() for line in shown]
    assert ["nDCG@10", "R@5", "R@10", "R@20", "R@100", "MRR@10"] in rows
    assert ["all", "n", "=", "6"] in rows
    against = [row for row in rows if row[:2] == ["dense", "nDCG@10"]]
    assert len(against) == 1
    assert "against sparse" in result.stdout
    assert not any(row[:2] == ["sparse", "nDCG@10"] for row in rows)
    assert "6 tests stand here" in result.stdout


def test_the_figures_that_are_printed_are_those_that_are_written(
    beir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "f.json"
    result = run(beir, "--preset", "sparse", "--preset", "dense", "--queries", 3, "--json", file)
    stored = json.loads(file.read_text())
    assert (stored["baseline"], stored["queries"]) == ("sparse", 3)
    assert list(stored["values"]["dense"]["R@5"]) == ["q1", "q3", "q5"]
    mean = interval(list(stored["values"]["dense"]["R@5"].values()))
    assert stored["means"]["dense"]["R@5"]["all"]["value"] == mean.value
    assert f"{mean.value:.3f}" in result.stdout
    difference = stored["comparisons"]["dense"]["R@5"]["difference"]
    assert f"{difference['value']:+.2f} [" in result.stdout
    assert f"wrote {file}" in result.stdout


def test_one_preset_alone_can_be_one_file(beir: Path, tmp_path: Path) -> None:
    file = tmp_path / "sparse.trec"
    result = run(beir, "--preset", "sparse", "--queries", 2, "--run", file)
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["sparse.trec"]
    assert list(read_run(file)) == ["q1", "q4"]
    assert "against" not in result.stdout
    assert "2 presets make 2 runs: name a folder" in refused(
        beir, "--preset", "sparse", "--preset", "dense", "--run", tmp_path / "both.trec"
    )


def test_chunks_count_for_their_document(beir: Path, tmp_path: Path) -> None:
    file = tmp_path / "sparse.trec"
    result = run(beir, "--preset", "sparse", "--chunker", "default", "--run", file)
    assert result.exit_code == 0, result.output
    found = [doc_id for ranked in read_run(file).values() for doc_id, _ in ranked]
    assert "tea-0" in found
    assert not any("#" in doc_id for doc_id in found)


def test_an_index_is_kept(beir: Path, cache: Path) -> None:
    again = run(beir, "--preset", "sparse")
    assert "built from" not in again.stdout
    kept = {path.name.rpartition("-")[2] for path in (cache / "indexes").iterdir() if path.is_dir()}
    assert "whole" in kept


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--preset", "best"), "no preset 'best': there are dense, sparse, hybrid, reranked"),
        (("--baseline", "best"), "no preset 'best'"),
        (("--chunker", "mine"), "no chunker 'mine' here: there are whole and default"),
        (("--split", "train"), "has no split 'train': there are"),
        (("--kind", "table"), "no questions of the kind 'table': there are all"),
    ],
)
def test_a_choice_that_is_not_there(beir: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in refused(beir, *arguments)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("qrels/test.tsv", None, "has no qrels, so nothing says what is relevant: put them"),
        ("qrels/test.tsv", "q\td\t1\n" * 2, "needs the columns query-id, corpus-id and score"),
        ("queries.jsonl", "", "stands in queries.jsonl: below a header line, the column query-id"),
        ("queries.jsonl", lines({"_id": "q", "text": " "}), "'q' has no text: write one"),
        ("corpus.jsonl", lines({"_id": "d"}, {"_id": "d"}), "the id 'd' stands twice: change one"),
    ],
)
def test_a_folder_that_cannot_judge(tmp_path: Path, file: str, text: str | None, says: str) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(lines({"_id": "d", "text": "refund"}))
    (tmp_path / "queries.jsonl").write_text(lines({"_id": "q", "text": "refund"}))
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    (tmp_path / file).write_text(text) if text is not None else (tmp_path / file).unlink()
    assert says in refused(tmp_path, "--preset", "sparse")


def test_ids_are_checked_before_the_search(beir: Path, tmp_path: Path) -> None:
    qrels = (beir / "qrels" / "test.tsv").read_text().replace("not-in", "not in")
    (beir / "qrels" / "spaces.tsv").write_text(qrels)
    arguments = (beir, "--split", "spaces", "--preset", "sparse")
    assert run(*arguments).exit_code == 0
    said = refused(*arguments, "--run", tmp_path / "runs")
    assert "the document id 'not in-the-corpus' cannot stand in a TREC file" in said
    assert not (tmp_path / "runs").exists()


def test_a_corpus_without_judgements(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("refund")
    assert "give one of handbook, python, or a BEIR folder" in refused(tmp_path)
    assert "handbook has no split 'train': there are dev, test" in refused(
        "handbook", "--split", "train"
    )


def test_a_place_that_cannot_be_written(beir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for option in (("--json", tmp_path / "file" / "x.json"), ("--run", tmp_path / "file")):
        said = refused(beir, "--preset", "sparse", "--queries", 1, *option)
        assert "cannot be written" in said
        assert "name a place that can be written" in said


def test_escape_codes_in_names_do_not_reach_the_terminal(beir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m[bold]b"
    folder.symlink_to(beir, target_is_directory=True)
    result = run(folder, "--preset", "sparse", "--queries", 1)
    assert "\x1b" not in result.stdout
    assert "[31m[bold]b, test: 1 of 6 queries" in result.stdout


def test_golden_questions_by_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGLAB_CACHE", SHARED)  # where the handbook's index is already
    file = tmp_path / "f.json"
    result = run("handbook", "--preset", "sparse", "--split", "dev", "--json", file)
    assert result.exit_code == 0, result.output
    assert "15 questions without evidence left out" in result.stdout
    assert "9 questions searched with the turn before put in front" in result.stdout
    means = json.loads(file.read_text())["means"]["sparse"]["R@5"]
    assert {"numeric", "conversational", "all"} < set(means)
    assert "unanswerable" not in means
    assert means["exact-token"]["value"] > means["paraphrase"]["value"]  # BM25 matches words
