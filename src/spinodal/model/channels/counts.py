"""Counts: photons, events, reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ...errors import InputError, check_nonnegative, check_positive
from .base import Channel, Output
from .outcomes import Outcomes

# The posterior of z has one top, which Newton's rule finds in so many steps at most; around it z is averaged over at even steps. Where
# exactly these begin does not matter, so the top is found once it moves by less than this share of the posterior's width.
_STEPS, _NEAR, _NODES, _SPAN = 20, 0.01, 41, 9.0
# The theory sums over the counts to expect for z up to so many standard deviations, with a tail of so many of their own; at most so many.
_REACH, _TAIL, _MOST_COUNTS = 7.0, 8.0, 5_000
# A first guess of the rate is at least this share of the mean count, and one of the power of z this share of the logarithms' variance.
_LEAST_RATE, _LEAST_SPREAD = 0.1, 0.1


@dataclass(frozen=True)
class Poisson(Channel):
    """y is a count of mean background + rate exp(z): z is how far the logarithm of the rate is above its usual value.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> g = sp.Poisson(rate=3.0).output(np.array([0.0, 3.0, 20.0]), 0.0, 0.01).g
        >>> [bool(value) for value in (g[0] < 0, abs(g[1]) < 0.1, g[2] > 0)]
        [True, True, True]
    """

    rate: Any = 1.0
    background: Any = 0.0

    learns = ("rate",)

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        check_nonnegative("background", self.background)

    def _slopes(self, y: Any, signal: Any) -> tuple[Any, Any]:
        """The slope of log p(y | z) in z, and how fast it falls, where rate exp(z) is `signal`."""
        mean = self.background + signal
        return signal * (y / mean - 1), signal * (1 - y * self.background / mean**2)

    def _top(self, y: Any, w: Any, V: Any) -> Any:
        """The most likely z, nearly."""

        def going(carry: tuple[Any, Any, Any]) -> Any:
            steps, _, moved = carry
            return (steps < _STEPS) & jnp.any(moved > _NEAR)

        def newton(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            steps, z, _ = carry
            slope, bend = self._slopes(y, self.rate * jnp.exp(z))
            precision = jnp.maximum(bend, 0.0) + 1 / V
            step = jnp.clip((slope - (z - w) / V) / precision, -1.0, 1.0)
            return steps + 1, z + step, jnp.abs(step) * jnp.sqrt(precision)

        # From above the exponential pulls back slowly, so start at the logarithm of the count where that is below the mean.
        start = jnp.minimum(w, jnp.log(jnp.maximum(y, 0.5) / self.rate))
        start = jnp.where(w > start, jnp.maximum(start, w - V * self.rate * jnp.exp(jnp.minimum(w, 50.0))), w)
        return jax.lax.while_loop(going, newton, (0, start, jnp.full_like(start, jnp.inf)))[1]

    def _nodes(self, y: Any, w: Any, V: Any) -> tuple[Any, Any, Any]:
        """Values of rate exp(z) around the top of the posterior of z, log p(y | z) N(z; w, V) there along a new last axis, and what was
        taken off it."""
        y, w, V = jnp.broadcast_arrays(*(jnp.asarray(value, jnp.result_type(y, w, V, float)) for value in (y, w, V)))
        known, *given = jax.lax.stop_gradient((self, y, w, V))
        top = known._top(*given)
        signal = self.rate * jnp.exp(top)
        width = jax.lax.rsqrt(jnp.maximum(self._slopes(y, signal)[1], 0.0) + 1 / V)
        # All relative to the top: counts can be large, and their logarithms times them far larger than what matters.
        mean = self.background + signal
        off = width[..., None] * jnp.linspace(-_SPAN, _SPAN, _NODES)
        change = signal[..., None] * jnp.expm1(off)
        gained = y[..., None] * jnp.log1p(change / mean[..., None]) - change
        log_parts = gained - (2 * (top - w)[..., None] + off) * off / (2 * V[..., None])
        at_top = y * jnp.log(mean) - mean - (top - w) ** 2 / (2 * V) - jnp.log(2 * jnp.pi * V) / 2
        return signal[..., None] + change, log_parts, at_top + jnp.log(width * 2 * _SPAN / (_NODES - 1))

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        _, log_parts, taken_off = self._nodes(y, w, V)
        return jax.nn.logsumexp(log_parts, axis=-1) + taken_off - gammaln(jnp.asarray(y) + 1.0)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        # Under the posterior of z: g is the mean slope of log p(y | z), and the precision its mean bend less the variance of the slope.
        signal, log_parts, _ = self._nodes(y, w, V)
        share = jax.nn.softmax(log_parts, axis=-1)
        slope, bend = self._slopes(jnp.asarray(y)[..., None], signal)
        g = jnp.sum(share * slope, axis=-1)
        return Output(g, jnp.sum(share * (bend - (slope - g[..., None]) ** 2), axis=-1))

    def sample(self, key: Any, z: Any) -> Any:
        mean = self.background + self.rate * jnp.exp(z)
        return jax.random.poisson(key, mean, jnp.shape(z)).astype(jnp.result_type(float))

    def predicted(self, z: Any) -> Any:
        return self.background + self.rate * jnp.exp(z)

    def outcomes(self, power: float) -> Outcomes:
        largest = float(self.background) + float(self.rate) * np.exp(_REACH * np.sqrt(power))
        most = np.ceil(largest + _TAIL * np.sqrt(largest) + 10)
        if not most <= _MOST_COUNTS:
            raise InputError(
                f"rate and background must leave counts of at most {_MOST_COUNTS} for the theory, but up to {most:.3g} are to be expected "
                f"with {self.rate:g} and {self.background:g}; so many are Gaussian noise on the logarithm, of variance 1/rate."
            )
        return Outcomes(np.arange(most), None, np.zeros(0))

    def first_power(self, seen: np.ndarray) -> float:
        # The variance of the logarithms, less that of counting.
        counts = np.maximum(seen, 0)
        spread = np.var(np.log(counts + 0.5))
        return float(max(spread - 1 / max(np.mean(counts), 1.0), _LEAST_SPREAD * spread, np.finfo(float).tiny))

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        # About the geometric mean, since z is zero on average. What is not a count is refused elsewhere.
        counts = np.maximum(seen, 0)
        usual, mean = np.exp(np.mean(np.log(counts + 0.5))) - 0.5, np.mean(counts)
        return {"rate": float(max(usual, _LEAST_RATE * mean, np.finfo(float).tiny))}

    def fault_of(self, y: np.ndarray) -> str | None:
        return None if np.all((y >= 0) & (y == np.round(y))) else "must hold counts (0, 1, 2, ...) for this channel"
