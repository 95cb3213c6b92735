"""The one loop that drives every solver: iterations, what is remembered of them, when they have settled, and their trace.

Nothing here knows which solver runs.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from .execution.machine import Layout, ranked
from .solution import Trace
from .task import Task

if TYPE_CHECKING:
    from .solvers.base import Solver

# Iterations that one compiled call can record. Longer runs take several calls, so that no limit is compiled in.
RECORDED = 512
# The level is compared with its running mean, which forgets at this rate, and with itself this many iterations ago.
FORGET, AGO = 0.9, (5, 10)


def quantile(values: Any, share: float) -> Any:
    """The lower quantile of a vector: an element of it, NaN if one is NaN."""
    place = max(1, math.ceil(share * values.size)) - 1
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, ranked(values, place))


def median(values: Any) -> Any:
    """The lower median of a vector."""
    return quantile(values, 0.5)


class Tolerance(NamedTuple):
    """When the level has settled: near its running mean or, if a number is given, near where it was lately.

    The second says so sooner after a steep fall; the first gives slow signals, which the level does not see, time to catch up.
    """

    mean: Any
    lately: Any = -1.0

    @classmethod
    def of(cls, tolerance: float, looser: float | None = None) -> Tolerance:
        """A tolerance to end with or, if it is to be so many times looser, one that is in a hurry."""
        return cls(tolerance) if looser is None else cls(looser * tolerance, looser * tolerance)


class History(NamedTuple):
    """The logarithm of the typical level: its running mean, how far it is from that (`change`) and from where it was lately (`moved`);
    `stuck` is the same for the mean residual. `recent` holds the last logarithms of both, the newest first; `age` counts iterations."""

    smoothed: Any
    change: Any
    moved: Any
    stuck: Any
    recent: Any
    level: Any
    residual: Any
    age: Any

    @classmethod
    def start(cls, dtype: Any) -> History:
        """Nothing has happened."""
        far = jnp.asarray(jnp.inf, dtype)
        return cls(far, far, far, far, jnp.full((2, max(AGO)), jnp.nan, dtype), far, far, jnp.asarray(0))

    def after(self, level: Any, residual: Any) -> History:
        """The history with one more iteration."""
        log_level = jnp.log(level)
        smoothed = jnp.where(self.age == 0, log_level + 1, FORGET * self.smoothed + (1 - FORGET) * log_level)
        logs = jnp.stack([log_level, jnp.log(residual)])[:, None]
        distance = jnp.max(jnp.abs(logs - self.recent[:, [ago - 1 for ago in AGO]]), axis=1)
        moved, stuck = jnp.where(self.age >= max(AGO), distance, jnp.inf)
        recent = jnp.concatenate([logs, self.recent[:, :-1]], axis=1)
        return History(smoothed, jnp.abs(log_level - smoothed), moved, stuck, recent, level, residual, self.age + 1)

    @property
    def healthy(self) -> Any:
        """Whether everything is still finite."""
        return jnp.isfinite(self.change) | (self.age == 0)

    def settled(self, tolerance: Tolerance) -> Any:
        """Whether the level no longer changes."""
        return (self.change <= tolerance.mean) | (self.moved <= tolerance.lately)


class Run(NamedTuple):
    """Where a run stands: the solver's state, what the loop remembers, the number of iterations, and the trace of the present call."""

    state: Any
    history: History
    iteration: Any
    begun: Any  # the iteration at which the present call began
    trace: Trace


def begin(solver: Solver, task: Task, state: Any) -> Run:
    """A run that has not started."""
    dtype = task.Y.dtype
    empty = jnp.full(RECORDED, jnp.nan, dtype)
    zero = jnp.asarray(0)
    return Run(state, History.start(dtype), zero, zero, Trace(empty, empty, empty, empty))


def again(run: Run, state: Any) -> Run:
    """The run as it goes on from another state, with no memory of the last."""
    return run._replace(state=state, history=History.start(run.history.level.dtype))


def advance(solver: Solver, task: Task, run: Run, written: Any = True) -> Run:
    """One iteration with its bookkeeping, in the trace only if `written`."""
    state = solver.step(task, run.state)
    measured = solver.measure(task, state)
    history = run.history.after(median(measured.level), jnp.mean(measured.square))
    record = Trace(history.residual, history.level, measured.damping, history.change)
    place = jnp.where(written, run.iteration - run.begun, RECORDED)  # beyond the end nothing is written
    trace = Trace(*(values.at[place].set(value, mode="drop") for values, value in zip(run.trace, record, strict=True)))
    return run._replace(state=state, history=history, iteration=run.iteration + 1, trace=trace)


def going(solver: Solver, task: Task, run: Run, limit: Any, tolerance: Tolerance) -> Any:
    """Whether a run has iterations left, has not settled, and is still finite."""
    over = (run.history.age > 0) & solver.finished(task, run.state, run.history, tolerance)
    return (run.iteration < limit) & ~over & run.history.healthy


def iterate(solver: Solver, task: Task, run: Run, limit: Any, tolerance: Tolerance) -> Run:
    """Advance until the level settles, something is no longer finite, or iteration `limit` is reached."""
    run = run._replace(begun=run.iteration)
    limit = jnp.minimum(limit, run.begun + RECORDED)
    layout, like = Layout(task.sizes[2], solver.divided(run.state), solver.blockwise), run.state

    def whole(run: Run) -> Run:
        return run._replace(state=layout.together(run.state, like))

    def turn(run: Run) -> Run:
        run = advance(solver, task, whole(run))
        return run._replace(state=layout.apart(run.state))

    started = run._replace(state=layout.apart(run.state))
    return whole(jax.lax.while_loop(lambda run: going(solver, task, whole(run), limit, tolerance), turn, started))


def iterate_together(solver: Solver, task: Task, run: Run, limit: Any, tolerance: Tolerance) -> Run:
    """The same for a batch (a leading axis on everything), instance by instance the same numbers.

    While all instances are going nothing needs to be held back; only then does each stop at its own iteration.
    """
    run = run._replace(begun=run.iteration)
    limit = jnp.minimum(limit, run.begun + RECORDED)
    step = jax.vmap(partial(advance, solver))
    on = jax.vmap(lambda task, run, limit: going(solver, task, run, limit, tolerance))

    def unless_done(run: Run) -> Run:
        active = on(task, run, limit)
        new = step(task, run, active)

        def held(new: Any, old: Any) -> Any:
            return jnp.where(active.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        return jax.tree.map(held, new._replace(trace=run.trace), run)._replace(trace=new.trace)

    always = jnp.ones(limit.shape, bool)
    run = jax.lax.while_loop(lambda run: jnp.all(on(task, run, limit)), lambda run: step(task, run, always), run)
    return jax.lax.while_loop(lambda run: jnp.any(on(task, run, limit)), unless_done, run)
