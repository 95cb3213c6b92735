"""Compiled calls on a batch of instances: begin, iterate, inspect, mend, conclude. A leading axis on everything, also on the numbers of
the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...model.model import Model
from ...model.priors import Moments
from ...model.sampling import Observed
from ...pair import Pair
from ..loop import History, Run, Tolerance, again, begin, going, iterate, iterate_together
from ..messages.means import returned
from ..search.diagnostics import Findings, inspect, with_directions
from ..search.repair import mend
from ..search.search import WORTH
from ..solvers.base import Cooling, Estimate, Solver, model_of
from ..task import Task, make_task
from .programs import compiled


class Plan(NamedTuple):
    """What is fixed during a solve and known when it is compiled."""

    solver: Solver
    N: int
    dtype: str
    centre: Pair[bool]

    def task(self, observed: Observed, model: Model) -> Task:
        return make_task(observed, model, self.N, self.dtype, self.centre)


class Verdict(NamedTuple):
    """What a look at a settled state says; of the best one, also after how many repairs in a row nothing better was found, and how many
    times a run of the instance was heated."""

    found: Findings
    free_entropy: Any
    trouble: Any = None
    in_vain: Any = None
    heated: Any = None


class Conclusion(NamedTuple):
    """The estimates, the model with what was learned, and what the status rests on."""

    mean: Pair[Any]
    variance: Pair[Any]
    model: Model
    residual: Any
    free_entropy: Any
    finite: Any
    fits: Any  # the data are explained better than by nothing
    settled: Any
    moved: Any  # F is not all zero


def mapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """vmap over the leading axis; a batch of one runs as itself, without the cost of batched branches and loops."""

    def call(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        return jax.tree.map(lambda value: value[None], function(*jax.tree.map(lambda value: value[0], arguments)))

    return call


def random_draws(seeds: Sequence[int], size: int, runs: Sequence[tuple[int, int]], shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """The random numbers of every run, given as its instance and its number. An instance with a seed of its own draws what it would draw
    alone.

    They are drawn here, not by the programs: few are needed, and JAX's random numbers take longer to compile than all else in a start."""
    single = len(seeds) == 1
    own = [(seeds[0], number * size + instance) if single else (seeds[instance], number) for instance, number in runs]
    return np.stack([np.random.default_rng(each).random(shape) for each in own]).astype(dtype)


@compiled()
def begin_batch(plan: Plan, observed: Observed, model: Model, draws: Any, start: Estimate | None, cooling: Cooling) -> Run:
    """Before the first iteration. What starts from an F that it is told is cooled."""

    def one(observed: Observed, model: Model, draws: Any, start: Estimate | None) -> Run:
        task = plan.task(observed, model)
        state = plan.solver.init(task, draws, start)
        if start is not None and start.X is None:
            state = plan.solver.restart(task, state, start, cooling)
        return begin(plan.solver, task, state)

    return mapped(one)(observed, model, draws, start)


def make_ready(
    plan: Plan, observed: Observed, model: Model, draws: Any, start: Any, cooling: Cooling, inspects: bool, repairs: bool
) -> None:
    """Have the programs that every solve needs compiled side by side, where that takes longer than what they do."""
    if not begin_batch.is_new(plan, observed, model, draws, start, cooling):
        return
    run, number = begin_batch.shape(plan, observed, model, draws, start, cooling), np.zeros(len(observed.Y), int)
    run_batch.ahead(plan, observed, model, run, number, number, Tolerance.of(0.0))
    if inspects:
        looked = inspect_batch.shape(plan, observed, model, run)  # traced once, before a thread would do the same beside it
        inspect_batch.ahead(plan, observed, model, run)
    if repairs:
        found, marked = looked.found, np.zeros(len(number), bool)
        # As `with_directions` returns them.
        found = found._replace(correlations=None, missing=number, directions=found.correlations)
        repair_batch.ahead(plan, observed, model, run, found, marked, marked, Cooling(np.zeros(len(number)), number))
    conclude_batch.ahead(plan, observed, model, run, 0.0)


@compiled(donate=3)
def run_batch(plan: Plan, observed: Observed, model: Model, run: Run, limit: Any, goal: Any, tolerance: Tolerance) -> tuple[Run, Any]:
    """Advance every instance to its `limit`, and say which could go on to their `goal`."""
    task = jax.vmap(plan.task)(observed, model) if limit.shape[0] > 1 else mapped(plan.task)(observed, model)
    if limit.shape[0] > 1:
        run = iterate_together(plan.solver, task, run, limit, tolerance)
    else:
        run = mapped(lambda task, run, limit: iterate(plan.solver, task, run, limit, tolerance))(task, run, limit)
    return run, mapped(lambda task, run, goal: going(plan.solver, task, run, goal, tolerance))(task, run, goal)


@compiled()
def inspect_batch(plan: Plan, observed: Observed, model: Model, run: Run) -> Verdict:
    def one(observed: Observed, model: Model, run: Run) -> Verdict:
        task, solver = plan.task(observed, model), plan.solver
        found = inspect(solver.learned(task, run.state), solver.estimate(task, run.state))
        return Verdict(found, solver.free_entropy(task, run.state))

    return mapped(one)(observed, model, run)


def completed(verdict: Verdict) -> Verdict:
    """A verdict with what the host adds to it."""
    found = with_directions(verdict.found)
    never = np.zeros(np.shape(found.finite), int)
    return Verdict(found, verdict.free_entropy, found.trouble, never, never)


