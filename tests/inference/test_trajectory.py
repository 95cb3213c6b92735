"""Iteration by iteration: undamped message passing against the state evolution, as N grows, at the paper's points and at 100% error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.experiments import FIGURE_4, trajectories

STEPS = 6
# Instances per size: self-averaging makes the larger ones as precise. With fewer than eight the error bars themselves are uncertain.
SIZES = {100: 16, 200: 16, 400: 8}
CONTINUOUS, JUMP = (sp.Problem.sparse(pi=3.0, **parameters) for parameters in FIGURE_4)
UNKNOWN = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=1.0, noise_variance=1e-8)
# No damping, no residual floor, no gauge: what the state evolution describes, but for the times of the corrections.
PRINTED = sp.AMP(damping=0.0, residual_floor=0.0, gauge=False)


class Deviation(NamedTuple):
    """Measured over predicted, less one, iteration by iteration: mean over instances and its standard error."""

    mean: sp.Pair
    error: sp.Pair


def deviations(problem: sp.Problem, sizes: dict[int, int], steps: int) -> dict[int, Deviation]:
    expected = sp.state_evolution(problem, max_iterations=steps, tolerance=0.0).mse
    found = {}
    for n, instances in sizes.items():
        measured = trajectories(problem, n, seed=1, instances=instances, steps=steps)
        off = sp.Pair(*(m / np.asarray(e)[1:] - 1 for m, e in zip(measured, expected, strict=True)))
        found[n] = Deviation(
            sp.Pair(*(np.mean(o, axis=0) for o in off)), sp.Pair(*(np.std(o, axis=0, ddof=1) / np.sqrt(instances) for o in off))
        )
    return found


@pytest.fixture(scope="module", params=[CONTINUOUS, JUMP], ids=["eta=1e-4", "eta=1e-2"])
def calibration(request: pytest.FixtureRequest) -> tuple[sp.Problem, dict[int, Deviation]]:
    return request.param, deviations(request.param, SIZES, STEPS)


@pytest.fixture(scope="module")
def unknown() -> dict[int, Deviation]:
    return deviations(UNKNOWN, {200: 16, 400: 8}, 2)


def test_small_instances_follow_the_prediction_more_closely_as_they_grow() -> None:
    """A few iterations of small instances: F as predicted to within the change on doubling the size, X falling towards it."""
    found = deviations(CONTINUOUS, {40: 12, 80: 12}, 3)
    assert np.all(found[40].mean.X > found[80].mean.X)
    rest, error = limit(found[40], found[80], "X")
    assert np.all(np.abs(rest) < 3 * error)
    change = np.abs(found[80].mean.F - found[40].mean.F)
    assert np.all(np.abs(found[80].mean.F) < change + 3 * found[80].error.F)


def limit(small: Deviation, large: Deviation, factor: str) -> tuple[np.ndarray, np.ndarray]:
    """The deviation without its part of order 1/N, from two sizes of ratio two; and its standard error."""
    means, errors = ([getattr(getattr(d, what), factor) for d in (small, large)] for what in ("mean", "error"))
    return 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])


@pytest.mark.claims
def test_the_signals_deviation_falls_as_one_over_size(calibration: tuple[sp.Problem, dict[int, Deviation]]) -> None:
    """Signals differ in their number of nonzeros, which costs a correction of order 1/N to the mean error on X. It is the whole deviation
    in every iteration, though E falls by a factor of five and more."""
    problem, found = calibration
    assert np.all(found[100].mean.X > found[200].mean.X)
    assert np.all(found[200].mean.X > found[400].mean.X)
    rest, error = limit(found[200], found[400], "X")
    assert np.all(np.abs(rest) < 3 * error)
    # The error bars are small beside what they bar: in no iteration is the corrected error known to worse than a tenth.
    assert np.all(error < 0.1)
    assert np.all(error[:4] < 0.05)
    E = sp.state_evolution(problem, max_iterations=STEPS, tolerance=0.0).mse.X
    assert E[1] > 5 * E[STEPS]


@pytest.mark.claims
def test_the_matrix_follows_at_small_eta(calibration: tuple[sp.Problem, dict[int, Deviation]]) -> None:
    """What remains at N = 400 is within the error bars and the change on doubling the size, plus what the prediction itself misses: terms
    of second order in the variance of F, see below."""
    problem, found = calibration
    missed = {1e-4: 0.0, 1e-2: 0.04}[float(problem.eta)]
    change = np.abs(found[400].mean.F - found[200].mean.F)
    assert np.all(np.abs(found[400].mean.F) < missed + change + 3 * found[400].error.F)


@pytest.mark.claims
def test_at_larger_eta_belief_propagation_itself_leaves_the_prediction(unknown: dict[int, Deviation]) -> None:
    """The first iteration, and X in the second, are as predicted. Then F is not, at any size: the sums over signals of products of two
    atoms' X are taken for sums of independent terms, and they are correlated through the common F. See docs/evidence/message-passing.md."""
    assert abs(unknown[400].mean.F[0]) < 3 * unknown[400].error.F[0]
    rest, error = limit(unknown[200], unknown[400], "X")
    assert np.all(np.abs(rest) < 3 * error)
    rest, error = limit(unknown[200], unknown[400], "F")
    assert error[1] < 0.03
    assert 0.5 < rest[1] < 0.65


@pytest.mark.claims
def test_corrections_at_both_times_are_closer_than_printed_ones() -> None:
    """In the second iteration the echo of X(0) = 0 is nothing; as printed, the echo of X(1) is taken off in its place."""
    both, printed = (trajectories(JUMP, 200, seed=1, instances=8, steps=2, solver=solver).F[:, 1] for solver in (None, PRINTED))
    predicted = sp.state_evolution(JUMP, max_iterations=2, tolerance=0.0).mse.F[2]
    gain = (printed - both) / predicted
    assert np.mean(gain) > 5 * np.std(gain, ddof=1) / np.sqrt(gain.size)
    assert 0.005 < np.mean(gain) < 0.02
