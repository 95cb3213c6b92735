"""The signals in blocks, on a CPU.

Given F, a signal needs no other signal, so a pass goes block by block, and all that is alive besides Y, X and g is one block. The loop
over iterations keeps the blocks of X and g as arrays of their own: in one large array a new block would have to be put in its place, which
compiled code does on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..messages.state import State

# Most signals in a block, and most blocks: each is compiled.
_WIDEST, _MOST = 1024, 8


def shared() -> bool:
    """Whether several devices share the signals. Then each has a block already."""
    return not jax.sharding.get_abstract_mesh().empty


def blocks(P: int, local: bool) -> list[slice]:
    """The blocks of P signals: one, unless signals are `local` and on one CPU."""
    several = local and jax.default_backend() == "cpu" and not shared()
    count = min(-(-P // _WIDEST), _MOST) if several else 1
    width = -(-P // count)
    return [slice(start, min(start + width, P)) for start in range(0, P, width)]


def take(values: Any, block: slice) -> Any:
    """A block of everything: the last axis is that of the signals."""
    return jax.tree.map(lambda value: value[..., block], values)


def join(parts: Any) -> Any:
    """Everything, from its blocks."""
    return jax.tree.map(lambda *values: jnp.concatenate(values, axis=-1), *parts)


def apart(state: State, at: list[slice]) -> State:
    """The state with a tuple of blocks for each large array that has a column for each signal."""
    X, g = (tuple(take(values, block) for block in at) for values in (state.X, state.g))
    return state._replace(X=X, g=g)  # type: ignore[arg-type]


def together(state: State) -> State:
    """The state with whole arrays again. Compilers see that a block of what was joined is that block."""
    return state._replace(X=join(state.X), g=join(state.g))


def after(value: Any, *arrays: Any) -> Any:
    """`value`, which is there only when the arrays are (and NaN if one of them starts with NaN).

    New values take the place of the old without a copy only if all that reads the old ones comes first, and to a compiler first means that
    it is needed for what comes later.
    """
    if shared():  # what each device says would have to travel first
        return value
    for array in arrays:
        value = jnp.where(array[(0,) * jnp.ndim(array)] >= -jnp.inf, value, jnp.nan)
    return value


def over_blocks(one: Callable[[Any, Any], tuple[Any, Any]], old: Any, at: list[slice]) -> tuple[Any, Any]:
    """`one(block, last)` for one block of `old` after another: the new blocks joined, and what they say added up.

    `last` is the new block before (None for the first): whoever waits for it can use its working memory again.
    """
    new: list[Any] = []
    total = None
    for block in at:
        here, said = one(take(old, block), new[-1] if new else None)
        new.append(here)
        total = said if total is None else jax.tree.map(jnp.add, total, said)
    return join(new), total
