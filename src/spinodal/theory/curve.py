"""The fixed points of the state evolution, as one explicit curve.

Write q_X = Var[X] - mse_X and q_F = Var[F] - mse_F for the overlaps, Q = Delta + Var[F] Var[X] for the power of Y, V = Q - q_F q_X,
and eps for the observed fraction. A fixed point satisfies Eq. (6) of KMZ13,

    m_X = eps alpha q_F/V,   m_F = eps pi q_X/V,   mse_X = mmse_X(m_X),   mse_F = mmse_F(1/eta + m_F).

Given A = m_X, everything but pi is explicit, and pi(A) follows by inverting mmse_F. Where pi(A) rises with A the fixed point is
stable, where it falls unstable; the state evolution from an uninformed start stops at the first A with pi(A) = pi.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import elementwise

from ..errors import check
from ..model.model import Problem
from ..model.priors import Gaussian
from ..model.quadrature import message_averages
from .setup import Batch, Setup

# The grid in A: from where responses are linear to beyond any fold, in units of 1/E[X^2].
_LOWEST_SNR, _HIGHEST_SNR = 1e-7, 1e16
_GRID_POINTS = 512
# At Delta > 0 no fixed point lies above A = eps alpha E[F^2]/Delta; the grid passes it by this factor.
_BEYOND_LAST = 10.0
# Accuracy of roots and extrema in log A.
_ROOT_TOLERANCE = 1e-14
# m_F is looked for between these, in units of 1/E[F^2], when the prior of F has no closed form.
_LOWEST_INVERSE, _HIGHEST_INVERSE = 1e-12, 1e20

# Keeps a relative difference of vanishing errors defined.
_SMALLEST = 1e-300


class CurvePoint(NamedTuple):
    """A point of the curve: everything about a fixed point except which pi it belongs to."""

    snr_X: Any
    mse_X: Any
    mse_F: Any
    overlap_X: Any
    overlap_F: Any
    variance: Any


def curve_point(s: Setup, A: Any) -> CurvePoint:
    """Errors, overlaps and V at the effective signal-to-noise ratio A of X. mse_F <= 0 means that no pi leads to this A."""
    mse_X, q_X, _ = message_averages(s.prior.X, s.support.X, A, s.mean.X)
    rate = s.observed * s.alpha
    Q = s.noise + s.power.F * s.power.X
    below = rate + A * q_X
    q_F = A * Q / below
    # Var[F] - q_F, with the subtraction done on paper.
    mse_F = (rate * s.power.F - A * (s.noise + s.power.F * mse_X)) / below
    return CurvePoint(A, mse_X, mse_F, q_X, q_F, rate * Q / below)


def matrix_mmse(s: Setup, m_F: Any) -> Any:
    """mmse of F under its prior, the side information F' and the data's message m_F; exactly 0 at eta = 0."""
    known = jnp.isinf(s.side_snr)
    snr = jnp.where(known, 1.0, s.side_snr) + m_F
    return jnp.where(known, 0.0, message_averages(s.prior.F, s.support.F, snr).mmse)


def matrix_error(s: Setup, A: Any) -> Any:
    """The error on F that pi signals leave at A: equals the curve's mse_F at a fixed point, without its cancellation."""
    point = curve_point(s, A)
    return matrix_mmse(s, s.observed * s.pi * point.overlap_X / point.variance)


def shortfall(s: Setup, A: Any) -> Any:
    """Zero at the fixed points; positive where pi is less than pi(A), negative where it is more."""
    return shortfall_at(s, *curve_point(s, A))


def shortfall_at(s: Setup, A: Any, mse_X: Any, mse_F: Any, overlap_X: Any, overlap_F: Any, variance: Any) -> Any:
    """The relative excess of the error on F that pi signals leave over the error that A allows: no inversion is needed."""
    reached = matrix_mmse(s, s.observed * s.pi * overlap_X / variance)
    scale = jnp.maximum(reached, jnp.where(jnp.isinf(s.side_snr), s.power.F / (1 + A), _SMALLEST))
    return (reached - mse_F) / scale


def snr_grid(batch: Batch) -> np.ndarray:
    """The grid in A of each problem: (problems, points), logarithmic."""
    s = batch.setup
    with np.errstate(divide="ignore"):
        last = np.where(s.noise > 0, _BEYOND_LAST * s.observed * s.alpha / s.noise * s.power.F, _HIGHEST_SNR / s.power.X)
    low, high = np.log(_LOWEST_SNR / s.power.X), np.log(np.maximum(last, 1 / s.power.X))
    return np.exp(np.linspace(low, high, _GRID_POINTS, axis=-1))


def curve_table(batch: Batch, grid: np.ndarray) -> CurvePoint:
    """The curve on the grid, flat. It depends neither on eta nor on pi, so problems that differ in those share one evaluation."""
    shared = batch.setup._replace(side_snr=np.zeros(batch.size), pi=np.ones(batch.size))
    parameters = np.concatenate([np.reshape(leaf, (batch.size, -1)) for leaf in jax.tree.leaves(shared)], axis=1)
    _, first, member = np.unique(parameters, axis=0, return_index=True, return_inverse=True)
    once = batch.at(first, np.ones(first.size)).table(curve_point, grid[first])
    return jax.tree.map(lambda leaf: leaf[member.ravel()].ravel(), once)


