"""Bars and heat maps as HTML tables: read aloud they say the same as they show."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from raglab.types import Part

INK, SOFT = "var(--ink, #1b1f24)", "var(--soft, #5a626c)"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00", "#4b5563")  # Okabe and Ito's
PATTERNS = ("", "45deg", "135deg", "90deg", "0deg", "60deg")  # stripes, where colours run out


def tint(n: int) -> str:
    """The n-th colour, as the panel's own where its styles are, as a fallback elsewhere."""
    n %= len(PALETTE)
    return f"var(--bold-{n}, {PALETTE[n]})"


def bars(
    rows: Sequence[tuple[str, Sequence[Part]]],
    *,
    unit: str = "",
    keys: Sequence[str] = (),
    caption: str = "",
) -> Markup:
    """A stacked bar for each row, a segment for each part; parts below 0 stand left of the line.

    `keys` names the rows for hovering; without it the labels do.
    """
    names = list(dict.fromkeys(part.name for _, parts in rows for part in parts))
    most = max((sum(p.value for p in parts if p.value > 0) for _, parts in rows), default=0.0)
    least = max((-sum(p.value for p in parts if p.value < 0) for _, parts in rows), default=0.0)
    room = (most + least) or 1.0
    body = Markup("").join(
        _row(label, keys[n] if keys else label, parts, names, least, room)
        for n, (label, parts) in enumerate(rows)
    )
    legend = Markup("").join(
        Markup(
            '<span style="display:inline-block;margin-right:14px" data-key="part: {}">{} {}</span>'
        )
        .format(name, _swatch(n), name)
        for n, name in enumerate(names)
    )  # fmt: skip
    return Markup(
        '<table style="width:100%;max-width:760px"><caption>{}</caption><tbody>{}</tbody></table>'
        "<p>{}</p>"
    ).format(caption or unit, body, legend)


def _row(
    label: str, key: str, parts: Sequence[Part], names: list[str], least: float, room: float
) -> Markup:
    taking = [p for p in parts if p.value < 0]
    below = -sum(p.value for p in taking)
    said = ", ".join(f"{p.name} {p.value:+.3g}" for p in parts) or "nothing"
    segments = Markup("").join(
        _segment(p, names.index(p.name), room)
        for p in (*taking, *(p for p in parts if p.value > 0))
    )
    return Markup(
        '<tr data-key="{}"><th scope="row" style="width:30%;font-weight:500">{}</th>'
        '<td style="width:60%"><div role="img" aria-label="{}" style="display:flex;height:16px;'
        'padding-left:{:.1f}%">{}</div></td><td>{:.4g}</td></tr>'
    ).format(key, label, said, 100 * (least - below) / room, segments, sum(p.value for p in parts))


def _segment(part: Part, n: int, room: float) -> Markup:
    return Markup(
        '<span data-key="part: {}" title="{} {:+.3g}" style="flex:none;height:16px;width:{:.1f}%;'
        'background:{};border-right:1px solid var(--ground, #fff);{}"></span>'
    ).format(
        part.name, part.name, part.value, 100 * abs(part.value) / room, _fill(n),
        "opacity:0.75;outline:1px dashed var(--ink, #1b1f24);outline-offset:-1px"
        if part.value < 0 else "",
    )  # fmt: skip


def _fill(n: int) -> str:
    stripe = PATTERNS[(n // len(PALETTE)) % len(PATTERNS)]
    if not stripe:
        return tint(n)
    gap = "var(--ground, #fff)"
    return f"repeating-linear-gradient({stripe}, {tint(n)} 0 5px, {gap} 5px 7px)"


def _swatch(n: int) -> Markup:
    return Markup(
        '<span aria-hidden="true" class="rl-swatch" style="display:inline-block;width:12px;'
        'height:12px;background:{}"></span>'
    ).format(_fill(n))


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    pointed: Sequence[int | None] = (),
    caption: str = "",
    digits: int = 2,
) -> Markup:
    """A table of coloured cells, darker where the value is higher; shape [rows][columns].

    `pointed[r]` is the column that row r chose: it is framed and its number is bold.
    """
    flat = [value for row in values for value in row]
    low, high = min(flat, default=0.0), max(flat, default=1.0)
    head = Markup("").join(
        Markup('<th scope="col" data-key="column {}">{}</th>').format(n, name)
        for n, name in enumerate(columns)
    )
    body = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            name,
            Markup("").join(
                _cell(value, low, high, r < len(pointed) and pointed[r] == c, c, digits)
                for c, value in enumerate(values[r])
            ),
        )
        for r, name in enumerate(rows)
    )
    return Markup(
        "<table><caption>{}</caption><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(caption, head, body)


def _cell(value: float, low: float, high: float, chosen: bool, column: int, digits: int) -> Markup:
    share = 0.0 if high <= low else (value - low) / (high - low)
    # Text keeps its contrast: a cell is never mixed with more than 55% of the colour.
    mix = f"color-mix(in srgb, {tint(0)} {round(55 * share)}%, transparent)"
    frame = (
        "outline:2px solid var(--ink, #1b1f24);outline-offset:-2px;font-weight:700"
        if chosen
        else ""
    )
    return Markup('<td data-key="column {}" style="background:{};{}">{}{:.{}f}</td>').format(
        column, mix, frame, "→ " if chosen else "", value, digits
    )
