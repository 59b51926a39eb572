"""Which parts of scores a word of the query had a hand in: what lights up when a reader points.

Left out: the analyzer of each retriever. Likeness of spelling finds what a reader would.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def words_of(query: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each word of the query, the numbers of the part names that come from it.

    A part is named for a stem or a word piece, so a word and a part belong together where one
    begins as the other does.

    >>> words_of("Refund policies?", ["cosine", "refund", "polici", "match: policies"])
    [{'text': 'Refund', 'names': [1]}, {'text': 'policies', 'names': [2, 3]}]
    """
    parts = [re.sub(r"^match: | \(\d+\)$", "", name).casefold() for name in names]
    return [
        {"text": word, "names": [n for n, part in enumerate(parts) if akin(word.casefold(), part)]}
        for word in dict.fromkeys(re.findall(r"\w+", query))
    ]


def akin(word: str, part: str) -> bool:
    """
    >>> akin("policies", "polici"), akin("err_2043", "2043"), akin("is", "issue")
    (True, True, False)
    """
    if word == part or part in word.split("_"):
        return True
    same = max(3, min(len(word), len(part)) - 1)
    return len(part) >= same <= len(word) and word[:same] == part[:same]
