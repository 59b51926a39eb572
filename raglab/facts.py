"""Facts in a text: numbers, dates, and codes, each in one form however it is written.

"ten percent" is 10%, "two weeks" is 14 days, "a quarter of an hour" is 15 minutes, "2026-02-03"
is 3 February 2026.  A model that compares meanings takes "45 days" and "60 days" for nearly the
same; these are compared exactly.

    number   an amount and its unit: seconds, months, bytes, percent, euros, dollars, times, nth
    date     the year, the month, the day and the weekday, as far as the text gives them
    code     a word that holds a digit or an underscore (ERR_2043, AES-256), or a time of day

Two numbers agree if their amounts and their units do.  A number without a unit, as in a table's
cell, agrees with any that is written with the same figure.

Left out: arithmetic ("four times a day" is "every six hours"), months told in days, and other
languages than English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MONTH = 30.44 * 86400.0  # seconds
CALENDAR = 0.03  # three months hold for 90 days: the share that a month told in days may be off
NEARLY = 0.1  # "about 30" holds for 31: the share that an approximate number may be off


@dataclass(frozen=True, slots=True)
class Number:
    """An amount in its unit's smallest step: seconds, months, bytes, percent, euros, dollars."""

    said: str
    start: int
    end: int
    amount: float
    unit: str = ""
    figure: float | None = None  # as it is written, before its unit: 14 of "14 days"
    loose: bool = False  # "a week", "two", "twice": often told in another way, without a number

    def agrees(self, other: Fact, nearly: bool = False) -> bool:
        if not isinstance(other, Number):
            return False
        if {self.unit, other.unit} == {"time", "months"}:
            one, two = (n.amount * (MONTH if n.unit == "months" else 1) for n in (self, other))
            return abs(one - two) <= max(CALENDAR, NEARLY * nearly) * max(one, two)
        if self.unit and other.unit:
            off = NEARLY if nearly else 1e-6
            most = max(abs(self.amount), abs(other.amount))
            return self.unit == other.unit and abs(self.amount - other.amount) <= off * most
        return self.figure is not None and self.figure == other.figure

    def rivals(self, other: Fact) -> bool:
        """Could the other stand in this one's place, and say something else?"""
        kin = isinstance(other, Number) and other.unit in (self.unit, "")
        return kin and not self.agrees(other)


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

    def agrees(self, other: Fact, nearly: bool = False) -> bool:
        """Does the other say all that this one says, its year aside, and nothing else?"""
        if not isinstance(other, Date):
            return False
        pairs = list(zip(self._given, other._given, strict=True))
        unlike = any(a != b for a, b in pairs if a is not None and b is not None)
        shared = any(a == b for a, b in pairs if a is not None)
        lacks = any(a is not None and b is None for a, b in pairs[1:3])
        return shared and not unlike and not lacks

    def rivals(self, other: Fact) -> bool:
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

    def agrees(self, other: Fact, nearly: bool = False) -> bool:
        return isinstance(other, Code) and self.name == other.name

    def rivals(self, other: Fact) -> bool:
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
    for reader in (_dates, _codes, _spans, _numbers):
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
        elif match[3].lower() in _WORDS:
            yield Code(match[0], *match.span(), f"{_WORDS[match[3].lower()]:.0f}:30")
    for match in _CODE.finditer(text):
        word = match[0]
        # "top-20" is a number, "eu-west-2" and "AES-256" are names.
        if word.count("-") != 1 or word != word.lower():
            yield Code(match[0], *match.span(), match[0].lower())


