"""What is gained over what was known before any data: the share of the unknown power that a fixed point recovers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..pair import Pair
from .curve import CurvePoint, error_without_data, pi_of, point_at_pi
from .roots import find_minimum, find_root
from .setup import Batch, is_unknown

# Recovering less than this share of X, and of F, is nothing to gain: an estimate with 5% of the power correlates with the truth by
# sqrt(0.05) = 0.22, and the error bars of the entries are 1 - sqrt(0.95) = 2.5% narrower than before.
LEAST_GAIN = 0.05

# Accuracy in log A of the place where the gain is large enough, and of a maximum of pi(A) before it, which is flat.
_PLACE_TOLERANCE, _PEAK_TOLERANCE = 1e-14, 1e-6


def errors_before(batch: Batch) -> Pair[np.ndarray]:
    """The errors before Y is seen, for each problem: the variance of X, and that of F given F'."""
    return Pair(F=batch.each(error_without_data), X=np.asarray(batch.setup.power.X))


def recovered(before: Pair[Any], mse: Pair[Any]) -> Pair[Any]:
    """The share of the unknown power that is recovered, 1 - mse/before, of F and of X; NaN for an F that was known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Rounding must not make it negative.
        return Pair(*(np.where(most > 0, np.maximum(1 - left / most, 0.0), np.nan) for most, left in zip(before, mse, strict=True)))


def best_share(share: Pair[Any]) -> Any:
    """The larger of the shares of F and X; that of X for an F that was known."""
    return np.fmax(share.F, share.X)


def pi_of_gain(batch: Batch, grid: np.ndarray, table: CurvePoint, pi: np.ndarray) -> np.ndarray:
    """The pi above which AMP recovers `LEAST_GAIN` of X or of F, for problems with an unknown F.

    AMP stops at the first A with pi(A) = pi, so it gets to the first A of this gain where pi is above every pi(A) on the way there.
    `table` and `pi` are the curve on the grid.
    """
    rows, before = np.arange(batch.size), errors_before(batch)

    def excess(point: CurvePoint, of: Pair[np.ndarray]) -> np.ndarray:
        return best_share(recovered(of, Pair(F=point.mse_F, X=point.mse_X))) - LEAST_GAIN

    def excess_at(log_A: np.ndarray, index: np.ndarray) -> np.ndarray:
        return excess(batch(point_at_pi, index, np.exp(log_A)).point, Pair(*(most[index] for most in before)))

    on_grid = excess(table, Pair(*(np.repeat(most, grid.shape[1]) for most in before))).reshape(grid.shape)
    # At both ends of the curve the answer is known: nothing is recovered at the least A, and beyond the last one all of F or X.
    first = np.maximum(np.argmax(on_grid >= 0, axis=1), 1)
    log_A = find_root(excess_at, np.log(grid[rows, first - 1]), np.log(grid[rows, first]), rows, absolute=_PLACE_TOLERANCE)
    found = np.maximum(pi_of(batch, rows, np.exp(log_A)), 0.0)
    # Without F' an uninformed start has to leave A = 0 first.
    found = np.where(is_unknown(batch.setup.classes), np.maximum(found, pi_of_origin(batch)), found)
    on_the_way = np.where(np.arange(grid.shape[1]) < first[:, None], pi, -np.inf)
    at = np.argmax(on_the_way, axis=1)
    chosen = np.flatnonzero((at > 0) & (on_the_way[rows, at] > found))
    if chosen.size:
        low, high = np.log(grid[chosen, at[chosen] - 1]), np.minimum(np.log(grid[chosen, at[chosen] + 1]), log_A[chosen])
        _, least = find_minimum(lambda x, i: -pi_of(batch, i, np.exp(x)), low, high, chosen, absolute=_PEAK_TOLERANCE)
        found[chosen] = np.maximum(found[chosen], -least)
    return found


def pi_of_origin(batch: Batch) -> np.ndarray:
    """pi(A -> 0) for centred priors and eta = inf: where the point of no learning becomes unstable."""
    s = batch.setup
    power = s.power.F * s.power.X
    return (batch.noise_at_ratio(0.0) + power) ** 2 / (s.observed**2 * s.alpha * power**2)
