"""Folds of the fixed-point curve and Maxwell's construction between them, for many problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from ..model.model import Problem
from ..pair import Pair
from .curve import Crossings, CurvePoint, crossings, curve_table, pi_at, pi_of, point_at_pi, snr_grid, solve_for_A
from .gain import LEAST_GAIN, best_share, errors_before, pi_of_gain, pi_of_origin, recovered
from .potential import potential_at
from .roots import find_minimum, find_root
from .setup import Batch, is_known

# A dip of pi(A) shallower than this, relative, is rounding, not a fold.
_SHALLOWEST_FOLD = 1e-9
# Maxwell's construction stays this far, relative, inside the two spinodals.
_INSIDE = 1e-9

# Extrema are flat: this accuracy in log A gives pi to 1e-12.
_EXTREMUM_TOLERANCE = 1e-6
# Relative accuracy of the pi at which potentials are equal.
_MAXWELL_TOLERANCE = 1e-12
# Accuracy in log A of the fixed points whose potentials are compared: they are extrema of it, so an error counts by its square.
_BRANCH_TOLERANCE = 1e-9
# Stands for an infinite pi where extrema are refined.
_UNREACHABLE = 1e100


class Transitions(NamedTuple):
    """Per problem: where the good branch appears, where it becomes Bayes-optimal, and where AMP reaches it, NaN for none; and above which
    pi AMP recovers `LEAST_GAIN` of X or of F."""

    appears: np.ndarray
    bayes: np.ndarray
    spinodal: np.ndarray
    gain: np.ndarray


def transitions(problems: Sequence[Problem], counting_bounds: Sequence[float], *, maxwell: bool = False, gain: bool = False) -> Transitions:
    """All transitions in pi of problems that differ in anything but the kinds of their priors and channels.

    `bayes` (with noise) and `gain` take longer, and are left NaN unless `maxwell` and `gain` ask for them.
    """
    bound = np.asarray(counting_bounds, dtype=float)
    known = np.array([is_known(problem.knowledge.classes()) for problem in problems])
    out = Transitions(*(np.full(len(problems), np.nan) for _ in Transitions._fields))
    for chosen, solve in ((np.flatnonzero(known), _known_matrix), (np.flatnonzero(~known), _folds)):
        if chosen.size:
            part = solve(Batch([problems[int(k)] for k in chosen]), bound[chosen], maxwell, gain)
            for whole, piece in zip(out, part, strict=True):
                whole[chosen] = piece
    return out


def _known_matrix(batch: Batch, bound: np.ndarray, maxwell: bool, gain: bool) -> Transitions:
    """eta = 0: nothing depends on pi, so a transition is at 0 or at infinity."""
    found = crossings(batch)
    phi = batch(potential_at, found.owner, found.point.mse_X, found.point.mse_F)
    appears, bayes, spinodal = (np.full(batch.size, np.nan) for _ in range(3))
    enough = np.full(batch.size, np.nan)
    if gain:
        share = recovered(errors_before(batch), Pair(F=np.zeros(batch.size), X=_first_stable(batch, found)))
        enough = np.where(best_share(share) >= LEAST_GAIN, 0.0, np.inf)
    for k in range(batch.size):
        own = phi[(found.owner == k) & found.stable]
        noiseless = batch.noiseless[k]
        if own.size == 0 or (own.size == 1 and not noiseless):
            if noiseless:
                appears[k] = bayes[k] = spinodal[k] = 0.0
            continue
        spinodal[k] = np.inf
        possible = bound[k] == 0 if noiseless else own[-1] > own[0]
        appears[k] = bound[k] if noiseless else 0.0
        bayes[k] = 0.0 if possible else np.inf
    return Transitions(appears, bayes, spinodal, enough)


def _first_stable(batch: Batch, found: Crossings) -> np.ndarray:
    """AMP's error on X for a known F; 0 where nothing stops it."""
    mse = np.zeros(batch.size)
    # The last of repeated indices is kept, so from the last fixed point to the first.
    chosen = np.flatnonzero(found.stable)[::-1]
    mse[found.owner[chosen]] = found.point.mse_X[chosen]
    return mse


