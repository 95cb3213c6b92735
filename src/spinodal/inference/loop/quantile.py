"""Quantiles of positive numbers by counting: several times faster than by sorting, and over several devices only counts are exchanged."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..execution.blocks import shared

# Binary digits that each pass over the numbers decides: more of them mean fewer passes and more comparisons.
_DIGITS = 3
# Of fewer numbers than this, on one device, all pairs are compared: one pass, and quicker.
_FEW = 128


def median(values: Any) -> Any:
    """The median of nonnegative numbers."""
    return quantile(values, 0.5)


def quantile(values: Any, share: float) -> Any:
    """The smallest of some nonnegative numbers that has this share of them up to it, NaN if one is NaN. To a millionth, exact in float32.

    The bits of nonnegative numbers, read as an integer, are in the order of the numbers: the quantile's are found from the first on, by
    counting how many numbers are below a guess. Of float64 the first 32 bits are; the mean of all numbers that share them is returned.
    """
    enough = max(1, math.ceil(share * values.size))
    few = values.size < _FEW and not shared()
    found = jnp.sum(jnp.where(rank(values) == enough - 1, values, 0)) if few else _by_counting(values, enough)
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, found)


def _by_counting(values: Any, enough: int) -> Any:
    words = jax.lax.bitcast_convert_type(values, jnp.int32)
    if values.dtype == jnp.float64:
        words = words[..., 1]

    def decide(passes: Any, found: Any) -> Any:
        left = jnp.maximum(31 - _DIGITS * (passes + 1), 0)  # binary digits that stay undecided; the last pass may decide some again
        guesses = found + (np.arange(1, 2**_DIGITS, dtype=np.int32) << left)
        below = jnp.sum(words < guesses[:, None], axis=1)
        return found + (jnp.sum(below < enough, dtype=jnp.int32) << left)

    # A CPU gains nothing from passes written out, which take their time to compile.
    written_out = jax.default_backend() != "cpu"
    found = jax.lax.fori_loop(0, math.ceil(31 / _DIGITS), decide, jnp.zeros((), jnp.int32), unroll=written_out)
    same = words == found
    return jnp.sum(jnp.where(same, values, 0)) / jnp.sum(same)


def precedes(values: Any) -> Any:
    """[i, j]: value i is smaller than value j or, at a tie, comes earlier."""
    order = jnp.arange(values.shape[0])
    return (values[:, None] < values) | ((values[:, None] == values) & (order[:, None] < order))


def rank(values: Any) -> Any:
    """The place of each value among all, from the smallest."""
    return jnp.sum(precedes(values), axis=0)
