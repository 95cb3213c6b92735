"""What message passing carries from one iteration to the next."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ...pair import Pair
from ..task import Task
from .means import first_offsets


class State(NamedTuple):
    """Estimates of F and X, the residual message g, and what the last step measured.

    The means of X are to be divided by `scale` (one number for each atom), the variances by its square: the gauge's last word, applied
    when X is next read.
    `level` is the variance of y - omega that was used and `square` the measured one, per signal; `nonzeros` the expected number per atom;
    `age` counts iterations since X was last forgotten. `offset` is what the prior means contribute to Y (`means`).
    """

    F: Moments
    X: Moments
    g: Any
    scale: Any
    level: Any
    square: Any
    nonzeros: Any
    age: Any
    offset: Pair[Any] = Pair(None, None)


def first_state(task: Task, F: Moments | None = None, X: Moments | None = None) -> State:
    """F as its prior and F' say, X as its prior says, unless others are given; no residual message yet (g = 0)."""
    M, N, P = task.sizes
    dtype = task.Y.dtype
    ones = jnp.ones(P, dtype)
    return State(
        F=task.start if F is None else F,
        X=unknown_signals(task) if X is None else X,
        g=jnp.zeros((M, P), dtype),
        scale=jnp.ones(N, dtype),
        level=ones,
        square=ones,
        nonzeros=jnp.zeros(N, dtype),
        age=jnp.asarray(0),
        offset=first_offsets(task),
    )


def unknown_signals(task: Task) -> Moments:
    """X as its prior has it."""
    _, N, P = task.sizes
    return Moments(*(jnp.broadcast_to(jnp.asarray(value, task.Y.dtype), (N, P)) for value in task.prior.X.moments()))


def rescaled(state: State) -> State:
    """The same state with the pending scale applied to X."""
    k = state.scale[:, None]
    return state._replace(X=Moments(state.X.mean / k, state.X.variance / k**2), scale=jnp.ones_like(state.scale))


def mix(old: Moments, new: Moments, step_size: Any) -> Moments:
    """Damped means and variances: a share `step_size` of the new ones."""
    return Moments(*(o + step_size * (n - o) for o, n in zip(old, new, strict=True)))


def by_signal(state: State) -> State:
    """Which arrays of a state have the signals as their last axis: the same tree, of truth values."""
    offset = Pair(*(None if value is None else side == "X" for side, value in zip(("F", "X"), state.offset, strict=True)))
    yes, no = Moments(True, True), Moments(False, False)
    return State(F=no, X=yes, g=True, scale=False, level=True, square=True, nonzeros=False, age=False, offset=offset)
