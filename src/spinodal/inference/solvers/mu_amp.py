"""Message passing for X alone, with the matrix known in mean and variance only (matrix uncertainty).

F stays at what its prior and F' say. With eta = 0 this is AMP for compressed sensing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..messages.data import Data
from ..messages.state import State
from ..messages.update import Learns, free_entropy, update
from .options import Plain

SIGNALS_ONLY = Learns(F=False, X=True)


@dataclass(frozen=True)
class MUAMP(Plain):
    """Message passing for the signals, F fixed at its mean and variance given F'. The options are those of AMP.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem, sp.MUAMP())
        >>> bool(np.allclose(solution.mean.F, instance.observed.F_prime / np.sqrt(1.01)))  # F stays as F' has it
        True
    """

    def step(self, data: Data, state: State, step_size: Any) -> State:
        return update(self.rules, data, state, step_size, SIGNALS_ONLY)[0]

    def cost(self, data: Data, state: State) -> Any:
        return -free_entropy(self.rules, data, state, SIGNALS_ONLY)
