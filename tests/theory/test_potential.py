"""The replica potential: its stationary points are the fixed points, and its maxima, rightly read, the stable ones."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from zoo import ThreePoint

PAPER = {
    "three fixed points": sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-4),
    "dictionary learning": sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2),
    "one fixed point": sp.Problem.sparse(alpha=0.5, pi=3.5, rho=0.2, eta=1.0, noise_variance=0.01),
    "completion": sp.Problem.sparse(alpha=0.8, pi=2.0, rho=0.2, eta=0.3, noise_variance=0.01, observed_fraction=0.7),
}
OTHERS = {
    "sparse matrix": sp.Problem(
        alpha=0.7,
        pi=1.5,
        prior=sp.Pair(F=sp.GaussBernoulli(0.5), X=sp.GaussBernoulli(0.2)),
        channel=sp.GaussianNoise(1e-3),
        knowledge=sp.Hint(1.0),
    ),
    "signs and the user's points": sp.Problem(
        alpha=0.7,
        pi=1.5,
        prior=sp.Pair(F=sp.Rademacher(), X=ThreePoint(0.3)),
        channel=sp.GaussianNoise(0.05),
        observed_fraction=0.9,
        knowledge=sp.Hint(2.0),
    ),
}


def gradient_and_hessian(problem: sp.Problem, mse: sp.Pair[float], step: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of Phi in (log E, log D) by central differences."""
    k = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]) * step
    phi = sp.potential(problem, sp.Pair(F=mse.F * np.exp(k[:, 1]), X=mse.X * np.exp(k[:, 0]))).reshape(3, 3)
    gradient = np.array([phi[2, 1] - phi[0, 1], phi[1, 2] - phi[1, 0]]) / (2 * step)
    mixed = (phi[2, 2] - phi[2, 0] - phi[0, 2] + phi[0, 0]) / 4
    hessian = np.array([[phi[2, 1] - 2 * phi[1, 1] + phi[0, 1], mixed], [mixed, phi[1, 2] - 2 * phi[1, 1] + phi[1, 0]]]) / step**2
    return gradient, hessian


@pytest.mark.parametrize("kind", [*PAPER, "sparse matrix", pytest.param("signs and the user's points", marks=pytest.mark.claims)])
def test_fixed_points_are_stationary_and_saddles(kind: str) -> None:
    problem = (PAPER | OTHERS)[kind]
    points = sp.fixed_points(problem)
    assert points
    for point in points:
        gradient, hessian = gradient_and_hessian(problem, point.mse)
        nearby, _ = gradient_and_hessian(problem, sp.Pair(F=point.mse.F, X=point.mse.X * 1.1))
        # Central differences leave step^2 times a third derivative; ten percent away the gradient is a hundred times that.
        assert np.abs(gradient).max() < 1e-2 * np.abs(nearby).max()
        assert point.free_entropy == pytest.approx(float(sp.potential(problem, point.mse)), rel=1e-10)
        if point.stable:
            # Not a maximum of Phi(E, D), as a literal reading of Eq. (5) would have it.
            low, high = np.linalg.eigvalsh(hessian)
            assert low < 0 < high


def test_saddle_of_a_worked_example() -> None:
    """alpha .5, rho .2, pi 3, eta 1, Delta 0: curvatures of both signs in (E, D) themselves."""
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0)
    point = sp.amp_mse(problem)
    _, hessian = gradient_and_hessian(problem, point.mse)
    scale = np.array([point.mse.X, point.mse.F])
    low, high = np.linalg.eigvalsh(hessian / np.outer(scale, scale))
    assert low == pytest.approx(-1.6, abs=0.05)
    assert high == pytest.approx(2.7, abs=0.05)


MARKS = {"sparse matrix": pytest.mark.claims, "signs and the user's points": pytest.mark.slow}


@pytest.mark.parametrize("kind", [*PAPER, *(pytest.param(kind, marks=MARKS[kind]) for kind in OTHERS)])
def test_maxima_of_the_effective_potential_are_the_stable_fixed_points(kind: str) -> None:
    problem = (PAPER | OTHERS)[kind]
    points = sp.fixed_points(problem)
    power = float(problem.prior.X.second_moment())
    E = np.geomspace(min(point.mse.X for point in points) / 50, power * (1 - 1e-6), 1501)
    phi, D = sp.effective_potential(problem, E)
    inner = slice(1, -1)
    peaks = E[inner][(phi[inner] > phi[:-2]) & (phi[inner] > phi[2:])]
    valleys = E[inner][(phi[inner] < phi[:-2]) & (phi[inner] < phi[2:])]
    step = np.log(E[1] / E[0])
    for found, wanted in ((peaks, True), (valleys, False)):
        expected = sorted(point.mse.X for point in points if point.stable == wanted)
        np.testing.assert_allclose(np.log(sorted(found)), np.log(expected), atol=2 * step)
    for point in points:
        value, error = sp.effective_potential(problem, point.mse.X)
        assert float(value) == pytest.approx(point.free_entropy, rel=1e-9)
        assert float(error) == pytest.approx(point.mse.F, rel=1e-6)
    assert np.all(D > 0)


def test_effective_error_is_self_consistent() -> None:
    """D*(E) = mmse_F(1/eta + m_F(E, D*)), for a Gaussian matrix (a quadratic) and for signs (a root)."""
    for prior_F in (sp.Gaussian(0.0, 1.5), sp.Rademacher()):
        problem = sp.Problem(
            alpha=0.7, pi=1.5, prior=sp.Pair(F=prior_F, X=sp.GaussBernoulli(0.3)), channel=sp.GaussianNoise(0.01), knowledge=sp.Hint(0.8)
        )
        power_F = float(prior_F.second_moment())
        E = np.array([1e-4, 0.01, 0.1, 0.29])
        _, D = sp.effective_potential(problem, E)
        V = 0.01 + power_F * E + 0.3 * D - E * D
        np.testing.assert_allclose(prior_F.mmse(1 / 0.8 + 1.5 * (0.3 - E) / V), D, rtol=1e-9)


@pytest.mark.parametrize("eta", [0.02, 1.0, np.inf])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_printed_closed_form_is_the_general_potential(eta: float, noise: float) -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.2, eta=eta, noise_variance=noise)
    E, D = np.meshgrid(np.geomspace(1e-3, 0.199, 12), np.geomspace(1e-3, 0.999, 12))
    mse = sp.Pair(F=D, X=E)
    np.testing.assert_allclose(sp.potential(problem, mse), sp.potential_gauss_bernoulli(problem, mse), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("other", [OTHERS["sparse matrix"], PAPER["completion"]], ids=["sparse matrix", "completion"])
def test_closed_form_refuses_other_problems(other: sp.Problem) -> None:
    with pytest.raises(sp.InputError, match=r"Eq\. \(7\)"):
        sp.potential_gauss_bernoulli(other, sp.Pair(F=0.1, X=0.01))


def test_errors_beyond_the_prior_are_refused() -> None:
    with pytest.raises(sp.InputError, match=r"mse\.X"):
        sp.potential(PAPER["one fixed point"], sp.Pair(F=0.5, X=0.3))
    with pytest.raises(sp.InputError, match=r"mse\.F"):
        sp.potential(PAPER["one fixed point"], sp.Pair(F=-0.1, X=0.1))
