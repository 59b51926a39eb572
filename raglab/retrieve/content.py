"""Words that carry a meaning of their own, and where they stand.

"the", "of" and "is" say little about what a text is about, and so they do not count where two texts
are compared word by word.

Left out: other languages than English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from raglab.retrieve.tokens import Tokenizer

_WORD = re.compile(r"[^\W_]+(?:[’'_-][^\W_]+)*")
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the this that these those it its he she his her they them their we us our you your
        i my one who whom whose which what whoever whatever and or but if then than as of to in on
        at by for from with about into over under after before since until while during between
        among within per is are was were be been being has have had having do does did doing can
        could may might must shall should will would so too also such there here where when how
        why only just even still already yet again further very much more most less least no not
        never nor neither nobody none nothing without cannot unless except because although
        though""",
    )
)
_terms = Tokenizer()


@lru_cache(maxsize=2**14)
def stem(word: str) -> str:
    """A word as it is compared: in lower case, its ending cut, a name with `_` whole."""
    return (_terms(word) or [word.lower()])[0]


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start: int
    stem: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def content(self) -> bool:
        """Does it carry a meaning of its own?"""
        return self.text.lower() not in FUNCTION_WORDS


def words(text: str) -> tuple[Word, ...]:
    """
    >>> [word.stem for word in words("Refunds for get_user_by_id, read-only")]
    ['refund', 'for', 'get_user_by_id', 'read']
    """
    return tuple(Word(m[0], m.start(), stem(m[0])) for m in _WORD.finditer(text))
