"""Numbers in a text, each with its amount and unit, however they are written.

"ten percent" is 10%, "two weeks" is 14 days, "a quarter of an hour" is 15 minutes, "15 cents" is
€0.15.  An amount is kept in the smallest step of its unit: seconds, months, bytes, percent, euros,
dollars, times, or nth in a row.

Two numbers agree if their amounts and their units do.  One without a unit, as in a table's cell,
agrees with any that is written with the same figure.

Left out: arithmetic ("four times a day" is "every six hours"), and other languages than English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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

    def agrees(self, other: object, nearly: bool = False) -> bool:
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

    def rivals(self, other: object) -> bool:
        """Could the other stand in this one's place, and say something else?"""
        kin = isinstance(other, Number) and other.unit in (self.unit, "")
        return kin and not self.agrees(other)


_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
COUNTED = {word: float(n) for n, word in enumerate(_ONES)}
COUNTED |= {word: 10.0 * n for n, word in enumerate(_TENS, start=2)}
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


def spans(text: str) -> Iterator[Number]:
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
            figure = COUNTED.get(count) or float(count)
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


def figures(text: str) -> Iterator[Number]:
    for match in _NUMBER.finditer(text):
        spelt = (match["spelt"] or "").lower()
        unit = (match["unit"] or match["money"] or "").lower()
        if spelt in ("zero", "one") and not unit and not match["scale"]:
            continue  # "one of them" counts nothing
        if spelt:
            tens, _, ones = spelt.partition("-")
            figure = COUNTED[tens] + COUNTED.get(ones, 0.0)
        else:
            figure = float(match["figure"].replace(",", ""))
        figure *= _SCALES.get((match["scale"] or "").lower(), 1.0)
        dimension, size = _UNITS.get(unit, ("", 1.0))
        loose = spelt in ("two", "three") and not dimension
        yield Number(match[0], *match.span(), figure * size, dimension, figure, loose)
