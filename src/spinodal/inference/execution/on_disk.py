"""Signals that do not fit in memory: Y is read in blocks of signals, X and g live in files beside the result, F in memory.

An iteration is the same pass over the signals as ever (`messages.one_pass`), block by block, with the sums for F added up on the way. So
the numbers are those of `solve`, to the order of the sums. Where F' is weak or missing, F is first learned by `solve` from as many signals
as fit; that is where the repairs happen, and none are made on disk.
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
from ...model.model import Problem
from ...model.priors.base import Moments
from ...model.sampling import Observed
from ...pair import Pair
from ..api import WORSE_THAN_NOTHING, Solution, solve
from ..checks import bytes_needed, check_observed, memory
from ..loop.iterate import FORGET, Trace
from ..loop.quantile import median
from ..messages.data import Data
from ..messages.gauge import gauge_step, has_gauge
from ..messages.state import State, unknown_signals
from ..messages.update import BOTH, ForMatrix, after_pass, counts_now, one_pass, prepare
from ..search.epochs import is_strong
from ..search.learning import parameters
from ..solvers.amp import AMP
from .batch import Model

# The share of the memory that blocks are made to fill; the system caches files in the rest.
_SHARE = 0.25
# Signals beyond this in a block make nothing faster.
_WIDEST = 65_536


class Files(NamedTuple):
    """Mean and variance of X, and g, as files: N x P, N x P and M x P."""

    mean: np.memmap[Any, Any]
    variance: np.memmap[Any, Any]
    g: np.memmap[Any, Any]


def solve_on_disk(
    Y: Any,
    problem: Problem,
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
    progress: Callable[[int, float, float], None] | None = None,
) -> Solution:
    """`solve` for a Y (M x P, NaN where missing) that is read block by block: a np.memmap, a Zarr array, anything sliced like one.

    X is written to X_mean.npy and X_variance.npy in `directory`, and the solution's are those files, mapped. `block` signals are in memory
    at a time; left out, as many as a quarter of the memory holds. The free entropy is not computed (-inf), and the solver must be an AMP of
    constant damping that learns no parameters.

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
    if not isinstance(solver, AMP) or solver.learn or solver.adaptive or not solver.rules.structure.local or solver.keeps_best:
        raise InputError(f"solver must be an AMP with constant damping, clipped gains and nothing to learn, but {solver!r} was given.")
    if len(getattr(Y, "shape", ())) != 2 or 0 in Y.shape:
        raise InputError(f"Y must be an M x P array on disk, but its shape is {getattr(Y, 'shape', None)}.")
    check_choice("dtype", np.dtype(dtype).name, ("float64", "float32"))
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    check_count("max_iterations", max_iterations)
    M, P = Y.shape
    first = Observed(np.nan_to_num(np.asarray(Y[:, :1], dtype=float)), F_prime, None)
    checked, N, matrix = check_observed(first, problem, n_atoms)
    width = _width(M, N, P, np.dtype(dtype).itemsize, block)
    where = _room_on_disk(Path(directory), M, N, P, np.dtype(dtype).itemsize)
    spans = [slice(start, min(start + width, P)) for start in range(0, P, width)]
    power, seen = _look_over(Y, spans)
    masked = bool(np.any(seen < 1))

    F = None
    if not is_strong(problem) and matrix != "exact":
        some = np.asarray(Y[:, :: -(-P // width)])
        start = Observed(some, F_prime, np.isfinite(some) if masked else None)
        F = solve(start, problem, solver, n_atoms=N, max_iterations=max_iterations, tolerance=tolerance, seed=seed, dtype=dtype)
    with jax.enable_x64(np.dtype(dtype) == np.float64), jax.default_matmul_precision("highest"):
        model = Model(solver, N, matrix, np.dtype(dtype).name)
        traced = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), problem)
        hint = None if checked.F_prime is None else jnp.asarray(checked.F_prime, dtype)
        # A column of the data's power has the data's noise floor.
        whole = model.data(Observed(jnp.full((M, 1), power**0.5, dtype), hint, None), traced)
        whole = whole._replace(rows=jnp.asarray(seen[:, None], dtype) if masked else None)
        per_signal: dict[str, Any] = dict.fromkeys(("X", "g", "level", "square"))  # not held in memory
        state = solver.init(whole, jax.random.key(seed))._replace(**per_signal)
        if F is not None:
            known = Moments(jnp.asarray(F.mean.F, dtype), jnp.asarray(F.variance.F, dtype))
            state = state._replace(F=known, noise=whole.noise, slow=jnp.asarray(0))
        files = Files(*(_file(where, name, rows, P, dtype) for name, rows in (("X_mean", N), ("X_variance", N), ("g", M))))
        run = _Run(model, traced, hint, whole, Y, masked, spans, files, 1 - solver.first_damping)
        state, trace, status = _iterate(run, state, max_iterations, tolerance, progress)
        residual = run.finish(state)
        good = np.isfinite(residual) and residual <= WORSE_THAN_NOTHING * power + float(whole.noise)
        mean, variance = (np.asarray(value) for value in state.F)
        used = jax.tree.map(np.asarray, parameters(whole))
    (where / "g.npy.part").unlink()
    X = []
    for name in ("X_mean", "X_variance"):
        (where / f"{name}.npy.part").replace(where / f"{name}.npy")
        X.append(np.load(where / f"{name}.npy", mmap_mode="r"))
    ended = status if good else "diverged"
    return Solution(Pair(mean, X[0]), Pair(variance, X[1]), ended, len(trace.level), residual, -np.inf, trace, used)


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
        raise InputError(f"directory must be there, but {str(directory)!r} is not.")
    needed, free = (2 * N + M) * P * size, shutil.disk_usage(directory).free
    if needed > free:
        raise InputError(f"directory must have room for X and g, but they need {needed / 1e9:.3g} GB and {free / 1e9:.3g} GB are free.")
    return directory


def _look_over(Y: Any, spans: list[slice]) -> tuple[float, np.ndarray]:
    """Mean square of Y with missing entries as zeros, and the fraction of each row that is there. Refuses what `solve` would."""
    M, P = Y.shape
    total, missing = 0.0, np.zeros(M)
    for span in spans:
        part = np.asarray(Y[:, span], dtype=float)
        hole = np.isnan(part)
        missing += hole.sum(axis=1)
        if np.isinf(part).any() or hole.all(axis=0).any():
            raise InputError(f"Y must be finite, with an observed entry in every column, but signals {span.start} to {span.stop} are not.")
        total += float(np.sum(np.where(hole, 0.0, part) ** 2))
    if (missing == P).any():
        raise InputError("Y must have an observed entry in every row, but some have none.")
    return total / (M * P), 1 - missing / P


def _file(directory: Path, name: str, rows: int, P: int, dtype: Any) -> np.memmap[Any, Any]:
    try:
        return np.lib.format.open_memmap(directory / f"{name}.npy.part", mode="w+", dtype=np.dtype(dtype), shape=(rows, P))
    except OSError as error:
        raise InputError(f"directory must be one that can be written, but {str(directory)!r} can't: {error.strerror or error}.") from None


class _Run(NamedTuple):
    """What stays the same from iteration to iteration."""

    model: Model
    problem: Any
    hint: Any
    whole: Data
    Y: Any
    masked: bool
    spans: list[slice]
    files: Files
    step_size: float

    def blocks(self) -> Iterator[tuple[slice, Observed]]:
        for span in self.spans:
            part = np.asarray(self.Y[:, span], dtype=self.model.dtype)
            yield span, Observed(jnp.asarray(part), self.hint, jnp.asarray(np.isfinite(part)) if self.masked else None)

    def sweep(self, state: State, first: bool) -> tuple[ForMatrix, np.ndarray, np.ndarray]:
        """One pass over all signals: X and g replaced in their files; the sums for F, and each signal's level and residual."""
        sums, level, square = None, [], []
        for span, observed in self.blocks():
            old = None if first else Signal(*(jnp.asarray(file[:, span]) for file in self.files))
            new, said, *own = _block(self.model, self.problem, observed, self.whole, state, old, self.step_size)
            for file, values in zip(self.files, new, strict=True):
                file[:, span] = values
            sums = said if sums is None else jax.tree.map(jnp.add, sums, said)
            level.append(np.asarray(own[0]))
            square.append(np.asarray(own[1]))
        assert sums is not None
        return sums, np.concatenate(level), np.concatenate(square)

    def finish(self, state: State) -> float:
        """Apply the pending scale to X; the mean squared residual of the estimates."""
        k = np.asarray(state.scale)[:, None]
        F, N = np.asarray(state.F.mean), self.model.N
        total, count = 0.0, 0
        for span, observed in self.blocks():
            self.files.mean[:, span] /= k
            self.files.variance[:, span] /= k**2
            error = np.asarray(observed.Y) - F @ self.files.mean[:, span] / np.sqrt(N)
            total, count = total + float(np.nansum(error**2)), count + int(np.isfinite(error).sum())
        for file in self.files:
            file.flush()
        return total / count if count else float("nan")


class Signal(NamedTuple):
    """Mean and variance of X, and g, of some signals."""

    mean: Any
    variance: Any
    g: Any


@partial(jax.jit, static_argnums=0)
def _block(
    model: Model, problem: Any, observed: Observed, whole: Data, state: State, old: Signal | None, step_size: Any
) -> tuple[Signal, ForMatrix, Any, Any]:
    """The pass over some signals; `old` is None before the first."""
    data = model.data(observed, problem)._replace(noise=whole.noise, rounding=whole.rounding, rows=whole.rows)
    M, _, P = data.sizes
    if old is None:
        prior = unknown_signals(data)
        old = Signal(prior.mean, prior.variance, jnp.zeros((M, P), data.Y.dtype))
    rules = model.solver.rules
    here = state._replace(X=Moments(old.mean, old.variance), g=old.g)
    step_X = jnp.where(state.age == 0, 1, step_size)
    new, sums = one_pass(rules, data, prepare(rules, data, state.F), here, BOTH, step_X, counts_now(state))
    return Signal(new.X.mean, new.X.variance, new.g), sums, new.level, new.square


@partial(jax.jit, static_argnums=0)
def _after(model: Model, whole: Data, state: State, sums: ForMatrix, step_size: Any) -> State:
    now = counts_now(state)
    state = after_pass(model.solver.rules, whole, state, sums, step_size)
    return gauge_step(whole, state, sums.power, now) if model.solver.gauge and has_gauge(whole) else state


def _iterate(run: _Run, state: State, max_iterations: int, tolerance: float, progress: Any) -> tuple[State, Trace, str]:
    """Pass after pass until the median level settles: the rule of `iterate.advance`."""
    rows: list[tuple[float, float, float, float]] = []
    smoothed, status = np.inf, "max_iterations"
    for k in range(max_iterations):
        sums, level, square = run.sweep(state, first=k == 0)
        state = _after(run.model, run.whole, state, sums, run.step_size)
        typical = float(median(jnp.asarray(level)))
        now = float(np.log(typical)) if typical > 0 else float("nan")
        smoothed = now + 1 if k == 0 else FORGET * smoothed + (1 - FORGET) * now
        change = abs(now - smoothed)
        rows.append((float(np.mean(square)), typical, 1 - run.step_size, change))
        if progress is not None:
            progress(k + 1, rows[-1][0], 1 - run.step_size)
        if not np.isfinite(change):
            break
        if change <= tolerance:
            status = "converged"
            break
    return state, Trace(*(np.array(column) for column in zip(*rows, strict=True))), status
