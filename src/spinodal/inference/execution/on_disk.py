"""Signals that do not fit in memory: Y is read in blocks of signals, X and g live in files beside the result, F in memory.

An iteration is the same pass over the signals as ever (`messages.update.one_pass`), block by block, with the sums for F added up on the
way. So the numbers are those of `solve`, to the order of the sums. Where F' is weak or missing, F is first learned by `solve` from as many
signals as fit; that is where the repairs happen, and none are made on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check, check_choice, check_count
from ...model.model import Model
from ...model.priors import Moments
from ...model.sampling import Observed
from ...pair import Pair
from .. import checks
from ..loop import History, Tolerance, median
from ..messages.gauge import gauge_step, has_gauge
from ..messages.means import OfAll, first_offsets, of_all, returned
from ..messages.update import ForMatrix, State, after_pass, counts_now, first_state, one_pass, prepare, unknown_signals
from ..search.search import is_strong
from ..solution import Solution, Status, Trace, going_on
from ..solvers.amp import AMP
from ..task import Task
from .batch import WORSE_THAN_NOTHING, Plan
from .machine import OneDevice, bytes_needed, computing, memory
from .programs import compiled

# The share of the memory that blocks are made to fill; the system caches files in the rest.
_SHARE = 0.25
# Signals beyond this in a block make nothing faster.
_WIDEST = 65_536


class Signal(NamedTuple):
    """Mean and variance of X (N x P), and g (M x P): as files, or of some signals."""

    mean: Any
    variance: Any
    g: Any


def solve_on_disk(
    Y: Any,
    model: Model,
    directory: str | Path,
    solver: AMP | None = None,
    *,
    F_prime: Any = None,
    n_atoms: int | None = None,
    block: int | None = None,
    max_iterations: int = 10_000,
    tolerance: float = 3e-4,
    seed: int = 0,
    dtype: Any = np.float64,
    progress: Callable[[str, int, float], None] | None = None,
) -> Solution:
    """`solve` for a Y (M x P, NaN where missing) that is read block by block: a np.memmap, a Zarr array, anything sliced like one.

    X is written to X_mean.npy and X_variance.npy in `directory`, and the solution's are those files, mapped. `block` signals are in memory
    at a time; left out, as many as a quarter of the memory holds. The free entropy is not computed (-inf), and the solver must be an AMP of
    constant damping.

    Examples:
        >>> import tempfile
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     solution = sp.solve_on_disk(instance.observed.Y, problem, folder, F_prime=instance.observed.F_prime, block=40)
        ...     print(type(solution.mean.X).__name__, solution.mean.X.shape)
        memmap (20, 120)
    """
    solver = AMP() if solver is None else solver
    if type(solver) is not AMP or isinstance(solver.damping, str) or not solver.blockwise or solver.can_diverge:
        raise InputError(f"solver must be an AMP with constant damping and clipped gains, but {solver!r} was given.")
    if len(getattr(Y, "shape", ())) != 2 or 0 in Y.shape:
        raise InputError(f"Y must be an M x P array on disk, but its shape is {getattr(Y, 'shape', None)}.")
    check_choice("dtype", np.dtype(dtype).name, ("float64", "float32"))
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    check_count("max_iterations", max_iterations)
    M, P = Y.shape
    first, _ = checks.as_observed(np.nan_to_num(np.asarray(Y[:, :1], dtype=float)), F_prime)
    checks.check_models([model], 1)
    observed, knowledge = checks.check_knowledge(first, model.knowledge)
    model = Model(model.prior, model.channel, knowledge)
    if model.channel.by_rows:
        raise InputError(
            f"channel must look at one entry at a time for solve_on_disk, but {type(model.channel).__name__} needs whole rows."
        )
    if (fault := model.channel.fault_of_shape((M, P))) is not None:
        raise InputError(fault)
    if model.channel.by_signal():
        raise InputError(f"noise_variance must be a number or {M} x 1 for solve_on_disk, but it has a column for each signal.")
    solver = solver.suited(model.channel)
    N = checks.count_atoms(first.F_prime, n_atoms)
    width = _width(M, N, P, np.dtype(dtype).itemsize, block)
    where = _room_on_disk(Path(directory), M, N, P, np.dtype(dtype).itemsize)
    spans = [slice(start, min(start + width, P)) for start in range(0, P, width)]
    seen = _look_over(Y, spans)
    masked = bool(np.any(seen.rows < 1))

    F = None
    if not is_strong(knowledge, model.prior.F):
        from ..api import solve

        some = np.asarray(Y[:, :: -(-P // width)])
        F = solve(
            some,
            model,
            solver,
            center=False,  # nothing is taken off the rest either
            F_prime=observed.F_prime,
            n_atoms=N,
            max_iterations=max_iterations,
            tolerance=tolerance,
            seed=seed,
            dtype=dtype,
        )
    with computing(dtype, OneDevice()):
        away = Pair(*(solver.remove_means and bool(prior.moments().mean != 0) for prior in model.prior))
        plan = Plan(solver, N, np.dtype(dtype).name, away)
        traced = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), model)
        hint = None if observed.F_prime is None else jnp.asarray(observed.F_prime, dtype)
        # A column of the data's power has the data's noise floor.
        column = Observed(jnp.full((M, 1), seen.power**0.5, dtype), hint, None)
        whole, state = _beginning(plan, traced, column, jnp.asarray(seen.rows[:, None], dtype) if masked else None)
        if F is not None:
            state = state._replace(F=Moments(jnp.asarray(F.mean.F, dtype), jnp.asarray(F.variance.F, dtype)))
        offset = Pair(F=None if away.X is False else jnp.asarray(seen.means[:, None], dtype), X=None)
        absent: Any = dict.fromkeys(("X", "g", "level", "square"))  # not held in memory
        state = state._replace(**absent, offset=offset)
        files = Signal(*(_file(where, name, rows, P, dtype) for name, rows in (("X_mean", N), ("X_variance", N), ("g", M))))
        columns = np.zeros(P, dtype) if away.F else None
        run = _Passes(plan, traced, hint, whole, Y, masked, spans, files, columns, 1 - float(solver.damping))
        state, level, trace, status, reason = _iterate(run, state, max_iterations, tolerance, progress)
        state, residual = run.finish(state, level)
        good = np.isfinite(residual) and residual <= WORSE_THAN_NOTHING * seen.power + float(whole.channel.noise_scale(whole.power))
        mean, variance = (np.asarray(value) for value in state.F)
    (where / "g.npy.part").unlink()
    X = []
    for name in ("X_mean", "X_variance"):
        (where / f"{name}.npy.part").replace(where / f"{name}.npy")
        X.append(np.load(where / f"{name}.npy", mmap_mode="r"))
    if not good:
        status, reason = Status.DIVERGED, "the estimates explain the data worse than nothing would"
    if F is not None:
        status, reason = going_on(status, reason, Status(F.status))
    return Solution(Pair(mean, X[0]), Pair(variance, X[1]), status, reason, len(trace.level), residual, -np.inf, trace, model)


def _width(M: int, N: int, P: int, size: int, block: int | None) -> int:
    """Signals in a block: those asked for, if they fit, or as many as are of use."""
    room = memory()
    if block is not None:
        check_count("block", block)
        needed = bytes_needed(M, N, min(block, P), size)
        if needed > room:
            raise InputError(f"block must leave room in memory, but {block} signals need {needed / 1e9:.3g} of {room / 1e9:.3g} GB.")
        return min(block, P)
    if bytes_needed(M, N, 1, size) > _SHARE * room:
        needed = bytes_needed(M, N, 1, size)
        raise InputError(f"Y and n_atoms must leave room for F in memory, but {M} x {N} needs {needed / 1e9:.3g} of {room / 1e9:.3g} GB.")
    each = bytes_needed(M, N, 2, size) - bytes_needed(M, N, 1, size)
    return int(min(P, _WIDEST, 1 + (_SHARE * room - bytes_needed(M, N, 1, size)) // each))


def _room_on_disk(directory: Path, M: int, N: int, P: int, size: int) -> Path:
    if not directory.is_dir():
        raise InputError(f"directory {str(directory)!r} does not exist.")
    needed, free = (2 * N + M) * P * size, shutil.disk_usage(directory).free
    if needed > free:
        raise InputError(f"directory must have room for X and g, but they need {needed / 1e9:.3g} GB and {free / 1e9:.3g} GB are free.")
    return directory


class _Seen(NamedTuple):
    """Mean square of the observed entries, the fraction of each row that is there, and its mean."""

    power: float
    rows: np.ndarray
    means: np.ndarray


def _look_over(Y: Any, spans: list[slice]) -> _Seen:
    """What must be known of all of Y beforehand. Refuses what `solve` would."""
    M, P = Y.shape
    total, missing, sums = 0.0, np.zeros(M), np.zeros(M)
    for span in spans:
        part = np.asarray(Y[:, span], dtype=float)
        hole = np.isnan(part)
        missing += hole.sum(axis=1)
        if np.isinf(part).any() or hole.all(axis=0).any():
            raise InputError(f"Y must be finite, with an observed entry in every column, but signals {span.start} to {span.stop} are not.")
        there = np.where(hole, 0.0, part)
        total, sums = total + float(np.sum(there**2)), sums + there.sum(axis=1)
    if (missing == P).any():
        raise InputError("Y must have an observed entry in every row, but some have none.")
    return _Seen(total / (M * P - missing.sum()), 1 - missing / P, sums / (P - missing))


def _file(directory: Path, name: str, rows: int, P: int, dtype: Any) -> np.memmap[Any, Any]:
    try:
        return np.lib.format.open_memmap(directory / f"{name}.npy.part", mode="w+", dtype=np.dtype(dtype), shape=(rows, P))
    except OSError as error:
        raise InputError(f"directory must be one that can be written, but {str(directory)!r} can't: {error.strerror or error}.") from None


class _Passes(NamedTuple):
    """What stays the same from iteration to iteration."""

    plan: Plan
    model: Any
    hint: Any
    whole: Task
    Y: Any
    masked: bool
    spans: list[slice]
    files: Signal
    columns: np.ndarray | None  # what the mean of F contributes to each signal, where it has one
    step_size: float

    def blocks(self) -> Iterator[tuple[slice, Observed]]:
        for span in self.spans:
            part = np.asarray(self.Y[:, span], dtype=self.plan.dtype)
            yield span, Observed(jnp.asarray(part), self.hint, jnp.asarray(np.isfinite(part)) if self.masked else None)

    def sweep(self, state: State, first: bool) -> tuple[ForMatrix, Any, np.ndarray, np.ndarray]:
        """One pass over all signals: X and g replaced in their files; the sums for F and of each row of X, each signal's level and
        residual."""
        sums, level, square = None, [], []
        for span, observed in self.blocks():
            old = None if first else Signal(*(jnp.asarray(file[:, span]) for file in self.files))
            column = None if self.columns is None else jnp.asarray(self.columns[span])
            new, *said, v, own_level, own_square = _block(self.plan, self.model, observed, self.whole, state, old, column, self.step_size)
            for file, values in zip(self.files, new, strict=True):
                file[:, span] = values
            if self.columns is not None:
                self.columns[span] = v
            sums = said if sums is None else jax.tree.map(jnp.add, sums, said)
            level.append(np.asarray(own_level))
            square.append(np.asarray(own_square))
        assert sums is not None
        return (*sums, np.concatenate(level), np.concatenate(square))

    def over_all(self, state: State, level: np.ndarray) -> OfAll | None:
        """What must be known of all signals before means are given back."""
        if not any(self.plan.centre):
            return None
        parts = []
        for span, observed in self.blocks():
            column = None if self.columns is None else jnp.asarray(self.columns[span])
            X = Moments(*(jnp.asarray(file[:, span]) for file in (self.files.mean, self.files.variance)))
            share = (span.stop - span.start) / len(level)
            here = _of_all(self.plan, self.model, observed, self.whole, state, X, column, jnp.asarray(level[span]))
            parts.append(OfAll(share * here.v, share * here.columns, here.certain))
        return OfAll(*(sum(values) for values in zip(*parts, strict=True)))

    def finish(self, state: State, level: np.ndarray) -> tuple[State, float]:
        """Apply the pending scale to X and give means back what was taken off; the mean squared residual of the estimates."""
        root, total, count = np.sqrt(self.plan.N), 0.0, 0
        F, over = None, self.over_all(state, level)
        for span, observed in self.blocks():
            column = None if self.columns is None else jnp.asarray(self.columns[span])
            X = Moments(*(jnp.asarray(file[:, span]) for file in (self.files.mean, self.files.variance)))
            F, X = _returned(self.plan, self.model, observed, self.whole, state, X, column, jnp.asarray(level[span]), over)
            self.files.mean[:, span], self.files.variance[:, span] = X
            error = np.asarray(observed.Y) - np.asarray(F.mean) @ self.files.mean[:, span] / root
            total, count = total + float(np.nansum(error**2)), count + int(np.isfinite(error).sum())
        for file in self.files:
            file.flush()
        assert F is not None
        return state._replace(F=F), total / count if count else float("nan")


@compiled()
def _beginning(plan: Plan, model: Any, observed: Observed, rows: Any) -> tuple[Task, State]:
    task = plan.task(observed, model)._replace(rows=rows)
    return task, first_state(task)


def _part(plan: Plan, model: Any, observed: Observed, whole: Task) -> Task:
    """The task of some signals, with what was seen of all."""
    task = plan.task(observed, model)
    return task._replace(channel=whole.channel, power=whole.power, rounding=whole.rounding, rows=whole.rows)


@partial(jax.jit, static_argnums=0)
def _block(
    plan: Plan, model: Any, observed: Observed, whole: Task, state: State, old: Signal | None, column: Any, step_size: Any
) -> tuple[Signal, ForMatrix, Any, Any, Any, Any]:
    """The pass over some signals; `old` is None before the first."""
    task = _part(plan, model, observed, whole)
    M, _, P = task.sizes
    offset = state.offset._replace(X=column)
    if old is None:
        prior = unknown_signals(task)
        old = Signal(prior.mean, prior.variance, jnp.zeros((M, P), task.Y.dtype))
        offset = offset._replace(X=first_offsets(task, offset.F).X)
    rules = plan.solver.rules  # type: ignore[attr-defined]
    here = state._replace(X=Moments(old.mean, old.variance), g=old.g, offset=offset)
    step_X = jnp.where(state.age == 0, 1, step_size)
    new, sums = one_pass(rules, task, prepare(rules, task, state.F), here, step_X, counts_now(state))
    return Signal(new.X.mean, new.X.variance, new.g), sums, jnp.sum(new.X.mean, axis=1), new.offset, new.level, new.square


@partial(jax.jit, static_argnums=0)
def _of_all(plan: Plan, model: Any, observed: Observed, whole: Task, state: State, X: Moments, column: Any, level: Any) -> OfAll:
    return of_all(_part(plan, model, observed, whole), _scaled(X, state), state.offset._replace(X=column), level)


@partial(jax.jit, static_argnums=0)
def _returned(plan: Plan, model: Any, observed: Observed, whole: Task, state: State, X: Moments, column: Any, level: Any, over: Any) -> Any:
    task = _part(plan, model, observed, whole)
    return returned(task, state.F, _scaled(X, state), state.offset._replace(X=column), level, over)


def _scaled(X: Moments, state: State) -> Moments:
    k = state.scale[:, None]
    return Moments(X.mean / k, X.variance / k**2)


@partial(jax.jit, static_argnums=0)
def _after(plan: Plan, whole: Task, state: State, sums: ForMatrix, rows: Any, step_size: Any) -> State:
    now = counts_now(state)
    solver: Any = plan.solver
    state = after_pass(solver.rules, whole, state, sums, step_size)
    if not (solver.gauge and has_gauge(whole)):
        return state
    # All that the gauge asks of X is the sum of each row: one column that has it stands for all.
    column = Moments(rows[:, None], jnp.zeros_like(rows[:, None]))
    return gauge_step(whole, state._replace(X=column), sums.power, now)._replace(X=state.X)


@jax.jit
def _next(history: History, level: Any, square: Any) -> History:
    return history.after(median(level), jnp.mean(square))


def _iterate(run: _Passes, state: State, max_iterations: int, tolerance: float, progress: Any) -> tuple[State, Any, Trace, Status, str]:
    """Pass after pass until the median level settles: the rule of `loop`. Also the last level of each signal."""
    rows: list[tuple[float, float, float, float]] = []
    history, status = History.start(run.plan.dtype), Status.MAX_ITERATIONS
    for k in range(max_iterations):
        sums, sums_of_X, level, square = run.sweep(state, first=k == 0)
        state = _after(run.plan, run.whole, state, sums, sums_of_X, run.step_size)
        history = _next(history, level, square)
        rows.append((float(history.residual), float(history.level), 1 - run.step_size, float(history.change)))
        if progress is not None:
            progress("iterating", k + 1, rows[-1][0])
        if not bool(history.healthy):
            break
        if bool(history.settled(Tolerance(tolerance))):
            status = Status.CONVERGED
            break
    words = "settled after" if status is Status.CONVERGED else "had not settled after"
    trace = Trace(*(np.array(column) for column in zip(*rows, strict=True)))
    return state, level, trace, status, f"the run {words} {len(rows)} iterations"
