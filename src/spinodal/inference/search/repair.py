"""What goes wrong without the truth to look at, and what to do about it.

A wrong fixed point shows itself: two atoms are copies of each other, an atom is used by (almost) no signal or far more than the prior
allows, the signals that lack an atom keep residuals along one direction, two atoms span the right plane with the wrong axes, so that
signals use both where one would do, or residuals stay far above the noise. Faulty atoms are started again from what the data say is
missing; then X is forgotten and the iterations begin again from the repaired F.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors.base import Moments
from ..loop.quantile import median, precedes, quantile, rank
from ..messages.data import Data
from ..messages.means import centred, first_offsets, without_offsets
from ..messages.state import State, data_power, rescaled, unknown_signals
from .annealing import heated

# Two atoms with a cosine above this are copies.
_COPY = 0.9
# An atom used by less than this share of the signals it should serve is unused.
_UNUSED = 0.1
# A signal whose squared residual is above this many lower quartiles has not settled.
_UNSETTLED = 4.0
# Fewer unsettled signals than this say nothing about a missing atom.
_FEWEST = 5
# Residuals point somewhere if an eigenvalue of their correlations is above this many edges of the spectrum of random directions.
_EDGES = 1.5
# Deviations of usage from the prior are called trouble beyond this many standard deviations.
_SIGMAS = 5.0
# Two atoms used together this many standard deviations (and this many times) more often than by chance are axes of one plane.
_TOGETHER = 6.0
# Where more than this share of the atoms are such, the state is frozen as a whole, and pairs are not what is wrong.
_FROZEN = 0.1
# Data are explained if half of the signals have squared residuals below this many noise levels, or this share of the data's power.
_NOISES, _SHARE = 20.0, 1e-3
# Restarted atoms begin with this share of their prior variance.
_RESTART_VARIANCE = 0.5


class Checks(NamedTuple):
    """Which atoms to start again and in which directions (columns), whether the state can't be trusted, whether it fits the data at all."""

    restart: Any
    fresh: Any
    trouble: Any
    explained: Any


class Missing(NamedTuple):
    """How many directions the residuals point to, and the directions, the most frequent first."""

    count: Any
    directions: Any


def checks(data: Data, state: State) -> Checks:
    """Inspect a settled state."""
    M, N, P = data.sizes
    state = rescaled(state)
    missing = missing_atoms(data, state)
    copies = copied_atoms(state)
    mixed, axes = mixed_atoms(data, state)
    restart = copies
    explained = median(state.square) < _NOISES * data.noise + _SHARE * data_power(data)
    trouble = ~jnp.all(jnp.isfinite(state.F.mean)) | (missing.count > 0) | jnp.any(mixed) | ~explained
    rho = data.prior.X.density()
    if rho is not None:
        expected = rho * P
        z = (state.nonzeros - expected) / jnp.sqrt(expected * (1 - rho))
        restart |= state.nonzeros < _UNUSED * expected
        spread = jnp.mean(z**2) > 1 + _SIGMAS * jnp.sqrt(2.0 / N)
        dense = jnp.mean(state.nonzeros) / P > rho + _SIGMAS * jnp.sqrt(rho / (1.0 * N * P))
        trouble |= spread | dense | (jnp.max(jnp.abs(z)) > _SIGMAS + 1)
    trouble |= jnp.any(restart)
    # A missing atom needs a place: that of the one used least. Where it is not clear what is wrong, at least one atom moves.
    place = rank(jnp.where(restart, -jnp.inf, state.nonzeros))
    restart |= (place < jnp.where(jnp.any(mixed), missing.count, jnp.maximum(missing.count, 1))) & ~mixed
    nth = jnp.clip(jnp.cumsum(restart) - 1, 0, M - 1)
    fresh = jnp.where(mixed & ~restart, axes, missing.directions[:, nth])
    return Checks(restart | mixed, fresh, trouble, explained)


