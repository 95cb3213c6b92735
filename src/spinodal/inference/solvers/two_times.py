"""Message passing with every correction taken at the time at which belief propagation has it: for following the state evolution.

Eliminating the edges from belief propagation, the mean that F_mu,i sends to signal l is its marginal's less what l itself told it one
iteration ago: F(t) - s(t) X(t-1) g(t-1)/sqrt(N). The printed Eqs. (12), (15) and (16) put time t for t - 1 in F, X and one of the two g.
At the fixed point that is the same; on the way it is not. In the second iteration F's correction for having met X(0) = 0 should vanish,
and as printed it does not. So here are the equations with both times, undamped, with a variance for each entry. No cure for divergence is
built in: this is not a solver, `AMP` is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ...pair import Pair
from ..messages.update import unknown_signals
from ..task import Task, output_where


class Times(NamedTuple):
    """The estimates now, the means one iteration ago, and the residual message g of that iteration."""

    F: Moments
    X: Moments
    before: Pair[Any]
    g: Any


def begin(task: Task) -> Times:
    """F as its prior and F' say, X as its prior says; nothing has been sent yet (g = 0)."""
    F, X = task.start, unknown_signals(task)
    return Times(F, X, Pair(F.mean, X.mean), jnp.zeros_like(task.Y))


def step(task: Task, now: Times) -> Times:
    """One iteration: what belief propagation does, up to terms that vanish with N."""
    (F, s), (X, c), before, last = now
    N = task.sizes[1]
    root = jnp.sqrt(1.0 * N).astype(task.Y.dtype)
    variance = (F**2 @ c + s @ (X**2 + c)) / N
    echo = (F * before.F) @ c + s @ (X * before.X)
    g, precision = output_where(task.channel, task.Y, F @ X / root - echo / N * last, variance, task.mask)
    both = g * last / N
    to_X = (F**2).T @ precision / N
    to_F = precision @ (X**2).T / N
    new_X = task.prior.X.posterior(to_X, F.T @ g / root + to_X * X - s.T @ both * before.X)
    new_F = task.matrix_posterior(to_F, g @ X.T / root + to_F * F - both @ c.T * before.F)
    spread = jnp.broadcast_to(new_F.variance, F.shape)
    return Times(Moments(new_F.mean, spread), new_X, Pair(F, X), g)
