"""Where a chunk was lost, as the Explorer asks it; what decides stands in `raglab.fates`."""

from raglab.fates import (
    Loss,
    Wanted,
    all_chunks,
    first_loss,
    hits_of,
    holding,
    may_see,
    missing,
    rank_in,
)

__all__ = [
    "Loss", "Wanted", "all_chunks", "first_loss", "hits_of", "holding", "may_see", "missing",
    "rank_in",
]  # fmt: skip