def copied_atoms(state: State) -> Any:
    """Atoms of which there is another copy that is used more (or, at a tie, comes earlier)."""
    norm = jnp.sqrt(jnp.maximum(jnp.sum(state.F.mean**2, axis=0), jnp.finfo(state.g.dtype).tiny))
    unit = state.F.mean / norm
    return jnp.any((jnp.abs(unit.T @ unit) > _COPY) & _yields(state), axis=1)


def _yields(state: State) -> Any:
    """[i, j]: of the two atoms, i is the one to give way: the one used less."""
    return precedes(-jnp.sum(state.X.mean**2, axis=1)).T


def missing_atoms(data: Data, state: State) -> Missing:
    """Directions that the residuals of unsettled signals share: all that use an atom nobody has found yet are left with it."""
    M, N, _ = data.sizes
    unsettled = state.square > _UNSETTLED * quantile(state.square, 0.25)
    F, X = centred(state.F.mean, data.centre.F), centred(state.X.mean, data.centre.X)
    left = without_offsets(state.offset, data.Y) - F @ X / jnp.asarray(N**0.5, data.Y.dtype)
    left = jnp.where(jnp.isfinite(left), left if data.mask is None else left * data.mask, 0)
    size = jnp.sqrt(jnp.sum(left**2, axis=0))
    unit = left * (unsettled / jnp.where(size > 0, size, 1))
    number = jnp.maximum(jnp.sum(unsettled), 1)
    eigenvalues, directions = jnp.linalg.eigh(unit @ unit.T * (M / number))
    edge = (1 + jnp.sqrt(M / number)) ** 2  # of random unit vectors: Marchenko and Pastur
    count = jnp.where(number >= _FEWEST, jnp.sum(eigenvalues > _EDGES * edge), 0)
    return Missing(count, directions[:, ::-1])


def mixed_atoms(data: Data, state: State) -> tuple[Any, Any]:
    """Atoms that share a plane with another and are used together with it too often, and a better axis for each.

    A signal that uses one true atom of the plane uses both wrong ones, and their sum is the true atom.
    """
    P = data.sizes[2]
    X = state.X
    active = (X.mean**2 > X.variance).astype(X.mean.dtype)
    together = active @ active.T
    uses = jnp.diagonal(together)
    chance = uses[:, None] * uses / P
    often = (together > chance + _TOGETHER * jnp.sqrt(chance) + _TOGETHER) & _yields(state)
    mixed = jnp.any(often, axis=1)
    mixed &= jnp.sum(mixed) <= jnp.maximum(2, _FROZEN * mixed.shape[0])
    partner = jnp.argmax(jnp.where(often, together - chance, -jnp.inf), axis=1)
    strength = (jnp.abs(X.mean) + jnp.abs(X.mean[partner])) * active * active[partner]
    signal = jnp.argmax(strength, axis=1)
    atoms = jnp.arange(mixed.shape[0])
    axes = state.F.mean * X.mean[atoms, signal] + state.F.mean[:, partner] * X.mean[partner, signal]
    return mixed, axes


def mend(data: Data, state: State, found: Checks, slow: Any) -> State:
    """Restart the marked atoms, forget X, and heat the state for `slow` iterations of slow cooling (none: not at all)."""
    state = rescaled(state)
    finite = jnp.all(jnp.isfinite(state.F.mean)) & jnp.all(jnp.isfinite(state.X.mean))
    size = jnp.sqrt(jnp.mean(found.fresh**2, axis=0))
    fresh = found.fresh * (jnp.sqrt(data.prior.F.second_moment()) / jnp.where(size > 0, size, 1)).astype(data.Y.dtype)
    mean = jnp.where(finite, jnp.where(found.restart, fresh, state.F.mean), data.start.mean)
    variance = jnp.where(finite, jnp.where(found.restart, _RESTART_VARIANCE * data.start.variance, state.F.variance), data.start.variance)
    state = state._replace(F=Moments(mean, variance), X=unknown_signals(data), g=jnp.zeros_like(state.g), age=jnp.asarray(0))
    state = state._replace(offset=first_offsets(data))
    return heated(data, state, slow)
