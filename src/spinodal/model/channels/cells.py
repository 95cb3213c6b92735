"""Detectors behind Gaussian noise: what channels with cells or ends are made of.

All they need is the probability that a normal number lies between two bounds, and its derivatives.
"""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.scipy.special import erfc, log_ndtr

from .base import Channel, Output

# Stands for infinity where derivatives are taken.
_FAR = 1e10
# From here on the tail of a normal number follows its asymptotic series, to 3e-12 (double) and 1e-8 (single precision), and before it the
# complementary error function has not vanished.
_TAIL, _TAIL_SINGLE = 20.0, 10.0


class BehindNoise(Channel):
    """A channel that sees z plus noise, or dither, of a variance that is one of its parameters."""

    variance: Any

    def _noisy(self, key: Any, z: Any) -> Any:
        """z plus the noise."""
        return z + jnp.sqrt(jnp.asarray(self.variance, float)) * jax.random.normal(key, jnp.shape(z))

    def at_least(self, variance: Any) -> Self:
        return self.replace(variance=jnp.maximum(self.variance, variance))


def log_between(low: Any, high: Any) -> Any:
    """log of the probability that a standard normal number lies between low and high; either may be infinite."""
    low, high = (jnp.where(jnp.isfinite(end), end, jnp.sign(end) * _FAR) for end in (low, high))  # infinity has no slope
    # Mirrored to the side where the distribution function is small, so that nothing cancels.
    mirrored = low + high > 0
    low, high = jnp.where(mirrored, -high, low), jnp.where(mirrored, -low, high)
    upper = log_ndtr(high)
    return upper + jnp.log(-jnp.expm1(jnp.minimum(log_ndtr(low) - upper, -jnp.finfo(jnp.result_type(upper)).tiny)))


def hazard(t: Any) -> Any:
    """The density of a standard normal number at t over the probability that it is below t, without overflow on either side."""
    t = jnp.asarray(t, jnp.result_type(t, float))
    start = _TAIL if t.dtype == jnp.float64 else _TAIL_SINGLE
    near = jnp.maximum(t, -start)
    direct = jnp.sqrt(2 / jnp.pi) * jnp.exp(-(near**2) / 2) / erfc(-near / jnp.sqrt(2.0))
    far = jnp.maximum(-t, start)
    u = far**-2.0
    series = far / (1 - u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u * (1 - 9 * u)))))  # the asymptotic series of Mills' ratio
    return jnp.where(t < -start, series, direct)


def tail_output(sign: Any, end: Any, w: Any, level: Any) -> Output:
    """g and precision where all that is known is that z plus noise, of variance `level` together, lies above `end` (sign 1) or below (-1):
    `cell_output` with one end at infinity, for half of the time."""
    width = jnp.sqrt(level)
    t = sign * (w - jnp.where(jnp.isfinite(end), end, 0.0)) / width
    ratio = hazard(t)
    return Output(sign * ratio / width, jnp.clip(ratio * (ratio + t), 0.0, 1.0) / level)


def cell_output(low: Any, high: Any, w: Any, level: Any) -> Output:
    """g and precision where all that is known is that z plus noise, of variance `level` together, lies between low and high."""
    width = jnp.sqrt(level)
    a, b = (low - w) / width, (high - w) / width
    log_z = log_between(a, b)

    def edge(t: Any) -> tuple[Any, Any]:
        """The density at an edge over the probability of the cell, and t times that; nothing at infinity."""
        finite = jnp.isfinite(t)
        near = jnp.where(finite, t, 0.0)
        density = jnp.where(finite, jnp.exp(-(near**2) / 2 - jnp.log(2 * jnp.pi) / 2 - log_z), 0.0)
        return density, near * density

    (at_low, turned_low), (at_high, turned_high) = edge(a), edge(b)
    g = at_low - at_high
    return Output(g / width, jnp.clip(g**2 + turned_high - turned_low, 0.0, 1.0) / level)
