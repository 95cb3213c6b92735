"""How much the gains of sensors differ: laws of a positive number around 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check_positive, shown
from ..parametric import Parametric

# A log-normal law is cut at so many standard deviations.
_REACH = 7.0
# Likely gains are found on a grid of so many.
_FINE = 4001


class GainLaw(Parametric):
    """Base of the laws. `ends` are those of the logarithm of the gain; `log_density` is that of the logarithm, up to a constant within."""

    def ends(self) -> tuple[Any, Any]:
        """The least and the largest logarithm of a gain.

        Examples:
            >>> import spinodal as sp
            >>> low, high = sp.UniformGains(0.5, 2.0).ends()
            >>> print(f"{float(high):.3f}")
            0.693
        """
        raise TypeError(f"{type(self).__name__} must define ends().")

    def log_density(self, t: Any) -> Any:
        """Of t = log gain, within the ends.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.LogNormalGains(1.0).log_density(0.0)):.4f}")  # a standard normal density
            -0.9189
        """
        raise TypeError(f"{type(self).__name__} must define log_density(t).")

    def slopes(self, t: Any) -> tuple[Any, Any]:
        """The slope of the logarithm of that density, and how much it bends.

        Examples:
            >>> import spinodal as sp
            >>> slope, bend = sp.LogNormalGains(0.5).slopes(0.5)
            >>> print(float(slope), float(bend))
            -2.0 4.0
        """
        raise TypeError(f"{type(self).__name__} must define slopes(t).")

    def likely(self, number: int) -> np.ndarray:
        """So many gains in rising order that stand for all: the middles of as many parts of equal probability.

        Examples:
            >>> import spinodal as sp
            >>> sp.UniformGains(0.5, 1.5).likely(2).round(3)
            array([0.75, 1.25])
        """
        low, high = (float(end) for end in self.ends())
        t = np.linspace(low, high, _FINE)
        below = np.cumsum(np.exp(np.asarray(self.log_density(t), dtype=float)))
        return np.exp(np.interp((np.arange(number) + 0.5) / number, below / below[-1], t))

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent gains.

        Examples:
            >>> import jax
            >>> import spinodal as sp
            >>> sp.UniformGains(0.6, 1.4).sample(jax.random.key(0), (3,)).shape
            (3,)
        """
        raise TypeError(f"{type(self).__name__} must define sample(key, shape).")


@dataclass(frozen=True)
class LogNormalGains(GainLaw):
    """The logarithm of a gain is normal, with the given standard deviation: .1 for gains that differ by about 10% from the median.

    Examples:
        >>> import spinodal as sp
        >>> sp.SensorGains(gains=sp.LogNormalGains(0.1)).gains.spread
        0.1
    """

    spread: Any = 0.3
    median: Any = 1.0

    def __post_init__(self) -> None:
        check_positive("spread", self.spread)
        check_positive("median", self.median)

    def ends(self) -> tuple[Any, Any]:
        return jnp.log(self.median) - _REACH * self.spread, jnp.log(self.median) + _REACH * self.spread

    def log_density(self, t: Any) -> Any:
        return -(((t - jnp.log(self.median)) / self.spread) ** 2) / 2 - jnp.log(2 * jnp.pi * self.spread**2) / 2

    def slopes(self, t: Any) -> tuple[Any, Any]:
        return -(t - jnp.log(self.median)) / self.spread**2, 1 / self.spread**2

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.median * jnp.exp(self.spread * jax.random.normal(key, shape))


@dataclass(frozen=True)
class UniformGains(GainLaw):
    """Gains anywhere between `low` and `high`, as a datasheet's tolerance has it.

    Examples:
        >>> import spinodal as sp
        >>> sp.SensorGains(gains=sp.UniformGains(0.6, 1.4)).gains.high
        1.4
    """

    low: Any = 0.5
    high: Any = 1.5

    def __post_init__(self) -> None:
        check_positive("low", self.low)
        if np.ndim(self.low) == 0 and not float(self.low) < float(self.high) < np.inf:
            raise InputError(f"high must be a finite number above low = {self.low:g}, but {shown(self.high)} was given.")

    def ends(self) -> tuple[Any, Any]:
        return jnp.log(self.low), jnp.log(self.high)

    def log_density(self, t: Any) -> Any:
        return t - jnp.log(self.high - self.low)

    def slopes(self, t: Any) -> tuple[Any, Any]:
        return 1.0, 1 / (jnp.log(self.high / self.low)) ** 2

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.low + (self.high - self.low) * jax.random.uniform(key, shape)
