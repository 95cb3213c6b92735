"""`fit_components`: from data in any units, and what the user knows of them, to a learned model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .em import Learn
from .learned import Learned, coding_model, published
from .model import CodingModel, Slab
from .restoring import with_noise_weight
from .rounds import refine
from .scales import Scales, Usage, as_learned, most_probable, of_unit_norm
from .sources import drawn
from .starts import FIRST_DENSITY, MANY_NOISES, Given, Nominal, Options, Start, Task, best_start, by_samples, task_of, trace_of
from .stream import BATCH, Stream, absorbed, finished, learn_stream

# More codes than this are not kept: their samples come in minibatches.
_MANY = 2_000_000
# Minibatches for every round that is allowed, samples by which they are judged, and nats per entry by which late evidences may differ.
_BATCHES, _JUDGES, _ALIKE = 2, 256, 1e-2


class Fitted(NamedTuple):
    """The learned model, how the whole fit and message passing alone ended, iterations, the trace with the evidence of each round, and the
    share of other runs that found each component, if there were others."""

    learned: Learned
    status: str
    solver_status: str
    iterations: int
    history: dict[str, np.ndarray]
    reproducibility: np.ndarray | None = None


class Ongoing(NamedTuple):
    """A fit that goes on with more samples: how it began, and where it stands."""

    task: Task
    stream: Stream


def fit_components(
    data: np.ndarray,
    given: Given,
    nominal: Nominal | None,
    options: Options,
    before: Learned | None = None,
    weight: np.ndarray | None = None,
) -> Fitted:
    """Learn the components and parameters of `data` (samples x features, NaN where missing).

    Message passing finds the components, the better of several starts is taken by its evidence, and rounds of expectation
    maximisation refine them. `before` is a model to go on from, in place of message passing. Many samples are learned in minibatches.
    """
    if nominal is None and weight is None and wants_minibatches(data, options):
        return fit_minibatches(data, given, options, before)
    task = task_of(data, given, nominal, options, weight)
    if not np.nansum(np.square(data)) > 0:
        return _nothing_learned(task)
    first = best_start(task) if before is None else Start(None, _with_given(before, task), np.nan)
    learn = Learn(given.learn, None, None, options.own_density is None)
    rounds = 0 if first.assumed else options.refine_iter  # with hardly any noise they have nothing to add
    refined = refine(data, first.model, task.prior, learn, rounds, weight, goes_on=before is not None)
    found = first.found
    solver_status = found.status if found is not None else "max_iterations" if before is None else "converged"
    settled = "converged" if refined.settled or first.assumed else "max_iterations"
    learned = _published(task, refined.model, refined.usage, ~np.isnan(data))
    return Fitted(
        with_noise_weight(learned, data, options.seed, options.own_density),
        settled if options.refine_iter > 0 else solver_status,
        solver_status,
        len(refined.evidence) if found is None else found.iterations,
        trace_of(found, task.unit) | {"evidence": refined.evidence},
        None if found is None else found.reproducibility,
    )


def wants_minibatches(data: Any, options: Options) -> bool:
    """Whether there are more samples than are worth keeping the codes of."""
    many = data.shape[0] * options.n_components > _MANY and data.shape[0] > 2 * BATCH and options.refine_iter > 0
    return many if options.minibatches is None else options.minibatches


def fit_minibatches(source: Any, given: Given, options: Options, before: Learned | None = None, mean: np.ndarray | None = None) -> Fitted:
    """Learn from minibatches of anything with rows, in memory or not; `mean` is taken off first. Codes are found by VAMP, in single
    precision, and some samples, which may be among those learned from, judge them by expectation propagation."""
    random = np.random.default_rng(options.seed)
    off = 0.0 if mean is None else mean

    def draw(random: np.random.Generator, count: int = BATCH) -> np.ndarray:
        return (drawn(source, count, random) - off).astype(np.float32)

    some = draw(random)
    if not np.nansum(np.square(some)) > 0:
        return _nothing_learned(task_of(some, given, None, options))
    start = begun(some, given, options, before)
    batches = -(-source.shape[0] // BATCH)
    most = max(_BATCHES * options.refine_iter, batches)
    free = before is None and "noise_variance" in given.learn
    firsts = [by_samples(start.task, options.seed, noise).model for noise in MANY_NOISES] if free else [start.stream.model]
    judge = draw(random, _JUDGES)
    stream, settled = learn_stream(draw, judge, firsts, start.task.prior, Learn(given.learn, None, None), most, options.seed)
    fitted = fitted_so_far(Ongoing(start.task, stream), source.dtype, "converged" if settled else "max_iterations")
    return fitted._replace(learned=with_noise_weight(fitted.learned, judge, options.seed, options.own_density))


def begun(some: np.ndarray, given: Given, options: Options, before: Learned | None = None) -> Ongoing:
    """Where a fit by minibatches begins, given the first samples."""
    task = task_of(some, given, None, options._replace(fast=True), many=True)
    model = by_samples(task, options.seed).model if before is None else _with_given(before, task)
    return Ongoing(task, Stream(model))


def went_on(ongoing: Ongoing, data: np.ndarray, weight: np.ndarray | None = None) -> Ongoing:
    """The fit after more samples."""
    stream, learn = ongoing.stream, Learn(ongoing.task.given.learn, None, None)
    for first in range(0, len(data), BATCH):
        rows = slice(first, first + BATCH)
        part = data[rows].astype(np.float32)
        stream = absorbed(stream, part, ongoing.task.prior, learn, None if weight is None else weight[rows])
    return ongoing._replace(stream=stream)


def fitted_so_far(ongoing: Ongoing, dtype: Any, status: str | None = None) -> Fitted:
    """What was learned by minibatches; it has settled if the evidence of the last ones is that of those before."""
    task, stream = ongoing
    if stream.sums is None:
        return _nothing_learned(task)
    model, usage = finished(stream, task.prior)
    if status is None:
        half = len(stream.evidence) // 4
        late, before = (np.mean(part) if half else np.inf for part in (stream.evidence[-half:], stream.evidence[-2 * half : -half]))
        status = "converged" if half and abs(late - before) < _ALIKE * task.data.shape[1] else "max_iterations"
    seen = np.broadcast_to(True, (max(int(stream.weight), 1), task.data.shape[1]))
    learned = _published(task._replace(data=task.data.astype(dtype)), model, usage, seen)
    history = trace_of(None, task.unit) | {"evidence": np.array(stream.evidence)}
    return Fitted(learned, status, status, stream.steps, history)


def _published(task: Task, model: CodingModel, usage: Usage | None, seen: np.ndarray) -> Learned:
    """Components in the scales in which they are published."""
    if task.nominal is None and not task.given.fixes_slab:
        outside, scales = of_unit_norm(model)
    else:
        if usage is not None:
            model = most_probable(model, task.prior, usage, task.given.learn)
        outside, scales = model, as_learned(model, task.prior, seen, task.given.fixes_slab)
    return published(outside, scales, task.data.dtype)


def _with_given(before: Learned, task: Task) -> CodingModel:
    """The model of an earlier fit with the parameters that are given now in place of its own."""
    given = {name: value for name, value in task.given._asdict().items() if value is not None}
    noise, density = given.get("noise_variance"), given.get("density")
    if noise is not None:
        before = before._replace(feature_noise=np.full_like(before.feature_noise, noise))
    if density is not None:
        before = before._replace(component_density=np.full_like(before.component_density, density))
    return coding_model(before._replace(**given), own_density=task.options.own_density, fast=task.options.fast)


def _nothing_learned(task: Task) -> Fitted:
    """Data without a single number that is not zero: components as before, no noise."""
    given, prior = task.given, task.prior
    slab = Slab(given.density or FIRST_DENSITY, given.slab_mean or 0.0, given.slab_variance or task.unit.codes**2)
    model = CodingModel(prior.mean, prior.variance, slab, given.noise_variance or 0.0)
    scales = Scales(np.ones(len(prior.mean)), np.zeros(len(prior.mean)))
    learned = published(model, scales, task.data.dtype)
    return Fitted(learned, "degenerate", "degenerate", 0, trace_of(None, task.unit) | {"evidence": np.zeros(0)})
