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

# A tile: rows and columns of the arrays that are worked on at a time, and the warps that share it. Two entries for each thread.
_ROWS, _COLUMNS, _WARPS = 1, 256, 4
# Arrays of fewer entries are looked at sooner than a branch is decided.
_LARGE = 10**7
# In larger arrays 32-bit indices overflow.
_LARGEST = 2**31 - 1
# Compute capability that the kernel's compiler asks for.
_OLDEST = 8.0

# Tiles of the arrays, of vectors with an entry for each row and each column, and scalars -> new tiles for the first arrays, and tiles to
# be summed along the rows.
Look = Callable[[Sequence[Any], Sequence[Any], Sequence[Any], Any], tuple[Sequence[Any], Sequence[Any]]]


def is_large(array: Any) -> bool:
    return bool(array.size > _LARGE)


def only_if(condition: Any, function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)` if the condition holds, else `value`. A loop of no or one turn: of a plain branch the compiler would compute both
    sides."""
    return jax.lax.while_loop(lambda carry: carry[0], lambda carry: (jnp.zeros_like(condition), function(carry[1])), (condition, value))[1]


def can_sweep(array: Any) -> bool:
    """Whether `sweep` serves this array here: on GPUs of NVIDIA that are not too old for its compiler."""
    if jax.default_backend() != "gpu" or array.size > _LARGEST:
        return False
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))
    return capability[:1].isdigit() and float(capability) >= _OLDEST


def sweep(
    look: Look, arrays: Sequence[Any], rows: Sequence[Any], columns: Sequence[Any], scalars: Any, counts: tuple[int, int], interpret: bool = False
) -> tuple[list[Any], list[Any]]:
    """`look` at every entry of some matrices of one shape: new values for the first of them, written in place, and sums along the rows.

    `rows` and `columns` are vectors with an entry for each row or column, `scalars` a pytree. `counts` says how many arrays are replaced
    and how many sums there are. `interpret` runs it on any machine, slowly.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    values, tree = jax.tree.flatten(scalars)
    inputs = [*arrays, *rows, *columns, *(jnp.reshape(value, 1) for value in values)]
    shape, dtype = arrays[0].shape, arrays[0].dtype
    new, sums = counts

    def kernel(*references: Any) -> None:
        split = iter(references)

        def take(count: int) -> list[Any]:
            return [next(split) for _ in range(count)]

        from_arrays, from_rows, from_columns, from_scalars = take(len(arrays)), take(len(rows)), take(len(columns)), take(len(values))
        to_arrays, to_sums = take(new), take(sums)
        own, in_rows = _within(pl, pl.program_id(0), _ROWS, shape[0])
        load = partial(triton.load, other=1.0)
        of_rows = [load(ref.at[own], mask=in_rows) for ref in from_rows]
        scalars = jax.tree.unflatten(tree, [ref[0] for ref in from_scalars])

        def turn(k: Any, totals: list[Any]) -> list[Any]:
            here, in_columns = _within(pl, k, _COLUMNS, shape[1])
            inside = in_rows[:, None] & in_columns[None, :]
            tiles = [load(ref.at[own, here], mask=inside) for ref in from_arrays]
            of_columns = [load(ref.at[here], mask=in_columns) for ref in from_columns]
            replaced, terms = look(tiles, of_rows, of_columns, scalars)
            for ref, tile in zip(to_arrays, replaced, strict=True):
                triton.store(ref.at[own, here], tile, mask=inside)
            return [total + jnp.where(inside, term, 0) for total, term in zip(totals, terms, strict=True)]

        nothing = [jnp.zeros((_ROWS, _COLUMNS), dtype) for _ in range(sums)]
        totals = jax.lax.fori_loop(jnp.int32(0), jnp.int32(pl.cdiv(shape[1], _COLUMNS)), turn, nothing)
        for ref, total in zip(to_sums, totals, strict=True):
            triton.store(ref.at[own], jnp.sum(total, axis=1), mask=in_rows)

    out = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(shape, dtype)] * new + [jax.ShapeDtypeStruct(shape[:1], dtype)] * sums,
        grid=(pl.cdiv(shape[0], _ROWS),),
        input_output_aliases={index: index for index in range(new)},
        compiler_params=triton.CompilerParams(num_warps=_WARPS),
        interpret=interpret,
    )(*inputs)
    return out[:new], out[new:]


def _within(pl: Any, block: Any, width: int, length: int) -> tuple[Any, Any]:
    """The indices of a block, and which of them there are."""
    start = (block * width).astype(jnp.int32)
    return pl.ds(start, width), start + jnp.arange(width, dtype=jnp.int32) < length
