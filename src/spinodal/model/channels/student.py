"""Student's noise: heavy tails without a scale of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ...errors import check, check_positive
from .base import Channel, Output
from .guesses import NOISE_SHARE, typical_power

# The noise is Gaussian of a random precision u, Gamma of shape nu/2 and mean 1; its average over log u is taken at so many even steps,
# between where the density of log u is below rounding on either side.
_NODES = 64
_LOG_SMALL = 36.0
# Degrees of freedom: below, the tails have no end that the quadrature could resolve; above, the noise is Gaussian to all digits.
_LEAST, _MOST = 1.0, 1e6


@dataclass(frozen=True)
class StudentNoise(Channel):
    """y = z + scale times a Student variable of `nu` degrees of freedom. Large `nu`: Gaussian noise of variance scale^2.

    Examples:
        >>> import spinodal as sp
        >>> near, far = (sp.StudentNoise(scale=0.1, nu=3.0).output(y, 0.0, 0.01).g for y in (0.1, 10.0))
        >>> bool(near > far > 0)  # far entries are not taken at their word
        True
    """

    scale: Any = 1.0
    nu: Any = 4.0

    learns = ("scale", "nu")

    additive = True

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check("nu", self.nu, _LEAST, _MOST)

    def first_power(self, seen: np.ndarray) -> float:
        return typical_power(seen)

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        return {"scale": (NOISE_SHARE * typical_power(seen)) ** 0.5, "nu": StudentNoise.nu}

    def _parts(self, y: Any, w: Any, V: Any) -> tuple[Any, Any]:
        """Variances of y - w at each node, and the logarithms of weight times density, along a new last axis."""
        shape = self.nu / 2
        # log of the density of t = log u: shape (t - e^t) + constants. Near the top it falls as shape t^2/2, far to the left as shape t.
        left = _LOG_SMALL / shape + jnp.sqrt(2 * _LOG_SMALL / shape)
        right = jnp.minimum(jnp.sqrt(2 * _LOG_SMALL / shape), jnp.log1p(_LOG_SMALL / shape) + 1)
        step = (left + right) / (_NODES - 1)
        t = -left + step * jnp.arange(_NODES)
        log_weight = shape * (t - jnp.exp(t)) + shape * jnp.log(shape) - gammaln(shape) + jnp.log(step)
        level = self.scale**2 * jnp.exp(-t) + jnp.asarray(V)[..., None]
        return level, log_weight - (jnp.asarray(y - w)[..., None]) ** 2 / (2 * level) - jnp.log(2 * jnp.pi * level) / 2

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return jax.nn.logsumexp(self._parts(y, w, V)[1], axis=-1)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        level, log_parts = self._parts(y, w, V)
        share = jax.nn.softmax(log_parts, axis=-1)
        mean, square = (jnp.sum(share * level**-power, axis=-1) for power in (1.0, 2.0))
        off = y - w
        return Output(off * mean, mean - off**2 * (square - mean**2))

    def sample(self, key: Any, z: Any) -> Any:
        return z + self.scale * jax.random.t(key, self.nu, jnp.shape(z))

    def at_least(self, variance: Any) -> StudentNoise:
        return self.replace(scale=jnp.maximum(self.scale, jnp.sqrt(variance)))
