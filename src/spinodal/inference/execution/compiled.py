"""How much effort a program is compiled with.

Most of the first seconds of a small solve are compilation. On a CPU, programs that run once or a few times on small arrays are compiled
with little effort: a tenth of the time (inspection of 40 atoms and 500 signals: 3.1 s of CPU time at full effort, 0.37 s at this one).
What is computed is the same to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax
import numpy as np

from .machine import platform

# Options that mean little effort; versions of XLA know some of them.
_LITTLE_EFFORT = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
# Arrays of more entries are worth the full effort.
_SMALL = 10**6


def seldom(*static: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """jax.jit for a function that is called seldom; `static` are the arguments that are compiled in."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        plain = jax.jit(function, static_argnums=static)

        @cache
        def quick() -> Any:
            return jax.jit(function, static_argnums=static, compiler_options=_known_options())

        @wraps(function)
        def call(*arguments: Any) -> Any:
            traced = [value for k, value in enumerate(arguments) if k not in static]
            small = all(np.size(leaf) < _SMALL and not isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(traced))
            return (quick() if small and platform() == "cpu" else plain)(*arguments)

        return call

    return decorate


@cache
def _known_options() -> dict[str, Any]:
    """The options that this version of XLA knows."""
    known = {}
    for name, value in _LITTLE_EFFORT.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value})()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known
