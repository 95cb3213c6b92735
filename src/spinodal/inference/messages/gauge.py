"""The scale of each atom: Y does not change under F_i -> k F_i, X_i -> X_i/k, so only the priors fix k, and iterations drift along it.

The posterior of log k_i has its mode where the gradient

    M - (|F_i|^2 - <F_i, prior mean>)/r - n_i + (|X_i|^2 - <X_i, slab mean>)/v

vanishes (second moments; n_i the expected number of nonzeros, r and v the prior variances). One clipped Newton step an iteration keeps
each atom there.

Where a sensor's gain d is unknown, Y does not change under F_m -> c F_m, d_m -> d_m/c either. Messages alone move along that line by a
share of about noise/signal an iteration. The mode of log c is where

    N - (|F_m|^2 - <F_m, prior mean>)/r - (slope of the log density of log d_m)

vanishes, and rows are kept there in the same way.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ...model.priors import GaussBernoulli, Gaussian, Moments, NonnegativeGaussBernoulli
from ..task import Task
from .update import State

# An iteration changes the scale of an atom by at most this factor's logarithm.
_LARGEST_STEP = 0.1


def has_gauge(task: Task) -> bool:
    """Whether the priors are ones whose scale gradient is known, and F is not fixed."""
    return (
        not task.knowledge.fixed
        and isinstance(task.prior.F, Gaussian)
        and isinstance(task.prior.X, (Gaussian, GaussBernoulli, NonnegativeGaussBernoulli))
    )


def gauge_step(task: Task, state: State, power: Any, now: Any) -> State:
    """Move each atom's scale towards its posterior mode, if `now`. `power` is the sum of squares and variances of the atom's row of X."""
    F, scale, offset = _moved(task, state, power, now)
    return state._replace(F=F, scale=scale, offset=offset)


def row_step(task: Task, state: State, power: Any, now: Any) -> State:
    """Move the size of each row of F towards its posterior mode, if `now`, where the channel does not show it. `power` as above, before
    its atoms were scaled."""
    if not task.channel.by_rows or task.centre.F is not None:
        return state
    F, r = state.F, task.start.variance
    N, P = task.sizes[1:]
    square = F.mean**2 + F.variance
    expected = square @ (power / state.scale**2)[:, None] / (N * P)  # the power of z in each row; rows of X hardly know of each other
    slopes = task.channel.slopes_of_size(task.Y, expected, task.mask)
    if slopes is None:
        return state
    own = jnp.sum(square / r, axis=1, keepdims=True)
    hint = jnp.sum(F.mean * task.start.mean / r, axis=1, keepdims=True)
    gradient, curvature = N - own + hint - slopes[0], jnp.maximum(2 * own - hint, own) + slopes[1]
    c = jnp.exp(jnp.where(now, jnp.clip(gradient / curvature, -_LARGEST_STEP, _LARGEST_STEP), 0))
    offset = state.offset if state.offset.F is None else state.offset._replace(F=state.offset.F * c)
    return state._replace(F=Moments(F.mean * c, F.variance * c**2), g=state.g / c, offset=offset)


def _moved(task: Task, state: State, power: Any, now: Any) -> tuple[Moments, Any, Any]:
    """F, the scale of X and the offsets after the step; X itself is left alone."""
    F = state.F
    M, N = F.mean.shape
    r = task.start.variance
    own = jnp.sum((F.mean**2 + F.variance) / r, axis=0)
    hint = jnp.sum(F.mean * task.start.mean / r, axis=0)
    used = power / task.prior.X.variance  # type: ignore[attr-defined]
    gradient = M - own + hint - state.nonzeros + used
    if isinstance(task.prior.X, (Gaussian, GaussBernoulli)) and task.centre.X is not None:  # a slab away from zero pulls as well
        gradient -= task.prior.X.mean * jnp.sum(state.X.mean, axis=1) / state.scale / task.prior.X.variance
    curvature = jnp.maximum(2 * own - hint, own) + 2 * used
    k = jnp.exp(jnp.where(now, jnp.clip(gradient / curvature, -_LARGEST_STEP, _LARGEST_STEP), 0))
    offset = state.offset
    if offset.F is not None:  # F X stays as it is, so what the mean of X contributes changes with F
        u = offset.F + task.centre.X * (F.mean @ (k - 1))[:, None] / jnp.asarray(N**0.5, F.mean.dtype)
        offset = offset._replace(F=u)
    return Moments(F.mean * k, F.variance * k**2), state.scale * k, offset
