"""Transposes, and weighted sums over atoms and over signals, in the way that suits the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .machine import platform


def turned(F: Any) -> Any:
    """The transpose of a matrix. On a CPU it is made before its product, which takes twice as long with F turned around in it."""
    return jax.lax.optimization_barrier(F.T) if platform() == "cpu" else F.T


def over_atoms(*terms: tuple[Sequence[Any], Any]) -> list[Any]:
    """Sums over atoms (rows) of arrays, one for each vector of weights. A term is (vectors of weights, array)."""

    def sums(weights: Sequence[Any], values: Any) -> list[Any]:
        if len(weights) > 1:  # a product reads the array once, for all its weights
            return list(jnp.stack(weights) @ values)
        weighted = weights[0][:, None] * values
        return [jnp.ones_like(weights[0]) @ weighted if platform() == "cpu" else jnp.sum(weighted, axis=0)]

    return [total for weights, values in terms for total in sums(weights, values)]


def over_signals(*terms: tuple[Any, Any]) -> list[Any]:
    """Weighted sums over signals (columns). A term is (array, weights)."""
    if platform() == "cpu":
        return [values @ weights for values, weights in terms]
    # One reduction for all: accelerators then read every array once.
    weighted = [values * weights for values, weights in terms]
    zeros = [jnp.zeros((), values.dtype) for values in weighted]
    return list(jax.lax.reduce(weighted, zeros, lambda left, right: [x + y for x, y in zip(left, right, strict=True)], (1,)))
