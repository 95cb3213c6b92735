"""Transitions read off the fixed-point curve on its grid: for drawing while a slider moves, where `phase_diagram` refines each one.

The curve and the potential along it are the theory's own. What is simpler here is what is done with them: both are interpolated between the
points of the grid, the folds are read off, and so is the place where the branches' potentials cross (Maxwell's construction).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..pair import Pair
from ..theory.curve import ROOT_TOLERANCE, CurvePoint, curve_point, curve_table, pi_at, snr_grid
from ..theory.gain import LEAST_GAIN, best_share, errors_before, recovered
from ..theory.potential import potential_at
from ..theory.roots import find_root
from ..theory.setup import Batch, Setup

# A dip of pi(A) shallower than this, relative, is not a fold.
_SHALLOWEST = 1e-7
# Points put between two of the grid.
_FINER = 8
# Points on the way to where pi is zero or infinite, each so much nearer than the one before, and the most such places of a curve.
_NEARER, _APPROACH, _PLACES = 0.25, 10, 3
# Where the slopes of neighbours differ by more than this factor, straight lines are safer than cubics.
_STEEP = 4.0


class Transitions(NamedTuple):
    """Per problem, NaN for none: where the good branch appears, becomes Bayes-optimal, and is reached by AMP; and where AMP recovers
    `LEAST_GAIN` of X or of F."""

    appears: np.ndarray
    bayes: np.ndarray
    spinodal: np.ndarray
    gain: np.ndarray


def transitions(batch: Batch, bound: np.ndarray) -> Transitions:
    """The transitions of problems with eta > 0; `bound` holds their counting bounds."""
    before = errors_before(batch)
    table = _with_approaches(batch, snr_grid(batch), before.F)
    share = best_share(recovered(Pair(*(most[:, None] for most in before)), Pair(F=table.mse_F, X=table.mse_X)))
    shape = table.snr_X.shape
    owner = np.repeat(np.arange(batch.size), shape[1])
    table = jax.tree.map(np.ravel, table)
    flat = pi_at(batch, owner, table)
    noisy = ~batch.noiseless
    phi = np.full(flat.shape, np.nan)
    wanted = np.flatnonzero(np.isfinite(flat) & (flat > 0) & noisy[owner])
    if wanted.size:
        here = batch.at(owner[wanted], flat[wanted])
        phi[wanted] = here(potential_at, np.arange(wanted.size), table.mse_X[wanted], table.mse_F[wanted])
    pi = flat.reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_pi = np.where(np.isfinite(pi) & (pi > 0), np.log(pi), np.nan)
    at_origin = np.isfinite(log_pi[:, 0])
    rows = zip(_finer(log_pi), _finer(phi.reshape(shape)), at_origin, noisy, bound, share, strict=True)
    return Transitions(*map(np.array, zip(*((*_jumps(*row), _gain(row[0], last)) for *row, last in rows), strict=True)))


def _with_approaches(batch: Batch, grid: np.ndarray, alone: np.ndarray) -> CurvePoint:
    """The curve on its grid and, nearer and nearer, next to the places where pi leaves zero (mse_F is that of F' alone) or becomes
    infinite: (problems, points)."""
    table = jax.tree.map(lambda leaf: leaf.reshape(grid.shape), curve_table(batch, grid))
    alone = alone[:, None]
    positive, possible = table.mse_F < alone, table.mse_F > 0
    begins, ends = ~positive[:, :-1] & positive[:, 1:], possible[:, :-1] & ~possible[:, 1:]
    row, column = np.nonzero(begins | ends)
    low, high = np.log(grid[row, column]), np.log(grid[row, column + 1])
    at_end = ends[row, column]
    target = np.where(at_end, 0.0, alone[row, 0])
    place = find_root(lambda x, i, t: batch(_mse_F, i, np.exp(x)) - t, low, high, row, target, absolute=ROOT_TOLERANCE)
    side = np.where(at_end, low, high)
    nth = np.arange(row.size) - np.searchsorted(row, row)
    kept = nth < _PLACES
    # Places that a problem does not need repeat its last point, which is beyond the curve.
    more = np.repeat(grid[:, -1:], _PLACES * _APPROACH, axis=1)
    for j in range(_APPROACH):
        more[row[kept], (nth * _APPROACH + j)[kept]] = np.exp(place + (side - place) * _NEARER ** (j + 1))[kept]
    extra = batch.table(curve_point, more)
    order = np.argsort(np.concatenate([grid, more], axis=1), axis=1, kind="stable")
    return jax.tree.map(lambda a, b: np.take_along_axis(np.concatenate([a, b], axis=1), order, axis=1), table, extra)


def _mse_F(s: Setup, A: Any) -> Any:
    return curve_point(s, A).mse_F


def _jumps(log_pi: np.ndarray, phi: np.ndarray, at_origin: bool, noisy: bool, bound: float) -> tuple[float, float, float]:
    none = (np.nan, np.nan, np.nan) if noisy else (bound, bound, bound)
    reached = np.flatnonzero(np.isfinite(log_pi))
    if reached.size == 0:
        return none
    # From the first to the last point that some pi > 0 leads to; no pi is enough for those between that are missing.
    whole = slice(reached[0], reached[-1] + 1)
    pi, phi = np.exp(np.nan_to_num(log_pi[whole], nan=np.inf)), phi[whole]
    best = np.maximum.accumulate(pi)
    dips = np.flatnonzero(pi < best * (1 - _SHALLOWEST))
    if dips.size == 0:
        return none
    high = float(best[dips[-1]])
    if not noisy:
        return bound, bound, max(high, bound)
    lowest_ahead = np.minimum.accumulate(pi[::-1])[::-1]
    last_fall = int(np.flatnonzero(lowest_ahead < pi * (1 - _SHALLOWEST))[-1])
    bottom = last_fall + 1 + int(np.argmin(pi[last_fall + 1 :]))
    return float(pi[bottom]), _crossing(pi, phi, bottom, high, at_origin), high


def _gain(log_pi: np.ndarray, share: np.ndarray) -> float:
    """The largest pi on the way to the first point where enough is recovered; 0 where F' alone is enough for that.

    `share` is on the grid, and a power of A between two points of it; `log_pi` is finer.
    """
    after = int(np.argmax(share >= LEAST_GAIN))
    place = _FINER * (after - np.log(share[after] / LEAST_GAIN) / np.log(share[after] / share[after - 1]))
    k = int(place)
    there = log_pi[k] + (place - k) * (log_pi[k + 1] - log_pi[k])
    # Points without a pi lie at the beginning, where it would have to be negative.
    return float(np.exp(np.nanmax(np.append(log_pi[: k + 1], there), initial=-np.inf)))


def _finer(values: np.ndarray) -> np.ndarray:
    """Each row with points put between its own: cubic through four neighbours, linear where some are missing, missing where an end is."""
    t = np.arange(_FINER) / _FINER
    weights = np.stack([-t * (t - 1) * (t - 2) / 6, (t + 1) * (t - 1) * (t - 2) / 2, -(t + 1) * t * (t - 2) / 2, (t + 1) * t * (t - 1) / 6])
    padded = np.pad(values, ((0, 0), (1, 1)), constant_values=np.nan)
    count = values.shape[1] - 1
    cubic = sum(padded[:, k : k + count, None] * weights[k] for k in range(4))
    linear = values[:, :-1, None] * (1 - t) + values[:, 1:, None] * t
    slopes = np.diff(padded, axis=1)
    three = np.stack([slopes[:, k : k + count] for k in range(3)])
    with np.errstate(invalid="ignore"):
        steep = (np.abs(np.sum(np.sign(three), axis=0)) == 3) & (np.abs(three).max(axis=0) > _STEEP * np.abs(three).min(axis=0))
    finer = np.where(np.isfinite(cubic) & ~steep[:, :, None], cubic, linear)
    finer[:, :, 0] = values[:, :-1]
    return np.concatenate([finer.reshape(len(values), -1), values[:, -1:]], axis=1)


def _crossing(pi: np.ndarray, phi: np.ndarray, bottom: int, high: float, at_origin: bool) -> float:
    """Where the good branch's potential overtakes the largest of the others', from where it appears to where the others have ended."""
    good = np.arange(bottom, pi.size)
    good = good[pi[good] <= high]
    at, gain = pi[good], phi[good].copy()
    others = np.full(at.shape, -np.inf)
    # The branches before: stretches of the curve along which pi rises.
    with np.errstate(invalid="ignore"):
        rising = np.flatnonzero((np.diff(pi[: bottom + 1]) > 0) & np.isfinite(pi[1 : bottom + 1]))
    for stretch in np.split(rising, np.flatnonzero(np.diff(rising) > 1) + 1) if rising.size else []:
        part = np.append(stretch, stretch[-1] + 1)
        # Below its least pi, an uninformed start is held at A = 0, where nothing is learned.
        left = phi[part[0]] if part[0] == 0 and at_origin else -np.inf
        others = np.maximum(others, np.interp(at, pi[part], phi[part], left=left, right=-np.inf))
    if at_origin and not np.isfinite(others).any():
        others[:] = phi[0]
    gain -= others
    better = np.flatnonzero(gain > 0)
    if better.size == 0:
        return high
    k = int(better[0])
    if k == 0 or not np.isfinite(gain[k - 1]):
        return float(at[k])
    share = gain[k - 1] / (gain[k - 1] - gain[k])
    return float(at[k - 1] * (at[k] / at[k - 1]) ** share)
