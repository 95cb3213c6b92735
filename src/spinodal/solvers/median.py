"""Quantiles of positive numbers by counting: several times faster than by sorting, and over several devices only counts are exchanged."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Binary digits that each pass over the numbers decides: more of them mean fewer passes and more comparisons.
_DIGITS = 3


def median(values: Any) -> Any:
    """The median of nonnegative numbers."""
    return quantile(values, 0.5)


def quantile(values: Any, share: float) -> Any:
    """The smallest of some nonnegative numbers that has this share of them up to it, NaN if one is NaN. To a millionth, exact in float32.

    The bits of nonnegative numbers, read as an integer, are in the order of the numbers: the quantile's are found from the first on, by
    counting how many numbers are below a guess. Of float64 the first 32 bits are; the mean of all numbers that share them is returned.
    """
    words = jax.lax.bitcast_convert_type(values, jnp.int32)
    if values.dtype == jnp.float64:
        words = words[..., 1]
    enough, found, left = max(1, math.ceil(share * values.size)), jnp.zeros((), jnp.int32), 31
    while left > 0:
        digits = min(_DIGITS, left)
        left -= digits
        guesses = found + (np.arange(1, 2**digits, dtype=np.int32) << left)
        below = jnp.sum(words < guesses[:, None], axis=1)
        found += jnp.sum(below < enough, dtype=jnp.int32) << left
    same = words == found
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, jnp.sum(jnp.where(same, values, 0)) / jnp.sum(same))
