"""`solve`: from observed data to estimates of F and X with their uncertainties."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from ..errors import InputError, check, check_choice, check_count
from ..pair import Pair
from ..problem import Observed, Problem
from .amp import AMP
from .data import Data, make_data
from .door import check_observed
from .iterate import STATUSES, Progress, Trace, begin, going, iterate, iterate_together
from .learning import Parameters, informed, parameters
from .repair import checks, mend
from .state import data_power, rescaled

# Iterations of the first run and of each run after a repair (beyond its slow cooling), and how many repairs are tried.
_FIRST_RUN, _RUN, _REPAIRS = 600, 400, 40
# With F', repairs from this one on also raise the noise level and let it fall again; without F', all do.
_REHEAT_FROM = 2
# Iterations of slow cooling after the first repairs, and the most there are.
_SHORTEST_COOLING, _LONGEST_COOLING = 40, 1000
# The variance of F given F', as a share of its power: below this F' holds the atoms apart and nothing needs repair.
_STRONG_HINT = 0.1
# Iterations allowed for scales to settle after atoms were put back in the hint's order.
_AFTER_ORDERING = 100
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


class _Model(NamedTuple):
    """What is fixed during a solve and known when it is compiled."""

    solver: Any
    N: int
    matrix: str
    dtype: str

    def data(self, observed: Observed, problem: Problem) -> Data:
        return make_data(observed, problem, self.N, self.matrix, self.dtype)


def solve(
    observed: Observed,
    problem: Problem,
    solver: Any = None,
    *,
    n_atoms: int | None = None,
    max_iterations: int = 10_000,
    tolerance: float = 3e-4,
    seed: int = 0,
    dtype: Any = np.float64,
    progress: Callable[[int, float, float], None] | None = None,
) -> Solution:
    """Recover F and X from Y (and F' and a mask, where given): the means and variances of the posterior, Eq. (4) of KMZ13.

    `problem` supplies the priors, the noise variance and eta; its alpha and pi play no part. A leading axis on the observed arrays means
    a batch of instances, solved together. `solver` is an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle; AMP() if left out.
    `progress(iteration, residual, damping)` is called from time to time. Results are NumPy arrays of `dtype`.
    """
    solver = AMP() if solver is None else solver
    if not (hasattr(solver, "estimate") or hasattr(solver, "step")) or isinstance(solver, type):
        raise InputError(f"solver must be an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle object, but {solver!r} was given.")
    observed, N, matrix = check_observed(observed, problem, n_atoms)
    check_count("max_iterations", max_iterations)
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    check_count("seed", seed, 0)
    check_choice("dtype", np.dtype(dtype).name, ("float64", "float32"))
    batched = np.ndim(observed.Y) == 3
    if not batched:
        observed = jax.tree.map(lambda value: value[None], observed)
    if hasattr(solver, "estimate"):
        solution = solver.estimate(observed, problem)
        solution = jax.tree.map(lambda value: value.astype(dtype) if value.dtype.kind == "f" else value, solution)
    else:
        # Accelerators round the inputs of single-precision products unless told not to; the residuals need all digits.
        with jax.enable_x64(np.dtype(dtype) == np.float64), jax.default_matmul_precision("highest"):
            problem = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), problem)
            observed = jax.tree.map(lambda value: jnp.asarray(value) if value.dtype == bool else jnp.asarray(value, dtype), observed)
            model = _Model(solver, N, matrix, np.dtype(dtype).name)
            solution = _solve_batch(model, observed, problem, max_iterations, tolerance, seed, progress)
    return solution if batched else jax.tree.map(lambda value: value[0], solution)


def _solve_batch(
    model: _Model, observed: Observed, problem: Problem, max_iterations: int, tolerance: float, seed: int, progress: Any
) -> Solution:
    """Run, look for trouble, repair and run again, put the atoms in order."""
    size = observed.Y.shape[0]
    keys = jax.vmap(lambda k: jax.random.fold_in(jax.random.key(seed), k))(jnp.arange(size))

    def go(run: Progress, allowed: int) -> Progress:
        """Up to `allowed` more iterations for every instance, in one compiled call unless progress is watched."""
        goal = jnp.minimum(run.iteration + allowed, max_iterations)
        stride = allowed if progress is None else _PROGRESS_STRIDE
        while True:
            run, unfinished = _run(model, observed, problem, run, jnp.minimum(goal, run.iteration + stride), goal, tolerance)
            if progress is not None:
                last = np.asarray(run.iteration).max() - 1
                progress(int(last) + 1, float(np.nanmean(run.trace.residual[:, last])), float(np.nanmean(run.trace.damping[:, last])))
            if not np.any(unfinished):
                return run

    run = _begin(model, observed, problem, keys, max_iterations)
    if not model.solver.repair or _share_unknown(problem) < _STRONG_HINT:
        return _solution(model, observed, problem, go(run, max_iterations), tolerance)
    from_scratch = model.matrix == "none"
    run = go(run, _FIRST_RUN)
    kept, verdict = run, _inspect(model, observed, problem, run)
    for k in range(_REPAIRS):
        again = (np.asarray(run.iteration) < max_iterations) & np.asarray(verdict.trouble)
        if not again.any():
            break
        slow = _cooling_time(k) if from_scratch or k >= _REHEAT_FROM else 0
        run = go(_repair(model, observed, problem, run, jnp.asarray(again), slow), slow + _RUN)
        verdict = _inspect(model, observed, problem, run)
        kept = _keep_better(kept, run, _inspect(model, observed, problem, kept), verdict)
    kept = go(kept._replace(iteration=run.iteration, trace=run.trace), _RUN)  # where the last run ended before it had settled
    if model.matrix == "noisy":
        kept, moved = _in_order(model, observed, problem, kept)
        if moved:
            kept = go(kept, _AFTER_ORDERING)
    return _solution(model, observed, problem, kept, tolerance)


def _cooling_time(k: int) -> int:
    """Iterations of slow cooling after the k-th repair: what quick cooling does not solve is given more time."""
    return min(_SHORTEST_COOLING * 2 ** (k // 2), _LONGEST_COOLING)


class _Verdict(NamedTuple):
    trouble: Any
    free_entropy: Any


def _share_unknown(problem: Problem) -> float:
    """The share of F's power that F' leaves unknown: 0 for a known matrix, 1 without F'."""
    power, eta = float(problem.prior.F.second_moment()), float(problem.eta)
    return 1.0 if np.isinf(eta) else eta / (eta + power)


@partial(jax.jit, static_argnums=(0, 4))
def _begin(model: _Model, observed: Observed, problem: Problem, keys: Any, max_iterations: int) -> Progress:
    def one(observed: Observed, key: Any) -> Progress:
        return begin(
            model.solver.init(model.data(observed, problem), key), max_iterations, model.solver.first_damping, model.solver.keeps_best
        )

    return jax.vmap(one)(observed, keys)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def _run(model: _Model, observed: Observed, problem: Problem, run: Progress, limit: Any, goal: Any, tolerance: Any) -> tuple[Progress, Any]:
    """Advance every instance to its `limit`, and say which could go on to their `goal`."""
    data = jax.vmap(lambda observed: model.data(observed, problem))(observed)
    if data.Y.shape[0] > 1:
        run = iterate_together(model.solver, data, run, limit, tolerance)
    else:
        run = _mapped(lambda data, run, limit: iterate(model.solver, data, run, limit, tolerance))(data, run, limit)
    return run, going(run, goal, tolerance)


def _mapped(function: Any) -> Any:
    """vmap over the leading axis; a batch of one runs as itself, without the cost of batched branches and loops."""

    def call(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        return jax.tree.map(lambda value: value[None], function(*jax.tree.map(lambda value: value[0], arguments)))

    return call


@partial(jax.jit, static_argnums=0)
def _inspect(model: _Model, observed: Observed, problem: Problem, run: Progress) -> _Verdict:
    def one(observed: Observed, run: Progress) -> _Verdict:
        data = model.data(observed, problem)
        return _Verdict(checks(informed(data, run.state), run.state).trouble, -model.solver.cost(data, run.state))

    return _mapped(one)(observed, run)


@partial(jax.jit, static_argnums=0)
def _repair(model: _Model, observed: Observed, problem: Problem, run: Progress, again: Any, slow: Any) -> Progress:
    def one(observed: Observed, run: Progress, again: Any) -> Progress:
        data = informed(model.data(observed, problem), run.state)
        mended = mend(data, run.state, checks(data, run.state), slow)
        state = jax.tree.map(lambda new, old: jnp.where(again, new, old), mended, run.state)
        change = jnp.where(again, jnp.inf, 0.0).astype(run.change.dtype)
        return run._replace(state=state, change=change, epoch_start=run.iteration)

    return _mapped(one)(observed, run, again)


@jax.jit
def _keep_better(kept: Progress, run: Progress, kept_verdict: _Verdict, verdict: _Verdict) -> Progress:
    higher = (verdict.free_entropy > kept_verdict.free_entropy) | ~jnp.isfinite(kept_verdict.free_entropy)
    better = jnp.where(verdict.trouble == kept_verdict.trouble, higher, kept_verdict.trouble)
    return jax.tree.map(lambda new, old: jnp.where(better.reshape((-1,) + (1,) * (new.ndim - 1)), new, old), run, kept)


def _in_order(model: _Model, observed: Observed, problem: Problem, run: Progress) -> tuple[Progress, bool]:
    """Y does not see the order and signs of the atoms, only F' does: move each to the place where F' fits it best."""
    overlap = np.asarray(_overlap_with_hint(model, observed, problem, run.state.F.mean))
    size, N, _ = overlap.shape
    place, sign = np.tile(np.arange(N), (size, 1)), np.ones((size, N))
    for k in range(size):
        if np.isfinite(overlap[k]).all():
            rows, columns = linear_sum_assignment(-np.abs(overlap[k]))
            place[k, columns] = rows
            sign[k] = np.where(overlap[k][place[k], np.arange(N)] < 0, -1.0, 1.0)
    moved = (place != np.arange(N)).any(axis=1) | (sign < 0).any(axis=1)
    if not moved.any():
        return run, False
    return _reorder(run, jnp.asarray(place), jnp.asarray(sign, run.state.g.dtype), jnp.asarray(moved)), True


@partial(jax.jit, static_argnums=0)
def _overlap_with_hint(model: _Model, observed: Observed, problem: Problem, F: Any) -> Any:
    return _mapped(lambda observed, F: F.T @ model.data(observed, problem).start.mean)(observed, F)


@jax.jit
def _reorder(run: Progress, place: Any, sign: Any, moved: Any) -> Progress:
    def one(run: Progress, place: Any, sign: Any, moved: Any) -> Progress:
        plain = rescaled(run.state)
        F, X = plain.F, plain.X
        state = plain._replace(
            F=F._replace(mean=F.mean[:, place] * sign, variance=F.variance[:, place]),
            X=X._replace(mean=X.mean[place] * sign[:, None], variance=X.variance[place]),
            nonzeros=plain.nonzeros[place],
        )
        return run._replace(state=state, change=jnp.where(moved, jnp.inf, run.change), epoch_start=run.iteration)

    return _mapped(one)(run, place, sign, moved)


def _solution(model: _Model, observed: Observed, problem: Problem, run: Progress, tolerance: float) -> Solution:
    trace = _fetch_trace(run)
    solution = _fetch(_conclude(model, observed, problem, run, tolerance))
    lost = np.array(STATUSES)[solution.status] == "diverged"
    if lost.any():
        # The best state of a run that came apart: the one that was kept, or where it started.
        size = observed.Y.shape[0]
        state = run.best or _begin(model, observed, problem, jax.random.split(jax.random.key(0), size), run.trace.level.shape[1]).state
        best = _fetch(_conclude(model, observed, problem, run._replace(state=state), tolerance))
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
def _conclude(model: _Model, observed: Observed, problem: Problem, run: Progress, tolerance: Any) -> Solution:
    """The estimates, residuals, free entropies, and statuses as indices into STATUSES; the trace is fetched apart."""

    def one(observed: Observed, run: Progress) -> Solution:
        data, solver = informed(model.data(observed, problem), run.state), model.solver
        state = solver.marginals(data, run.state) if hasattr(solver, "marginals") else rescaled(run.state)
        error = data.Y - state.F.mean @ state.X.mean / jnp.asarray(model.N**0.5, data.Y.dtype)
        error = error if data.mask is None else error * data.mask
        residual = jnp.mean(error**2) / jnp.mean(data.seen_by_signal)
        phi = -solver.cost(data, state)
        finite = jnp.isfinite(residual) & jnp.all(jnp.isfinite(state.X.variance)) & jnp.all(jnp.isfinite(state.F.variance))
        good = finite & (residual <= _WORSE_THAN_NOTHING * data_power(data) + data.noise)
        ending = jnp.where(run.change <= tolerance, STATUSES.index("converged"), STATUSES.index("max_iterations"))
        if model.matrix == "none":
            # Without F' an iteration from F = 0 stays there: settled, but nothing was learned.
            ending = jnp.where(jnp.all(state.F.mean == 0), STATUSES.index("degenerate"), ending)
        if solver.repair:
            ending = jnp.where(checks(data, state).trouble & (run.change <= tolerance), STATUSES.index("degenerate"), ending)
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

    return _mapped(one)(observed, run)
