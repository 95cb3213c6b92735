"""Message passing for X alone, with the matrix known in mean and variance only (matrix uncertainty).

F stays at what its prior and F' say. With eta = 0 this is AMP for compressed sensing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import check, check_choice
from .data import Data
from .messages import Learns, Rules, free_entropy, update
from .state import State, first_state
from .variances import STRUCTURES

SIGNALS_ONLY = Learns(F=False, X=True)


@dataclass(frozen=True)
class MUAMP:
    """Message passing for the signals, F fixed at its mean and variance given F'. The options are those of AMP."""

    variance: str = "row-column"
    damping: float = 0.5
    residual_floor: float = 0.7
    clip_gains: bool = True

    adaptive = False
    keeps_best = False
    repair = False

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, tuple(STRUCTURES))
        check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES[self.variance], self.residual_floor, False, self.clip_gains)

    @property
    def first_damping(self) -> float:
        return self.damping

    def init(self, data: Data, key: Any) -> State:
        return first_state(data)

    def step(self, data: Data, state: State, step_size: Any) -> State:
        return update(self.rules, data, state, step_size, SIGNALS_ONLY)[0]

    def cost(self, data: Data, state: State) -> Any:
        return -free_entropy(self.rules, data, state, SIGNALS_ONLY)
