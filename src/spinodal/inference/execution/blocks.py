"""The signals in blocks, on a CPU.

Given F, a signal needs no other signal, so a pass goes block by block, and all that is alive besides Y, X and g is one block. The loop
over iterations keeps the blocks of large arrays as arrays of their own: in one large array a new block would have to be put in its place,
which compiled code does on one core (15-30% of an iteration at N = 1000). The plain twin is one block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .machine import platform, shared
from .renewal import after

# Most signals in a block, and most blocks: each is compiled.
_WIDEST, _MOST = 1024, 8


def blocks(P: int) -> list[slice]:
    """The blocks of P signals: one, unless they are on one CPU."""
    count = min(-(-P // _WIDEST), _MOST) if platform() == "cpu" and not shared() else 1
    width = -(-P // count)
    return [slice(start, min(start + width, P)) for start in range(0, P, width)]


def take(values: Any, block: slice) -> Any:
    """A block of everything: the last axis is that of the signals."""
    return jax.tree.map(lambda value: value[..., block], values)


def join(parts: Any) -> Any:
    """Everything, from its blocks."""
    return jax.tree.map(lambda *values: jnp.concatenate(values, axis=-1), *parts)


class Layout:
    """How a loop keeps a state: whole, or its large arrays that have a column for each signal (`divided`) as tuples of blocks."""

    def __init__(self, P: int, divided: Any, split: bool) -> None:
        self.at = blocks(P) if split else [slice(0, P)]
        self.divided = jax.tree.leaves(divided)

    def apart(self, state: Any) -> list[Any]:
        """The leaves of a state, the large ones in blocks."""
        if len(self.at) == 1:
            return jax.tree.leaves(state)
        leaves = zip(jax.tree.leaves(state), self.divided, strict=True)
        return [tuple(leaf[..., at] for at in self.at) if by_signal and leaf.ndim > 1 else leaf for leaf, by_signal in leaves]

    def together(self, leaves: list[Any], like: Any) -> Any:
        """The state again. Compilers see that a block of what was joined is that block."""
        return jax.tree.unflatten(
            jax.tree.structure(like), [jnp.concatenate(leaf, axis=-1) if isinstance(leaf, tuple) else leaf for leaf in leaves]
        )


def over_blocks(one: Callable[[Any, Any], tuple[Any, Any]], old: Any, shared_between: Any, split: bool) -> tuple[Any, Any]:
    """`one(block, shared)` for one block of `old` after another: the new blocks joined, and what they say added up.

    What the blocks share waits for the block before: whoever comes later can use its working memory again.
    """
    P = jax.tree.leaves(old)[0].shape[-1]
    new: list[Any] = []
    total = None
    for block in blocks(P) if split else [slice(0, P)]:
        last = jax.tree.leaves(new[-1]) if new else []
        waiting = jax.tree.map(lambda value, last=last: after(value, *last[:1]), shared_between)
        here, said = one(take(old, block), waiting)
        new.append(here)
        total = said if total is None else jax.tree.map(jnp.add, total, said)
    return join(new), total
