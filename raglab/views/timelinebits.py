"""What a timeline is drawn with: the line and its dots, chips, thin bars, and texts that fold.

Colours are the panel's own where its styles are; elsewhere they are mixed from the colour of the
text, so they can be read on a light page and on a dark one.

Every text is escaped here, whoever wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from markupsafe import Markup

from raglab.types import Chunk
from raglab.views.bars import tint

GOOD, BAD = ("enough", "supported"), ("lacking", "not supported", "stop", "refused")
LONG = 240  # letters of a text that are shown at once
SOFT = "color-mix(in srgb, currentColor 74%, transparent)"
LINE = "color-mix(in srgb, currentColor 22%, transparent)"
ICONS: Mapping[str, tuple[int, str]] = {  # a kind of row -> its colour, and a path of 16 by 16
    "asked": (5, "M5.6 6a2.4 2.4 0 1 1 3.5 2.2Q8 8.8 8 10M8 12.6v.1"),
    "decided": (3, "M8 3v2.5c0 2.5-4 2.5-4 5V13M8 5.5c0 2.5 4 2.5 4 5V13"),
    "searched": (0, "M7 3.5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7M9.6 9.6L13 13"),
    "found": (0, "M4 4.5h8M4 8h8M4 11.5h5"),
    "gathered": (4, "M3 4h10L9.5 8.5V13l-3-1.5v-3z"),
    "answered": (2, "M3 4h10v6.5H8L5 13v-2.5H3z"),
    "stands": (2, "M4 8.5l2.8 2.8L12 5"),
    "falls": (1, "M4.5 4.5l7 7M11.5 4.5l-7 7"),
}


def row(kind: str, head: str, body: Markup, *, pill: str, took: str, place: str) -> Markup:
    """A list item with its dot. place: "first", "last", or in between; the line ends there."""
    colour, path = ICONS[kind]
    ruled = kind == "searched"  # a search begins a new part
    at = f"11px {'12px' if place == 'first' else '0'} / 2px {'12px' if place == 'last' else '100%'}"
    return Markup(
        '<li style="display:grid;grid-template-columns:24px minmax(0,1fr);gap:0 12px;'
        'background:linear-gradient({},{}) {} no-repeat">{}'
        '<div style="{}padding-bottom:16px;overflow-wrap:anywhere">'
        '<div style="display:flex;flex-wrap:wrap;gap:2px 8px;align-items:baseline;margin-top:1px">'
        '<strong style="font-size:14px">{}</strong>{}'
        '<span style="margin-left:auto;color:{}">{}</span></div>{}</div></li>'
    ).format(
        LINE, LINE, at, _dot(colour, path, "9px" if ruled else "0"),
        f"border-top:1px solid {LINE};padding-top:8px;" if ruled else "",
        head, _pill(pill), SOFT, took, body,
    )  # fmt: skip


def _dot(colour: int, path: str, below: str) -> Markup:
    return Markup(
        '<span aria-hidden="true" style="width:24px;height:24px;border-radius:50%;background:{};'
        'margin-top:{}"><svg viewBox="0 0 16 16" fill="none" stroke="var(--ground, #fff)" '
        'stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" '
        'style="display:block;width:16px;height:16px;min-width:0;margin:4px">'
        '<path d="{}"/></svg></span>'
    ).format(tint(colour), below, path)


def _pill(choice: str) -> Markup:
    if not choice:
        return Markup("")
    colour = tint(2 if choice in GOOD else 1 if choice in BAD else 3)
    return Markup(
        '<span style="padding:0 8px;border-radius:9px;border:1px solid {};'
        'background:color-mix(in srgb, {} 14%, transparent)">{}</span>'
    ).format(colour, colour, cut(choice, 60))


# -- chips ----------------------------------------------------------------------------------------


def chips(items: Iterable[Markup], *, grid: bool = False) -> Markup:
    """Chips in a row that wraps, or as cards of one width."""
    inner = Markup("").join(items)
    if not inner:
        return inner
    shape = (
        "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(215px,100%),1fr))"
        if grid
        else "display:flex;flex-wrap:wrap"
    )
    return Markup(
        '<ul role="list" style="list-style:none;margin:6px 0 0;padding:0;gap:6px;{}">{}</ul>'
    ).format(shape, inner)


def chip(inner: Markup, *, key: str, style: str = "padding:1px 7px") -> Markup:
    return Markup(
        '<li data-key="{}" style="border:1px solid {};border-radius:5px;min-width:0;'
        'overflow-wrap:anywhere;{}">{}</li>'
    ).format(key, LINE, style, inner)


def source(n: int, name: str, evidence: Collection[str]) -> Markup:
    """[n], a star where it holds the answer, and the id of the chunk."""
    star = Markup('<b style="color:var(--evidence, inherit)">★</b> ') if name in evidence else ""
    return Markup("[{}] {}<bdi>{}</bdi>").format(n, star, name)


def card(
    chunk: Chunk, n: int, evidence: Collection[str], off: bool, support: float | None
) -> Markup:
    """A passage with its heading and how well it supports. off: it was judged not relevant."""
    name = chunk.chunk_id
    style = "padding:4px 8px;"
    style += "border-color:var(--evidence-line, #d55e00);" if name in evidence else ""
    style += f"border-style:dashed;color:{SOFT};" if off else ""
    inner = Markup("<b>{}</b>{}{}{}").format(
        source(n, name, evidence),
        block(folded(chunk.heading, LONG // 2) if chunk.heading else ""),
        Markup("<em>not relevant</em>") if off else "",
        "" if support is None else bar(support, f"support {support:.2f}", 0),
    )
    return chip(inner, key=name, style=style)


def bar(share: float, label: str, colour: int) -> Markup:
    """A label over a thin bar; share: from 0 to 1. The label says it all, so the bar is silent."""
    return Markup(
        '<div style="margin-top:2px">{}<div aria-hidden="true" style="height:4px;border-radius:2px;'
        'background:{}"><div style="height:4px;border-radius:2px;width:{:.1f}%;background:{}">'
        "</div></div></div>"
    ).format(label, LINE, 100 * min(max(share, 0), 1), tint(colour))


# -- texts ----------------------------------------------------------------------------------------


def block(inner: str | Markup, style: str = "") -> Markup:
    if not inner:
        return Markup("")
    return Markup('<div style="margin-top:2px;{}">{}</div>').format(style, inner)


def aside(*told: str) -> Markup:
    """What is worth a soft line: those of the texts that are not empty."""
    return block("; ".join(filter(None, told)), f"color:{SOFT}")


def quoted(text: str) -> Markup:
    return block(folded(f"“{text}”"))


def folded(text: str, most: int = LONG, cites: Mapping[int, str] | None = None) -> Markup:
    """A text; what is beyond `most` letters is folded away. cites: number -> chunk id."""
    text = " ".join(text.split())
    shown = cut(text, most)
    start = Markup("<bdi>{}</bdi>").format(_tied(shown, cites or {}))
    if shown == text:
        return start
    rest = text[len(shown) - 1 :].lstrip()
    return start + Markup(
        '<details data-fold="{}"><summary style="cursor:pointer;min-height:24px">'
        "{:,} letters more</summary><bdi>…{}</bdi></details>"
    ).format(text[:40], len(rest), _tied(rest, cites or {}))


def _tied(text: str, cites: Mapping[int, str]) -> Markup:
    """The text, in which each [n] that cites a chunk lights up with it."""
    return Markup("").join(
        Markup('<b data-key="{}">{}</b>').format(cites[int(piece[1:-1])], piece)
        if re.fullmatch(r"\[[0-9]{1,6}\]", piece) and int(piece[1:-1]) in cites
        else piece
        for piece in re.split(r"(\[[0-9]+\])", text)
    )


def cut(text: str, most: int = LONG) -> str:
    """
    >>> cut("one two three", 9)
    'one two…'
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    words = text[:most].rpartition(" ")[0]
    return f"{words if len(words) > most // 2 else text[:most]}…"


def ended(text: str) -> str:
    """
    >>> ended("It stands"), ended("“Why?”")
    ('It stands.', '“Why?”')
    """
    return text if text.rstrip("”)]").endswith((".", "!", "?", "…")) else f"{text}."


def many(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
