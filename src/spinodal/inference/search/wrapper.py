"""A solver around another one: what it does not change is the inner solver's."""

from __future__ import annotations

from typing import Any

import jax

from ...model.priors import Moments
from ..loop.history import History, Tolerance
from ..solvers.base import Estimate, Measured, Solver
from ..task import Task


class Wrapper(Solver):
    """A solver with an `inner` one, whose state is the `inner` field of its own. Subclasses are frozen dataclasses."""

    inner: Solver

    @property
    def remove_means(self) -> bool:  # type: ignore[override]
        return self.inner.remove_means

    @property
    def blockwise(self) -> bool:  # type: ignore[override]
        return self.inner.blockwise

    def inside(self, task: Task, state: Any) -> Task:
        """The task as the inner solver sees it."""
        return task

    def measure(self, task: Task, state: Any) -> Measured:
        return self.inner.measure(self.inside(task, state), state.inner)

    def estimate(self, task: Task, state: Any) -> Estimate:
        return self.inner.estimate(self.inside(task, state), state.inner)

    def free_entropy(self, task: Task, state: Any) -> Any:
        return self.inner.free_entropy(self.inside(task, state), state.inner)

    def finished(self, task: Task, state: Any, history: History, tolerance: Tolerance) -> Any:
        return self.inner.finished(self.inside(task, state), state.inner, history, tolerance)

    def restart(self, task: Task, state: Any, F: Moments, slow: Any) -> Any:
        return state._replace(inner=self.inner.restart(self.inside(task, state), state.inner, F, slow))

    def reordered(self, state: Any, place: Any, sign: Any) -> Any:
        inner = self.inner.reordered(state.inner, place, sign)
        return None if inner is None else state._replace(inner=inner)

    def best(self, state: Any) -> Any:
        inner = self.inner.best(state.inner)
        return None if inner is None else state._replace(inner=inner)

    def learned(self, task: Task, state: Any) -> Task:
        return self.inner.learned(self.inside(task, state), state.inner)

    def divided(self, state: Any) -> Any:
        return jax.tree.map(lambda _: False, state)._replace(inner=self.inner.divided(state.inner))
