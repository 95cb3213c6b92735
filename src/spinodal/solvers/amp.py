"""Approximate message passing for F and X together: the paper's algorithm, Eqs. (12)-(20), and what makes it converge.

As printed (with the misprints mended), parallel updates of F and X from one shared variance diverge at any size one can run. Four changes
cure it, none of which changes the fixed points that the state evolution describes: a variance for each signal and each atom, raised to a
share of the measured residual; Onsager gains kept in [0, 1]; damping; and a gauge step that holds each atom's scale at its posterior
mode. `AMP.as_printed()` is the literal version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError, check, check_choice
from .data import Data
from .gauge import gauge_step, has_gauge
from .messages import Rules, counts_now, free_entropy, update
from .state import State, data_power, first_state, rescaled
from .variances import STRUCTURES

# Where noise was added to shake a state loose, this factor takes it away again, iteration by iteration.
_COOLING = 0.97


@dataclass(frozen=True)
class AMP:
    """Joint message passing for F and X.

    variance: how the variance of y - omega is shared: "row-column" (a value for each signal and atom), "entry" (exact, slower), "scalar"
    (the paper's).
    damping: weight of the old value, or "adaptive": raised when the Bethe free entropy falls, lowered while it rises.
    residual_floor: the variance used is at least this share of the measured one. measured_variance: use the measured one alone.
    clip_gains, gauge: see the module. anneal: None for the known noise level from the start, or the factor by which a level as high as
    the data's power approaches it each iteration.
    repair: look for duplicated, unused or overused atoms when the iterations have settled, and start those again.
    """

    variance: str = "row-column"
    damping: float | str = 0.5
    residual_floor: float = 0.7
    measured_variance: bool = False
    clip_gains: bool = True
    gauge: bool = True
    anneal: float | None = None
    repair: bool = True

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, tuple(STRUCTURES))
        if isinstance(self.damping, str):
            check_choice("damping", self.damping, ("adaptive",))
        else:
            check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)
        if self.anneal is not None:
            check("anneal", self.anneal, 0.0, 1.0, low_open=True, high_open=True)
        if self.measured_variance and self.anneal is not None:
            raise InputError("anneal must be None with measured_variance=True, which never uses the noise level.")

    @classmethod
    def as_printed(cls, damping: float = 0.0) -> AMP:
        """The paper's algorithm: one measured variance, no clipping, no gauge, no repair."""
        return cls("scalar", damping, 0.0, True, clip_gains=False, gauge=False, repair=False)

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES[self.variance], self.residual_floor, self.measured_variance, self.clip_gains)

    @property
    def first_damping(self) -> float:
        return 0.5 if isinstance(self.damping, str) else self.damping

    @property
    def adaptive(self) -> bool:
        return isinstance(self.damping, str)

    @property
    def keeps_best(self) -> bool:
        """Versions that can diverge keep a copy of their best state."""
        return self.measured_variance or not self.clip_gains or self.residual_floor == 0

    def init(self, data: Data, key: Any) -> State:
        state = first_state(data)
        return state if self.anneal is None else state._replace(noise=data.noise + data_power(data))

    def step(self, data: Data, state: State, step_size: Any) -> State:
        rate = _COOLING if self.anneal is None else self.anneal
        state = state._replace(noise=data.noise + rate * (state.noise - data.noise))
        now = counts_now(state)
        state, power = update(self.rules, data, state, step_size)
        return gauge_step(data, state, power, now) if self.gauge and has_gauge(data) else state

    def cost(self, data: Data, state: State) -> Any:
        """Minus the Bethe free entropy: what adaptive damping watches."""
        return -free_entropy(self.rules, data, rescaled(state))
