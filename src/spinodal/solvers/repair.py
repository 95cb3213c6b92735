"""Atoms that went wrong, found and mended without the truth.

When the iterations have settled on a wrong solution it shows: two atoms are copies of each other, an atom is unused, or the code is
denser than the prior allows. The signals that need the missing atoms have not settled, and the principal components of their residuals
point to those atoms. So copies and unused atoms restart there, X is forgotten, and the iterations run again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ..priors.base import Moments
from .data import Data
from .state import State, data_power, rescaled, unknown_signals

# Two atoms with a cosine above this are copies.
_COPY = 0.9
# An atom used by less than this share of the signals it should serve is unused.
_UNUSED = 0.1
# A signal whose squared residual is above this many medians has not settled.
_UNSETTLED = 4.0
# Deviations of usage from the prior are called trouble beyond this many standard deviations.
_SIGMAS = 5.0
# Restarted atoms begin with this share of their prior variance.
_RESTART_VARIANCE = 0.5


class Checks(NamedTuple):
    """Which atoms to start again, which signals have not settled, and whether the state can be trusted."""

    restart: Any
    unsettled: Any
    trouble: Any


def checks(data: Data, state: State) -> Checks:
    """Inspect a settled state."""
    _, N, P = data.sizes
    norm = jnp.sqrt(jnp.maximum(jnp.sum(state.F.mean**2, axis=0), jnp.finfo(data.Y.dtype).tiny))
    unit = state.F.mean / norm
    cosine = jnp.abs(unit.T @ unit)
    use = jnp.sum(state.X.mean**2, axis=1)
    order = jnp.arange(N)
    # Of two copies, the one used less (or, at a tie, the later) goes.
    yields = (use[None, :] > use[:, None]) | ((use[None, :] == use[:, None]) & (order[None, :] < order[:, None]))
    restart = jnp.any((cosine > _COPY) & yields, axis=1)
    unsettled = state.square > _UNSETTLED * jnp.median(state.square)
    trouble = ~jnp.all(jnp.isfinite(state.F.mean))
    rho = getattr(data.prior.X, "rho", None)
    if rho is not None:
        expected = rho * P
        z = (state.nonzeros - expected) / jnp.sqrt(expected * (1 - rho))
        restart |= state.nonzeros < _UNUSED * expected
        spread = jnp.mean(z**2) > 1 + _SIGMAS * jnp.sqrt(2.0 / N)
        dense = jnp.mean(state.nonzeros) / P > rho + _SIGMAS * jnp.sqrt(rho / (1.0 * N * P))
        trouble |= spread | dense | (jnp.max(jnp.abs(z)) > _SIGMAS)
    return Checks(restart, unsettled, trouble | jnp.any(restart))


def mend(data: Data, state: State, found: Checks, reheat: Any) -> State:
    """Restart the marked atoms from the residuals of the unsettled signals, and forget X.

    With `reheat`, the noise level starts at the data's power and falls back from there.
    """
    M, N, _ = data.sizes
    state = rescaled(state)
    finite = jnp.all(jnp.isfinite(state.F.mean)) & jnp.all(jnp.isfinite(state.X.mean))
    left = (data.Y - state.F.mean @ state.X.mean / jnp.sqrt(1.0 * N).astype(data.Y.dtype)) * found.unsettled
    left = jnp.where(jnp.isfinite(left), left if data.mask is None else left * data.mask, 0)
    _, directions = jnp.linalg.eigh(left @ left.T)
    rank = jnp.clip(jnp.cumsum(found.restart) - 1, 0, M - 1)
    fresh = directions[:, ::-1][:, rank] * jnp.sqrt(M * data.prior.F.second_moment()).astype(data.Y.dtype)
    mean = jnp.where(finite, jnp.where(found.restart, fresh, state.F.mean), data.start.mean)
    variance = jnp.where(finite, jnp.where(found.restart, _RESTART_VARIANCE * data.start.variance, state.F.variance), data.start.variance)
    noise = data.noise + jnp.where(reheat, data_power(data), 0)
    return state._replace(
        F=Moments(mean, variance), X=unknown_signals(data), g=jnp.zeros_like(state.g), age=jnp.asarray(0), noise=noise.astype(data.Y.dtype)
    )
