"""Inverses and determinants of many small positive definite matrices at once, by halves, as products of matrices.

LAPACK takes them one by one, several times as long as the products take on a CPU, and longer still on a GPU.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

# Matrices up to this size are eliminated column by column. Sizes are multiples of it.
LEAF = 8


def inverse(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inverses of symmetric positive definite matrices (the last two axes) whose size is a multiple of LEAF, and log determinants."""
    size = matrix.shape[-1]
    if size <= LEAF:
        return _eliminated(matrix)
    half = LEAF * (size // LEAF // 2)
    first, across, second = matrix[..., :half, :half], matrix[..., :half, half:], matrix[..., half:, half:]
    corner, log_first = inverse(first)
    pulled = corner @ across
    other, log_second = inverse(second - across.swapaxes(-1, -2) @ pulled)
    beside = pulled @ other
    top = jnp.concatenate([corner + beside @ pulled.swapaxes(-1, -2), -beside], axis=-1)
    bottom = jnp.concatenate([-beside.swapaxes(-1, -2), other], axis=-1)
    return jnp.concatenate([top, bottom], axis=-2), log_first + log_second


def _eliminated(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gauss and Jordan's elimination, in place, without exchanges: positive definite matrices need none."""
    size = matrix.shape[-1]

    def step(k: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        matrix, logs = now
        on = jnp.arange(size) == k
        row, column = (jax.lax.dynamic_index_in_dim(matrix, k, axis, keepdims=False) for axis in (-2, -1))
        pivot = jnp.maximum(jax.lax.dynamic_index_in_dim(row, k, -1), jnp.finfo(matrix.dtype).tiny)
        row = jnp.where(on, 1, row) / pivot
        rest = jnp.where(on, 0, matrix) - jnp.where(on, 0, column)[..., :, None] * row[..., None, :]
        return jnp.where(on[:, None], row[..., None, :], rest), logs + jnp.log(pivot[..., 0])

    return jax.lax.fori_loop(0, size, step, (matrix, jnp.zeros(matrix.shape[:-2], matrix.dtype)))
