"""What a channel can put out, found by drawing from it: single values, stretches of the line, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from .base import Channel

# Draws from which a channel that only has `log_partition` and `sample` is inspected.
_PROBE_SAMPLES = 20_000
# A channel is discrete if fewer than this share of the draws are different values.
_DISCRETE_SHARE = 0.05
# A continuous channel puts out a single value often if this share of the draws is that value (a clipped signal is one example).
_ATOM_SHARE = 1e-3
# A stretch without a natural end is carried this many times beyond the largest draw: enough for any tail with a variance.
_PROBE_MARGIN = 1e3
# A threshold between two outcomes is looked for with z known to this variance, in units of the variance of z.
_THRESHOLD_VARIANCE = 1e-16
# Where a point loses its probability is looked for within this many standard deviations of z.
_REACH = 9.0
# Halvings of the interval in which a threshold lies: beyond float64.
_HALVINGS = 60
# Thresholds that the quadrature resolves. A channel with more outcomes has steps so fine that they need no panels of their own.
MOST_THRESHOLDS = 16


# A normal distribution function rises from 1/4 to 3/4 over this many standard deviations.
_QUARTILES = 1.3489795003921634


class Outcomes(NamedTuple):
    """The values y can take: `points` with a probability each, and `stretch` = (low, high) of a density, None for a discrete channel.

    `thresholds` are values of z next to which the probabilities change, over the `widths` given for each, or abruptly without them.
    """

    points: Any
    stretch: Any
    thresholds: Any
    widths: Any = ()


def normal_width(variance: Any) -> float:
    """The width of a threshold that is blurred by normal noise."""
    return float(_QUARTILES * np.sqrt(float(variance)))


def probe_outcomes(channel: Channel, power: float) -> Outcomes:
    """Outcomes of a channel known by its sampler, for z of variance `power`. A value drawn repeatedly is a point."""
    with jax.enable_x64(True):
        z, y = (np.asarray(values, dtype=float) for values in _probes(channel, power))
        values, member, counts = np.unique(y, return_inverse=True, return_counts=True)
        if values.size < _DISCRETE_SHARE * y.size:
            return Outcomes(values, None, _thresholds(channel, values, np.bincount(member, z) / counts, power))
        often = counts >= _ATOM_SHARE * y.size
        points, typical = values[often], (np.bincount(member, z) / counts)[often]
        return Outcomes(points, _stretch(values, counts), *_edges(channel, points, typical, power))


def _stretch(values: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Ends of the density: a point at the end is an end, and so is 0 if no draw is negative; else the largest draws with a margin."""
    reach = _PROBE_MARGIN * np.abs(values).max()
    is_point = counts >= _ATOM_SHARE * counts.sum()
    low = values[0] if is_point[0] else 0.0 if values[0] >= 0 else -reach
    high = values[-1] if is_point[-1] else 0.0 if values[-1] <= 0 else reach
    return float(low), float(high)


def _edges(channel: Channel, points: np.ndarray, typical: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """The z on either side of those typical of a point at which its probability passes one half, and the way from 3/4 to 1/4."""
    V = _THRESHOLD_VARIANCE * power

    def passing(probability: float, end: float) -> tuple[np.ndarray, np.ndarray]:
        """Where each point has this probability, between its typical z and an end; and whether there is such a place."""

        def above(z: np.ndarray) -> np.ndarray:
            return np.asarray(_log_partition(channel, points, z, V)) > np.log(probability)

        inside, outside = typical, np.full_like(typical, end)
        exists = above(inside) & ~above(outside)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_above = above(middle)
            inside, outside = np.where(is_above, middle, inside), np.where(is_above, outside, middle)
        return inside, exists

    edges, widths = [], []
    for end in (-_REACH * np.sqrt(power), _REACH * np.sqrt(power)):
        (high, _), (half, exists), (low, _) = (passing(probability, end) for probability in (0.75, 0.5, 0.25))
        edges.append(half[exists])
        widths.append(np.abs(high - low)[exists])
    found, first = np.unique(np.concatenate(edges), return_index=True)
    return (found, np.concatenate(widths)[first]) if found.size <= MOST_THRESHOLDS else (np.zeros(0), np.zeros(0))


def _thresholds(channel: Channel, values: np.ndarray, typical: np.ndarray, power: float) -> np.ndarray:
    """The z at which an outcome and the next one are equally likely, outcomes taken in the order of their typical z."""
    order = np.argsort(typical)
    if not 1 < values.size <= MOST_THRESHOLDS + 1:
        return np.zeros(0)
    one, other = values[order[:-1]], values[order[1:]]
    low, high = typical[order[:-1]], typical[order[1:]]
    V = _THRESHOLD_VARIANCE * power
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        before = np.asarray(_log_partition(channel, one, middle, V)) > np.asarray(_log_partition(channel, other, middle, V))
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return np.unique((low + high) / 2)


@jax.jit
def _probes(channel: Channel, power: Any) -> tuple[Any, Any]:
    """z and y."""
    key_z, key_y = jax.random.split(jax.random.key(0))
    z = jnp.sqrt(power) * jax.random.normal(key_z, (_PROBE_SAMPLES,))
    return z, channel.sample(key_y, z)


@jax.jit
def _log_partition(channel: Channel, y: Any, z: Any, V: Any) -> Any:
    return channel.log_partition(y, z, V)
