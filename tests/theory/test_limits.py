"""Exact cases are the limits of their neighbours; scalings and the observed fraction act as they must."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from zoo import PRIORS

SPARSE = {"alpha": 0.5, "pi": 3.0, "rho": 0.2}


def assert_same_errors(one: sp.Problem, other: sp.Problem, rel: float) -> None:
    for reached in (sp.amp_mse, sp.bayes_mmse):
        assert reached(one).mse.X == pytest.approx(reached(other).mse.X, rel=rel)
        assert reached(one).mse.F == pytest.approx(reached(other).mse.F, rel=rel, abs=10 * rel * 1e-3)


@pytest.mark.parametrize("alpha", [0.5, 0.3])
def test_known_matrix_is_the_limit_of_small_eta(alpha: float) -> None:
    """eta << Delta: compressed sensing, at every pi. The correction is of order eta."""
    known = sp.Problem.sparse(alpha=alpha, pi=3.0, rho=0.2, eta=0.0, noise_variance=1e-3)
    nearly = known.replace(eta=1e-9)
    assert sp.bayes_mmse(nearly).mse.X == pytest.approx(sp.bayes_mmse(known).mse.X, rel=1e-5)
    assert sp.bayes_mmse(known).mse.F == 0.0
    assert sp.bayes_mmse(nearly).mse.F < 1e-9
    assert sp.phase(nearly) == sp.phase(known)
    assert sp.bayes_mmse(known.replace(pi=0.1)).mse.X == pytest.approx(sp.bayes_mmse(known).mse.X, rel=1e-12)


def test_known_matrix_is_compressed_sensing() -> None:
    """E = mmse_X(alpha/(Delta + E)), solved here by its own iteration."""
    problem = sp.Problem.sparse(alpha=0.6, pi=0.7, rho=0.25, eta=0.0, noise_variance=0.01)
    E, prior = 0.25, sp.GaussBernoulli(0.25)
    for _ in range(300):
        E = float(prior.mmse(0.6 / (0.01 + E)))
    assert sp.amp_mse(problem).mse.X == pytest.approx(E, rel=1e-9)


@pytest.mark.claims
def test_dictionary_learning_is_the_limit_of_large_eta() -> None:
    learning = sp.Problem.sparse(**SPARSE, eta=np.inf, noise_variance=1e-6)
    assert_same_errors(learning.replace(eta=1e6), learning, rel=1e-5)
    for transition in (sp.spinodal, sp.bayes_transition):
        assert transition(learning.replace(eta=1e6)) == pytest.approx(transition(learning), rel=1e-5)


@pytest.mark.parametrize("eta", [pytest.param(0.1, marks=pytest.mark.claims), 1.0, np.inf])
def test_no_noise_is_the_limit_of_little_noise(eta: float) -> None:
    exact = sp.Problem.sparse(**SPARSE, eta=eta)
    nearly = sp.Problem.sparse(**SPARSE, eta=eta, noise_variance=1e-14)
    assert sp.amp_mse(nearly).mse.X == pytest.approx(sp.amp_mse(exact).mse.X, rel=1e-8, abs=1e-12)
    assert sp.spinodal(nearly) == pytest.approx(sp.spinodal(exact), rel=1e-6)
    assert sp.phase(nearly) == sp.phase(exact)
    assert sp.bayes_mmse(exact).mse == (0.0, 0.0)
    assert sp.bayes_mmse(nearly).mse.X < 1e-12


@pytest.mark.claims
@pytest.mark.parametrize("eta", [0.1, 1.0, np.inf])
def test_the_bayes_transition_tends_to_the_counting_bound(eta: float) -> None:
    """Only logarithmically: Phi wins by (alpha - rho - alpha/pi) log(1/Delta)/2."""
    exact = sp.Problem.sparse(**SPARSE, eta=eta)
    gaps = [sp.bayes_transition(exact.replace(channel=sp.GaussianNoise(noise))) - sp.pi_star(exact) for noise in (1e-8, 1e-11, 1e-14)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.7 * gaps[0]


def test_counting_bound() -> None:
    assert sp.pi_star(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2)) == pytest.approx(0.5 / 0.3)
    assert sp.pi_star(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.5)) == np.inf
    assert sp.pi_star(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=0.0)) == 0.0


@pytest.mark.parametrize(
    ("F", "X", "observed", "expected"),
    [
        # M P eps equations against M N d_F + N P d_X unknowns.
        ("gaussian", "gauss-bernoulli", 0.8, 0.9 / (0.8 * 0.9 - 0.2)),
        ("gauss-bernoulli", "gauss-bernoulli", 1.0, 0.9 * 0.2 / (0.9 - 0.2)),
        ("gaussian", "rademacher", 1.0, 0.9 / 0.9),
        ("gaussian", "user's three points", 0.5, 0.9 / 0.45),
        ("rademacher", "gauss-bernoulli", 1.0, 0.0),
        ("mixture", "nonnegative", 1.0, 0.9 * 0.5 / (0.9 - 0.3)),
        ("gaussian", "laplace", 1.0, np.inf),
    ],
)
def test_counting_bound_counts_continuous_unknowns(F: str, X: str, observed: float, expected: float) -> None:
    prior = sp.Pair(F=PRIORS[F], X=PRIORS[X])
    problem = sp.Problem(alpha=0.9, pi=1.0, prior=prior, channel=sp.GaussianNoise(0.0), observed_fraction=observed)
    assert sp.pi_star(problem) == pytest.approx(expected, rel=1e-9)


def test_general_counting_bound_is_the_end_of_the_curve() -> None:
    """Without noise pi(A) tends to it, also with a sparse matrix, whose mmse has to be inverted."""
    prior = sp.Pair(F=sp.GaussBernoulli(0.5), X=sp.GaussBernoulli(0.2))
    problem = sp.Problem(alpha=0.7, pi=1.0, prior=prior, channel=sp.GaussianNoise(0.0), observed_fraction=0.9, knowledge=sp.Hint(1.0))
    left = sp.fixed_point_curve(problem, [1e10, 1e12, 1e14]).pi - sp.pi_star(problem)
    assert np.all(np.diff(np.abs(left)) < 0)
    assert abs(left[-1]) < 1e-4


@pytest.mark.claims
def test_unit_of_X_is_arbitrary() -> None:
    """Slab variance and noise times c^2: the same problem, with mse_X times c^2."""
    c2 = 7.3
    unit = sp.Problem.sparse(**SPARSE, eta=1.0, noise_variance=1e-5)
    scaled = unit.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.2, 0.0, c2)), channel=sp.GaussianNoise(c2 * 1e-5))
    assert sp.spinodal(scaled) == pytest.approx(sp.spinodal(unit), rel=1e-9)
    assert sp.bayes_transition(scaled) == pytest.approx(sp.bayes_transition(unit), rel=1e-8)
    for one, other in zip(sp.fixed_points(scaled), sp.fixed_points(unit), strict=True):
        assert one.mse.X == pytest.approx(c2 * other.mse.X, rel=1e-8)
        assert one.mse.F == pytest.approx(other.mse.F, rel=1e-8)
        # Phi = log Z/(N P) shifts by the change of unit of Y alone.
        assert one.free_entropy == pytest.approx(other.free_entropy - 0.5 * np.log(c2) / 2, rel=1e-8)


def test_unit_of_F_is_arbitrary_without_side_information() -> None:
    c2 = 0.31
    unit = sp.Problem.sparse(**SPARSE, eta=np.inf, noise_variance=1e-5)
    scaled = unit.replace(prior=sp.Pair(F=sp.Gaussian(0.0, c2), X=sp.GaussBernoulli(0.2)), channel=sp.GaussianNoise(c2 * 1e-5))
    assert sp.spinodal(scaled) == pytest.approx(sp.spinodal(unit), rel=1e-9)
    for one, other in zip(sp.fixed_points(scaled), sp.fixed_points(unit), strict=True):
        assert one.mse.X == pytest.approx(other.mse.X, rel=1e-8)
        assert one.mse.F == pytest.approx(c2 * other.mse.F, rel=1e-8)


@pytest.mark.parametrize("eta", [0.2, np.inf])
def test_observing_a_fraction_is_having_fewer_measurements_and_signals(eta: float) -> None:
    """Both signal-to-noise ratios are multiplied by the fraction: alpha -> eps alpha and pi -> eps pi."""
    eps = 0.8
    partly = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.1, eta=eta, noise_variance=1e-6, observed_fraction=eps)
    fewer = sp.Problem.sparse(alpha=eps * 0.5, pi=eps * 3.0, rho=0.1, eta=eta, noise_variance=1e-6)
    pairs = list(zip(sp.fixed_points(partly), sp.fixed_points(fewer), strict=True))
    assert pairs
    for one, other in pairs:
        np.testing.assert_allclose((one.snr_X, *one.mse), (other.snr_X, *other.mse), rtol=1e-9)
    assert eps * sp.spinodal(partly) == pytest.approx(sp.spinodal(fewer), rel=1e-9)


@pytest.mark.claims
def test_an_equivalent_matrix_prior_through_the_inversion() -> None:
    """A Gaussian F written as a mixture goes through the numerical inverse of its mmse and must agree with the closed form."""
    direct = sp.Problem.sparse(**SPARSE, eta=1.0, noise_variance=1e-5)
    inverted = direct.replace(prior=direct.prior._replace(F=sp.Mixture([0.5, 0.5], [0.0, 0.0], [1.0, 1.0])))
    assert sp.spinodal(inverted) == pytest.approx(sp.spinodal(direct), rel=1e-8)
    for one, other in zip(sp.fixed_points(inverted), sp.fixed_points(direct), strict=True):
        np.testing.assert_allclose((one.snr_X, *one.mse, one.free_entropy), (other.snr_X, *other.mse, other.free_entropy), rtol=1e-8)


@pytest.mark.claims
def test_one_bit_with_f_known_is_the_bayes_optimal_perceptron() -> None:
    """Opper and Haussler (Phys. Rev. Lett. 66, 2677, 1991): an error of .442/alpha, which is Gyorgyi and Tishby's .625/alpha of Gibbs
    learning over sqrt(2). Xu, Kabashima and Zdeborova (J. Stat. Mech. P11015, 2014): sparse signals reach what is possible with known
    positions, that is, alpha/rho in the place of alpha."""

    def angle(alpha: float, prior: sp.Prior) -> float:
        problem = sp.Problem(alpha=alpha, pi=1.0, prior=sp.Pair(sp.Gaussian(), prior), channel=sp.OneBit(), knowledge=sp.Known())
        power = float(prior.moments().variance)
        return float(np.arccos(np.sqrt(1 - sp.amp_mse(problem).mse.X / power)) / np.pi)

    dense = [alpha * angle(alpha, sp.Gaussian()) for alpha in (1e3, 1e4)]
    assert dense[1] == pytest.approx(0.442, abs=5e-4)
    assert abs(dense[1] - 0.442) < abs(dense[0] - 0.442) + 1e-4
    sparse = 1e4 * 32 * angle(1e4, sp.GaussBernoulli(1 / 32))
    assert sparse == pytest.approx(0.442, abs=2e-3)


@pytest.mark.claims
@pytest.mark.parametrize(("rho", "alpha"), [(0.125, 0.5), (0.125, 1.0), (0.125, 4.0), (0.03125, 0.5), (0.03125, 2.0)])
def test_one_bit_compressed_sensing_is_that_of_xu_kabashima_and_zdeborova(rho: float, alpha: float) -> None:
    """The saddle point of J. Stat. Mech. P11015 (2014), arXiv:1406.3782, in q and its conjugate, integrated here by SciPy.

    The equations are quoted; A. Sakata's public program onebitCS_BayesOptimal.m solves the same ones for rho = .125.
    """
    from scipy.integrate import quad
    from scipy.special import erfcx

    def density(x: float) -> float:
        return float(np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))

    q, last = rho / 2, 0.0
    while abs(q - last) > 1e-13:
        last, k = q, np.sqrt(q / (2 * rho))
        told = quad(lambda x, k=k: density(x) / erfcx(k * x), -12, 12, points=[0.0])[0]
        conjugate = 2 * alpha / (np.pi * np.sqrt(rho * (rho - q))) * told

        def kept(z: float, conjugate: float = conjugate) -> float:
            return density(z) * z**2 / (rho + (1 - rho) * np.sqrt(1 + conjugate) * np.exp(-conjugate * z**2 / 2))

        q = 2 * rho**2 * conjugate / (1 + conjugate) * quad(kept, 0, 12, points=[0.1, 0.5, 1.0])[0]
    problem = sp.Problem(
        alpha=alpha, pi=1.0, prior=sp.Pair(sp.Gaussian(), sp.GaussBernoulli(rho)), channel=sp.OneBit(), knowledge=sp.Known()
    )
    assert sp.amp_mse(problem).mse.X == pytest.approx(rho - q, rel=1e-6)


@pytest.mark.claims
@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_counts_tell_what_guo_shamai_and_verdu_say(rate: float) -> None:
    """IEEE Trans. Inf. Theory 54, 1837 (2008): with x = exp(z) and y a count of mean rate x, the mutual information grows with the rate as
    E[x log x] - E[<x> log <x>], where <x> is the mean of x given y.

    The information is that of the channel's own averages; the right side is summed here, from the law of z alone.
    """
    from scipy.special import gammaln

    power, h = 0.3, 1e-3
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    z, weights = np.sqrt(power) * nodes, weights / np.sum(weights)
    x, y = np.exp(z), np.arange(1000)[:, None]

    def log_law(rate: float) -> np.ndarray:
        return y * np.log(rate * x) - rate * x - gammaln(y + 1)

    def information(rate: float) -> float:
        law = log_law(rate)
        given = float(np.sum(weights * np.sum(np.exp(law) * law, axis=0)))
        return given - (float(sp.Poisson(rate).averages(power, power).free_entropy) - np.log(2 * np.pi) / 2)

    law = np.exp(log_law(rate)) * weights
    total = np.sum(law, axis=1)
    seen = total > 1e-300
    mean = np.sum(law[seen] * x, axis=1) / total[seen]
    expected = float(np.sum(weights * x * z) - np.sum(total[seen] * mean * np.log(mean)))
    assert (information(rate * (1 + h)) - information(rate * (1 - h))) / (2 * h * rate) == pytest.approx(expected, rel=1e-4)
