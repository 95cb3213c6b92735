"""What large arrays need on an accelerator, where looking at them takes longer than anything that is computed of them.

`sweep` looks at arrays once: new values in place of the old, and sums along the rows on the way. Left to itself, the compiler looks once
for the values and once more for the sums, or does both at once and writes the new values elsewhere, from where they are copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .blocks import shared

# A tile is a piece of a row: this many entries, shared by this many warps. A program takes some tiles in a row, and programs that follow
# each other take pieces that do, so that memory is read almost in order.
_TILE, _WARPS, _TILES = 256, 4, 4
# Arrays of fewer entries are looked at sooner than a branch is decided.
_LARGE = 10**7
# Compute capability that the kernel's compiler asks for.
_OLDEST = 8.0

# A tile of each array, an entry of each vector along the rows, a tile of each along the columns, and scalars -> new tiles for the first
# arrays, and tiles to be summed.
Look = Callable[[Sequence[Any], Sequence[Any], Sequence[Any], Any], tuple[Sequence[Any], Sequence[Any]]]


def is_large(array: Any) -> bool:
    return bool(array.size > _LARGE)


def only_if(condition: Any, function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)` if the condition holds, else `value`. A loop of no or one turn: of a plain branch the compiler would compute both
    sides."""
    return jax.lax.while_loop(lambda carry: carry[0], lambda carry: (jnp.zeros_like(condition), function(carry[1])), (condition, value))[1]


def can_sweep() -> bool:
    """Whether `sweep` can be used here: on GPUs of NVIDIA that are not too old for its compiler, each with all of its arrays."""
    if jax.default_backend() != "gpu" or shared():
        return False
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))
    return capability[:1].isdigit() and float(capability) >= _OLDEST


def sweep(
    look: Look,
    arrays: Sequence[Any],
    rows: Sequence[Any],
    columns: Sequence[Any],
    scalars: Any,
    counts: tuple[int, int],
    interpret: bool = False,
) -> tuple[list[Any], list[Any]]:
    """`look` at every entry of some matrices of one shape: new values for the first of them, written in place, and sums along the rows.

    `rows` and `columns` are vectors with an entry for each row or column, `scalars` a pytree of them. `counts` says how many arrays are
    replaced and how many sums there are. `interpret` runs it on any machine, slowly.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    values, tree = jax.tree.flatten(scalars)
    (height, width), dtype = arrays[0].shape, arrays[0].dtype
    inputs = [*arrays, *rows, *columns, *(jnp.asarray(value, dtype).reshape(1) for value in values)]
    new, sums = counts
    needed = pl.cdiv(width, _TILE)
    pieces = pl.cdiv(needed, _TILES)
    tiles = pl.cdiv(needed, pieces)

    def kernel(*references: Any) -> None:
        split = iter(references)

        def take(count: int) -> list[Any]:
            return [next(split) for _ in range(count)]

        from_arrays, from_rows, from_columns, from_scalars = take(len(arrays)), take(len(rows)), take(len(columns)), take(len(values))
        to_arrays, to_sums = take(new), take(sums)
        piece, row = pl.program_id(0), pl.program_id(1)
        of_row = [ref[row] for ref in from_rows]
        scalars = jax.tree.unflatten(tree, [ref[0] for ref in from_scalars])

        def turn(k: Any, totals: list[Any]) -> list[Any]:
            start = (piece * tiles + k) * _TILE
            here, inside = pl.ds(start, _TILE), start + jnp.arange(_TILE, dtype=jnp.int32) < width
            load = partial(triton.load, mask=inside, other=1.0)
            old, of_columns = [load(ref.at[row, here]) for ref in from_arrays], [load(ref.at[here]) for ref in from_columns]
            replaced, terms = look(old, of_row, of_columns, scalars)
            for ref, tile in zip(to_arrays, replaced, strict=True):
                triton.store(ref.at[row, here], tile, mask=inside)
            return [total + jnp.where(inside, term, 0) for total, term in zip(totals, terms, strict=True)]

        totals = jax.lax.fori_loop(jnp.int32(0), jnp.int32(tiles), turn, [jnp.zeros(_TILE, dtype) for _ in range(sums)])
        for ref, total in zip(to_sums, totals, strict=True):
            ref[row, piece] = jnp.sum(total)

    out = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((height, width), dtype)] * new + [jax.ShapeDtypeStruct((height, pieces), dtype)] * sums,
        grid=(pieces, height),
        input_output_aliases={index: index for index in range(new)},
        compiler_params=triton.CompilerParams(num_warps=_WARPS),
        interpret=interpret,
    )(*inputs)
    return out[:new], [jnp.sum(parts, axis=1) for parts in out[new:]]
