"""Quantiles of what an iteration measured."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp


def quantile(values: Any, share: float) -> Any:
    """The lower quantile of a vector: an element of it, NaN if one is NaN."""
    place = max(1, math.ceil(share * values.size)) - 1
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, jnp.sort(values)[place])


def median(values: Any) -> Any:
    """The lower median of a vector."""
    return quantile(values, 0.5)
