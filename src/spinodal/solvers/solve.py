"""`solve`: from observed data to estimates of F and X with their uncertainties."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, check, check_choice, check_count
from ..pair import Pair
from ..problem import Observed, Problem
from .amp import AMP
from .data import NO_MEANS
from .door import check_memory, check_observed
from .epochs import search
from .iterate import STATUSES, Progress, Trace
from .learning import Parameters, informed, parameters
from .offsets import returned
from .runs import Model, begin_batch, mapped, run_batch, start_batch
from .state import data_power, rescaled

# A run that explains Y this much worse than X = 0 would has come apart.
_WORSE_THAN_NOTHING = 1.5
# Arrays fetched from the device at a time.
_FETCHERS = 4
# Iterations between two calls of a progress callback.
_PROGRESS_STRIDE = 10


class Solution(NamedTuple):
    """Posterior means and variances of F and X, how the run ended, and its trace.

    status: "converged", "max_iterations", "diverged" (the best state is returned) or "degenerate" (settled, but nothing was learned, or
    atoms are copies, unused, or used far more than the prior allows). residual is the mean squared difference between Y and F X/sqrt(N).
    free_entropy is the Bethe free entropy log Z/(N P), higher is better, in the convention of the replica potential. parameters are the
    noise variance and the slab of X that were used: the given ones, or the learned ones where the solver learns. For a batch every field
    has a leading axis.
    """

    mean: Pair[Any]
    variance: Pair[Any]
    status: Any
    iterations: Any
    residual: Any
    free_entropy: Any
    trace: Any
    parameters: Parameters | None = None


def solve(
    observed: Observed,
    problem: Problem,
    solver: Any = None,
    *,
    n_atoms: int | None = None,
    max_iterations: int = 10_000,
    tolerance: float = 3e-4,
    restarts: int = 1,
    seed: int = 0,
    dtype: Any = np.float64,
    start: Solution | None = None,
    progress: Callable[[int, float, float], None] | None = None,
) -> Solution:
    """Recover F and X from Y (and F' and a mask, where given): the means and variances of the posterior, Eq. (4) of KMZ13.

    `problem` supplies the priors, the noise variance and eta; its alpha and pi play no part. A leading axis on the observed arrays means
    a batch of instances, solved together. `solver` is an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle; AMP() if left out.
    Without F' the atoms come back in any order and with any sign, and `restarts` starts are tried side by side, of which the best by status
    and free entropy is returned. `start` is a solution to go on from, of data of the same shape: its F and X take the place of what the
    priors and F' say. `progress(iteration, residual, damping)` is called from time to time. Results are NumPy arrays of `dtype`.
    """
    solver = AMP() if solver is None else solver
    if not (hasattr(solver, "estimate") or hasattr(solver, "step")) or isinstance(solver, type):
        raise InputError(f"solver must be an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle object, but {solver!r} was given.")
    observed, N, matrix = check_observed(observed, problem, n_atoms)
    check_count("max_iterations", max_iterations)
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    check_count("restarts", restarts)
    if restarts > 1 and matrix != "none":
        raise InputError(f"restarts must be 1 where F_prime says where to start, but {restarts} was given.")
    check_count("seed", seed, 0)
    if start is not None:
        _check_start(start, observed.Y.shape, N, restarts)
    check_choice("dtype", np.dtype(dtype).name, ("float64", "float32"))
    check_memory(observed.Y.shape, N, restarts * np.dtype(dtype).itemsize)
    batched = np.ndim(observed.Y) == 3
    if not batched:
        observed = jax.tree.map(lambda value: value[None], observed)
        start = None if start is None else jax.tree.map(lambda value: value[None], start._replace(trace=None))
    if hasattr(solver, "estimate"):
        solution = solver.estimate(observed, problem)
        solution = jax.tree.map(lambda value: value.astype(dtype) if value.dtype.kind == "f" else value, solution)
    else:
        # Accelerators round the inputs of single-precision products unless told not to; the residuals need all digits.
        with jax.enable_x64(np.dtype(dtype) == np.float64), jax.default_matmul_precision("highest"):
            problem = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), problem)
            observed = jax.tree.map(lambda value: jnp.asarray(value) if value.dtype == bool else jnp.asarray(value, dtype), observed)
            model = Model(solver, N, matrix, np.dtype(dtype).name, _means_to_remove(solver, problem))
            observed = jax.tree.map(lambda value: jnp.repeat(value, restarts, axis=0), observed) if restarts > 1 else observed
            solution = _solve_batch(model, observed, problem, max_iterations, tolerance, seed, progress, start)
            solution = _best_of(solution, restarts)
    return solution if batched else jax.tree.map(lambda value: value[0], solution)


def _check_start(start: Any, shape: tuple[int, ...], N: int, restarts: int) -> None:
    *batch, M, P = shape
    if not isinstance(start, Solution):
        raise InputError(f"start must be a Solution, but {type(start).__name__} was given.")
    if restarts > 1:
        raise InputError(f"restarts must be 1 with a solution to start from, but {restarts} was given.")
    shapes = (np.shape(start.mean.F), np.shape(start.mean.X))
    if shapes != ((*batch, M, N), (*batch, N, P)):
        raise InputError(
            f"start must have F of shape {(*batch, M, N)} and X of shape {(*batch, N, P)}, but {shapes[0]} and {shapes[1]} were given."
        )


def _means_to_remove(solver: Any, problem: Problem) -> Pair[bool]:
    """Which factors have a prior mean that is not zero, or is to be learned."""
    if not getattr(solver, "remove_means", False):
        return NO_MEANS
    has_mean = [bool(prior.moments().mean != 0) for prior in problem.prior]
    return Pair(F=has_mean[0], X=has_mean[1] or "mean" in getattr(solver, "learn", ()))


def _solve_batch(
    model: Model, observed: Observed, problem: Problem, max_iterations: int, tolerance: float, seed: int, progress: Any, start: Any
) -> Solution:
    keys = jax.vmap(lambda k: jax.random.fold_in(jax.random.key(seed), k))(jnp.arange(observed.Y.shape[0]))

    def go(run: Progress, allowed: int, looser: float = 1.0) -> Progress:
        """Up to `allowed` more iterations for every instance, in one compiled call unless progress is watched."""
        settled = looser * tolerance
        goal = jnp.minimum(run.iteration + allowed, max_iterations)
        stride = allowed if progress is None else _PROGRESS_STRIDE
        while True:
            run, unfinished = run_batch(model, observed, problem, run, jnp.minimum(goal, run.iteration + stride), goal, settled)
            if progress is not None:
                last = np.asarray(run.iteration).max() - 1
                progress(int(last) + 1, float(np.nanmean(run.trace.residual[:, last])), float(np.nanmean(run.trace.damping[:, last])))
            if not np.any(unfinished):
                return run

    run = begin_batch(model, observed, problem, keys, max_iterations)
    if start is not None:
        estimates = jax.tree.map(lambda value: jnp.asarray(value, model.dtype), (start.mean, start.variance))
        run = start_batch(model, observed, problem, run, *estimates)
    run, trouble = search(model, observed, problem, go, run, max_iterations)
    return _solution(model, observed, problem, run, trouble, tolerance)


def _best_of(solution: Solution, restarts: int) -> Solution:
    """Of each `restarts` solutions in a row the best: one that converged, if any did, of the highest free entropy."""
    status, phi = (np.reshape(value, (-1, restarts)) for value in (solution.status, solution.free_entropy))
    best = np.lexsort((phi, status == "converged"), axis=1)[:, -1] + restarts * np.arange(len(phi))
    return jax.tree.map(lambda value: value[best], solution) if restarts > 1 else solution


def _solution(model: Model, observed: Observed, problem: Problem, run: Progress, trouble: Any, tolerance: float) -> Solution:
    trace = _fetch_trace(run)
    solution = _fetch(_conclude(model, observed, problem, run, trouble, tolerance))
    lost = np.array(STATUSES)[solution.status] == "diverged"
    if lost.any():
        # The best state of a run that came apart: the one that was kept, or where it started.
        size = observed.Y.shape[0]
        state = run.best or begin_batch(model, observed, problem, jax.random.split(jax.random.key(0), size), run.trace.level.shape[1]).state
        best = _fetch(_conclude(model, observed, problem, run._replace(state=state), trouble, tolerance))
        solution = jax.tree.map(lambda kept, new: np.where(lost.reshape((-1,) + (1,) * (new.ndim - 1)), new, kept), solution, best)
        solution = solution._replace(status=np.where(lost, STATUSES.index("diverged"), solution.status))
    return solution._replace(status=np.array(STATUSES)[solution.status], trace=trace)


def _fetch(tree: Any) -> Any:
    """Arrays from the device, several at a time: one core alone does not fill the memory of the host as fast as the device sends."""
    with ThreadPoolExecutor(_FETCHERS) as pool:
        return jax.tree.unflatten(jax.tree.structure(tree), pool.map(np.asarray, jax.tree.leaves(tree)))


def _fetch_trace(run: Progress) -> Trace:
    """The trace, of which only the part that was written comes from the device: of a batch the rest can be most of all there is to copy."""
    size, length = run.trace.level.shape
    longest = int(np.max(run.iteration))
    written = min(length, 1 << max(longest - 1, 0).bit_length())  # a power of two, so that few sizes are compiled
    trace = Trace(*(np.full((size, length), np.nan, run.trace.level.dtype) for _ in run.trace))
    for whole, part in zip(trace, _fetch(_first_columns(run.trace, written)), strict=True):
        whole[:, :written] = part
    return trace


@partial(jax.jit, static_argnums=1)
def _first_columns(trace: Trace, count: int) -> Trace:
    return Trace(*(values[:, :count] for values in trace))


@partial(jax.jit, static_argnums=0)
def _conclude(model: Model, observed: Observed, problem: Problem, run: Progress, trouble: Any, tolerance: Any) -> Solution:
    """The estimates, residuals, free entropies, and statuses as indices into STATUSES; the trace is fetched apart."""

    def one(observed: Observed, run: Progress, trouble: Any) -> Solution:
        data, solver = informed(model.data(observed, problem), run.state), model.solver
        state = solver.marginals(data, run.state) if hasattr(solver, "marginals") else rescaled(run.state)
        phi = -solver.cost(data, state)
        F, X = returned(data, state.F, state.X, state.offset, state.level)
        state = state._replace(F=F, X=X)
        error = data.Y - state.F.mean @ state.X.mean / jnp.asarray(model.N**0.5, data.Y.dtype)
        error = error if data.mask is None else error * data.mask
        residual = jnp.mean(error**2) / jnp.mean(data.seen_by_signal)
        finite = jnp.isfinite(residual) & jnp.all(jnp.isfinite(state.X.variance)) & jnp.all(jnp.isfinite(state.F.variance))
        good = finite & (residual <= _WORSE_THAN_NOTHING * data_power(data) + data.noise)
        ending = jnp.where(run.change <= tolerance, STATUSES.index("converged"), STATUSES.index("max_iterations"))
        if model.matrix == "none":
            # Without F' an iteration from F = 0 stays there: settled, but nothing was learned.
            ending = jnp.where(jnp.all(state.F.mean == 0), STATUSES.index("degenerate"), ending)
        if trouble is not None:
            ending = jnp.where(trouble & (run.change <= tolerance), STATUSES.index("degenerate"), ending)
        code = jnp.where(good, ending, STATUSES.index("diverged"))
        phi = jnp.where(jnp.isnan(phi), -jnp.inf, phi)  # not a number ranks last
        return Solution(
            Pair(state.F.mean, state.X.mean),
            Pair(state.F.variance, state.X.variance),
            code,
            run.iteration,
            residual,
            phi,
            None,
            parameters(data),
        )

    return mapped(one)(observed, run, trouble)
