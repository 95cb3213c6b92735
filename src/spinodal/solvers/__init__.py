"""Algorithms: from Y (and F') to F and X with their uncertainties."""

from .amp import AMP
from .big_amp import BiGAMP
from .iterate import STATUSES, Trace
from .lasso import Lasso, Oracle
from .mu_amp import MUAMP
from .on_disk import solve_on_disk
from .options import Solver
from .relaxed_bp import RelaxedBP
from .solve import Solution, solve

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
