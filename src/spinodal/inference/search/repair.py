"""Faulty atoms started again from what the data say is missing, X forgotten; or, gentler, mixed atoms turned where they stand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...model.priors import Moments
from ..messages.update import unknown_signals
from ..solvers.base import Cooling, Estimate, Solver
from ..task import Task
from .diagnostics import Findings, settled_signals

# Restarted atoms begin with this share of their prior variance.
_RESTART_VARIANCE = 0.5


def repaired(task: Task, found: Estimate, seen: Findings) -> Moments:
    """F with its faulty atoms replaced by what unsettled signals point to, or by better axes of their plane."""
    M, _, _ = task.sizes
    mixed, axes, restart = seen.mixed_with >= 0, better_axes(found, seen), (seen.copy_of >= 0) | seen.unused
    # A missing atom needs a place: that of the one used least. Where it is not clear what is wrong, at least one atom moves.
    place = jnp.argsort(jnp.argsort(jnp.where(restart, -jnp.inf, found.nonzeros)))
    restart |= (place < jnp.where(jnp.any(mixed), seen.missing, jnp.maximum(seen.missing, 1))) & ~mixed
    nth = jnp.clip(jnp.cumsum(restart) - 1, 0, M - 1)
    fresh = jnp.where(mixed & ~restart, axes, seen.directions[:, nth])
    restart |= mixed
    size = jnp.sqrt(jnp.mean(fresh**2, axis=0))
    fresh = fresh * (jnp.sqrt(task.prior.F.second_moment()) / jnp.where(size > 0, size, 1)).astype(task.Y.dtype)
    finite = jnp.all(jnp.isfinite(found.F.mean)) & jnp.all(jnp.isfinite(found.X.mean))
    mean = jnp.where(finite, jnp.where(restart, fresh, found.F.mean), task.start.mean)
    variance = jnp.where(restart, _RESTART_VARIANCE * task.start.variance, found.F.variance)
    return Moments(mean, jnp.where(finite, variance, task.start.variance))


def better_axes(found: Estimate, seen: Findings) -> Any:
    """The atoms with what they should have of those that they are mixed with."""
    return jnp.where(seen.mixed_with >= 0, found.F.mean + seen.ratio * found.F.mean[:, seen.mixed_with], found.F.mean)


def in_place(task: Task, found: Estimate, seen: Findings) -> Estimate:
    """The estimates with as little changed as can be: mixed atoms turned or else, if there are none, faulty ones started again, and with
    them the signals that have not settled."""
    turned, F, unknown = turned_atoms(found, seen), repaired(task, found, seen), unknown_signals(task)
    forgotten = jnp.any(F.mean != found.F.mean, axis=0)[:, None] | ~settled_signals(task, found)
    X = Moments(*(jnp.where(forgotten, new, old) for new, old in zip(unknown, found.X, strict=True)))
    return _either(jnp.any(seen.mixed_with >= 0), turned, Estimate(F, X))


def _either(which: Any, one: Estimate, other: Estimate) -> Estimate:
    """One of two estimates of F and X."""
    return Estimate(*jax.tree.map(lambda yes, no: jnp.where(which, yes, no), one[:2], other[:2]))


def turned_atoms(found: Estimate, seen: Findings) -> Estimate:
    """Mixed atoms on better axes of their plane, and their codes such that F X stays what it is."""
    partner = seen.mixed_with
    now = (partner >= 0) & (partner[partner] < 0)  # one whose partner is mixed too waits
    F = jnp.where(now, better_axes(found, seen), found.F.mean)
    X = found.X.mean.at[partner].add(-jnp.where(now, seen.ratio, 0)[:, None] * found.X.mean)
    return Estimate(Moments(F, found.F.variance), Moments(X, found.X.variance))


def mend(solver: Solver, task: Task, state: Any, seen: Findings, gently: Any, cooling: Cooling) -> Any:
    """The state to go on from: `gently` mended in place or else, with X forgotten, cooled."""
    known, found = solver.learned(task, state), solver.estimate(task, state)
    again = Estimate(repaired(known, found, seen), unknown_signals(known))
    start = _either(gently, in_place(known, found, seen), again)
    return solver.restart(task, state, start, cooling._replace(slow=jnp.where(gently, 0, cooling.slow)))
