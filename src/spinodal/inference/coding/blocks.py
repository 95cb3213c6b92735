"""Samples in blocks of one size, so that a program is compiled once; samples that need longer are gathered into blocks of their own.

Atoms and features are filled up to multiples of LEAF: an atom that is filled in has the density 0, a feature that is filled in is never
observed. Both change nothing.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..execution.machine import OneDevice, side_by_side, suited
from . import ep, vamp
from .inverse import LEAF
from .model import Codes, CodingModel, Progress, Slab, least_noise

# Blocks have a power of four of samples, at least this many and at most that many: few sizes, so that little is compiled.
_SMALLEST, _LARGEST = 64, 65_536
# A block is left when all but this share of its samples have settled. On a GPU none are left, since gathering them here takes longer than
# iterations: there a quarter of the largest blocks, and of that a quarter, go on by themselves. More stages take longer to compile.
_LEAVE, _STAGES = 0.65, 3
# Rows that a thread copies at a time.
_COPIED = 4096


class Block(NamedTuple):
    """Samples, filled up: values (0 where missing), 1 where they were observed, and how much every sample weighs (0 if filled in)."""

    y: Any
    seen: Any
    weight: Any


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
        cast(model.density_weight) if np.isfinite(model.density_weight) else None,
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
    """Rows of `data`, NaN where missing, as a block of `size` samples, in NumPy's arrays."""
    more = ((0, size - len(data)), (0, -data.shape[1] % LEAF))
    known = ~np.isnan(data)
    weights = np.ones(len(data)) if weight is None else weight
    values = [data if known.all() else np.where(known, data, 0), known, weights]
    if more != ((0, 0), (0, 0)):
        values = [np.pad(each, more[: each.ndim]) for each in values]
    return Block(*(each.astype(data.dtype, copy=False) for each in values))


class _Waiting(NamedTuple):
    """Samples between two blocks, in parts: the numbers of their rows, and where their iterations stand."""

    rows: list[np.ndarray]
    runs: list[Progress]

    @property
    def total(self) -> int:
        return sum(map(len, self.rows))

    def add(self, rows: np.ndarray, run: Progress, which: np.ndarray) -> None:
        """Some samples of a block more."""
        if which.any():
            self.rows.append(rows[which])
            self.runs.append(jax.tree.map(lambda values: np.asarray(values)[: len(rows)][which], run))

    def take(self, size: int) -> tuple[np.ndarray, Progress]:
        """A block of them, those that have waited longest; copies of the last fill the runs up."""
        rows = np.concatenate(self.rows)
        runs = jax.tree.map(lambda *values: np.concatenate(values), *self.runs)
        self.rows[:], self.runs[:] = [rows[size:]], [jax.tree.map(lambda values: values[size:], runs)]
        which = np.minimum(np.arange(size), len(rows) - 1)
        return rows[:size], jax.tree.map(lambda values: values[which] if len(rows) < size else values[:size], runs)


