"""The fixed points of the state evolution, as one explicit curve.

Write q_X = Var[X] - mse_X and q_F = Var[F] - mse_F for the overlaps, t = q_F q_X for that of z, Q = Var[F] Var[X] for the variance of z,
e for the channel's equivalent noise (Delta for Gaussian noise, else a function of t), V = Q - t + e, and eps for the observed fraction.
A fixed point satisfies Eq. (6) of KMZ13,

    m_X = eps alpha q_F/V,   m_F = eps pi q_X/V,   mse_X = mmse_X(m_X),   mse_F = mmse_F(m_F),

where mmse_F is the average of the prior's mmse(snr + m_F) over how well entries of F are known beforehand (snr = 1/eta for a hint).
Given A = m_X, everything but pi is explicit, and pi(A) follows by inverting mmse_F. Where pi(A) rises with A the fixed point is
stable, where it falls unstable; the state evolution from an uninformed start stops at the first A with pi(A) = pi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, check
from ..model.knowledge import Classes
from ..model.model import Problem
from ..model.priors import Gaussian
from ..model.quadrature import message_averages
from ..short import in_short
from .roots import find_root
from .setup import Batch, Setup, is_known

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The grid in A: from where responses are linear to beyond any fold, in units of 1/E[X^2].
_LOWEST_SNR, _HIGHEST_SNR = 1e-7, 1e16
_GRID_POINTS = 512
# With noise no fixed point lies above A = eps alpha Var[F]/(least equivalent noise); the grid passes it by this factor.
_BEYOND_LAST = 10.0
# Accuracy of roots and extrema in log A.
ROOT_TOLERANCE = 1e-14
# m_F is looked for between these, in units of 1/E[F^2], when the prior of F has no closed form.
_LOWEST_INVERSE, _HIGHEST_INVERSE = 1e-12, 1e20
# An error this close to that without data, relative, needs no message.
_NO_MESSAGE = 1e-13

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
    Q = s.power.F * s.power.X
    # t = A q_X/rate V.
    noise = s.channel.noise_at_ratio(A * q_X / rate, Q, s.table)
    below = rate + A * q_X
    q_F = A * (Q + noise) / below
    # Var[F] - q_F, with the subtraction done on paper.
    mse_F = (rate * s.power.F - A * (noise + s.power.F * mse_X)) / below
    return CurvePoint(A, mse_X, mse_F, q_X, q_F, rate * (Q + noise) / below)


def matrix_mmse(s: Setup, m_F: Any) -> Any:
    """mmse of F under its prior, what is known of it and the data's message m_F; exactly 0 for entries that are known."""
    return over_classes(s, lambda snr: message_averages(s.prior.F, s.support.F, snr + m_F).mmse)


def over_classes(s: Setup, average: Callable[[Any], Any]) -> Any:
    """The mean over the entries of F of a function of how well they are known beforehand; entries known exactly count 0."""
    known = s.classes.snr == np.inf
    snr = jnp.where(known, 1.0, s.classes.snr)
    # One class, the usual case, is spared an axis.
    values = average(snr[0])[None] if snr.size == 1 else jax.vmap(average)(snr)
    return jnp.sum(jnp.where(known, 0.0, s.classes.share * values))


class PointAtPi(NamedTuple):
    """A point of the curve, the error on F that pi signals leave there, and how far pi is from that of the point.

    At a fixed point `mse_F` equals the curve's, without its cancellation, and `shortfall` is zero.
    """

    point: CurvePoint
    mse_F: Any
    shortfall: Any


def point_at_pi(s: Setup, A: Any) -> PointAtPi:
    """A point of the curve seen from the problem's own pi."""
    point = curve_point(s, A)
    reached = matrix_mmse(s, s.observed * s.pi * point.overlap_X / point.variance)
    return PointAtPi(point, reached, _shortfall(s, A, reached, point.mse_F))


