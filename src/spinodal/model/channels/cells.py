"""Detectors behind Gaussian noise: what channels with cells or ends are made of.

All they need is the probability that a normal number lies between two bounds, and its derivatives.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from numpy.polynomial import chebyshev

from .base import Channel, Output

# Stands for infinity where derivatives are taken.
_FAR = 1e10
# Mills' ratio is a polynomial of this degree in (t - middle)/(t + middle), over 1 + t, fitted at so many points.
_DEGREE, _MIDDLE, _POINTS = 22, 5.0, 55


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


def mills(t: Any) -> Any:
    """The probability that a standard normal number is above |t| over its density there: Mills' ratio, by arithmetic alone."""
    t = jnp.abs(t)
    s = 1 - 2 * _MIDDLE / (t + _MIDDLE)  # from -1 at t = 0 to 1 at infinity
    total = jnp.zeros_like(s)
    for coefficient in _mills_coefficients():
        total = total * s + coefficient
    return total / (1 + t)


@cache
def _mills_coefficients() -> tuple[float, ...]:
    """Of (1 + t) times Mills' ratio as a polynomial in s, the highest power first: right to a few rounding errors from 0 to infinity."""
    from scipy.special import erfcx  # half of a second that nobody waits for who has no cells

    s = chebyshev.chebpts1(_POINTS)
    t = _MIDDLE * (1 + s) / (1 - s)
    fit = chebyshev.chebfit(s, (1 + t) * np.sqrt(np.pi / 2) * erfcx(t / np.sqrt(2)), _DEGREE)
    return tuple(float(value) for value in chebyshev.cheb2poly(fit)[::-1])


def hazard(t: Any) -> Any:
    """The density of a standard normal number at t over the probability that it is below t, without overflow on either side."""
    t = jnp.asarray(t, jnp.result_type(t, float))
    ratio, density = mills(t), _density(t)
    return jnp.where(t > 0, density, 1.0) / jnp.where(t > 0, 1 - density * ratio, ratio)


def _density(t: Any) -> Any:
    return jnp.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)


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
    a, b = ((jnp.clip(end, -_FAR, _FAR) - w) / width for end in (low, high))
    # Mirrored to the side where b is nearer to zero than a. Then the density at a over that at b is at most 1.
    mirrored = a + b > 0
    a, b = jnp.where(mirrored, -b, a), jnp.where(mirrored, -a, b)
    fallen = jnp.exp((b - a) * (b + a) / 2)
    near, far = mills(b), fallen * mills(a)
    density = _density(b)
    # The densities at the edges over the probability of the cell, which is a difference of two tails, or 1 less both.
    at_high = jnp.where(b > 0, density, 1.0) / jnp.where(b > 0, 1 - density * (near + far), near - far)
    at_low = fallen * at_high
    g = at_low - at_high
    return Output(jnp.where(mirrored, -g, g) / width, jnp.clip(g**2 + b * at_high - a * at_low, 0.0, 1.0) / level)
