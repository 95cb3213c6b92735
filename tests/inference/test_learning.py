"""Parameters learned on the way: from wrong starts to the truth, with the errors that the true parameters give."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import spinodal as sp

TRUE = sp.Problem.sparse(alpha=0.5, pi=6.0, rho=0.1, eta=0.1, noise_variance=1e-6)
N, INSTANCES = 60, 2


@cache
def drawn() -> Any:
    return sp.sample(TRUE, N, seed=2, batch=INSTANCES)


def start(
    problem: sp.Problem, *, rho: float, noise: float, eta: float | None = None, variance: float = 1.0, mean: float = 0.0
) -> sp.Problem:
    """The same problem with other parameters to begin with."""
    prior = sp.Pair(problem.prior.F, sp.GaussBernoulli(rho, mean, variance))
    return problem.replace(prior=prior, channel=sp.GaussianNoise(noise), eta=problem.eta if eta is None else eta)


def errors(solution: sp.Solution, truth: sp.Pair[Any]) -> np.ndarray:
    return np.array([np.mean(sp.score(solution[k].mean, sp.Pair(*(v[k] for v in truth))).angle) for k in range(len(solution.status))])


def learned(solution: sp.Solution, name: str) -> np.ndarray:
    """A parameter of the model of every instance."""
    return np.array([getattr(model if name in ("noise_variance", "eta") else model.prior.X, name) for model in solution.model])


@pytest.fixture(scope="module")
def informed() -> np.ndarray:
    return errors(sp.solve(drawn().observed, TRUE), drawn().truth)


@pytest.mark.claims
@pytest.mark.parametrize(("rho", "noise", "eta"), [(0.3, 1e-4, 1.0), (0.033, 1e-8, 0.01), (0.1, 1e-6, 0.1)])
def test_calibration_from_wrong_starts(rho: float, noise: float, eta: float, informed: np.ndarray) -> None:
    solution = sp.solve(drawn().observed, start(TRUE, rho=rho, noise=noise, eta=eta), learn=("noise_variance", "density", "eta"))
    density = np.mean(drawn().truth.X != 0, axis=(1, 2))
    np.testing.assert_allclose(learned(solution, "rho"), density, rtol=0.02)
    np.testing.assert_allclose(learned(solution, "noise_variance"), 1e-6, rtol=0.1)
    np.testing.assert_allclose(learned(solution, "eta"), 0.1, rtol=0.1)
    assert list(solution.status) == ["converged"] * INSTANCES
    np.testing.assert_allclose(errors(solution, drawn().truth), informed, rtol=0.1)


@pytest.mark.claims
@pytest.mark.parametrize(("rho", "noise"), [(0.3, 1e-4), (0.033, 1e-4)])
def test_dictionary_from_wrong_starts(rho: float, noise: float, informed: np.ndarray) -> None:
    observed = drawn().observed._replace(F_prime=None)
    problem = start(TRUE, rho=rho, noise=noise, eta=np.inf)
    solution = sp.solve(observed, problem, learn=("noise_variance", "density"), n_atoms=N)
    np.testing.assert_allclose(learned(solution, "rho"), np.mean(drawn().truth.X != 0, axis=(1, 2)), rtol=0.02)
    np.testing.assert_allclose(learned(solution, "noise_variance"), 1e-6, rtol=0.1)
    np.testing.assert_allclose(errors(solution, drawn().truth), informed, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.1, np.inf])
def test_wrong_starts_at_full_size(eta: float) -> None:
    """N = 200, rho three times too high and too low, noise a hundred times too high: estimates and errors within 10%."""
    true = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=eta, noise_variance=1e-6)
    drawn = sp.sample(true, 200, seed=11, batch=3)
    best = errors(sp.solve(drawn.observed, true, n_atoms=200), drawn.truth)
    for rho in (0.3, 0.1 / 3):
        solution = sp.solve(drawn.observed, start(true, rho=rho, noise=1e-4), learn=("noise_variance", "density"), n_atoms=200)
        np.testing.assert_allclose(learned(solution, "rho"), 0.1, rtol=0.1)
        np.testing.assert_allclose(learned(solution, "noise_variance"), 1e-6, rtol=0.1)
        np.testing.assert_allclose(errors(solution, drawn.truth), best, rtol=0.1)


def test_slab_mean_and_variance_are_learned_and_what_is_not_stays_as_given() -> None:
    problem = start(TRUE, rho=0.1, noise=1e-6, mean=0.3, variance=0.4)
    instance = sp.sample(problem, N, seed=3, batch=INSTANCES)
    wrong = start(TRUE, rho=0.1, noise=1e-6, variance=1.0)
    solution = sp.solve(instance.observed, wrong, learn=("density", "slab_mean", "slab_variance"))
    slab = [X[X != 0] for X in instance.truth.X]
    np.testing.assert_allclose(learned(solution, "mean"), [np.mean(x) for x in slab], rtol=0.05)
    np.testing.assert_allclose(learned(solution, "variance"), [np.var(x) for x in slab], rtol=0.1)
    np.testing.assert_allclose(learned(solution, "rho"), np.mean(instance.truth.X != 0, axis=(1, 2)), rtol=0.05)
    for name, given in (("noise_variance", 1e-6), ("eta", 0.1)):
        np.testing.assert_array_equal(learned(solution, name), given)


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(sp.InputError, match="learn must be"):
        sp.solve(drawn().observed, TRUE, learn=("alpha",))


@pytest.mark.claims
def test_estimates_do_not_run_away_where_the_model_does_not_fit() -> None:
    """Data without sparse structure, everything learned: noise stays below the data's power, signals near it, and nothing is NaN."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((12, 15)) @ rng.standard_normal((15, 90)) + 3.0
    power = np.mean(Y**2)
    problem = start(TRUE, rho=0.1, noise=0.01 * power, eta=np.inf, variance=10 * power)
    everything = ("noise_variance", "density", "slab_variance", "slab_mean")
    solution = sp.solve(Y, problem, learn=everything, n_atoms=20, max_iterations=1500)
    slab = solution.model.prior.X
    assert 0 < solution.model.noise_variance <= power
    assert 0 < slab.rho < 1
    assert slab.rho * slab.variance <= 12 * power  # the density may take one more step than the variance
    assert np.all(np.isfinite(solution.mean.X))
    assert solution.residual < power


@pytest.mark.claims
@pytest.mark.parametrize("noise", [0.0, 1e-10])
def test_data_without_noise_are_solved_and_trusted(noise: float) -> None:
    """Noise that is learned falls for ever where there is none: runs must end all the same, agree, and find nothing wrong."""
    size, signals = 24, 400
    truth, Y = [], []
    for seed in (5, 6, 10):
        rng = np.random.default_rng(seed)
        F, X = rng.normal(size=(size, size)), rng.normal(size=(size, signals)) * (rng.random((size, signals)) < 0.15)
        truth.append(sp.Pair(F, X))
        Y.append(F @ X / np.sqrt(size) + np.sqrt(noise) * rng.normal(size=(size, signals)))
    found = sp.solve(np.stack(Y), n_atoms=size)
    assert list(found.status) == ["converged"] * 3
    assert list(found.warnings) == [()] * 3
    assert all(np.max(sp.score(found[k].mean, each).angle) < 1e-9 for k, each in enumerate(truth))
    assert learned(found, "noise_variance") == pytest.approx(1e-8 * np.mean(np.square(Y), axis=(1, 2)), rel=0.1)
    assert np.max(found.iterations) < 1000
