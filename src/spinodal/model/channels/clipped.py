"""A detector that saturates: what is beyond its range reads as the end of the range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from ...errors import InputError, check_nonnegative, shown
from .base import Output
from .cells import BehindNoise, log_between, tail_output
from .guesses import NOISE_SHARE, typical_power
from .outcomes import Outcomes, normal_width

# An end of the range is one where so many entries are equal to it.
_AT_AN_END = 3


@dataclass(frozen=True)
class Clipped(BehindNoise):
    """y = z + noise of the given variance, cut at `low` and `high`. Either may be infinite, and M x 1: one for each row of Y.

    Examples:
        >>> import spinodal as sp
        >>> detector = sp.Clipped(low=-1.0, high=1.0, variance=0.01)
        >>> float(detector.output(1.0, 3.0, 0.01).g) < 1e-6  # at the end of the range, and expected far beyond: nothing new
        True
    """

    low: Any = -1.0
    high: Any = 1.0
    variance: Any = 0.0

    learns = ("variance",)

    def __post_init__(self) -> None:
        check_nonnegative("variance", self.variance)
        if not np.all(np.asarray(self.low) < np.asarray(self.high)):
            raise InputError(f"low must be below high, but {shown(self.low)} and {shown(self.high)} were given.")

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        def end(value: float, beyond: float) -> float:
            return float(value) if np.sum(seen == value) >= _AT_AN_END else beyond

        low, high = end(np.min(seen), -np.inf), end(np.max(seen), np.inf)
        return {"low": low, "high": high, "variance": NOISE_SHARE * typical_power(seen)}

    def first_power(self, seen: np.ndarray) -> float:
        return typical_power(seen)

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        level = self.variance + V
        inside = -((y - w) ** 2) / (2 * level) - jnp.log(2 * jnp.pi * level) / 2
        low, high = self._cell(y)
        return jnp.where(self._cut(y), log_between((low - w) / jnp.sqrt(level), (high - w) / jnp.sqrt(level)), inside)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        level = self.variance + V
        cut, above = self._cut(y), y >= self.high
        beyond = tail_output(jnp.where(above, 1.0, -1.0), jnp.where(above, self.high, self.low), w, level)
        return Output(jnp.where(cut, beyond.g, (y - w) / level), jnp.where(cut, beyond.precision, 1 / level))

    def over_outcomes(self, w: Any, V: Any) -> tuple[Any, Any]:
        level = self.variance + V
        a, b = ((end - w) / jnp.sqrt(level) for end in (self.low, self.high))
        density_a, density_b = (jnp.exp(-(t**2) / 2) / jnp.sqrt(2 * jnp.pi) for t in (a, b))
        turned_a, turned_b = (jnp.where(jnp.isfinite(t), t, 0.0) * density for t, density in ((a, density_a), (b, density_b)))
        # Inside, y - w is normal, cut at both ends: its probability and its mean square over the level.
        inside = jnp.exp(log_between(a, b))
        square = inside + turned_a - turned_b
        log_z = -square / 2 - inside * jnp.log(2 * jnp.pi * level) / 2
        for t, density in ((a, density_a), (-b, density_b)):
            log_end = log_ndtr(t)
            end = jnp.exp(log_end)
            square += jnp.where(end > 0, density**2 / jnp.where(end > 0, end, 1.0), 0.0)
            log_z += jnp.where(end > 0, end * jnp.where(end > 0, log_end, 0.0), 0.0)
        return square / level, log_z

    def _cut(self, y: Any) -> Any:
        return (y <= self.low) | (y >= self.high)

    def _cell(self, y: Any) -> tuple[Any, Any]:
        """Where z plus noise lies if y is at an end of the range."""
        above = y >= self.high
        return jnp.where(above, self.high, -jnp.inf), jnp.where(above, jnp.inf, self.low)

    def sample(self, key: Any, z: Any) -> Any:
        return jnp.clip(self._noisy(key, z), self.low, self.high)

    def predicted(self, z: Any) -> Any:
        return jnp.clip(z, self.low, self.high)

    def outcomes(self, power: float) -> Outcomes:
        ends = np.array([float(end) for end in (self.low, self.high) if np.isfinite(end)])
        far = 1e3 * np.sqrt(power + float(self.variance))
        stretch = max(float(self.low), -far), min(float(self.high), far)
        return Outcomes(ends, stretch, ends, np.full(ends.size, normal_width(self.variance)))

    def fault_of(self, y: np.ndarray) -> str | None:
        if np.any((y < self.low) | (y > self.high)):
            return f"must lie between low = {shown(self.low)} and high = {shown(self.high)} of the channel"
        return None
