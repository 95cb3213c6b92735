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
    logs = jnp.zeros(matrix.shape[:-2], matrix.dtype)
    for k in range(size):
        pivot = jnp.maximum(matrix[..., k, k], jnp.finfo(matrix.dtype).tiny)[..., None]
        logs = logs + jnp.log(pivot[..., 0])
        row = (matrix[..., k, :] / pivot).at[..., k].set(1 / pivot[..., 0])
        column = matrix[..., :, k].at[..., k].set(0)
        matrix = matrix.at[..., :, k].set(0) - column[..., :, None] * row[..., None, :]
        matrix = matrix.at[..., k, :].set(row)
    return matrix, logs
