"""The spinodal is where the state evolution's behaviour changes: two independent routes over a random sample of parameters."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import spinodal as sp

SAMPLE = 15
# The first of them, which have every exact case among them, run always; the others beside them in CI.
QUICK = 5
# Near a fold the state evolution slows down like the inverse square root of the distance; this is ample at one percent.
MANY = 30_000


@cache
def random_problems(count: int = QUICK) -> list[tuple[sp.Problem, float]]:
    """Problems with a finite spinodal, drawn over alpha, rho, eta (inf included) and Delta (0 included), and their spinodals."""
    rng = np.random.default_rng(7)
    chosen: list[tuple[sp.Problem, float]] = []
    while len(chosen) < count:
        alpha = rng.uniform(0.25, 0.95)
        rho = alpha * rng.uniform(0.15, 0.75)
        eta = np.inf if rng.random() < 0.25 else 10 ** rng.uniform(-2.5, 1.5)
        noise = 0.0 if rng.random() < 0.4 else 10 ** rng.uniform(-9, -5)
        problem = sp.Problem.sparse(alpha=alpha, pi=1.0, rho=rho, eta=eta, noise_variance=noise)
        value = sp.spinodal(problem)
        if value is not None and np.isfinite(value):
            chosen.append((problem, value))
    return chosen


def test_the_sample_covers_the_exact_cases() -> None:
    problems = [problem for problem, _ in random_problems()]
    assert any(np.isinf(problem.eta) for problem in problems)
    assert any(problem.noise_variance == 0 for problem in problems)
    assert any(np.isfinite(problem.eta) and problem.noise_variance > 0 for problem in problems)


@pytest.mark.parametrize("k", [pytest.param(k, marks=() if k < QUICK else pytest.mark.claims) for k in range(SAMPLE)])
def test_just_above_it_converges_to_the_good_point_and_just_below_not(k: int) -> None:
    problem, value = random_problems(QUICK if k < QUICK else SAMPLE)[k]
    above, below = problem.replace(pi=1.01 * value), problem.replace(pi=0.99 * value)
    ends = {}
    for name, each in (("above", above), ("below", below)):
        for start in ("uninformed", "informed"):
            trajectory = sp.state_evolution(each, start, max_iterations=MANY)
            assert trajectory.converged
            ends[name, start] = trajectory.mse.X[-1]
    scale = float(problem.prior.X.rho)
    if problem.noise_variance == 0:
        assert ends["above", "uninformed"] < 1e-12 * scale
        assert ends["below", "uninformed"] > 1e-8 * scale
    else:
        # The good point is where an informed start ends. Iterations stop at a relative step of 1e-10, a little short of the end.
        assert ends["above", "uninformed"] == pytest.approx(ends["above", "informed"], rel=1e-5)
        # One percent of pi moves an error by about as much; a jump is more. (Below, an informed start may fall too, in a narrow loop.)
        assert ends["below", "uninformed"] > 1.2 * ends["above", "uninformed"]
    assert ends["below", "uninformed"] == pytest.approx(sp.amp_mse(below).mse.X, rel=1e-5)


@pytest.mark.parametrize(("rho", "eta"), [(0.2, np.inf), *(pytest.param(*at, marks=pytest.mark.claims) for at in ((0.1, 1.0), (0.3, 0.1)))])
def test_it_is_the_top_of_the_curve_without_noise(rho: float, eta: float) -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=rho, eta=eta)
    curve = sp.fixed_point_curve(problem, np.geomspace(1e-6, 1e14, 4001))
    value = sp.spinodal(problem)
    assert curve.pi.max() <= value * (1 + 1e-12)
    # A parabola near its top: a grid of 200 points per decade misses it by about the square of its step.
    assert curve.pi.max() == pytest.approx(value, rel=1e-4)
    # From the top the curve comes down to pi*, like 1/sqrt(A) up to logarithms: two decades of A are about one of the rest.
    left = curve.pi[[-401, -1]] - sp.pi_star(problem)
    assert 0 < left[1] < 1e-4
    assert 1 / 11 < left[1] / left[0] < 1 / 6


def test_slopes_of_the_curve_are_stabilities_of_the_state_evolution() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
    for point in sp.fixed_points(problem):
        for nudge in (0.99, 1.01):
            start = sp.Pair(F=min(point.mse.F * nudge, 1.0), X=min(point.mse.X * nudge, 0.2))
            end = sp.state_evolution(problem, start).mse.X[-1]
            assert (abs(end / point.mse.X - 1) < 1e-6) == point.stable


def test_without_side_information_the_curve_starts_at_one_over_alpha() -> None:
    """And with noise at (Delta + rho)^2/(alpha rho^2): the point where nothing is learned is unstable beyond."""
    for noise in (0.0, 0.05):
        problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, noise_variance=noise)
        start = (noise + 0.2) ** 2 / (0.5 * 0.2**2)
        assert sp.fixed_point_curve(problem, [1e-7]).pi[0] == pytest.approx(start, rel=1e-5)
        assert sp.amp_mse(problem.replace(pi=0.99 * start)).snr_X == 0.0
        assert sp.amp_mse(problem.replace(pi=1.01 * start)).snr_X > 0.0


def test_no_transition_and_no_pi_is_enough() -> None:
    assert sp.spinodal(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=1.0, noise_variance=0.1)) is None
    assert sp.spinodal(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.55, eta=1.0)) == np.inf
    assert sp.spinodal(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.45, eta=np.inf)) == np.inf
