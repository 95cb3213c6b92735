"""The error of whoever is told the support, against a direct computation on all unknowns together."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.bounds import told_support_mse

PROBLEM = sp.Problem.sparse(alpha=0.75, pi=4.0, rho=0.3, eta=0.5, noise_variance=1e-6)
N = 8


def dense(problem: sp.Problem, truth: sp.Pair) -> float:
    """From the Jacobian of Y in F and the nonzeros of X: posterior precision, directions along the atoms left out, inverse, trace."""
    F, X = truth
    (M, N), P = F.shape, X.shape[1]
    nonzero = np.argwhere(X != 0)
    by_F = np.einsum("mn,il->mlni", np.eye(M), X).reshape(M * P, M * N) / np.sqrt(N)
    by_X = np.zeros((M, P, len(nonzero)))
    for k, (i, signal) in enumerate(nonzero):
        by_X[:, signal, k] = F[:, i] / np.sqrt(N)
    # For each atom, an orthonormal basis of what is across it.
    across = np.zeros((M, N, N, M - 1))
    for i in range(N):
        across[:, i, i] = np.linalg.svd(F[:, [i]])[0][:, 1:]
    jacobian = np.hstack([by_F @ across.reshape(M * N, -1), by_X.reshape(M * P, -1)])
    unknowns = N * (M - 1)
    prior = np.r_[np.full(unknowns, 1 / problem.eta + 1), np.ones(len(nonzero))]
    covariance = np.linalg.inv(jacobian.T @ jacobian / problem.noise_variance + np.diag(prior))
    return float(np.trace(covariance[:unknowns, :unknowns])) / (M * N)


@pytest.mark.claims
def test_it_is_the_trace_of_the_dense_posterior_covariance() -> None:
    truth = sp.sample(PROBLEM, N, seed=0).truth
    probes = told_support_mse(PROBLEM, truth, probes=4000)
    error = probes.std(ddof=1) / np.sqrt(probes.size)
    exact = dense(PROBLEM, truth)
    assert error < 0.02 * exact
    assert np.mean(probes) == pytest.approx(exact, abs=4 * error)


@pytest.mark.parametrize("size", [50, pytest.param(100, marks=pytest.mark.claims)])
@pytest.mark.claims
def test_amp_is_not_below_it(size: int) -> None:
    """And at an easy point, where no signal is lost, hardly above."""
    problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=0.1, noise_variance=1e-8)
    instance = sp.sample(problem, size, seed=0)
    bound = np.mean(told_support_mse(problem, instance.truth, probes=8))
    found = sp.score(sp.solve(instance.observed, problem).mean, instance.truth).mse_scaled.F
    assert 0.97 * bound < found < 1.1 * bound


def test_it_says_what_it_needs() -> None:
    problem = PROBLEM.replace(prior=sp.Pair(sp.Gaussian(), sp.Rademacher()))
    with pytest.raises(sp.InputError, match="Gauss-Bernoulli"):
        told_support_mse(problem, sp.sample(problem, N, seed=0).truth)
