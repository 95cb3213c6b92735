"""`solve`: from observed data to estimates of F and X with their uncertainties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, check, check_choice, check_count
from ..model.model import Problem
from ..model.sampling import Observed, stacked
from ..pair import Pair
from .checks import check_memory, check_observed
from .execution.batch import Model, begin_batch, mapped, run_batch, start_batch
from .execution.checkpoint import Checkpoint, fingerprint
from .execution.sharding import Placement, gathered
from .execution.transfer import fetch
from .loop.iterate import STATUSES, Progress, Tolerance, Trace
from .messages.data import NO_MEANS, Data
from .messages.means import returned
from .messages.state import State, data_power, rescaled
from .search.epochs import Place, is_strong, search
from .search.learning import Parameters, informed, parameters
from .solvers.amp import AMP

# A run that explains Y this much worse than X = 0 would has come apart.
WORSE_THAN_NOTHING = 1.5
# Iterations between two calls of a progress callback.
_PROGRESS_STRIDE = 10
# Whoever watches is shown every iteration at first, then one each time their number has grown by this share, or by so many.
_WATCHED_SHARE, _WATCHED_MOST = 0.1, 20


class Solution(NamedTuple):
    """Posterior means and variances of F and X, how the run ended, and its trace.

    For a batch every field has a leading axis, and traces are as long as the longest run, NaN where a run had ended.

    Attributes:
        mean: posterior means of F (M x N) and X (N x P).
        variance: posterior variances of the same.
        status: "converged", "max_iterations", "diverged" (the best state is returned) or "degenerate" (settled, but nothing was learned,
            or atoms are copies, unused, or used far more than the prior allows).
        iterations: how many there were.
        residual: mean squared difference between Y and F X/sqrt(N).
        free_entropy: the Bethe free entropy log Z/(N P), higher is better, in the convention of the replica potential.
        trace: residual, level, damping and change of each iteration.
        parameters: noise variance and slab of X that were used: the given ones, or the learned ones where the solver learns.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem)
        >>> solution.mean.F.shape, solution.variance.X.shape
        ((12, 20), (20, 120))
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
    problem: Problem | Sequence[Problem],
    solver: Any = None,
    *,
    n_atoms: int | None = None,
    max_iterations: int = 10_000,
    tolerance: float = 3e-4,
    restarts: int = 1,
    seed: int | Sequence[int] = 0,
    dtype: Any = np.float64,
    start: Solution | None = None,
    progress: Callable[[int, float, float], None] | None = None,
    watch: Callable[[int, Pair[Any]], None] | None = None,
    checkpoint: str | Path | None = None,
    every: int = 100,
    mesh: Any = None,
) -> Solution:
    """Recover F and X from Y (and F' and a mask, where given): the means and variances of the posterior, Eq. (4) of KMZ13.

    `problem` supplies the priors, the noise variance and eta; its alpha and pi play no part. A leading axis on the observed arrays means
    a batch of instances, solved together; each may have its own problem (of one kind) and its own seed. `solver` is an
    AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle; AMP() if left out.
    Without F' the atoms come back in any order and with any sign, and `restarts` starts are tried side by side, of which the best by status
    and free entropy is returned. `start` is a solution to go on from, of data of the same shape: its F and X take the place of what the
    priors and F' say. `progress(iteration, residual, damping)` is called from time to time, and so is `watch(iteration, means)` with the
    means of F and X, after every iteration at first; what either raises ends the solve. Results are NumPy arrays of `dtype`.

    `checkpoint` is a file that the whole state is written to after `every` iterations; if it is there already, the solve goes on from it,
    to the same numbers. `mesh` is a jax.sharding.Mesh over whose devices the signals are divided.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem)
        >>> str(solution.status)
        'converged'
        >>> found = sp.score(solution.mean, instance.truth)
        >>> bool(np.median(found.signals) < 1.5 * sp.amp_mse(problem).mse.X)  # the typical signal is at its predicted error
        True
    """
    solver = AMP() if solver is None else solver
    if not (hasattr(solver, "estimate") or hasattr(solver, "step")) or isinstance(solver, type):
        raise InputError(f"solver must be an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle object, but {solver!r} was given.")
    problems: list[Problem] = _of_one_kind(problem) if isinstance(problem, (list, tuple)) else [problem]  # type: ignore[list-item]
    observed, N, matrix = check_observed(observed, problems[0], n_atoms)
    check_count("max_iterations", max_iterations)
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    check_count("restarts", restarts)
    if restarts > 1 and matrix != "none":
        raise InputError(f"restarts must be 1 where F_prime says where to start, but {restarts} was given.")
    seeds: list[int] = list(seed) if isinstance(seed, (list, tuple, np.ndarray)) else [seed]  # type: ignore[list-item]
    for each in seeds:
        check_count("seed", each, 0)
    if start is not None:
        _check_start(start, observed.Y.shape, N, restarts)
    batched = np.ndim(observed.Y) == 3
    size = len(observed.Y) if batched else 1
    for name, given in (("problem", problems), ("seed", seeds)):
        if len(given) not in (1, size):
            raise InputError(f"{name} must be one, or one for each of the {size} instances, but {len(given)} were given.")
    check_choice("dtype", np.dtype(dtype).name, ("float64", "float32"))
    check_count("every", every)
    placement = Placement(mesh, observed.Y.shape[-1])
    check_memory(observed.Y.shape, N, restarts * np.dtype(dtype).itemsize, placement.memories)
    if hasattr(solver, "estimate") and (mesh is not None or checkpoint is not None):
        raise InputError(f"mesh and checkpoint must be left out with {type(solver).__name__}, which has no iterations to divide or save.")
    if not batched:
        observed = jax.tree.map(lambda value: value[None], observed)
        start = None if start is None else jax.tree.map(lambda value: value[None], start._replace(trace=None))
    if hasattr(solver, "estimate"):
        solution = _estimate_each(solver, observed, problems)
        solution = jax.tree.map(lambda value: value.astype(dtype) if value.dtype.kind == "f" else value, solution)
    else:
        # Accelerators round the inputs of single-precision products unless told not to; the residuals need all digits.
        with jax.enable_x64(np.dtype(dtype) == np.float64), jax.default_matmul_precision("highest"), placement.active():
            saved = None
            if checkpoint is not None:
                about = (observed, problems, solver, N, dtype, max_iterations, tolerance, restarts, seeds, start and start.mean)
                saved = Checkpoint(Path(checkpoint), every, fingerprint(*about))
            keys = _keys(jnp.asarray(np.asarray(seeds, dtype=np.int64)), size, restarts)
            together = jax.tree.map(lambda leaf: jnp.asarray(np.broadcast_to(leaf, (size, *leaf.shape[1:]))), stacked(problems, dtype))
            observed = jax.tree.map(lambda value: value if value.dtype == bool else value.astype(dtype, copy=False), observed)
            observed, together, keys = placement.columns(observed), placement.everywhere(together), placement.everywhere(keys)
            model = Model(solver, N, matrix, np.dtype(dtype).name, _means_to_remove(solver, problems))
            if restarts > 1:
                observed, together = jax.tree.map(lambda value: jnp.repeat(value, restarts, axis=0), (observed, together))
            shown = None if watch is None or batched else lambda iteration, means: watch(iteration, Pair(*(value[0] for value in means)))
            callbacks = progress, watch if batched else shown
            solution = _solve_batch(model, observed, together, keys, max_iterations, tolerance, callbacks, placement, saved, start)
            solution = _best_of(solution, restarts)
    return solution if batched else jax.tree.map(lambda value: value[0], solution)


