"""Answers of yes or no whose probability rises with z: probit and logistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from ...errors import check_choice, check_positive
from .base import Channel, Output
from .outcomes import Outcomes
from .quantized import OneBit

# Even steps over this many standard deviations of z: for a logistic function of z the trapezoidal rule is exact to rounding while the
# standard deviation of z is below about four times the scale.
_NODES, _SPAN = 61, 8.5

# Where learning the scale starts: answers are in no unit, so it is beside codes of unit variance, of which a tenth is not zero.
_FIRST_SCALE = 0.3


@dataclass(frozen=True)
class Binary(Channel):
    """y is 1 with a probability that rises with z/scale, by the normal distribution function ("probit") or the logistic one, else 0.

    Examples:
        >>> import spinodal as sp
        >>> channel = sp.Binary("logistic")
        >>> print(f"{float(channel.log_partition(1.0, 0.0, 0.5)):.4f}")
        -0.6931
    """

    link: str = "probit"
    scale: Any = 1.0

    learns = ("scale",)

    def __post_init__(self) -> None:
        check_choice("link", self.link, ("probit", "logistic"))
        check_positive("scale", self.scale)

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        return {"scale": _FIRST_SCALE}

    @property
    def _threshold(self) -> OneBit:
        """A probit answer is the sign of z plus noise."""
        return OneBit(0.0).replace(variance=jnp.asarray(self.scale) ** 2)

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        sign = 2 * y - 1
        return self._threshold.log_partition(sign, w, V) if self.link == "probit" else jax.nn.logsumexp(self._parts(sign, w, V), axis=-1)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        sign = 2 * y - 1
        if self.link == "probit":
            return self._threshold.output(sign, w, V)
        # Under the posterior of z: g is the mean slope of log p(y | z), and the precision its mean bend less the variance of the slope.
        share = jax.nn.softmax(self._parts(sign, w, V), axis=-1)
        z = self._nodes(w, V) / self.scale
        slope = jnp.asarray(sign)[..., None] * jax.nn.sigmoid(-jnp.asarray(sign)[..., None] * z) / self.scale
        bend = jax.nn.sigmoid(z) * jax.nn.sigmoid(-z) / self.scale**2
        g = jnp.sum(share * slope, axis=-1)
        return Output(g, jnp.sum(share * (bend - (slope - g[..., None]) ** 2), axis=-1))

    def _nodes(self, w: Any, V: Any) -> Any:
        t = jnp.linspace(-_SPAN, _SPAN, _NODES)
        return jnp.asarray(w)[..., None] + jnp.sqrt(jnp.asarray(V))[..., None] * t

    def _parts(self, sign: Any, w: Any, V: Any) -> Any:
        t = jnp.linspace(-_SPAN, _SPAN, _NODES)
        log_weight = -(t**2) / 2 - jnp.log(2 * jnp.pi) / 2 + jnp.log(2 * _SPAN / (_NODES - 1))
        return log_weight + jax.nn.log_sigmoid(jnp.asarray(sign)[..., None] * self._nodes(w, V) / self.scale)

    def sample(self, key: Any, z: Any) -> Any:
        z = jnp.asarray(z) / self.scale
        chance = jnp.exp(log_ndtr(z)) if self.link == "probit" else jax.nn.sigmoid(z)
        return jnp.where(jax.random.uniform(key, jnp.shape(z)) < chance, 1.0, 0.0)

    def predicted(self, z: Any) -> Any:
        return jnp.exp(log_ndtr(z / self.scale)) if self.link == "probit" else jax.nn.sigmoid(z / self.scale)

    def outcomes(self, power: float) -> Outcomes:
        return Outcomes(np.array([0.0, 1.0]), None, np.zeros(1), np.array([float(self.scale)]))

    def fault_of(self, y: np.ndarray) -> str | None:
        return None if np.all((y == 0) | (y == 1)) else "must hold 0 and 1 for this channel"
