"""Row means taken off before a solve, and kept."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from draws import draw

# The mean of a row of signals has the variance rho/P, which stays in Y as an error: it must be small beside the noise.
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=20.0, rho=0.1, eta=0.01, noise_variance=1e-2)
OBSERVED = draw(PROBLEM, 20, seed=1).observed
OFFSET = 50 + 10 * np.arange(12.0)


def test_an_offset_of_each_row_changes_nothing() -> None:
    there, without = (sp.solve(OBSERVED._replace(Y=OBSERVED.Y + offset), PROBLEM, center=True) for offset in (OFFSET[:, None], 0.0))
    np.testing.assert_allclose(there.mean.X, without.mean.X, atol=1e-6)
    np.testing.assert_allclose(there.row_means, OFFSET + OBSERVED.Y.mean(axis=1), rtol=1e-12)
    assert there.status == "converged"
    assert there.warnings == ()
    fitted = there.mean.F @ there.mean.X / np.sqrt(20) + there.row_means[:, None]
    assert np.mean((fitted - OBSERVED.Y - OFFSET[:, None]) ** 2) == pytest.approx(float(there.residual), rel=1e-6)
    np.testing.assert_array_equal(there.to_xarray()["row_means"], there.row_means)


def test_means_are_of_observed_entries_and_of_each_instance() -> None:
    Y = OBSERVED.Y + OFFSET[:, None]
    seen = np.random.default_rng(0).random(Y.shape) < 0.9
    batch = sp.Observed(np.stack([Y, 2 * Y]), np.stack([OBSERVED.F_prime] * 2), np.stack([seen] * 2))
    found = sp.solve(batch, PROBLEM, center=True, max_iterations=2)
    means = np.mean(Y, axis=1, where=seen)
    np.testing.assert_allclose(found.row_means, [means, 2 * means])
    np.testing.assert_allclose(found[1].row_means, 2 * means)
    np.testing.assert_allclose(np.sum(found[0].observed.Y, axis=1), 0, atol=1e-9)


def test_without_it_nothing_is_taken_off() -> None:
    found = sp.solve(OBSERVED, PROBLEM, max_iterations=2)
    assert found.row_means is None
    assert "row_means" not in found.to_xarray()


def test_what_is_suspicious_is_looked_for_in_the_data_as_given() -> None:
    Y = np.where(np.random.default_rng(0).random(OBSERVED.Y.shape) < 0.02, -999.0, OBSERVED.Y)
    warnings = sp.solve(OBSERVED._replace(Y=Y), PROBLEM, center=True, max_iterations=2).warnings
    assert any("are -999" in warning for warning in warnings)


def test_refused_where_the_model_explains_the_mean() -> None:
    positive = PROBLEM.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.1, mean=1.0)))
    with pytest.raises(sp.InputError, match="center must be left out where the prior of X has a mean"):
        sp.solve(OBSERVED, positive, center=True)
    with pytest.raises(sp.InputError, match="center must be True or False, but 'yes' was given"):
        sp.solve(OBSERVED, PROBLEM, center="yes")
