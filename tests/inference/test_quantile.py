"""Quantiles are elements of the vector, the lower of two; NaN says so."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinodal.inference.execution.machine import _ranked_by_counting
from spinodal.inference.loop import median, quantile

SIZE = 9  # one compilation for all
MANY = 128
numbers = st.floats(min_value=0, max_value=1e30, allow_subnormal=False)


def found(values: list[float] | np.ndarray, dtype: str) -> float:
    with jax.enable_x64(dtype == "float64"):
        return float(jax.jit(median)(jnp.asarray(values, dtype)))


@given(values=st.lists(numbers, min_size=SIZE, max_size=SIZE))
@settings(max_examples=50, deadline=None)
def test_it_is_the_middle_one(values: list[float]) -> None:
    """Of a few, and of many."""
    for copies in (1, -(-MANY // SIZE)):
        some = values * copies
        assert found(some, "float64") == pytest.approx(np.quantile(some, 0.5, method="inverted_cdf"), rel=1e-6)
        single = np.quantile(np.asarray(some, np.float32), 0.5, method="inverted_cdf")
        assert found(some, "float32") == pytest.approx(single, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_lower_of_two_infinities_ties_and_nan(dtype: str) -> None:
    for copies in (1, MANY):
        assert found([1, 4, 2, 3] * copies, dtype) == 2
        assert found([5, 5, 5, 1] * copies, dtype) == 5
        assert found([0, 0, 0, 7] * copies, dtype) == 0
        assert found([1, np.inf, np.inf] * copies, dtype) == np.inf
        assert np.isnan(found([1, 2, np.nan] * copies, dtype))
    assert found([0.25], dtype) == 0.25


def test_a_quarter() -> None:
    values = np.random.default_rng(0).lognormal(size=401)
    with jax.enable_x64(True):
        assert float(quantile(jnp.asarray(values), 0.25)) == pytest.approx(np.quantile(values, 0.25, method="inverted_cdf"), rel=1e-6)


def test_batches_have_a_median_each() -> None:
    values = np.random.default_rng(0).lognormal(size=(4, 501))
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.vmap(median)(jnp.asarray(values)), np.median(values, axis=1), rtol=1e-6)


@given(values=st.lists(st.floats(-1e300, 1e300), min_size=SIZE, max_size=SIZE), place=st.integers(0, SIZE - 1))
@settings(max_examples=50, deadline=None)
def test_counting_finds_what_sorting_finds(values: list[float], place: int) -> None:
    """To the bit, for numbers of both signs."""
    with jax.enable_x64(True):
        assert float(jax.jit(_ranked_by_counting)(jnp.asarray(values), place)) == sorted(values)[place]
        single = np.clip(values, -1e38, 1e38).astype(np.float32)
        assert float(jax.jit(_ranked_by_counting)(jnp.asarray(single), place)) == np.sort(single)[place]
