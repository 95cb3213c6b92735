"""Scores: what they ignore (scale, sign and order of atoms), what they see, and calibration on data whose errors are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.scoring import fit_scales, signal_errors

RNG = np.random.default_rng(7)
M, N, P = 12, 8, 30
TRUTH = sp.Pair(RNG.normal(size=(M, N)), RNG.normal(size=(N, P)) * (RNG.random((N, P)) < 0.3))
ESTIMATE = sp.Pair(TRUTH.F + 0.01 * RNG.normal(size=(M, N)), TRUTH.X + 0.02 * RNG.normal(size=(N, P)))


def transformed(estimate: sp.Pair, scale: np.ndarray, order: np.ndarray) -> sp.Pair:
    """The same product: atoms times numbers, their rows of X divided by them, both in another order."""
    return sp.Pair((estimate.F * scale)[:, order], (estimate.X / scale[:, None])[order])


def test_raw_errors_are_mean_squares() -> None:
    found = sp.score(ESTIMATE, TRUTH)
    assert found.mse.F == pytest.approx(np.mean((ESTIMATE.F - TRUTH.F) ** 2))
    assert found.mse.X == pytest.approx(np.mean((ESTIMATE.X - TRUTH.X) ** 2))


def test_the_truth_itself_has_no_error() -> None:
    found = sp.score(TRUTH, TRUTH)
    for pair in (found.mse, found.mse_scaled, found.mse_aligned):
        assert max(pair) < 1e-25
    assert found.atoms_recovered == 1
    assert np.all(found.angle < 1e-25)


def test_scales_do_not_change_the_scaled_error() -> None:
    scale = RNG.choice([-1.0, 1.0], N) * RNG.uniform(0.2, 5, N)
    one, other = (sp.score(estimate, TRUTH) for estimate in (ESTIMATE, transformed(ESTIMATE, scale, np.arange(N))))
    assert other.mse_scaled.F == pytest.approx(one.mse_scaled.F)
    assert other.mse_scaled.X == pytest.approx(one.mse_scaled.X)
    assert other.mse.F > 10 * one.mse.F


def test_order_signs_and_scales_do_not_change_the_aligned_error() -> None:
    scale, order = RNG.choice([-1.0, 1.0], N) * RNG.uniform(0.2, 5, N), RNG.permutation(N)
    one, other = (sp.score(estimate, TRUTH) for estimate in (ESTIMATE, transformed(ESTIMATE, scale, order)))
    assert other.mse_aligned.F == pytest.approx(one.mse_aligned.F)
    assert other.mse_aligned.X == pytest.approx(one.mse_aligned.X)
    assert np.allclose(other.angle, one.angle)
    assert other.atoms_recovered == one.atoms_recovered == 1
    assert other.mse_scaled.F > 10 * one.mse_scaled.F


def test_fitted_scales_are_the_best_ones() -> None:
    best = np.mean((fit_scales(ESTIMATE, TRUTH.F).F - TRUTH.F) ** 2, axis=0)
    for factor in (0.999, 1.001):
        assert np.all(np.mean((factor * fit_scales(ESTIMATE, TRUTH.F).F - TRUTH.F) ** 2, axis=0) > best)
    fitted = fit_scales(ESTIMATE, TRUTH.F)
    assert np.allclose(fitted.F @ fitted.X, ESTIMATE.F @ ESTIMATE.X)


def test_an_unrelated_estimate_recovers_nothing_and_more_atoms_are_allowed() -> None:
    other = sp.Pair(RNG.normal(size=(M, N + 3)), RNG.normal(size=(N + 3, P)))
    found = sp.score(other, TRUTH)
    assert found.atoms_recovered == 0
    assert np.isnan(found.mse.F)
    wide = sp.Pair(np.hstack([other.F[:, :3], TRUTH.F]), np.vstack([other.X[:3], TRUTH.X]))
    found = sp.score(wide, TRUTH)
    assert found.atoms_recovered == 1
    assert found.mse_aligned.X < 1e-25


def test_fewer_atoms_and_dead_atoms_are_scored_as_missing() -> None:
    found = sp.score(sp.Pair(TRUTH.F[:, :-2], TRUTH.X[:-2]), TRUTH)
    assert found.atoms_recovered == pytest.approx((N - 2) / N)
    dead = sp.Pair(np.where(np.arange(N) == 0, 0.0, TRUTH.F), TRUTH.X)
    found = sp.score(dead, TRUTH)
    assert found.angle[0] == 1
    assert np.isfinite(found.mse_scaled.X)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(sp.InputError, match="truth"):
        sp.score(sp.Pair(TRUTH.F[1:], TRUTH.X), TRUTH)


def test_signal_errors_average_to_the_scaled_error() -> None:
    assert np.mean(signal_errors(ESTIMATE, TRUTH)) == pytest.approx(sp.score(ESTIMATE, TRUTH).mse_scaled.X)


def test_small_angles_keep_their_digits() -> None:
    """1 - cos^2 taken literally would be lost in rounding below 1e-16."""
    across = RNG.normal(size=M)
    across -= TRUTH.F[:, 0] * (across @ TRUTH.F[:, 0]) / np.sum(TRUTH.F[:, 0] ** 2)
    tilt = 1e-10
    F = TRUTH.F.copy()
    F[:, 0] += tilt * across
    expected = tilt**2 * np.sum(across**2) / np.sum(TRUTH.F[:, 0] ** 2)
    assert sp.score(sp.Pair(F, TRUTH.X), TRUTH).angle[0] == pytest.approx(expected, rel=1e-4)


def test_the_scale_floor_is_the_inverse_of_what_fixes_the_scale() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1e-2)
    assert sp.scale_floor(problem, 400) == pytest.approx(1 / (200 / 1e-2 + 2 * 200 + 2 * 0.2 * 1200))
    assert sp.scale_floor(problem.replace(eta=np.inf), 400) == pytest.approx(1 / (2 * 200 + 2 * 0.2 * 1200))
    assert sp.scale_floor(problem.replace(eta=0.0), 400) == 0


def test_the_scale_floor_is_the_variance_of_the_scale() -> None:
    """Sampled: the posterior of log k given the direction of an atom and its row of X, from the priors and F' alone."""
    eta, m, used = 0.5, 40, 30
    k = np.exp(np.linspace(-0.8, 0.8, 4001))
    variances = []
    for _ in range(300):
        F, X = RNG.normal(size=m), RNG.normal(size=used)
        hint = F + np.sqrt(eta) * RNG.normal(size=m)
        # -|k F|^2/2 - |hint - k F|^2/(2 eta) - |X/k|^2/2, as a function of k alone.
        log_weight = -(k**2) * (F @ F) * (1 + 1 / eta) / 2 + k * (hint @ F) / eta - (X @ X) / k**2 / 2
        log_weight += (m - used) * np.log(k)  # the measure: a factor k for every entry of F, 1/k for every nonzero of X
        weight = np.exp(log_weight - log_weight.max())
        mean = np.average(np.log(k), weights=weight)
        variances.append(np.average((np.log(k) - mean) ** 2, weights=weight))
    problem = sp.Problem.sparse(alpha=1.0, pi=1.0, rho=used / m, eta=eta)
    assert np.mean(variances) == pytest.approx(sp.scale_floor(problem, m), rel=0.05)


