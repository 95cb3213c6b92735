"""Where a fit starts: first guesses of the parameters, components by message passing, and components that are samples.

Inside, entries of F have variance 1 and Y has power 1. Outside, data = codes @ components + noise in the units of the data, components in
a unit of their own. One factor for all atoms ties the two, so priors and uncertainties keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...model.channels import GaussianNoise
from ...model.knowledge import knowledge_of
from ...model.model import Model
from ...model.priors import GaussBernoulli, Gaussian
from ...model.sampling import Observed
from ...pair import Pair
from ..api import solve
from ..search.search import Search
from ..solution import Status
from .api import infer_codes
from .em import Learn
from .model import CodingModel, Slab, density_weight
from .rounds import refine
from .scales import ComponentPrior

# Where the learned parameters start: the share of nonzero codes, and the noise's share of the data's power.
FIRST_DENSITY = 0.1
_FIRST_NOISE = 0.1
# The same for many samples, which are mostly real data: codes sparser than that, at most so many a sample, and much noise. From little
# noise the rounds may end where the codes explain the noise, from much where they explain little of data that have hardly any: samples
# that judge choose (`MANY_NOISES`).
_FIRST_CODES, _MUCH_NOISE = 5.0, 0.5
MANY_NOISES = (_MUCH_NOISE, _FIRST_NOISE)
# Message passing is tried on data with at most so many entries times components, if nothing is said of it, beside so many rounds from
# samples. First some short runs, of so many iterations: if they diverge, as on digits, spectra and patches of pictures, that is all, and
# the better goes on into the rounds. (No run diverges on data drawn from the model. But some bring nothing over the rounds there either,
# where the search then does.) Then a search of so many iterations, which goes on if it has done better than the rounds and than the short
# runs.
_SMALL, _TRIED_ROUNDS, _FIRST_RUNS, _FIRST_TRIED, _TRIED = 3e7, 8, 2, 100, 300
# Iterations of message passing where it pays.
_LONG = 2000
# The variance of components that are samples, as a share of the prior's.
_FIRST_DOUBT = 0.1
# Noise below this share of the power is too little for codes by expectation propagation, which come apart (seen with 20 atoms of 16
# features); this one is assumed then.
_CLEAN, _ASSUMED = 3e-5, 3e-4
# Samples by whose evidence a start is judged, with codes that change by less than so many standard deviations of the slab.
_JUDGED, _CLOSELY = 500, 1e-2
# What surrounds message passing: all, or nothing that takes long.
_SEARCH, _NO_SEARCH = Search(), Search(repair=False, vote=False)
# The trace of message passing, and whether its values are squares of data.
_TRACE = {"residual": True, "level": True, "damping": False, "change": False}


class Given(NamedTuple):
    """Parameters as the user gave them, in the units of the data; None for those to be learned."""

    density: float | None
    noise_variance: float | None
    slab_mean: float | None
    slab_variance: float | None

    @property
    def learn(self) -> tuple[str, ...]:
        """The names of the parameters to be learned."""
        return tuple(name for name, value in self._asdict().items() if value is None)

    @property
    def fixes_slab(self) -> bool:
        """Whether the user said how large codes are."""
        return self.slab_variance is not None or bool(self.slab_mean)


class Nominal(NamedTuple):
    """Components (atoms x features) that the true ones are near, and how near."""

    matrix: np.ndarray
    eta: float


class Options(NamedTuple):
    """How to fit: starts, iterations and tolerance of message passing (None: it is tried), rounds of expectation maximisation, whether
    samples have densities of their own (None: if the data say so), how codes are found, and whether samples come in minibatches (None: if
    they are many)."""

    n_components: int
    n_init: int
    max_iter: int | None
    tol: float
    refine_iter: int
    own_density: bool | None
    fast: bool
    seed: int
    progress: Callable[[str, int, float], None] | None
    minibatches: bool | None = None


class Units(NamedTuple):
    """The size of a data entry, an entry of a component and a code that is 1 inside."""

    data: float
    components: float
    codes: float


class Task(NamedTuple):
    """A fit to be made: the data (samples x features, NaN where missing), what is known before them, and the units."""

    data: np.ndarray
    given: Given
    nominal: Nominal | None
    options: Options
    unit: Units
    prior: ComponentPrior
    weight: np.ndarray | None = None
    many: bool = False


class Found(NamedTuple):
    """What message passing found, in its own units: F in mean and variance, the parameters, how it ended, its trace, and the share of other
    runs that found each atom, if there were others."""

    mean: np.ndarray
    variance: np.ndarray
    slab: Slab
    noise_variance: float
    status: str
    iterations: int
    trace: dict[str, np.ndarray]
    reproducibility: np.ndarray | None = None


class Start(NamedTuple):
    """What message passing found, if it was used, a model in the units of the data, the mean evidence of a sample under it, and whether
    its noise is assumed, because there is too little to learn."""

    found: Found | None
    model: CodingModel
    evidence: float
    assumed: bool = False


def task_of(
    data: np.ndarray, given: Given, nominal: Nominal | None, options: Options, weight: np.ndarray | None = None, *, many: bool = False
) -> Task:
    """The task with its units, and the prior of its components; of `many` samples the data may be some."""
    unit = _units(data, nominal, options.n_components, weight)
    prior = _prior(nominal, unit, (options.n_components, data.shape[1]))
    return Task(data, given, nominal, options, unit, prior, weight, many)


def best_start(task: Task) -> Start:
    """Of `n_init` starts the best: by message passing, which compares its runs, or else of samples, by their evidence."""
    options = task.options
    if options.max_iter is None:
        return _by_trial(task)
    if options.max_iter > 0:
        return _by_message_passing(task, options.seed)
    if options.n_init == 1 or options.refine_iter == 0:
        return by_samples(task, options.seed)
    return max((_tried(task, by_samples(task, options.seed + k)) for k in range(options.n_init)), key=lambda start: start.evidence)


def _tried(task: Task, start: Start) -> Start:
    """A start after a few rounds, which tell more than what it began with."""
    model = refine(task.data, start.model, task.prior, Learn(task.given.learn), _TRIED_ROUNDS, task.weight).model
    return Start(None, model, _judged(model, task.data))


def _by_trial(task: Task) -> Start:
    """Message passing where it pays: if it does better in a few iterations than a few rounds from samples."""
    options = task.options
    size = task.data.size * options.n_components
    if options.refine_iter == 0:
        return _by_message_passing(task._replace(options=options._replace(max_iter=_LONG)), options.seed)
    if size > _SMALL:
        return best_start(task._replace(options=options._replace(max_iter=0)))
    plain = max((_tried(task, by_samples(task, options.seed + k)) for k in range(options.n_init)), key=lambda start: start.evidence)
    short = options._replace(max_iter=_FIRST_TRIED, n_init=max(options.n_init, _FIRST_RUNS))
    trial = _by_message_passing(task._replace(options=short), options.seed, _NO_SEARCH)
    if trial.found is not None and trial.found.status == Status.DIVERGED:
        return max(trial, plain._replace(found=trial.found), key=lambda start: start.evidence)
    found = _by_message_passing(task._replace(options=options._replace(max_iter=_TRIED)), options.seed)
    if found.evidence <= plain.evidence:
        return plain._replace(found=found.found)
    if found.found is not None and found.found.status in ("converged", "unconfirmed"):
        return found
    if found.evidence <= trial.evidence:  # three times the iterations, and the search, brought nothing: nor would more, as on digits
        return found
    longer = _by_message_passing(task._replace(options=options._replace(max_iter=_LONG)), options.seed)
    return max(found, longer, key=lambda start: start.evidence)


def trace_of(found: Found | None, unit: Units) -> dict[str, np.ndarray]:
    """The trace in the units of the data; empty without message passing."""
    if found is None:
        return {name: np.zeros(0) for name in _TRACE}
    return {name: values * (unit.data**2 if _TRACE[name] else 1.0) for name, values in found.trace.items()}


def _solve(observed: Observed, model: Model, task: Task, seed: int, search: Search) -> Found:
    """Message passing that learns its parameters on the way."""
    options = task.options
    solution = solve(
        observed,
        model,
        learn=task.given.learn,
        center=False,
        search=search,
        n_atoms=options.n_components,
        max_iterations=_LONG if options.max_iter is None else options.max_iter,
        tolerance=options.tol,
        runs=options.n_init if task.nominal is None else None,
        seed=seed,
        dtype=task.data.dtype,
        progress=options.progress,
    )
    X, count = solution.model.prior.X, int(solution.iterations)
    slab = Slab(float(X.rho), float(X.mean), float(X.variance))
    trace = {name: np.asarray(getattr(solution.trace, name)[:count], dtype=np.float64) for name in _TRACE}
    noise, again = float(solution.model.noise_variance), solution.reproducibility if solution.runs > 1 else None
    # Estimators know no other channel: a misfit of the channel is a run that settled.
    status = Status.CONVERGED if solution.status is Status.MISFIT else solution.status
    return Found(solution.mean.F, solution.variance.F, slab, noise, str(status), count, trace, again)


def _by_message_passing(task: Task, seed: int, search: Search = _SEARCH) -> Start:
    """What message passing finds; plain samples in its place if they explain the data better."""
    known = ~np.isnan(task.data)
    rows, columns = known.any(axis=1), known.any(axis=0)
    matrix = None if task.nominal is None else task.nominal.matrix[:, columns]
    found = _solve(_observed(task.data[rows][:, columns], matrix, task.unit), _first_model(task), task, seed, search)
    mean, variance = (value.astype(np.float64) for value in task.prior)  # features that were never observed stay as they were before
    mean[:, columns] = found.mean.T * task.unit.components
    variance[:, columns] = found.variance.T * task.unit.components**2
    model = _outside(task, mean, variance, found.slab, found.noise_variance)
    power = float(np.nanmean(np.square(task.data, dtype=np.float64)))
    sound = found.status in (Status.CONVERGED, Status.UNCONFIRMED)
    assumed = sound and task.given.noise_variance is None and float(np.mean(model.noise_variance)) < _CLEAN * power
    if assumed:
        model = model._replace(noise_variance=_ASSUMED * power)
    start = Start(found, model, _judged(model, task.data), assumed)
    if task.options.refine_iter == 0 or start.evidence > _without_codes(task):
        return start
    samples = by_samples(task, seed).model
    return max(start, Start(found, samples, _judged(samples, task.data)), key=lambda start: start.evidence)


def by_samples(task: Task, seed: int, noise: float | None = None) -> Start:
    """The nominal components or, without any, samples of the prior's norm, large ones more often; parameters where learning starts.

    `noise` is the noise's share of the power there, if it is learned.
    """
    mean = task.prior.mean
    if task.nominal is None:
        count = len(mean)
        filled = np.nan_to_num(np.asarray(task.data, dtype=np.float64))
        chosen = _large_samples(filled, task.weight, count, np.random.default_rng(seed))
        size = np.sqrt(np.mean(np.square(chosen), axis=1, keepdims=True))
        mean = task.unit.components * chosen / np.where(size > 0, size, 1)
    inside = _first_model(task, noise)
    X: Any = inside.prior.X
    model = _outside(task, mean, _FIRST_DOUBT * task.prior.variance, Slab(X.rho, X.mean, X.variance), inside.noise_variance)
    return Start(None, model, np.nan)  # not judged yet


def _large_samples(filled: np.ndarray, weight: np.ndarray | None, count: int, random: np.random.Generator) -> np.ndarray:
    """Samples, large ones more often. Their order does not matter, and a sample of weight 2 is as good as two of them."""
    rows, which = np.unique(filled, axis=0, return_inverse=True)
    power = np.sum(np.square(rows), axis=1) * np.bincount(which.ravel(), weights=weight, minlength=len(rows))
    chosen = random.choice(len(rows), min(count, int(np.count_nonzero(power))), replace=False, p=power / power.sum())
    return np.resize(rows[chosen], (count, filled.shape[1]))


def _outside(task: Task, mean: np.ndarray, variance: np.ndarray, slab: Slab, noise_variance: float) -> CodingModel:
    """The model in the units of the data; components are in them already."""
    unit, options = task.unit, task.options
    slab = Slab(float(slab.density), float(slab.mean) * unit.codes, float(slab.variance) * unit.codes**2)
    return CodingModel(mean, variance, slab, float(noise_variance) * unit.data**2, density_weight(bool(options.own_density)), options.fast)


def _judged(model: CodingModel, data: np.ndarray) -> float:
    """Mean evidence of some samples; what is not a number ranks last."""
    return float(np.nan_to_num(np.mean(infer_codes(model, data[:_JUDGED], ("evidence",), _CLOSELY).evidence), nan=-np.inf))


def _without_codes(task: Task) -> float:
    """Mean evidence of a sample if it were noise of the data's power."""
    return -_entries(task) * (np.log(2 * np.pi * task.unit.data**2) + 1) / 2


