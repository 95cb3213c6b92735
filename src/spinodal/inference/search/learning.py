"""Parameters learned on the way: the noise variance, density, mean and variance of the slab of X, and eta (expectation maximisation).

The density is the expected share of nonzeros, the slab's mean and variance are those of the expected nonzeros. The noise variance is moved
until the measured residuals of the typical signal have the size the model says they should: in the regimes of interest all variances are
proportional to it, and the usual EM step would hardly move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.knowledge import Hint
from ..loop.quantile import median
from ..messages.data import Data
from ..messages.state import State, data_power
from .annealing import is_hot

LEARNABLE = ("noise", "rho", "mean", "variance", "eta")
# A step changes these by at most these factors.
_FASTEST = {"noise": 2.0, "rho": 1.2, "variance": 1.2, "eta": 1.2}
# The density stays away from 0 and 1, where it could not come back from.
_LEAST = 1e-4


# Most power that signals can be learned to have, in units of the data's.
_LOUDEST = 10.0
_SLAB = ("rho", "mean", "variance")


class Parameters(NamedTuple):
    """The noise variance; the density, mean and variance of the slab of X, None where the prior has no such parameter; eta, None without
    F'."""

    noise: Any
    rho: Any = None
    mean: Any = None
    variance: Any = None
    eta: Any = None


class Learned(NamedTuple):
    """The parameters learned so far, and the largest relative change of one in the last step."""

    values: Parameters
    drift: Any


def nothing_learned(data: Data) -> Learned:
    return Learned(parameters(data), jnp.asarray(jnp.inf, data.Y.dtype))


def parameters(data: Data) -> Parameters:
    """The parameters in use."""
    own = {name: getattr(data.prior.X, name, None) for name in _SLAB}
    slab = {name: None if value is None else jnp.asarray(value, data.Y.dtype) for name, value in own.items()}
    return Parameters(data.noise, **slab, eta=None if data.side is None else 1 / data.side[0])


def informed(data: Data, state: State) -> Data:
    """The data with the parameters learned so far in place of the given ones."""
    if state.learned is None:
        return data
    slab = {name: getattr(state.learned.values, name) for name in _SLAB if getattr(state.learned.values, name) is not None}
    data = data._replace(noise=state.learned.values.noise, prior=data.prior._replace(X=data.prior.X.replace(**slab)))
    if data.centre.X is not None:
        mean = jnp.asarray(data.prior.X.moments().mean, data.Y.dtype)
        data = data._replace(centre=data.centre._replace(X=mean))
    if data.side is not None:
        side = Hint(state.learned.values.eta).message(hint(data))
        data = data._replace(side=side, start=data.prior.F.posterior(*side))
    return data


def hint(data: Data) -> Any:
    """F' itself, from the message it sends."""
    assert data.side is not None
    eta = 1 / data.side[0]
    return data.side[1] * eta / jnp.sqrt(1 + eta)


def learn(names: tuple[str, ...], data: Data, state: State, power: Any, now: Any) -> State:
    """The state with better parameters, where the iteration counted nonzeros (`now`) and the noise level has come down.

    `power` is the sum of squares and variances of each row of X.
    """
    M, N, P = data.sizes
    old = state.learned.values
    new = {}
    if "noise" in names:
        # The median of a chi-square mean of M terms is 1 - 2/(3 M).
        ratio = median(state.square / state.level) / (1 - 2 / (3 * M * jnp.mean(data.seen_by_signal) + 2))
        new["noise"] = jnp.maximum(old.noise * ratio, data.rounding)
    nonzeros = jnp.maximum(jnp.sum(state.nonzeros), 1)
    if "rho" in names:
        new["rho"] = jnp.clip(nonzeros / (N * P), _LEAST, 1 - _LEAST)
    mean = old.mean
    if "mean" in names:
        new["mean"] = mean = jnp.sum(jnp.sum(state.X.mean, axis=1) / state.scale) / nonzeros
    if "variance" in names:
        new["variance"] = jnp.sum(power) / nonzeros - (0 if mean is None else mean**2)
    if "eta" in names and data.side is not None:
        apart = jnp.sqrt(1 + old.eta) * hint(data) - state.F.mean
        new["eta"] = jnp.mean(apart**2 + state.F.variance)
    # No noise above the data's power, and no signals far above it: where the model does not fit, estimates could run away.
    power_of_data = data_power(data)
    if "noise" in new:
        new["noise"] = jnp.minimum(new["noise"], power_of_data)
    if "variance" in new:
        density = new.get("rho", 1 if old.rho is None else old.rho)
        new["variance"] = jnp.minimum(new["variance"], _LOUDEST * power_of_data / (density * data.prior.F.second_moment()))
    for name, factor in _FASTEST.items():
        if name in new:
            new[name] = jnp.clip(new[name], getattr(old, name) / factor, getattr(old, name) * factor)
    now &= ~is_hot(data, state, median(state.level)) & (nonzeros > 1)
    accepted = {name: jnp.where(now & jnp.isfinite(value), value, getattr(old, name)).astype(data.Y.dtype) for name, value in new.items()}
    moved = [jnp.abs(accepted[name] / getattr(old, name) - 1) for name in _FASTEST if name in accepted]
    drift = jnp.where(now, jnp.max(jnp.stack(moved)), state.learned.drift) if moved else jnp.zeros_like(state.learned.drift)
    return state._replace(learned=Learned(old._replace(**accepted), drift))
