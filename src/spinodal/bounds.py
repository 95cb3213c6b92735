"""How well F can be known at all, at a given size: the error left to whoever is told the support of X and the length of every atom.

State evolution is a prediction for N to infinity, and not exact at extensive rank. At small noise the error of the best estimator can be
computed for an instance, if it is told where X is not zero: the posterior is then Gaussian around the truth. Given F + dF, signal l with
its nonzeros averaged out has covariance C_l = noise + slab A_l A_l^T/N, with A_l the atoms that it uses; so dF has the precision

    H dF = sum over l of C_l^-1 dF x_l x_l^T/N + dF/r,

r being the variance that F' leaves. Y does not fix the length of an atom, and the errors compared with this have scales fitted, so dF is
taken across its atom. The error is the trace of the inverse over M N, here estimated with random signs and conjugate gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from .errors import InputError, check_count
from .pair import Pair
from .priors import GaussBernoulli, Gaussian
from .problem import Problem

# Conjugate gradients stop at this relative residual: far below the spread between probes.
_TOLERANCE = 1e-6


def told_support_mse(problem: Problem, truth: Pair[Any], *, probes: int = 4, seed: int = 0) -> np.ndarray:
    """Scale-fitted mean squared error of F for one instance with its support told, in the limit of small noise: an array over probes.

    Each probe is an unbiased estimate; their spread is that of the trace estimate. Gaussian F, Gauss-Bernoulli X, every entry observed.
    """
    check_count("probes", probes)
    across, precision = posterior_precision(problem, truth)
    M, N = truth.F.shape
    operator = LinearOperator((M * N, M * N), matvec=lambda d: across(precision(across(d.reshape(M, N)))).ravel(), dtype=float)
    random = np.random.default_rng(seed)
    found = []
    for _ in range(probes):
        sign = across(random.choice([-1.0, 1.0], (M, N)))
        answer, trouble = cg(operator, sign.ravel(), rtol=_TOLERANCE, maxiter=10_000)
        if trouble:
            raise ArithmeticError("conjugate gradients did not converge")
        found.append(sign.ravel() @ answer / (M * N))
    return np.array(found)


def posterior_precision(problem: Problem, truth: Pair[Any]) -> tuple[Any, Any]:
    """Two linear maps of M x N matrices: projection of every column across its atom, and the precision H of dF."""
    prior = problem.prior
    if not (isinstance(prior.F, Gaussian) and isinstance(prior.X, GaussBernoulli)):
        raise InputError("the bound needs a Gaussian prior for F and a Gauss-Bernoulli prior for X.")
    F, X = (np.asarray(value, dtype=float) for value in truth)
    (M, N), P = F.shape, X.shape[1]
    noise, slab, power, eta = (float(value) for value in (problem.channel.variance, prior.X.variance, prior.F.variance, problem.eta))
    spread = power if np.isinf(eta) else power * eta / (power + eta)
    used = np.where(X != 0, slab, 0.0)
    weight = np.empty((P, M, M))
    for signal in range(P):
        weight[signal] = np.linalg.inv(noise * N * np.eye(M) + (F * used[:, signal]) @ F.T)
    unit = F / np.linalg.norm(F, axis=0)

    def across(d: np.ndarray) -> np.ndarray:
        return d - unit * np.sum(unit * d, axis=0)

    def precision(d: np.ndarray) -> np.ndarray:
        return np.matmul(weight, (d @ X).T[:, :, None])[:, :, 0].T @ X.T + d / spread

    return across, precision
