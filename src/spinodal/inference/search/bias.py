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
from ...model.priors import GaussBernoulli, Gaussian, Moments
from ..solution import Solution, Status
from ..solvers.base import Estimate
from .learning import parameters, with_parameters

# What is corrected, insofar as it is learned: positive numbers, one for all entries.
CORRECTED = ("noise_variance", "density", "slab_variance")
# Results of another status are wrong, and so are their parameters.
_WORTH = (Status.CONVERGED, Status.UNCONFIRMED)
# So many times data are drawn from what is thought to be right.
_TURNS = 2
# Where the first set of data drawn says that nothing is wrong by more than this, that is believed.
_RIGHT = 0.03
# In each turn so many sets of data are drawn that their nonzeros tell factors to this relative error, but no more than these; a run on them
# may take so many iterations.
_ERROR, _MOST, ITERATIONS = 0.01, 4, 1500
# More digits of a factor are not known, and would differ with the units of the data, by when an iteration stops.
_DIGITS = 2
# Beyond this factor either way a run does not err: it can't learn the parameter. (Noise stays within a factor of 1.5 of its start, where
# entries were held out before.)
_FURTHEST = 1.4
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


def course(
    found: Solution, names: Sequence[str], mask: np.ndarray | None, seed: Sequence[int], dtype: Any, errs: bool = False
) -> Generator[list[Drawn], list[Model | None], Solution]:
    """The solution with these parameters corrected: yields data to be learned from, of which entries are observed as the `mask` says, and
    is sent the models that runs on them end with, None for one that went wrong. That a run `errs` may be known before."""
    better = found
    if not names or found.status not in _WORTH or not can_draw(found.model):
        return found
    for turn in range(errs, 1 + _TURNS):  # one set of data first, to see whether there is anything to correct
        drawn = [drawn_again(better, mask, (*seed, turn, k), dtype) for k in range(times(found) if turn else 1)]
        by = factors(drawn, (yield drawn), names)
        if turn:
            better = corrected(found, by)
        if are_right(by, names):
            break
    return better


def can_draw(model: Model) -> bool:
    """Whether data are drawn from such a model: Gaussian atoms, sparse signals and Gaussian noise of one variance. Here and not by JAX,
    whose random numbers take longer to compile than a small solve."""
    (F, X), noise = model.prior, model.channel
    one = isinstance(noise, GaussianNoise) and np.ndim(noise.variance) == 0
    return one and isinstance(F, Gaussian) and isinstance(X, GaussBernoulli)


def drawn_again(found: Solution, mask: np.ndarray | None, seed: Sequence[int], dtype: Any) -> Drawn:
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
    realised = {
        "noise_variance": np.mean((noise if mask is None else noise[mask]) ** 2),
        "density": np.mean(nonzero),
        "slab_variance": np.var(values),
    }
    nothing = Moments(*(np.broadcast_to(np.asarray(value, dtype), shape) for value in prior.moments()))
    start = Estimate(Moments(F.astype(dtype), variance.astype(dtype)), nothing)
    return Drawn(Y.astype(dtype), found.model, start, {name: float(value) for name, value in realised.items()})


def factors(drawn: Sequence[Drawn], ends: Sequence[Model | None], names: Sequence[str]) -> dict[str, float]:
    """By which factors runs misjudge the parameters of data drawn for them. Those that most runs can't learn are left out."""
    learned = [(parameters(end), each.parameters) for each, end in zip(drawn, ends, strict=True) if end is not None]
    by = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in names:
            errors = np.array([np.log(values[name]) - np.log(true[name]) for values, true in learned])
            right = np.abs(errors) < np.log(_FURTHEST)
            if 2 * np.sum(right) > len(drawn):
                by[name] = round(float(np.exp(np.mean(errors[right]))), _DIGITS)
    return by


def are_right(by: dict[str, float], names: Sequence[str]) -> bool:
    """Whether these factors say that there is next to nothing to correct."""
    return all(round(abs(by.get(name, np.inf) - 1), _DIGITS) <= _RIGHT for name in names)


def corrected(found: Solution, by: dict[str, float]) -> Solution:
    """The solution with parameters, and their ranges, divided by these factors."""
    if not by:
        return found
    values = parameters(found.model)
    new = {name: float(values[name]) / factor for name, factor in by.items()}
    ranges = {name: (low / by.get(name, 1.0), high / by.get(name, 1.0)) for name, (low, high) in found.ranges.items()}
    if "density" in new:
        most = max(_DENSEST, float(values["density"]))
        new["density"] = min(new["density"], most)
        ranges |= {"density": tuple(min(end, most) for end in ranges["density"])} if "density" in ranges else {}
    return replace(found, model=with_parameters(found.model, new), ranges=ranges)