@compiled()
def repair_batch(
    plan: Plan, observed: Observed, model: Model, run: Run, found: Findings, marked: Any, gently: Any, cooling: Cooling
) -> Run:
    def one(observed: Observed, model: Model, run: Run, found: Findings, marked: Any, gently: Any, cooling: Cooling) -> Run:
        mended = mend(plan.solver, plan.task(observed, model), run.state, found, gently, cooling)
        # What is not mended has settled and stays so: its history says that nothing changes.
        done = History(*(jnp.zeros_like(value) for value in run.history))._replace(age=jnp.ones_like(run.history.age))
        other = again(run, jax.tree.map(lambda new, old: jnp.where(marked, new, old), mended, run.state))
        history = jax.tree.map(lambda new, old: jnp.where(marked, new, old), other.history, done)
        return other._replace(history=history)

    return mapped(one)(observed, model, run, found, marked, gently, cooling)


def keep_better(kept: tuple[Run, Verdict], new: tuple[Run, Verdict]) -> tuple[Run, Verdict]:
    """Of two runs the one without trouble, or else the one of higher free entropy."""
    old, now = kept[1], new[1]
    higher = (now.free_entropy > old.free_entropy) | ~np.isfinite(old.free_entropy)
    better = np.where(now.trouble == old.trouble, higher, old.trouble)
    gained = now.free_entropy - old.free_entropy > WORTH / old.found.copy_of.shape[-1]
    if better.all() or not better.any():  # nothing to be put together
        run, best = new if better.all() else kept
    else:
        run, best = _chosen(better, new[0], kept[0]), jax.tree.map(partial(_choose, np, better), now, old)
    return run, best._replace(in_vain=np.where(gained, 0, old.in_vain + 1), heated=old.heated)


def _choose(library: Any, where: Any, yes: Any, no: Any) -> Any:
    return library.where(where.reshape((-1,) + (1,) * (yes.ndim - 1)), yes, no)


@compiled()
def _chosen(where: Any, yes: Run, no: Run) -> Run:
    return jax.tree.map(partial(_choose, jnp, where), yes, no)


@compiled()
def overlap_batch(plan: Plan, observed: Observed, model: Model, run: Run) -> Any:
    """Scalar products of the atoms with what is known of them beforehand."""

    def one(observed: Observed, model: Model, run: Run) -> Any:
        task = plan.task(observed, model)
        return plan.solver.estimate(task, run.state).F.mean.T @ task.start.mean

    return mapped(one)(observed, model, run)


@compiled()
def reorder_batch(plan: Plan, run: Run, place: Any, sign: Any, moved: Any) -> Run:
    def one(run: Run, place: Any, sign: Any, moved: Any) -> Run:
        state = plan.solver.reordered(run.state, place, sign)
        if state is None:  # the solver does not know how: its atoms stay where they are
            return run
        new = again(run, state)
        return jax.tree.map(lambda new, old: jnp.where(moved, new, old), new, run)

    return mapped(one)(run, place, sign, moved)


@compiled()
def conclude_batch(plan: Plan, observed: Observed, model: Model, run: Run, tolerance: Any) -> Conclusion:
    def one(observed: Observed, model: Model, run: Run) -> Conclusion:
        given, solver = plan.task(observed, model), plan.solver
        task, found = solver.learned(given, run.state), solver.estimate(given, run.state)
        F, X = _returned(task, found)
        z, variance = F.mean @ X.mean / jnp.asarray(plan.N**0.5, task.Y.dtype), Pair(F.variance, X.variance)
        mean = task.channel.fitted(task.Y, z, task.mask)
        residual = jnp.mean(task.seen(task.Y - mean) ** 2) / jnp.mean(task.seen_by_signal)
        nothing = jnp.mean(task.seen(task.Y - task.channel.predicted(jnp.zeros_like(task.Y))) ** 2) / jnp.mean(task.seen_by_signal)
        phi = solver.free_entropy(given, run.state)
        return Conclusion(
            mean=Pair(F.mean, X.mean),
            variance=variance,
            model=model_of(task),
            residual=residual,
            free_entropy=jnp.where(jnp.isnan(phi), -jnp.inf, phi),  # not a number ranks last
            finite=jnp.isfinite(residual) & jnp.all(jnp.isfinite(X.variance)) & jnp.all(jnp.isfinite(F.variance)),
            fits=residual <= WORSE_THAN_NOTHING * nothing + task.channel.noise_scale(task.power),
            settled=solver.finished(given, run.state, run.history, Tolerance(tolerance)),
            moved=jnp.any(F.mean != 0),
        )

    return mapped(one)(observed, model, run)


@compiled()
def means_batch(plan: Plan, observed: Observed, model: Model, run: Run) -> Pair[Any]:
    """The estimates as they are now."""

    def one(observed: Observed, model: Model, run: Run) -> Pair[Any]:
        given = plan.task(observed, model)
        found = plan.solver.estimate(given, run.state)
        F, X = _returned(plan.solver.learned(given, run.state), found)
        return Pair(F.mean, X.mean)

    return mapped(one)(observed, model, run)


def _returned(task: Task, found: Estimate) -> tuple[Moments, Moments]:
    """F and X, with prior means that were taken off put back."""
    return returned(task, found.F, found.X, found.offset, found.level) if task.removes_means else (found.F, found.X)


# A run that explains Y this much worse than z = 0 would has come apart.
WORSE_THAN_NOTHING = 1.5