def _folds(batch: Batch, bound: np.ndarray, maxwell: bool, gain: bool) -> Transitions:
    """eta > 0: the last fold of pi(A) is where AMP is released; the dip after it is where the good branch begins."""
    grid = snr_grid(batch)
    rows = np.arange(batch.size)
    table = curve_table(batch, grid)
    pi = pi_at(batch, np.repeat(rows, grid.shape[1]), table).reshape(grid.shape)
    noiseless = batch.noiseless
    enough = pi_of_gain(batch, grid, table, pi) if gain else np.full(batch.size, np.nan)
    # Beyond the last reachable A (mse_F = 0, pi = inf) the curve has ended.
    last = grid.shape[1] - 1 - np.argmax(np.isfinite(pi[:, ::-1]), axis=1)
    on_curve = np.arange(grid.shape[1]) <= last[:, None]
    pi = np.where(on_curve, pi, -np.inf)
    best = np.maximum.accumulate(pi, axis=1)
    with np.errstate(invalid="ignore"):
        dips = on_curve & (best > 0) & (pi < best * (1 - _SHALLOWEST_FOLD))
    has_dip = dips.any(axis=1)
    dip = grid.shape[1] - 1 - np.argmax(dips[:, ::-1], axis=1)
    top = np.where(has_dip, np.argmax(np.where(np.arange(grid.shape[1]) <= dip[:, None], pi, -np.inf), axis=1), 0)
    # The last minimum, which need not be the lowest: beyond the last point that has something lower to its right.
    ahead = np.where(on_curve, pi, np.inf)
    lowest_ahead = np.minimum.accumulate(ahead[:, ::-1], axis=1)[:, ::-1]
    falling = on_curve & (pi > 0) & (lowest_ahead < pi * (1 - _SHALLOWEST_FOLD))
    last_fall = grid.shape[1] - 1 - np.argmax(falling[:, ::-1], axis=1)
    bottom = np.where(has_dip, np.argmin(np.where(np.arange(grid.shape[1]) > last_fall[:, None], ahead, np.inf), axis=1), 0)

    fold_log_A, spinodal = _refine(batch, grid, top, has_dip, sign=-1.0)
    dip_log_A, appears = _refine(batch, grid, bottom, has_dip & ~noiseless, sign=1.0)
    # An uninformed start can also be held at A = 0 itself.
    at_origin = has_dip & (top == 0)
    spinodal[at_origin] = pi_of_origin(batch)[at_origin]
    lost = has_dip & np.isinf(pi[rows, top])
    spinodal[lost] = np.inf
    bayes = np.full(batch.size, np.nan)
    # Without noise the curve runs on to the counting bound, and exact recovery takes over there.
    spinodal[noiseless] = np.fmax(spinodal, bound)[noiseless]
    appears[noiseless] = bayes[noiseless] = bound[noiseless]
    noisy = np.flatnonzero(has_dip & ~noiseless)
    if maxwell and noisy.size:
        # Without F' a third branch may lie between the two: it begins at a minimum of pi(A) before the dip.
        rises = ahead[:, 1:] > ahead[:, :-1]
        several = np.any(~rises[:, :-1] & rises[:, 1:] & (np.arange(1, grid.shape[1] - 1) < bottom[:, None]), axis=1)
        shared = jax.tree.map(lambda leaf: leaf.reshape(grid.shape), table)
        ends = appears[noisy], spinodal[noisy]
        bayes[noisy] = _maxwell(batch, noisy, fold_log_A[noisy], dip_log_A[noisy], *ends, shared, ahead[noisy], several[noisy])
    return Transitions(appears, bayes, spinodal, enough)


