"""Row means taken off before a solve, and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import spinodal as sp
from draws import draw
from spinodal.inference.offsets import constant_part

# The mean of a row of signals has the variance rho/P: here it is small beside the noise, and stays in Y.
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


def test_offsets_that_are_known_are_taken_off() -> None:
    Y = OBSERVED.Y + OFFSET[:, None]
    told, without = sp.solve(OBSERVED._replace(Y=Y), PROBLEM, center=OFFSET), sp.solve(OBSERVED, PROBLEM, center=False)
    np.testing.assert_allclose(told.mean.X, without.mean.X, atol=1e-6)
    np.testing.assert_array_equal(told.row_means, OFFSET)
    with pytest.raises(
        sp.InputError, match=r"center must have a finite number for each row of Y \(\(12,\)\), but an array of shape \(3,\)"
    ):
        sp.solve(OBSERVED, PROBLEM, center=np.zeros(3))


def test_centred_data_are_left_as_they_are() -> None:
    found, without = (sp.solve(OBSERVED, PROBLEM, max_iterations=5, **more) for more in ({}, {"center": False}))
    assert (found.row_means, found.centered) == (None, None)
    assert "row_means" not in found.to_xarray()
    np.testing.assert_array_equal(found.observed.Y, OBSERVED.Y)
    np.testing.assert_array_equal(found.mean.X, without.mean.X)


def test_an_offset_is_taken_off_and_that_is_said() -> None:
    far = OBSERVED._replace(Y=OBSERVED.Y + OFFSET[:, None])
    found, asked, left = (sp.solve(far, PROBLEM, **more) for more in ({}, {"center": True}, {"center": False}))
    np.testing.assert_array_equal(found.mean.X, asked.mean.X)
    np.testing.assert_array_equal(found.row_means, asked.row_means)
    assert (found.status, found.centered, asked.centered, left.centered) == ("converged", "auto", "asked", None)
    assert left.row_means is None
    assert asked.warnings == ()
    (warning,) = found.warnings
    assert "so the mean of each row was taken off and kept as row_means" in warning
    assert "center=False (--no-center)" in warning
    assert "subtract the mean of each row (center=True, --center)" in left.warnings[0]


@pytest.mark.claims
def test_a_small_offset_of_many_signals_is_told_from_chance() -> None:
    """1% of the power, far above the 1/2000 that a mean of 2000 signals has by chance."""
    Y = np.random.default_rng(0).normal(size=(6, 2000))
    for offset, off in ((0.1, True), (0.01, False)):
        assert (sp.solve(Y + offset, n_atoms=3, max_iterations=1, runs=1).row_means is not None) is off
    # Marks for missing entries are no mean.
    marked = np.where(np.random.default_rng(1).random(Y.shape) < 0.01, -999.0, Y)
    assert sp.solve(marked, n_atoms=3, max_iterations=1, runs=1).row_means is None


@pytest.mark.claims
def test_holes_batches_and_numbers_of_atoms_are_looked_at_by_themselves() -> None:
    seen = np.random.default_rng(0).random(OBSERVED.Y.shape) < 0.8
    far = OBSERVED.Y + OFFSET[:, None]
    batch = sp.Observed(np.stack([OBSERVED.Y, far]), None, np.stack([seen] * 2))
    found = sp.solve(batch, n_atoms=20, max_iterations=2, runs=1)
    np.testing.assert_array_equal(found.row_means[0], 0)
    np.testing.assert_allclose(found.row_means[1], np.mean(far, axis=1, where=seen))
    assert (found[0].row_means, found[0].centered, found[1].centered) == (None, None, "auto")
    assert not any("mean of Y" in words for words in found.warnings[0])
    assert "mean of Y" in found.warnings[1][0]
    several = sp.solve(far, n_atoms=[4, 5], max_iterations=2, runs=1)
    np.testing.assert_allclose(several.row_means, far.mean(axis=1))
    assert several.centered == "auto"


@pytest.mark.parametrize(
    "model",
    [
        PROBLEM.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.1, mean=1.0))),
        PROBLEM.replace(channel=sp.SensorOffsets(1e-2)),
        PROBLEM.replace(channel=sp.Clipped(-100.0, 500.0, variance=1e-2)),
    ],
)
def test_nothing_is_taken_off_where_the_model_explains_the_mean(model: sp.Problem) -> None:
    assert sp.solve(OBSERVED._replace(Y=OBSERVED.Y + 50), model, max_iterations=2).row_means is None


def test_a_mean_that_is_learned_stays() -> None:
    found = sp.solve(OBSERVED._replace(Y=OBSERVED.Y + 50), PROBLEM, learn=("slab_mean",), max_iterations=2)
    assert found.row_means is None


@pytest.mark.claims
def test_noise_with_outliers_is_centred_too() -> None:
    found = sp.solve(OBSERVED.Y + 50, F_prime=OBSERVED.F_prime, channel=sp.Outliers(1e-2), max_iterations=2)
    assert found.centered == "auto"
    assert "mean of Y is far from zero" in found.warnings[0]


def test_what_is_suspicious_is_looked_for_in_the_data_as_given() -> None:
    Y = np.where(np.random.default_rng(0).random(OBSERVED.Y.shape) < 0.02, -999.0, OBSERVED.Y)
    warnings = sp.solve(OBSERVED._replace(Y=Y), PROBLEM, center=True, max_iterations=2).warnings
    assert any("are -999" in warning for warning in warnings)


def test_refused_where_the_model_explains_the_mean() -> None:
    positive = PROBLEM.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.1, mean=1.0)))
    with pytest.raises(sp.InputError, match="center must be left out where the prior of X has a mean"):
        sp.solve(OBSERVED, positive, center=True)
    with pytest.raises(sp.InputError, match=r"center must be True, False or .auto., but 'yes' was given"):
        sp.solve(OBSERVED, PROBLEM, center="yes")


@pytest.mark.claims
@pytest.mark.parametrize("shape", [(), (2,)])
def test_at_little_noise_offsets_are_found_better_than_by_means(shape: tuple[int, ...]) -> None:
    """The mean of a row is wrong by sqrt(rho/P), five times the noise here: an atom would be spent on that."""
    rng = np.random.default_rng(3)
    F, X = rng.standard_normal((*shape, 20, 20)), rng.standard_normal((*shape, 20, 400))
    X *= rng.random(X.shape) < 0.15
    noise, offset = 4e-3, 50 + np.arange(20.0)
    Y = F @ X / np.sqrt(20) + offset[:, None] + noise * rng.standard_normal((*shape, 20, 400))
    found = sp.solve(Y, n_atoms=20)
    assert np.all(np.asarray(found.status) == "converged")
    assert np.sqrt(np.mean((np.mean(Y, axis=-1) - offset) ** 2)) > 2 * noise
    assert np.sqrt(np.mean((found.row_means - offset) ** 2)) < 0.5 * noise
    assert np.max(sp.score(found.mean, sp.Pair(F, X)).angle) < 1e-3


def test_what_all_signals_share_is_seen_in_codes_and_residuals() -> None:
    solution = sp.solve(OBSERVED, PROBLEM, max_iterations=30)
    F, X = solution.mean
    np.testing.assert_array_equal(constant_part(solution, OBSERVED), np.zeros(12))
    shift = np.linspace(0.03, 0.08, 12)
    np.testing.assert_allclose(constant_part(solution, OBSERVED._replace(Y=OBSERVED.Y + shift[:, None])), shift, atol=0.02)
    moved = replace(solution, mean=sp.Pair(F, X + 0.2 * (np.arange(20) == 4)[:, None]))
    explained = OBSERVED._replace(Y=OBSERVED.Y + 0.2 * F[:, 4:5] / np.sqrt(20))
    np.testing.assert_allclose(constant_part(moved, explained), 0.2 * F[:, 4] / np.sqrt(20), atol=0.02)
    far = constant_part(solution, OBSERVED._replace(Y=OBSERVED.Y + 10))  # no mean is wrong by so much
    np.testing.assert_array_equal(far, np.zeros(12))
    dense = replace(solution, model=solution.model.replace(prior=sp.Pair(solution.model.prior.F, sp.GaussBernoulli(0.6))))
    np.testing.assert_array_equal(constant_part(dense, explained), np.zeros(12))
