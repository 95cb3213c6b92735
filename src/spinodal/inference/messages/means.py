"""The prior means of F and X, taken off before messages are passed.

With prior means m and mu, F = m + F~ and X = mu + X~, and

    F X/sqrt(N) = F~ X~/sqrt(N) + u 1^T + 1 v^T,    u = mu F~ 1/sqrt(N) + const,    v = m X~^T 1/sqrt(N).

Left in, the last two parts are common to all signals of a row, or to all measurements of a signal. Message passing takes such sums for
independent small terms, so it overshoots, and comes apart for means that are not small. Here u and v are numbers of their own, learned as
one more atom with known codes would be (the mean removal of Vila, Schniter, Rangan and Krzakala, for both factors): M + P more unknowns,
against M N + N P.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ...pair import Pair
from ..task import Task


def first_offsets(task: Task, u: Any = None) -> Pair[Any]:
    """u (M x 1) and v (P) from the means of the observed entries of rows and columns; None where there is nothing to remove.

    `u` may be known already, where the task is a block of the signals.
    """
    centre = task.centre
    if u is None and centre.X is not None:
        u = jnp.mean(task.Y, axis=1, keepdims=True) / task.seen_by_row
    left = task.Y if u is None else task.seen(task.Y - u)
    v = None if centre.F is None else jnp.mean(left, axis=0) / task.seen_by_signal
    return Pair(F=u, X=v)


def without_offsets(offset: Pair[Any], Y: Any) -> Any:
    """Y - u - v."""
    for part in offset:
        Y = Y if part is None else Y - part
    return Y


def with_offsets(offset: Pair[Any], mean: Any) -> Any:
    """The mean of z with u and v added."""
    for part in offset:
        mean = mean if part is None else mean + part
    return mean


def moved(offset: Any, push: Any, weight: Any, step_size: Any) -> Any:
    """An offset after a Newton step of the share `step_size`: `push` is the sum of g over its entries, `weight` that of 1/V.

    At most half a step: the two offsets have a constant in common, and both move.
    """
    return None if offset is None else offset + jnp.minimum(step_size, 0.5) * push / weight


class OfAll(NamedTuple):
    """Of all signals: the means of v and of what X says v is, and the sum of 1/level over the observed entries of each row."""

    v: Any
    columns: Any
    certain: Any


def of_all(task: Task, X: Moments, offset: Pair[Any], level: Any) -> OfAll:
    """What `returned` needs to know of all signals."""
    certain = task.seen(1 / jnp.broadcast_to(level, task.Y.shape))
    v = jnp.zeros((), task.Y.dtype) if offset.X is None else jnp.mean(offset.X)
    return OfAll(v, jnp.mean(_columns(task, X)), jnp.sum(certain, axis=1, keepdims=True))


def _columns(task: Task, X: Moments) -> Any:
    """v as X says it is."""
    m, mu = (jnp.zeros((), task.Y.dtype) if mean is None else mean for mean in task.centre)
    return m * jnp.sum(X.mean - mu, axis=0) / jnp.asarray(task.sizes[1] ** 0.5, task.Y.dtype)


def returned(task: Task, F: Moments, X: Moments, offset: Pair[Any], level: Any, over: OfAll | None = None) -> tuple[Moments, Moments]:
    """F and X with what the offsets know of their sums: the shift of all entries of a row of F (a column of X) that explains u (v).

    Each entry moves in proportion to its variance, by an amount of order 1/sqrt(N): of no weight in its error, but of the order of the
    others' in the residual. `over` is what `of_all` says, where the task is a block of the signals.
    """
    if offset.F is None and offset.X is None:
        return F, X
    over = of_all(task, X, offset, level) if over is None else over
    _, N, _ = task.sizes
    root = jnp.asarray(N**0.5, task.Y.dtype)
    m, mu = (jnp.zeros((), task.Y.dtype) if mean is None else mean for mean in task.centre)
    rows, columns = mu * jnp.sum(F.mean - m, axis=1, keepdims=True) / root + m * mu * root, _columns(task, X)
    u = jnp.zeros_like(rows) if offset.F is None else offset.F
    v = jnp.zeros_like(columns) if offset.X is None else offset.X
    u, v, rows, columns = u + over.v, v - over.v, rows + over.columns, columns - over.columns
    certain = 1 / jnp.broadcast_to(level, task.Y.shape)
    certain = task.seen(certain)
    if offset.F is not None:
        gain = mu / (mu**2 * jnp.mean(F.variance, axis=1, keepdims=True) + 1 / over.certain)
        F = F._replace(mean=F.mean + F.variance * gain * (u - rows) / root)
    if offset.X is not None:
        gain = m / (m**2 * jnp.mean(X.variance, axis=0) + 1 / jnp.sum(certain, axis=0))
        X = X._replace(mean=X.mean + X.variance * gain * (v - columns) / root)
    return F, X
