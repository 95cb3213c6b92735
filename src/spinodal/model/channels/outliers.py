"""Gaussian noise of which a share is far larger: outliers, spikes, wrong readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check, check_nonnegative, check_positive
from .base import Channel, Output
from .guesses import NOISE_SHARE, far_out, typical_power

# A first guess of the share of outliers stays between these, and one of their variance above so many times the typical power.
_LEAST_SHARE, _MOST_SHARE, _LEAST_SIZE = 0.005, 0.2, 10.0


@dataclass(frozen=True)
class Outliers(Channel):
    """y = z + noise of the given variance in most entries, and of a larger `outlier_variance` in a share of them, nobody knows which.

    Examples:
        >>> import spinodal as sp
        >>> usual, odd = (sp.Outliers(variance=0.01, share=0.05, outlier_variance=100.0).output(y, 0.0, 0.01).g for y in (0.1, 10.0))
        >>> print(f"{float(usual):.2f} {float(odd):.2f}")  # an outlier says little
        5.00 0.10
    """

    variance: Any = 0.0
    share: Any = 0.01
    outlier_variance: Any = 1.0

    learns = ("variance", "share", "outlier_variance")

    additive = True

    def __post_init__(self) -> None:
        check_nonnegative("variance", self.variance)
        check("share", self.share, 0.0, 1.0, low_open=True, high_open=True)
        check_positive("outlier_variance", self.outlier_variance)
        if jnp.ndim(self.variance) == 0 and float(self.outlier_variance) <= float(self.variance):
            raise InputError(
                f"outlier_variance must be above variance = {self.variance:g}, that of the other entries, "
                f"but {self.outlier_variance:g} was given."
            )

    def first_power(self, seen: np.ndarray) -> float:
        return typical_power(seen)

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        power, far = typical_power(seen), far_out(seen)
        share = float(np.clip(far.size / seen.size, _LEAST_SHARE, _MOST_SHARE))
        size = max(float(np.mean(far**2)) if far.size else 0.0, _LEAST_SIZE * power)
        return {"variance": NOISE_SHARE * power, "share": share, "outlier_variance": size}

    def _both(self, y: Any, w: Any, V: Any) -> tuple[Any, Any, Any, Any]:
        """The variances of y - w in usual entries and in outliers, and the logarithms of the densities of either."""
        usual, odd = self.variance + V, self.outlier_variance + V
        square = (y - w) ** 2
        one, other = (-square / (2 * level) - jnp.log(2 * jnp.pi * level) / 2 for level in (usual, odd))
        return usual, odd, jnp.log1p(-self.share) + one, jnp.log(self.share) + other

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return jnp.logaddexp(*self._both(y, w, V)[2:])

    def output(self, y: Any, w: Any, V: Any) -> Output:
        usual, odd, one, other = self._both(y, w, V)
        suspected = jax.nn.sigmoid(other - one)
        mean = (1 - suspected) / usual + suspected / odd
        spread = suspected * (1 - suspected) * (1 / usual - 1 / odd) ** 2
        return Output((y - w) * mean, mean - (y - w) ** 2 * spread)

    def sample(self, key: Any, z: Any) -> Any:
        for_kind, for_noise = jax.random.split(key)
        odd = jax.random.bernoulli(for_kind, self.share, jnp.shape(z))
        return z + jnp.sqrt(jnp.where(odd, self.outlier_variance, self.variance)) * jax.random.normal(for_noise, jnp.shape(z))

    def at_least(self, variance: Any) -> Outliers:
        return self.replace(variance=jnp.maximum(self.variance, variance))
