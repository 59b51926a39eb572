"""Words as BM25 sees them: lower case, codes and names kept whole and in parts.

`ERR_2043` gives `err_2043`, `err` and `2043`; `get_user_by_id` gives itself and its four words.
So the exact name wins by its rare whole, and "user by id" still finds it.  Plain words are
stemmed (Snowball's English rules; Porter 2001), so "refunds" and "refunded" are one term.

Three settings let a reader measure these choices: how text is `split`, whether words are stemmed,
and whether stop words such as "the" are dropped.  By default they stay, for idf already makes them
light.  Lists of stop words hold surprises: scikit-learn's holds "bill", "call" and "system"
(Nothman, Qin and Yurchak 2018).

Left out: languages written without spaces, synonyms, and spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, Literal, get_args

from raglab.types import RagLabError

Split = Literal["both", "whole", "parts", "space"]
SPLITS: tuple[Split, ...] = get_args(Split)

_SPACED = re.compile(r"\S+")
_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[^\W_]+")
_KNOWN_WORDS = 2**16  # words whose terms a tokenizer remembers
_LONG = 64  # no word of a text that holds a longer one is remembered: it may be very large

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Tokenizer:
    """text -> terms. `stem=False` keeps words as they are written, but for case.

    split: "both" keeps a name with `_` whole and in parts, "whole" and "parts" keep one of the
    two, "space" cuts at white space only, so that "id?" is another term than "id".
    drop_stop_words: leaves out scikit-learn's English stop words, as words and as parts of names.
    """

    stem: bool = True
    split: Split = "both"
    drop_stop_words: bool = False

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise RagLabError(f"no split {self.split!r}: choose one of {', '.join(SPLITS)}")

    def __call__(self, text: str) -> list[str]:
        """
        >>> Tokenizer()("Refunds for ERR_2043")
        ['refund', 'for', 'err_2043', 'err', '2043']
        >>> Tokenizer(stem=False, split="parts", drop_stop_words=True)("Refunds for ERR_2043")
        ['refunds', 'err', '2043']
        """
        return [term for term, _ in self.terms(text)]

    def terms(self, text: str) -> Iterator[tuple[str, str]]:
        """Pairs of a term and the word that it came from, as it stands in the text."""
        words = (_SPACED if self.split == "space" else _WORD).findall(text)
        long = max(map(len, words), default=0) > _LONG
        return chain.from_iterable(map(self._cut if long else self._remembered, words))

    @cached_property
    def _remembered(self) -> Callable[[str], Pairs]:
        """A corpus repeats its words: each is cut and stemmed once."""
        return lru_cache(_KNOWN_WORDS)(self._cut)

    def _cut(self, word: str) -> Pairs:
        lowered = word.lower()
        pairs = []
        if "_" not in lowered or self.split == "space":
            pairs.append((self._stemmed(lowered), word))
        else:
            if self.split != "parts":
                pairs.append((lowered, word))
            if self.split != "whole":
                parts = _NAME_PART.findall(lowered)
                pairs += [(self._stemmed(part), part) for part in parts]
        dropped = stop_words() if self.drop_stop_words else frozenset()
        return tuple((term, word) for term, word in pairs if word.lower() not in dropped)

    def _stemmed(self, word: str) -> str:
        return str(_stemmer().stemWord(word)) if self.stem and word.isalpha() else word


@cache
def stop_words() -> frozenset[str]:
    """scikit-learn's English list, 318 words."""
    words: frozenset[str] = import_module("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS
    return words


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")
