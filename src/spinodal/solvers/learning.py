"""Parameters learned on the way: the noise variance, and density, mean and variance of the slab of X (expectation maximisation).

The density is the expected share of nonzeros, the slab's mean and variance are those of the expected nonzeros. The noise variance is moved
until the measured residuals of the typical signal have the size the model says they should: in the regimes of interest all variances are
proportional to it, and the usual EM step would hardly move.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp

from .annealing import is_hot
from .data import Data
from .state import State

LEARNABLE = ("noise", "rho", "mean", "variance")
# A step changes noise, density and variance by at most these factors.
_FASTEST = {"noise": 2.0, "rho": 1.2, "variance": 1.2}
# The density stays away from 0 and 1, where it could not come back from.
_LEAST = 1e-4


class Parameters(NamedTuple):
    """The noise variance, and the density, mean and variance of the slab of X; None where the prior has no such parameter."""

    noise: Any
    rho: Any = None
    mean: Any = None
    variance: Any = None


def parameters(data: Data) -> Parameters:
    """The parameters in use."""
    own = {name: getattr(data.prior.X, name, None) for name in LEARNABLE[1:]}
    return Parameters(data.noise, **{name: None if value is None else jnp.asarray(value, data.Y.dtype) for name, value in own.items()})


def informed(data: Data, state: State) -> Data:
    """The data with the parameters learned so far in place of the given ones."""
    if state.learned is None:
        return data
    slab = {name: value for name, value in state.learned._asdict().items() if name != "noise" and value is not None}
    return data._replace(noise=state.learned.noise, prior=data.prior._replace(X=replace(data.prior.X, **slab)))  # type: ignore[type-var]


def learn(names: tuple[str, ...], data: Data, state: State, power: Any, now: Any) -> State:
    """The state with better parameters, where the iteration counted nonzeros (`now`) and the noise level has come down.

    `power` is the sum of squares and variances of each row of X.
    """
    M, N, P = data.sizes
    old = state.learned
    new = {}
    if "noise" in names:
        # The median of a chi-square mean of M terms is 1 - 2/(3 M).
        ratio = jnp.median(state.square / state.level) / (1 - 2 / (3 * M * jnp.mean(data.seen_by_signal) + 2))
        new["noise"] = jnp.maximum(old.noise * ratio, data.rounding)
    nonzeros = jnp.maximum(jnp.sum(state.nonzeros), 1)
    if "rho" in names:
        new["rho"] = jnp.clip(nonzeros / (N * P), _LEAST, 1 - _LEAST)
    mean = old.mean
    if "mean" in names:
        new["mean"] = mean = jnp.sum(state.X.mean / state.scale[:, None]) / nonzeros
    if "variance" in names:
        new["variance"] = jnp.sum(power) / nonzeros - (0 if mean is None else mean**2)
    for name, factor in _FASTEST.items():
        if name in new:
            new[name] = jnp.clip(new[name], getattr(old, name) / factor, getattr(old, name) * factor)
    now &= ~is_hot(data, state) & (nonzeros > 1)
    accepted = {name: jnp.where(now & jnp.isfinite(value), value, getattr(old, name)).astype(data.Y.dtype) for name, value in new.items()}
    return state._replace(learned=old._replace(**accepted))