def pi_of(batch: Batch, index: np.ndarray, A: np.ndarray) -> np.ndarray:
    """pi(A) for flat arrays of problems and A: infinite where no pi is enough, not positive where F' alone does better."""
    return pi_at(batch, index, batch(curve_point, index, A))


def pi_at(batch: Batch, index: np.ndarray, point: CurvePoint) -> np.ndarray:
    """pi of points of the curve that are known already."""
    s = batch.setup
    reachable = point.mse_F > 0
    mse_F = np.where(reachable, point.mse_F, 1.0)
    if isinstance(s.prior.F, Gaussian):
        variance = s.prior.F.variance[index]
        total = point.overlap_F / (mse_F * variance)
    else:
        total = _invert_matrix_mmse(batch, index, mse_F)
    pi = (total - s.side_snr[index]) * point.variance / (s.observed[index] * point.overlap_X)
    return np.where(reachable, pi, np.inf)


def _total_mmse(s: Setup, log_snr: Any, target: Any) -> Any:
    return jnp.log(message_averages(s.prior.F, s.support.F, jnp.exp(log_snr)).mmse) - jnp.log(target)


def _invert_matrix_mmse(batch: Batch, index: np.ndarray, mse: np.ndarray) -> np.ndarray:
    """The signal-to-noise ratio at which mmse_F equals `mse`; 0 where that is the prior variance or more."""
    variance = batch.setup.power.F[index]
    low, high = np.log(_LOWEST_INVERSE / variance), np.log(_HIGHEST_INVERSE / variance)
    inside = mse < variance * (1 - 1e-13)
    target = np.where(inside, mse, variance / 2)
    root = find_root(lambda x, i, t: batch(_total_mmse, i, x, t), low, high, index, target)
    return np.where(inside, np.exp(root), 0.0)


def find_root(function: Any, low: np.ndarray, high: np.ndarray, *args: np.ndarray) -> np.ndarray:
    """Roots of flat, elementwise problems by Chandrupatla's method; NaN where the ends have one sign."""
    if np.size(low) == 0:
        return np.zeros(0)
    args = tuple(np.asarray(arg) for arg in args)

    def flat(x: np.ndarray, *extra: np.ndarray) -> np.ndarray:
        return function(x.ravel(), extra[0].ravel().astype(int), *(e.ravel() for e in extra[1:])).reshape(x.shape)

    tolerances = {"xatol": _ROOT_TOLERANCE, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}
    found = elementwise.find_root(flat, (low, high), args=args, tolerances=tolerances, maxiter=200)
    return np.where(found.status == -1, np.nan, found.x)  # -1: the ends don't bracket a root


class Crossings(NamedTuple):
    """Solutions of pi(A) = pi, in order of A within each problem: flat arrays, `owner` says whose."""

    owner: np.ndarray
    point: CurvePoint
    stable: np.ndarray
    uninformed_stable: np.ndarray


def crossings(batch: Batch, table: CurvePoint | None = None) -> Crossings:
    """All fixed points with 0 < A < inf; `uninformed_stable` (per problem) says whether A = 0 attracts an uninformed start.

    `table` is the curve on the grid, if it is known already.
    """
    grid = snr_grid(batch)
    owner = np.repeat(np.arange(batch.size), grid.shape[1])
    above = batch(shortfall_at, owner, *(table or curve_table(batch, grid))).reshape(grid.shape) > 0
    row, column = np.nonzero(above[:, 1:] != above[:, :-1])
    log_A = find_root(lambda x, i: batch(shortfall, i, np.exp(x)), np.log(grid[row, column]), np.log(grid[row, column + 1]), row)
    point = batch(curve_point, row, np.exp(log_A))._replace(mse_F=batch(matrix_error, row, np.exp(log_A)))
    return Crossings(row, point, above[row, column + 1], above[:, 0])


class FixedPointCurve(NamedTuple):
    """The curve of all fixed points of all pi: arrays over the signal-to-noise ratio A = snr_X.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> curve = sp.fixed_point_curve(problem, snr=[1.0, 10.0])
        >>> curve.stable
        array([ True])
    """

    snr_X: np.ndarray
    pi: np.ndarray
    mse_X: np.ndarray
    mse_F: np.ndarray
    stable: np.ndarray


def fixed_point_curve(problem: Problem, snr: Any = None) -> FixedPointCurve:
    """pi(A), mse_X(A), mse_F(A) on a grid of A (a logarithmic one if none is given). `problem.pi` plays no part.

    Points that no pi > 0 leads to are left out. Figure 2 of KMZ13 is this curve drawn against pi. Needs eta > 0: a known
    matrix has the same fixed points at every pi.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> curve = sp.fixed_point_curve(problem)
        >>> print(f"{curve.pi[~curve.stable].max():.2f}")  # the fold: the spinodal
        3.58
    """
    check("eta", problem.eta, 0.0, np.inf, low_open=True)
    batch = Batch([problem])
    if snr is None:
        A = snr_grid(batch)[0]
    else:
        check("snr", snr, 0.0, np.inf, low_open=True, high_open=True)
        A = np.sort(np.atleast_1d(np.asarray(snr, dtype=float)))
    index = np.zeros(A.size, int)
    point = batch(curve_point, index, A)
    pi = pi_of(batch, index, A)
    step = 1e-4
    slope = pi_of(batch, index, A * (1 + step)) > pi_of(batch, index, A * (1 - step))
    keep = (pi > 0) & np.isfinite(pi)
    return FixedPointCurve(A[keep], pi[keep], point.mse_X[keep], point.mse_F[keep], slope[keep])
