"""Experiments: many records beside what the theory says of them, and the course of single runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..inference.solvers import two_times
from ..inference.solvers.relaxed_bp import RelaxedBP
from ..inference.task import Task, make_task
from ..model.channels import GaussianNoise
from ..model.model import Problem
from ..model.sampling import Observed, sample
from ..pair import Pair
from ..theory import error_curves, outcomes, pi_star, spinodal
from .record import draw_solve_score, record, solve_drawn
from .scoring import scale_floor

if TYPE_CHECKING:
    import xarray

# The two panels of figure 4 of KMZ13: continuous and with a jump.
FIGURE_4 = (
    {"alpha": 0.3, "rho": 0.1, "eta": 1e-4, "noise_variance": 1e-8},
    {"alpha": 0.5, "rho": 0.2, "eta": 1e-2, "noise_variance": 1e-8},
)
# What `measure` keeps of a record.
MEASURED = (
    "mse_F",
    "mse_X",
    "mse_F_scaled",
    "mse_X_scaled",
    "mse_X_median",  # of the median signal, scales fitted: the mean is owed to a few hard signals at sizes that one can run
    "signals_at_prediction",
    "atoms_recovered",
    "iterations",
    "converged",
)


def measure(problem: Problem, n: int, *, seed: int, instances: int, solver: Any = None, **options: Any) -> dict[str, np.ndarray]:
    """Draw `instances` instances of size N = n, solve them together, score each: arrays over instances, by the names in MEASURED."""
    expected = outcomes([problem])[0].amp.mse.X
    found = draw_solve_score(problem, n, seed=seed, instances=instances, solver=solver, predicted=expected, **options).flat()
    return {name: np.asarray(found[name], dtype=float) for name in MEASURED}


def figure_4(
    panel: int,
    *,
    sizes: Sequence[int],
    pi: Sequence[float],
    instances: int,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> xarray.Dataset:
    """One panel of figure 4: errors of AMP over (N, pi, instance), with Bayes and AMP predictions and the scale floor."""
    import xarray

    base = Problem.sparse(pi=1.0, **FIGURE_4[panel])
    values = {name: np.full((len(sizes), len(pi), instances), np.nan) for name in MEASURED}
    floor = np.zeros((len(sizes), len(pi)))
    for i, n in enumerate(sizes):
        for j, p in enumerate(pi):
            here = base.replace(pi=float(p))
            for name, column in measure(here, n, seed=seed, instances=instances).items():
                values[name][i, j] = column
            floor[i, j] = scale_floor(here, n)
            if progress is not None:
                progress()
    theory = error_curves(base, eta=[base.eta], pi=pi).isel(eta=0, drop=True)
    data: dict[str, Any] = {name: (("N", "pi", "instance"), column) for name, column in values.items()}
    data["scale_floor"] = (("N", "pi"), floor)
    dataset = xarray.Dataset(data, coords={"N": list(sizes), "pi": list(pi), "instance": np.arange(instances)}, attrs=theory.attrs)
    dataset.attrs |= {"eta": float(base.eta), "seed": seed}
    return dataset.merge(theory.drop_vars("phase"), combine_attrs="override")


def follow(task: Task, steps: int, record: Callable[[Pair[Any]], Any], solver: Any = None) -> Any:
    """What `record` makes of the means of F and X after each of the first `steps` iterations, stacked.

    Without a solver, undamped message passing with its corrections at both times (`solvers.two_times`); else that solver's steps.
    """
    if solver is None:
        first: Any = two_times.begin(task)
    else:
        first = solver.init(task, None)

    def step(old: Any, _: None) -> tuple[Any, Any]:
        new: Any
        seen: Any
        if solver is None:
            new = seen = two_times.step(task, old)
        else:
            new = solver.step(task, old)
            # With a message for each edge, the means of this iteration are what all the old messages say together.
            seen = solver.estimate(task, old if isinstance(solver, RelaxedBP) else new)
        return new, record(Pair(seen.F.mean, seen.X.mean))

    return jax.lax.scan(step, first, None, length=steps)[1]


def trajectories(problem: Problem, n: int, *, seed: int, instances: int, steps: int, solver: Any = None) -> Pair[np.ndarray]:
    """Errors on F and X iteration by iteration, as arrays (instance, iteration): what the state evolution speaks of. See `follow`."""
    drawn = sample(problem, n, seed=seed, batch=instances)

    def one(arguments: tuple[Observed, Any, Any]) -> Any:
        observed, F, X = arguments

        def record(mean: Pair[Any]) -> tuple[Any, Any]:
            return jnp.mean((mean.F - F) ** 2), jnp.mean((mean.X - X) ** 2)

        return follow(make_task(observed, problem, n, "float64", Pair(False, False)), steps, record, solver)

    with jax.enable_x64(True):
        return Pair(*map(np.asarray, jax.jit(lambda drawn: jax.lax.map(one, drawn))((drawn.observed, *drawn.truth))))


def compare_methods(problem: Problem, n: int, solvers: dict[str, tuple[Any, bool]], *, seed: int) -> list[dict[str, Any]]:
    """One instance given to several solvers: a row for each. `solvers` maps a name to (solver, whether it is told the true matrix)."""
    drawn = sample(problem, n, seed=seed)
    rows = []
    for name, (solver, told) in solvers.items():
        given = drawn._replace(observed=drawn.observed._replace(F_prime=drawn.truth.F)) if told else drawn
        solution = solve_drawn(given, problem.replace(eta=0.0) if told else problem, solver)
        found = record(solution, drawn.truth)
        rows.append(
            {
                "method": name,
                "mse_X": float(found.score.mse_aligned.X),
                "median_signal_mse": float(found.mse_X_median),
                "signals_recovered": float(found.signals_recovered),
                "status": found.status,
            }
        )
    return rows


# Columns of a point of the dictionary map, and what they are in a record.
DICTIONARY = {"solved": "learned", "angle": "angle", "atoms": "atoms_learned", "converged": "converged", "iterations": "iterations"}


def learn_dictionary(problem: Problem, n: int, *, seed: int, believed: Problem | None = None, **options: Any) -> dict[str, float]:
    """One instance learned from scratch: whether every atom was found, the mean squared sine and the share of atoms found, the status.

    `believed` is the problem as the solver is told it, where that is not the truth.
    """
    found = draw_solve_score(problem, n, seed=seed, believed=believed, **options).flat()
    return {name: float(found[field]) for name, field in DICTIONARY.items()}


def dictionary_map(
    *,
    n: int,
    rho: Sequence[float],
    pi: Sequence[float],
    instances: int,
    alpha: float = 0.5,
    noise_variance: float = 1e-8,
    seed: int = 0,
    max_iterations: int = 4000,
) -> Iterator[xarray.Dataset]:
    """Dictionaries learned from scratch over (rho, pi), with the transitions the theory predicts; given out after every point, so that an
    interruption loses one point at most. Points not yet done are NaN.
    """
    import xarray

    def problem(rho: float, pi: float) -> Problem:
        return Problem.sparse(alpha=alpha, pi=float(pi), rho=float(rho), noise_variance=noise_variance)

    shape = (len(rho), len(pi), instances)
    data: dict[str, Any] = {name: (("rho", "pi", "instance"), np.full(shape, np.nan)) for name in DICTIONARY}
    limits = [problem(r, 1.0).replace(channel=GaussianNoise(0.0)) for r in rho]
    data["pi_star"] = ("rho", [pi_star(limit) for limit in limits])
    data["pi_spinodal"] = ("rho", [spinodal(limit) for limit in limits])
    predicted = [[outcome.amp.mse.F for outcome in outcomes([problem(r, p) for p in pi])] for r in rho]
    data["predicted_mse_F"] = (("rho", "pi"), predicted)
    attrs = {"N": n, "alpha": alpha, "noise_variance": noise_variance, "seed": seed, "max_iterations": max_iterations}
    dataset = xarray.Dataset(data, coords={"rho": list(rho), "pi": list(pi), "instance": np.arange(instances)}, attrs=attrs)
    for j, p in enumerate(pi):  # the shape changes with pi alone, so each is compiled once
        for i, r in enumerate(rho):
            for k in range(instances):
                for name, value in learn_dictionary(problem(r, p), n, seed=seed + k, max_iterations=max_iterations).items():
                    dataset[name].values[i, j, k] = value
            yield dataset
