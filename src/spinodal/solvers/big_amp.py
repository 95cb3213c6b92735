"""The alternating scheme: message passing for X with F fixed (mean and variance), then for F with X fixed, and again.

The paper describes bilinear AMP this way. It is not clear that it follows the paper's state evolution; it is here to compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from ..errors import check, check_choice, check_count
from .data import Data
from .gauge import gauge_step, has_gauge
from .messages import Learns, Rules, counts_now, free_entropy, update
from .mu_amp import SIGNALS_ONLY
from .state import State, first_state, rescaled
from .variances import STRUCTURES

MATRIX_ONLY = Learns(F=True, X=False)


@dataclass(frozen=True)
class BiGAMP:
    """`turn` iterations for X, then `turn` for F, and so on. The other options are those of AMP."""

    turn: int = 5
    variance: str = "row-column"
    damping: float = 0.5
    residual_floor: float = 0.7
    clip_gains: bool = True
    gauge: bool = True

    adaptive = False
    keeps_best = False
    repair = False

    def __post_init__(self) -> None:
        check_count("turn", self.turn)
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
        def turn(learns: Learns) -> Any:
            return lambda state: update(self.rules, data, state, step_size, learns)

        for_X = (state.age // self.turn) % 2 == 0
        now = counts_now(state) & for_X
        state, power = jax.lax.cond(for_X, turn(SIGNALS_ONLY), turn(MATRIX_ONLY), state)
        return gauge_step(data, state, power, now) if self.gauge and has_gauge(data) else state

    def cost(self, data: Data, state: State) -> Any:
        return -free_entropy(self.rules, data, rescaled(state))
