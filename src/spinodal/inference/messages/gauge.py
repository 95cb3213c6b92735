"""The scale of each atom: Y does not change under F_i -> k F_i, X_i -> X_i/k, so only the priors fix k, and iterations drift along it.

The posterior of log k_i has its mode where the gradient

    M - (|F_i|^2 - <F_i, prior mean>)/r - n_i + (|X_i|^2 - <X_i, slab mean>)/v

vanishes (second moments; n_i the expected number of nonzeros, r and v the prior variances). One clipped Newton step an iteration keeps
each atom there.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...model.priors import GaussBernoulli, Gaussian, NonnegativeGaussBernoulli
from ...model.priors.base import Moments
from .data import Data
from .state import State

# An iteration changes the scale of an atom by at most this factor's logarithm.
_LARGEST_STEP = 0.1


def has_gauge(data: Data) -> bool:
    """Whether the priors are ones whose scale gradient is known, and F is not fixed."""
    return (
        data.known is None
        and isinstance(data.prior.F, Gaussian)
        and isinstance(data.prior.X, (Gaussian, GaussBernoulli, NonnegativeGaussBernoulli))
    )


def gauge_step(data: Data, state: State, power: Any, now: Any) -> State:
    """Move each atom's scale towards its posterior mode, if `now`. `power` is the sum of squares and variances of the atom's row of X."""
    if jax.default_backend() == "cpu":  # accelerators wait longer for a branch than the step takes
        F, scale, offset = jax.lax.cond(now, lambda: _moved(data, state, power, True), lambda: (state.F, state.scale, state.offset))
    else:
        F, scale, offset = _moved(data, state, power, now)
    return state._replace(F=F, scale=scale, offset=offset)


def _moved(data: Data, state: State, power: Any, now: Any) -> tuple[Moments, Any, Any]:
    """F, the scale of X and the offsets after the step; X itself is left alone."""
    F = state.F
    M, N = F.mean.shape
    r = data.start.variance[0]  # Gaussian: the same for every entry
    own = jnp.sum(F.mean**2 + F.variance, axis=0) / r
    hint = jnp.sum(F.mean * data.start.mean, axis=0) / r
    used = power / data.prior.X.variance  # type: ignore[attr-defined]
    gradient = M - own + hint - state.nonzeros + used
    if isinstance(data.prior.X, (Gaussian, GaussBernoulli)) and data.centre.X is not None:  # a slab away from zero pulls as well
        gradient -= data.prior.X.mean * jnp.sum(state.X.mean, axis=1) / state.scale / data.prior.X.variance
    curvature = jnp.maximum(2 * own - hint, own) + 2 * used
    k = jnp.exp(jnp.where(now, jnp.clip(gradient / curvature, -_LARGEST_STEP, _LARGEST_STEP), 0))
    offset = state.offset
    if offset.F is not None:  # F X stays as it is, so what the mean of X contributes changes with F
        u = offset.F + data.centre.X * (F.mean @ (k - 1))[:, None] / jnp.asarray(N**0.5, F.mean.dtype)
        offset = offset._replace(F=u)
    return Moments(F.mean * k, F.variance * k**2), state.scale * k, offset
