"""Parameters learned on the way: the noise variance, density, mean and variance of the slab of X, and eta (expectation maximisation).

The density is the expected share of nonzeros, the slab's mean and variance are those of the expected nonzeros. The noise is moved until
the measured residuals have the size the model says they should: in the regimes of interest all variances are proportional to it, and the
usual EM step would hardly move. Residuals of entries that were fitted can't tell noise from what too dense codes explain by chance, so
where nothing is known of F they are those of entries held out; with F', and at the end, those of the typical signal. In much noise that is
not enough, and the noise is chosen from outside (`noise.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp

from ...model.channels import GaussianNoise
from ...model.model import Model
from ...model.priors import Moments
from ...pair import Pair
from ..execution.machine import ranked
from ..loop import History, Tolerance, median
from ..messages.update import COUNT_EVERY
from ..solvers.base import Cooling, Estimate, Measured, Solver, Wrapper, model_of
from ..task import Task
from .annealing import too_hot_to_learn
from .diagnostics import residuals

# Names of what can be learned whatever the channel.
LEARNABLE = ("noise_variance", "density", "slab_mean", "slab_variance", "eta")
# What they, and parameters of channels, are called where users read of them.
IN_WORDS = {
    "density": "density of X",
    "slab_mean": "mean of X's nonzeros",
    "slab_variance": "variance of X's nonzeros",
    "noise_variance": "noise variance",
    "row_variances": "noise variance of the typical row",
    "eta": "error of F', eta",
    "gain_spread": "spread of the gains",
    "offset_variance": "variance of the offsets",
    "rate": "rate of the counts",
    "scale": "size of the noise",
    "nu": "degrees of freedom of the noise",
    "share": "share of outliers",
    "outlier_variance": "variance of outliers",
    "faulty": "share of faulty sensors",
    "fault_variance": "variance of what faulty sensors report",
}
# The parameters of the prior of X that some of them are.
_OF_SLAB = {"density": "rho", "slab_mean": "mean", "slab_variance": "variance"}
# A step changes these by at most these factors, and those of a channel by at most this one.
_FASTEST = {"noise_variance": 2.0, "row_variances": 2.0, "density": 1.2, "slab_variance": 1.2, "eta": 1.2}
_OF_CHANNEL = 1.5
# The share of a Newton step that is taken.
_STEP = 0.5
# The ranges that some of those are kept in.
_KEPT = {"share": (1e-4, 0.5), "faulty": (1e-4, 0.9), "nu": (2.1, 1e3), "gain_spread": (1e-3, 3.0)}
# Names under which the noise is learned: one number (or factor) for all entries, or one for each row.
OF_NOISE = ("noise_variance", "row_variances")
# What a channel calls its noise.
_NOISE = "variance"
# The least noise that is learned, in units of the data's power: below, it falls for ever, so that no two runs agree on it. Atoms of
# data without noise are then found to squared sines of 1e-19 to 1e-10 (measured).
_FAINTEST = 1e-8
# Noise below this share of the power may still fall where runs end: they need not agree on it.
NEGLIGIBLE = 1e-5
# The density stays away from 0 and 1, where it could not come back from.
_LEAST = 1e-4
# Most power that signals can be learned to have, in units of the data's.
_LOUDEST = 10.0
# Squared residuals of entries held out may be this many times what the model says, and so many standard errors more; beyond, codes explain
# noise. The relative standard error of a variance from the median of n squares is 2.33/sqrt(n).
_OVERFIT, _ERRORS, _OF_MEDIAN = 1.1, 2.0, 2.33
# The median of the square of a standard normal number.
_MEDIAN = 0.4549
# Squares of standard normal numbers are cut here where a mean must not depend on a few, and their mean then.
_CUT, _OF_CUT = 9.0, 0.99501
# Where entries were held out before, the noise stays within this factor of what they said.
_BAND = 1.5
# Learned parameters may still move by this many tolerances a step: hard signals that never settle keep them moving a little.
_RESTLESS = 30


class Learned(NamedTuple):
    """The solver's state, the parameters learned so far, by name, the largest relative change of one in the last step, the number of
    iterations since X was last forgotten, and the parameters at the start."""

    inner: Any
    values: dict[str, Any]
    drift: Any
    age: Any
    first: dict[str, Any]


@dataclass(frozen=True)
class Learning(Wrapper):
    """A solver that learns some parameters on the way, from the given ones on."""

    inner: Solver
    names: tuple[str, ...] = ()

    def init(self, task: Task, draws: Any, start: Any = None) -> Learned:
        values = {name: jnp.asarray(value, task.Y.dtype) for name, value in parameters(model_of(task)).items() if name in self.names}
        return Learned(self.inner.init(task, draws, start), values, jnp.asarray(jnp.inf, task.Y.dtype), jnp.asarray(0), values)

    def inside(self, task: Task, state: Learned) -> Task:
        model = with_parameters(model_of(task), state.values)
        return task.with_model(model.prior, model.channel, model.knowledge)

    def step(self, task: Task, state: Learned) -> Learned:
        inside = self.inside(task, state)
        inner = self.inner.step(inside, state.inner)
        ready = (state.age % COUNT_EVERY == 0) & ~too_hot_to_learn(inside, self.inner.measure(inside, inner).level)
        values, drift = jax.lax.cond(ready, lambda: _better(inside, self.inner, inner, state), lambda: (state.values, state.drift))
        return Learned(inner, values, drift, state.age + 1, state.first)

    def restart(self, task: Task, state: Learned, start: Estimate, cooling: Cooling) -> Learned:
        return super().restart(task, state, start, cooling)._replace(age=jnp.zeros_like(state.age))

    def finished(self, task: Task, state: Learned, history: History, tolerance: Tolerance) -> Any:
        still = jnp.minimum(state.drift, 1) / _RESTLESS <= tolerance.mean
        return super().finished(task, state, history, tolerance) & still

    def learned(self, task: Task, state: Learned) -> Task:
        return self.inside(task, state)


def parameters(model: Model) -> dict[str, Any]:
    """The parameters of a model that can be learned, by name; those that it does not have are left out."""
    own = {name: getattr(model.prior.X, field, None) for name, field in _OF_SLAB.items()}
    values = {**as_learned(model.channel.learnable()), **own, "eta": getattr(model.knowledge, "eta", None)}
    fixed = model.knowledge.fixed or not hasattr(model.knowledge, "replace") or "eta" not in vars(model.knowledge)
    return {name: value for name, value in values.items() if value is not None and not (name == "eta" and fixed)}


def as_learned(of_channel: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a channel under the names by which they are learned."""
    return {"noise_variance" if name == _NOISE else name: value for name, value in of_channel.items()}


