"""What is printed in a terminal stays text."""

from __future__ import annotations

from rich.text import Text


def inert(text: str, style: str = "") -> Text:
    """Text from outside, as it is: neither rich's markup nor a terminal's escape codes act."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return Text(shown, style=style)
