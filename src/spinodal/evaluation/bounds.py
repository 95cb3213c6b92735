"""How well F can be known at all, at a given size: the error left to whoever is told the support of X and the length of every atom.

State evolution is a prediction for N to infinity, and not exact at extensive rank. At small noise the error of the best estimator can be
computed for an instance, if it is told where X is not zero: the posterior is then Gaussian around the truth. Given F + dF, signal l with
its nonzeros averaged out has covariance C_l = noise + slab A_l A_l^T/N, with A_l the atoms that it uses; so dF has the precision

    H dF = sum over l of C_l^-1 dF x_l x_l^T/N + dF/r,

r being the variance that F' leaves. Y does not fix the length of an atom, and the errors compared with this have scales fitted, so dF is
taken across its atom. The error is the trace of the inverse over M N, here estimated with random signs and conjugate gradients.
An estimator that is not told as much can't do better, on average over instances.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, check_count
from ..model.model import Problem
from ..model.priors import GaussBernoulli, Gaussian
from ..pair import Pair

# Conjugate gradients stop at this relative residual: far below the spread between probes.
_TOLERANCE = 1e-6
_MOST_ITERATIONS = 10_000
# Signals whose covariances are inverted together.
_AT_ONCE = 64


def told_support_mse(problem: Problem, truth: Pair[Any], *, probes: int = 4, seed: int = 0) -> np.ndarray:
    """Scale-fitted mean squared error of F for one instance with its support told, in the limit of small noise: an array over probes.

    Each probe is an unbiased estimate; their spread is that of the trace estimate. Gaussian F, Gauss-Bernoulli X, every entry observed.
    """
    check_count("probes", probes)
    prior = problem.prior
    if not (isinstance(prior.F, Gaussian) and isinstance(prior.X, GaussBernoulli)):
        raise InputError("the bound needs a Gaussian prior for F and a Gauss-Bernoulli prior for X.")
    F, X = (np.asarray(value, dtype=float) for value in truth)
    power, eta = float(prior.F.variance), float(problem.eta)
    left = power if np.isinf(eta) else power * eta / (power + eta)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, *F.shape))
    with jax.enable_x64(True):
        found, rest = map(np.asarray, _traces(F, X, float(problem.noise_variance), float(prior.X.variance), left, signs))
    if not np.all(rest < 10 * _TOLERANCE):
        raise ArithmeticError("conjugate gradients did not converge")
    return found / F.size


@jax.jit
def _traces(F: Any, X: Any, noise: Any, slab: Any, left: Any, signs: Any) -> tuple[Any, Any]:
    """z H^-1 z for every matrix of signs z projected across the atoms, and the relative residuals of the solutions."""
    M, N = F.shape

    def inverse(used: Any) -> Any:
        return jnp.linalg.inv(noise * N * jnp.eye(M) + slab * (F * used) @ F.T)

    weight = jax.lax.map(inverse, (X != 0).T.astype(F.dtype), batch_size=_AT_ONCE)
    unit = F / jnp.linalg.norm(F, axis=0)

    def across(d: Any) -> Any:
        return d - unit * jnp.sum(unit * d, axis=0)

    def precision(d: Any) -> Any:
        d = across(d)
        return across(jnp.einsum("lmk,kl->ml", weight, d @ X) @ X.T + d / left)

    def one(sign: Any) -> tuple[Any, Any]:
        z = across(sign)
        answer, _ = jax.scipy.sparse.linalg.cg(precision, z, tol=_TOLERANCE, maxiter=_MOST_ITERATIONS)
        return jnp.vdot(z, answer), jnp.linalg.norm(precision(answer) - z) / jnp.linalg.norm(z)

    return jax.vmap(one)(signs)
