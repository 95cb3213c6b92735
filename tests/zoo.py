"""The priors that the contract is tested on: every built-in one with several parameters, and two that a user might write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import spinodal as sp


@dataclass(frozen=True)
class ThreePoint(sp.Prior):
    """-1, 0 or 1; zero with probability 1 - rho. Written as a user would: log_partition and sample, nothing else."""

    rho: Any

    def log_partition(self, a: Any, b: Any) -> Any:
        side = jnp.log(self.rho / 2) - a / 2
        return jnp.logaddexp(jnp.log1p(-self.rho), jnp.logaddexp(side + b, side - b))

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        weights = jnp.array([self.rho / 2, 1 - self.rho, self.rho / 2])
        return jax.random.choice(key, jnp.array([-1.0, 0.0, 1.0]), shape, p=weights)


class PlainGaussian(sp.Prior):
    """A normal distribution from log_partition and sample alone, to be compared with the built-in one. Not a dataclass."""

    def __init__(self, mean: float, variance: float):
        self.mean, self.variance = mean, variance

    def log_partition(self, a: Any, b: Any) -> Any:
        spread = 1 + a * self.variance
        return (b * self.mean - a * self.mean**2 / 2 + b**2 * self.variance / 2) / spread - jnp.log(spread) / 2

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.mean + jnp.sqrt(self.variance) * jax.random.normal(key, shape)


BUILT_IN: dict[str, sp.Prior] = {
    "gaussian": sp.Gaussian(),
    "gaussian, shifted": sp.Gaussian(-0.7, 2.5),
    "gauss-bernoulli": sp.GaussBernoulli(0.2),
    "gauss-bernoulli, rare": sp.GaussBernoulli(0.003, 0.0, 4.0),
    "gauss-bernoulli, shifted": sp.GaussBernoulli(0.6, 1.5, 0.3),
    "rademacher": sp.Rademacher(),
    "rademacher, scaled": sp.Rademacher(2.5),
    "mixture": sp.Mixture([0.5, 0.3, 0.2], [0.0, 1.0, -2.0], [0.0, 0.5, 0.1]),
    "mixture of points": sp.Mixture([0.25, 0.75], [3.0, -1.0], [0.0, 0.0]),
    "laplace": sp.Laplace(),
    "laplace, narrow": sp.Laplace(0.1),
    "nonnegative": sp.NonnegativeGaussBernoulli(0.3),
    "nonnegative, wide": sp.NonnegativeGaussBernoulli(0.9, 3.0),
}
USER_WRITTEN: dict[str, sp.Prior] = {"user's three points": ThreePoint(0.4), "user's gaussian": PlainGaussian(0.5, 1.7)}
PRIORS = BUILT_IN | USER_WRITTEN

# Information dimensions known without computing anything: the weight of the continuous part.
DIMENSIONS = {
    "gaussian": 1.0,
    "gaussian, shifted": 1.0,
    "gauss-bernoulli": 0.2,
    "gauss-bernoulli, rare": 0.003,
    "gauss-bernoulli, shifted": 0.6,
    "rademacher": 0.0,
    "rademacher, scaled": 0.0,
    "mixture": 0.5,
    "mixture of points": 0.0,
    "laplace": 1.0,
    "laplace, narrow": 1.0,
    "nonnegative": 0.3,
    "nonnegative, wide": 0.9,
    "user's three points": 0.0,
    "user's gaussian": 1.0,
}
