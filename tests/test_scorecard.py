"""The scorecard: by hand, as a file, as a gate, and over the handbook."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from raglab import cli
from raglab.evaluate.gate import regressions, verdict
from raglab.evaluate.intervals import interval
from raglab.evaluate.judge import OfflineJudge
from raglab.evaluate.outcomes import Outcome
from raglab.evaluate.scorecard import METRICS, Scorecard, Spent, scorecard, spending
from raglab.lab import golden_questions
from raglab.pipeline import Pipeline
from raglab.prices import Price
from raglab.trace import Step, Trace
from raglab.types import Answer, Completion, Context, Query, Question, RagLabError

KINDS = {f"q{n}": "numeric" if n < 8 else "table" for n in range(16)}
SPENT = Spent(1000.0, 50.0, 3.75, {"retrieve": 5.0, "generate": 10.0})


def card(**right: float) -> Scorecard:
    """One pipeline, judged 1.0 on every question but those named."""
    values = {query_id: right.get(query_id, 1.0) for query_id in KINDS}
    return Scorecard(
        "toy", "test", KINDS, {"plain": {"right": values, "faithfulness": {"q0": 0.5}}},
        {"plain": {"all": SPENT}},
    )  # fmt: skip


def test_cells_by_hand() -> None:
    """Four of the eight numeric questions are wrong, none of the eight tables."""
    made = card(q0=0.0, q1=0.0, q2=0.0, q3=0.0)
    numeric, tables, both = (
        made.cell("plain", "right", kind) for kind in ("numeric", "table", "all")
    )
    assert numeric == interval([0.0] * 4 + [1.0] * 4)
    assert tables == interval([1.0] * 8)
    assert both is not None
    assert both.value == 12 / 16
    assert made.cell("plain", "faithfulness", "table") is None
    assert made.by_kind() == {
        "numeric": tuple(f"q{n}" for n in range(8)),
        "table": tuple(f"q{n}" for n in range(8, 16)),
        "all": tuple(KINDS),
    }


def test_the_table_says_it() -> None:
    lines = card(q0=0.0, q1=0.0, q2=0.0, q3=0.0).table().splitlines()
    assert lines[0] == "toy, test, all: 16 questions"
    rows = {line[:20].strip(): line[20:].strip() for line in lines[1:]}
    assert rows["right"].startswith("0.75 [")
    assert rows["faithfulness"] == "0.50 [0.50, 0.50]"
    assert rows["relevance"] == "–"
    assert (rows["tokens"], rows["USD/1,000"], rows["ms here"]) == ("1050", "3.75", "15.0")


@pytest.mark.parametrize(
    "names", [("other", "right", "all"), ("plain", "beauty", "all"), ("plain", "right", "poems")]
)
def test_unknown_names(names: tuple[str, str, str]) -> None:
    with pytest.raises(RagLabError, match="choose one of"):
        card().of(*names)


def test_two_pipelines_are_compared_on_the_questions_of_both() -> None:
    """Of the three that both judge, each lost 1: p is 2 / 2^3."""
    values = {
        "one": {"right": dict.fromkeys(["q0", "q1", "q2", "q3"], 1.0)},
        "two": {"right": dict.fromkeys(["q1", "q2", "q3", "q4"], 0.0)},
    }
    change = replace(card(), values=values).compared("one", "two", "right")
    assert change is not None
    assert (change.difference.value, change.p, change.harmed) == (-1, 0.25, ("q1", "q2", "q3"))


# -- as a file ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(list(KINDS)), st.floats(0, 1)))
def test_a_saved_card_is_the_same(values: dict[str, float]) -> None:
    made = replace(card(), values={"plain": {"right": values}})
    data = json.loads(made.to_json())
    assert data.pop("format") == 1
    assert Scorecard(**{**data, "spent": {"plain": {"all": SPENT}}}) == made


def test_a_card_loads_again(tmp_path: Path) -> None:
    made = card(q0=0.25)
    loaded = Scorecard.load(made.save(tmp_path / "deep" / "card.json"))
    assert loaded == made
    assert loaded.spent == made.spent


@pytest.mark.parametrize(
    "broken",
    [
        "not json", "[]", "{}",
        card().to_json().replace('"format": 1', '"format": 99'),
        card().to_json().replace('"q9": 1.0', '"q9": "much"'),
        card().to_json().replace('"q9": 1.0', '"q99": 1.0'),
        card().to_json().replace('"q9": 1.0', '"q9": NaN'),
        card().to_json().replace('"faithfulness"', '"beauty"'),
        card().to_json().replace('"read"', '"eaten"'),
    ],
)  # fmt: skip
def test_a_broken_file_says_how_to_mend_it(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(broken)
    with pytest.raises(RagLabError, match="write it again with `raglab eval CORPUS --save FILE`"):
        Scorecard.load(path)


def test_a_place_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="write it again"):
        Scorecard.load(tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(RagLabError, match="name a place"):
        card().save(tmp_path / "file" / "card.json")


# -- as a gate ------------------------------------------------------------------------------------


def test_what_got_worse_is_named() -> None:
    """Six of eight numeric questions are lost: p = 2 / 2^6 = 0.03. Of all 16 it is the same six."""
    worse = regressions(card(), card(**dict.fromkeys((f"q{n}" for n in range(6)), 0.0)))
    assert [(one.metric, one.kind, one.comparison.p) for one in worse] == [
        ("right", "numeric", 2 / 2**6), ("right", "all", 2 / 2**6),
    ]  # fmt: skip
    assert worse[0].comparison.difference.value == -6 / 8
    said = verdict(worse)
    assert said.startswith("2 got worse beyond chance:\n  plain, right, numeric: -0.75")
    assert "(q0, q1, q2, q3, q4 and 1 more)" in said


def test_five_lost_questions_may_be_chance() -> None:
    """p = 2 / 2^5 = 0.0625."""
    assert regressions(card(), card(**dict.fromkeys((f"q{n}" for n in range(5)), 0.0))) == ()


def test_less_than_the_floor_is_no_regression() -> None:
    """All 16 fall by 0.01: p is 2 / 2^16, and nobody would notice."""
    lower = card(**dict.fromkeys(KINDS, 0.99))
    assert regressions(card(), lower) == ()
    assert {one.kind for one in regressions(card(), lower, floor=0.005)} == {
        "numeric",
        "table",
        "all",
    }


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=16, max_size=16))
def test_a_card_is_never_worse_than_itself_or_than_a_lower_one(values: list[float]) -> None:
    made = card(**dict(zip(KINDS, values, strict=True)))
    lower = card(**dict(zip(KINDS, (value / 2 for value in values), strict=True)))
    assert regressions(made, made) == ()
    assert regressions(lower, made) == ()


def test_cards_of_other_questions_are_refused() -> None:
    with pytest.raises(RagLabError, match="compare like with like"):
        regressions(card(), replace(card(), split="dev"))
    with pytest.raises(RagLabError, match="judge other questions"):
        regressions(card(), replace(card(), kinds=KINDS | {"q99": "table"}))
    with pytest.raises(RagLabError, match="--preset plain"):
        regressions(card(), replace(card(), values={"other": {}}))


# -- what it costs --------------------------------------------------------------------------------


def outcome(*calls: Completion, seconds: float, reused: bool = False) -> Outcome:
    query = Query("q", "how much is it")
    context = Context("a b c", (), (), 6, 100)
    steps = (
        Step("rewrite", "rewrite", (), (query,), seconds=0.001),
        Step("context", "assemble", (), context, seconds=seconds, reused=reused),
        Step("answer", "generate", (), Answer("five euro", (), False, ""), calls=calls),
    )
    return Outcome(Question("q", query.text, "numeric", "", (), False), Trace(query, steps))


def test_spending_by_hand() -> None:
    """6 tokens of context and 4 of the query are read, 2 written; a model says 100 and 20."""
    price = Price("m", input=3, output=15, cache_write=0, cache_read=0, cache_least=0, as_of="")
    count = lambda text: len(text.split())  # noqa: E731
    plain = outcome(seconds=0.002)
    called = outcome(Completion("", "m", "", 100, 20), seconds=0.004)
    reused = outcome(seconds=9.0, reused=True)  # its time was another run's
    spent = spending([plain, called, reused], count, price)
    assert (spent.read, spent.written) == ((10 + 100 + 10) / 3, (2 + 20 + 2) / 3)
    assert spent.usd == pytest.approx((40 * 3 + 8 * 15) / 1000)  # a thousand questions
    assert spent.milliseconds == pytest.approx({"rewrite": 1, "assemble": 3, "generate": 0})
    assert spent.total == pytest.approx(4)
    assert spending([plain], count, None).usd is None


def test_what_a_cache_read_or_kept_was_read_and_paid_for() -> None:
    """20 at full price, 1,000 written at a quarter more, 500 read at a tenth; 100 written out."""
    price = Price(
        "m", input=3, output=15, cache_write=3.75, cache_read=0.3, cache_least=0, as_of=""
    )
    call = Completion("", "m", "", 20, 100, cache_write_tokens=1000, cache_read_tokens=500)
    spent = spending([outcome(call, seconds=0.0)], lambda text: len(text.split()), price)
    assert (spent.read, spent.written) == (1520, 100)
    paid = (20 * 3 + 1000 * 3.75 + 500 * 0.3 + 100 * 15) / 1_000_000
    assert spent.usd == pytest.approx(1000 * paid)


# -- over the handbook ----------------------------------------------------------------------------


def test_the_handbook_in_time(lab: Pipeline) -> None:
    """All 232 questions, answered and judged, in less than a minute."""
    embedder = lab.retrievers["dense"].embedder  # type: ignore[attr-defined]
    questions = golden_questions("handbook")
    started = time.process_time()
    made = scorecard({"reranked": lab}, questions, OfflineJudge(embedder), embedder)
    assert time.process_time() - started < 60
    values = made.values["reranked"]
    assert list(values) == list(METRICS)
    known = {one.query_id for one in questions if one.answerable}
    assert values["context recall"].keys() == known
    assert values["refusal recall"].keys() == {one.query_id for one in questions} - known
    assert values["right"].keys() == made.kinds.keys()
    for metric, by_query in values.items():
        least = -1 if metric == "relevance" else 0  # a cosine
        assert all(least <= value <= 1 for value in by_query.values()), metric
    # What each kind took adds up to what all took.
    parts = [(made.spent_on("reranked", k), len(ids)) for k, ids in made.by_kind().items()]
    *kinds, whole = [(spent.read * n, n) for spent, n in parts if spent]
    assert sum(read for read, _ in kinds) == pytest.approx(whole[0])
    assert sum(n for _, n in kinds) == whole[1]
    # An extractive answer repeats its sources, so it is faithful by construction.
    assert set(values["faithfulness"].values()) == {1.0}


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["eval", *(str(argument) for argument in arguments)])
    if isinstance(result.exception, RagLabError):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_command_saves_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    chosen = (
        "handbook",
        "--split",
        "dev",
        "--kind",
        "numeric",
        "--kind",
        "exact-token",
        "--kind",
        "table",
    )
    code, said = run(*chosen, "--preset", "sparse", "--save", file)
    assert (code, Scorecard.load(file).pipelines) == (0, ("sparse",))
    assert "35 questions" in said
    code, said = run(*chosen, "--gate", file)  # of the card's own pipelines
    assert code == 0
    assert "nothing got worse beyond chance" in said
    data = json.loads(file.read_text())  # an earlier card, of a day on which all was right
    right = data["values"]["sparse"]["right"]
    data["values"]["sparse"]["right"] = dict.fromkeys(right, 1.0)
    file.write_text(better := json.dumps(data))
    code, said = run(*chosen, "--gate", file, "--save", file)
    assert code == 1
    assert "got worse beyond chance:" in said
    assert "sparse, right, all" in said
    assert file.read_text() == better  # or the next run would pass


def test_the_command_refuses(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="leave out the one or the other"):
        run("handbook", "--save", tmp_path / "c.json", "--json", tmp_path / "f.json")
    with pytest.raises(RagLabError, match="no golden ones"):
        run(tmp_path, "--save", tmp_path / "c.json")
    with pytest.raises(RagLabError, match="no split 'train'"):
        run("handbook", "--split", "train", "--save", tmp_path / "c.json")
    with pytest.raises(RagLabError, match="no questions of the kind 'poems'"):
        run("handbook", "--kind", "poems", "--save", tmp_path / "c.json")