def test_variances_with_free_scales_cover_raw_errors() -> None:
    """Atoms whose scales are off as the scale floor says, and little else: 1.645 standard deviations hold 90% of them and of signals."""
    problem, n = sp.Problem.sparse(alpha=0.1, pi=0.2, rho=0.5, eta=0.1), 2000
    M, _, P = problem.sizes(n)
    k = np.exp(np.sqrt(sp.scale_floor(problem, n)) * RNG.normal(size=n))
    F, X, small = RNG.normal(size=(M, n)), RNG.normal(size=(n, P)), 1e-4
    mean = sp.Pair(F * k + small * RNG.normal(size=F.shape), X / k[:, None] + small * RNG.normal(size=X.shape))
    solution = SimpleNamespace(mean=mean, variance=sp.Pair(np.full(F.shape, small**2), np.full(X.shape, small**2)))
    for found, truth, variance in zip(mean, (F, X), sp.with_free_scales(solution, problem), strict=True):
        # Entries of an atom are right or wrong together.
        assert np.mean(np.abs(found - truth) < 1.645 * np.sqrt(variance)) == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / n))


@pytest.mark.slow
@pytest.mark.parametrize(("eta", "noise"), [(0.01, 1e-2), (0.01, 1e-6), (1.0, 1e-4)])
def test_intervals_of_a_solution_hold_what_they_say(eta: float, noise: float) -> None:
    """90% intervals of F and of the large entries of X: after the scales were fitted, and raw with the scales' variance. N = 100."""
    problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=eta, noise_variance=noise)
    shares = []
    for seed in range(4):
        drawn = sp.sample(problem, 100, seed=seed)
        found = sp.solve(drawn.observed, problem, seed=seed)
        fitted, wide = fit_scales(found.mean, drawn.truth.F), sp.with_free_scales(found, problem)
        sure = np.abs(found.mean.X) > 6 * np.sqrt(found.variance.X)
        covered = [
            np.mean(np.abs(mean - truth)[which] < 1.645 * np.sqrt(variance)[which])
            for means, variances in ((fitted, found.variance), (found.mean, wide))
            for mean, truth, variance, which in zip(means, drawn.truth, variances, (slice(None), sure), strict=True)
        ]
        shares.append(covered)
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.9) < 0.05)


