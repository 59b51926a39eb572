"""Reads documents and golden questions.  With `load.py`, the only place that parses input.

Markdown with front matter (YAML between `---` lines: id, title, source, updated, groups), golden
questions as JSON lines, and BEIR folders (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`; Thakur
et al. 2021, "BEIR").  What cannot be read is an error that names the file, the line and the mend.
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frontmatter
from yaml import YAMLError

from raglab.types import Document, Evidence, Query, Question, RagLabError

Qrels = dict[str, dict[str, int]]
"""query_id -> doc_id -> relevance (0 is not relevant)."""


def read_folder(folder: Path | str) -> tuple[Document, ...]:
    """Every `*.md` under a folder, in order of path."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RagLabError(f"{folder} is not a folder: give the folder that holds the .md files")
    documents = tuple(read_markdown(path, folder) for path in sorted(folder.rglob("*.md")))
    if not documents:
        raise RagLabError(f"{folder} holds no .md file: put documents there, or name another")
    seen: dict[str, int] = {}
    for document in documents:
        seen[document.doc_id] = seen.get(document.doc_id, 0) + 1
    twice = sorted(doc_id for doc_id, count in seen.items() if count > 1)
    if twice:
        raise RagLabError(f"{folder}: the id {twice[0]!r} stands in two files: change one")
    return documents


def read_markdown(path: Path, folder: Path | None = None) -> Document:
    """One Markdown file. Without front matter, its path below `folder` is its id."""
    name = path.relative_to(folder).with_suffix("").as_posix() if folder else path.stem
    try:
        return parse_markdown(path.read_text(encoding="utf-8-sig"), name, path.name)
    except UnicodeDecodeError as error:
        raise RagLabError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except RagLabError as error:
        raise RagLabError(f"{path}: {error}") from error


def parse_markdown(text: str, name: str = "", source: str = "") -> Document:
    """Markdown and its front matter; `name` and `source` stand in for what the card leaves out.

    >>> parse_markdown("---\\nid: refunds\\n---\\n# Refunds\\n\\nFive days.").title
    'Refunds'
    """
    text = text.strip()
    try:
        card, content = frontmatter.parse(text)
    except (YAMLError, ValueError) as error:
        mend = "its front matter is not YAML: mend the lines between the `---`"
        raise RagLabError(f"{mend} ({error})") from error
    if not card and text.removesuffix(content).strip("- \n"):
        content = text  # no card: text between two rules
    if not _is_small(card):
        raise RagLabError("its front matter is too large: keep it to a few lines")
    groups = card.get("groups") or ()
    if not isinstance(groups, list | tuple):
        raise RagLabError(f"groups must be a list, such as [hr], not {groups!r}")
    known = {"id", "title", "source", "updated", "groups"}
    return Document(
        doc_id=str(card.get("id") or name),
        text=content,
        title=str(card.get("title") or first_heading(content) or name),
        source=str(card.get("source") or source),
        updated=str(card.get("updated") or ""),
        groups=tuple(map(str, groups)),
        metadata={str(key): str(value) for key, value in card.items() if key not in known},
    )


def first_heading(text: str) -> str:
    first = next((line for line in text.splitlines() if line.startswith("# ")), "")
    return first.removeprefix("# ").strip()


def _is_small(card: object) -> bool:
    """Whether it spells out to few values. YAML's aliases can make a line stand for millions."""
    waiting = [card]
    for _ in range(1000):
        if not waiting:
            return True
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set):
            waiting.extend(value)
    return False


def read_python() -> tuple[Document, ...]:
    """The language reference that every CPython carries, a document a topic; nothing is copied."""
    from pydoc_data.topics import topics

    source = f"Python {platform.python_version()}, pydoc_data.topics"
    documents = []
    for name, text in sorted(topics.items()):
        first = next((line.strip() for line in text.splitlines() if line.strip()), name)
        documents.append(Document(name, text.strip("\n"), first, source))
    return tuple(documents)


def read_questions(path: Path | str) -> tuple[Question, ...]:
    """Golden questions, a JSON object a line."""
    questions = []
    for number, row in _json_lines(Path(path)):
        try:
            evidence = tuple(Evidence(e["doc_id"], e["quote"]) for e in row["evidence"])
            lists = {name: tuple(row.get(name, ())) for name in ("groups", "history")}
            questions.append(Question(**{**row, **lists, "evidence": evidence}))
        except (KeyError, TypeError) as error:
            raise RagLabError(
                f"{path}:{number} is not a golden question ({error}): "
                "see data/README.md for the fields"
            ) from error
    return tuple(questions)


def read_beir_documents(folder: Path | str) -> tuple[Document, ...]:
    """The documents of a BEIR folder, from its `corpus.jsonl`."""
    folder = Path(folder)
    documents = []
    for number, row in _json_lines(folder / "corpus.jsonl"):
        if "_id" not in row:
            raise RagLabError(f"{folder}/corpus.jsonl:{number} has no _id: give each document one")
        title, body = str(row.get("title") or ""), str(row.get("text") or "")
        text = f"{title} {body}".strip()
        documents.append(Document(str(row["_id"]), text, title, source=folder.name))
    return tuple(documents)


def read_beir(
    folder: Path | str, split: str = "test"
) -> tuple[tuple[Document, ...], tuple[Query, ...], Qrels]:
    """A BEIR folder. A document's text is its title, a space, and its body; only queries that
    the split judges are returned."""
    folder = Path(folder)
    documents = read_beir_documents(folder)
    qrels: Qrels = {}
    try:
        with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file, delimiter="\t"):
                judged = qrels.setdefault(line["query-id"], {})
                judged[line["corpus-id"]] = int(line["score"])
    except (OSError, KeyError, ValueError) as error:
        raise RagLabError(
            f"{folder}/qrels/{split}.tsv cannot be read ({error!r}): it needs the columns "
            "query-id, corpus-id and score, separated by tabs"
        ) from error
    queries = tuple(
        Query(str(row["_id"]), str(row["text"]), origin=folder.name)
        for _, row in _json_lines(folder / "queries.jsonl")
        if str(row["_id"]) in qrels
    )
    return documents, queries, qrels


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RagLabError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise RagLabError(f"{path}:{number} is not JSON ({error})") from error