def shortfall_at(s: Setup, A: Any, mse_X: Any, mse_F: Any, overlap_X: Any, overlap_F: Any, variance: Any) -> Any:
    """The shortfall at a point of the curve that is known already."""
    return _shortfall(s, A, matrix_mmse(s, s.observed * s.pi * overlap_X / variance), mse_F)


def _shortfall(s: Setup, A: Any, reached: Any, allowed: Any) -> Any:
    """The relative excess of the error on F that pi signals leave over the error that A allows: no inversion is needed.

    Zero at the fixed points; positive where pi is less than pi(A), negative where it is more.
    """
    scale = jnp.maximum(reached, jnp.where(is_known(s.classes), s.power.F / (1 + A), _SMALLEST))
    return (reached - allowed) / scale


def snr_grid(batch: Batch) -> np.ndarray:
    """The grid in A of each problem: (problems, points), logarithmic."""
    s = batch.setup
    # Once all is known: no signal-to-noise ratio passes what this noise allows.
    least = batch.noise_at_ratio(np.inf)
    with np.errstate(divide="ignore"):
        last = np.where(least > 0, _BEYOND_LAST * s.observed * s.alpha / least * s.power.F, _HIGHEST_SNR / s.power.X)
    low, high = np.log(_LOWEST_SNR / s.power.X), np.log(np.maximum(last, 1 / s.power.X))
    return np.exp(np.linspace(low, high, _GRID_POINTS, axis=-1))


def curve_table(batch: Batch, grid: np.ndarray) -> CurvePoint:
    """The curve on the grid, flat. It depends neither on what is known of F nor on pi, so problems that differ in those share it."""
    first, member = _alike(batch)
    if first.size == batch.size:
        # Nothing to share: a function that other places need too saves a compilation.
        points = batch.table(point_at_pi, grid).point
    else:
        points = jax.tree.map(lambda leaf: leaf[member], batch.at(first, np.ones(first.size)).table(curve_point, grid[first]))
    return jax.tree.map(np.ravel, points)


