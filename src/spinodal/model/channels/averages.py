"""Averages of a channel over its own outcomes, as the theory needs them: by quadrature, tabulated.

Let z have the variance Q (`power`), of which the part V is not explained yet: z is normal with mean w and variance V, and w is normal with
variance Q - V. With g = d log Z/dw and y drawn from its own law,

    qhat = E[g^2],    equivalent noise e = 1/qhat - V,    free entropy = E[log Z] + log sqrt(2 pi).

The averages run over y for every w, and over w. They depend on V smoothly in log V, so they are computed once on a grid and
interpolated by Chebyshev polynomials from then on.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError
from .outcomes import Outcomes

if TYPE_CHECKING:
    from .base import Channel

# The table's smallest V in units of Q. Below it, averages follow power laws of V.
_SMALLEST_V = 1e-14
# Panels of the table in log V, and polynomials on each. The averages have their nearest singularities pi away from the real axis.
_TABLE_PANELS, _TABLE_NODES = 20, 12
_LOG_RANGE = -float(np.log(_SMALLEST_V))
# Stands for V = 0, in units of Q.
_LEAST_V = 1e-20
# The least equivalent noise, in units of Q: so every curve of fixed points ends. One that could vanish is a matter of closed forms.
_LEAST_NOISE = 1e-20
# Distance, in units of a table panel, over which the power law at the lower end is read off.
_SLOPE_STEP = 0.1
# Halvings of log V when e is wanted at a given ratio: beyond float64.
_HALVINGS = 64

# A standard normal w is cut here: its mass beyond is below 1e-18.
_W_SPAN = 9.0
# Evenly spaced nodes of w where nothing happens abruptly: for a normal density the trapezoidal rule is exact to rounding.
_W_POINTS = 31
# More of them where a probability changes over a narrower range of w, up to this many times as many; a fall from 3/4 to 1/4 is resolved
# by nodes that are this share of its width apart.
_MOST_TIMES, _SHARE_OF_WIDTH = 16, 0.6
# Else Gauss-Legendre panels: some of unit width, sqrt(V), next to each threshold, then growing ones to the ends, and nodes in each.
_UNIT_PANELS, _GROWING_PANELS, _W_NODES = 6, 24, 8

# Draws of y from which its place and spread at a given w are read off.
_Y_DRAWS = 64
# The most likely y is looked for among this many points at a time; the interval shrinks by half that factor in every round.
_MODE_POINTS, _MODE_ROUNDS = 17, 10
# Panels of y around its most likely value double in width: from 1e-8 spreads (a kink, rounded off by V, may sit there) to 100 spreads ...
_FINEST, _CORE = 1e-8, 100.0
_CORE_PANELS = 33
# ... and grow from there to the ends of the stretch.
_TAIL_PANELS = 20
_Y_NODES = 10
# The spread of y is at least this share of the stretch.
_LEAST_SPREAD = 1e-12
# Outcomes that were found must have this much of the probability.
_NORMALISED = 1e-3


class ChannelAverages(NamedTuple):
    """The equivalent noise e, the variance of the Gaussian noise that would tell as much; the free entropy E[log Z] + log sqrt(2 pi)."""

    equivalent_noise: Any
    free_entropy: Any


class ChannelTable(NamedTuple):
    """Chebyshev coefficients, (panels, polynomials), of log(V + e) and of the free entropy over log V."""

    log_level: Any
    free_entropy: Any


class _Raw(NamedTuple):
    """What the quadrature gives at one V: E[g^2], E[log Z], and the whole probability, which must be 1."""

    information: Any
    log_partition: Any
    probability: Any


def tabulate(channel: Channel, power: float) -> ChannelTable:
    """The table of a channel for z of variance `power`; kept, as many problems share it."""
    leaves, structure = jax.tree.flatten(channel)
    arrays = [np.asarray(leaf, dtype=float) for leaf in leaves]
    return _tabulate(structure, tuple((array.shape, array.tobytes()) for array in arrays), power)


@lru_cache(maxsize=512)
def _tabulate(structure: Any, parameters: tuple[tuple[tuple[int, ...], bytes], ...], power: float) -> ChannelTable:
    arrays = [np.frombuffer(values, dtype=float).reshape(shape) for shape, values in parameters]
    channel: Channel = jax.tree.unflatten(structure, arrays)
    nodes = np.cos(np.pi * (np.arange(_TABLE_NODES) + 0.5) / _TABLE_NODES)
    place = (np.arange(_TABLE_PANELS)[:, None] + (nodes + 1) / 2) / _TABLE_PANELS
    V = power * np.exp(_LOG_RANGE * (place - 1))
    outcomes = channel.outcomes(power)
    with jax.enable_x64(True):
        traced = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), (channel, outcomes, power))
        raw = jax.tree.map(
            lambda leaf: np.asarray(leaf).reshape(V.shape), _quadrature(_w_points(channel, outcomes, power), *traced, V.ravel())
        )
    _check(channel, raw)
    order = np.arange(_TABLE_NODES)
    to_coefficients = 2 / _TABLE_NODES * np.cos(order[:, None] * np.arccos(nodes))
    to_coefficients[0] /= 2
    values = -np.log(raw.information), raw.log_partition + np.log(2 * np.pi) / 2
    return ChannelTable(*(value @ to_coefficients.T for value in values))


def _check(channel: Channel, raw: _Raw) -> None:
    name = type(channel).__name__
    if not all(np.all(np.isfinite(values)) for values in raw) or np.any(raw.information <= 0):
        raise InputError(f"channel {name} has a log_partition that is not finite, or that does not depend on w.")
    worst = float(raw.probability.ravel()[np.argmax(np.abs(raw.probability - 1))])
    if abs(worst - 1) > _NORMALISED:
        raise InputError(
            f"channel {name} must have a log_partition normalised over y, but the probabilities of the outcomes found sum to {worst:.4g}."
        )


def read_table(table: ChannelTable, V: Any, power: Any) -> ChannelAverages:
    """The averages at one V, from the table: pure JAX, scalar in and out."""
    V = jnp.maximum(V, _LEAST_V * power)
    log_share = jnp.log(V / power)
    level = jnp.exp(_interpolate(table.log_level, log_share))
    return ChannelAverages(jnp.maximum(level - V, _LEAST_NOISE * power), _interpolate(table.free_entropy, log_share))


def _interpolate(coefficients: Any, log_share: Any) -> Any:
    """The polynomial of the panel in which log(V/Q) lies; a straight line below the table."""

    def inside(place: Any) -> Any:
        panel = jnp.clip(place.astype(int), 0, _TABLE_PANELS - 1)
        x = jnp.clip(2 * (place - panel) - 1, -1.0, 1.0)
        return jnp.dot(jnp.asarray(coefficients)[panel], jnp.cos(jnp.arange(_TABLE_NODES) * jnp.arccos(x)))

    place = (log_share / _LOG_RANGE + 1) * _TABLE_PANELS
    first = inside(jnp.zeros_like(place))
    slope = (inside(jnp.full_like(place, _SLOPE_STEP)) - first) / _SLOPE_STEP
    return jnp.where(place < 0, first + slope * place, inside(jnp.maximum(place, 0.0)))


def noise_at_ratio(channel: Channel, table: Any, ratio: Any, power: Any) -> Any:
    """The equivalent noise where the explained part of z is `ratio` times V + e: (Q - V) = ratio (V + e), solved for V by halving.

    V + e = 1/qhat rises with V, so there is one solution, or none: then V = 0.
    """

    def halve(_: int, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = (low + high) / 2
        V = jnp.exp(middle)
        above = power - V < ratio * (V + channel.averages_at(V, power, table).equivalent_noise)
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    start = jnp.log(_LEAST_V * power) + jnp.zeros_like(ratio), jnp.log(power) + jnp.zeros_like(ratio)
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, start)
    return channel.averages_at(jnp.exp((low + high) / 2), power, table).equivalent_noise


# ---- quadrature


@partial(jax.jit, static_argnums=0)
def _quadrature(w_points: int, channel: Channel, outcomes: Outcomes, power: Any, V: Any) -> _Raw:
    return jax.lax.map(partial(_quadrature_at, w_points, channel, outcomes, power), V)


def _quadrature_at(w_points: int, channel: Channel, outcomes: Outcomes, power: Any, V: Any) -> _Raw:
    """E[g^2] and E[log Z] at one V: over w, and for every w over y."""
    explained = jnp.maximum(power - V, _LEAST_V * power)
    w, weight = _w_nodes(w_points, outcomes.thresholds, explained, V) if w_points != 1 else (jnp.zeros(1), jnp.ones(1))

    def over_y(w: Any) -> Any:
        exact = channel.over_outcomes(w, V)
        if exact is not None:
            return jnp.stack([*exact, jnp.ones_like(w)])
        y, dy = _y_nodes(channel, outcomes, w, V)
        log_z = channel.log_partition(y, w, V)
        log_z = jnp.where(jnp.isnan(log_z), -jnp.inf, log_z)
        p = dy * jnp.exp(log_z)
        g = channel.output(y, w, V).g
        possible = p > 0
        terms = (jnp.where(possible, value, 0.0) for value in (p * g**2, p * log_z, p))
        return jnp.stack([jnp.sum(term) for term in terms])

    return _Raw(*(weight @ jax.vmap(over_y)(w)))


def _legendre(edges: Any, count: int) -> tuple[Any, Any]:
    """Gauss-Legendre nodes and weights on the panels between sorted edges, flat."""
    x, weight = np.polynomial.legendre.leggauss(count)
    centre, half = (edges[1:] + edges[:-1]) / 2, jnp.diff(edges) / 2
    return (centre[:, None] + half[:, None] * x).ravel(), (half[:, None] * weight).ravel()


def _w_points(channel: Channel, outcomes: Outcomes, power: float) -> int:
    """How many evenly spaced nodes of w resolve the thresholds; 0 if they are too abrupt for that, 1 if nothing depends on w."""
    if channel.additive:
        return 1
    times = 1
    for width in outcomes.widths if np.size(outcomes.widths) else np.zeros(np.size(outcomes.thresholds)):
        while 2 * _W_SPAN * np.sqrt(power) / (times * (_W_POINTS - 1)) > _SHARE_OF_WIDTH * width:
            times *= 2
            if times > _MOST_TIMES:
                return 0
    return times * (_W_POINTS - 1) + 1


def _w_nodes(w_points: int, thresholds: Any, explained: Any, V: Any) -> tuple[Any, Any]:
    """Nodes and weights of w ~ N(0, explained): evenly spaced, or finer and finer towards each threshold."""
    end = _W_SPAN * jnp.sqrt(explained)
    if w_points:
        w, weight = end * jnp.linspace(-1.0, 1.0, w_points), 2 * end / (w_points - 1)
    else:
        unit = jnp.sqrt(V)
        growth = jnp.maximum(2 * end / (_UNIT_PANELS * unit), 1.0) ** (jnp.arange(1.0, _GROWING_PANELS + 1) / _GROWING_PANELS)
        offsets = unit * jnp.concatenate([jnp.arange(_UNIT_PANELS + 1.0), _UNIT_PANELS * growth])
        around = thresholds[:, None] + jnp.concatenate([-offsets[::-1], offsets])
        edges = jnp.clip(jnp.concatenate([end * jnp.linspace(-1.0, 1.0, _UNIT_PANELS + 1), around.ravel()]), -end, end)
        w, weight = _legendre(jnp.sort(edges), _W_NODES)
    return w, weight * jnp.exp(-(w**2) / (2 * explained)) / jnp.sqrt(2 * jnp.pi * explained)


def _y_nodes(channel: Channel, outcomes: Outcomes, w: Any, V: Any) -> tuple[Any, Any]:
    """Nodes and weights of y at one w: the single values, and panels that double in width away from the most likely value."""
    points, ones = outcomes.points, jnp.ones_like(outcomes.points)
    if outcomes.stretch is None:
        return points, ones
    low, high = outcomes.stretch
    middle, spread = _place(channel, outcomes, w, V)
    spread = jnp.maximum(spread, _LEAST_SPREAD * (high - low))
    core = spread * _FINEST * (_CORE / _FINEST) ** (jnp.arange(_CORE_PANELS) / (_CORE_PANELS - 1))
    tail = core[-1] * jnp.maximum((high - low) / core[-1], 1.0) ** (jnp.arange(1.0, _TAIL_PANELS + 1) / _TAIL_PANELS)
    offsets = jnp.concatenate([core, tail])
    edges = jnp.clip(middle + jnp.concatenate([-offsets[::-1], jnp.zeros(1), offsets]), low, high)
    y, weight = _legendre(edges, _Y_NODES)
    return jnp.concatenate([points, y]), jnp.concatenate([ones, weight])


def _place(channel: Channel, outcomes: Outcomes, w: Any, V: Any) -> tuple[Any, Any]:
    """The most likely y where y has a density, and its spread: from draws, the former refined."""
    key_z, key_y = jax.random.split(jax.random.key(0))
    z = w + jnp.sqrt(V) * jax.random.normal(key_z, (_Y_DRAWS,), dtype=jnp.result_type(float))
    draws = jnp.sort(channel.sample(key_y, z))
    # Without the lowest and highest tenth, so that outliers do not count.
    spread = draws[-_Y_DRAWS // 10] - draws[_Y_DRAWS // 10]

    def density(y: Any) -> Any:
        log_z = channel.log_partition(y, w, V)
        low, high = outcomes.stretch
        # At a point, and beyond the ends, log Z is the logarithm of a probability, or nothing.
        elsewhere = jnp.any(y[:, None] == outcomes.points, axis=1) | (y < low) | (y > high)
        return jnp.where(elsewhere | jnp.isnan(log_z), -jnp.inf, log_z)

    best = jnp.argmax(density(draws))
    half = jnp.maximum(draws[jnp.minimum(best + 1, _Y_DRAWS - 1)] - draws[best], draws[best] - draws[jnp.maximum(best - 1, 0)])

    def refine(_: int, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        middle, half = carry
        y = middle + half * jnp.linspace(-1.0, 1.0, _MODE_POINTS)
        return y[jnp.argmax(density(y))], half * 2 / (_MODE_POINTS - 1)

    middle, _ = jax.lax.fori_loop(0, _MODE_ROUNDS, refine, (draws[best], half))
    return middle, spread
