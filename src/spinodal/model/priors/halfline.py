"""Priors made of half-lines: Laplace, and Gauss-Bernoulli with a half-normal slab.

Both reduce to Gaussians cut at zero. With the Mills ratio H(t) = exp(t^2/2) times the integral of exp(-x^2/2) over x > t,

    integral over x > 0 of exp(beta x - lam x^2/2) = H(t)/sqrt(lam),    t = -beta/sqrt(lam),

and x sqrt(lam) then has mean R(t) = 1/H(t) - t and variance 1 - R (R + t).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfcx, log_ndtr

from ...errors import check, check_positive
from .base import Moments, Prior, Support

# Beyond this t the closed forms cancel (and JAX's erfcx returns NaN near t = 38); the series below are exact to 1e-10 there.
_SERIES_START = 25.0
# R(t) = sum of c_k t^(-2k-1), from R' = R (R + t) - 1; the variance is -R'.
_MEAN_SERIES = np.array([1.0, -2.0, 10.0, -74.0, 706.0, -8162.0, 110410.0])
_VARIANCE_SERIES = _MEAN_SERIES * (2 * np.arange(_MEAN_SERIES.size) + 1)
# H(t) = sum of c_k t^(-2k-1).
_MILLS_SERIES = np.array([1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0])
# exp(-40) is below 1e-17: where a Laplace tail stops mattering, in units of its scale.
_LAPLACE_SPAN = 40.0
# Least precision of a message to a Laplace variable, in units of 1/scale^2: at 0 the closed forms are 0/0.
_LEAST_PRECISION = 1e-10
# A half-normal slab is cut this many standard deviations out.
_HALF_NORMAL_SPAN = 12.0


def log_mills(t: Any) -> Any:
    """log H(t), without overflow or cancellation on either side."""
    near = jnp.clip(t, 0.0, _SERIES_START)
    far = jnp.maximum(t, _SERIES_START)
    left = log_ndtr(-jnp.minimum(t, 0.0)) + t**2 / 2 + jnp.log(2 * jnp.pi) / 2
    right = jnp.log(erfcx(near / jnp.sqrt(2.0))) + jnp.log(jnp.pi / 2) / 2
    tail = jnp.log(jnp.polyval(_MILLS_SERIES[::-1], far**-2.0)) - jnp.log(far)
    return jnp.where(t > _SERIES_START, tail, jnp.where(t > 0, right, left))


def cut_moments(t: Any) -> Moments:
    """Mean and variance of a standard normal at -t, cut to the positive half-line."""
    near = jnp.minimum(t, _SERIES_START)
    far = jnp.maximum(t, _SERIES_START)
    mean = jnp.exp(-log_mills(near)) - near
    tail_mean = jnp.polyval(_MEAN_SERIES[::-1], far**-2.0) / far
    tail_variance = jnp.polyval(_VARIANCE_SERIES[::-1], far**-2.0) / far**2
    is_far = t > _SERIES_START
    return Moments(jnp.where(is_far, tail_mean, mean), jnp.where(is_far, tail_variance, 1 - mean * (mean + near)))


@dataclass(frozen=True)
class Laplace(Prior):
    """Density exp(-|x|/scale)/(2 scale).

    Examples:
        >>> import spinodal as sp
        >>> sp.Laplace(scale=2.0).moments()
        Moments(mean=0.0, variance=8.0)
    """

    scale: Any = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def _kept_positive(self, a: Any) -> Any:
        """A message of no precision stands for one of very little."""
        return jnp.maximum(a, _LEAST_PRECISION / self.scale**2)

    def _sides(self, a: Any, b: Any) -> tuple[Any, Any]:
        """t of the two half-lines x > 0 and x < 0."""
        root = jnp.sqrt(self._kept_positive(a))
        return (1 / self.scale - b) / root, (1 / self.scale + b) / root

    def log_partition(self, a: Any, b: Any) -> Any:
        right, left = self._sides(a, b)
        return jnp.logaddexp(log_mills(right), log_mills(left)) - jnp.log(2 * self.scale) - jnp.log(self._kept_positive(a)) / 2

    def log_evidence(self, a: Any, u: Any) -> Any:
        # The Gaussian factor of u is absorbed into the Mills ratios, whose exp(t^2/2) would cancel it.
        width = 1 / (self.scale * jnp.sqrt(a))

        def side(t: Any) -> Any:
            # log H(t) - u^2/2 with t = width -+ u: the squares are subtracted on paper.
            tail = jnp.where(t > 0, log_mills(jnp.maximum(t, 0.0)) - u**2 / 2, 0.0)
            bulk = log_ndtr(-jnp.minimum(t, 0.0)) + jnp.log(2 * jnp.pi) / 2 + width * (t - width / 2)
            return jnp.where(t > 0, tail, bulk)

        return jnp.logaddexp(side(width - u), side(width + u)) - jnp.log(2 * self.scale) - jnp.log(a) / 2

    def posterior(self, a: Any, b: Any) -> Moments:
        a = self._kept_positive(jnp.broadcast_to(a, jnp.broadcast_shapes(jnp.shape(a), jnp.shape(b))))
        right, left = self._sides(a, b)
        weight = jax.nn.sigmoid(log_mills(right) - log_mills(left))
        plus, minus = cut_moments(right), cut_moments(left)
        mean = (weight * plus.mean - (1 - weight) * minus.mean) / jnp.sqrt(a)
        within = weight * plus.variance + (1 - weight) * minus.variance
        between = weight * (1 - weight) * (plus.mean + minus.mean) ** 2
        return Moments(mean, (within + between) / a)

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.scale * jax.random.laplace(key, shape)

    def moments(self) -> Moments:
        return Moments(0.0 * self.scale, 2 * self.scale**2)

    def support(self) -> Support:
        return Support(np.array([0.0]), _LAPLACE_SPAN * self.scale)

    def dimension(self) -> float:
        return 1.0


@dataclass(frozen=True)
class NonnegativeGaussBernoulli(Prior):
    """Zero with probability 1 - rho, else |x| of a centred normal with the given variance (a half-normal slab).

    Examples:
        >>> import spinodal as sp
        >>> prior = sp.NonnegativeGaussBernoulli(0.3)
        >>> prior.density(), prior.second_moment()
        (0.3, 0.3)
    """

    rho: Any
    variance: Any = 1.0

    def __post_init__(self) -> None:
        check("rho", self.rho, 0.0, 1.0, low_open=True, high_open=True)
        check_positive("variance", self.variance)

    def _slab(self, a: Any, b: Any) -> tuple[Any, Any, Any]:
        """Precision, t and log partition of the slab."""
        precision = a + 1 / self.variance
        t = -b / jnp.sqrt(precision)
        return precision, t, log_mills(t) + (jnp.log(2 / jnp.pi) - jnp.log1p(a * self.variance)) / 2

    def log_partition(self, a: Any, b: Any) -> Any:
        return jnp.logaddexp(jnp.log1p(-self.rho), jnp.log(self.rho) + self._slab(a, b)[2])

    def log_evidence(self, a: Any, u: Any) -> Any:
        spread = 1 + a * self.variance
        inside = log_ndtr(u * jnp.sqrt(a * self.variance / spread)) + jnp.log(2.0)
        slab = jnp.log(self.rho) + inside - u**2 / (2 * spread) - jnp.log(spread) / 2
        return jnp.logaddexp(jnp.log1p(-self.rho) - u**2 / 2, slab)

    def slab_probability(self, a: Any, b: Any) -> Any:
        return jax.nn.sigmoid(jnp.log(self.rho) - jnp.log1p(-self.rho) + self._slab(a, b)[2])

    def posterior(self, a: Any, b: Any) -> Moments:
        precision, t, _ = self._slab(a, b)
        slab = self.slab_probability(a, b)
        cut = cut_moments(t)
        value = cut.mean / jnp.sqrt(precision)
        return Moments(slab * value, slab * cut.variance / precision + slab * (1 - slab) * value**2)

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        which, value = jax.random.split(key)
        slab = jnp.sqrt(self.variance) * jnp.abs(jax.random.normal(value, shape))
        return jnp.where(jax.random.bernoulli(which, self.rho, shape), slab, 0.0)

    def moments(self) -> Moments:
        mean = self.rho * jnp.sqrt(2 * self.variance / jnp.pi)
        return Moments(mean, self.rho * self.variance - mean**2)

    def second_moment(self) -> Any:
        return self.rho * self.variance

    def support(self) -> Support:
        return Support(np.array([0.0]), _HALF_NORMAL_SPAN * np.sqrt(self.variance))

    def dimension(self) -> Any:
        return self.rho
