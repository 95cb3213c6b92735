"""How wrong learned parameters are on data like these: they are learned again from data drawn with what was found.

In small systems and in much noise a run misjudges parameters in the same way on all data of a kind: signals that it can't solve make the
noise look larger, messages that hold for large systems make codes look denser. So it is given data drawn from its own result, whose
parameters are known, and starts from the right atoms; what it learns, over what they have, is the factor by which it errs, and what it
learned from Y is divided by that; then once more with data drawn from what comes out, since the factor is not the same everywhere. (A
bias corrected by the parametric bootstrap. It is measured, not proven, that two turns are enough.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...model.model import Model
from ...model.priors import Moments
from ..solution import Solution
from ..solvers.base import Estimate
from .learning import parameters, with_parameters

# What is corrected, in as far as it is learned: positive numbers, one for all entries.
CORRECTED = ("noise_variance", "density", "slab_variance")
# So many times data are drawn from what is thought to be right.
TURNS = 2
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
    """Data drawn from what was found, what a run on them starts from, and the parameters as these data have them."""

    Y: np.ndarray
    start: Estimate
    parameters: dict[str, float]


def drawn_again(found: Solution, seed: Sequence[int], dtype: Any) -> Drawn:
    """Data of the same shape drawn from what was found. A run on them starts from their atoms, known as well as those found, and signals
    of which nothing is known."""
    number = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)  # 31 bits, for single precision
    model, mean, variance = found.model, *(np.asarray(each.F, dtype) for each in (found.mean, found.variance))
    # The sign of an atom is free. With its largest entry positive the data do not depend on it.
    mean = mean * np.where(np.take_along_axis(mean, np.argmax(np.abs(mean), axis=0)[None], axis=0) < 0, -1, 1).astype(dtype)
    try:
        F, Y, realised = _drawn(model, mean, variance, found.mean.X.shape[-1], number)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):  # a sampler that looks at its parameters
        F, Y, realised = _draw(model, mean, variance, found.mean.X.shape[-1], number)
    X = Moments(*(np.full(found.mean.X.shape, float(value), dtype) for value in model.prior.X.moments()))
    start = Estimate(Moments(np.asarray(F, dtype), variance), X)
    return Drawn(np.asarray(Y, dtype), start, {name: float(value) for name, value in realised.items()})


def _draw(model: Model, mean: Any, variance: Any, P: int, seed: Any) -> tuple[Any, Any, dict[str, Any]]:
    N = mean.shape[1]
    for_F, for_X, for_Y = jax.random.split(jax.random.key(seed), 3)
    F = mean + jnp.sqrt(variance) * jax.random.normal(for_F, mean.shape, mean.dtype)
    X = model.prior.X.sample(for_X, (N, P))
    Z = F @ X / jnp.sqrt(jnp.asarray(N, mean.dtype))
    Y = model.channel.sample(for_Y, Z)
    nonzero = X != 0
    number = jnp.maximum(jnp.sum(nonzero), 1)
    slab = jnp.sum(X**2) / number - (jnp.sum(X) / number) ** 2
    return F, Y, {"noise_variance": jnp.mean((Y - Z) ** 2), "density": jnp.mean(nonzero), "slab_variance": slab}


_drawn = jax.jit(_draw, static_argnums=3)


def factors(drawn: Sequence[Drawn], ends: Sequence[Model], names: Sequence[str]) -> dict[str, float]:
    """By which factors runs misjudge the parameters of data drawn for them; those that they can't learn are left out."""
    learned = [parameters(end) for end in ends]
    pairs = {name: [(values[name], each.parameters[name]) for values, each in zip(learned, drawn, strict=True)] for name in names}
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = {name: float(np.exp(np.mean([np.log(value / true) for value, true in some]))) for name, some in pairs.items()}
    return {name: round(factor, _DIGITS) for name, factor in mean.items() if 1 / _FURTHEST < factor < _FURTHEST}


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