def infer(method: ModuleType, model: CodingModel, data: np.ndarray, close: float | None = None, only: tuple[str, ...] = ()) -> Found:
    """Codes of the samples (rows), NaN where missing, until they have settled or their time is up. `model` is not prepared yet.

    They have settled when they change by less than `close` standard deviations of the slab; the method knows a number by itself.
    If fields of the codes are named, only these are found; the others are None.

    A block is left when many of its samples have settled. The others wait until there are enough for a block, and so do settled ones unless
    all that is wanted is at hand. So hardly any work is done on samples that need it no more, and no more than some blocks are kept.
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
    leave, stages = suited(_LEAVE, 0.0), suited(1, _STAGES if size == _LARGEST else 1)

    def publish(rows: np.ndarray, run: Progress, block: Block, which: np.ndarray | None = None) -> None:
        codes = OneDevice().fetched(_published(method, ready, block, run, fields))
        for whole, part in zip(found.values(), codes, strict=True):
            _put(whole, rows, part[: len(rows), : whole.shape[1]] if whole.ndim == 2 else part[: len(rows)], which)

    late, done, first, fresh = _Waiting([], []), _Waiting([], []), 0, start(method, ready, size)
    while first < len(data) or late.total or done.total:
        if done.total >= size or (first >= len(data) and not late.total):
            rows, run = done.take(size)
            publish(rows, run, as_block(data[rows], size))
            continue
        if late.total >= size or first >= len(data):
            rows, run = late.take(size)
        else:
            rows, run = np.arange(first, min(first + size, len(data))), fresh
            first += size
        block, last = as_block(data[rows], size), first >= len(data) and not late.total  # if none are to come, none are left
        run, still = _settle(method, ready, block, run, len(rows), close, 0.0 if last else leave, stages)
        moving, young = np.asarray(still)[: len(rows)], np.asarray(run.age)[: len(rows), 0] < method.ITERATIONS
        settled[rows] = ~moving
        on = moving & young
        late.add(rows, run, on)
        if not on.any() or set(fields) <= set(method.AT_HAND):
            publish(rows, run, block, ~on)
        else:
            done.add(rows, run, ~on)
    return Found(Codes(**dict.fromkeys(Codes._fields) | found), settled)


@partial(jax.jit, static_argnames=("method", "size"))
def start(method: ModuleType, model: Any, size: int) -> Progress:
    """Where a block begins."""
    return method.start(model, size)


def _put(whole: np.ndarray, rows: np.ndarray, part: np.ndarray, which: np.ndarray | None) -> None:
    """Rows of a part in their places. Where they follow one another, as on a GPU, threads copy them."""
    if not ((np.diff(rows) == 1).all() and (which is None or which.all())):
        whole[rows if which is None else rows[which]] = part if which is None else part[which]
        return
    there = whole[rows[0] : rows[-1] + 1]
    side_by_side(lambda at: np.copyto(there[at], part[at]), [slice(k, k + _COPIED) for k in range(0, len(rows), _COPIED)])


@partial(jax.jit, static_argnames=("method", "stages"))
def _settle(
    method: ModuleType, model: Any, block: Block, run: Progress, samples: jax.Array, close: jax.Array, leave: jax.Array, stages: int
) -> tuple[Progress, jax.Array]:
    """Iterations until all samples but a share `leave` have settled or their time is up, and which have not settled.

    In a stage that is not the last, when a quarter are left they go on by themselves.
    """
    close = close * method.size_of_codes(model)

    def on(run: Progress, moving: jax.Array) -> jax.Array:
        return moving & (run.age[:, 0] < method.ITERATIONS)

    def settle(y: jax.Array, seen: jax.Array, run: Progress, moving: jax.Array, stages: int) -> tuple[Progress, jax.Array]:
        def step(now: tuple[Progress, jax.Array]) -> tuple[Progress, jax.Array]:
            # A sample that has settled stays where it is, so that its codes do not depend on the samples beside it.
            old, moving = now
            going = on(old, moving)
            new = method.advance(model, y, seen, old)[0]
            kept = jax.tree.map(lambda to, was: jnp.where(going[:, None], to, was), new, old)
            return kept, moving & ~(going & (jnp.abs(new.mean - old.mean) <= close).all(axis=1))

        fewer = len(y) // 4 if stages > 1 else 0
        run, moving = jax.lax.while_loop(lambda now: jnp.sum(on(*now)) > jnp.maximum(leave * samples, fewer), step, (run, moving))
        if fewer == 0:
            return run, moving
        left = jnp.argsort(~on(run, moving))[:fewer]
        at_y, at_seen, at_run, at_moving = jax.tree.map(lambda values: values[left], (y, seen, run, moving))
        ends = settle(at_y, at_seen, at_run, at_moving, stages - 1)
        return jax.tree.map(lambda values, end: values.at[left].set(end), (run, moving), ends)

    return settle(block.y, block.seen, run, jnp.arange(len(block.y)) < samples, stages)


@partial(jax.jit, static_argnames=("method", "fields"))
def _published(method: ModuleType, model: Any, block: Block, run: Progress, fields: tuple[str, ...]) -> tuple[jax.Array, ...]:
    """What is known of the codes, as far as it is wanted: means alone take no iteration more."""
    codes = method.published(model, block.y, block.seen, run)
    return tuple(getattr(codes, name) for name in fields)
