"""From data in any units to `solve` and back.

Inside, entries of F have variance 1 and Y has power 1. Outside, data = codes @ components + noise in the units of the data, components in
a unit of their own. One factor for all atoms ties the two, so priors and uncertainties keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..inference import AMP, Solution, solve
from ..model.channels import GaussianNoise
from ..model.knowledge import knowledge_of
from ..model.model import Problem
from ..model.priors import GaussBernoulli, Gaussian
from ..model.sampling import Observed
from ..pair import Pair
from .codes import Model, Slab
from .refining import refine
from .scales import Prior, Scales, as_learned, most_probable, of_unit_norm
from .shared import infer

# Where the learned parameters start: the share of nonzero codes, and the noise's share of the data's power.
_FIRST_DENSITY, _FIRST_NOISE = 0.1, 0.1
# The variance of components that are samples, as a share of the prior's.
_FIRST_DOUBT = 0.1
# How many codes of a sample the common density counts for, where samples have densities of their own.
_COMMON_COUNTS = 4.0
# Samples by whose evidence a start is judged.
_JUDGED = 500


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
    refine_iter: int
    own_density: bool
    fast: bool
    seed: int
    progress: Callable[[int, float, float], None] | None


class Fitted(NamedTuple):
    """What was learned, in the units of the data. Variances of components are given their scales."""

    components: np.ndarray
    components_var: np.ndarray
    scales: Scales
    noise_variance: float
    density: float
    slab_mean: float
    slab_variance: float
    status: str
    solver_status: str
    iterations: int
    history: dict[str, np.ndarray]


def fit_components(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, run: Run, before: Model | None = None) -> Fitted:
    """Learn the components and parameters of `data` (samples x features, NaN where missing).

    Message passing finds the components, the better of several starts is taken by its evidence, and rounds of expectation
    maximisation refine them. `before` is a model to go on from, in place of message passing.
    """
    unit = _units(data, nominal, run.n_components)
    prior = _before_the_data(nominal, unit, (run.n_components, data.shape[1]))
    if not np.nansum(np.square(data)) > 0:
        return _nothing_learned(data, wanted, prior, unit)
    if before is None:
        begin = _message_passing if run.max_iter > 0 else _samples
        found = [begin(data, wanted, nominal, prior, unit, run, run.seed + k) for k in range(run.n_init)]
        first = max(found, key=lambda start: start.evidence)
    else:
        first = Start(None, _as_wanted(before, wanted), np.nan)
    refined = refine(data, first.model, prior, _learned(wanted), run.refine_iter)
    model, solution = refined.model, first.solution
    count = len(refined.evidence) if solution is None else int(solution.iterations)
    status = str(solution.status) if solution is not None else "max_iterations" if before is None else "converged"
    if nominal is None and not _fixed_slab(wanted):
        published, scales = of_unit_norm(model)
    else:
        if refined.usage is not None:
            model = most_probable(model, prior, refined.usage, _learned(wanted))
        published, scales = model, as_learned(model, prior, ~np.isnan(data), _fixed_slab(wanted))
    return Fitted(
        published.components.astype(data.dtype),
        published.uncertainty.astype(data.dtype),
        Scales(*(value.astype(data.dtype) for value in scales)),
        model.noise,
        *model.slab,
        status if run.refine_iter == 0 else "converged" if refined.settled else "max_iterations",
        status,
        count,
        _history(solution, count, unit) | {"evidence": refined.evidence},
    )


def _fixed_slab(wanted: Wanted) -> bool:
    """Whether the user said how large codes are."""
    return wanted.slab_variance is not None or bool(wanted.slab_mean)


def _as_wanted(model: Model, wanted: Wanted) -> Model:
    """The model with the parameters that were given in place of its own."""
    slab = Slab(*(own if given is None else given for own, given in zip(model.slab, (wanted.density, *wanted[2:]), strict=True)))
    noise = model.noise if wanted.noise_variance is None else wanted.noise_variance
    return model._replace(slab=slab, noise=noise)


class Start(NamedTuple):
    """A solution by message passing, if that was made, a model in the units of the data, and the mean evidence of a sample under it."""

    solution: Solution | None
    model: Model
    evidence: float


def _message_passing(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, prior: Prior, unit: Units, run: Run, seed: int) -> Start:
    """Message passing that learns its parameters on the way; plain samples in place of what it found if they explain the data better."""
    known = ~np.isnan(data)
    rows, columns = known.any(axis=1), known.any(axis=0)
    part = data[rows][:, columns]
    problem = _problem(part, wanted, nominal, unit, run.n_components)
    solution = solve(
        _observed(part, None if nominal is None else nominal.matrix[:, columns], unit),
        problem,
        AMP(learn=_learned(wanted)),
        n_atoms=run.n_components,
        max_iterations=run.max_iter,
        tolerance=run.tol,
        seed=seed,
        dtype=data.dtype,
        progress=run.progress,
    )
    model = _with_ways(_outside(solution, prior, columns, unit), run)
    start = Start(solution, model, _judged(model, data))
    if run.refine_iter == 0 or start.evidence > _without_codes(data, unit):
        return start
    other = _samples(data, wanted, nominal, prior, unit, run, seed)
    return max(start, other._replace(solution=solution), key=lambda start: start.evidence)


def _samples(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, prior: Prior, unit: Units, run: Run, seed: int) -> Start:
    """Samples, or the nominal components, as they are."""
    problem = _problem(data, wanted, nominal, unit, run.n_components)
    model = _with_ways(_from_samples(data, problem, nominal, prior, unit, seed), run)
    return Start(None, model, _judged(model, data))


def _with_ways(model: Model, run: Run) -> Model:
    """The model with the user's choices of how codes are found."""
    return model._replace(counts=code_counts(run.own_density), fast=run.fast)


