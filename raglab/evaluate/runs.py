"""Runs as files: what a search returned, in the format that every evaluation tool reads.

A *run* is, for each query, the ids found with their scores, best first.  *Qrels* say which of
them are relevant.  TREC's formats for both are one line each:

    run      query_id Q0 doc_id rank score tag
    qrels    query_id 0 doc_id grade

Columns are separated by white space, so an id that holds some cannot be written.  It is refused
rather than encoded: an id that was changed would match no one else's qrels.

trec_eval, and ir_measures with it, looks neither at the rank nor at the order of the lines.  It
keeps scores as 32-bit floats, sorts by them, and puts equal ones in falling order of doc_id.

Left out: compressed files, and the tag and rank when reading.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from raglab.evaluate.metrics import Qrels
from raglab.files import write_whole
from raglab.types import RagLabError, Ranking

Ranked = tuple[tuple[str, float], ...]
"""(doc_id, score), best first."""
Run = Mapping[str, Ranked]
"""query_id -> what was found."""

_RUN_LINE = "a line is `query_id Q0 doc_id rank score tag`"


def by_chunk(hits: Ranking) -> Ranked:
    return tuple((hit.chunk.chunk_id, hit.score) for hit in hits)


def by_document(hits: Ranking) -> Ranked:
    """Each document once, at its best chunk: MaxP (Dai and Callan 2019, "Deeper Text Understanding
    for IR with Contextual Neural Language Modeling")."""
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.chunk.doc_id, hit.score)
    return tuple(best.items())


def ids(run: Run) -> dict[str, list[str]]:
    """query_id -> the ids alone, as the measures take them."""
    return {query_id: [doc_id for doc_id, _ in found] for query_id, found in run.items()}


def write_run(path: Path | str, run: Run, tag: str) -> Path:
    """Write a TREC run file."""
    return write_whole(path, run_text(run, tag))


def run_text(run: Run, tag: str) -> str:
    """A TREC run whose order every tool reads as it is here."""
    check_ids([tag, *run], (doc_id for found in run.values() for doc_id, _ in found))
    lines = []
    for query_id, found in run.items():
        falling = strictly_falling([score for _, score in found])
        for rank, ((doc_id, _), score) in enumerate(zip(found, falling, strict=True), start=1):
            # Nine digits give back a 32-bit float exactly.
            lines.append(f"{query_id} Q0 {doc_id} {rank} {score:.9g} {tag}\n")
    return "".join(lines)


def qrels_text(qrels: Qrels) -> str:
    """TREC qrels. A query with nothing relevant gets a line of grade 0, so that other tools count
    it too."""
    check_ids(qrels, (doc_id for judged in qrels.values() for doc_id in judged))
    lines = [
        f"{query_id} 0 {doc_id} {grade}\n"
        for query_id, judged in qrels.items()
        for doc_id, grade in (judged or {"nothing-is-relevant": 0}).items()
    ]
    return "".join(lines)


def read_run(path: Path | str) -> dict[str, Ranked]:
    """Read a TREC run file, in the order that trec_eval would give it."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RagLabError(
            f"{path} cannot be read ({error}): name a run file, UTF-8, where {_RUN_LINE}"
        ) from error
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.split()
        if len(columns) != 6:
            raise RagLabError(
                f"{path}:{number} holds {len(columns)} columns, not 6: {_RUN_LINE}, and no id "
                "holds a space"
            )
        query_id, _, doc_id, _, score, _ = columns
        scores = found.setdefault(query_id, {})
        if doc_id in scores:
            raise RagLabError(
                f"{path}:{number} ranks {doc_id!r} a second time for the query {query_id!r}: "
                "keep one of the two lines"
            )
        scores[doc_id] = _score(score, f"{path}:{number}")
    return {query_id: _as_trec_eval(scores) for query_id, scores in found.items()}


def strictly_falling(scores: Sequence[float]) -> list[float]:
    """32-bit scores, each below the one before: a score moves only where it must, by one step.

    A tool that sorts by score then finds no tie, and so has no order of its own to give.

    >>> strictly_falling([2.0, 1.0, 1.0, 0.5])
    [2.0, 1.0, 0.9999999403953552, 0.5]
    """
    falling: list[float] = []
    last = np.float32(np.inf)
    for score in scores:
        if not math.isfinite(score):
            raise RagLabError(f"a score is {score}: a run file holds finite numbers only")
        last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
        falling.append(float(last))
    return falling


def check_ids(query_ids: Iterable[str], doc_ids: Iterable[str]) -> None:
    """Raises RagLabError for an id that a TREC file cannot hold: none, white space, or bytes that
    are no text."""
    for which, names in (("query", query_ids), ("document", doc_ids)):
        for name in names:
            odd = any(unicodedata.category(character) in ("Cc", "Cs") for character in name)
            if odd or name.split() != [name]:
                raise RagLabError(
                    f"the {which} id {name!r} cannot stand in a TREC file, whose columns are "
                    "separated by spaces: give it an id without spaces, or write no run file"
                )


def _score(text: str, place: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise RagLabError(f"{place}: the score {text!r} is no number: write one, such as 12.5")
    return score


def _as_trec_eval(scores: Mapping[str, float]) -> Ranked:
    falling = sorted(scores.items(), key=lambda item: item[0].encode(), reverse=True)
    # A stable sort: those of equal score stay in falling order of id.
    return tuple(sorted(falling, key=lambda item: -np.float32(item[1])))
