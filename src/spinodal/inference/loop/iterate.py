"""The one loop that drives every solver: damping, stopping, trace and status.

A solver offers `init(data, key)`, `step(data, state, step_size)` (one iteration, damped by the share `step_size` of the new values) and
`cost(data, state)` (minus the free entropy). The states of all solvers are `State`. Nothing here knows which solver runs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...pair import Pair
from ..execution.blocks import apart, blocks, together
from ..messages.data import Data
from ..messages.state import State
from ..search.annealing import is_hot, is_quick
from ..search.learning import informed
from .quantile import median

# The level is compared with its running mean, which forgets at this rate, and with itself this many iterations ago.
FORGET, _AGO = 0.9, (5, 10)
# Adaptive damping: the share of the new value falls by this factor when the cost rises, and recovers by the other.
_BACK_OFF, _RECOVER = 0.5, 1.1
_LEAST_STEP, _LARGEST_STEP = 0.05, 1.0

# Learned parameters may still move by this many tolerances a step: hard signals that never settle keep them moving a little.
_RESTLESS = 30

STATUSES = ("max_iterations", "converged", "diverged", "degenerate")


class Trace(NamedTuple):
    """Per iteration: mean squared residual, typical variance level (median over signals), damping, change of the level.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> trace = sp.solve(instance.observed, problem).trace
        >>> bool(trace.level[-1] < trace.level[0])
        True
    """

    residual: Any
    level: Any
    damping: Any
    change: Any


class Progress(NamedTuple):
    """Where a run stands. `best` holds the estimates of smallest median residual, for runs that diverge; `recent` the logarithms of
    the last levels and of the last mean residuals, the newest first."""

    state: State
    best: State | None
    best_level: Any
    smoothed: Any
    change: Any
    moved: Any
    recent: Any
    cost: Any
    step_size: Any
    iteration: Any
    epoch_start: Any
    epochs: Any
    trace: Trace


def begin(state: State, max_iterations: int, damping: float, keep_best: bool) -> Progress:
    """The progress of a run that has not started."""
    dtype = state.g.dtype
    infinity = jnp.asarray(jnp.inf, dtype)
    empty = jnp.full(max_iterations, jnp.nan, dtype)
    step_size = jnp.asarray(1 - damping, dtype)
    zero = jnp.asarray(0)
    return Progress(
        state,
        state if keep_best else None,
        infinity,
        infinity,
        infinity,
        infinity,
        jnp.full((2, max(_AGO)), jnp.nan, dtype),
        Pair(infinity, infinity),
        step_size,
        zero,
        zero,
        zero,
        Trace(empty, empty, empty, empty),
    )


def advance(solver: Any, data: Data, run: Progress, written: Any = True) -> Progress:
    """One damped iteration with its bookkeeping, in the trace only if `written`."""
    first = run.state.age == 0
    state = solver.step(data, run.state, run.step_size)
    typical = median(state.level)
    log_level = jnp.log(typical)
    smoothed = jnp.where(first, log_level + 1, FORGET * run.smoothed + (1 - FORGET) * log_level)
    change = jnp.abs(log_level - smoothed)
    residual = jnp.mean(state.square)
    logs = jnp.stack([log_level, jnp.log(residual)])[:, None]
    # How far the two are from where they were; infinite in the first iterations of an epoch.
    distance = jnp.max(jnp.abs(logs - run.recent[:, [ago - 1 for ago in _AGO]]), axis=1)
    moved, stuck = jnp.where(run.state.age >= max(_AGO), distance, jnp.inf)
    # Nothing settles while the noise level is still falling.
    known = informed(data, state)
    hot = is_hot(known, state, typical)
    change, moved = (jnp.where(hot, jnp.maximum(value, 1), value) for value in (change, moved))
    # A mean residual that no longer follows the noise down is that of signals which only a repair can help. Longer epochs have patience.
    moved = jnp.where(is_quick(state) & ~is_hot(known, state, residual), jnp.minimum(moved, stuck), moved)
    if state.learned is not None:
        drift = jnp.minimum(state.learned.drift, 1) / _RESTLESS
        change = jnp.where(jnp.isfinite(change), jnp.maximum(change, drift), change)
    best, best_level = run.best, run.best_level
    if best is not None:
        measured = median(state.square)
        better = jnp.isfinite(measured) & (measured <= best_level)
        best = jax.tree.map(lambda new, kept: jnp.where(better, new, kept), state, best)
        best_level = jnp.where(better, measured, best_level)
    record = Trace(residual, typical, 1 - run.step_size, change)
    place = jnp.where(written, run.iteration, run.trace.level.size)  # beyond the end nothing is written
    trace = Trace(*(values.at[place].set(value, mode="drop") for values, value in zip(run.trace, record, strict=True)))
    step_size, cost = run.step_size, run.cost
    if solver.adaptive:
        now = solver.cost(data, state)
        worse = ~(now <= jnp.maximum(cost.F, cost.X))  # against the worse of the last two; NaN counts as worse
        step_size = jnp.clip(step_size * jnp.where(worse, _BACK_OFF, _RECOVER), _LEAST_STEP, _LARGEST_STEP)
        cost = Pair(cost.X, now)
    return run._replace(
        state=state,
        best=best,
        best_level=best_level,
        smoothed=smoothed,
        change=change,
        moved=moved,
        recent=jnp.concatenate([logs, run.recent[:, :-1]], axis=1),
        cost=cost,
        step_size=step_size,
        iteration=run.iteration + 1,
        trace=trace,
    )


class Tolerance(NamedTuple):
    """When the level has settled: near its running mean or, if a number is given, near where it was lately.

    The second says so sooner after a steep fall, and in quick epochs also when the mean residual has settled; the first gives slow
    signals, which the level does not see, time to catch up.
    """

    mean: Any
    lately: Any = -1.0

    @classmethod
    def of(cls, tolerance: float, looser: float | None = None) -> Tolerance:
        """A tolerance to end with or, if it is to be so many times looser, one that is in a hurry."""
        return cls(tolerance) if looser is None else cls(looser * tolerance, looser * tolerance)


def going(run: Progress, limit: Any, tolerance: Tolerance) -> Any:
    """Whether a run has iterations left, has not settled, and is still finite."""
    healthy = jnp.isfinite(run.change) | (run.iteration == run.epoch_start)
    settled = (run.change <= tolerance.mean) | (run.moved <= tolerance.lately)
    return (run.iteration < limit) & ~settled & healthy


def iterate(solver: Any, data: Data, run: Progress, limit: Any, tolerance: Tolerance) -> Progress:
    """Advance until the level settles, something is no longer finite, or iteration `limit` is reached."""
    at = blocks(data.sizes[2], solver.blockwise)

    def turn(run: Progress) -> Progress:
        run = advance(solver, data, run._replace(state=together(run.state)))
        return run._replace(state=apart(run.state, at))

    run = jax.lax.while_loop(lambda run: going(run, limit, tolerance), turn, run._replace(state=apart(run.state, at)))
    return run._replace(state=together(run.state))


def iterate_together(solver: Any, data: Data, run: Progress, limit: Any, tolerance: Tolerance) -> Progress:
    """The same for a batch (a leading axis on everything), instance by instance the same numbers.

    While all instances are going nothing needs to be held back; only then does each stop at its own iteration.
    """
    step = jax.vmap(partial(advance, solver))

    def unless_done(run: Progress) -> Progress:
        on = going(run, limit, tolerance)
        new = step(data, run, on)

        def held(new: Any, old: Any) -> Any:
            return jnp.where(on.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        return jax.tree.map(held, new._replace(trace=run.trace), run)._replace(trace=new.trace)

    run = jax.lax.while_loop(lambda run: jnp.all(going(run, limit, tolerance)), lambda run: step(data, run), run)
    return jax.lax.while_loop(lambda run: jnp.any(going(run, limit, tolerance)), unless_done, run)
