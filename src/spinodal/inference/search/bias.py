"""How wrong learned parameters are on data like these: they are learned again from data drawn with what was found.

In small systems and in much noise a run misjudges parameters in the same way on all data of a kind: signals that it can't solve make the
noise look larger, messages that hold for large systems make codes look denser. So it is given data drawn from its own result, whose
parameters are known, and starts from the right atoms; what it learns, over what they have, is the factor by which it errs, and what it
learned from Y is divided by that; then once more with data drawn from what comes out, since the factor is not the same everywhere. (A
bias corrected by the parametric bootstrap. It is measured, not proven, that two turns are enough.)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...model.channels import GaussianNoise
from ...model.model import Model
from ...model.priors import GaussBernoulli, Moments
from ..solution import Solution, Status
from ..solvers.base import Estimate
from .learning import parameters, with_parameters

# What is corrected, in as far as it is learned: positive numbers, one for all entries.
CORRECTED = ("noise_variance", "density", "slab_variance")
# Parameters of others say nothing.
_WORTH = (Status.CONVERGED, Status.UNCONFIRMED)
# So many times data are drawn from what is thought to be right.
TURNS = 2
# Where the first set of data drawn says that nothing is wrong by more than this, that is believed.
_RIGHT = 0.03
# In each, as many sets of data are drawn as it takes to know factors to this relative error, by the number of nonzeros, but not more.
_ERROR, _MOST = 0.01, 4
# More digits of a factor are not known, and would differ with the units of the data, by when an iteration stops.
_DIGITS = 2
# Beyond this factor either way a run does not err: it can't learn the parameter.
_FURTHEST = 1.5
# A density stays below this.
_DENSEST = 0.999


def times(found: Solution) -> int:
    """How many sets of data are drawn."""
    nonzeros = max(1.0, float(found.model.prior.X.density() or 1.0) * found.mean.X.size)
    return int(np.clip(np.ceil(2 / nonzeros / _ERROR**2), 1, _MOST))


class Drawn(NamedTuple):
    """Data drawn from what was found, with that model; what a run on them starts from, and the parameters as these data have them."""

    Y: np.ndarray
    model: Model
    start: Estimate
    parameters: dict[str, float]


def course(found: Solution, names: Sequence[str], seed: Sequence[int], dtype: Any) -> Generator[list[Drawn], list[Model], Solution]:
    """The solution with these parameters corrected: yields data to be learned from, and is sent the models that runs on them end with."""
    better = found
    if not names or found.status not in _WORTH or not can_draw(found.model):
        return found
    for turn in range(1 + TURNS):  # one set of data first, to see whether there is anything to correct
        drawn = [drawn_again(better, (*seed, turn, k), dtype) for k in range(times(found) if turn else 1)]
        by = factors(drawn, (yield drawn), names)
        if turn:
            better = corrected(found, by)
        if are_right(by, names):
            break
    return better


def can_draw(model: Model) -> bool:
    """Whether data are drawn from such a model: sparse signals in Gaussian noise of one variance. Here and not by JAX, whose random numbers
    take longer to compile than a small solve."""
    noise = model.channel
    return isinstance(model.prior.X, GaussBernoulli) and isinstance(noise, GaussianNoise) and np.ndim(noise.variance) == 0


def drawn_again(found: Solution, seed: Sequence[int], dtype: Any) -> Drawn:
    """Data of the same shape drawn from what was found. A run on them starts from their atoms, known as well as those found, and signals
    of which nothing is known."""
    random, prior = np.random.default_rng(seed), found.model.prior.X
    mean, variance = (np.asarray(each.F, float) for each in (found.mean, found.variance))
    shape = mean.shape[1], found.mean.X.shape[-1]
    # The sign of an atom is free. With its largest entry positive the data do not depend on it.
    mean = mean * np.where(np.take_along_axis(mean, np.argmax(np.abs(mean), axis=0)[None], axis=0) < 0, -1, 1)
    F = mean + np.sqrt(variance) * random.standard_normal(mean.shape)
    nonzero = random.random(shape) < prior.rho
    X = np.where(nonzero, prior.mean + np.sqrt(prior.variance) * random.standard_normal(shape), 0.0)
    noise = np.sqrt(found.model.channel.variance) * random.standard_normal((len(F), shape[1]))
    Y = F @ X / np.sqrt(shape[0]) + noise
    values = X[nonzero] if nonzero.any() else np.zeros(1)
    realised = {"noise_variance": np.mean(noise**2), "density": np.mean(nonzero), "slab_variance": np.var(values)}
    nothing = Moments(*(np.full(shape, float(value), dtype) for value in prior.moments()))
    start = Estimate(Moments(F.astype(dtype), variance.astype(dtype)), nothing)
    return Drawn(Y.astype(dtype), found.model, start, {name: float(value) for name, value in realised.items()})


def factors(drawn: Sequence[Drawn], ends: Sequence[Model], names: Sequence[str]) -> dict[str, float]:
    """By which factors runs misjudge the parameters of data drawn for them; those that they can't learn are left out."""
    learned = [parameters(end) for end in ends]
    pairs = {name: [(values[name], each.parameters[name]) for values, each in zip(learned, drawn, strict=True)] for name in names}
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = {name: float(np.exp(np.mean([np.log(value / true) for value, true in some]))) for name, some in pairs.items()}
    return {name: round(factor, _DIGITS) for name, factor in mean.items() if 1 / _FURTHEST < factor < _FURTHEST}


def are_right(by: dict[str, float], names: Sequence[str]) -> bool:
    """Whether these factors say that there is next to nothing to correct."""
    return all(round(abs(by.get(name, np.inf) - 1), _DIGITS) <= _RIGHT for name in names)


def corrected(found: Solution, by: dict[str, float]) -> Solution:
    """The solution with parameters, and their ranges, divided by these factors."""
    if not by:
        return found
    values = parameters(found.model)
    new = {name: float(values[name]) / factor for name, factor in by.items()}
    if "density" in new:
        new["density"] = min(new["density"], max(_DENSEST, float(values["density"])))
    ranges = {name: (low / by.get(name, 1.0), high / by.get(name, 1.0)) for name, (low, high) in found.ranges.items()}
    return replace(found, model=with_parameters(found.model, new), ranges=ranges)
