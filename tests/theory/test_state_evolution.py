"""State evolution ends where the curve says, for every kind of prior, noise, calibration error and observed fraction."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from zoo import PRIORS, ThreePoint

# Combinations of kinds are costly to compile, so each of them runs through all the parameters.
PAIRS = {
    "calibration": sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.2)),
    "binary matrix": sp.Pair(F=sp.Rademacher(), X=sp.GaussBernoulli(0.3)),
    "sparse matrix": sp.Pair(F=sp.GaussBernoulli(0.5), X=sp.GaussBernoulli(0.2)),
    "offset factors": sp.Pair(F=sp.Gaussian(0.4, 0.8), X=sp.NonnegativeGaussBernoulli(0.3)),
    "user's signals": sp.Pair(F=sp.Gaussian(), X=ThreePoint(0.3)),
}
CHANNELS = [(0.0, 1.0), (1e-3, 1.0), (1e-3, 0.8)]  # noise, observed fraction
# A known matrix without noise has tests of its own.
PARAMETERS = [(eta, *channel) for eta in (0.0, 1.0, np.inf) for channel in CHANNELS if (eta, channel[0]) != (0, 0)]


# Every kind is compiled anew, most of them for ten seconds: a closed form and an inversion always, the others beside them in CI.
ALWAYS = ("calibration", "sparse matrix")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in ALWAYS else pytest.mark.claims) for kind in PAIRS])
def test_end_is_the_first_stable_fixed_point(kind: str) -> None:
    for eta, noise, observed in PARAMETERS:
        problem = sp.Problem(alpha=0.7, pi=1.5, prior=PAIRS[kind], channel=sp.GaussianNoise(noise), observed_fraction=observed).replace(
            eta=eta
        )
        trajectory = sp.state_evolution(problem, tolerance=1e-13)
        promised = sp.amp_mse(problem)
        assert trajectory.converged, (eta, noise, observed)
        for end, expected, scale in zip((trajectory.mse.F[-1], trajectory.mse.X[-1]), promised.mse, (1.0, 0.3), strict=True):
            # Exact recovery is approached, not reached: errors below 1e-14 stop the iteration.
            assert end == pytest.approx(expected, rel=1e-8, abs=1e-13 * scale), (eta, noise, observed)


def test_compressed_sensing_without_noise_recovers_above_its_own_threshold() -> None:
    for alpha, recovered in ((0.75, True), (0.45, False)):
        problem = sp.Problem.sparse(alpha=alpha, pi=1.0, rho=0.3, eta=0.0)
        end = sp.state_evolution(problem, max_iterations=20_000).mse
        assert np.all(end.F == 0)
        assert (end.X[-1] < 1e-13) == recovered
        assert (sp.amp_mse(problem).mse.X == 0) == recovered


def test_the_whole_trajectory_descends_from_the_prior() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=4.0, rho=0.2, eta=1.0, noise_variance=1e-6)
    trajectory = sp.state_evolution(problem)
    assert trajectory.mse.X[0] == pytest.approx(0.2)
    assert trajectory.mse.F[0] == pytest.approx(0.5)  # eta/(1 + eta)
    assert trajectory.mse.X.size == trajectory.mse.F.size == trajectory.iterations + 1
    assert np.all(np.diff(trajectory.mse.X) <= 0)
    assert np.all(np.diff(trajectory.mse.F) <= 0)


def test_one_step_is_the_printed_equations() -> None:
    """Eqs. (25) and (26) of KMZ13, with the integrals by Monte Carlo and f_c differentiated by hand."""
    rho, alpha, pi, eta, noise, E, D = 0.3, 0.6, 1.4, 0.5, 0.02, 0.11, 0.17
    problem = sp.Problem.sparse(alpha=alpha, pi=pi, rho=rho, eta=eta, noise_variance=noise)
    new = sp.state_evolution(problem, sp.Pair(F=D, X=E), max_iterations=1).mse
    V = noise + E + rho * D - E * D
    m_x, m_F = alpha * (1 - D) / V, pi * (rho - E) / V
    assert new.F[1] == pytest.approx(1 / (m_F + (1 + eta) / eta), rel=1e-12)
    z = np.random.default_rng(0).standard_normal(400_000)

    def variance(b: np.ndarray) -> np.ndarray:
        belief = 1 / (1 + (1 - rho) / rho * np.sqrt(1 + m_x) * np.exp(-(b**2) / (2 * (1 + m_x))))
        mean = b / (1 + m_x)
        return belief * (1 / (1 + m_x) + mean**2) - (belief * mean) ** 2

    values = (1 - rho) * variance(z * np.sqrt(m_x)) + rho * variance(z * np.sqrt(m_x**2 + m_x))
    assert abs(new.X[1] - values.mean()) < 5 * values.std() / np.sqrt(z.size)


def test_running_out_of_iterations_is_reported_not_hidden() -> None:
    trajectory = sp.state_evolution(sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0), max_iterations=3)
    assert not trajectory.converged
    assert trajectory.iterations == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"start": "warm"}, "start"),
        ({"start": sp.Pair(F=2.0, X=0.1)}, "start.F"),
        ({"start": sp.Pair(F=0.5, X=-0.1)}, "start.X"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(sp.InputError, match=word):
        sp.state_evolution(sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2), **arguments)


def test_problems_of_different_kinds_are_not_mixed_in_one_batch() -> None:
    from spinodal.theory import outcomes

    problems = [sp.Problem(alpha=0.5, pi=1.0, prior=sp.Pair(F=sp.Gaussian(), X=PRIORS[kind])) for kind in ("laplace", "rademacher")]
    with pytest.raises(sp.InputError, match="same kinds"):
        outcomes(problems)
