"""State evolution where the noise differs from row to row, from signal to signal or from entry to entry of Y.

A row of F is learned from its own row of Y, and a signal from its own column, so each row and each column has an error of its own. With
q_F of row m, q_X of column l, Q = Var F Var X and V_ml = Delta_ml + Q - q_F q_X,

    m_X of column l = eps alpha (mean over rows of q_F/V_ml),    m_F of row m = eps pi (mean over columns of q_X/V_ml),

which are the equations of `state_evolution.py` where all are alike.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..model.channels import Channel
from ..model.model import Problem
from ..model.quadrature import message_averages
from ..pair import Pair
from .curve import matrix_mmse
from .setup import Setup, setup


def typical(problem: Problem) -> Setup:
    """The problem with one variance for all, for what does not depend on it."""
    return setup(problem.replace(channel=problem.channel.for_theory()))


def evolve(problem: Problem, first: Pair[float], max_iterations: int, tolerance: float) -> tuple[Pair[np.ndarray], bool]:
    """Mean errors of F and X after each iteration from `first` on, and whether they have settled."""
    s = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), typical(problem))
    rows, columns = problem.channel.entry_shape
    mse = Pair(F=np.full((rows, 1), first.F), X=np.full((1, columns), first.X))
    course, settled = [first], False
    while len(course) <= max_iterations and not settled:
        mse = jax.tree.map(np.asarray, _step(s, problem.channel, mse))
        course.append(Pair(*(float(np.mean(values)) for values in mse)))
        settled = all(abs(new - old) <= tolerance * old for new, old in zip(course[-1], course[-2], strict=True))
    return Pair(*(np.array(values) for values in zip(*course, strict=True))), settled


@jax.jit
def _step(s: Setup, channel: Channel, mse: Pair[Any]) -> Pair[Any]:
    q_F, q_X = s.power.F - mse.F, s.power.X - mse.X
    precision = channel.output(0.0, 0.0, s.power.F * s.power.X - q_F * q_X).precision
    m_X = s.observed * s.alpha * jnp.mean(q_F * precision, axis=0)
    m_F = s.observed * s.pi * jnp.mean(q_X * precision, axis=1)
    X = jax.lax.map(lambda m: message_averages(s.prior.X, s.support.X, m).mmse, m_X)
    return Pair(F=jax.lax.map(partial(matrix_mmse, s), m_F)[:, None], X=X[None])