def _refine(batch: Batch, grid: np.ndarray, at: np.ndarray, wanted: np.ndarray, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """log A and pi of the extremum of pi(A) next to grid point `at`; minima for sign = 1, maxima for -1."""
    log_A, value = np.log(grid[np.arange(batch.size), at]), np.full(batch.size, np.nan)
    chosen = np.flatnonzero(wanted & (at > 0) & (at < grid.shape[1] - 1))
    if chosen.size:
        left, right = (np.log(grid[chosen, at[chosen] + k]) for k in (-1, 1))

        def bounded(x: np.ndarray, i: np.ndarray) -> np.ndarray:
            pi = pi_of(batch, i, np.exp(x))
            return sign * np.where(np.isfinite(pi), pi, _UNREACHABLE)

        log_A[chosen], extremum = find_minimum(bounded, left, right, chosen, absolute=_EXTREMUM_TOLERANCE)
        value[chosen] = sign * extremum
    return log_A, value


def _best_stable(batch: Batch, table: CurvePoint, log_A: np.ndarray) -> np.ndarray:
    """The largest potential among each problem's stable fixed points below log A; -inf where there is none."""
    found = crossings(batch, table)
    chosen = found.stable & (np.log(found.point.snr_X) < log_A[found.owner])
    owner = found.owner[chosen]
    best = np.full(batch.size, -np.inf)
    np.maximum.at(best, owner, batch(potential_at, owner, found.point.mse_X[chosen], found.point.mse_F[chosen]))
    return best


def _where_it_rises(log_grid: np.ndarray, above: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours among the points of the grid between `left` and `right`, and these themselves, between which the curve first gets above
    the wanted pi."""
    inside = (log_grid > left[:, None]) & (log_grid < right[:, None])
    rows, first = np.arange(len(left)), np.argmax(inside & above, axis=1)
    found = inside[rows, first] & above[rows, first]
    high = np.where(found, log_grid[rows, first], right)
    return np.max(np.where(inside & (log_grid < high[:, None]), log_grid, left[:, None]), axis=1), high


def _maxwell(
    batch: Batch,
    rows: np.ndarray,
    fold: np.ndarray,
    dip: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    table: CurvePoint,
    pi_of_grid: np.ndarray,
    several: np.ndarray,
) -> np.ndarray:
    """pi between the two spinodals at which the good branch's potential equals the largest of the others'."""
    grid = table.snr_X

    def branch_potential(at: Batch, left: np.ndarray, right: np.ndarray, near: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        own = np.arange(at.size)
        log_A = solve_for_A(at, *near, own, _BRANCH_TOLERANCE)
        elsewhere = np.flatnonzero(np.isnan(log_A))
        log_A[elsewhere] = solve_for_A(at, left[elsewhere], right[elsewhere], elsewhere, _BRANCH_TOLERANCE)
        # No root on the lower branch: an uninformed start stays at A = 0, where nothing is learned.
        nothing = np.isnan(log_A)
        point = at(point_at_pi, own, np.exp(np.where(nothing, 0.0, log_A))).point
        mse_X, mse_F = np.where(nothing, at.setup.power.X, point.mse_X), np.where(nothing, at.setup.power.F, point.mse_F)
        return at(potential_at, own, mse_X, mse_F)

    def gain(pi: np.ndarray, which: np.ndarray) -> np.ndarray:
        at, log_grid, above = batch.at(rows[which], pi), np.log(grid[rows[which]]), pi_of_grid[which] > pi[:, None]
        start, end = log_grid[:, 0], log_grid[:, -1]
        bad = branch_potential(at, start, fold[which], _where_it_rises(log_grid, above, start, fold[which]))
        good = branch_potential(at, dip[which], end, _where_it_rises(log_grid, above, dip[which], end))
        more = which[several[which]]
        if more.size:
            between = batch.at(rows[more], pi[several[which]])
            known = jax.tree.map(lambda leaf: leaf[rows[more]].ravel(), table)
            bad[several[which]] = np.fmax(bad[several[which]], _best_stable(between, known, dip[more]))
        return good - bad

    ends = low * (1 + _INSIDE), np.where(np.isfinite(high), high * (1 - _INSIDE), low * 1e6)
    found = find_root(gain, *ends, np.arange(rows.size), relative=_MAXWELL_TOLERANCE)
    # The good branch may be the better one as soon as it appears, or never.
    one_sided = np.where(gain(ends[0], np.arange(rows.size)) > 0, low, high)
    return np.where(np.isnan(found), one_sided, found)