def with_parameters(model: Model, values: dict[str, Any]) -> Model:
    """The model with these parameters in the place of its own."""
    slab = {field: values[name] for name, field in _OF_SLAB.items() if name in values}
    prior = model.prior._replace(X=model.prior.X.replace(**slab)) if slab else model.prior
    of_channel = {name: values[told] for name in model.channel.learns for told in as_learned({name: None}) if told in values}
    channel = model.channel.relearned(of_channel) if of_channel else model.channel
    knowledge = model.knowledge.replace(eta=values["eta"]) if "eta" in values else model.knowledge
    return Model(Pair(*prior), channel, knowledge)


def learns_from_residuals(channel: Any) -> TypeGuard[GaussianNoise]:
    """Whether the noise is moved until residuals have the size that the model says, some of them perhaps of entries held out. The noise of
    other channels is what makes Y likeliest."""
    return isinstance(channel, GaussianNoise)


def noise_ratio(task: Task, measured: Measured, found: Estimate) -> Any:
    """How large squared residuals are, over what the model says: of entries held out, else of the typical signal's entries, each predicted
    from the others."""
    # The median of a chi-square mean of M terms is 1 - 2/(3 M).
    typical = median(measured.square / measured.level) / (1 - 2 / (3 * task.sizes[0] * jnp.mean(task.seen_by_signal) + 2))
    if task.held is None:
        return typical
    squares = jnp.where(task.held > 0, residuals(task, found) ** 2 / measured.level, jnp.inf)
    middle = (jnp.sum(task.held) / 2).astype(int)
    apart = ranked(squares.ravel(), middle) / _MEDIAN
    number = jnp.maximum(jnp.sum(task.held), 1)
    return jnp.where(jnp.any(task.held > 0), jnp.maximum(typical, apart / (_OVERFIT + _ERRORS * _OF_MEDIAN / jnp.sqrt(number))), typical)


