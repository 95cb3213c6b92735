"""What each sensor is like, from a solution: the posterior of its gain, offset and health given everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..model.channels import Readings, Sensors
from ..model.priors import Moments

if TYPE_CHECKING:
    from .solution import Solution

# Turns of the fixed point that takes an entry's own y off the estimate of its z, and the share of each.
_TURNS, _SHARE = 60, 0.5


def readings_of(solution: Solution) -> Readings | None:
    """The sensors of one instance; None where the channel has none.

    The posterior mean of z is w + V g(w), where w and V are what everything but its own y says. So w is found by iteration, with V from
    the variances of F and X.
    """
    channel = getattr(solution.model, "channel", None)
    if not isinstance(channel, Sensors) or solution.observed is None:
        return None
    with jax.enable_x64(True):
        (F, X), (s, c) = ((jnp.asarray(value, float) for value in pair) for pair in (solution.mean, solution.variance))
        mask = None if solution.observed.mask is None else jnp.asarray(solution.observed.mask, float)
        Y = jnp.where(1.0 if mask is None else mask > 0, jnp.asarray(solution.observed.Y, float), 0.0)
        N = F.shape[1]
        z, V = F @ X / np.sqrt(N), (F**2 @ c + s @ (X**2 + c)) / N
        least = jnp.finfo(float).eps * jnp.mean(Y**2)
        found: Readings = jax.tree.map(np.asarray, _read(channel.at_least(least), Y, z, V, mask))
    model = solution.model
    unknown = float(model.knowledge.unknown_share(model.prior.F)) * float(model.prior.F.second_moment())
    return found._replace(gain=_with_rows_scale(found.gain, np.asarray(F), unknown))


def _with_rows_scale(gain: Moments, F: np.ndarray, unknown: float) -> Moments:
    """A row of F that is (1 + e) times as large with a gain (1 + e) times as small explains Y as well, so what is not known beforehand of
    the size of the row, of variance `unknown` an entry, is not known of the gain either."""
    size = np.maximum(np.sum(F**2, axis=1), np.finfo(float).tiny)
    return gain._replace(variance=gain.variance + gain.mean**2 * unknown / size)


@jax.jit
def _read(channel: Sensors, Y: jax.Array, z: jax.Array, V: jax.Array, mask: jax.Array | None) -> Readings:
    def turn(_: int, w: jax.Array) -> jax.Array:
        return w + _SHARE * (z - V * channel.output_where(Y, w, V, mask).g - w)

    return channel.readings(Y, jax.lax.fori_loop(0, _TURNS, turn, z), V, mask)
