"""The preview: numbers behind the figures, fast enough for a slider: the theory's own functions, on priors whose averages are tabulated."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..model.channels import ChannelTable
from ..model.knowledge import Classes
from ..model.model import Problem
from ..model.priors import Gaussian, Prior
from ..pair import Pair
from ..theory import Outcome, Trajectory, effective_potential, fixed_point_curve, outcomes, pi_star, state_evolution
from ..theory.curve import FixedPointCurve
from ..theory.setup import Batch
from .channel_tables import Previewed
from .preview_figures import Transitions, transitions
from .state import PRIORS_F, PRIORS_X, VALUES, State
from .tables import Tabulated, tabulate

# Densities (or, for a prior without one, ratios alpha) at which the diagram is computed.
_ACROSS_RHO = VALUES["rho"][1::3]
_ACROSS_ALPHA = tuple(float(value) for value in np.linspace(0.05, 2.0, 40))
# Iterations of state evolution that are shown.
MOST_STEPS = 300
# Points of the potential, and its smallest error, in units of the variance of X.
_POINTS, _SMALLEST = 160, 1e-10
# How far below the smallest fixed point the potential is drawn.
_BELOW = 30.0


@lru_cache(maxsize=1024)
def preview_prior(side: str, name: str, rho: float) -> Prior:
    """The named prior of F or X with its averages tabulated; a Gaussian's are in closed form already."""
    kind = {"x": PRIORS_X, "f": PRIORS_F}[side][name]
    prior = kind.make(rho)
    if isinstance(prior, Gaussian):
        return prior
    densities = VALUES["rho"] if kind.has_density else VALUES["rho"][:1]
    tabulate(f"{side} {name}", kind.make, densities)
    return Tabulated(f"{side} {name}", VALUES["rho"].index(rho) if kind.has_density else 0, prior)


def preview_problem(state: State) -> Problem:
    """The problem on screen with tabulated priors, and a tabulated channel where its averages have no closed form."""
    rho = state.rho if state.has_density else VALUES["rho"][0]
    prior = Pair(F=preview_prior("f", state.f, VALUES["rho"][0]), X=preview_prior("x", state.x, rho))
    channel = state.channel_object() if state.is_gaussian else Previewed(state.channel_words())
    return state.problem().replace(prior=prior, channel=channel)


class Diagram(NamedTuple):
    """Transitions in pi against `axis`, "rho" or, for priors without a density, "alpha"."""

    axis: str
    across: np.ndarray
    pi_star: np.ndarray
    transitions: Transitions


def around(state: State) -> State:
    """What the phase diagram depends on: a state without its place in the diagram."""
    place = {"pi": 1.0, "n": State().n, "seed": State().seed, "rho" if state.has_density else "alpha": 0.5}
    return state._replace(**place)  # type: ignore[arg-type]


def diagram(state: State) -> Diagram:
    """The phase diagram around a state."""
    return _diagram(around(state))


@lru_cache(maxsize=64)
def _diagram(state: State) -> Diagram:
    axis, across = ("rho", _ACROSS_RHO) if state.has_density else ("alpha", _ACROSS_ALPHA)
    base, bounds = _batch(axis, state.x, state.f)
    shape = (len(across),)
    alpha = np.full(shape, state.alpha) if axis == "rho" else np.array(across)
    channel, table = _measured(state, base)
    classes = Classes(np.full((*shape, 1), 1 / state.eta), np.ones((*shape, 1)))
    batch = Batch([], stacked=base.setup._replace(alpha=alpha, channel=channel, table=table, classes=classes))
    bound = np.array([pi_star(problem.replace(alpha=float(a))) for problem, a in zip(bounds, alpha, strict=True)])
    return Diagram(axis, np.array(across), bound, transitions(batch, bound))


def _measured(state: State, base: Batch) -> tuple[Any, Any]:
    """The channel of each problem and its table."""
    powers = np.asarray(base.setup.power.F) * np.asarray(base.setup.power.X)
    if state.is_gaussian:
        return base.setup.channel.replace(variance=np.full(powers.shape, state.delta)), None
    channel = Previewed(state.channel_words())
    tables = [channel.table(float(power)) for power in powers]
    return channel.replace(row=np.full(powers.shape, channel.row)), ChannelTable(*map(np.stack, zip(*tables, strict=True)))


@lru_cache(maxsize=64)
def _batch(axis: str, x: str, f: str) -> tuple[Batch, list[Problem]]:
    """Problems along the axis, side by side, of which only numbers are changed from then on."""
    across = _ACROSS_RHO if axis == "rho" else _ACROSS_ALPHA
    state = State(x=x, f=f)
    problems = [preview_problem(state._replace(rho=value) if axis == "rho" else state._replace(alpha=value)) for value in across]
    return Batch(problems), problems


class Point(NamedTuple):
    """One problem: its fixed points, the potential along E, and the state evolution with the potential at its errors."""

    curve: FixedPointCurve
    outcome: Outcome
    trajectory: Trajectory
    E: np.ndarray
    potential: np.ndarray
    climbed: np.ndarray


@lru_cache(maxsize=64)
def point(state: State) -> Point:
    """What the theory says about the problem on screen."""
    problem = preview_problem(state)
    curve = _curve(state._replace(pi=1.0))
    outcome = outcomes([problem])[0]
    trajectory = state_evolution(problem, max_iterations=MOST_STEPS)
    power = float(problem.prior.X.moments().variance)
    reached = [p.mse.X for p in (outcome.bayes, outcome.amp) if p.mse.X > 0]
    lowest = max(min(reached, default=0.0) / _BELOW, _SMALLEST * power)
    E = np.geomspace(lowest, power * (1 - 1e-9), _POINTS)
    steps = np.clip(trajectory.mse.X, lowest, E[-1])
    phi, _ = effective_potential(problem, np.concatenate([E, steps]))
    return Point(curve, outcome, trajectory, E, phi[:_POINTS], phi[_POINTS:])


@lru_cache(maxsize=16)
def _curve(state: State) -> FixedPointCurve:
    return fixed_point_curve(preview_problem(state))


def warm_up() -> None:
    """Make the tables and compile everything that the first page needs, then load what files are written with: both take seconds."""
    for state in (State(), State(delta=0.0), State(eta=np.inf)):
        diagram(state)
        point(state)
    from .data import TYPES, data_file

    for kind in TYPES:
        data_file("atoms", kind, State())