def _of_one_kind(problems: Sequence[Problem]) -> list[Problem]:
    """Problems that one compiled run can serve: the same priors up to their numbers, and F known in the same way."""
    problems = list(problems)
    if not problems or not all(isinstance(problem, Problem) for problem in problems):
        raise InputError(f"problem must be a Problem or a list of them, but {problems!r} was given.")
    kinds = {(jax.tree.structure(problem), problem.eta == 0, bool(np.isinf(problem.eta)), is_strong(problem)) for problem in problems}
    if len(kinds) > 1:
        raise InputError(
            f"problem must hold problems of one kind (priors; eta zero, small, large or infinite), but there are {len(kinds)} kinds."
        )
    return problems


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


def _means_to_remove(solver: Any, problems: Sequence[Problem]) -> Pair[bool]:
    """Which factors have a prior mean that is not zero in some problem, or is to be learned."""
    if not getattr(solver, "remove_means", False):
        return NO_MEANS
    F, X = (any(bool(prior.moments().mean != 0) for prior in priors) for priors in zip(*(one.prior for one in problems), strict=True))
    return Pair(F=F, X=X or "mean" in getattr(solver, "learn", ()))


@partial(jax.jit, static_argnums=(1, 2))
def _keys(seeds: Any, size: int, restarts: int) -> Any:
    """A random key for every start. An instance with a seed of its own has the keys it would have alone."""
    own, starts = jnp.broadcast_to(seeds, (size,)), jnp.tile(jnp.arange(restarts), size)
    if seeds.shape[0] == 1:
        starts = jnp.arange(size * restarts)
    return jax.vmap(lambda seed, k: jax.random.fold_in(jax.random.key(seed), k))(jnp.repeat(own, restarts), starts)


