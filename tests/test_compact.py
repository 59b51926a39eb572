"""Token vectors in four bits: what a round trip loses, and that products need no unpacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raglab.ingest.compact import Compact
from raglab.ingest.embed import SentenceEncoder, unit


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_no_number_is_off_by_more_than_half_a_step(rows: int, width: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    small = Compact.of(vectors)
    steps = small.scales.astype(np.float32)[:, None]
    # The scale itself is kept in half precision: a thousandth of 7.5 steps comes on top.
    assert np.all(np.abs(small.vectors() - vectors) <= 0.51 * steps + 1e-6)
    assert small.codes.shape == (rows, (width + 1) // 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_products_are_those_of_the_unpacked_vectors(rows: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    small = Compact.of(random.normal(size=(rows, width)))
    query = random.normal(size=(3, width)).astype(np.float32)
    assert np.allclose(small.dots(query), small.vectors() @ query.T, atol=1e-4)


def test_a_row_of_zeros_stays_one() -> None:
    assert np.abs(Compact.of(np.zeros((2, 4))).vectors()).max() < 1e-6


def test_rows_do_not_depend_on_each_other() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 8))
    whole = Compact.of(vectors)
    pieces = Compact.joined([Compact.of(vectors[:2]), Compact.of(vectors[2:])], 8)
    assert np.array_equal(whole.codes, pieces.codes)
    assert np.array_equal(whole[1:3].vectors(), whole.vectors()[1:3])
    assert len(Compact.joined((), 8)) == 0


def test_real_token_vectors_keep_their_direction(encoder: SentenceEncoder) -> None:
    (encoding,) = encoder.encode(["Refunds take five working days, says policy ERR_2043."])
    exact = encoding.tokens.astype(np.float32)
    small = Compact.of(exact)
    assert np.einsum("td,td->t", unit(small.vectors()), exact).min() > 0.98
    assert small.codes.nbytes == pytest.approx(exact.nbytes / 8)