def _alike(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Problems that share a curve: the first of each kind, and to which of these each problem belongs."""
    shared = [value for name, value in batch.setup._asdict().items() if name not in ("classes", "pi")]
    parameters = np.concatenate([np.reshape(leaf, (batch.size, -1)) for leaf in jax.tree.leaves(shared)], axis=1)
    _, first, member = np.unique(parameters, axis=0, return_index=True, return_inverse=True)
    return first, member.ravel()


def pi_of(batch: Batch, index: np.ndarray, A: np.ndarray) -> np.ndarray:
    """pi(A) for flat arrays of problems and A: infinite where no pi is enough, not positive where F' alone does better."""
    return pi_at(batch, index, batch(point_at_pi, index, A).point)


def pi_at(batch: Batch, index: np.ndarray, point: CurvePoint) -> np.ndarray:
    """pi of points of the curve that are known already."""
    s = batch.setup
    reachable = point.mse_F > 0
    mse_F = np.where(reachable, point.mse_F, 1.0)
    one_class = s.classes.snr.shape[1] == 1
    if one_class and isinstance(s.prior.F, Gaussian):
        m_F = point.overlap_F / (mse_F * s.prior.F.variance[index]) - s.classes.snr[index, 0]
    elif one_class:
        # The prior's own mmse is inverted, at snr + m_F: m_F < 0 then says by how much F' alone does better.
        alone = batch.with_classes(Classes(np.zeros((batch.size, 1)), np.ones((batch.size, 1))))
        m_F = _invert_matrix_mmse(alone, index, mse_F) - s.classes.snr[index, 0]
    else:
        m_F = _invert_matrix_mmse(batch, index, mse_F)
    pi = m_F * point.variance / (s.observed[index] * point.overlap_X)
    return np.where(reachable, pi, np.inf)


def _log_excess(s: Setup, log_snr: Any, target: Any) -> Any:
    return jnp.log(matrix_mmse(s, jnp.exp(log_snr))) - jnp.log(target)


def error_without_data(s: Setup) -> Any:
    """The error on F that F' alone leaves: 0 for a known matrix, the variance of F where nothing is known."""
    return matrix_mmse(s, 0.0)


def _invert_matrix_mmse(batch: Batch, index: np.ndarray, mse: np.ndarray) -> np.ndarray:
    """The message m_F at which mmse_F equals `mse`; 0 where that is what is known without data, or more."""
    variance, most = batch.setup.power.F[index], batch.each(error_without_data)[index]
    low, high = np.log(_LOWEST_INVERSE / variance), np.log(_HIGHEST_INVERSE / variance)
    inside = mse < most * (1 - _NO_MESSAGE)
    target = np.where(inside, mse, most / 2)
    root = find_root(lambda x, i, t: batch(_log_excess, i, x, t), low, high, index, target, absolute=ROOT_TOLERANCE)
    return np.where(inside, np.exp(root), 0.0)


def solve_for_A(batch: Batch, low: np.ndarray, high: np.ndarray, index: np.ndarray, tolerance: float = ROOT_TOLERANCE) -> np.ndarray:
    """log A of fixed points between `low` and `high`; NaN where there is none."""
    return find_root(lambda x, i: batch(point_at_pi, i, np.exp(x)).shortfall, low, high, index, absolute=tolerance)


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
    if table is None and _alike(batch)[0].size == batch.size:
        above = batch.table(point_at_pi, grid).shortfall > 0
    else:
        owner = np.repeat(np.arange(batch.size), grid.shape[1])
        above = batch(shortfall_at, owner, *(table or curve_table(batch, grid))).reshape(grid.shape) > 0
    row, column = np.nonzero(above[:, 1:] != above[:, :-1])
    log_A = solve_for_A(batch, np.log(grid[row, column]), np.log(grid[row, column + 1]), row)
    found = batch(point_at_pi, row, np.exp(log_A))
    return Crossings(row, found.point._replace(mse_F=found.mse_F), above[row, column + 1], above[:, 0])


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

    def __repr__(self) -> str:
        return in_short(self)

    def plot(self) -> Figure:
        """The error on X against pi, full where the fixed points are stable and dashed where they are not, as a matplotlib figure.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> sp.fixed_point_curve(problem).plot().axes[0].get_yscale()
            'log'
        """
        from ..figures.theory import curve_figure

        return curve_figure(self)


def fixed_point_curve(problem: Problem, snr: Any = None) -> FixedPointCurve:
    """pi(A), mse_X(A), mse_F(A) on a grid of A (a logarithmic one if none is given). `problem.pi` plays no part.

    Points that no pi > 0 leads to are left out. Figure 2 of KMZ13 is this curve drawn against pi. A known matrix (eta = 0) has no such
    curve: its fixed points are the same at every pi.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> curve = sp.fixed_point_curve(problem)
        >>> print(f"{curve.pi[~curve.stable].max():.2f}")  # the fold: the spinodal
        3.58
    """
    batch = Batch([problem])
    if is_known(batch.setup.classes)[0]:
        raise InputError("problem must have an unknown F (eta > 0), but its F is known: its fixed points are the same at every pi.")
    if snr is None:
        A = snr_grid(batch)[0]
    else:
        check("snr", snr, 0.0, np.inf, low_open=True, high_open=True)
        A = np.sort(np.atleast_1d(np.asarray(snr, dtype=float)))
    index = np.zeros(A.size, int)
    point = batch(point_at_pi, index, A).point
    pi = pi_at(batch, index, point)
    step = 1e-4
    slope = pi_of(batch, index, A * (1 + step)) > pi_of(batch, index, A * (1 - step))
    keep = (pi > 0) & np.isfinite(pi)
    return FixedPointCurve(A[keep], pi[keep], point.mse_X[keep], point.mse_F[keep], slope[keep])
