"""Algorithms: from Y (and F') to F and X with their uncertainties."""

from .api import solve
from .execution.on_disk import solve_on_disk
from .search.search import Search
from .solution import Names, Solution, Status, Trace
from .solvers.amp import AMP
from .solvers.base import Estimate, Measured, Solver
from .solvers.big_amp import BiGAMP
from .solvers.lasso import Lasso, Oracle
from .solvers.mu_amp import MUAMP
from .solvers.relaxed_bp import RelaxedBP

# The methods by the names that the command line and the specs of sweeps use.
METHODS = {"amp": AMP, "relaxed-bp": RelaxedBP, "mu-amp": MUAMP, "big-amp": BiGAMP, "lasso": Lasso}

__all__ = [
    "AMP",
    "METHODS",
    "BiGAMP",
    "Estimate",
    "Lasso",
    "MUAMP",
    "Measured",
    "Names",
    "Oracle",
    "RelaxedBP",
    "Search",
    "Solution",
    "Solver",
    "Status",
    "Trace",
    "solve",
    "solve_on_disk",
]
