"""Replica and state-evolution predictions: what can be learned and what it takes, before any data are seen."""

from .curve import FixedPointCurve, fixed_point_curve
from .diagram import PHASES, Region, error_curves, phase_diagram, phase_regions
from .gain import LEAST_GAIN
from .outcomes import FixedPoint, Outcome, amp_mse, bayes_mmse, bayes_transition, fixed_points, outcomes, phase, pi_gain, pi_star, spinodal
from .potential import effective_potential, potential, potential_gauss_bernoulli
from .state_evolution import Trajectory, state_evolution

__all__ = [
    "LEAST_GAIN",
    "PHASES",
    "FixedPoint",
    "FixedPointCurve",
    "Outcome",
    "Region",
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
    "phase_regions",
    "pi_gain",
    "pi_star",
    "potential",
    "potential_gauss_bernoulli",
    "spinodal",
    "state_evolution",
]
