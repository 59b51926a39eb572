"""Modular RAG: route the question, search, check, and search once more where it was too little.

    route ─> rewrite … assemble ─> enough? ─ yes ──────────────────────────> answer
                                      └ no ─> rewrite … assemble, wider ─> answer

Every module can be exchanged: the router, the check, what a route changes, what *wider* means
(Gao et al. 2024, "Modular RAG").  A route and the wider search are fields of the pipeline, given as
they would be to `dataclasses.replace`.

The second search is made once.  The generator answers or refuses from what is there then, enough or
not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raglab.control.enough import LACKING
from raglab.control.router import check_routes
from raglab.pipeline import Pipeline
from raglab.recorder import Recorder
from raglab.trace import DECIDE
from raglab.types import Check, Context, Query, Router

Changes = Mapping[str, Any]
"""Fields of a pipeline -> what they are to be, such as {"k": 50}."""


@dataclass(frozen=True)
class Modular:
    """A guide that chooses the stages by the kind of question, and searches wider at most once."""

    router: Router
    routes: Mapping[str, Changes] = field(repr=False)
    check: Check
    wider: Changes = field(repr=False)

    def __post_init__(self) -> None:
        check_routes(self.routes)

    def follow(self, pipeline: Pipeline, asked: Query, record: Recorder) -> None:
        route = record("route", DECIDE, self.router.route, asked)
        check_routes(self.routes, (route.choice,))
        chosen = replace(pipeline, **self.routes[route.choice])
        wanted, context = chosen.search(asked, record)
        if self._lacking(wanted, context, record):
            record.search_again()
            chosen = replace(chosen, **self.wider)
            wanted, context = chosen.search(asked, record)
            self._lacking(wanted, context, record)
        chosen.respond(wanted, context, record)

    def _lacking(self, wanted: Query, context: Context, record: Recorder) -> bool:
        checked = record("enough?", DECIDE, self.check.check, wanted, context, after=("context",))
        return checked.choice == LACKING
