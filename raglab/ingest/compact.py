"""Token vectors in four bits a number: an eighth of float32, and the ranking hardly notices.

Late interaction keeps a vector for every word piece, so they are most of an index.  Each row is
scaled by its largest number and rounded to one of sixteen steps:

    scale = max |v| / 7.5      code = round(v / scale + 7.5), 0 to 15      v ≈ (code - 7.5) · scale

Rounding errs by at most half a step, now up, now down, and in a sum over hundreds of dimensions
the errors mostly cancel.  Two codes share a byte.  A product with a query is taken on the codes
themselves, without spelling the vectors out:

    q · v ≈ scale · (Σ_i q_i · code_i  -  7.5 · Σ_i q_i)

Nothing is fitted, so a row's codes do not depend on other rows, and an index can grow row by row.
What this costs in quality, beside float16, 8 bits and fewer dimensions, is measured in
data/measured/tokens.json.  ColBERTv2 (Santhanam et al. 2022) gets smaller still, with learned
centroids.

Left out: centroids, and formats of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raglab.types import Vectors

MIDDLE = 7.5  # of the sixteen codes


@dataclass(frozen=True, eq=False)
class Compact:
    """t vectors of `width` dimensions. A slice of rows is a Compact too."""

    codes: NDArray[
        np.uint8
    ]  # [t, (width + 1) // 2]: an even dimension's code, then 16 · the next's
    scales: NDArray[np.float16]  # [t]
    width: int

    @classmethod
    def of(cls, vectors: NDArray[Any]) -> Compact:
        """
        >>> small = Compact.of(np.array([[0.6, -0.8], [0.0, 1.0]]))
        >>> small.vectors().astype(float).round(2).tolist()
        [[0.59, -0.8], [0.07, 1.0]]
        """
        rows, width = vectors.shape
        vectors = vectors.astype(np.float32)
        scales = (np.abs(vectors).max(axis=1, initial=0.0) / MIDDLE).astype(np.float16)
        steps = np.maximum(scales.astype(np.float32), 1e-7)[:, None]
        codes = np.clip(np.round(vectors / steps + MIDDLE), 0, 15).astype(np.uint8)
        if width % 2:
            codes = np.concatenate([codes, np.zeros((rows, 1), np.uint8)], axis=1)
        return cls(codes[:, 0::2] | codes[:, 1::2] << 4, scales, width)

    @classmethod
    def joined(cls, pieces: Sequence[Compact], width: int) -> Compact:
        """One behind the other; of no piece, no row."""
        pieces = [cls.of(np.zeros((0, width), np.float32)), *pieces]
        return cls(
            np.concatenate([piece.codes for piece in pieces]),
            np.concatenate([piece.scales for piece in pieces]),
            width,
        )

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> Compact:
        return Compact(self.codes[rows], self.scales[rows], self.width)

    def vectors(self) -> Vectors:
        """float32 [t, width]: the vectors, as well as sixteen steps can tell."""
        spelled = np.empty((len(self), 2 * self.codes.shape[1]), np.float32)
        spelled[:, 0::2], spelled[:, 1::2] = self.codes & 15, self.codes >> 4
        scaled: Vectors = (spelled - np.float32(MIDDLE)) * self.scales.astype(np.float32)[:, None]
        return scaled[:, : self.width]

    def dots(self, query: Vectors) -> Vectors:
        """float32 [t, q]: the product of each row with each row of `query` [q, width]."""
        even, odd = query[:, 0::2], query[:, 1::2]
        products = (self.codes & 15).astype(np.float32) @ even.T
        products += (self.codes >> 4).astype(np.float32)[:, : odd.shape[1]] @ odd.T
        products -= np.float32(MIDDLE) * query.sum(axis=1)
        products *= self.scales.astype(np.float32)[:, None]
        return products