def _estimate_each(solver: Any, observed: Observed, problems: list[Problem]) -> Solution:
    """The solution of a method that does not iterate here, instance by instance where the problems differ."""
    if len(problems) == 1:
        return solver.estimate(observed, problems[0])
    parts = [solver.estimate(jax.tree.map(lambda value, k=k: value[k : k + 1], observed), problem) for k, problem in enumerate(problems)]
    return jax.tree.map(lambda *values: np.concatenate(values), *parts)


def _solve_batch(
    model: Model,
    observed: Observed,
    problem: Problem,
    keys: Any,
    max_iterations: int,
    tolerance: float,
    callbacks: tuple[Any, Any],
    placement: Placement,
    saved: Checkpoint | None,
    start: Solution | None,
) -> Solution:
    progress, watch = callbacks
    stride = _PROGRESS_STRIDE if progress is not None else max_iterations
    stride = stride if saved is None else min(stride, saved.every)
    run = placement.run(begin_batch(model, observed, problem, keys, max_iterations))
    place, goal_left = Place(), None
    if saved is not None and saved.path.exists():
        place, goal_left, run = saved.load(model, observed, problem, run, placement)

    def go(run: Progress, allowed: int, looser: float | None, place: Place) -> Progress:
        """Up to `allowed` more iterations for every instance, in one compiled call unless progress is watched or the state saved."""
        nonlocal goal_left
        settled = Tolerance.of(tolerance, looser)
        goal = jnp.minimum(run.iteration + allowed, max_iterations) if goal_left is None else goal_left
        goal_left = None  # of a run that was interrupted
        while True:
            step = stride if watch is None else min(stride, _WATCHED_MOST, 1 + int(_WATCHED_SHARE * int(np.max(run.iteration))))
            run, unfinished = run_batch(model, observed, problem, run, jnp.minimum(goal, run.iteration + step), goal, settled)
            if progress is not None:
                last = np.asarray(run.iteration).max() - 1
                progress(int(last) + 1, float(np.nanmean(run.trace.residual[:, last])), float(np.nanmean(run.trace.damping[:, last])))
            if watch is not None:
                watch(int(np.max(run.iteration)), fetch(gathered(_means(model, observed, problem, run))))
            if saved is not None:
                saved.offer(place, goal, run)
            if not np.any(unfinished):
                return run

    if start is not None and goal_left is None:
        estimates = jax.tree.map(lambda value: jnp.asarray(value, model.dtype), (start.mean, start.variance))
        run = placement.run(start_batch(model, observed, problem, run, *estimates))
    run, trouble = search(model, observed, problem, go, run, max_iterations, place)
    return _solution(model, observed, problem, run, trouble, tolerance, keys)


