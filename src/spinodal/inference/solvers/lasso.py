"""Baselines for X alone: l1 minimization with the nominal matrix, and the oracle that knows the true matrix and support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, check_nonnegative
from ...model.model import Model
from ...model.sampling import Observed
from ...pair import Pair
from ..solution import Solution, Status, Trace

# Without noise l1 minimization is basis pursuit, the limit of a vanishing penalty; this share of the largest useful penalty stands for it.
_VANISHING = 1e-7


@dataclass(frozen=True)
class Lasso:
    """l1-penalized least squares for each signal (scikit-learn's LARS), F fixed at its mean given F'.

    l1 gives no uncertainty: the prior's variance of X is reported.

    Args:
        penalty: weight of |x|_1 beside half the squared residual; the universal sqrt(2 noise log N) (per unit-norm column), at least
            vanishing, if left out.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem, sp.Lasso())
        >>> bool((solution.mean.X == 0).mean() > 0.5)
        True
    """

    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None:
            check_nonnegative("penalty", self.penalty)

    def solve(self, observed: Observed, models: Sequence[Model], N: int) -> Solution:
        """The signals, from observed arrays with a leading axis and a model, or one for each.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> instance = sp.sample(problem, 20, seed=1, batch=2)
            >>> sp.Lasso().solve(instance.observed, [problem], 20).mean.X.shape
            (2, 20, 120)
        """
        try:
            from sklearn.linear_model import LassoLars
        except ImportError:
            raise InputError("the solver Lasso needs scikit-learn, which is not installed; install spinodal[sklearn].") from None
        if observed.F_prime is None:
            raise InputError("the solver Lasso needs F_prime, but eta = inf was given.")
        if observed.mask is not None:
            raise InputError("the solver Lasso needs every entry of Y, but a mask was given.")
        Y = observed.Y
        each = [models[k % len(models)] for k in range(len(Y))]
        shrink, left = (np.reshape(values, (-1, 1, 1)) for values in zip(*map(nominal, each), strict=True))
        F = observed.F_prime * shrink
        X = np.zeros((len(Y), N, Y.shape[-1]))
        for k, model in enumerate(each):
            A = np.asarray(F[k], dtype=float) / np.sqrt(N)
            largest = np.abs(A.T @ Y[k]).max()
            universal = np.sqrt(2 * noise_of(model, self) * np.log(max(N, 2)) * np.mean(np.sum(A**2, axis=0)))
            weight = self.penalty if self.penalty is not None else max(universal, _VANISHING * largest)
            if largest > 0:
                regression = LassoLars(alpha=weight / A.shape[0], fit_intercept=False, precompute=True, max_iter=4 * A.shape[0])
                X[k] = np.atleast_2d(regression.fit(A, Y[k]).coef_).T
        spread = np.reshape([float(model.prior.X.moments().variance) for model in each], (-1, 1, 1))
        return baseline(Pair(F, X), Pair(np.broadcast_to(left, F.shape), np.broadcast_to(spread, X.shape)), observed, each)


@dataclass(frozen=True, eq=False)
class Oracle:
    """The floor: posterior mean of X given the true matrix and the true support (Gaussian slab). It is told the truth, so it is not a
    method.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem, sp.Oracle(instance.truth))
        >>> bool(((solution.mean.X != 0) == (instance.truth.X != 0)).all())
        True
    """

    truth: Pair[Any]

    def solve(self, observed: Observed, models: Sequence[Model], N: int) -> Solution:
        """The signals given the truth, from observed arrays with a leading axis and a model, or one for each.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> instance = sp.sample(problem, 20, seed=1, batch=2)
            >>> sp.Oracle(instance.truth).solve(instance.observed, [problem], 20).mean.X.shape
            (2, 20, 120)
        """
        F, X0 = (np.asarray(value, dtype=float) for value in self.truth)
        if F.ndim == 2:
            F, X0 = F[None], X0[None]
        each = [models[k % len(models)] for k in range(len(X0))]
        X, variance = np.zeros_like(X0), np.zeros_like(X0)
        for k, model in enumerate(each):
            slab, noise = float(getattr(model.prior.X, "variance", 1.0)), max(noise_of(model, self), np.finfo(float).tiny)
            A = F[k] / np.sqrt(F.shape[-1])
            for signal in range(X0.shape[-1]):
                seen = slice(None) if observed.mask is None else observed.mask[k][:, signal]
                on = X0[k][:, signal] != 0
                B = A[seen][:, on]
                covariance = np.linalg.inv(B.T @ B / noise + np.eye(int(on.sum())) / slab)
                X[k][on, signal] = covariance @ (B.T @ observed.Y[k][seen, signal]) / noise
                variance[k][on, signal] = np.diag(covariance)
        return baseline(Pair(F, X), Pair(np.zeros_like(F), variance), observed, each)


def noise_of(model: Model, solver: Any) -> float:
    """The variance of the noise; refused unless it is Gaussian, with one variance for all entries."""
    if model.noise_variance is None:
        name = type(solver).__name__
        raise InputError(f"channel must be Gaussian noise of one variance for the solver {name}, but {model.channel!r} was given.")
    return float(model.noise_variance)


def nominal(model: Model) -> tuple[float, float]:
    """Factor from F' to the mean of F given F' (for a Gaussian of unit power), and its variance."""
    if model.eta is None or np.ndim(model.eta) > 0:
        raise InputError(f"eta must be one number for the solver Lasso, but {model.knowledge!r} was given.")
    eta = float(model.eta)
    power = float(model.prior.F.second_moment())
    return np.sqrt(1 + eta) * power / (power + eta), power * eta / (power + eta)


def baseline(mean: Pair[Any], variance: Pair[Any], observed: Observed, models: list[Model]) -> Solution:
    """A Solution of a method that has no iterations of ours to report."""
    Y, _, mask = observed
    size, N = Y.shape[0], mean.F.shape[-1]
    residual = np.mean((Y - mean.F @ mean.X / np.sqrt(N)) ** 2, axis=(1, 2), where=True if mask is None else np.asarray(mask, bool))
    empty = np.zeros((size, 0))
    status, reason = (np.array([value] * size, dtype=object) for value in (Status.CONVERGED, "the method has no iterations of ours"))
    unknown = np.full(size, -np.inf)  # no free entropy: ranks below anything that has one
    trace = Trace(empty, empty, empty, empty)
    return Solution(mean, variance, status, reason, np.zeros(size, int), residual, unknown, trace, models)
