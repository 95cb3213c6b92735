"""The median by counting is the one by sorting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinodal.solvers.median import median, quantile

SIZE = 9  # one compilation for all
numbers = st.floats(min_value=0, max_value=1e30, allow_subnormal=False)


def by_counting(values: list[float] | np.ndarray, dtype: str) -> float:
    with jax.enable_x64(dtype == "float64"):
        return float(jax.jit(median)(jnp.asarray(values, dtype)))


@given(values=st.lists(numbers, min_size=SIZE, max_size=SIZE))
@settings(max_examples=50, deadline=None)
def test_it_is_the_middle_one(values: list[float]) -> None:
    assert by_counting(values, "float64") == pytest.approx(sorted(values)[SIZE // 2], rel=1e-6)
    single = np.sort(np.asarray(values, np.float32))
    assert by_counting(values, "float32") == pytest.approx(single[SIZE // 2], rel=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_lower_of_two_infinities_ties_and_nan(dtype: str) -> None:
    assert by_counting([1, 4, 2, 3], dtype) == 2
    assert by_counting([5, 5, 5, 1], dtype) == 5
    assert by_counting([0, 0, 0, 7], dtype) == 0
    assert by_counting([1, np.inf, np.inf], dtype) == np.inf
    assert np.isnan(by_counting([1, 2, np.nan], dtype))
    assert by_counting([0.25], dtype) == 0.25


def test_a_quarter() -> None:
    values = np.random.default_rng(0).lognormal(size=401)
    with jax.enable_x64(True):
        assert float(quantile(jnp.asarray(values), 0.25)) == pytest.approx(np.quantile(values, 0.25, method="inverted_cdf"), rel=1e-6)


def test_batches_have_a_median_each() -> None:
    values = np.random.default_rng(0).lognormal(size=(4, 501))
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.vmap(median)(jnp.asarray(values)), np.median(values, axis=1), rtol=1e-6)