def _entries(task: Task) -> float:
    """Observed entries of a sample, in the mean of those that judge."""
    return float(np.mean(np.sum(~np.isnan(task.data[:_JUDGED]), axis=1)))


def _first_model(task: Task, share: float | None = None) -> Model:
    """The model inside, from given parameters where there are any, and else with this share of noise."""
    given, unit = task.given, task.unit
    share = share or (_MUCH_NOISE if task.many else _FIRST_NOISE)
    few = min(FIRST_DENSITY, _FIRST_CODES / task.options.n_components)
    noise = share if given.noise_variance is None else given.noise_variance / unit.data**2
    density = (few if task.many else FIRST_DENSITY) if given.density is None else given.density
    mean = 0.0 if given.slab_mean is None else given.slab_mean / unit.codes
    # The power of the data that is not noise is the codes'.
    left = max(1 - noise, _FIRST_NOISE) / density
    variance = max(left - mean**2, _FIRST_NOISE * left) if given.slab_variance is None else given.slab_variance / unit.codes**2
    eta = np.inf if task.nominal is None else task.nominal.eta
    return Model(Pair(F=Gaussian(), X=GaussBernoulli(density, mean, variance)), GaussianNoise(noise), knowledge_of(eta))


def _observed(data: np.ndarray, matrix: np.ndarray | None, unit: Units) -> Observed:
    Y = np.ascontiguousarray(data.T) / data.dtype.type(unit.data)
    seen = ~np.isnan(Y)
    F_prime = None if matrix is None else matrix.T / unit.components
    return Observed(np.where(seen, Y, 0), F_prime, None if seen.all() else seen)


def _units(data: np.ndarray, nominal: Nominal | None, n_components: int, weight: np.ndarray | None = None) -> Units:
    """Data of unit power; atoms of about unit norm, or of the size of the nominal ones."""
    each = np.ones(len(data)) if weight is None else weight
    count = each @ np.count_nonzero(~np.isnan(data), axis=1)
    power = np.sqrt(each @ np.nansum(np.square(data, dtype=np.float64), axis=1) / count) if count > 0 else 0.0
    one = float(power) if power > 0 else 1.0
    size = data.shape[1] ** -0.5 if nominal is None else float(np.sqrt(np.mean(np.square(nominal.matrix))))
    return Units(one, size, one / (size * np.sqrt(n_components)))


def _prior(nominal: Nominal | None, unit: Units, shape: tuple[int, int]) -> ComponentPrior:
    """Components and their variance before the data, from the nominal ones if there are any."""
    if nominal is None:
        return ComponentPrior(np.zeros(shape), np.full(shape, unit.components**2))
    share = nominal.eta / (1 + nominal.eta)
    return ComponentPrior(nominal.matrix / np.sqrt(1 + nominal.eta), np.full(shape, unit.components**2 * share))
