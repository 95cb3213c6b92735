"""`fit_components`: from data in any units, and what the user knows of them, to a learned model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .em import Learn
from .learned import Learned, coding_model, published
from .model import CodingModel, Slab
from .rounds import refine
from .scales import Scales, as_learned, most_probable, of_unit_norm
from .starts import FIRST_DENSITY, Given, Nominal, Options, Start, Task, best_start, task_of, trace_of


class Fitted(NamedTuple):
    """The learned model, how the whole fit and message passing alone ended, iterations, the trace with the evidence of each round, and the
    share of other runs that found each component, if there were others."""

    learned: Learned
    status: str
    solver_status: str
    iterations: int
    history: dict[str, np.ndarray]
    reproducibility: np.ndarray | None = None


def fit_components(data: np.ndarray, given: Given, nominal: Nominal | None, options: Options, before: Learned | None = None) -> Fitted:
    """Learn the components and parameters of `data` (samples x features, NaN where missing).

    Message passing finds the components, the better of several starts is taken by its evidence, and rounds of expectation
    maximisation refine them. `before` is a model to go on from, in place of message passing.
    """
    task = task_of(data, given, nominal, options)
    if not np.nansum(np.square(data)) > 0:
        return _nothing_learned(task)
    first = best_start(task) if before is None else Start(None, _with_given(before, task), np.nan)
    refined = refine(data, first.model, task.prior, Learn(given.learn, None, None), options.refine_iter)
    model, found = refined.model, first.found
    if nominal is None and not given.fixes_slab:
        outside, scales = of_unit_norm(model)
    else:
        if refined.usage is not None:
            model = most_probable(model, task.prior, refined.usage, given.learn)
        outside, scales = model, as_learned(model, task.prior, ~np.isnan(data), given.fixes_slab)
    solver_status = found.status if found is not None else "max_iterations" if before is None else "converged"
    settled = "converged" if refined.settled else "max_iterations"
    return Fitted(
        published(outside, scales, data.dtype),
        settled if options.refine_iter > 0 else solver_status,
        solver_status,
        len(refined.evidence) if found is None else found.iterations,
        trace_of(found, task.unit) | {"evidence": refined.evidence},
        None if found is None else found.reproducibility,
    )


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