def test_calibration_of_honest_gaussian_errors_is_the_diagonal() -> None:
    variance = np.exp(RNG.uniform(-6, 0, 60_000))
    mean = np.sqrt(variance) * RNG.normal(size=variance.size)
    bins = sp.calibration(mean, variance, np.zeros_like(mean))
    assert bins.entries.sum() == variance.size
    # A mean of n squares of unit normals has standard deviation sqrt(2/n).
    assert np.all(np.abs(bins.actual / bins.reported - 1) < 5 * np.sqrt(2 / bins.entries))
    assert np.all(np.diff(bins.reported) > 0)
    # Equal shares of the total variance.
    shares = bins.reported * bins.entries
    assert np.allclose(shares, shares.mean(), rtol=0.05)


def test_calibration_shows_overconfidence_and_survives_certainty() -> None:
    variance = np.full(1000, 0.25)
    bins = sp.calibration(RNG.normal(size=1000), variance, np.zeros(1000))
    assert np.average(bins.actual, weights=bins.entries) > 3 * 0.25
    assert sp.calibration(np.zeros(5), np.zeros(5), np.zeros(5)).reported.size == 0


@pytest.mark.parametrize("atoms", [N - 2, N, N + 3])
def test_a_batch_is_scored_like_each_of_its_instances(atoms: int) -> None:
    """Half of them in another order, with the true number of atoms, fewer or more."""
    estimates = []
    for k in range(4):
        order = RNG.permutation(N) if k % 2 else np.arange(N)
        F, X = transformed(ESTIMATE, RNG.choice([-1.0, 1.0], N) * RNG.uniform(0.5, 2, N), order)
        F, X = np.hstack([F, RNG.normal(size=(M, 3))]), np.vstack([X, RNG.normal(size=(3, P))])
        estimates.append(sp.Pair(F[:, :atoms], X[:atoms]))
    shape = (2, 2)
    stacked = sp.Pair(*(np.reshape(values, (*shape, *values[0].shape)) for values in zip(*estimates, strict=True)))
    truths = sp.Pair(*(np.broadcast_to(value, (*shape, *value.shape)) for value in TRUTH))
    together = sp.score(stacked, truths)
    for k, estimate in enumerate(estimates):
        alone, at = sp.score(estimate, TRUTH), np.unravel_index(k, shape)
        for pair, of_all in zip(alone[:3], together[:3], strict=True):
            np.testing.assert_allclose(pair, [values[at] for values in of_all], rtol=1e-12)
        for value, of_all in zip(alone[3:], together[3:], strict=True):
            np.testing.assert_allclose(value, of_all[at], rtol=1e-12)
