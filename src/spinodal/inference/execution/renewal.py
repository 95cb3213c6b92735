"""New values of large arrays in place of the old, and sums along their rows on the way.

Looking at arrays of the size of X takes longer than anything that is computed of them, on every machine. Plainly (`renew_plainly`) the
values are computed and then summed. A CPU does the same, ordered so that the new values can take the place of the old ones without a copy.
A GPU of NVIDIA has a kernel that looks once for the values and the sums. Left to itself, the compiler looks once for the values and once
more for the sums, or does both at once and writes the new values elsewhere, from where they are copied back: 1.6 + 0.5 + 0.3 ms of an
iteration of 40 at N = 5000 on an H200, against 0.9 with the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .linear import over_signals
from .machine import platform, runs_kernels, shared

# A tile is a piece of a row: this many entries, shared by this many warps. A program takes some tiles in a row, and programs that follow
# each other take pieces that do, so that memory is read almost in order.
_TILE, _WARPS, _TILES = 256, 4, 4


class Looked(NamedTuple):
    """What a look at some entries gives: their new values, and (values, weights) to be summed along rows: always, or now and then."""

    new: Sequence[Any]
    always: Sequence[tuple[Any, Any]]
    rarely: Callable[[], Sequence[tuple[Any, Any]]]


class Renewed(NamedTuple):
    """New arrays, and the sums along their rows. Those that are wanted rarely are zero where they were not computed."""

    new: list[Any]
    always: list[Any]
    rarely: list[Any]


Look = Callable[[Sequence[Any], Any, Any], Looked]


def renew(look: Look, old: Sequence[Any], others: Any, step_size: Any, *, now: Any, first: Sequence[Any], kernel: bool) -> Renewed:
    """`look(old, others, step_size)` at every entry of the matrices `old`, which are replaced by a share `step_size` of new values.

    `others` is a tree of arrays that broadcast against them: entries, a column (one number for each row), a row, or scalars. Weights in
    sums are rows. The sums that are wanted rarely are computed `now` or, where that is quicker, always. `first` are results that read the
    old values too, and must be there before those are replaced. `kernel` says that `look` is elementary enough for any kernel.
    """
    if kernel and runs_kernels() and _plain_shapes(old[0].shape, others):
        old, others, _ = jax.lax.optimization_barrier((list(old), others, list(first)))
        return by_kernel(look, old, others, step_size)
    if platform() == "cpu" and not shared():
        return _in_place(look, old, others, step_size, now, first)
    return renew_plainly(look, old, others, step_size)


def renew_plainly(look: Look, old: Sequence[Any], others: Any, step_size: Any) -> Renewed:
    """Values, then sums: what the other ways must agree with."""
    new, always, rarely = look(old, others, step_size)
    sums = _row_sums([*always, *rarely()])
    return Renewed(list(new), sums[: len(always)], sums[len(always) :])


def _row_sums(terms: Sequence[tuple[Any, Any]]) -> list[Any]:
    return over_signals(
        *((values, jnp.broadcast_to(jnp.ravel(weights), values.shape[1:]).astype(values.dtype)) for values, weights in terms)
    )


def _in_place(look: Look, old: Sequence[Any], others: Any, step_size: Any, now: Any, first: Sequence[Any]) -> Renewed:
    """On a CPU. The compiler sees that both looks are one; only the last step of the second waits for everything else."""
    _, always, rarely = look(old, others, step_size)
    totals = _row_sums(always)
    nothing = [jnp.zeros(old[0].shape[0], old[0].dtype) for _ in jax.eval_shape(lambda: [values for values, _ in rarely()])]
    counted = jax.lax.cond(now, lambda: _row_sums(rarely()), lambda: nothing)
    return Renewed(list(look(old, others, after(step_size, *totals, *counted, *first)).new), totals, counted)


def after(value: Any, *arrays: Any) -> Any:
    """`value`, which is there only when the arrays are (and NaN if one of them starts with NaN).

    New values take the place of the old without a copy only if all that reads the old ones comes first, and to a compiler first means that
    it is needed for what comes later.
    """
    for array in arrays:
        value = jnp.where(array[(0,) * jnp.ndim(array)] >= -jnp.inf, value, jnp.nan)
    return value


def _plain_shapes(shape: tuple[int, ...], others: Any) -> bool:
    return all(jnp.shape(leaf) in (shape, (shape[0], 1), (1, shape[1]), ()) for leaf in jax.tree.leaves(others))


def by_kernel(look: Look, old: Sequence[Any], others: Any, step_size: Any, interpret: bool = False) -> Renewed:
    """One look at everything. `interpret` runs it on any machine, slowly."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (height, width), dtype = old[0].shape, old[0].dtype
    leaves, tree = jax.tree.flatten((others, step_size))
    leaves = [jnp.asarray(leaf, dtype) for leaf in leaves]
    kinds = [leaf.shape for leaf in leaves]
    vectors = [leaf.reshape(-1) if leaf.shape != (height, width) else leaf for leaf in leaves]
    needed = pl.cdiv(width, _TILE)
    pieces = pl.cdiv(needed, _TILES)
    tiles = pl.cdiv(needed, pieces)
    counts: list[int] = []

    def count(old: Sequence[Any], others: Any) -> None:
        new, always, rarely = look(old, others, step_size)
        counts.extend((len(new), len(always), len(rarely())))

    jax.eval_shape(count, list(old), others)
    count_new, count_always, count_rarely = counts

    def kernel(*references: Any) -> None:
        split = iter(references)
        from_old, from_others = [next(split) for _ in old], [next(split) for _ in leaves]
        to_new, to_sums = [next(split) for _ in range(count_new)], list(split)
        piece, row = pl.program_id(0), pl.program_id(1)

        def turn(k: Any, totals: list[Any]) -> list[Any]:
            start = (piece * tiles + k) * _TILE
            here, inside = pl.ds(start, _TILE), start + jnp.arange(_TILE, dtype=jnp.int32) < width
            load = partial(triton.load, mask=inside, other=1.0)

            def other(ref: Any, kind: tuple[int, ...]) -> Any:
                if kind == (height, width):
                    return load(ref.at[row, here])
                return ref[row] if kind == (height, 1) else load(ref.at[here]) if kind == (1, width) else ref[0]

            tile = [load(ref.at[row, here]) for ref in from_old]
            beside = jax.tree.unflatten(tree, [other(*pair) for pair in zip(from_others, kinds, strict=True)])
            new, always, rarely = look(tile, *beside)
            for ref, values in zip(to_new, new, strict=True):
                triton.store(ref.at[row, here], values, mask=inside)
            terms = [values * weights for values, weights in (*always, *rarely())]
            return [total + jnp.where(inside, term, 0) for total, term in zip(totals, terms, strict=True)]

        zeros = [jnp.zeros(_TILE, dtype) for _ in to_sums]
        totals = jax.lax.fori_loop(jnp.int32(0), jnp.int32(tiles), turn, zeros)
        for ref, total in zip(to_sums, totals, strict=True):
            ref[row, piece] = jnp.sum(total)

    sums = count_always + count_rarely
    out = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((height, width), dtype)] * count_new + [jax.ShapeDtypeStruct((height, pieces), dtype)] * sums,
        grid=(pieces, height),
        input_output_aliases={index: index for index in range(count_new)},
        compiler_params=triton.CompilerParams(num_warps=_WARPS),
        interpret=interpret,
    )(*old, *vectors)
    totals = [jnp.sum(parts, axis=1) for parts in out[count_new:]]
    return Renewed(list(out[:count_new]), totals[:count_always], totals[count_always:])
