"""Sensors whose gain, offset or health nobody knows: a channel with something unknown in every row.

Row m of Y is one sensor, and all its signals share a gain d, an offset o and whether it works:

    y = d z + o + noise,    or y = noise of its own, whatever z is, for a faulty one.

So the row is one joint measurement, and `output` needs whole rows. Given d and the state of the sensor everything is Gaussian and the
offset is integrated in closed form; the posterior of log d has one peak, and is integrated by quadrature around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check, check_nonnegative, check_positive
from ..priors import Moments
from .base import Channel, Output
from .gains import GainLaw, LogNormalGains
from .gaussian import GaussianNoise
from .outcomes import Outcomes

# Steps to the peak of the posterior of log d.
_STEPS = 4
# Standard deviations to either side of it that are integrated, nodes there and their weights: where few signals share a gain, and where so
# many do that the posterior is normal.
_FEW, _MANY = (7.5, *np.polynomial.legendre.leggauss(32)), (5.5, *np.polynomial.legendre.leggauss(16))
_MANY_SIGNALS = 32
# While an extra variance above this share of the level softens what is said of z, the number of faulty sensors is at most so many standard
# deviations above the one to expect. That takes so many halvings of the odds; this many units of them make any row sound.
_COLD, _SIGMAS, _HALVINGS, _FAR_OFF = 0.01, 2.0, 40, 50.0
# Quadrature over the law of the gains, for the theory.
_LAW_NODES, _LAW_WEIGHTS = np.polynomial.legendre.leggauss(64)
# Sensors that stand for all where rows are followed one by one.
_TYPICAL = 64
# A first guess of the noise, as a share of the power: little, since sensors are calibrated with a matrix that is roughly known.
_FIRST_NOISE = 0.01


class Readings(NamedTuple):
    """What Y says of every sensor: its gain and its offset, given that it works, and the probability that it is faulty."""

    gain: Moments
    offset: Moments
    faulty: Any


class _Row(NamedTuple):
    """Of every row at one gain: the logarithm of its density, and the posterior of its offset."""

    log_density: Any
    offset: Any
    offset_variance: Any


@dataclass(frozen=True)
class Sensors(Channel):
    """y = gain z + offset + noise, with a gain and an offset for each row of Y, and rows that say nothing: any of these, or all.

    Args:
        variance: of the noise.
        gains: how the gains are distributed, a LogNormalGains or UniformGains; None where all are 1.
        offset_variance: of the offsets; None where there are none.
        faulty: the share of sensors that are faulty; None where all work.
        fault_variance: of what a faulty sensor reports, around zero.
        noise_first: True for y = gain (z + noise) + offset.

    Examples:
        >>> import spinodal as sp
        >>> sp.Sensors(variance=0.01, gains=sp.LogNormalGains(0.2), offset_variance=0.1).offset_variance
        0.1
    """

    variance: Any = 0.0
    gains: GainLaw | None = None
    offset_variance: Any = None
    faulty: Any = None
    fault_variance: Any = 1.0
    noise_first: bool = False

    by_rows = True
    additive = True  # given the gain

    def __post_init__(self) -> None:
        check_nonnegative("variance", self.variance)
        if self.gains is not None and not isinstance(self.gains, GainLaw):
            raise InputError(f"gains must be a LogNormalGains or a UniformGains, but {self.gains!r} was given.")
        if self.offset_variance is not None:
            check_positive("offset_variance", self.offset_variance)
        if self.faulty is not None:
            check("faulty", self.faulty, 0.0, 1.0, low_open=True, high_open=True)
            check_positive("fault_variance", self.fault_variance)

    @property
    def learns(self) -> tuple[str, ...]:  # type: ignore[override]
        gains = ("gain_spread", "gain_median") if isinstance(self.gains, LogNormalGains) else ()
        offsets = () if self.offset_variance is None else ("offset_variance",)
        return ("variance", *gains, *offsets, *(() if self.faulty is None else ("faulty", "fault_variance")))

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        return {"variance": _FIRST_NOISE * float(np.mean(np.square(seen)))}

    def learnable(self) -> dict[str, Any]:
        return {name: getattr(*self._place(name)) for name in self.learns}

    def relearned(self, values: dict[str, Any]) -> Sensors:
        of_law = {self._place(name)[1]: value for name, value in values.items() if name.startswith("gain_")}
        own = {name: value for name, value in values.items() if not name.startswith("gain_")}
        return self.replace(**own, **({"gains": self.gains.replace(**of_law)} if self.gains is not None and of_law else {}))

    def _place(self, name: str) -> tuple[Any, str]:
        """The object that has a parameter, and its name there."""
        return (self.gains, name.removeprefix("gain_")) if name.startswith("gain_") else (self, name)

    # ---- one row at a given gain

    def _noise(self, d: Any) -> Any:
        return self.variance * d**2 if self.noise_first else self.variance

    def _at_gain(self, d: Any, y: Any, w: Any, V: Any, mask: Any) -> _Row:
        """The density of every row if its gain is d (a column)."""
        s = d**2 * V + self._noise(d)
        r = y - d * w
        weight = 1 / s if mask is None else mask / s
        logs = jnp.log(2 * jnp.pi * s) if mask is None else mask * jnp.log(2 * jnp.pi * s)
        exponent = _sum(jnp.broadcast_to(logs, r.shape) + weight * r**2)
        if self.offset_variance is None:
            zero = jnp.zeros_like(exponent)
            return _Row(-exponent / 2, zero, zero)
        certain = 1 + self.offset_variance * _sum(jnp.broadcast_to(weight, r.shape))
        spread = self.offset_variance / certain
        offset = spread * _sum(weight * r)
        return _Row((offset**2 / spread - exponent - jnp.log(certain)) / 2, offset, spread)

    def _peak(self, law: GainLaw, y: Any, w: Any, V: Any, mask: Any) -> tuple[Any, Any]:
        """The most likely log gain of every row, about, and the standard deviation around it: Fisher scoring."""
        low, high = law.ends()
        seen = jnp.ones_like(y) if mask is None else mask
        t = self._by_power(law, y, seen, _sum(seen * (w**2 + V)) / jnp.maximum(_sum(seen), 1))

        def look(t: Any) -> tuple[Any, Any]:
            """Slope of the logarithm of the posterior, averaged over the offset, and the information."""
            d = jnp.exp(t)
            s = d**2 * V + self._noise(d)
            share = 1.0 if self.noise_first else d**2 * V / s  # half of the slope of log s
            row = self._at_gain(d, y, w, V, mask)
            off = y - d * w - row.offset
            slope = off * d * w / s + share * ((off**2 + row.offset_variance) / s - 1)
            information = (d * w) ** 2 / s + 2 * share**2
            prior, bend = law.slopes(t)
            return _sum(seen * slope) + prior, _sum(seen * information) + bend

        def step(_: int, t: Any) -> Any:
            slope, information = look(t)
            return jnp.clip(t + jnp.clip(slope / information, -1, 1), low, high)

        t = jax.lax.fori_loop(0, _STEPS, step, t)
        return t, 1 / jnp.sqrt(look(t)[1])

    def _by_power(self, law: GainLaw, y: Any, seen: Any, power: Any) -> Any:
        """The log gain of every row, from the power of its y and that of its z."""
        low, high = law.ends()
        count = jnp.maximum(_sum(seen), 1)
        mean = _sum(seen * y) / count if self.offset_variance is not None else 0.0
        left = _sum(seen * (y - mean) ** 2) / count - (0.0 if self.noise_first else self.variance)
        expected = power + (self.variance if self.noise_first else 0.0)
        return jnp.clip(jnp.log(jnp.maximum(left / expected, jnp.exp(2 * low))) / 2, low, high)

    def slopes_of_size(self, y: Any, power: Any, mask: Any) -> tuple[Any, Any] | None:
        if self.gains is None:
            return None
        return self.gains.slopes(self._by_power(self.gains, y, jnp.ones_like(y) if mask is None else mask, power))

    def _nodes(self, law: GainLaw, y: Any, w: Any, V: Any, mask: Any) -> tuple[Any, Any]:
        """Gains (nodes, rows, 1) and the logarithms of their weights, with the law of the gains in them."""
        centre, spread = jax.lax.stop_gradient(self._peak(law, y, w, V, mask))
        low, high = law.ends()
        span, nodes, weights = _MANY if y.shape[-1] >= _MANY_SIGNALS else _FEW
        left, right = jnp.maximum(low, centre - span * spread), jnp.minimum(high, centre + span * spread)
        t = (left + right) / 2 + jnp.asarray(nodes, y.dtype)[:, None, None] * (right - left) / 2
        return jnp.exp(t), jnp.log(jnp.asarray(weights, y.dtype)[:, None, None] * (right - left) / 2) + law.log_density(t)

    # ---- whole rows

    def _mixture(self, y: Any, w: Any, V: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Gains, the logarithms of their weights given that the sensor works (nodes, rows, 1), and that of the row's density if it is
        faulty (None: it is not)."""
        if self.gains is None:
            d, log_weight = jnp.ones((1, *y.shape[:-1], 1), y.dtype), jnp.zeros((1, *y.shape[:-1], 1), y.dtype)
        else:
            d, log_weight = self._nodes(self.gains, y, w, V, mask)
        heights = log_weight + jax.lax.map(lambda d: self._at_gain(d, y, w, V, mask).log_density, d)
        if self.faulty is None:
            return d, heights, None
        squares = y**2 / self.fault_variance + jnp.log(2 * jnp.pi * self.fault_variance)
        dead = jnp.log(self.faulty) - _sum(squares if mask is None else mask * squares) / 2
        return d, heights + jnp.log1p(-self.faulty), dead

    def log_rows(self, y: Any, w: Any, V: Any, mask: Any = None) -> Any:
        """log of the joint density of the observed entries of every row, as a column.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.SensorGains(0.1, spread=0.2).log_rows(np.ones((3, 5)), np.ones((3, 5)), 0.1).shape
            (3, 1)
        """
        y, w = _whole(y, w)
        _, heights, dead = self._mixture(y, w, V, mask)
        total = jax.nn.logsumexp(heights, axis=0)
        return total if dead is None else jnp.logaddexp(total, dead)

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return self.log_densities(y, w, V, None)

    def log_densities(self, y: Any, w: Any, V: Any, mask: Any) -> Any:
        seen = jnp.ones_like(y) if mask is None else mask
        return seen * self.log_rows(y, w, V, mask) / jnp.maximum(_sum(seen), 1)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        return self.output_where(y, w, V, None)

    def output_where(self, y: Any, w: Any, V: Any, mask: Any, heat: Any = 0.0) -> Output:
        """g and precision from the entries that were observed, where the mask is 1; zero in the others.

        `heat` is variance on top of V that softens what y says of z. What a row says of its health goes by V alone: many entries would
        together take the heat for evidence that they are none.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> g, _ = sp.SensorOffsets(1.0, 1.0).output_where(np.full((1, 2), 2.0), np.zeros((1, 2)), 1.0, np.array([[1.0, 0.0]]))
            >>> print(f"{float(g[0, 0]):.2f} {float(g[0, 1]):.2f}")
            0.67 0.00
        """
        y, w = _whole(y, w)
        d, heights, dead = self._mixture(y, w, V + heat, mask)
        share = jax.nn.softmax(heights, axis=0)
        if dead is not None:
            odds = dead - jax.nn.logsumexp(self._mixture(y, w, V, mask)[1], axis=0)
            share = share * jax.nn.sigmoid(self._grace(odds, V, heat) - odds)

        def add(sums: Any, node: Any) -> tuple[Any, None]:
            d, share = node
            row = self._at_gain(d, y, w, V + heat, mask)
            weight = d / (d**2 * (V + heat) + self._noise(d))
            g = weight * (y - d * w - row.offset)
            precision = d * weight - weight**2 * row.offset_variance
            return tuple(old + share * new for old, new in zip(sums, (g, g**2, precision), strict=True)), None

        nothing = jnp.zeros_like(w + V)
        (g, g2, precision), _ = jax.lax.scan(add, (nothing, nothing, nothing), (d, share))
        precision = precision - (g2 - g**2)
        return Output(g, precision) if mask is None else Output(g * mask, precision * mask)

    def _grace(self, odds: Any, V: Any, heat: Any) -> Any:
        """What is taken off every row's log odds of being faulty such that, while the heat matters, no more are than one expects.

        As long as F and X are guesses the fit is bad in all rows, and each row by itself would say that it is faulty. The prior knows that
        they are not all.
        """
        rows = odds.shape[0]
        most = rows * self.faulty + _SIGMAS * jnp.sqrt(rows * self.faulty * (1 - self.faulty))

        def halve(_: int, ends: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = ends
            middle = (low + high) / 2
            many = jnp.sum(jax.nn.sigmoid(odds - middle), axis=0, keepdims=True) > most
            return jnp.where(many, middle, low), jnp.where(many, high, middle)

        nothing = jnp.zeros_like(odds[:1])
        few = jnp.maximum(jnp.max(odds, axis=0, keepdims=True), 0.0) + _FAR_OFF
        _, grace = jax.lax.fori_loop(0, _HALVINGS, halve, (nothing, few))
        crowded = jnp.sum(jax.nn.sigmoid(odds), axis=0, keepdims=True) > most
        return jnp.where(crowded & (heat > _COLD * (self.variance + jnp.mean(V))), grace, 0.0)

    def readings(self, y: Any, w: Any, V: Any, mask: Any = None) -> Readings:
        """What every sensor is like, given means w and variances V of its z that do not know its y yet.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> z = np.linspace(-1, 1, 50)[None]
            >>> print(f"{float(sp.SensorGains(1e-4, spread=0.3).readings(1.2 * z, z, 1e-6).gain.mean[0]):.2f}")
            1.20
        """
        y, w = _whole(y, w)
        d, heights, dead = self._mixture(y, w, V, mask)
        total = jax.nn.logsumexp(heights, axis=0)
        share = jnp.exp(heights - total)
        rows = jax.lax.map(lambda d: self._at_gain(d, y, w, V, mask), d)
        gain, offset = jnp.sum(share * d, axis=0), jnp.sum(share * rows.offset, axis=0)
        around = jnp.sum(share * (rows.offset_variance + (rows.offset - offset) ** 2), axis=0)
        faulty = jnp.zeros_like(total) if dead is None else jax.nn.sigmoid(dead - total)
        moments = Moments(gain, jnp.sum(share * (d - gain) ** 2, axis=0)), Moments(offset, around)
        gains, offsets = (Moments(*(value[..., 0] for value in pair)) for pair in moments)
        return Readings(gains, offsets, faulty[..., 0])

    def fitted(self, y: Any, z: Any, mask: Any) -> Any:
        found = self.readings(y, z, jnp.zeros_like(z), mask)
        works = 1 - found.faulty[..., None]  # of a faulty sensor nothing but its own y is to be expected
        return works * (found.gain.mean[..., None] * z + found.offset.mean[..., None]) + (1 - works) * y

    # ---- drawing, and numbers for orientation

    def sample(self, key: Any, z: Any) -> Any:
        for_noise, for_gain, for_offset, for_health, for_fault = jax.random.split(key, 5)
        column = (*jnp.shape(z)[:-1], 1)
        noise = jnp.sqrt(jnp.asarray(self.variance, float)) * jax.random.normal(for_noise, jnp.shape(z))
        d = jnp.ones(column) if self.gains is None else self.gains.sample(for_gain, column)
        y = d * (z + noise) if self.noise_first else d * z + noise
        if self.offset_variance is not None:
            y = y + jnp.sqrt(self.offset_variance) * jax.random.normal(for_offset, column)
        if self.faulty is not None:
            dead = jax.random.bernoulli(for_health, self.faulty, column)
            y = jnp.where(dead, jnp.sqrt(self.fault_variance) * jax.random.normal(for_fault, jnp.shape(z)), y)
        return y

    def at_least(self, variance: Any) -> Sensors:
        return self.replace(variance=jnp.maximum(self.variance, variance))

    def input_power(self, measured: Any, expected: Any) -> Any:
        return expected

    def noise_scale(self, power: Any, V: Any = 0.0) -> Any:
        return self.variance

    # ---- theory: with many signals a row tells its own gain, offset and health, and they cost nothing

    def _law(self) -> tuple[Any, Any]:
        """Gains and their probabilities."""
        if self.gains is None:
            return jnp.ones(1), jnp.ones(1)  # all alike
        low, high = self.gains.ends()
        t = (low + high) / 2 + _LAW_NODES * (high - low) / 2
        weight = _LAW_WEIGHTS * (high - low) / 2 * jnp.exp(self.gains.log_density(t))
        return jnp.exp(t), weight / jnp.sum(weight)

    def rows_apart(self) -> Channel:
        # y/d = z + noise/d: a weak sensor's row of F is learned worse, which one mean precision does not know.
        if self.gains is None or self.faulty is not None or self.noise_first or float(self.variance) == 0:
            return self
        return GaussianNoise(float(self.variance) / self.gains.likely(_TYPICAL)[:, None] ** 2)

    def outcomes(self, power: float) -> Outcomes:
        return Outcomes(np.zeros(0), None, np.zeros(0))  # nobody asks: the averages are known

    def over_outcomes(self, w: Any, V: Any) -> tuple[Any, Any]:
        d, weight = self._law()
        level = self._noise(d) + d**2 * V
        works = 1.0 if self.faulty is None else 1 - self.faulty
        log_z = -works * jnp.sum(weight * (1 + jnp.log(2 * jnp.pi * level))) / 2
        if self.faulty is not None:
            log_z -= self.faulty * (1 + jnp.log(2 * jnp.pi * self.fault_variance)) / 2
        return works * jnp.sum(weight * d**2 / level), log_z


class SensorGains(Sensors):
    """y = gain z + noise, with an unknown gain for each row of Y.

    Examples:
        >>> import spinodal as sp
        >>> sp.SensorGains(variance=0.01, spread=0.2).gains.spread
        0.2
    """

    def __init__(self, variance: Any = 0.0, spread: Any = 0.3, *, gains: GainLaw | None = None, noise_first: bool = False) -> None:
        super().__init__(variance, LogNormalGains(spread) if gains is None else gains, noise_first=noise_first)


class SensorOffsets(Sensors):
    """y = z + offset + noise, with an unknown offset for each row of Y.

    Examples:
        >>> import spinodal as sp
        >>> sp.SensorOffsets(variance=0.01, offset_variance=1.0).offset_variance
        1.0
    """

    def __init__(self, variance: Any = 0.0, offset_variance: Any = 1.0) -> None:
        super().__init__(variance, offset_variance=offset_variance)


class FaultySensors(Sensors):
    """y = z + noise, but for a share of the rows of Y, nobody knows which, that say nothing about z.

    Examples:
        >>> import spinodal as sp
        >>> sp.FaultySensors(variance=0.01, faulty=0.1).faulty
        0.1
    """

    def __init__(self, variance: Any = 0.0, faulty: Any = 0.1, fault_variance: Any = 1.0) -> None:
        super().__init__(variance, faulty=faulty, fault_variance=fault_variance)


def _sum(values: Any) -> Any:
    """Over the signals, as a column."""
    return jnp.sum(values, axis=-1, keepdims=True)


def _whole(y: Any, w: Any) -> Any:
    return jnp.broadcast_arrays(y, w)
