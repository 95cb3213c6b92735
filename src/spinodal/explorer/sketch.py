"""Transitions read off the fixed-point curve on its grid: for drawing while a slider moves, where `phase_diagram` refines each one.

The curve and the potential along it are the theory's own. What is simpler here is what is done with them: both are interpolated between the
points of the grid, the folds are read off, and so is the place where the branches' potentials cross (Maxwell's construction).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from ..theory.curve import curve_table, pi_at, snr_grid
from ..theory.potential import potential_at
from ..theory.setup import Batch

# A dip of pi(A) shallower than this, relative, is not a fold.
_SHALLOWEST = 1e-7
# Points put between two of the grid.
_FINER = 8


class Sketch(NamedTuple):
    """Per problem, NaN for none: where the good branch appears, becomes Bayes-optimal, and is reached by AMP."""

    appears: np.ndarray
    bayes: np.ndarray
    spinodal: np.ndarray


def sketch(batch: Batch, bound: np.ndarray) -> Sketch:
    """The transitions of problems with eta > 0; `bound` holds their counting bounds."""
    grid = snr_grid(batch)
    owner = np.repeat(np.arange(batch.size), grid.shape[1])
    table = curve_table(batch, grid)
    flat = pi_at(batch, owner, table)
    noisy = batch.setup.noise > 0
    phi = np.full(flat.shape, np.nan)
    wanted = np.flatnonzero(np.isfinite(flat) & (flat > 0) & noisy[owner])
    if wanted.size:
        here = batch.at(owner[wanted], flat[wanted])
        phi[wanted] = here(potential_at, np.arange(wanted.size), table.mse_X[wanted], table.mse_F[wanted])
    rows = zip(flat.reshape(grid.shape), phi.reshape(grid.shape), noisy, bound, strict=True)
    return Sketch(*map(np.array, zip(*(_transitions(*row) for row in rows), strict=True)))


def _transitions(pi: np.ndarray, phi: np.ndarray, noisy: bool, bound: float) -> tuple[float, float, float]:
    none = (np.nan, np.nan, np.nan) if noisy else (bound, bound, bound)
    at_origin = bool(np.isfinite(pi[0]) and pi[0] > 0)
    pi, phi = _finer(pi, phi)
    if pi.size == 0:
        return none
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


def _finer(pi: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stretches of the curve that some pi > 0 leads to, on a finer grid; an infinity stands for each gap between them."""
    reached = np.flatnonzero(np.isfinite(pi) & (pi > 0))
    parts = []
    for stretch in np.split(reached, np.flatnonzero(np.diff(reached) > 1) + 1):
        values = np.stack([np.log(pi[stretch]), np.nan_to_num(phi[stretch])])
        if stretch.size > 3:
            where = np.linspace(0, stretch.size - 1, _FINER * (stretch.size - 1) + 1)
            values = CubicSpline(np.arange(stretch.size), values, axis=1)(where)
        parts += [np.array([[np.inf], [np.nan]]), values]
    log_pi, phi = np.concatenate(parts[1:], axis=1) if parts else np.zeros((2, 0))
    return np.exp(log_pi), phi


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
