"""Why one chunk stands above another, in a sentence made from the parts of their scores.

A score is the sum of its parts, so the lead of one chunk over another is a sum as well:

    score(a) - score(b) = Σ_parts  part of a - part of b        a part that is not there counts 0

The sentence names the part with the largest difference.  Where the other parts add to the lead, or
take some of it back, it says by how much.

Left out: why a part is as large as it is.  The views of each stage show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raglab.learn.lists import read, scored_by
from raglab.learn.words import listed
from raglab.trace import Step, Trace
from raglab.types import Context, Hit, Ranking

SMALL = 0.1  # a remainder below this share of the largest difference is not told
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Gap:
    """The part that separates two hits most: what it adds to each, and what the others make up."""

    name: str
    first: float | None  # None where the hit has no such part
    second: float | None
    total: float  # the first one's score minus the second one's

    @property
    def lead(self) -> float:
        return (self.first or 0.0) - (self.second or 0.0)

    @property
    def rest(self) -> float:
        """What the other parts add to the lead; below 0 they take some of it back."""
        return self.total - self.lead


def widest(first: Hit, second: Hit) -> Gap | None:
    """The part with the largest difference; of equal ones the first by name. None where no part
    puts the first above the second: they tie, or their scores have no parts.

    >>> from raglab.types import Chunk, Part
    >>> a = Hit(Chunk("a", "a", "", 0, 0), 5, 1, (Part("x", 2), Part("y", 3)))
    >>> b = Hit(Chunk("b", "b", "", 0, 0), 4, 2, (Part("x", 4),))
    >>> widest(a, b)
    Gap(name='y', first=3.0, second=None, total=1)
    """
    one, other = _by_name(first), _by_name(second)
    gaps = [
        Gap(name, one.get(name), other.get(name), first.score - second.score)
        for name in sorted({*one, *other})
    ]
    best = max(gaps, key=lambda gap: gap.lead, default=None)
    return best if best and best.lead > 0 and best.total > 0 else None


def _by_name(hit: Hit) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in hit.parts:
        values[part.name] = values.get(part.name, 0.0) + part.value
    return values


def why_first(trace: Trace, step: Step, order: Ranking) -> str:
    """One sentence: why the first two of these hits stand as they do in what `step` returned; of a
    prompt, what it leaves out."""
    if not isinstance(step.output, Context):
        return why_above(trace, step, *order[:2])
    reasons = {drop.hit.chunk.chunk_id: drop.reason for drop in step.output.dropped}
    ranks = [hit.rank for hit in order if hit.chunk.chunk_id not in reasons]
    before = listed(step.after)
    said = f"The prompt keeps the order of {before}"
    if ranks != sorted(ranks):
        first = order[0].chunk.chunk_id
        said = f"The prompt begins with {first}, which was at rank {ranks[0]} of {before}"
    out = next((hit for hit in order if hit.chunk.chunk_id in reasons), None)
    if out is None:
        return f"{said}: {why_above(trace, step, *order[:2])}"
    reason = reasons[out.chunk.chunk_id]
    rank = "" if f"rank {out.rank}" in reason else f"rank {out.rank}, "
    return f"{said}, and leaves {out.chunk.chunk_id} out: {rank}{reason}."


def why_above(trace: Trace, step: Step, first: Hit, second: Hit) -> str:
    """One sentence: why `first` stands above `second` in what `step` returned."""
    a, b = first.chunk.chunk_id, second.chunk.chunk_id
    gap = widest(first, second)
    if gap is None:
        return _even(first, second)
    scorer = scored_by(trace, step)
    lists = read(trace, scorer)
    if scorer.stage == "fuse" and gap.name in lists:
        return f"{a} stands first: {_fused(gap, a, b, lists)}{_rest(gap)}."
    if scorer.stage == "retrieve" and gap.name == "cosine" and not _searches_words(scorer):
        return f"{a} stands first: its cosine with the query is {_scores(first, second, b)}."
    what = _named(gap.name, scorer)
    lacks = f"{b} does not hold it" if what.startswith("the word ") else f"nothing to {b}"
    return f"{a} stands first: {_counted(what, gap, b, lacks)}{_rest(gap)}."


def _even(first: Hit, second: Hit) -> str:
    a, b = first.chunk.chunk_id, second.chunk.chunk_id
    if first.score > second.score:
        return f"{a} stands first: its score is {_scores(first, second, b)}."
    same = f"{a} and {b} have the same score, {first.score:.4g}"
    return f"{same}, and equal scores stand in order of chunk id." if a < b else f"{same}."


def _scores(first: Hit, second: Hit, b: str) -> str:
    digits = _digits(first.score - second.score)
    return f"{first.score:z.{digits}f}, that of {b} {second.score:z.{digits}f}"


def _counted(what: str, gap: Gap, b: str, lacks: str) -> str:
    digits = _digits(gap.lead)
    if gap.second is None:
        return f"{what} adds {gap.first:z.{digits}f}, and {lacks}"
    if gap.first is None:
        return f"{what} takes {-gap.second:z.{digits}f} from {b}"
    return f"{what} counts {gap.first:z.{digits}f} for it and {gap.second:z.{digits}f} for {b}"


def _rest(gap: Gap) -> str:
    digits = _digits(gap.lead)
    told = f"{abs(gap.rest):z.{digits}f}"
    if abs(gap.rest) < SMALL * gap.lead or not float(told):
        return ""
    return f"; the rest adds {told}" if gap.rest > 0 else f"; the rest takes {told} of that back"


def _digits(difference: float) -> int:
    """Decimals that show a difference as at least five units of the last one.

    >>> _digits(8.1), _digits(0.17), _digits(0.00026)
    (1, 2, 5)
    """
    fits = (d for d in range(1, MOST_DIGITS) if 5 * 10.0**-d <= abs(difference))
    return next(fits, MOST_DIGITS)


# -- what a part is called ------------------------------------------------------------------------


def _named(name: str, scorer: Step) -> str:
    if scorer.stage == "retrieve" and _searches_words(scorer):
        return f'the word "{name}"'
    if name.startswith("match: "):
        return f'the query\'s token "{name.removeprefix("match: ")}"'
    if name == "first stage":
        return "the first stage's score"
    if name.startswith("like "):
        return f"likeness to {name.removeprefix('like ')}"
    return f'the {"signal" if "Learned(" in scorer.settings else "part"} "{name}"'


def _searches_words(scorer: Step) -> bool:
    return "BM25(" in scorer.settings


# -- fusion ----------------------------------------------------------------------------------------


def _fused(gap: Gap, a: str, b: str, lists: Mapping[str, tuple[Hit, ...]]) -> str:
    """Where the lists have it, and which of them counts most."""
    ranks = {name: {hit.chunk.chunk_id: hit.rank for hit in hits} for name, hits in lists.items()}
    holding = {name: ranks[name][a] for name in lists if a in ranks[name]}
    places = listed([str(rank) for rank in holding.values()])
    if len(lists) == 1 and {a, b} <= ranks[gap.name].keys():
        return f"{gap.name}, the only list, has it at rank {places} and {b} at {ranks[gap.name][b]}"
    if len(holding) == 1:
        held = f"{listed(list(holding))} alone holds it, at rank {places}"
    else:
        share = "both" if len(holding) == len(lists) == 2 else f"{len(holding)} of {len(lists)}"
        held = f"{share} lists hold it, at ranks {places}"
    counted = _counted(gap.name, gap, b, f"does not hold {b}")
    return f"{held}; {counted}"
