"""Facts in a text: numbers, dates, and codes, each in one form however it is written.

A model that compares meanings takes "45 days" and "60 days" for nearly the same.  These are
compared exactly.

    number   an amount and its unit, see `amounts.py`
    date     the year, the month, the day and the weekday, as far as the text gives them
    code     a word that holds a digit or an underscore (ERR_2043, AES-256), or a time of day

Left out: other languages than English, and dates told by others ("the day after").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from raglab.amounts import COUNTED, Number, figures, spans


@dataclass(frozen=True, slots=True)
class Date:
    """As much of a date as the text gives; None where it gives nothing."""

    said: str
    start: int
    end: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: str | None = None

    def agrees(self, other: object, nearly: bool = False) -> bool:
        """Does the other say all that this one says, its year aside, and nothing else?"""
        if not isinstance(other, Date):
            return False
        pairs = list(zip(self._given, other._given, strict=True))
        unlike = any(a != b for a, b in pairs if a is not None and b is not None)
        shared = any(a == b for a, b in pairs if a is not None)
        lacks = any(a is not None and b is None for a, b in pairs[1:3])
        return shared and not unlike and not lacks

    def rivals(self, other: object) -> bool:
        return isinstance(other, Date) and not self.agrees(other)

    @property
    def _given(self) -> tuple[int | str | None, ...]:
        return self.year, self.month, self.day, self.weekday


@dataclass(frozen=True, slots=True)
class Code:
    """A name that has to match letter for letter, whatever its case."""

    said: str
    start: int
    end: int
    name: str

    def agrees(self, other: object, nearly: bool = False) -> bool:
        return isinstance(other, Code) and self.name == other.name

    def rivals(self, other: object) -> bool:
        return isinstance(other, Code) and self.name != other.name


Fact = Number | Date | Code


def facts(text: str) -> tuple[Fact, ...]:
    """The facts of a text, in its order; no character belongs to two of them.

    >>> [fact.said for fact in facts("ERR_2043 since 3 May 2026: ten percent in 14 days")]
    ['ERR_2043', '3 May 2026', 'ten percent', '14 days']
    >>> facts("two weeks")[0].agrees(facts("within 14 days")[0])
    True
    """
    found: list[Fact] = []
    free = [True] * len(text)
    for reader in (_dates, _codes, spans, figures):
        for fact in reader(text):
            if all(free[fact.start : fact.end]):
                free[fact.start : fact.end] = [False] * (fact.end - fact.start)
                found.append(fact)
    return _with_shared_units(sorted(found, key=lambda fact: fact.start), text)


# -- dates ---------------------------------------------------------------------------------------

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?P<year>\d{4})-(?P<number>\d\d)-(?P<day>\d\d)\b",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? {_MONTH}(?:,? (?P<year>\d{{4}}))?\b",
        rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:, (?P<year>\d{{4}}))?(?!\d)",
        rf"\b{_MONTH} (?P<year>\d{{4}})\b",
        rf"\b(?!May\b){_MONTH}\b|(?<=\bin )May\b|(?<=\bof )May\b|(?<=\bby )May\b",
        rf"\b(?P<weekday>{_DAYS})s?\b",
    )
)


def _dates(text: str) -> Iterator[Date]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            given = match.groupdict()
            word = given.get("month") or (match[0] if match[0] == "May" else None)
            number = given.get("number")
            month = _MONTHS.index(word) + 1 if word else int(number) if number else None
            year, day = (int(given[n]) if given.get(n) else None for n in ("year", "day"))
            yield Date(match[0], *match.span(), year, month, day, given.get("weekday"))


# -- codes ---------------------------------------------------------------------------------------

_CODE = re.compile(
    r"\b[^\W_]+(?:_[^\W_]+)+\b|\b[^\W\d_]+-?\d[\w.-]*\w\b|\b[^\W\d_]+-?\d\b|\b\w+(?:-\w+)*-\d+\b"
)
_CLOCK = re.compile(r"\b([01]?\d|2[0-3]):([0-5]\d)\b|\bhalf past (\w+)")


def _codes(text: str) -> Iterator[Code]:
    for match in _CLOCK.finditer(text):
        if match[1]:
            yield Code(match[0], *match.span(), f"{int(match[1])}:{match[2]}")
        elif match[3].lower() in COUNTED:
            yield Code(match[0], *match.span(), f"{COUNTED[match[3].lower()]:.0f}:30")
    for match in _CODE.finditer(text):
        word = match[0]
        # "top-20" is a number, "eu-west-2" and "AES-256" are names.
        if word.count("-") != 1 or word != word.lower():
            yield Code(match[0], *match.span(), match[0].lower())


_LISTED = re.compile(r"\s?(?:,|and|or|to|–|-|, and|, or)?\s?")


def _with_shared_units(found: list[Fact], text: str) -> tuple[Fact, ...]:
    """In "1, 4 and 16 minutes" the last unit is that of all three."""
    for place in range(len(found) - 2, -1, -1):
        one, other = found[place], found[place + 1]
        if not isinstance(one, Number) or not isinstance(other, Number) or one.unit:
            continue
        listed = _LISTED.fullmatch(text[one.end : other.start])
        if listed and one.figure and other.figure and other.unit:
            size = other.amount / other.figure
            found[place] = replace(one, amount=one.figure * size, unit=other.unit)
    return tuple(found)
