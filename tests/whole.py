"""Methods of priors, channels and the like compiled as a whole: their operations one by one take far longer to compile."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np


@partial(jax.jit, static_argnums=(0, 1))
def _whole(name: str, shape: tuple[int, ...] | None, one: Any, *arguments: Any) -> Any:
    method = getattr(one, name)
    return method(*arguments) if shape is None else method(*arguments, shape)


def whole(name: str, one: Any, *arguments: Any, shape: tuple[int, ...] | None = None) -> Any:
    """one.name(*arguments) in float64, as NumPy arrays; a shape comes last."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _whole(name, shape, one, *arguments))
