"""Replica and state-evolution predictions: what is possible, hard and easy, before any data are seen."""

from .curve import FixedPointCurve, fixed_point_curve
from .diagram import PHASES, error_curves, phase_diagram
from .outcomes import FixedPoint, Outcome, amp_mse, bayes_mmse, bayes_transition, fixed_points, outcomes, phase, pi_star, spinodal
from .potential import effective_potential, potential, potential_gauss_bernoulli
from .state_evolution import Trajectory, state_evolution

__all__ = [
    "PHASES",
    "FixedPoint",
    "FixedPointCurve",
    "Outcome",
    "Trajectory",
    "amp_mse",
    "bayes_mmse",
    "bayes_transition",
    "effective_potential",
    "error_curves",
    "fixed_point_curve",
    "fixed_points",
    "outcomes",
    "phase",
    "phase_diagram",
    "pi_star",
    "potential",
    "potential_gauss_bernoulli",
    "spinodal",
    "state_evolution",
]
