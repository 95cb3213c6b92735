"""Priors whose averages are looked up instead of integrated, so that all of the theory answers while a slider moves.

A prior's averages over its message depend on one number, the signal-to-noise ratio, and on nothing else of the problem. They are
integrated once on a fine grid, for some densities, and read off by cubic interpolation (about 1e-5, relative) from then on.
The theory itself is not written a second time: `Tabulated` is a Prior like any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

from ..model.priors.base import Averages, Moments, Prior, Support
from ..model.quadrature import averages

# The grid in a Var[x], logarithmic: beyond its ends the averages follow power laws.
_LOWEST, _HIGHEST, _POINTS = 1e-8, 1e18, 512
_FIRST, _STEP = float(np.log(_LOWEST)), float(np.log(_HIGHEST / _LOWEST)) / (_POINTS - 1)
# Errors below this share of the variance are as good as zero; a discrete prior's fall off a cliff there.
_SMALLEST = 1e-35
# Densities for which averages are integrated.
_INTEGRATED = 25

_tables: dict[str, np.ndarray] = {}
_lock = threading.Lock()


class Tabulated(Prior):
    """A row of a table of averages: `kind` names the table, `row` the prior in it."""

    def __init__(self, kind: str, row: int, prior: Prior) -> None:
        with jax.enable_x64(True):
            mean, variance = (float(value) for value in prior.moments())
        self.kind, self.row, self.mean, self.variance = kind, float(row), mean, variance
        self.information_dimension = float(prior.dimension())

    def exact_averages(self, a: Any) -> Averages:
        scaled = a * self.variance
        kept = jnp.clip(scaled, _LOWEST, _HIGHEST)
        place = (jnp.log(kept) - _FIRST) / _STEP
        node = jnp.clip(place.astype(int), 0, _POINTS - 2)
        t = place - node
        # Cubic Hermite polynomials: values and slopes (per step) at both ends.
        weights = jnp.stack([(1 + 2 * t) * (1 - t) ** 2, t * (1 - t) ** 2, t**2 * (3 - 2 * t), t**2 * (t - 1)])
        ends = jnp.asarray(_tables[self.kind])[jnp.asarray(self.row).astype(int), node]
        log_mmse, log_overlap, log_information = jnp.dot(ends, weights)
        beyond, before = jnp.maximum(scaled / kept, 1.0), jnp.minimum(scaled / kept, 1.0)
        return Averages(
            self.variance * jnp.exp(log_mmse) / beyond,
            self.variance * jnp.exp(log_overlap) * before + self.mean**2,
            jnp.exp(log_information) * before + self.information_dimension / 2 * jnp.log(beyond),
        )

    def moments(self) -> Moments:
        return Moments(self.mean, self.variance)

    def support(self) -> Support:
        return Support(np.zeros(1), 1.0)  # no quadrature asks

    def dimension(self) -> float:
        return self.information_dimension


def tabulate(kind: str, make: Callable[[float], Prior], densities: Sequence[float]) -> None:
    """Make the table of a kind of prior, a row for each density, unless it is there."""
    with _lock:
        if kind not in _tables:
            _tables[kind] = _table(make, np.asarray(densities))


def _table(make: Callable[[float], Prior], densities: np.ndarray) -> np.ndarray:
    if densities.size == 1:
        return _row(make(float(densities[0])))[None]
    # Denser towards both ends, as the logarithm of the odds is even; the rows between follow by a spline in it.
    odds = np.log(densities / (1 - densities))
    chosen = np.unique([int(np.argmin(np.abs(odds - at))) for at in np.linspace(odds[0], odds[-1], _INTEGRATED)])
    rows = np.stack([_row(make(float(densities[k]))) for k in chosen])
    return CubicSpline(odds[chosen], rows)(odds)


def _row(prior: Prior) -> np.ndarray:
    """log mmse, log overlap (in units of the variance) and log information, with their slopes: (points - 1, 3, 4)."""
    with jax.enable_x64(True):
        mean, variance = (float(value) for value in prior.moments())
    place = np.arange(_POINTS)
    scaled = np.exp(_FIRST + _STEP * place)
    found = averages(prior, scaled / variance)
    # Both of mmse and overlap are known, so each is taken where the other would lose digits.
    mmse = np.maximum(found.mmse / variance, _SMALLEST)
    overlap = np.where(mmse > 0.5, np.maximum((found.overlap - mean**2) / variance, scaled / 2), 1 - mmse)
    values = np.log(np.stack([mmse, overlap, found.information]))
    slopes = CubicSpline(place, values, axis=1)(place, 1)
    return np.stack([values[:, :-1], slopes[:, :-1], values[:, 1:], slopes[:, 1:]], axis=-1).swapaxes(0, 1)
