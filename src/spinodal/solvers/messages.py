"""The messages of AMP, Eqs. (13)-(21) of KMZ13, shared by every solver of the family.

An iteration is one pass over the signals: residuals of some columns of Y, their message to those columns of X, and their contribution to
the message to F. Given F, a signal needs no other signal, so the pass goes block by block and works in cache: all that is alive besides
Y, X and its variance, and g, is one block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..priors.base import Moments
from .data import Data
from .state import State, mix

# Signals in a block on a CPU; accelerators take all at once.
_BLOCK = 512


class Rules(NamedTuple):
    """Choices that do not change from iteration to iteration.

    `structure` is one of `variances.STRUCTURES`; the variance of y - omega is the modelled one, raised to at least `floor` times the
    measured one, or the measured one alone if `measured` (the paper's choice); `clip` keeps the Onsager gains in [0, 1].
    """

    structure: Any
    floor: float
    measured: bool
    clip: bool


class Learns(NamedTuple):
    """Which factors the data are telling something. A factor that is not learned has no echo to be taken off."""

    F: bool
    X: bool


BOTH = Learns(F=True, X=True)


class Residual(NamedTuple):
    """g = (y - omega)/V with V shared as the structure says, and the squares it was made of."""

    g: Any
    level: Any
    square: Any
    onsager: Any


class ForMatrix(NamedTuple):
    """What the signals say about F and about each atom's use: sums over signals."""

    precision: Any
    echo: Any
    product: Any
    nonzeros: Any
    power: Any


def residual(rules: Rules, data: Data, F: Moments, squares: Any, X: Moments, g: Any, noise: Any, learns: Learns) -> Residual:
    """omega = F X/sqrt(N) - (Onsager variance) g, Eq. (13), and the new g."""
    spread = rules.structure.spread(squares, X)
    onsager = spread.X * learns.X + spread.F * learns.F
    error = data.Y - (F.mean / _root_N(data)) @ X.mean + onsager * g
    if data.mask is not None:
        error = error * data.mask
    square = rules.structure.average(data, error**2)
    if rules.measured:
        level = jnp.maximum(square, jnp.finfo(error.dtype).tiny ** 0.25)  # kept from zero so that 1/level^2 stays finite
    else:
        level = jnp.maximum(noise + sum(spread), rules.floor * square)
    return Residual(error / level, level, square, onsager)


def _root_N(data: Data) -> Any:
    return jnp.asarray(data.sizes[1] ** 0.5, data.Y.dtype)


def _kept(rules: Rules, precision: Any, echo: Any) -> Any:
    """The weight of the old estimate in a message, Eqs. (16) and (17): its precision less its own echo."""
    return jnp.clip(precision - echo, 0, precision) if rules.clip else precision - echo


def message_to_signals(rules: Rules, data: Data, F: Moments, squares: Any, X: Moments, out: Residual, learns: Learns) -> tuple[Any, Any]:
    """(a, b) for every entry of X: a = 1/Sigma_R^2 and b = R/Sigma_R^2, Eqs. (14) and (16)."""
    a, echo = rules.structure.to_signals(data, squares, 1 / out.level, out.square / out.level**2)
    return a, (F.mean.T / _root_N(data)) @ out.g + _kept(rules, a, echo if learns.F else 0) * X.mean


def message_to_matrix(rules: Rules, data: Data, F: Moments, sums: ForMatrix, learns: Learns) -> tuple[Any, Any]:
    """(a, b) for every entry of F: a = 1/Sigma_S^2 and b = S/Sigma_S^2, Eqs. (15) and (17)."""
    return sums.precision, sums.product / _root_N(data) + _kept(rules, sums.precision, sums.echo if learns.X else 0) * F.mean


def _pass(
    rules: Rules, data: Data, F: Moments, squares: Any, state: State, learns: Learns, step_size: Any
) -> tuple[Moments, Residual, ForMatrix]:
    """New (damped) X and g of the signals in `data` and `state`, and what they say about F."""
    k = state.scale[:, None]
    X = Moments(state.X.mean / k, state.X.variance / k**2)
    out = residual(rules, data, F, squares, X, state.g, state.noise, learns)
    P = data.sizes[2]
    new, nonzeros = X, state.nonzeros
    if learns.X:
        a, b = message_to_signals(rules, data, F, squares, X, out, learns)
        new = mix(X, data.prior.X.posterior(a, b), step_size)
        nonzeros = expected_nonzeros(data, a, b)
    ones = jnp.ones(P, data.Y.dtype)
    power = (new.mean**2 + new.variance) @ ones
    if learns.F and data.known is None:
        precision, echo = rules.structure.to_matrix(data, X, 1 / out.level, out.square / out.level**2)
        sums = ForMatrix(precision, echo, out.g @ X.mean.T, nonzeros, power)
    else:
        sums = ForMatrix(None, None, None, nonzeros, power)
    return new, out._replace(level=_by_signal(out.level, P), square=_by_signal(out.square, P), onsager=None), sums


def _by_signal(values: Any, P: int) -> Any:
    """One value for each signal, however the values were shared."""
    return jnp.mean(values, axis=0) if jnp.ndim(values) == 2 else jnp.broadcast_to(values, (P,))


def expected_nonzeros(data: Data, a: Any, b: Any) -> Any:
    """Expected number of nonzeros of each atom; all of them for priors without a point at zero."""
    _, N, P = data.sizes
    if hasattr(data.prior.X, "slab_probability"):
        return data.prior.X.slab_probability(a, b) @ jnp.ones(P, data.Y.dtype)
    return jnp.full(N, float(P), data.Y.dtype)


def update(rules: Rules, data: Data, state: State, step_size: Any, learns: Learns = BOTH) -> tuple[State, Any]:
    """One damped iteration, everything computed from the old estimates. Also returns the power sum of (X^2) of each atom, for the gauge."""
    P = data.sizes[2]
    squares = rules.structure.prepare(state.F)
    step_X = jnp.where(state.age == 0, 1, step_size)  # the first estimate of X replaces nothing, so it is taken whole
    block = _BLOCK if rules.structure.local and jax.default_backend() == "cpu" else P

    def visit(carry: tuple[State, Any], start: Any, width: int) -> tuple[State, Any]:
        """Replace `width` columns of X and g, and add what they say about F."""
        now, sums = carry

        def columns(value: Any) -> Any:
            return jax.lax.dynamic_slice_in_dim(value, start, width, value.ndim - 1)

        def put(value: Any, part: Any) -> Any:
            return jax.lax.dynamic_update_slice_in_dim(value, part.astype(value.dtype), start, value.ndim - 1)

        part = data._replace(Y=columns(data.Y), mask=None if data.mask is None else columns(data.mask))
        own = now._replace(X=Moments(*map(columns, now.X)), g=columns(now.g))
        X, out, said = _pass(rules, part, state.F, squares, own, learns, step_X)
        now = now._replace(
            X=Moments(*map(put, now.X, X)), g=put(now.g, out.g), level=put(now.level, out.level), square=put(now.square, out.square)
        )
        return now, said if sums is None else jax.tree.map(jnp.add, sums, said)

    if block >= P:
        new, sums = visit((state, None), 0, P)
    else:
        carry = visit((state, None), 0, block)
        carry = jax.lax.fori_loop(1, P // block, lambda k, carry: visit(carry, k * block, block), carry)
        new, sums = visit(carry, P - P % block, P % block) if P % block else carry
    F = state.F
    if learns.F and data.known is None:
        F = mix(F, data.matrix_posterior(*message_to_matrix(rules, data, F, sums, learns)), step_size)
    nonzeros = sums.nonzeros if learns.X else state.nonzeros
    return new._replace(F=F, nonzeros=nonzeros, scale=jnp.ones_like(state.scale), age=state.age + 1), sums.power


def divergence(prior: Any, a: Any, b: Any, posterior: Moments) -> Any:
    """Kullback-Leibler divergence of each entry's posterior under the message (a, b) from its prior."""
    return b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2 - prior.log_partition(a, b)


def free_entropy(rules: Rules, data: Data, state: State, learns: Learns = BOTH) -> Any:
    """Bethe free entropy log Z/(N P) of the current estimates, in the convention of the replica potential (log sqrt(2 pi) per measurement
    left out).

    Minus the energy of the residuals and the divergences of the posteriors from the priors; no truth is needed. Signals whose residual is
    above its modelled variance count with the residual's own variance. `state` must have its scale applied.
    """
    _, N, P = data.sizes
    F, X = state.F, state.X
    squares = rules.structure.prepare(F)
    out = residual(rules, data, F, squares, X, state.g, state.noise, learns)
    level = jnp.broadcast_to(out.level, data.Y.shape)
    share = out.g**2 * (level - out.onsager) + jnp.log(level)
    energy = jnp.sum(share if data.mask is None else share * data.mask) / 2
    a, b = message_to_signals(rules, data, F, squares, X, out, learns)
    cost = jnp.sum(divergence(data.prior.X, a, b, data.prior.X.posterior(a, b)))
    if learns.F and data.known is None:
        precision, echo = rules.structure.to_matrix(data, X, 1 / out.level, out.square / out.level**2)
        a, b = message_to_matrix(rules, data, F, ForMatrix(precision, echo, out.g @ X.mean.T, None, None), learns)
        total = data.side[0] + a, data.side[1] + b
        posterior = data.prior.F.posterior(*total)
        # Relative to what F' says: the divergence between two posteriors under nested messages.
        here = b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2
        cost += jnp.sum(here - data.prior.F.log_partition(*total) + data.prior.F.log_partition(*data.side))
    return -(energy + cost) / (N * P)
