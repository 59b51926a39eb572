"""What a run changed, in words; and what went wrong, in words."""

from __future__ import annotations

from raglab.types import RagLabError
from raglab.views.model import Model, ranks_of


def changes(old: Model, new: Model) -> str:
    """What a run changed, in words.

    >>> empty = {"query": "q", "columns": [], "chunks": []}
    >>> changes(empty, empty)
    'The same chunks are in the same places.'
    """
    before = {column["name"]: column for column in old["columns"]}
    said = []
    for column in new["columns"]:
        was = before.get(column["name"])
        if was is None or was["count"] != column["count"]:
            said.append(f"{column['name']} {column['count']} (was {was['count'] if was else 0})")
    if old["query"] != new["query"]:
        counts = ", ".join(f"{column['name']} {column['count']}" for column in new["columns"])
        return f"A new query: {counts}."
    entered, left = _prompt(new) - _prompt(old), _prompt(old) - _prompt(new)
    said += [f"into the prompt: {', '.join(sorted(entered))}"] if entered else []
    said += [f"out of the prompt: {', '.join(sorted(left))}"] if left else []
    if said:
        return f"Now {'; '.join(said)}."
    if ranks_of(old) != ranks_of(new):
        return "The same chunks reach the prompt; some changed rank on the way."
    return "The same chunks are in the same places."


def _prompt(model: Model) -> set[str]:
    columns = [column for column in model["columns"] if column["stage"] == "assemble"]
    return {row[0] for column in columns for row in column["rows"]}


def in_words(error: Exception) -> str:
    """One line of plain text; the widget shows it as text, so markup in it stays inert."""
    said = " ".join(str(error).split()) or "no reason given"
    kind = "" if isinstance(error, RagLabError) else f"{type(error).__name__}: "
    stop = "" if said.endswith((".", "?")) else "."
    return f"This did not run: {kind}{said}{stop} The picture still shows the run before."
