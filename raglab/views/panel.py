"""A panel: a picture, and the knobs that change it.

A panel is given a function that draws: `draw(**settings) -> Drawing`.  It calls it once, and again
whenever a knob turns.  The function computes with what it closes over; the panel computes nothing.

What a picture marks with `data-press="KEY"` is a button where a kernel listens, and calls
`press(KEY)`.

Every picture also says in a sentence what it shows.  That sentence is read to who cannot see the
picture, stands in the saved notebook, and is what a test asserts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import traitlets
from markupsafe import Markup

from raglab.types import RagLabError
from raglab.views.changes import in_words
from raglab.views.flow import clean, joined, widget_page

Value = int | float | str
SCRIPTS = ("layout.js", "controls.js", "panel.js")
STYLES = ("flow.css", "panel.css")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as escaped HTML, and what it shows in a sentence or two."""

    html: Markup
    words: str


@dataclass(frozen=True, slots=True)
class Knob:
    """A slider from `low` to `high`; with `choices` a list to choose from; for a text, a box."""

    name: str
    label: str
    value: Value
    low: float | None = None
    high: float | None = None
    step: float = 1
    choices: tuple[str, ...] = ()
    help: str = ""

    def __post_init__(self) -> None:
        if self.choices and self.value not in self.choices:
            raise RagLabError(f"knob {self.name!r} is {self.value!r}: choose {self._bounds()}")
        if self.kind == "range" and (self.low is None or self.high is None):
            raise RagLabError(f"knob {self.name!r} is a number: give it low= and high=")

    @property
    def kind(self) -> str:
        if self.choices:
            return "choice"
        return "text" if isinstance(self.value, str) else "range"

    def checked(self, value: Any) -> Value:
        """`value` as this knob's own type. Raises RagLabError where it lies outside."""
        try:
            if self.kind == "text":
                return str(value)
            if self.kind == "choice":
                if value not in self.choices:
                    raise ValueError
                return str(value)
            number = int(value) if isinstance(self.value, int) else float(value)
            if not float(self.low or 0) <= number <= float(self.high or 0):
                raise ValueError
        except (TypeError, ValueError):
            raise RagLabError(f"{self.label} is {value!r}: choose {self._bounds()}") from None
        return number

    def _bounds(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return f"a number from {self.low} to {self.high}"

    def shown(self) -> dict[str, Any]:
        """What the widget's script needs to draw it."""
        common = {"name": self.name, "label": self.label, "value": self.value, "help": self.help}
        if self.kind == "range":
            return common | {"min": self.low, "max": self.high, "step": self.step}
        return common | ({"choices": list(self.choices)} if self.choices else {"text": True})


class Panel(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget's base class is untyped
    """`draw`'s picture under `title`, with `knobs`; `settings` maps a knob's name to its value."""

    _esm = joined(SCRIPTS)
    _css = joined(STYLES)

    title = traitlets.Unicode("").tag(sync=True)
    html = traitlets.Unicode("").tag(sync=True)
    words = traitlets.Unicode("").tag(sync=True)
    knobs: Any = traitlets.List().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    presses = traitlets.Bool(False).tag(sync=True)  # does anyone listen to what is pressed?
    status = traitlets.Unicode("").tag(sync=True)  # what went wrong or was pressed, or empty
    busy = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        title: str,
        draw: Callable[..., Drawing],
        knobs: Sequence[Knob],
        *,
        press: Callable[[str], str] | None = None,
    ) -> None:
        """press: what to do with a key that was pressed; says what it did."""
        self._draw, self._press = draw, press
        self._knobs = {knob.name: knob for knob in knobs}
        settings = {knob.name: knob.value for knob in knobs}
        first = draw(**settings)
        super().__init__(
            title=clean(title),
            html=clean(str(first.html)),
            words=clean(first.words),
            knobs=[knob.shown() for knob in knobs],
            settings=settings,
            presses=press is not None,
        )
        self.observe(self._draw_again, names=["settings"])
        self.on_msg(self._heard)

    def turn(self, **settings: Value) -> Panel:
        """Turns some knobs, leaves the others; as `panel.settings = {...}` does."""
        self.settings = {**self.settings, **settings}
        return self

    def press(self, key: str) -> Panel:
        """As a reader presses what carries this key; `status` tells what it did."""
        if self._press is None:
            raise RagLabError("nothing in this picture can be pressed: turn a knob")
        self.busy = True
        try:
            self.status = clean(self._press(key))
        except Exception as error:  # whatever it does may fail, and the picture stays
            self.status = in_words(error)
        finally:
            self.busy = False
        return self

    def _heard(self, widget: object, content: Any, buffers: object) -> None:
        key = content.get("press") if isinstance(content, dict) else None
        if self._press is not None and isinstance(key, str):
            self.press(key)

    def _draw_again(self, change: object) -> None:
        self.busy = True
        try:
            drawing = self._draw(**self._checked(self.settings))
        except Exception as error:  # whatever a stage raises is told, and the last picture stays
            self.status = in_words(error)
        else:
            self.status = ""
            with self.hold_sync():
                self.html, self.words = clean(str(drawing.html)), clean(drawing.words)
        finally:
            self.busy = False

    def _checked(self, settings: Mapping[str, Any]) -> dict[str, Value]:
        unknown = [name for name in settings if name not in self._knobs]
        if unknown:
            known = ", ".join(self._knobs) or "none"
            raise RagLabError(f"there is no knob {unknown[0]!r}; there are {known}")
        return {
            name: knob.checked(settings.get(name, knob.value)) for name, knob in self._knobs.items()
        }

    def page(self) -> str:
        """The picture as a page of its own: no kernel, no network, and so no knob."""
        state: dict[str, Any] = {"title": self.title, "html": self.html, "words": self.words}
        state |= {"knobs": [], "settings": {}, "status": "", "busy": False, "presses": False}
        return widget_page(self.title, state, joined(SCRIPTS), joined(STYLES), self.html)

    def __repr__(self) -> str:
        return f"{self.title}: {self.words}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and its picture as HTML for viewers that run nothing."""
        data, metadata = super()._repr_mimebundle_(**kwargs)
        page = Markup("<div><p><b>{}.</b> {}</p>{}</div>")
        still = page.format(self.title, self.words, Markup(self.html))
        return data | {"text/plain": repr(self), "text/html": str(still)}, metadata
