"""Faulty atoms started again from what the data say is missing; then X is forgotten and the iterations begin again."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ...model.priors import Moments
from ..solvers.base import Estimate, Solver
from ..task import Task
from .diagnostics import Findings

# Restarted atoms begin with this share of their prior variance.
_RESTART_VARIANCE = 0.5


def repaired(task: Task, found: Estimate, seen: Findings) -> Moments:
    """F with its faulty atoms replaced by what unsettled signals point to, or by better axes of their plane."""
    M, _, _ = task.sizes
    mixed, restart = seen.mixed_with >= 0, (seen.copy_of >= 0) | seen.unused
    # A missing atom needs a place: that of the one used least. Where it is not clear what is wrong, at least one atom moves.
    place = jnp.argsort(jnp.argsort(jnp.where(restart, -jnp.inf, found.nonzeros)))
    restart |= (place < jnp.where(jnp.any(mixed), seen.missing, jnp.maximum(seen.missing, 1))) & ~mixed
    nth = jnp.clip(jnp.cumsum(restart) - 1, 0, M - 1)
    fresh = jnp.where(mixed & ~restart, seen.axes, seen.directions[:, nth])
    restart |= mixed
    size = jnp.sqrt(jnp.mean(fresh**2, axis=0))
    fresh = fresh * (jnp.sqrt(task.prior.F.second_moment()) / jnp.where(size > 0, size, 1)).astype(task.Y.dtype)
    finite = jnp.all(jnp.isfinite(found.F.mean)) & jnp.all(jnp.isfinite(found.X.mean))
    mean = jnp.where(finite, jnp.where(restart, fresh, found.F.mean), task.start.mean)
    variance = jnp.where(restart, _RESTART_VARIANCE * task.start.variance, found.F.variance)
    return Moments(mean, jnp.where(finite, variance, task.start.variance))


def mend(solver: Solver, task: Task, state: Any, seen: Findings, slow: Any) -> Any:
    """The state to go on from, cooled slowly for `slow` iterations (none: not at all)."""
    known = solver.learned(task, state)
    return solver.restart(task, state, repaired(known, solver.estimate(task, state), seen), slow)