# -- numbers -------------------------------------------------------------------------------------

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: float(n) for n, word in enumerate(_ONES)}
_WORDS |= {word: 10.0 * n for n, word in enumerate(_TENS, start=2)}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_SHARES = {"half": 50.0, "third": 100 / 3, "quarter": 25.0, "fifth": 20.0, "tenth": 10.0}
_UNITS = {
    word: (unit, size)
    for words, unit, size in (
        ("millisecond milliseconds ms", "time", 0.001),
        ("second seconds s", "time", 1.0),
        ("minute minutes min", "time", 60.0),
        ("hour hours h", "time", 3600.0),
        ("day days night nights", "time", 86400.0),
        ("week weeks", "time", 604800.0),
        ("month months", "months", 1.0),
        ("year years", "months", 12.0),
        ("byte bytes", "size", 1.0),
        ("kb", "size", 1e3),
        ("mb", "size", 1e6),
        ("gb", "size", 1e9),
        ("tb", "size", 1e12),
        ("% percent", "percent", 1.0),
        ("€ euro euros", "€", 1.0),
        ("cent cents", "€", 0.01),
        ("$ dollar dollars", "$", 1.0),
    )
    for word in words.split()
}
_LENGTHS = "second|minute|hour|day|week|month|year"
_RANKS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_IN_SMALLER = {"minute": 60, "hour": 60, "day": 24, "month": 30, "year": 12}  # half an hour: 30
_SPAN = re.compile(
    r"\b(?P<part>half|(?:a )?quarter of) an? (?P<whole>minute|hour|day|month|year)\b"
    r"|\b(?P<fortnight>fortnight)\b"
    r"|\b(?:an?|one|another) (?:whole |full |further )?(?P<one>minute|hour|day|week|month|year)\b"
    r"|\b(?P<often>once(?= (?:an?|every|per|each|in)\b)|twice)\b"
    r"|\b(?P<times>two|three|four|five|six|\d+) times\b"
    r"|\b(?:an?|one) (?P<share>third|quarter|fifth|tenth)\b"
    r"(?= (?:of|in|less|more|for|to|and|or|from|off|on)\b|[.,;:)]|$)"
    r"|\b(?P<half>half)(?= (?:of|the)\b)|(?<=\bby )half\b"
    rf"|\b(?P<nth>\d+)(?:st|nd|rd|th)\b|\b(?P<rank>{'|'.join(_RANKS)})(?= \w)",
    re.IGNORECASE,
)


def _spans(text: str) -> Iterator[Number]:
    """Numbers told in words of their own: half an hour, a fortnight, twice, a third, the 15th."""
    for match in _SPAN.finditer(text):
        said = {name: word.lower() for name, word in match.groupdict().items() if word}
        place = (match[0], *match.span())
        if "whole" in said:
            part = 0.5 if said["part"] == "half" else 0.25
            unit, size = _UNITS[said["whole"]]
            yield Number(*place, part * size, unit, part * _IN_SMALLER[said["whole"]])
        elif "fortnight" in said:
            yield Number(*place, 14 * 86400.0, "time")
        elif "one" in said:
            unit, size = _UNITS[said["one"]]
            yield Number(*place, size, unit, 1.0, loose=True)
        elif "nth" in said:
            yield Number(*place, float(said["nth"]), "nth")
        elif "rank" in said:
            yield Number(*place, _RANKS.index(said["rank"]) + 1.0, "nth", loose=True)
        elif "times" in said or "often" in said:
            count = said.get("times") or {"once": "1", "twice": "2"}[said["often"]]
            figure = _WORDS.get(count) or float(count)
            yield Number(*place, figure, "times", figure, loose=True)
        else:
            yield Number(*place, _SHARES[said.get("share", "half")], "percent")


_FIGURE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SPELT = rf"(?:{'|'.join(_TENS)})(?:-(?:{'|'.join(_ONES[1:10])}))?|{'|'.join(_ONES[::-1])}"
_UNIT = r"%|(?:percent|[kmgt]b|bytes?|euros?|cents?|dollars?|nights?|milliseconds?|ms|min|s|h"
_UNIT += rf"|(?:{_LENGTHS})s?)\b"
_NUMBER = re.compile(
    rf"(?P<money>[€$])?(?<![\w.,])(?:(?P<figure>{_FIGURE})(?!\d|[.,]\d)|\b(?P<spelt>{_SPELT})\b)"
    rf"(?: (?P<scale>{'|'.join(_SCALES)}))?"
    r"(?:[ -]?(?:(?:calendar|working|business|full|whole|paid|further|more|additional) )?"
    rf"(?P<unit>{_UNIT}))?(?!\w)",
    re.IGNORECASE,
)


def _numbers(text: str) -> Iterator[Number]:
    for match in _NUMBER.finditer(text):
        spelt = (match["spelt"] or "").lower()
        unit = (match["unit"] or match["money"] or "").lower()
        if spelt in ("zero", "one") and not unit and not match["scale"]:
            continue  # "one of them" counts nothing
        if spelt:
            tens, _, ones = spelt.partition("-")
            figure = _WORDS[tens] + _WORDS.get(ones, 0.0)
        else:
            figure = float(match["figure"].replace(",", ""))
        figure *= _SCALES.get((match["scale"] or "").lower(), 1.0)
        dimension, size = _UNITS.get(unit, ("", 1.0))
        loose = spelt in ("two", "three") and not dimension
        yield Number(match[0], *match.span(), figure * size, dimension, figure, loose)


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
