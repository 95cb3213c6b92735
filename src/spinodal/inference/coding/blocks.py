"""Samples in blocks of one size, so that a program is compiled once; samples that need longer are gathered into blocks of their own.

Atoms and features are filled up to multiples of LEAF: an atom that is filled in has the density 0, a feature that is filled in is never
observed. Both change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import ep, vamp
from .inverse import LEAF
from .model import Codes, CodingModel, Progress, Slab, least_noise

# Blocks have a power of four of samples, at least this many and at most that many: few sizes, so that little is compiled.
_SMALLEST, _LARGEST = 64, 4096
# A block is left when all but this share of its samples have settled.
_SLOW = 0.15


class Block(NamedTuple):
    """Samples, filled up: values (0 where missing), 1 where they were observed, and how much every sample weighs (0 if filled in)."""

    y: jax.Array
    seen: jax.Array
    weight: jax.Array


class Found(NamedTuple):
    """Codes of all samples, and which of them had settled."""

    codes: Codes
    settled: np.ndarray


def method_of(model: CodingModel, complete: bool) -> ModuleType:
    """How codes are found: by VAMP if the model is fast and the samples are complete."""
    return vamp if model.fast and complete else ep


def prepared(model: CodingModel, dtype: Any) -> CodingModel:
    """The model with arrays of this precision, filled up, a density for each atom and a noise variance for each feature."""
    atoms, features = np.shape(model.components)
    more = ((0, -atoms % LEAF), (0, -features % LEAF))
    density = np.pad(np.broadcast_to(np.asarray(model.slab.density, dtype=np.float64), atoms), more[0])
    noise = np.pad(least_noise(model, dtype), more[1], constant_values=1.0)
    cast = partial(jnp.asarray, dtype=dtype)
    return CodingModel(
        cast(np.pad(model.components, more)),
        cast(np.pad(model.uncertainty, more)),
        Slab(cast(density), cast(model.slab.mean), cast(model.slab.variance)),
        cast(noise),
        cast(model.density_weight),
        model.fast,
    )


def block_size(method: ModuleType, model: CodingModel, samples: int) -> int:
    """Samples of a block."""
    most = min(method.size_of_block(*np.shape(model.components)), _LARGEST)
    size = _SMALLEST
    while size < samples and 4 * size <= most:
        size *= 4
    return size


def as_block(data: np.ndarray, size: int, weight: np.ndarray | None = None) -> Block:
    """Rows of `data`, NaN where missing, as a block of `size` samples."""
    more = ((0, size - len(data)), (0, -data.shape[1] % LEAF))
    known = ~np.isnan(data)
    filled = np.pad(np.where(known, data, 0), more)
    weights = np.pad(np.ones(len(data)) if weight is None else weight, more[0]).astype(data.dtype)
    return Block(jnp.asarray(filled), jnp.asarray(np.pad(known, more).astype(data.dtype)), jnp.asarray(weights))


def infer(method: ModuleType, model: CodingModel, data: np.ndarray, close: float | None = None, only: tuple[str, ...] = ()) -> Found:
    """Codes of the samples (rows), NaN where missing, until they have settled or their time is up. `model` is not prepared yet.

    They have settled when they change by less than `close` standard deviations of the slab; the method knows a number by itself.
    If fields of the codes are named, only these are found; the others are None.
    """
    atoms, features = model.components.shape
    data = np.asarray(data, dtype=method.PRECISION or data.dtype)
    ready = method.ready(prepared(model, data.dtype))
    size = block_size(method, model, len(data))
    close = method.SETTLED[data.dtype.name] if close is None else close
    shapes = dict(zip(Codes._fields, [(atoms,)] * 5 + [(), (features,)], strict=True))
    fields = only or Codes._fields
    found = {name: np.empty((len(data), *shapes[name]), data.dtype) for name in fields}
    settled = np.zeros(len(data), bool)
    work: Iterator[tuple[np.ndarray, Progress | None]] = (
        (np.arange(first, min(first + size, len(data))), None) for first in range(0, len(data), size)
    )
    while True:
        late: list[tuple[np.ndarray, Any]] = []
        for rows, run in work:
            block = as_block(data[rows], size)
            run = start(method, ready, size) if run is None else run
            run, still = _settle(method, ready, block, run, len(rows), close)
            codes = jax.device_get(_published(method, ready, block, run, fields))
            moving = np.asarray(still)[: len(rows)]
            for whole, part in zip(found.values(), codes, strict=True):
                whole[rows] = part[: len(rows), : whole.shape[1]] if whole.ndim == 2 else part[: len(rows)]
            settled[rows] = ~moving
            on = moving & (np.asarray(run.age)[: len(rows), 0] < method.ITERATIONS)
            if on.any():
                late.append((rows[on], jax.tree.map(lambda values: np.asarray(values)[: len(rows)][on], run)))  # noqa: B023 used at once
        if not late:
            return Found(Codes(**dict.fromkeys(Codes._fields) | found), settled)
        rows = np.concatenate([each for each, _ in late])
        runs = jax.tree.map(lambda *values: np.concatenate(values), *(run for _, run in late))
        work = ((rows[first : first + size], _filled(runs, first, size)) for first in range(0, len(rows), size))


def _filled(runs: Progress, first: int, size: int) -> Progress:
    """Part of the runs as a block; copies of the last fill it up."""
    rows = np.minimum(np.arange(first, first + size), len(runs.age) - 1)
    return jax.tree.map(lambda values: jnp.asarray(values[rows]), runs)


@partial(jax.jit, static_argnames=("method", "size"))
def start(method: ModuleType, model: Any, size: int) -> Progress:
    """Where a block begins."""
    return method.start(model, size)


@partial(jax.jit, static_argnames=("method",))
def _settle(
    method: ModuleType, model: Any, block: Block, run: Progress, samples: jax.Array, close: jax.Array
) -> tuple[Progress, jax.Array]:
    """Iterations until most samples have settled, and which have not."""
    close = close * method.size_of_codes(model)
    real = jnp.arange(len(block.y)) < samples

    def go_on(now: tuple[Progress, jax.Array]) -> jax.Array:
        run, moving = now
        return (jnp.sum(moving) > _SLOW * samples) & (jnp.max(jnp.where(real, run.age[:, 0], 0)) < method.ITERATIONS)

    def step(now: tuple[Progress, jax.Array]) -> tuple[Progress, jax.Array]:
        # A sample that has settled stays where it is, so that its codes do not depend on the samples beside it.
        old, moving = now
        new = method.advance(model, block.y, block.seen, old)[0]
        kept = jax.tree.map(lambda to, was: jnp.where(moving[:, None], to, was), new, old)
        return kept, moving & (jnp.abs(new.mean - old.mean) > close).any(axis=1)

    return jax.lax.while_loop(go_on, step, step((run, real)))


@partial(jax.jit, static_argnames=("method", "fields"))
def _published(method: ModuleType, model: Any, block: Block, run: Progress, fields: tuple[str, ...]) -> tuple[jax.Array, ...]:
    """What is known of the codes, as far as it is wanted."""
    codes = method.published(model, block.y, block.seen, run)
    return tuple(getattr(codes, name) for name in fields)
