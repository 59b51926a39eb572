"""One answer of a learner, and how good it was: a value that is one line of JSON.

Left out: who answered.  An attempt holds no name, no account and no machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from raglab.types import RagLabError

FORMAT = 1
TEXTS = ("when", "kind", "what", "query")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    >>> Attempt("order", "dense", "refund?", 0.8, {"pairs": "8 of 10"}, "2026-03-01T09:30:00+00:00")
    Attempt(kind='order', what='dense', query='refund?', score=0.8, detail={'pairs': '8 of 10'}, \
when='2026-03-01T09:30:00+00:00')
    """

    kind: str  # "order", "knob", "quiz", "cards" ...
    what: str  # the step that was predicted, or the notebook
    query: str
    score: float  # from 0 to 1
    detail: Mapping[str, str] = field(default_factory=dict, hash=False)
    when: str = field(default_factory=_now)  # ISO time, UTC

    def __post_init__(self) -> None:
        """Raises RagLabError for a value that could not be read again."""
        for name in TEXTS:
            if not isinstance(getattr(self, name), str):
                raise RagLabError(f"{name} is {getattr(self, name)!r}: give a text")
        if isinstance(self.score, bool) or not isinstance(self.score, int | float):
            raise RagLabError(f"score is {self.score!r}: give a number from 0 to 1")
        if not 0 <= self.score <= 1:
            raise RagLabError(f"score is {self.score}: it must lie between 0 and 1")
        if not isinstance(self.detail, Mapping):
            raise RagLabError(f"detail is {self.detail!r}: give a dict of texts")
        if not all(isinstance(text, str) for pair in self.detail.items() for text in pair):
            raise RagLabError(
                f"detail is {dict(self.detail)!r}: its names and values must be texts"
            )
        try:
            moment = datetime.fromisoformat(self.when)
            if moment.tzinfo is None:
                raise ValueError("without a time zone")
            utc = moment.astimezone(UTC).isoformat(timespec="seconds")
        except (ValueError, OverflowError) as error:
            raise RagLabError(
                f"when is {self.when!r} ({error}): give an ISO time with its zone, such as {_now()}"
            ) from None
        object.__setattr__(self, "when", utc)
        object.__setattr__(self, "detail", dict(self.detail))

    @classmethod
    def now(cls, kind: str, what: str, query: str, score: float, **detail: str) -> Attempt:
        """One that was made just now."""
        return cls(kind, what, query, score, detail)

    def line(self) -> bytes:
        """One line of JSON in UTF-8, its end included. A half of a character is escaped."""
        content = json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)
        return content.encode("utf-8", "backslashreplace") + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Attempt:
        """The inverse of `line`. Raises RagLabError where the line holds no attempt."""
        try:
            data = json.loads(line.decode("utf-8"))
            if data["format"] != FORMAT:
                raise RagLabError(f"it has format {data['format']!r}, this raglab reads {FORMAT}")
            return cls(
                kind=data["kind"],
                what=data["what"],
                query=data.get("query", ""),
                score=data["score"],
                detail=data.get("detail", {}),
                when=data["when"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RagLabError(f"it holds no attempt ({type(error).__name__})") from error
