"""The chunk map: one document's text with its chunk boundaries, up to three strategies at once.

It shows what a score cannot: which sentence a boundary went through, what two neighbours share,
and what a chunk holds past the encoder's limit, where nothing can find it.

In a notebook with a kernel it is a widget whose sliders cut the document again.  Where nothing
runs, the saved notebook shows the first strategy's map as plain HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import anywidget
import traitlets

from raglab.types import Chunk, Chunker, Document, RagLabError
from raglab.views.changes import in_words as in_words
from raglab.views.chunkhtml import map_html
from raglab.views.chunkmodel import Span, Spans, chunk_model, counted, parts_of
from raglab.views.flow import clean, joined, widget_page
from raglab.views.model import Model

SIDE_BY_SIDE = 3
KNOBS = (  # name, label, least, most
    ("size", "Chunk size, word pieces", 10, 400),
    ("overlap", "Overlap, word pieces", 0, 200),
)
SCRIPTS = ("layout.js", "controls.js", "chunkmap.js")
STYLES = ("flow.css", "chunkmap.css")


class ChunkMap(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget's base class is untyped
    """A document as these strategies cut it; `strategies` maps a name to a chunker.

    quotes: what must stay whole, the evidence of a golden question, say.
    spans, limit: the encoder's tokenizer, and how many word pieces of a chunk it reads.

    `settings` holds what was turned: `size` and `overlap`, for every strategy that has them, and
    `part` of a long document. What is not in it is as the strategies were given.
    """

    _esm = joined(SCRIPTS)
    _css = joined(STYLES)

    data = traitlets.Dict().tag(sync=True)  # what is drawn: see `Cutter.data`
    knobs: Any = traitlets.List().tag(sync=True)  # dicts of name, label, min, max, value, help
    settings = traitlets.Dict().tag(sync=True)  # knob name -> value
    shown: Any = traitlets.List(traitlets.Unicode()).tag(sync=True)  # names of strategies
    status = traitlets.Unicode("").tag(sync=True)  # plain words: what changed, what went wrong
    busy = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        document: Document,
        strategies: Mapping[str, Chunker],
        *,
        quotes: Sequence[str] = (),
        spans: Spans | None = None,
        limit: int | None = None,
        **traits: Any,
    ) -> None:
        self._cutter = Cutter(document, strategies, quotes, spans, limit)
        shown = traits.pop("shown", None) or list(strategies)[:SIDE_BY_SIDE]
        data = self._cutter.data(traits.get("settings", {}), shown)
        knobs = _knobs(strategies)
        super().__init__(**{"data": data, "knobs": knobs, "shown": shown, **traits})
        self.observe(self._cut_again, names=["settings", "shown"])

    def _cut_again(self, change: object) -> None:
        self.busy = True
        try:
            data = self._cutter.data(self.settings, self.shown)
        except Exception as error:  # whatever a chunker raises is told, and the last picture stays
            self.status = in_words(error)
        else:
            self.status = changes(self.data, data)
            self.data = data
        finally:
            self.busy = False

    def __repr__(self) -> str:
        counts = [
            f"{one['name']} {counted(one['figures']['chunks'], 'chunk')}"
            for one in self.data["maps"]
        ]
        return f"ChunkMap({self.data['doc_id']!r}: {', '.join(counts)})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and its first map as HTML for viewers that run nothing."""
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return data | {"text/plain": repr(self), "text/html": map_html(self.data)}, metadata

    def page(self) -> str:
        """The picture as a page of its own: no kernel, no network, and so no slider."""
        names = [one["name"] for one in self.data["maps"]]
        data: Model = {**self.data, "strategies": names, "still": True}
        state: Model = {"data": data, "shown": names, "knobs": [], "settings": {}}
        state |= {"status": "", "busy": False}
        title = f"How {self.data['title'] or self.data['doc_id']} is cut"
        return widget_page(title, state, joined(SCRIPTS), joined(STYLES), map_html(self.data))