def _best_of(solution: Solution, restarts: int) -> Solution:
    """Of each `restarts` solutions in a row the best: one that converged, if any did, of the highest free entropy."""
    status, phi = (np.reshape(value, (-1, restarts)) for value in (solution.status, solution.free_entropy))
    best = np.lexsort((phi, status == "converged"), axis=1)[:, -1] + restarts * np.arange(len(phi))
    return jax.tree.map(lambda value: value[best], solution) if restarts > 1 else solution


def _solution(model: Model, observed: Observed, problem: Problem, run: Progress, trouble: Any, tolerance: float, keys: Any) -> Solution:
    solution, trace = fetch(gathered((_conclude(model, observed, problem, run, trouble, tolerance), _written(run))))
    lost = np.array(STATUSES)[solution.status] == "diverged"
    if lost.any():
        # The best state of a run that came apart: the one that was kept, or where it started.
        state = run.best or begin_batch(model, observed, problem, keys, run.trace.level.shape[1]).state
        best = fetch(gathered(_conclude(model, observed, problem, run._replace(state=state), trouble, tolerance)))
        solution = jax.tree.map(lambda kept, new: np.where(lost.reshape((-1,) + (1,) * (new.ndim - 1)), new, kept), solution, best)
        solution = solution._replace(status=np.where(lost, STATUSES.index("diverged"), solution.status))
    longest = np.max(solution.iterations)
    return solution._replace(status=np.array(STATUSES)[solution.status], trace=Trace(*(values[:, :longest] for values in trace)))


def _written(run: Progress) -> Trace:
    """The trace as far as it was written, or a little further: of a batch the rest can be most of all there is to copy."""
    longest = int(np.max(run.iteration))
    return _first_columns(run.trace, min(run.trace.level.shape[1], 1 << max(longest - 1, 0).bit_length()))  # few sizes are compiled


@partial(jax.jit, static_argnums=1)
def _first_columns(trace: Trace, count: int) -> Trace:
    return Trace(*(values[:, :count] for values in trace))


def _marginals(model: Model, observed: Observed, problem: Problem, run: Progress) -> tuple[Data, State]:
    """The data of one instance with what was learned, and the state in the units of the problem."""
    data, solver = informed(model.data(observed, problem), run.state), model.solver
    return data, solver.marginals(data, run.state) if hasattr(solver, "marginals") else rescaled(run.state)


@partial(jax.jit, static_argnums=0)
def _means(model: Model, observed: Observed, problem: Problem, run: Progress) -> Pair[Any]:
    """The estimates as they are now."""

    def one(observed: Observed, problem: Problem, run: Progress) -> Pair[Any]:
        data, state = _marginals(model, observed, problem, run)
        F, X = returned(data, state.F, state.X, state.offset, state.level)
        return Pair(F.mean, X.mean)

    return mapped(one)(observed, problem, run)


@partial(jax.jit, static_argnums=0)
def _conclude(model: Model, observed: Observed, problem: Problem, run: Progress, trouble: Any, tolerance: Any) -> Solution:
    """The estimates, residuals, free entropies, and statuses as indices into STATUSES; the trace is fetched apart."""

    def one(observed: Observed, problem: Problem, run: Progress, trouble: Any) -> Solution:
        data, state = _marginals(model, observed, problem, run)
        phi = -model.solver.cost(data, state)
        F, X = returned(data, state.F, state.X, state.offset, state.level)
        state = state._replace(F=F, X=X)
        error = data.Y - state.F.mean @ state.X.mean / jnp.asarray(model.N**0.5, data.Y.dtype)
        error = error if data.mask is None else error * data.mask
        residual = jnp.mean(error**2) / jnp.mean(data.seen_by_signal)
        finite = jnp.isfinite(residual) & jnp.all(jnp.isfinite(state.X.variance)) & jnp.all(jnp.isfinite(state.F.variance))
        good = finite & (residual <= WORSE_THAN_NOTHING * data_power(data) + data.noise)
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

    return mapped(one)(observed, problem, run, trouble)
