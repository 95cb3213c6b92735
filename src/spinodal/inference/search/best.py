"""The best state so far, for solvers that can come apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..loop import median
from ..solvers.base import Solver, Wrapper
from ..task import Task


class Best(NamedTuple):
    """The solver's state, the one of smallest median residual, and that residual."""

    inner: Any
    kept: Any
    level: Any


@dataclass(frozen=True)
class BestSoFar(Wrapper):
    """A solver that remembers its best state."""

    inner: Solver

    def init(self, task: Task, draws: Any, start: Any = None) -> Best:
        state = self.inner.init(task, draws, start)
        return Best(state, state, jnp.asarray(jnp.inf, task.Y.dtype))

    def step(self, task: Task, state: Best) -> Best:
        new = self.inner.step(task, state.inner)
        level = median(self.inner.measure(task, new).square)
        better = jnp.isfinite(level) & (level <= state.level)
        kept = jax.tree.map(lambda now, old: jnp.where(better, now, old), new, state.kept)
        return Best(new, kept, jnp.where(better, level, state.level))

    def best(self, state: Best) -> Best:
        return state._replace(inner=state.kept)

    def divided(self, state: Best) -> Best:
        flags = self.inner.divided(state.inner)
        return Best(flags, flags, False)
