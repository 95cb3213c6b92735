"""Noise on top of the known one, put there to melt a wrong state and taken away again to let a better one freeze.

Without F' the iterations have to find the atoms by themselves. They do so at a noise level of a few tenths of the data's power, where
estimates are soft enough to turn and sharp enough to pull: an epoch spends `slow` iterations there and then drops to the known level.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...model.priors.base import Moments
from ..messages.data import Data
from ..messages.means import first_offsets, without_offsets
from ..messages.state import State, data_power

# Shares of the data's power: where the added noise starts, and where its slow fall ends.
_HOT, _WARM = 0.6, 0.1
# Iterations of slow cooling in the shortest epochs.
SHORTEST = 40
# The factor an iteration takes off the added noise once the slow fall has ended, in the shortest epochs and in longer ones: what is easy
# is found with little care, and what is not needs more of it all the way down.
_QUICK, _CAREFUL = 0.6, 0.9
# Added noise above this share of a variance still matters.
_COLD = 0.01
# A first guess of F: its share of the prior's variance, and how much of it is random rather than taken from the data.
_FIRST_VARIANCE, _RANDOM = 0.5, 0.3


def heated(data: Data, state: State, slow: Any) -> State:
    """The state at the start of an epoch with `slow` iterations of slow cooling; none if `slow` is zero."""
    added = jnp.where(slow > 0, _HOT * data_power(data), 0)
    return state._replace(noise=(data.noise + added).astype(data.Y.dtype), slow=jnp.asarray(slow, state.age.dtype))


def cooled(data: Data, state: State) -> State:
    """The noise level of the next iteration."""
    slow = (_WARM / _HOT) ** (1 / jnp.maximum(state.slow, 1))
    rate = jnp.where(state.age < state.slow, slow, jnp.where(is_quick(state), _QUICK, _CAREFUL))
    return state._replace(noise=data.noise + rate.astype(data.Y.dtype) * (state.noise - data.noise))


def is_quick(state: State) -> Any:
    """Whether the epoch is one of the shortest, or not annealed at all."""
    return state.slow <= SHORTEST


def is_hot(data: Data, state: State, level: Any) -> Any:
    """Whether the added noise still matters beside a variance level."""
    return state.noise - data.noise > _COLD * level


def first_guess(data: Data, key: Any) -> Moments:
    """F to start from where nothing is known of it: columns of Y, which hold a few atoms each, with something random added."""
    M, N, P = data.sizes
    which, noise = jax.random.split(key)
    # One column from each of N equal parts of Y: distinct where there are enough, and no sorting, which is slow to compile.
    place = (jnp.arange(N) + jax.random.uniform(which, (N,), data.Y.dtype)) * (P / N)
    columns = without_offsets(first_offsets(data), data.Y)[:, jnp.clip(place.astype(int), 0, P - 1)]
    guess = _normalised(columns) + _RANDOM * jax.random.normal(noise, (M, N), data.Y.dtype)
    mean, variance = data.start
    return Moments(mean + jnp.sqrt(variance) * _normalised(guess), _FIRST_VARIANCE * variance)


def _normalised(columns: Any) -> Any:
    """Columns of unit mean square, or zero."""
    size = jnp.sqrt(jnp.mean(columns**2, axis=0))
    return columns / jnp.where(size > 0, size, 1)
