"""Priors built of Gaussians and points: Gaussian, Gauss-Bernoulli, Rademacher, and any finite mixture of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check, check_finite, check_nonnegative, check_positive
from .base import Averages, Moments, Prior, Support

# A Gaussian is cut this many standard deviations from its mean: its mass beyond is below 1e-30.
_GAUSSIAN_SPAN = 12.0


def gaussian_log_partition(mean: Any, variance: Any, a: Any, b: Any) -> Any:
    """log Z of a normal distribution; a point where the variance is zero."""
    return (b * mean - a * mean**2 / 2 + b**2 * variance / 2) / (1 + a * variance) - jnp.log1p(a * variance) / 2


def gaussian_log_evidence(mean: Any, variance: Any, a: Any, u: Any) -> Any:
    """log density of u for a normal prior, up to log sqrt(2 pi): u is normal with mean sqrt(a) m and variance 1 + a v."""
    return -((u - jnp.sqrt(a) * mean) ** 2) / (2 * (1 + a * variance)) - jnp.log1p(a * variance) / 2


@dataclass(frozen=True)
class Gaussian(Prior):
    """Normal distribution.

    Examples:
        >>> import spinodal as sp
        >>> float(sp.Gaussian(mean=1.0, variance=2.0).mmse(0.5))  # 1/(1/2 + .5)
        1.0
    """

    mean: Any = 0.0
    variance: Any = 1.0

    def __post_init__(self) -> None:
        check_finite("mean", self.mean)
        check_positive("variance", self.variance)

    def log_partition(self, a: Any, b: Any) -> Any:
        return gaussian_log_partition(self.mean, self.variance, a, b)

    def log_evidence(self, a: Any, u: Any) -> Any:
        return gaussian_log_evidence(self.mean, self.variance, a, u)

    def posterior(self, a: Any, b: Any) -> Moments:
        shrink = 1 / (1 + a * self.variance)
        mean = (self.mean + self.variance * b) * shrink
        return Moments(mean, jnp.broadcast_to(self.variance * shrink, jnp.shape(mean)))

    def exact_averages(self, a: Any) -> Averages:
        mmse = self.variance / (1 + a * self.variance)
        return Averages(mmse, self.mean**2 + a * self.variance * mmse, jnp.log1p(a * self.variance) / 2)

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.mean + jnp.sqrt(self.variance) * jax.random.normal(key, shape)

    def moments(self) -> Moments:
        return Moments(self.mean, self.variance)

    def support(self) -> Support:
        return Support(np.array([self.mean]), abs(self.mean) + _GAUSSIAN_SPAN * np.sqrt(self.variance))

    def dimension(self) -> float:
        return 1.0


@dataclass(frozen=True)
class GaussBernoulli(Prior):
    """Zero with probability 1 - rho, else normal with the given mean and variance: Eq. (1) of KMZ13.

    Examples:
        >>> import spinodal as sp
        >>> prior = sp.GaussBernoulli(0.2, mean=1.0)
        >>> prior.density(), prior.second_moment()
        (0.2, 0.4)
    """

    rho: Any
    mean: Any = 0.0
    variance: Any = 1.0

    elementary = True

    def __post_init__(self) -> None:
        check("rho", self.rho, 0.0, 1.0, low_open=True, high_open=True)
        check_finite("mean", self.mean)
        check_positive("variance", self.variance)

    def log_partition(self, a: Any, b: Any) -> Any:
        slab = jnp.log(self.rho) + gaussian_log_partition(self.mean, self.variance, a, b)
        return jnp.logaddexp(jnp.log1p(-self.rho), slab)

    def log_evidence(self, a: Any, u: Any) -> Any:
        slab = jnp.log(self.rho) + gaussian_log_evidence(self.mean, self.variance, a, u)
        return jnp.logaddexp(jnp.log1p(-self.rho) - u**2 / 2, slab)

    def evidence(self, a: Any, u: Any) -> Any:
        slab = jnp.exp(gaussian_log_evidence(self.mean, self.variance, a, u))
        return (1 - self.rho) * jnp.exp(-(u**2) / 2) + self.rho * slab

    def _odds_against(self, a: Any, b: Any) -> Any:
        """(1 - p)/p for the probability p that the entry is not zero: one exponential and, last, one root.

        Last, so that compilers keep one array for both: a root is not computed twice, a product might be.
        """
        spread = 1 + a * self.variance
        twice = (a * self.mean**2 - 2 * b * self.mean - b**2 * self.variance) / spread
        prior = jnp.log1p(-self.rho) - jnp.log(self.rho)
        return jnp.sqrt(spread * self._bounded_exp(twice + 2 * prior))

    @staticmethod
    def _bounded_exp(exponent: Any) -> Any:
        """exp, at most the root of the largest number, so that the odds stay finite."""
        return jnp.exp(jnp.minimum(exponent, float(np.log(np.finfo(jnp.result_type(exponent)).max)) / 2))

    def slab_probability(self, a: Any, b: Any) -> Any:
        return 1 / (1 + self._odds_against(a, b))

    def posterior(self, a: Any, b: Any) -> Moments:
        return self.posterior_and_odds(a, b)[0]

    def posterior_and_odds(self, a: Any, b: Any) -> tuple[Moments, Any]:
        # The odds and the mean end with a root and a division, which compilers do not do twice: the variance needs them and no b.
        against = self._odds_against(a, b)
        value, whole = self.mean + self.variance * b, (1 + a * self.variance) * (1 + against)
        mean = value / whole
        return Moments(mean, self.variance / whole + against * mean * mean), against

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        which, value = jax.random.split(key)
        slab = self.mean + jnp.sqrt(self.variance) * jax.random.normal(value, shape)
        return jnp.where(jax.random.bernoulli(which, self.rho, shape), slab, 0.0)

    def moments(self) -> Moments:
        return Moments(self.rho * self.mean, self.rho * (self.variance + (1 - self.rho) * self.mean**2))

    def support(self) -> Support:
        return Support(np.unique([0.0, self.mean]), abs(self.mean) + _GAUSSIAN_SPAN * np.sqrt(self.variance))

    def dimension(self) -> Any:
        return self.rho


@dataclass(frozen=True)
class Rademacher(Prior):
    """+scale or -scale with equal probability.

    Examples:
        >>> import spinodal as sp
        >>> print(f"{float(sp.Rademacher().posterior(1.0, 2.0).mean):.4f}")  # tanh(b)
        0.9640
    """

    scale: Any = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def log_partition(self, a: Any, b: Any) -> Any:
        field = jnp.abs(self.scale * b)
        return field + jnp.log1p(jnp.exp(-2 * field)) - jnp.log(2.0) - a * self.scale**2 / 2

    def log_evidence(self, a: Any, u: Any) -> Any:
        field = self.scale * jnp.sqrt(a) * jnp.abs(u)
        return -((jnp.abs(u) - self.scale * jnp.sqrt(a)) ** 2) / 2 + jnp.log1p(jnp.exp(-2 * field)) - jnp.log(2.0)

    def posterior(self, a: Any, b: Any) -> Moments:
        b = jnp.broadcast_to(b, jnp.broadcast_shapes(jnp.shape(a), jnp.shape(b)))
        minus = jax.nn.sigmoid(-2 * self.scale * b)
        return Moments(self.scale * (1 - 2 * minus), 4 * self.scale**2 * minus * (1 - minus))

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.scale * jax.random.rademacher(key, shape, dtype=jnp.result_type(float))

    def moments(self) -> Moments:
        return Moments(0.0 * self.scale, self.scale**2)

    def support(self) -> Support:
        return Support(np.array([-self.scale, self.scale]), self.scale)

    def dimension(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Mixture(Prior):
    """Finite mixture of normal distributions; a component of zero variance is a point.

    Examples:
        >>> import spinodal as sp

        Zero or one, the latter with probability .2:

        >>> prior = sp.Mixture(weights=[0.8, 0.2], means=[0.0, 1.0], variances=[0.0, 0.0])
        >>> print(f"{float(prior.density()):.1f} {prior.dimension()}")
        0.2 0.0
    """

    weights: Any
    means: Any
    variances: Any

    def __post_init__(self) -> None:
        fields = {"weights": self.weights, "means": self.means, "variances": self.variances}
        for name, value in fields.items():
            object.__setattr__(self, name, np.asarray(value, dtype=float))
        check("weights", self.weights, 0.0, 1.0, low_open=True)
        check_finite("means", self.means)
        check_nonnegative("variances", self.variances)
        shapes = {np.shape(getattr(self, name)) for name in fields}
        if len(shapes) != 1 or np.ndim(self.weights) == 0 or np.size(self.weights) == 0:
            raise InputError(f"weights, means and variances must be lists of one length, but their shapes are {sorted(shapes)}.")
        if not np.allclose(np.sum(self.weights, axis=-1), 1.0, atol=1e-9):
            raise InputError(f"weights must sum to 1, but {np.sum(self.weights)} was given.")
        object.__setattr__(self, "spiked", bool(np.any(self._zero())))  # known before JAX traces the parameters

    def _zero(self) -> Any:
        """Which components are the point zero."""
        return (self.means == 0) & (self.variances == 0)

    def density(self) -> Any:
        return 1 - jnp.sum(jnp.where(self._zero(), self.weights, 0.0)) if self.spiked else None  # type: ignore[attr-defined]

    def _components(self, log_term: Any, a: Any, x: Any) -> Any:
        """log weight plus the component's log partition or evidence, along a new last axis."""
        a, x = jnp.asarray(a)[..., None], jnp.asarray(x)[..., None]
        return jnp.log(self.weights) + log_term(self.means, self.variances, a, x)

    def log_partition(self, a: Any, b: Any) -> Any:
        return jax.nn.logsumexp(self._components(gaussian_log_partition, a, b), axis=-1)

    def log_evidence(self, a: Any, u: Any) -> Any:
        return jax.nn.logsumexp(self._components(gaussian_log_evidence, a, u), axis=-1)

    def posterior(self, a: Any, b: Any) -> Moments:
        belief = jax.nn.softmax(self._components(gaussian_log_partition, a, b), axis=-1)
        shrink = 1 / (1 + jnp.asarray(a)[..., None] * self.variances)
        value = (self.means + self.variances * jnp.asarray(b)[..., None]) * shrink
        mean = jnp.sum(belief * value, axis=-1)
        spread = self.variances * shrink + (value - mean[..., None]) ** 2
        return Moments(mean, jnp.sum(belief * spread, axis=-1))

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        which, value = jax.random.split(key)
        component = jax.random.categorical(which, jnp.log(jnp.asarray(self.weights)), shape=shape)
        means, variances = jnp.asarray(self.means), jnp.asarray(self.variances)
        return means[component] + jnp.sqrt(variances[component]) * jax.random.normal(value, shape)

    def moments(self) -> Moments:
        mean = jnp.sum(self.weights * self.means)
        return Moments(mean, jnp.sum(self.weights * (self.variances + (self.means - mean) ** 2)))

    def support(self) -> Support:
        return Support(np.unique(self.means), np.max(np.abs(self.means) + _GAUSSIAN_SPAN * np.sqrt(self.variances)))

    def dimension(self) -> float:
        return float(np.sum(np.where(self.variances > 0, self.weights, 0.0)))
