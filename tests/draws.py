"""Instances of sparse problems with a hint, drawn by NumPy: at once, where `sp.sample` would be compiled for each shape."""

from __future__ import annotations

import numpy as np

import spinodal as sp


def draw(problem: sp.Problem, n: int, seed: int, batch: int | None = None) -> sp.Instance:
    """What `sp.sample` gives, in law: F and noise are Gaussian, X is Gauss-Bernoulli."""
    rng = np.random.default_rng(seed)
    M, N, P = problem.sizes(n)
    count = 1 if batch is None else batch
    F, W = rng.normal(size=(2, count, M, N))
    X = rng.normal(size=(count, N, P)) * (rng.random((count, N, P)) < problem.prior.X.rho)
    Y = F @ X / np.sqrt(N) + np.sqrt(problem.noise_variance) * rng.normal(size=(count, M, P))
    eta = problem.eta
    F_prime = None if np.isinf(eta) else (F + np.sqrt(eta) * W) / np.sqrt(1 + eta)
    instance = sp.Instance(sp.Observed(Y, F_prime, None), sp.Pair(F, X))
    if batch is not None:
        return instance
    observed = sp.Observed(Y[0], None if F_prime is None else F_prime[0], None)
    return sp.Instance(observed, sp.Pair(F[0], X[0]))
