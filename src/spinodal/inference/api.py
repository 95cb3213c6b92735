"""`solve`: from data to estimates of F and X with their uncertainties."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import InputError, check, check_choice, check_count, check_seed, shown
from ..model.channels import Channel
from ..model.model import Model
from ..model.sampling import Observed
from ..pair import Pair
from . import checks
from .execution.batch import Plan
from .execution.checkpoint import Checkpoint, fingerprint
from .execution.group import Wishes, reporter
from .execution.machine import OneDevice, check_memory, computing
from .execution.runs import Runs
from .misfit import judged_by_data
from .offsets import with_offsets
from .search.learning import LEARNABLE, parameters
from .search.search import ALONE, Search, is_strong
from .solution import Solution
from .solvers.amp import AMP
from .solvers.base import Solver
from .starts import automatic

# What a model is made of where none is given.
_GIVEN = ("density", "noise_variance", "eta")
# Runs from starts of their own, at most, where nobody says how many.
MOST_RUNS = 6


def solve(
    Y: Any,
    model: Model | Sequence[Model] | None = None,
    solver: Any = None,
    *,
    F_prime: Any = None,
    mask: Any = None,
    center: bool | str | np.ndarray = "auto",
    n_atoms: int | Sequence[int] | None = None,
    density: float | str | None = None,
    noise_variance: Any = None,
    eta: float | str | None = None,
    channel: Channel | str | None = None,
    learn: Sequence[str] | None = None,
    search: Search | None = None,
    runs: int | None = None,
    max_iterations: int = 10_000,
    tolerance: float = 3e-4,
    seed: int | Sequence[int] = 0,
    dtype: Any = np.float64,
    start: Solution | None = None,
    progress: bool | Callable[[str, int, float], None] | None = None,
    watch: Callable[[int, Pair[Any]], None] | None = None,
    checkpoint: str | Path | None = None,
    every: int = 100,
    mesh: Any = None,
) -> Solution:
    """Recover F and X from Y (and F', where given): the means and variances of the posterior, Eq. (4) of KMZ13.

    You give Y and the number of atoms, or F'; everything else is learned unless you say it.

    Args:
        Y: the data, M x P, a column for each signal: an array, masked array, DataFrame or DataArray, with NaN where an entry is missing; or
            an `Observed`. A leading axis means a batch of instances, solved together.
        model: the priors, channel and knowledge of F, as a Model or a Problem; for a batch, perhaps one for each. Without it a sparse model
            is learned from the data.
        solver: an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle; AMP() if left out.
        F_prime: what is known of F, M x N, up to an error eta.
        mask: False where an entry of Y is missing.
        center: True to take the mean of each row off Y first, which is kept as `solution.row_means`; False to leave it. "auto" takes it off
            where it is further from zero than chance takes it, unless the prior of X has a mean, and a warning says so. An array has the
            number to take off each row.
        n_atoms: the number of atoms, where there is no F_prime. Give several, and the one with the highest evidence is kept.
        density: without a model, the share of nonzeros in X, if you know it; "auto" (or nothing) learns it.
        noise_variance: without a model, the variance of the noise, likewise: a number, or an array with one for each row of Y (M x 1),
            each column (1 x P) or each entry (M x P); "rows" learns one for each row. No number below 1e-8 of the power of Y is learned.
        eta: without a model, the error of F_prime, likewise.
        channel: without a model, how Y comes from F X/sqrt(N), if not by Gaussian noise: `Clipped(-1.0, 1.0)`, `Poisson(3.0)`, ... Its
            parameters are taken as they are. Or in words, as on the command line: "clipped", "poisson:background=0.5". What
            those leave out and has no usual value is learned.
        learn: with a model, names of the parameters to learn: "noise_variance" (of an array, one factor for all), "row_variances" (where
            noise_variance is M x 1), "density", "slab_mean", "slab_variance", "eta", and those of the channel.
        search: what surrounds the solver; `Search()` for AMP.
        runs: where nothing is known of F, the most runs from starts of their own. Two that agree are enough; where they do not, they vote,
            and other runs start from the vote. 6 if left out; 1 for a single run, which nothing confirms.
        max_iterations: when to give up a run, at most a million. Where runs vote, all together may take sixty times as many;
            short ones that choose the noise and check what was learned come on top.
        tolerance: how little the level may change when the iterations are called settled.
        seed: of what is random; for a batch, perhaps one for each.
        dtype: float64 or float32.
        start: a solution to go on from, of data of the same shape.
        progress: True for a line on the terminal, or a function of the stage, the iteration and the residual.
        watch: a function of the iteration and the means of F and X, called after every iteration at first; what it raises ends the solve.
        checkpoint: a file that the whole state is written to after `every` iterations; if it exists, the solve goes on from it. What takes
            several solves (several n_atoms, data that are off centre) has a file for each, beside this one.
        every: iterations between two checkpoints.
        mesh: a jax.sharding.Mesh over whose devices the signals are divided.

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

        The same from an array, with the density and the noise learned:

        >>> learned = sp.solve(instance.observed.Y, F_prime=instance.observed.F_prime, eta=0.01)
        >>> learned.learned
        ('noise_variance', 'density', 'slab_variance')
    """
    begun = time.perf_counter()
    given, names = checks.as_observed(Y, F_prime, mask)
    offsets = getattr(start, "row_means", None)
    if isinstance(center, str) and offsets is not None and np.shape(offsets) == given.Y.shape[:-1]:
        center = np.asarray(offsets)  # they may be better than the means
    models, learned = _models(given, model, density, noise_variance, eta, channel, learn)
    observed, row_means, centered = checks.centred(given, center, models, learned, n_atoms)
    if row_means is not None:  # a model that is guessed goes by the size of what is left
        models, learned = _models(observed, model, density, noise_variance, eta, channel, learn)
        checks.check_center(models, learned)
    learn = learned
    told: dict[str, Any] = {"names": names, "row_means": row_means, "centered": centered}
    checks.check_outcomes(observed, models)
    rest: dict[str, Any] = {
        "model": models if isinstance(model, (list, tuple)) else models[0],
        "solver": solver,
        "center": False if row_means is None else row_means,
        "learn": learn,
        "search": search,
        "max_iterations": max_iterations,
        "tolerance": tolerance,
        "seed": seed,
        "dtype": dtype,
        "progress": progress,
        "watch": watch,
        "every": every,
        "mesh": mesh,
    }
    ours = (solver is None or isinstance(solver, Solver)) and start is None
    if row_means is not None and ours and not isinstance(center, np.ndarray):
        quickly, number = 1 if runs is None and given.F_prime is None else runs, count()

        def fit(offsets: np.ndarray, quick: bool) -> Solution:
            saved = checkpoint if (k := next(number)) == 0 else _beside(checkpoint, f"offsets-{k}")
            return solve(given, n_atoms=n_atoms, runs=quickly if quick else runs, checkpoint=saved, **rest | {"center": offsets})

        solution = with_offsets(fit, given, row_means)
        return replace(solution, names=names, centered=centered, seconds=time.perf_counter() - begun)
    if n_atoms is not None and np.ndim(n_atoms) == 1:
        checks.check_numbers_of_atoms(n_atoms, observed)  # type: ignore[arg-type]

        def of_size(N: int) -> Solution:
            return solve(given, n_atoms=N, runs=runs, start=start, checkpoint=_beside(checkpoint, f"{N}-atoms"), **rest)

        best = _likeliest([int(n) for n in n_atoms], of_size)  # type: ignore[union-attr]
        return replace(best, **told, seconds=time.perf_counter() - begun)
    solver = AMP() if solver is None else solver
    if isinstance(solver, type) or not (isinstance(solver, Solver) or hasattr(solver, "solve")):
        raise InputError(f"solver must be an AMP, MUAMP, BiGAMP, RelaxedBP, Lasso or Oracle object, but {solver!r} was given.")
    checked = [checks.check_knowledge(observed, each.knowledge) for each in models]
    N = checks.count_atoms(observed.F_prime, n_atoms)  # type: ignore[arg-type]  # of an F' that says nothing else, too
    observed, models = checked[0][0], [each.replace(knowledge=knowledge) for each, (_, knowledge) in zip(models, checked, strict=True)]
    batched = observed.Y.ndim == 3
    size = len(observed.Y) if batched else 1
    checks.check_models(models, size)
    check_count("max_iterations", max_iterations, 1, checks.MOST_ITERATIONS)
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    seeds: list[int] = list(seed) if isinstance(seed, (list, tuple, np.ndarray)) else [seed]  # type: ignore[list-item]
    for each in seeds:
        check_seed("seed", each)
    checks.check_number("seed", len(seeds), size)
    checks.check_dtype(dtype)
    check_count("every", every)
    checks.check_asides(search, progress, watch)
    placement = _placement(mesh, observed.Y.shape[-1])
    if runs is not None:
        checks.check_runs(runs, observed.F_prime is not None, start is not None)
    check_memory(observed.Y.shape, N, np.dtype(dtype).itemsize, placement.memories)
    if start is not None:
        checks.check_start(start, observed.Y.shape, N)
    if not isinstance(solver, Solver):
        name = type(solver).__name__
        if mesh is not None or checkpoint is not None:
            raise InputError(f"mesh and checkpoint must be left out with {name}, which has no iterations of ours.")
        if learn:
            given_instead = f"{', '.join(_GIVEN)} or a model must be given"
            raise InputError(f"{name} learns no parameters, so {given_instead}; {', '.join(learn)} would be learned.")
        solution = solver.solve(_with_axis(observed) if not batched else observed, models, N)
        mean, variance = (Pair(*(value.astype(dtype) for value in pair)) for pair in (solution.mean, solution.variance))
        solution = replace(solution, mean=mean, variance=variance, observed=observed if batched else _with_axis(observed))
        solution = solution if batched else solution[0]
        return replace(solution, **told, seconds=time.perf_counter() - begun)
    solver = solver.suited(models[0].channel)
    around = search if search is not None else Search() if solver.searches else ALONE
    plan = Plan(around.around(solver, learn), N, np.dtype(dtype).name, _means_to_remove(solver, models, learn))
    strong = is_strong(models[0].knowledge, models[0].prior.F)
    shown = None if watch is None or batched else lambda iteration, means: watch(iteration, Pair(*(value[0] for value in means)))
    saved = None
    if checkpoint is not None:
        about = (observed, models, plan, around, max_iterations, tolerance, runs, seeds, start and (start.mean, start.variance))
        saved = Checkpoint(Path(checkpoint), every, fingerprint(*about))
    with reporter(progress) as say:
        wishes = Wishes(max_iterations, tolerance, around, strong, say, watch if batched else shown)
        whole = observed if batched else _with_axis(observed)
        with computing(np.dtype(dtype), placement):
            made = Runs(plan, whole, models, seeds, wishes, placement, saved)
            if observed.F_prime is not None or start is not None:
                solution = made.alone(start if batched or start is None else _lifted(start))
            else:
                votes = around.vote and around.repair
                solution = made.compared((MOST_RUNS if votes else 1) if runs is None else runs, votes, learn)
    solution = replace(solution, observed=whole, learned=learn)
    solution = solution if batched else solution[0]
    return judged_by_data(replace(solution, **told, seconds=time.perf_counter() - begun))


def _models(
    observed: Observed, model: Any, density: Any, noise_variance: Any, eta: Any, channel: Any, learn: Any
) -> tuple[list[Model], tuple[str, ...]]:
    """The models, one or one for each instance, and what is to be learned."""
    if model is None:
        guess, unknown = automatic(observed, density=density, noise_variance=noise_variance, eta=eta, channel=channel)
        return [guess], unknown if learn is None else _names(learn, guess)
    for name, given in (("density", density), ("noise_variance", noise_variance), ("eta", eta), ("channel", channel)):
        if given is not None:
            raise InputError(f"{name} must be left out where a model says it; use model.replace to change it.")
    models: list[Model] = list(model) if isinstance(model, (list, tuple)) else [model]
    if not models or not all(isinstance(each, Model) for each in models):
        raise InputError(f"model must be a Model or a Problem, or a list of them, but {model!r} was given.")
    return [Model(each.prior, each.channel, each.knowledge) for each in models], () if learn is None else _names(learn, models[0])


def _names(learn: Sequence[str], model: Model) -> tuple[str, ...]:
    if isinstance(learn, str) or not isinstance(learn, Sequence):
        raise InputError(f"learn must be a list of names of parameters, but {shown(learn)} was given.")
    for name in learn:
        check_choice("learn", name, tuple(dict.fromkeys((*LEARNABLE, *parameters(model)))))
    return tuple(name for name in learn if name in parameters(model))


def _beside(checkpoint: str | Path | None, what: str) -> Path | None:
    """The file of one of several solves, beside the one that was named."""
    return None if checkpoint is None else (path := Path(checkpoint)).with_name(f"{path.stem}-{what}{path.suffix}")


def _likeliest(numbers: list[int], fit: Callable[[int], Solution]) -> Solution:
    """The fit of the highest evidence among several numbers of atoms, with what all of them gave."""
    tried = []
    for N in numbers:
        solution = fit(N)
        M, P = solution.mean.F.shape[-2], solution.mean.X.shape[-1]
        mask = solution.observed.mask if solution.observed is not None else None
        entries = M * P if mask is None else int(np.sum(mask))
        tried.append((solution, float(solution.free_entropy) * N * P / entries))
    best, _ = max(tried, key=lambda each: each[1] if np.isfinite(each[1]) else -np.inf)
    table = tuple((N, evidence, each.status, int(each.iterations)) for N, (each, evidence) in zip(numbers, tried, strict=True))
    return replace(best, candidates=table)


def _placement(mesh: Any, P: int) -> OneDevice:
    if mesh is None:
        return OneDevice()
    from .execution.sharding import Sharded

    return Sharded(mesh, P)


def _with_axis(tree: Any) -> Any:
    return jax.tree.map(lambda value: value[None], tree)


def _lifted(start: Solution) -> Solution:
    return replace(start, mean=_with_axis(start.mean), variance=_with_axis(start.variance), status=[start.status])


def _means_to_remove(solver: Solver, models: Sequence[Model], learn: tuple[str, ...]) -> Pair[bool]:
    """Which factors have a prior mean that is not zero in some model, or is to be learned."""
    if not solver.remove_means:
        return Pair(F=False, X=False)
    F, X = (any(bool(prior.moments().mean != 0) for prior in priors) for priors in zip(*(one.prior for one in models), strict=True))
    return Pair(F=F, X=X or "slab_mean" in learn)