def code_counts(own_density: bool) -> float:
    """How many codes the common density counts for."""
    return _COMMON_COUNTS if own_density else np.inf


def _without_codes(data: np.ndarray, unit: Units) -> float:
    """Mean evidence of a sample if it were noise of the data's power."""
    return float(-np.mean(np.sum(~np.isnan(data[:_JUDGED]), axis=1)) * (np.log(2 * np.pi * unit.data**2) + 1) / 2)


def _from_samples(data: np.ndarray, problem: Problem, nominal: Nominal | None, prior: Prior, unit: Units, seed: int) -> Model:
    """The nominal components or, without any, samples of the prior's norm, large ones more often; parameters where learning starts."""
    mean = prior.mean
    if nominal is None:
        count, features = mean.shape
        filled = np.nan_to_num(np.asarray(data, dtype=np.float64))
        power = np.sum(np.square(filled), axis=1)
        order = np.random.default_rng(seed).choice(len(data), np.count_nonzero(power), replace=False, p=power / power.sum())
        chosen = np.resize(filled[order], (count, features))
        size = np.sqrt(np.mean(np.square(chosen), axis=1, keepdims=True))
        mean = unit.components * chosen / np.where(size > 0, size, 1)
    X: Any = problem.prior.X
    slab = Slab(float(X.rho), float(X.mean) * unit.codes, float(X.variance) * unit.codes**2)
    return Model(mean, _FIRST_DOUBT * prior.variance, slab, float(problem.noise_variance) * unit.data**2)


def _judged(model: Model, data: np.ndarray) -> float:
    """Mean evidence of some samples; what is not a number ranks last."""
    return float(np.nan_to_num(np.mean(infer(model, data[:_JUDGED]).evidence), nan=-np.inf))


def _outside(solution: Solution, prior: Prior, columns: np.ndarray, unit: Units) -> Model:
    """A solution in the units of the data; features that were never observed stay as they were before."""
    mean, variance = (value.astype(np.float64) for value in prior)
    mean[:, columns] = solution.mean.F.T * unit.components
    variance[:, columns] = solution.variance.F.T * unit.components**2
    found: Any = solution.parameters
    slab = Slab(float(found.rho), float(found.mean) * unit.codes, float(found.variance) * unit.codes**2)
    return Model(mean, variance, slab, float(found.noise) * unit.data**2)


