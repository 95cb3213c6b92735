"""Averages over the message: E[f] with u = b/sqrt(a) drawn from its density exp(log_evidence(a, u))/sqrt(2 pi).

The integrands have kinks (where a slab overtakes a point) a few units of u away from each landmark of the prior, and a
slab that stretches to sqrt(a) times its width. So: Gauss-Legendre panels of unit width around every landmark, then
panels growing geometrically to the end, and panels graded into the middle between neighbouring landmarks, where discrete
priors change their mind. All integrands are positive and nothing cancels, which keeps the relative accuracy at any a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .priors.base import Averages, Prior, Support

# Nodes in each Gauss-Legendre panel.
_NODES = 12
# Unit panels on each side of a landmark: exp(-13^2/2) is below 1e-36.
_UNIT_PANELS = 13
# Panels from there to the end of the slab, growing geometrically.
_TAIL_PANELS = 24
# Panels graded into the midpoint of two landmarks: widths 2^-6 ... 2^3.
_MIDDLE_PANELS = np.concatenate([[0.0], 2.0 ** np.arange(-6, 4)])
# Points evaluated together: few, since a root is looked for at one point of each problem, and those that fill a group are computed in vain.
# A spinodal takes a third of the time that it takes with 64, and a table of thousands of points as long.
_TOGETHER = 8
# Points that a compiled evaluation takes: one size, so that every function is compiled once. It stops after those that are wanted.
_POINTS = 512


def nodes_and_weights(support: Support, a: Any) -> tuple[Any, Any]:
    """Quadrature nodes u and weights for one signal-to-noise ratio a, as jax arrays."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    root = jnp.sqrt(a)
    landmarks = jnp.atleast_1d(jnp.asarray(support.landmarks))
    end = root * support.span + _UNIT_PANELS
    unit = jnp.arange(_UNIT_PANELS + 1.0)
    growth = jnp.maximum(2 * end / _UNIT_PANELS, 1.0) ** (jnp.arange(1.0, _TAIL_PANELS + 1) / _TAIL_PANELS)
    offsets = jnp.concatenate([unit, _UNIT_PANELS * growth])
    around = (landmarks * root)[:, None] + jnp.concatenate([-offsets[::-1], offsets])
    middles = (landmarks[1:] + landmarks[:-1]) / 2 * root
    between = middles[:, None] + jnp.concatenate([-_MIDDLE_PANELS[::-1], _MIDDLE_PANELS])
    edges = jnp.sort(jnp.clip(jnp.concatenate([around.ravel(), between.ravel()]), -end, end))
    centre, half = (edges[1:] + edges[:-1]) / 2, jnp.diff(edges) / 2
    return (centre[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def message_averages(prior: Prior, support: Support, a: Any, centre: Any = 0.0) -> Averages:
    """The three averages at one signal-to-noise ratio a: pure JAX, scalar in and out. Overlaps are taken about `centre`."""
    exact = prior.exact_averages(a)
    if exact is not None:
        return exact._replace(overlap=exact.overlap - centre**2)
    # At a = 0 the message says nothing; evaluate next to it to keep b/sqrt(a) defined.
    safe = jnp.where(a > 0, a, 1.0)
    u, w = nodes_and_weights(support, safe)
    p = w * prior.evidence(safe, u) / jnp.sqrt(2 * jnp.pi)
    mean, variance = prior.posterior(safe, jnp.sqrt(safe) * u)
    # -log p(u) averaged is the entropy of u; the noise's own entropy log(2 pi e)/2 is taken off.
    information = -jnp.sum(jnp.where(p > 0, p * prior.log_evidence(safe, u), 0.0)) - 0.5
    prior_mean, prior_variance = prior.moments()
    return Averages(
        jnp.where(a > 0, jnp.sum(p * variance), prior_variance),
        jnp.where(a > 0, jnp.sum(p * (mean - centre) ** 2), (jnp.asarray(prior_mean) - centre) ** 2),
        jnp.where(a > 0, information, 0.0),
    )


def averages(prior: Prior, snr: Any) -> Averages:
    """The three averages for one prior at every signal-to-noise ratio of an array, as NumPy float64."""
    snr = np.asarray(snr, dtype=float)
    finite = np.isfinite(snr)
    batch = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float)[None], (prior, prior.support()))
    values = evaluate(_averages_at, batch, np.zeros(snr.size, int), np.where(finite, snr, 1.0).ravel())
    mmse, overlap, information = (np.reshape(value, snr.shape) for value in values)
    with jax.enable_x64(True):
        second_moment = float(prior.second_moment())
    known = (0.0, second_moment, np.inf)
    return Averages(*(np.where(finite, at, limit) for at, limit in zip((mmse, overlap, information), known, strict=True)))


def _averages_at(prior_and_support: tuple[Prior, Support], a: Any) -> Averages:
    return message_averages(*prior_and_support, a)


def evaluate(function: Callable[..., Any], batch: Any, index: np.ndarray, *points: np.ndarray) -> Any:
    """function(batch[index[k]], points[0][k], ...) for every k, as NumPy float64. The leaves of `batch` have a leading axis.

    The function takes and gives numbers, or trees of them. All that belongs to one k is packed into a row: JAX then handles one array.
    """
    leaves, structure = jax.tree.flatten(batch)
    leaves = [np.asarray(leaf, dtype=float) for leaf in leaves]
    shapes = tuple(leaf.shape[1:] for leaf in leaves)
    members = np.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)
    values = np.array(points, dtype=float).reshape(len(points), index.size).T
    parts = []
    with jax.enable_x64(True):
        for start in range(0, max(index.size, 1), _POINTS):
            chosen = slice(start, start + _POINTS)
            rows = np.concatenate([members[index[chosen]], values[chosen]], axis=1)
            # What fills the last group is computed and dropped, so it must be harmless: the first problem at 1.
            filler = np.concatenate([members[0], np.ones(len(points))])
            packed = np.concatenate([rows, np.broadcast_to(filler, (_POINTS - len(rows), filler.size))])
            out = _mapped(function, structure, shapes, packed, math.ceil(len(rows) / _TOGETHER))
            parts.append(jax.tree.map(lambda value, size=rows.shape[0]: np.asarray(value)[:size].copy(), out))
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _mapped(function: Callable[..., Any], structure: Any, shapes: tuple[tuple[int, ...], ...], packed: Any, wanted: Any) -> Any:
    """The function over the rows, in groups, of which only the first ones are wanted."""
    sizes = [int(np.prod(shape)) for shape in shapes]

    def of_row(row: Any) -> Any:
        parts = jax.lax.split(row, [*sizes, *[1] * (row.size - sum(sizes))])
        leaves = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]
        return function(jax.tree.unflatten(structure, leaves), *(part.reshape(()) for part in parts[len(shapes) :]))

    together = jax.jit(jax.vmap(of_row))  # traced once, for its shapes and for its values
    groups = packed.reshape(-1, _TOGETHER, packed.shape[1])

    def fill(k: Any, out: Any) -> Any:
        part = together(jax.lax.dynamic_index_in_dim(groups, k, keepdims=False))
        return jax.tree.map(lambda whole, piece: jax.lax.dynamic_update_index_in_dim(whole, piece, k, 0), out, part)

    each = jax.eval_shape(together, jax.ShapeDtypeStruct(groups.shape[1:], groups.dtype))
    empty = jax.tree.map(lambda leaf: jnp.zeros((groups.shape[0], _TOGETHER), leaf.dtype), each)
    return jax.tree.map(jnp.ravel, jax.lax.fori_loop(0, wanted, fill, empty))
