"""Inverses of many small matrices by halves: against LAPACK's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from spinodal.inference.coding.inverse import inverse


@pytest.mark.parametrize("size", [8, 24])
def test_inverses_and_determinants_are_lapacks(size: int) -> None:
    roots = np.random.default_rng(0).normal(size=(5, size, size))
    matrices = roots @ roots.transpose(0, 2, 1) / size + 0.1 * np.eye(size)
    with jax.enable_x64(True):
        found, logs = jax.jit(inverse)(matrices)
    np.testing.assert_allclose(found, np.linalg.inv(matrices), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(logs, np.linalg.slogdet(matrices)[1], rtol=1e-10)
