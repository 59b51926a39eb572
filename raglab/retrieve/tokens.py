"""Words as BM25 sees them: lower case, codes and names kept whole and in parts.

`ERR_2043` gives `err_2043`, `err` and `2043`; `get_user_by_id` gives itself and its four words.
So the exact name wins by its rare whole, and "user by id" still finds it.  Plain words are
stemmed (Snowball's English rules; Porter 2001), so "refunds" and "refunded" are one term.

Left out: stop words (idf already makes them light) and languages written without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Tokenizer:
    """text -> terms. `stem=False` keeps words as they are written, but for case."""

    stem: bool = True

    def __call__(self, text: str) -> list[str]:
        """
        >>> Tokenizer()("Refunds for ERR_2043")
        ['refund', 'for', 'err_2043', 'err', '2043']
        """
        return [term for term, _ in self.terms(text)]

    def terms(self, text: str) -> Iterator[tuple[str, str]]:
        """Pairs of a term and the word that it came from, as it stands in the text."""
        for match in _WORD.finditer(text):
            word = match[0]
            lowered = word.lower()
            if "_" in lowered:
                yield lowered, word
                for part in _NAME_PART.findall(lowered):
                    yield self._stemmed(part), part
            else:
                yield self._stemmed(lowered), word

    def _stemmed(self, word: str) -> str:
        return str(_stemmer().stemWord(word)) if self.stem and word.isalpha() else word


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")
