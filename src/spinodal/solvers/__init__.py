"""Algorithms: from Y (and F') to F and X with their uncertainties."""

from .amp import AMP
from .big_amp import BiGAMP
from .iterate import STATUSES, Trace
from .lasso import Lasso, Oracle
from .mu_amp import MUAMP
from .relaxed_bp import RelaxedBP
from .solve import Solution, solve

__all__ = ["AMP", "STATUSES", "BiGAMP", "Lasso", "MUAMP", "Oracle", "RelaxedBP", "Solution", "Trace", "solve"]
