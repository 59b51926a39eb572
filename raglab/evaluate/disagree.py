"""Where a statement says something else than a claim that it otherwise covers.

One changed number, date, name or "not" leaves nearly all words the same, so no measure of likeness
sees it.  Each check here looks for one kind of change, and says in words what it found:

    facts       a number, date or code of the claim that the statement does not hold
    place       a number that is there, but in another column of the table, or of other things
    names       a name of the claim that the statement does not hold
    negation    what one of them denies stands in the other without a denial
    opposites   "before" in the one, "after" in its place in the other

A negation denies the word that comes next in its clause: "it is *never* cached" denies "cached".
Only that word is compared.  A paraphrase may well trade a "not" for another word ("cannot be
deleted", "is refused"), and then the denied word does not stand on the other side.

Left out: "all" against "some", who does what to whom, and opposites that are not in the list.
Seeing those takes a model that has learned what follows from what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from raglab.amounts import Number
from raglab.evaluate.support import Match
from raglab.facts import Fact, facts
from raglab.retrieve.content import FUNCTION_WORDS, Word, words

SURE = 0.85  # cosine from which a word that the claim denies is taken for the statement's own
OPPOSITES = (
    "more less, more fewer, most least, higher lower, larger smaller, longer shorter, good bad, "
    "better worse, best worst, faster slower, cheaper dearer, strong weak, easy hard, early late, "
    "earlier later, before after, first last, always never, same different, same differ, "
    "all none, everything nothing, everybody nobody, both neither, with without, inside outside, "
    "include exclude, accept refuse, accept reject, accept decline, grant decline, allow forbid, "
    "approve decline, enable disable, add remove, open close, start stop, begin end, pass fail, "
    "succeed fail, win lose, gain lose, rise fall, raise lower, increase decrease, keep delete, "
    "upgrade downgrade, maximum minimum, top bottom, free paid, internal external"
)

_NEGATION = re.compile(
    r"\b(?:not|never|nobody|none|nothing|nowhere|neither|nor|without|cannot|\w+n[’']t"
    r"|no longer(?! than)|no(?! (?:more|less|later|longer|fewer|sooner|earlier)\b))\b",
    re.IGNORECASE,
)
_ONLY = re.compile(
    r"\b(?:nowhere|nothing|nobody|none|no one) (?:else )?(?:but|than|except)\b", re.IGNORECASE
)
_BREAK = re.compile(
    r"[;:!?()–—,]|\.(?=\s|$)|(?<!nowhere )(?<!nothing )(?<!nobody )\bbut\b"
    r"|\b(?:and|because|since|while|which|who|so that|although|though|if|when|unless|until"
    r"|as long as)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r",(?: [\w’-]+){1,3},")


def disagreements(match: Match, others: Sequence[Match]) -> tuple[str, ...]:
    """What the statement says against the claim, each in words; none where all checks agree.

    `others` are the other statements of the same passage.
    """
    return tuple(said for check in CHECKS for said in check(match, others))


# -- numbers, dates, codes, names ----------------------------------------------------------------


def _facts(match: Match, others: Sequence[Match]) -> Iterator[str]:
    held = [fact for fact in match.read.facts if fact.start >= match.read.body]
    for fact in match.missing:
        rivals = [other for other in held if fact.rivals(other)]
        if isinstance(fact, Number) and fact.loose:
            counted = _counted(match.claim.text, fact)
            rivals = [one for one in rivals if _counted(match.read.text, one) == counted]
            if not rivals:
                continue
        said = ", ".join(other.said for other in rivals)
        yield f"{fact.said}: the passage says {said}" if said else f"{fact.said} is not said"


def _counted(text: str, fact: Fact) -> str:
    """What a number counts: its unit, or the stem of the word after it."""
    if isinstance(fact, Number) and fact.unit not in ("", "nth"):
        return "a length" if fact.loose and fact.unit != "times" else fact.unit
    after = words(text[fact.end :])
    return after[0].stem if after else ""


def _place(match: Match, others: Sequence[Match]) -> Iterator[str]:
    text = match.statement.text
    if match.statement.cells:
        yield from _columns(match)
        return
    for fact in match.claim.facts:
        if not isinstance(fact, Number) or fact.unit:
            continue
        inside = [other for other in facts(text) if isinstance(other, Number)]
        here = {_counted(text, other) for other in inside if fact.agrees(other)}
        there = {_counted(text, other) for other in inside if fact.rivals(other)}
        counted = _counted(match.claim.text, fact)
        known = here - FUNCTION_WORDS - {""}
        if known and counted in there - known - FUNCTION_WORDS - {""}:
            yield f"{fact.said} counts something else there"


def _columns(match: Match) -> Iterator[str]:
    """The claim names one column of a table's row and gives the cell of another."""
    cells = match.statement.cells
    asked = {word.stem for word in match.claim.content}
    heads = [{word.stem for word in words(head)} for head, _ in cells]
    first = {word.stem for word in words(cells[0][1])}
    for fact in match.claim.facts:
        mine = [n for n, (_, cell) in enumerate(cells) if any(map(fact.agrees, facts(cell)))]
        if not mine or 0 in mine:
            continue
        own = set().union(*(heads[n] for n in mine))
        rest = set().union(*(head for n, head in enumerate(heads) if n not in mine))
        if asked & (rest - own - first) and not asked & own:
            yield f"{fact.said} stands in the column {cells[mine[0]][0]}"


