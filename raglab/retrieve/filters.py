"""Pre-filters: which chunks may be found at all, by group, source and date.

A filter acts inside every retriever, before the cut at k (*pre-filtering*).  Filtering the first k
afterwards is simpler and returns too few: where a share s of the chunks is allowed, and the filter
has nothing to do with the query, about s · k hits are left (*post-filtering*).

Filters are values: equal ones compare equal, so that a trace can name them and `ranking.mask` can
keep what they let through.  Together they only narrow.  A reader who asks for a source still gets
what `Readable` lets this reader see, and no more:

    every(Readable(("hr",)), Where(sources=("*/Policies",), since="2026-01-01"))

Left out: filters over free metadata, and "or"; two searches with RRF do as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from raglab.types import Allowed, Chunk, RagLabError, Readable


@dataclass(frozen=True)
class Where:
    """Lets through the chunks that meet each condition that is given.

    groups: what the reader belongs to, as in `Readable`; None does not look at groups.
    sources: globs, of which the chunk's source matches one; `*` stands for anything, so
    "Larkspur Cloud / Docs*" is a prefix. Capitals count. Empty lets every source through.
    since, until: ISO dates, both included; empty is no bound. A chunk whose date is not known, or
    is not an ISO date, passes only where there is no bound: it cannot be shown to lie inside.
    """

    groups: tuple[str, ...] | None = None
    sources: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        for name in ("groups", "sources"):
            if isinstance(getattr(self, name), str):
                raise RagLabError(f"{name} is one text: give a tuple, ({getattr(self, name)!r},)")
        for name in ("since", "until"):
            given = getattr(self, name)
            if given and day(given) != given:
                raise RagLabError(f"{name} is {given!r}: write a date as 2026-03-01")
        if self.since and self.until and self.since > self.until:
            raise RagLabError(
                f"nothing lies between since={self.since} and until={self.until}: swap them"
            )

    def __call__(self, chunk: Chunk) -> bool:
        return (
            (self.groups is None or Readable(self.groups)(chunk))
            and (not self.sources or any(fnmatchcase(chunk.source, glob) for glob in self.sources))
            and self._inside(day(chunk.updated))
        )

    def _inside(self, when: str) -> bool:
        if not (self.since or self.until):
            return True
        # ISO dates stand in the order of time when they stand in the order of the alphabet.
        return bool(when) and self.since <= when and (not self.until or when <= self.until)


@dataclass(frozen=True)
class Every:
    """Lets through what each of its filters lets through."""

    filters: tuple[Allowed, ...]

    def __call__(self, chunk: Chunk) -> bool:
        return all(allowed(chunk) for allowed in self.filters)


def every(*filters: Allowed | None) -> Allowed | None:
    """One filter that stands for all of these; None, which lets everything through, falls away.

    >>> every(None, Readable(("hr",)))
    Readable(groups=('hr',))
    """
    given = tuple(allowed for allowed in filters if allowed is not None)
    return Every(given) if len(given) > 1 else next(iter(given), None)


def day(written: str) -> str:
    """The day of an ISO date or time as "2026-03-01", or "" where it is neither.

    >>> day("2026-03-01T09:30"), day("March 2026"), day("")
    ('2026-03-01', '', '')
    """
    try:
        return date.fromisoformat(written[:10]).isoformat() if written[4:5] == "-" else ""
    except ValueError:
        return ""
