"""Every prior, on either side, is recovered at the error state evolution predicts for it (one easy point each, F' given)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.scoring import signal_errors

SPARSE = sp.GaussBernoulli(0.1)


class Point(NamedTuple):
    F: sp.Prior
    X: sp.Prior
    alpha: float
    pi: float
    noise: float


POINTS = {
    "X gauss-bernoulli": Point(sp.Gaussian(), SPARSE, 0.5, 5, 1e-4),
    "X gauss-bernoulli, mean 0.7": Point(sp.Gaussian(), sp.GaussBernoulli(0.15, 0.7), 0.5, 5, 1e-4),
    "X gauss-bernoulli, mean 3": Point(sp.Gaussian(), sp.GaussBernoulli(0.1, 3.0, 0.5), 0.5, 5, 1e-4),
    "X nonnegative": Point(sp.Gaussian(), sp.NonnegativeGaussBernoulli(0.15), 0.5, 5, 1e-4),
    "X rademacher": Point(sp.Gaussian(), sp.Rademacher(), 1.0, 5, 0.05),
    "X zero or one": Point(sp.Gaussian(), sp.Mixture([0.8, 0.2], [0, 1], [0, 0]), 0.6, 5, 0.01),
    "X rademacher, much noise": Point(sp.Gaussian(), sp.Rademacher(), 2.0, 5, 1.0),
    "X zero or one, much noise": Point(sp.Gaussian(), sp.Mixture([0.8, 0.2], [0, 1], [0, 0]), 2.0, 8, 0.3),
    "X three values, much noise": Point(sp.Gaussian(), sp.Mixture([0.1, 0.8, 0.1], [-1, 0, 1], [0, 0, 0]), 2.0, 8, 0.3),
    "X laplace, much noise": Point(sp.Gaussian(), sp.Laplace(0.5**0.5), 2.0, 8, 1.0),
    "X mixture": Point(sp.Gaussian(), sp.Mixture([0.8, 0.1, 0.1], [0, 1, -2], [0, 0.5, 0.1]), 0.6, 6, 1e-4),
    "X gaussian, much noise": Point(sp.Gaussian(), sp.Gaussian(), 2.0, 5, 1.0),
    "F sparse": Point(sp.GaussBernoulli(0.2, 0.0, 5.0), sp.GaussBernoulli(0.2), 1.0, 5, 1e-4),
    "F nonnegative": Point(sp.NonnegativeGaussBernoulli(0.3, 1 / 0.3), SPARSE, 0.5, 5, 1e-4),
    "F rademacher": Point(sp.Rademacher(), SPARSE, 0.5, 5, 1e-2),
    "F laplace": Point(sp.Laplace(0.5**0.5), SPARSE, 0.5, 5, 1e-4),
    "F mixture": Point(sp.Mixture([0.5, 0.5], [-1, 1], [0.1, 0.1]), SPARSE, 0.5, 5, 1e-4),
    "both nonnegative": Point(sp.NonnegativeGaussBernoulli(0.5, 2.0), sp.NonnegativeGaussBernoulli(0.2), 0.8, 6, 1e-4),
}


def problem(name: str, eta: float = 0.1) -> sp.Problem:
    point = POINTS[name]
    return sp.Problem(alpha=point.alpha, pi=point.pi, prior=sp.Pair(point.F, point.X), channel=sp.GaussianNoise(point.noise)).replace(
        eta=eta
    )


def ratios(name: str, n: int, instances: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors over predictions: of F with scales fitted, and of the median signal, an entry for each instance."""
    here = problem(name)
    expected = sp.amp_mse(here).mse
    found_F, found_X = [], []
    for k in range(instances):
        drawn = sp.sample(here, n, seed=k)
        solution = sp.solve(drawn.observed, here, max_iterations=600)
        assert solution.status == "converged"
        found_F.append(sp.score(solution.mean, drawn.truth).mse_scaled.F / expected.F)
        found_X.append(np.median(signal_errors(solution.mean, drawn.truth)) / expected.X)
    return np.array(found_F), np.array(found_X)


# The quickest is in every run.
QUICK = "X gauss-bernoulli, mean 0.7"
# Second points of a prior that has one on the same side already.
MORE = ("X gauss-bernoulli, mean 3", "X rademacher", "X zero or one", "X three values, much noise")
# Errors of a discrete prior are all or nothing: most entries are exact, so they are bounded from above.
DISCRETE = {"F rademacher"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow if name in MORE else pytest.mark.claims) for name in POINTS],
)
def test_recovered_at_the_predicted_error(name: str) -> None:
    """One instance: twice the margin of the mean of four below."""
    F, X = ratios(name, 100, 1)
    assert (0 if name in DISCRETE else 0.8) < np.mean(F) < 1.4
    assert np.mean(X) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS)
def test_recovered_at_the_predicted_error_on_average(name: str) -> None:
    F, X = ratios(name, 100, 4)
    assert (0 if name in DISCRETE else 0.9) < np.mean(F) < 1.2
    assert np.mean(X) < 1.5


@pytest.mark.claims
def test_what_the_offsets_are_there_for() -> None:
    """With means left in it fails. Taken off, the sums go back into F and X: the residual of the estimates is the noise."""
    here = problem("both nonnegative")
    drawn = sp.sample(here, 50, seed=0)
    assert sp.solve(drawn.observed, here, max_iterations=600).residual < 1.2 * POINTS["both nonnegative"].noise
    left_in = sp.solve(drawn.observed, here, sp.AMP(remove_means=False), search=sp.Search(repair=False), max_iterations=60)
    assert sp.score(left_in.mean, drawn.truth).mse_scaled.F > 10 * sp.amp_mse(here).mse.F


def test_shifting_a_prior_does_not_change_the_theory() -> None:
    """The mean of X adds a part to Y that is the same for all signals, which tells nothing about single entries."""
    centred, shifted = (
        sp.Problem(
            alpha=1.5, pi=4.0, prior=sp.Pair(sp.Gaussian(m), sp.Gaussian(m, 0.5)), channel=sp.GaussianNoise(0.3), knowledge=sp.Hint(0.2)
        )
        for m in (0, 2.0)
    )
    for left, right in zip(sp.amp_mse(centred).mse, sp.amp_mse(shifted).mse, strict=True):
        assert left == pytest.approx(right, rel=1e-9)
    end = sp.state_evolution(shifted, tolerance=1e-12).mse
    assert end.X[-1] == pytest.approx(sp.amp_mse(shifted).mse.X, rel=1e-7)