def _names(match: Match, others: Sequence[Match]) -> Iterator[str]:
    """A name that the passage does not hold may be that of whoever says "we"."""
    held = {word.text.lower() for word in match.read.words}
    passage = " ".join(other.read.text for other in (match, *others))
    initials = "".join(re.findall(r"\b[A-Z]", match.read.text))
    for word in match.claim.words:
        name = word.text.lower().removesuffix("s").rstrip("’'")
        if not _is_name(word, passage) or {word.text.lower(), name} & held:
            continue
        if word.text.isupper() and word.text in initials:
            continue  # EEA, for European Economic Area
        if held.isdisjoint(("we", "us", "our")) or name in passage.lower():
            yield f"{word.text} is not named there"


def _is_name(word: Word, passage: str) -> bool:
    """It begins with a capital where no sentence begins, or has a sibling in the passage, as
    eu-west has in eu-north."""
    text = word.text
    if len(text) < 2 or any(letter.isdigit() or letter == "_" for letter in text):
        return False
    if text[0].isupper():
        capital = rf"(?<=[a-z,;:(|] ){re.escape(text)}\b"
        return word.start > 0 or text.isupper() or bool(re.search(capital, passage))
    family, _, rest = text.partition("-")
    sibling = rf"\b{re.escape(family)}-(?!{re.escape(rest)}\b)\w+"
    return bool(rest) and bool(re.search(sibling, passage))


# -- negation and opposites ----------------------------------------------------------------------


def clause(text: str, place: int) -> tuple[int, int]:
    """From where to where the clause reaches in which this character stands.

    >>> text = "Nobody, support included, reads it, and it is kept."
    >>> text[slice(*clause(text, text.index("support")))]
    'Nobody, support included, reads it'
    """
    asides = [match.span() for match in _ASIDE.finditer(text)]
    start = 0
    for match in _BREAK.finditer(text):
        at = match.start()
        if match[0] == "," and any(a <= at < b for a, b in asides):
            continue  # a short aside between commas breaks no clause
        if at > place:
            return start, at
        start = at
    return start, len(text)


def denied(text: str) -> frozenset[str]:
    """The stems that a negation denies: the next word with a meaning of its own in its clause, or,
    where none comes, those before it.

    >>> sorted(denied("It is never cached. Parking is paid, fines never."))
    ['cach', 'fine']
    """
    text = _plain(text)
    content = [word for word in words(text) if word.content]
    found: set[str] = set()
    for match in _NEGATION.finditer(text):
        start, end = clause(text, match.start())
        after = [word.stem for word in content if match.end() <= word.start < end]
        before = (word.stem for word in content if start <= word.start < match.start())
        found.update(after[:1] or before)
    return frozenset(found)


def _plain(text: str) -> str:
    """ "Nothing but" is "only"; every character keeps its place."""
    return _ONLY.sub(lambda match: "only".ljust(len(match[0])), text)


def _affirmed(text: str, stem: str) -> bool:
    """Does the word stand in a clause without any negation?"""
    text = _plain(text)
    spans = (clause(text, word.start) for word in words(text) if word.stem == stem)
    return any(not _NEGATION.search(text, *span) for span in spans)


def _negation(match: Match, others: Sequence[Match]) -> Iterator[str]:
    claim, text = match.claim.text, match.statement.text
    ours, theirs = denied(claim), denied(text)
    for word in match.claim.content:
        if word.stem in theirs - ours and _affirmed(claim, word.stem):
            yield f"the passage denies {word.text}"
            continue
        only_ours = word.stem in ours - theirs and _affirmed(text, word.stem)
        if only_ours and match.cosine(word) >= SURE:
            yield f"the passage does not deny {word.text}"


_PAIRS = [tuple(words(pair)) for pair in OPPOSITES.split(",")]
_OPPOSITE: dict[str, set[str]] = {}
for _one, _other in _PAIRS:
    _OPPOSITE.setdefault(_one.stem, set()).add(_other.stem)
    _OPPOSITE.setdefault(_other.stem, set()).add(_one.stem)


def _opposites(match: Match, others: Sequence[Match]) -> Iterator[str]:
    """Where one side has a negation as well, the two cancel: "not the same", "differs"."""
    claim, text, body = match.claim.text, match.statement.text, match.read.body
    theirs = {word.stem for word in words(text)}
    for word in match.claim.words:
        opposite = _OPPOSITE.get(word.stem, set()) & theirs - match.claim.stems
        place = match.place(word)
        if not opposite or word.stem in theirs or place < body:
            continue
        other = next((w for w in words(text) if w.start <= place - body < w.end), None)
        if not other or other.stem not in opposite:
            continue
        if _denies(claim, word.start) == _denies(text, other.start):
            yield f"{word.text}: the passage says {other.text}"


def _denies(text: str, place: int) -> bool:
    """Does the clause there hold an odd number of negations?"""
    text = _plain(text)
    start, end = clause(text, place)
    return len(_NEGATION.findall(text, start, end)) % 2 == 1


Check = Callable[[Match, Sequence[Match]], Iterator[str]]
CHECKS: tuple[Check, ...] = (_facts, _place, _names, _negation, _opposites)