def _units(data: np.ndarray, nominal: Nominal | None, n_components: int) -> Units:
    """Data of unit power; atoms of about unit norm, or of the size of the nominal ones."""
    power = np.sqrt(np.nanmean(np.square(data, dtype=np.float64))) if not np.isnan(data).all() else 0.0
    one = float(power) if power > 0 else 1.0
    size = data.shape[1] ** -0.5 if nominal is None else float(np.sqrt(np.mean(np.square(nominal.matrix))))
    return Units(one, size, one / (size * np.sqrt(n_components)))


def _learned(wanted: Wanted) -> tuple[str, ...]:
    """The parameters to be learned, as the solver calls them."""
    names = {"noise": wanted.noise_variance, "rho": wanted.density, "mean": wanted.slab_mean, "variance": wanted.slab_variance}
    return tuple(name for name, value in names.items() if value is None)


def _problem(data: np.ndarray, wanted: Wanted, nominal: Nominal | None, unit: Units, n_components: int) -> Problem:
    """The model inside, from given parameters where there are any."""
    noise = _FIRST_NOISE if wanted.noise_variance is None else wanted.noise_variance / unit.data**2
    rho = _FIRST_DENSITY if wanted.density is None else wanted.density
    mean = 0.0 if wanted.slab_mean is None else wanted.slab_mean / unit.codes
    # The power of the data that is not noise is the codes'.
    left = max(1 - noise, _FIRST_NOISE) / rho
    variance = max(left - mean**2, _FIRST_NOISE * left) if wanted.slab_variance is None else wanted.slab_variance / unit.codes**2
    samples, features = data.shape
    return Problem(
        alpha=features / n_components,
        pi=samples / n_components,
        prior=Pair(F=Gaussian(), X=GaussBernoulli(rho, mean, variance)),
        channel=GaussianNoise(noise),
        knowledge=knowledge_of(np.inf if nominal is None else nominal.eta),
    )


def _observed(data: np.ndarray, matrix: np.ndarray | None, unit: Units) -> Observed:
    Y = np.ascontiguousarray(data.T) / data.dtype.type(unit.data)
    seen = ~np.isnan(Y)
    F_prime = None if matrix is None else matrix.T / unit.components
    return Observed(np.where(seen, Y, 0), F_prime, None if seen.all() else seen)


def _before_the_data(nominal: Nominal | None, unit: Units, shape: tuple[int, int]) -> Prior:
    """Components and their variance as the prior and the nominal ones have them: what is said of features that were never observed."""
    if nominal is None:
        return Prior(np.zeros(shape), np.full(shape, unit.components**2))
    share = nominal.eta / (1 + nominal.eta)
    return Prior(nominal.matrix / np.sqrt(1 + nominal.eta), np.full(shape, unit.components**2 * share))


def _history(solution: Solution | None, count: int, unit: Units) -> dict[str, np.ndarray]:
    """The trace of the iterations that were made; residual and level in the units of the data, squared."""
    factor = {"residual": unit.data**2, "level": unit.data**2, "damping": 1.0, "change": 1.0}
    if solution is None:
        return {name: np.zeros(0) for name in factor}
    return {name: np.asarray(getattr(solution.trace, name)[:count], dtype=np.float64) * factor[name] for name in factor}


def _nothing_learned(data: np.ndarray, wanted: Wanted, prior: Prior, unit: Units) -> Fitted:
    """Data without a single number that is not zero: components as before, no noise."""
    return Fitted(
        prior.mean.astype(data.dtype),
        prior.variance.astype(data.dtype),
        Scales(np.ones(len(prior.mean), data.dtype), np.zeros(len(prior.mean), data.dtype)),
        wanted.noise_variance or 0.0,
        wanted.density or _FIRST_DENSITY,
        wanted.slab_mean or 0.0,
        wanted.slab_variance or unit.codes**2,
        "degenerate",
        "degenerate",
        0,
        {name: np.zeros(0) for name in ("residual", "level", "damping", "change", "evidence")},
    )