def _better(task: Task, solver: Solver, inner: Any, state: Learned) -> tuple[dict[str, Any], Any]:
    """Better values after an iteration that counted nonzeros at a low temperature; and how far they moved, relatively, at most."""
    _, N, P = task.sizes
    measured, estimate = solver.measure(task, inner), solver.estimate(task, inner)
    old: dict[str, Any] = state.values
    new: dict[str, Any] = {}
    nonzeros = jnp.maximum(jnp.sum(estimate.nonzeros), 1)
    if not learns_from_residuals(task.channel):
        new |= _likelier(task, solver.inputs(task, inner), old)
    elif jnp.ndim(task.channel.variance) > 0:
        new |= _unequal_noise(task, task.channel, solver.inputs(task, inner), state)
    elif "noise_variance" in old:
        noise = old["noise_variance"] * noise_ratio(task, measured, estimate)
        if task.held is not None:
            first = state.first["noise_variance"]
            low = jnp.where(first < NEGLIGIBLE * task.power, 0, first / _BAND)
            noise = jnp.where(jnp.any(task.held > 0), noise, jnp.clip(noise, low, first * _BAND))
            noise = jnp.where(task.keeps_noise, old["noise_variance"], noise)
        new["noise_variance"] = jnp.clip(noise, jnp.maximum(task.rounding, _FAINTEST * task.power), task.power)
    if "density" in old:
        new["density"] = jnp.clip(nonzeros / (N * P), _LEAST, 1 - _LEAST)
    mean = parameters(model_of(task)).get("slab_mean", 0.0)
    if "slab_mean" in old:
        new["slab_mean"] = mean = jnp.sum(estimate.X.mean) / nonzeros
    if "slab_variance" in old:
        power = jnp.sum(estimate.X.mean**2 + estimate.X.variance)
        density = new.get("density", task.prior.X.density())
        # No signals far above the power of the data: where the model does not fit, estimates could run away.
        loudest = _LOUDEST * task.power / ((1.0 if density is None else density) * task.prior.F.second_moment())
        new["slab_variance"] = jnp.minimum(power / nonzeros - mean**2, loudest)
    if "eta" in old:
        apart = jnp.sqrt(1 + old["eta"]) * task.given - estimate.F.mean
        new["eta"] = jnp.mean(apart**2 + estimate.F.variance)
    fastest = {**dict.fromkeys(as_learned(dict.fromkeys(task.channel.learns)), _OF_CHANNEL), **_FASTEST}
    for name, factor in fastest.items():
        if name in new:
            new[name] = jnp.clip(new[name], old[name] / factor, old[name] * factor)
    accepted = {name: jnp.where((nonzeros > 1) & jnp.isfinite(value), value, old[name]).astype(task.Y.dtype) for name, value in new.items()}
    moved = [jnp.max(jnp.abs(accepted[name] / old[name] - 1)) for name in fastest if name in accepted]
    drift = jnp.max(jnp.stack(moved)) if moved else jnp.zeros_like(state.drift)
    return {**old, **accepted}, drift


