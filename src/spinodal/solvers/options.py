"""Options that the solvers which update one factor at a time share, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import check, check_choice
from .data import Data
from .messages import Rules
from .state import State, first_state
from .variances import STRUCTURES


@dataclass(frozen=True)
class Plain:
    """Constant damping, no repair, and the start that the priors and F' give. The options are those of AMP."""

    variance: str = "row-column"
    damping: float = 0.5
    residual_floor: float = 0.7
    clip_gains: bool = True

    adaptive = False
    keeps_best = False
    repair = False
    remove_means = True

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
