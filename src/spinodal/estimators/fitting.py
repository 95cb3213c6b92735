"""From data in any units to `solve` and back.

Inside, entries of F have variance 1 and Y has power 1. Outside, data = codes @ components + noise in the units of the data, components in
a unit of their own. One factor for all atoms ties the two, so priors and uncertainties keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..channels import GaussianNoise
from ..pair import Pair
from ..priors import GaussBernoulli, Gaussian
from ..problem import Observed, Problem
from ..solvers import AMP, Solution, solve

# Where the learned parameters start: the share of nonzero codes, and the noise's share of the data's power.
_FIRST_DENSITY, _FIRST_NOISE = 0.1, 0.1


class Units(NamedTuple):
    """The size of a data entry, an entry of a component and a code that is 1 inside."""

    data: float
    components: float
    codes: float


class Wanted(NamedTuple):
    """Parameters as the user gave them, in the units of the data; None for those to be learned."""

    density: float | None
    noise_variance: float | None
    slab_mean: float | None
    slab_variance: float | None


class Nominal(NamedTuple):
    """Components (atoms x features) that the true ones are near, and how near."""

    matrix: np.ndarray
    eta: float


class Run(NamedTuple):
    """How to solve."""

    n_components: int
    n_init: int
    max_iter: int
    tol: float
    seed: int
    progress: Callable[[int, float, float], None] | None


class Fitted(NamedTuple):
    """What was learned, in the units of the data."""

    components: np.ndarray
    components_var: np.ndarray
    noise_variance: float
    density: float
    slab_mean: float
    slab_variance: float
    status: str
    iterations: int
    history: dict[str, np.ndarray]


def fit_components(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, run: Run) -> Fitted:
    """Learn the components and parameters of `data` (samples x features, NaN where missing)."""
    unit = _units(data, nominal, run.n_components)
    known = ~np.isnan(data)
    rows, columns = known.any(axis=1), known.any(axis=0)
    if not np.nansum(np.square(data)) > 0:
        return _nothing_learned(data, wanted, nominal, unit, run)
    problem, learn = _problem(data[rows][:, columns], wanted, nominal, unit, run.n_components)
    observed = _observed(data[rows][:, columns], None if nominal is None else nominal.matrix[:, columns], unit)
    solution = _best_of(observed, problem, AMP(learn=learn), run, data.dtype)
    mean, variance = _before_the_data(nominal, unit, (run.n_components, data.shape[1]))
    mean[:, columns] = solution.mean.F.T * unit.components
    variance[:, columns] = solution.variance.F.T * unit.components**2
    found = solution.parameters
    count = int(solution.iterations)
    return Fitted(
        mean.astype(data.dtype),
        variance.astype(data.dtype),
        float(found.noise) * unit.data**2,
        float(found.rho),
        float(found.mean) * unit.codes,
        float(found.variance) * unit.codes**2,
        str(solution.status),
        count,
        _history(solution.trace, count, unit),
    )


def _units(data: np.ndarray, nominal: Nominal | None, n_components: int) -> Units:
    """Data of unit power; atoms of about unit norm, or of the size of the nominal ones."""
    power = np.sqrt(np.nanmean(np.square(data, dtype=np.float64))) if not np.isnan(data).all() else 0.0
    one = float(power) if power > 0 else 1.0
    size = data.shape[1] ** -0.5 if nominal is None else float(np.sqrt(np.mean(np.square(nominal.matrix))))
    return Units(one, size, one / (size * np.sqrt(n_components)))


def _problem(
    data: np.ndarray, wanted: Wanted, nominal: Nominal | None, unit: Units, n_components: int
) -> tuple[Problem, tuple[str, ...]]:
    """The model inside, from given parameters where there are any; and the names of those to be learned."""
    given = {
        "noise": _in(wanted.noise_variance, unit.data**2),
        "rho": wanted.density,
        "mean": _in(wanted.slab_mean, unit.codes),
        "variance": _in(wanted.slab_variance, unit.codes**2),
    }
    noise = _FIRST_NOISE if given["noise"] is None else given["noise"]
    rho = _FIRST_DENSITY if given["rho"] is None else given["rho"]
    mean = 0.0 if given["mean"] is None else given["mean"]
    # The power of the data that is not noise is the codes'.
    variance = max((1 - noise) / rho - mean**2, 0.1 / rho) if given["variance"] is None else given["variance"]
    samples, features = data.shape
    problem = Problem(
        alpha=features / n_components,
        pi=samples / n_components,
        prior=Pair(F=Gaussian(), X=GaussBernoulli(rho, mean, variance)),
        channel=GaussianNoise(noise),
        eta=np.inf if nominal is None else nominal.eta,
    )
    return problem, tuple(name for name, value in given.items() if value is None)


def _in(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _observed(data: np.ndarray, matrix: np.ndarray | None, unit: Units) -> Observed:
    Y = np.ascontiguousarray(data.T) / data.dtype.type(unit.data)
    seen = ~np.isnan(Y)
    F_prime = None if matrix is None else matrix.T / unit.components
    return Observed(np.where(seen, Y, 0), F_prime, None if seen.all() else seen)


def _best_of(observed: Observed, problem: Problem, solver: AMP, run: Run, dtype: Any) -> Solution:
    """Several starts; the best sound solution, by its free entropy."""
    runs = [
        solve(
            observed,
            problem,
            solver,
            n_atoms=run.n_components,
            max_iterations=run.max_iter,
            tolerance=run.tol,
            seed=run.seed + k,
            dtype=dtype,
            progress=run.progress,
        )
        for k in range(run.n_init)
    ]
    return max(runs, key=lambda solution: (str(solution.status) in ("converged", "max_iterations"), float(solution.free_entropy)))


def _before_the_data(nominal: Nominal | None, unit: Units, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Components and their variance as the prior and the nominal ones have them: what is said of features that were never observed."""
    if nominal is None:
        return np.zeros(shape), np.full(shape, unit.components**2)
    return nominal.matrix / np.sqrt(1 + nominal.eta), np.full(shape, unit.components**2 * nominal.eta / (1 + nominal.eta))


def _history(trace: Any, count: int, unit: Units) -> dict[str, np.ndarray]:
    """The trace of the iterations that were made; residual and level in the units of the data, squared."""
    factor = {"residual": unit.data**2, "level": unit.data**2, "damping": 1.0, "change": 1.0}
    return {name: np.asarray(getattr(trace, name)[:count], dtype=np.float64) * factor[name] for name in factor}


def _nothing_learned(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, unit: Units, run: Run) -> Fitted:
    """Data without a single number that is not zero: components as before, no noise."""
    mean, variance = _before_the_data(nominal, unit, (run.n_components, data.shape[1]))
    return Fitted(
        mean.astype(data.dtype),
        variance.astype(data.dtype),
        wanted.noise_variance or 0.0,
        wanted.density or _FIRST_DENSITY,
        wanted.slab_mean or 0.0,
        wanted.slab_variance or unit.codes**2,
        "degenerate",
        0,
        {name: np.zeros(0) for name in ("residual", "level", "damping", "change")},
    )