def _unequal_noise(task: Task, channel: GaussianNoise, inputs: Moments, state: Learned) -> dict[str, Any]:
    """Variances that differ: by one factor for all, or one for each row, such that residuals have the size that the model says. They are
    those of entries predicted from the others and, where some are held out, not less than those say."""
    level = channel.variance + inputs.variance
    squares = (task.Y - inputs.mean) ** 2 / level
    seen = jnp.ones_like(squares) if task.mask is None else task.mask
    factors = {"noise_variance": _typical(squares.ravel(), seen.ravel()), "row_variances": _typical(squares, seen)[:, None]}
    overfit = jnp.ones((), squares.dtype)
    if task.held is not None:
        number = jnp.maximum(jnp.sum(task.held), 1)
        apart = _typical(squares.ravel(), task.held.ravel()) / (_OVERFIT + _ERRORS * _OF_MEDIAN / jnp.sqrt(number))
        overfit = jnp.where(jnp.any(task.held > 0), jnp.maximum(1, apart / factors["noise_variance"]), 1)
    new = {}
    for name in (name for name in factors if name in state.values):
        noise = state.values[name] * factors[name] * overfit
        if task.held is not None:
            noise = jnp.where(jnp.any(task.held > 0), noise, jnp.clip(noise, state.first[name] / _BAND, state.first[name] * _BAND))
        new[name] = jnp.clip(noise, task.rounding, _LOUDEST * task.power)
    if "row_variances" in new:
        # The standard error of a row's variance: smaller ones can't be told from zero, and would creep towards it for ever.
        told = jnp.mean(level, axis=1, keepdims=True) * jnp.sqrt(2 / jnp.maximum(jnp.sum(seen, axis=1, keepdims=True), 1))
        new["row_variances"] = jnp.maximum(new["row_variances"], told)
    return new


def _typical(squares: Any, seen: Any) -> Any:
    """The mean of the squares that were seen, along the last axis, cut where signals that are not explained would count too much."""
    return jnp.sum(jnp.minimum(squares, _CUT) * seen, axis=-1) / jnp.maximum(jnp.sum(seen, axis=-1), 1) / _OF_CUT


def _likelier(task: Task, inputs: Moments, old: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the channel under which Y is likelier, each entry predicted from the others: a Newton step of each logarithm."""
    names = {name: told for name in task.channel.learns for told in as_learned({name: None}) if told in old}
    if not names:
        return {}

    def likelihood(logs: Any) -> Any:
        channel = task.channel.relearned(dict(zip(names, jnp.exp(logs), strict=True)))
        return jnp.sum(channel.log_densities(task.Y, inputs.mean, inputs.variance, task.mask))

    def along(direction: Any) -> tuple[Any, Any]:
        """Slope and bend."""
        return jax.jvp(lambda at: jax.jvp(likelihood, (at,), (direction,))[1], (here,), (direction,))

    here = jnp.log(jnp.maximum(jnp.stack([old[told] for told in names.values()]), task.rounding))
    slope, bend = jax.vmap(along)(jnp.eye(len(names), dtype=here.dtype))
    furthest = jnp.log(jnp.asarray(_OF_CHANNEL, here.dtype))
    step = jnp.where(bend < 0, -slope / jnp.where(bend < 0, bend, -1), jnp.sign(slope) * furthest)
    # The step is right if nothing else moves. But what is not known of z follows the noise, and steps that do not reckon with it overshoot.
    noise = task.channel.noise_scale(task.power)
    follows = noise / (noise + jnp.mean(inputs.variance))
    step *= jnp.stack([follows if name == _NOISE else jnp.asarray(_STEP, here.dtype) for name in names])
    new = jnp.exp(here + jnp.clip(step, -furthest, furthest))
    return {told: jnp.clip(new[k], *_KEPT.get(name, (task.rounding, jnp.inf))) for k, (name, told) in enumerate(names.items())}
