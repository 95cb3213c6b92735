"""AMP with its defaults against what the state evolution and the replica potential say of it, and its uncertainties against its errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.experiments import measure
from spinodal.evaluation.scoring import fit_scales, signal_errors

# Tests that share a shape share its compilation: N = 100, M = 50, P = 500.
EASY = {"alpha": 0.5, "rho": 0.1, "pi": 5.0, "noise_variance": 1e-8}
N, INSTANCES = 100, 2
# A standard normal is within this many deviations with probability 0.9.
NINETY_PERCENT = 1.6448536


class Run(NamedTuple):
    problem: sp.Problem
    instance: sp.Instance
    solution: sp.Solution


@pytest.fixture(scope="module", params=[pytest.param(1e-4, marks=pytest.mark.claims), 0.1, 1.0], ids=lambda eta: f"eta={eta:g}")
def run(request: pytest.FixtureRequest) -> Run:
    problem = sp.Problem.sparse(eta=request.param, **EASY)
    instance = sp.sample(problem, N, seed=0, batch=INSTANCES)
    return Run(problem, instance, sp.solve(instance.observed, problem))


def members(run: Run) -> list[tuple[sp.Pair, sp.Pair, sp.Pair]]:
    """(mean, variance, truth) of each instance, after the atoms' scales, which Y does not fix, were fitted to the truth."""
    rows = []
    for k in range(INSTANCES):
        F, X, s, c, F0, X0 = (values[k] for values in (*run.solution.mean, *run.solution.variance, *run.instance.truth))
        scale = np.sum(F * F0, axis=0) / np.sum(F**2, axis=0)
        rows.append((fit_scales(sp.Pair(F, X), F0), sp.Pair(s * scale**2, c / scale[:, None] ** 2), sp.Pair(F0, X0)))
    return rows


def test_errors_of_a_badly_known_matrix_are_those_of_the_state_evolution(run: Run) -> None:
    """The paper's algorithm failed beyond small eta; its prediction holds to a matrix with 100% error."""
    expected = sp.amp_mse(run.problem).mse
    assert list(run.solution.status) == ["converged"] * INSTANCES
    for k in range(INSTANCES):
        truth = sp.Pair(*(value[k] for value in run.instance.truth))
        found = sp.score(run.solution[k].mean, truth)
        assert 0.7 * expected.F < found.mse_scaled.F < 1.5 * expected.F
        assert found.mse.F < 1.5 * (expected.F + sp.scale_floor(run.problem, N))
        assert found.atoms_recovered == 1
        # Signals with more nonzeros than usual have larger errors.
        share = np.mean(truth.X != 0, axis=0) / np.mean(truth.X != 0)
        at_prediction = signal_errors(run.solution[k].mean, truth) < 3 * expected.X * np.maximum(1, share)
        assert np.mean(at_prediction) >= 0.95


@pytest.mark.claims
def test_errors_at_the_point_of_figure_4_with_a_jump() -> None:
    """N = 200: at N = 100 one signal in fifteen has more nonzeros than message passing can resolve from 50 measurements."""
    problem = sp.Problem.sparse(alpha=0.5, rho=0.2, pi=5.0, eta=1e-2, noise_variance=1e-8)
    found, expected = measure(problem, 200, seed=0, instances=2), sp.amp_mse(problem).mse
    assert np.all(found["mse_F_scaled"] < 1.5 * expected.F)
    assert np.all(found["mse_F_scaled"] > 0.7 * expected.F)
    assert np.all(found["mse_F"] < 1.5 * (expected.F + sp.scale_floor(problem, 200)))
    assert np.all(found["signals_at_prediction"] >= 0.95)
    assert np.all(found["atoms_recovered"] == 1)
    assert np.all(found["converged"] == 1)


def test_the_free_entropy_is_the_replica_potential_within_its_fluctuations(run: Run) -> None:
    """log Z/(N P) fluctuates mostly with the density of the instance's X, by the potential's slope in the density."""
    expected = sp.bayes_mmse(run.problem).free_entropy
    density = np.mean(run.instance.truth.X != 0, axis=(1, 2))
    step = 1e-3
    above, below = (
        sp.bayes_mmse(run.problem.replace(prior=sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.1 + change)))).free_entropy
        for change in (step, -step)
    )
    # To first order it does not matter that the model still says 0.1: log-likelihoods are stationary in the model at the truth.
    slope = (above - below) / (2 * step)
    predicted = expected + slope * (density - 0.1)
    sigma = abs(slope) * np.sqrt(0.1 * 0.9 / (N * N * 5))
    assert np.all(np.abs(run.solution.free_entropy - expected) < 4 * sigma)
    # With the density's part taken off, little is left.
    assert np.all(np.abs(run.solution.free_entropy - predicted) < sigma)


def test_reported_variances_are_the_squared_errors(run: Run) -> None:
    for mean, variance, truth in members(run):
        squares = sp.Pair((mean.F - truth.F) ** 2, (mean.X - truth.X) ** 2)
        # A signal that has not settled is wrong by the size of a signal, and says so in its residual.
        settled = np.mean(squares.X, axis=0) < 1e-4
        assert np.mean(settled) > 0.99
        assert 0.7 < np.mean(variance.F) / np.mean(squares.F) < 1.4
        assert 0.7 < np.mean(variance.X[:, settled]) / np.mean(squares.X[:, settled]) < 1.4


def test_intervals_cover_what_they_claim(run: Run) -> None:
    for mean, variance, truth in members(run):
        covered = np.abs(mean.F - truth.F) < NINETY_PERCENT * np.sqrt(variance.F)
        assert 0.85 < np.mean(covered) < 0.95
        # X where it is not zero; where it is, the posterior is a point mass and there is nothing to cover.
        used = truth.X != 0
        covered = np.abs(mean.X - truth.X)[used] < NINETY_PERCENT * np.sqrt(variance.X[used])
        assert 0.85 < np.mean(covered) < 0.95


def test_calibration_curve_is_on_the_diagonal(run: Run) -> None:
    mean, variance, truth = members(run)[0]
    bins = sp.calibration(mean.F, variance.F, truth.F)
    assert np.all(np.abs(np.log(bins.actual / bins.reported)) < np.log(1.4))


def test_without_noise_recovery_is_exact_to_rounding() -> None:
    problem = sp.Problem.sparse(alpha=0.5, rho=0.1, pi=5.0, eta=0.1)
    instance = sp.sample(problem, N, seed=0, batch=INSTANCES)
    solution = sp.solve(instance.observed, problem)
    assert np.all(solution.status == "converged")
    for k in range(INSTANCES):
        found = sp.score(solution[k].mean, sp.Pair(instance.truth.F[k], instance.truth.X[k]))
        assert found.mse_scaled.F < 1e-25
        assert found.atoms_recovered == 1
