"""Gaussian noise, y = z + noise: every average has a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import InputError, check_nonnegative
from .averages import ChannelAverages
from .base import Channel, Output

# Variances for which the averages are computed: beyond, products of them leave the range of floating-point numbers.
_LEAST, _MOST = 1e-50, 1e50


@dataclass(frozen=True)
class GaussianNoise(Channel):
    """y = z + noise of the given variance.

    Examples:
        >>> import spinodal as sp
        >>> sp.Problem(alpha=0.5, pi=4.0, channel=sp.GaussianNoise(1e-4)).channel
        GaussianNoise(variance=0.0001)
    """

    variance: Any = 0.0

    learns = ("variance",)

    def __post_init__(self) -> None:
        check_nonnegative("noise_variance", self.variance)

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        level = self.variance + V
        return -((y - w) ** 2) / (2 * level) - jnp.log(2 * jnp.pi * level) / 2

    def output(self, y: Any, w: Any, V: Any) -> Output:
        precision = 1 / (self.variance + V)
        return Output((y - w) * precision, precision)

    def sample(self, key: Any, z: Any) -> Any:
        return z + jnp.sqrt(jnp.asarray(self.variance, float)) * jax.random.normal(key, jnp.shape(z))

    def at_least(self, variance: Any) -> GaussianNoise:
        return self.replace(variance=jnp.maximum(self.variance, variance))

    def input_power(self, measured: Any, expected: Any) -> Any:
        return measured

    def noise_scale(self, power: Any, V: Any = 0.0) -> Any:
        return self.variance

    @property
    def noiseless(self) -> Any:
        return self.variance == 0

    def table(self, power: float) -> None:
        if self.variance != 0 and not _LEAST <= self.variance <= _MOST:
            raise InputError(f"noise_variance must be 0 or in [{_LEAST:g}, {_MOST:g}], but {self.variance:g} was given.")

    def averages_at(self, V: Any, power: Any, table: Any) -> ChannelAverages:
        return ChannelAverages(self.variance, -(1 + jnp.log(self.variance + V)) / 2)

    def noise_at_ratio(self, ratio: Any, power: Any, table: Any) -> Any:
        return self.variance
