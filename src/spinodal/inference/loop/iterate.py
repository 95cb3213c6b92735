"""The one loop that drives every solver: iterations, their history and their trace. Nothing here knows which solver runs."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..execution.blocks import Layout
from ..solution import Trace
from ..solvers.base import Solver
from ..task import Task
from .history import History, Tolerance
from .quantile import median

# Iterations that one compiled call can record. Longer runs take several calls, so that no limit is compiled in.
RECORDED = 512


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
