"""Variance on top of the channel's own, put there to melt a wrong state and taken away again to let a better one freeze.

Without F' the iterations have to find the atoms by themselves. They do so at a temperature of a few tenths of the power of z, where
estimates are soft enough to turn and sharp enough to pull: an epoch spends `slow` iterations there and then drops to zero. For Gaussian
noise, temperature is more noise; adding it to the input of the channel means the same for every channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ..loop import History, Tolerance, median
from ..messages.means import first_offsets, without_offsets
from ..solvers.base import Cooling, Estimate, Solver, Wrapper
from ..task import Task

# Shares of the power of z: where the temperature starts, and where its slow fall ends.
HOT, _WARM = 0.6, 0.1
# Iterations of slow cooling in the shortest epochs.
SHORTEST = 40
# The cooling of a first run.
FIRST = Cooling(HOT, SHORTEST)
# The factor an iteration takes off the temperature once the slow fall has ended, in the shortest epochs and in longer ones: what is easy
# is found with little care, and what is not needs more of it all the way down.
_QUICK, _CAREFUL = 0.6, 0.9
# A temperature above this share of a variance still matters.
_COLD = 0.01
# A first guess of F: its share of the prior's variance, and how much of it is random rather than taken from the data.
_FIRST_VARIANCE, _RANDOM = 0.5, 0.3


class Heat(NamedTuple):
    """The solver's state, the temperature, how many iterations cool slowly, the factor of each, and how many there were."""

    inner: Any
    temperature: Any
    slow: Any
    gentle: Any
    age: Any


@dataclass(frozen=True)
class Annealed(Wrapper):
    """A solver whose temperature falls. `slow` is the number of slow iterations at the start; None for the shortest where nothing is known
    of F, which then starts from a guess that the data suggest, and none where something is."""

    inner: Solver
    slow: int | None = None

    def init(self, task: Task, draws: Any, start: Any = None) -> Heat:
        if start is None and task.from_scratch and draws is not None:
            start = Estimate(first_guess(task, draws))
        if start is not None and start.X is None:  # F is a guess, and X is not known at all
            slow = SHORTEST if self.slow is None else self.slow
        else:
            slow = (self.slow or 0) if start is None else 0
        return _heated(task, self.inner.init(task, draws, start), Cooling(HOT, slow))

    def step(self, task: Task, state: Heat) -> Heat:
        rate = jnp.where(state.age < state.slow, state.gentle, jnp.where(state.slow <= SHORTEST, _QUICK, _CAREFUL))
        temperature = rate.astype(task.Y.dtype) * state.temperature
        inner = self.inner.step(task._replace(temperature=temperature), state.inner)
        return state._replace(inner=inner, temperature=temperature, age=state.age + 1)

    def finished(self, task: Task, state: Heat, history: History, tolerance: Tolerance) -> Any:
        """Nothing settles while the temperature still matters.

        In quick epochs a mean residual that no longer follows it down is that of signals which only a repair can help. Longer epochs have
        patience.
        """
        given_up = (state.slow <= SHORTEST) & ~is_hot(state.temperature, history.residual) & (history.stuck <= tolerance.lately)
        inner = self.inner.finished(self.inside(task, state), state.inner, history, tolerance)
        return ~is_hot(state.temperature, history.level) & (inner | given_up)

    def restart(self, task: Task, state: Heat, start: Estimate, cooling: Cooling) -> Heat:
        return _heated(task, self.inner.restart(task, state.inner, start, cooling), cooling)

    def inside(self, task: Task, state: Heat) -> Task:
        return task._replace(temperature=state.temperature)


def _heated(task: Task, inner: Any, cooling: Cooling) -> Heat:
    hot, slow = jnp.asarray(cooling.hot, task.Y.dtype), jnp.asarray(cooling.slow, int)
    temperature = jnp.where(slow > 0, hot * task.power, 0).astype(task.Y.dtype)
    gentle = ((_WARM / jnp.maximum(hot, _WARM)) ** (1 / jnp.maximum(slow, 1))).astype(task.Y.dtype)
    return Heat(inner, temperature, slow, gentle, jnp.asarray(0))


def is_hot(temperature: Any, level: Any) -> Any:
    """Whether the temperature still matters beside a variance level."""
    return temperature > _COLD * level


def too_hot_to_learn(task: Task, level: Any) -> Any:
    """Whether the temperature hides what the typical signal says."""
    return is_hot(task.temperature, median(level))


def first_guess(task: Task, draws: Any) -> Moments:
    """F to start from where nothing is known of it: columns of Y, which hold a few atoms each, with something random added."""
    _, N, P = task.sizes
    # One column from each of N equal parts of Y: distinct where there are enough, and no sorting, which is slow to compile.
    place = (jnp.arange(N) + draws[0]) * (P / N)
    Y = without_offsets(first_offsets(task), task.Y) if task.removes_means else task.Y
    if not task.channel.shows_units:  # counts, say: what each says of its z by itself
        Y = task.seen(task.channel.output(task.Y, jnp.zeros_like(task.Y), task.power).g)
    columns = Y[:, jnp.clip(place.astype(int), 0, P - 1)]
    # Numbers between -sqrt(3) and sqrt(3) have the mean square 1.
    guess = _normalised(columns) + _RANDOM * math.sqrt(3) * (2 * draws[1:] - 1)
    mean, variance = task.start
    return Moments(mean + jnp.sqrt(variance) * _normalised(guess), _FIRST_VARIANCE * variance)


def _normalised(columns: Any) -> Any:
    """Columns of unit mean square, or zero."""
    size = jnp.sqrt(jnp.mean(columns**2, axis=0))
    return columns / jnp.where(size > 0, size, 1)
