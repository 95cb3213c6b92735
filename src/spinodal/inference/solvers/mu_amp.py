"""Message passing for X alone, with the matrix known in mean and variance only (matrix uncertainty).

F stays at what its prior and F' say. With eta = 0 this is AMP for compressed sensing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..messages.update import Rules
from .amp import AMP


@dataclass(frozen=True)
class MUAMP(AMP):
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

    gauge: bool = False

    @property
    def rules(self) -> Rules:
        return super().rules._replace(learns_F=False)