class Cutter:
    """Cuts one document by each strategy, as it was given or as the settings say."""

    def __init__(
        self,
        document: Document,
        strategies: Mapping[str, Chunker],
        quotes: Sequence[str],
        spans: Spans | None,
        limit: int | None,
    ) -> None:
        if not strategies:
            raise RagLabError('name at least one strategy: {"recursive": Recursive(encoder.spans)}')
        self.document = replace(
            document,
            doc_id=clean(document.doc_id),
            title=clean(document.title),
            text=clean(document.text),
        )
        self.strategies = dict(strategies)
        self.quotes = [clean(quote) for quote in quotes if quote]
        self.count: Mapping[str, Any] = {"spans": spans, "limit": limit}
        first = next(
            (at for quote in self.quotes if (at := self.document.text.find(quote)) >= 0), 0
        )
        self.parts = parts_of(self.document.text, first)
        self.part = next(
            number for number, (_, end) in enumerate(self.parts) if first < end or not first
        )
        self._last: dict[str, tuple[Chunker, tuple[Chunk, ...]]] = {}

    def data(self, settings: Mapping[str, Any], shown: Sequence[str]) -> Model:
        """What the widget draws: the text once, and for each strategy its map."""
        unknown = [name for name in shown if name not in self.strategies]
        if unknown:
            there = ", ".join(self.strategies)
            raise RagLabError(f"there is no strategy {unknown[0]!r}; there are {there}")
        if not 1 <= len(shown) <= SIDE_BY_SIDE:
            raise RagLabError(f"choose from 1 to {SIDE_BY_SIDE} strategies, not {len(shown)}")
        part = max(0, min(int(settings.get("part", self.part)), len(self.parts) - 1))
        maps = [self._map(name, settings, self.parts[part]) for name in shown]
        text = {key: maps[0][key] for key in ("doc_id", "title", "length", "window", "text")}
        for one in maps:
            for key in text:
                del one[key]
        strategies = list(self.strategies)
        at = {"part": part, "parts": len(self.parts), "limit": self.count["limit"]}
        return {**text, **at, "strategies": strategies, "maps": maps}

    def _map(self, name: str, settings: Mapping[str, Any], window: Span) -> Model:
        chunker = turned(self.strategies[name], settings)
        last = self._last.get(name)
        if last is None or last[0] != chunker:
            last = self._last[name] = (chunker, chunker.chunk(self.document))
        model = chunk_model(self.document, last[1], quotes=self.quotes, window=window, **self.count)
        return {"name": name, **model}


def turned(chunker: Any, settings: Mapping[str, Any]) -> Any:
    """The chunker with the settings that it has a field for; an overlap stays below the size.

    >>> from raglab.ingest.chunk import FixedSize
    >>> turned(FixedSize(str.split, size=200, overlap=40), {"size": 30})
    FixedSize(size=30, overlap=29)
    """
    unknown = set(settings) - {name for name, *_ in KNOBS} - {"part"}
    if unknown:
        raise RagLabError(f"there is no setting {min(unknown)!r}; there are size, overlap and part")
    own = _sizes(chunker)
    new = own | {name: int(settings[name]) for name in own if name in settings}
    if "overlap" in new and "size" in new:
        new["overlap"] = max(0, min(new["overlap"], new["size"] - 1))
    return replace(chunker, **new) if new != own else chunker


def _sizes(chunker: Any) -> dict[str, int]:
    """The knobs that a strategy has, and their values."""
    if not is_dataclass(chunker):
        return {}
    known = {name for name, *_ in KNOBS} & {one.name for one in fields(chunker) if one.init}
    values = {name: getattr(chunker, name) for name in sorted(known)}
    return {name: value for name, value in values.items() if type(value) is int}


def _knobs(strategies: Mapping[str, Chunker]) -> list[Model]:
    """A slider for each size that some strategy has."""
    knobs = []
    for name, label, low, high in KNOBS:
        given = {key: _sizes(one)[name] for key, one in strategies.items() if name in _sizes(one)}
        if given:
            low, high = min(low, *given.values()), max(high, *given.values())
            told = "; ".join(f"{key}: {value}" for key, value in given.items())
            knobs.append(
                {"name": name, "label": label, "min": low, "max": high}
                | {"value": next(iter(given.values())), "help": f"As given, {told}."}
            )
    return knobs


def changes(old: Model, new: Model) -> str:
    """What a change did, in words."""
    names = [one["name"] for one in new["maps"]]
    if [one["name"] for one in old["maps"]] != names:
        return f"Side by side: {', '.join(names)}." if names[1:] else f"Alone: {names[0]}."
    if old["part"] != new["part"]:
        start, end = new["window"]
        return f"Part {new['part'] + 1} of {new['parts']}: characters {start:,} to {end:,}."
    told = [
        f"{now['name']}: {'; '.join(_differences(was['figures'], now['figures']))}"
        for was, now in zip(old["maps"], new["maps"], strict=True)
        if was != now
    ]
    return f"{'. '.join(told)}." if told else "The same boundaries as before."


def _differences(was: Model, now: Model) -> list[str]:
    """
    >>> _differences({"chunks": 9, "held": 2, "past": 0}, {"chunks": 4, "held": 1, "past": 0})
    ['4 chunks (was 9)', 'quotes held whole: 1 (was 2)']
    """
    told = {"held": "quotes held whole", "past": "pieces past the encoder's limit"}
    first = f"{counted(now['chunks'], 'chunk')} (was {was['chunks']:,})"
    return [first] + [
        f"{words}: {now[key]:,} (was {was[key]:,})"
        for key, words in told.items()
        if was[key] != now[key]
    ]
