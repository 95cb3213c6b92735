"""What a solver carries from one iteration to the next."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors.base import Moments
from ...pair import Pair
from .data import Data
from .means import first_offsets


class State(NamedTuple):
    """Estimates of F and X, the residual message g, and what the last step measured.

    The means of X are to be divided by `scale` (one number for each atom), the variances by its square: the gauge's last word, applied
    when X is next read.
    `level` is the variance of y - omega that was used and `square` the measured one, per signal; `nonzeros` the expected number per atom;
    `noise` the noise level now in use; `age` counts iterations since X was last forgotten; `slow` is how many of them cool slowly.
    `learned` holds the parameters learned so far, if any are, and `offset` what the prior means contribute to Y (`offsets`).
    """

    F: Moments
    X: Moments
    g: Any
    scale: Any
    level: Any
    square: Any
    nonzeros: Any
    noise: Any
    age: Any
    slow: Any
    learned: Any = None
    offset: Pair[Any] = Pair(None, None)


def first_state(data: Data) -> State:
    """F as its prior and F' say, X as its prior says, and no residual message yet (g = 0)."""
    M, N, P = data.sizes
    dtype = data.Y.dtype
    ones = jnp.ones(P, dtype)
    return State(
        F=data.start,
        X=unknown_signals(data),
        g=jnp.zeros((M, P), dtype),
        scale=jnp.ones(N, dtype),
        level=ones,
        square=ones,
        nonzeros=jnp.zeros(N, dtype),
        noise=data.noise,
        age=jnp.asarray(0),
        slow=jnp.asarray(0),
        offset=first_offsets(data),
    )


def unknown_signals(data: Data) -> Moments:
    """X as its prior has it."""
    _, N, P = data.sizes
    return Moments(*(jnp.broadcast_to(jnp.asarray(value, data.Y.dtype), (N, P)) for value in data.prior.X.moments()))


def data_power(data: Data) -> Any:
    """Mean square of the observed entries of Y."""
    return jnp.mean(data.Y**2) / jnp.mean(data.seen_by_signal)


def rescaled(state: State) -> State:
    """The same state with the pending scale applied to X."""
    k = state.scale[:, None]
    return state._replace(X=Moments(state.X.mean / k, state.X.variance / k**2), scale=jnp.ones_like(state.scale))


def mix(old: Moments, new: Moments, step_size: Any) -> Moments:
    """Damped means and variances: a share `step_size` of the new ones."""
    return Moments(*(o + step_size * (n - o) for o, n in zip(old, new, strict=True)))
