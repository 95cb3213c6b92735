"""Algorithms: from Y (and F') to F and X with their uncertainties."""

from .api import Solution, solve
from .execution.on_disk import solve_on_disk
from .loop.iterate import STATUSES, Trace
from .solvers.amp import AMP
from .solvers.big_amp import BiGAMP
from .solvers.lasso import Lasso, Oracle
from .solvers.mu_amp import MUAMP
from .solvers.options import Solver
from .solvers.relaxed_bp import RelaxedBP

# The methods by the names that the command line and the specs of sweeps use.
METHODS = {"amp": AMP, "relaxed-bp": RelaxedBP, "mu-amp": MUAMP, "big-amp": BiGAMP, "lasso": Lasso}

__all__ = [
    "AMP",
    "METHODS",
    "STATUSES",
    "BiGAMP",
    "Lasso",
    "MUAMP",
    "Oracle",
    "RelaxedBP",
    "Solution",
    "Solver",
    "Trace",
    "solve",
    "solve_on_disk",
]
