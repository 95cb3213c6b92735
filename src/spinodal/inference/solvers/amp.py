"""Approximate message passing for F and X together: the paper's algorithm, Eqs. (12)-(20), and what makes it converge.

As printed (with the misprints mended), parallel updates of F and X from one shared variance diverge at any size one can run. Four changes
cure it, none of which changes the fixed points that the state evolution describes: a variance for each signal and each atom, raised to a
share of the measured residual; Onsager gains kept in [0, 1]; damping; and a gauge step that holds each atom's scale at its posterior
mode. Prior means that are not zero are taken off first (`messages/means.py`). `AMP.as_printed()` is the literal version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...errors import check, check_choice
from ...model.priors import Moments
from ...pair import Pair
from ..messages.free_entropy import free_entropy
from ..messages.gauge import gauge_step, has_gauge, row_step
from ..messages.update import Rules, State, by_signal, counts_now, first_state, inputs, rescaled, update
from ..messages.variances import STRUCTURES
from ..task import Task
from .base import Estimate, Measured, Solver

# Adaptive damping: the share of the new value falls by this factor when the cost rises, and recovers by the other.
_BACK_OFF, _RECOVER = 0.5, 1.1
_LEAST_STEP, _LARGEST_STEP, _FIRST_STEP = 0.05, 1.0, 0.5


class Adapted(NamedTuple):
    """The messages, the share of the new values, and minus the free entropies of the last two iterations."""

    messages: State
    step_size: Any
    costs: Pair[Any]


@dataclass(frozen=True)
class AMP(Solver):
    """Joint message passing for F and X.

    Args:
        variance: how the variance of y - omega is shared: "row-column" (a value for each signal and atom), "entry" (exact, slower, and
            what "row-column" becomes where the rows of Y differ in their noise), "scalar" (the paper's).
        damping: weight of the old value, or "adaptive": raised when the Bethe free entropy falls, lowered while it rises.
        residual_floor: the variance used is at least this share of the measured one.
        measured_variance: use the measured one alone.
        clip_gains: keep the Onsager gains in [0, 1].
        gauge: hold each atom's scale at its posterior mode.
        remove_means: take prior means that are not zero off first.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> str(sp.solve(instance.observed, problem, sp.AMP(damping=0.5)).status)
        'converged'
    """

    variance: str = "row-column"
    damping: float | str = 0.5
    residual_floor: float = 0.7
    measured_variance: bool = False
    clip_gains: bool = True
    gauge: bool = True
    remove_means: bool = True

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, tuple(STRUCTURES))
        if isinstance(self.damping, str):
            check_choice("damping", self.damping, ("adaptive",))
        else:
            check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)

    @classmethod
    def as_printed(cls, damping: float = 0.0) -> AMP:
        """The paper's algorithm: one measured variance, no clipping, no gauge, means left in.

        Examples:
            >>> import spinodal as sp
            >>> sp.AMP.as_printed().variance
            'scalar'
        """
        return cls("scalar", damping, 0.0, True, clip_gains=False, gauge=False, remove_means=False)

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES[self.variance], self.residual_floor, self.measured_variance, self.clip_gains)

    @property
    def blockwise(self) -> bool:  # type: ignore[override]
        return bool(self.rules.structure.local)

    @property
    def searches(self) -> bool:  # type: ignore[override]
        """Whether `solve` surrounds it with a `Search` unless told otherwise.

        Examples:
            >>> import spinodal as sp
            >>> sp.AMP().searches, sp.BiGAMP().searches
            (True, False)
        """
        return type(self) is AMP and not self.measured_variance

    @property
    def can_diverge(self) -> bool:  # type: ignore[override]
        """Whether a version can come apart, so that its best state is worth keeping.

        Examples:
            >>> import spinodal as sp
            >>> sp.AMP().can_diverge, sp.AMP.as_printed().can_diverge
            (False, True)
        """
        return self.measured_variance or not self.clip_gains or self.residual_floor == 0

    def suited(self, channel: Any) -> AMP:
        # An average over the rows of a column would give noisy rows the certainty of quiet ones.
        return replace(self, variance="entry") if channel.unequal and self.variance == "row-column" else self

    def init(self, task: Task, draws: Any, start: Any = None) -> Any:
        state = first_state(task) if start is None else first_state(task, start.F, start.X)
        if not isinstance(self.damping, str):
            return state
        far = jnp.asarray(jnp.inf, task.Y.dtype)
        return Adapted(state, jnp.asarray(_FIRST_STEP, task.Y.dtype), Pair(far, far))

    def step(self, task: Task, state: Any) -> Any:
        if not isinstance(self.damping, str):
            return self._step(task, state, jnp.asarray(1 - self.damping, task.Y.dtype))
        messages = self._step(task, state.messages, state.step_size)
        cost = -free_entropy(self.rules, task, rescaled(messages))
        worse = ~(cost <= jnp.maximum(*state.costs))  # against the worse of the last two; NaN counts as worse
        step_size = jnp.clip(state.step_size * jnp.where(worse, _BACK_OFF, _RECOVER), _LEAST_STEP, _LARGEST_STEP)
        return Adapted(messages, step_size, Pair(state.costs.X, cost))

    def _step(self, task: Task, state: State, step_size: Any) -> State:
        now = counts_now(state)
        state, power = update(self.rules, task, state, step_size)
        if not (self.gauge and has_gauge(task)):
            return state
        return row_step(task, gauge_step(task, state, power, now), power, now)

    def measure(self, task: Task, state: Any) -> Measured:
        messages = _messages(state)
        damping = 1 - state.step_size if isinstance(state, Adapted) else jnp.asarray(self.damping, task.Y.dtype)
        return Measured(messages.level, messages.square, damping)

    def estimate(self, task: Task, state: Any) -> Estimate:
        return estimate_of(_messages(state))

    def inputs(self, task: Task, state: Any) -> Moments:
        return inputs(self.rules, task, rescaled(_messages(state)))

    def free_entropy(self, task: Task, state: Any) -> Any:
        return free_entropy(self.rules, task, rescaled(_messages(state)))

    def reordered(self, state: Any, place: Any, sign: Any) -> Any:
        moved = reordered(_messages(state), place, sign)
        return state._replace(messages=moved) if isinstance(state, Adapted) else moved

    def divided(self, state: Any) -> Any:
        flags = by_signal(_messages(state))
        return Adapted(flags, False, Pair(False, False)) if isinstance(state, Adapted) else flags


def _messages(state: Any) -> State:
    return state.messages if isinstance(state, Adapted) else state


def estimate_of(state: State) -> Estimate:
    """What message passing says, its pending scales applied."""
    state = rescaled(state)
    return Estimate(state.F, state.X, state.nonzeros, state.square, state.offset, state.level)


def reordered(state: State, place: Any, sign: Any) -> State:
    """Message passing with atom place[i] times sign[i] at place i."""
    F = state.F._replace(mean=state.F.mean[:, place] * sign, variance=state.F.variance[:, place])
    X = state.X._replace(mean=state.X.mean[place] * sign[:, None], variance=state.X.variance[place])
    return state._replace(F=F, X=X, scale=state.scale[place], nonzeros=state.nonzeros[place])
