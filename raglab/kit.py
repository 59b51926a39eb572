"""What a pipeline could be made of instead: its spare parts.

A pipeline is a value and knows no other stage than its own.  Who wants to play with it, swap the
reranker or cut the documents in another way, needs the others too.  `open_lab` lays them here,
by name, each to be made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raglab.prices import Price
from raglab.types import Chunk

if TYPE_CHECKING:
    from raglab.pipeline import Pipeline

Value = int | float | str


@dataclass(frozen=True)
class Kit:
    """The spare parts of one pipeline."""

    opened: str = ""  # the Python expression that opens it: 'raglab.open_lab("handbook")'
    chunks: tuple[Chunk, ...] = field(default=(), repr=False)  # every chunk of its index
    stages: Mapping[str, Mapping[str, Callable[[], Any]]] = field(default_factory=dict)
    """The pipeline's field -> a name -> what makes the stage."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """The pipeline's field -> the name of the stage that it has."""
    sizes: Mapping[str, Callable[[], Pipeline]] = field(default_factory=dict)
    """A chunk size, in words -> what makes the same pipeline over chunks of that size."""
    presets: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """A name -> settings of dials that belong together."""
    price: Price | None = None  # of the language model that prices are told for
