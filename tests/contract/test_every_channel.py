"""What every channel must satisfy, the built-in ones and those a user writes with log_partition and sample alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr
from scipy.stats import norm

import spinodal as sp
from oracle import integral
from spinodal.model.channels.outcomes import probe_outcomes
from spinodal.model.priors.halfline import log_mills
from spinodal.theory import outcomes
from whole import whole

# Statistical claims are made at this many standard errors; seeds are fixed.
SIGMAS = 5.0
DRAWS = 200_000
# Variance of z, of which these parts are not explained yet.
POWER = 0.3
UNEXPLAINED = np.array([1e-4, 0.01, 0.15, 0.29])


class PlainGaussianNoise(sp.Channel):
    """Gaussian noise from log_partition and sample alone, to be compared with the built-in channel."""

    def __init__(self, variance: float):
        self.variance = variance

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        level = self.variance + V
        return -((y - w) ** 2) / (2 * level) - jnp.log(2 * jnp.pi * level) / 2

    def sample(self, key: Any, z: Any) -> Any:
        return z + jnp.sqrt(self.variance) * jax.random.normal(key, jnp.shape(z))


class LaplaceNoise(sp.Channel):
    """y = z + noise of density exp(-|n|/scale)/(2 scale). Its log Z is that of two half-lines, y - z > 0 and y - z < 0."""

    def __init__(self, scale: float):
        self.scale = scale

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        distance, width = (y - w) / jnp.sqrt(V), jnp.sqrt(V) / self.scale

        def side(d: Any) -> Any:
            t = width - d
            # The squares of t and d are subtracted on paper where both are large.
            near = log_mills(jnp.maximum(t, 0.0)) - d**2 / 2 - jnp.log(2 * jnp.pi) / 2
            return jnp.where(t > 0, near, log_ndtr(jnp.maximum(-t, 0.0)) + width * (width / 2 - d))

        return jnp.logaddexp(side(distance), side(-distance)) - jnp.log(2 * self.scale)

    def sample(self, key: Any, z: Any) -> Any:
        return z + self.scale * jax.random.laplace(key, jnp.shape(z))


class Sign(sp.Channel):
    """y is the sign of z: a discrete channel."""

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return log_ndtr(y * w / jnp.sqrt(V))

    def sample(self, key: Any, z: Any) -> Any:
        return jnp.where(z > 0, 1.0, -1.0)


CHANNELS: dict[str, sp.Channel] = {
    "gaussian": sp.GaussianNoise(0.05),
    "user's gaussian": PlainGaussianNoise(0.05),
    "user's laplace": LaplaceNoise(0.2),
    "user's sign": Sign(),
    "outliers": sp.Outliers(0.02, 0.1, 1.0),
    "student": sp.StudentNoise(0.2, 3.0),
    "clipped": sp.Clipped(-0.6, 0.4, 0.05),
    "clipped on one side": sp.Clipped(-np.inf, 0.4, 0.05),
    "two bits": sp.Quantized.uniform(bits=2, reach=0.8),
    "noisy bits": sp.Quantized([-0.5, 0.1, 0.7], 0.02),
    "one bit": sp.OneBit(0.1, 0.05),
    "probit": sp.Binary("probit", 0.5),
    "logistic": sp.Binary("logistic", 0.3),
    "poisson": sp.Poisson(3.0),
    "poisson with background": sp.Poisson(2.0, 1.0),
}


# Variants of others that are checked in full.
VARIANTS = ("clipped on one side", "noisy bits", "poisson with background", "student", "probit")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.claims if name in VARIANTS else ()) for name in CHANNELS], scope="module")
def channel(request: pytest.FixtureRequest) -> sp.Channel:
    return CHANNELS[request.param]


# Half-lines take ten seconds to average, a density with points beside it six, a plain one four: that one is compared with the closed form
# below.
COSTLY = tuple(name for name in CHANNELS if name not in ("gaussian", "user's sign", "two bits", "probit"))


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.claims if name in COSTLY else ()) for name in CHANNELS], scope="module")
def averaged(request: pytest.FixtureRequest) -> sp.Channel:
    """A channel of which the theory's averages are asked."""
    return CHANNELS[request.param]


@pytest.fixture(scope="module")
def averages(averaged: sp.Channel) -> Any:
    return averaged.averages(UNEXPLAINED, POWER)


def draw(channel: sp.Channel, V: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(y, w) from their own law: w explains POWER - V of z."""
    rng = np.random.default_rng(seed)
    w = np.sqrt(POWER - V) * rng.standard_normal(DRAWS)
    return whole("sample", channel, jax.random.key(seed), w + np.sqrt(V) * rng.standard_normal(DRAWS)).astype(float), w


@pytest.mark.parametrize("V", [0.01, 0.15])
def test_output_is_the_derivative_of_log_partition(channel: sp.Channel, V: float) -> None:
    y, w = (values[:200] for values in draw(channel, V, seed=1))
    h = 1e-4 * np.sqrt(V)
    slope = (whole("log_partition", channel, y, w + h, V) - whole("log_partition", channel, y, w - h, V)) / (2 * h)
    g, precision = (np.broadcast_to(value, y.shape) for value in whole("output", channel, y, w, V))
    bend = (whole("output", channel, y, w + h, V).g - whole("output", channel, y, w - h, V).g) / (2 * h)
    # In units of 1/sqrt(V), where derivatives are of order one.
    np.testing.assert_allclose(g * np.sqrt(V), slope * np.sqrt(V), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(precision * V, -bend * V, rtol=1e-5, atol=1e-6)


def test_first_guesses_are_parameters_that_suit_the_data(channel: sp.Channel) -> None:
    y, w = draw(channel, 0.15, seed=2)
    guessed = channel.first_guess(y)
    begun = channel.replace(**guessed)
    assert all(np.array_equal(getattr(begun, name), value) for name, value in guessed.items())
    assert np.all(np.isfinite(whole("log_partition", begun, y, w, 0.15)))
    assert channel.first_power(y) is None or 0 < channel.first_power(y) < 100 * POWER


@pytest.mark.parametrize("V", [0.01, 0.15])
def test_information_is_told_in_two_ways(channel: sp.Channel, V: float) -> None:
    """The Nishimori identity: E[g^2] = E[precision], and g is 0 on average."""
    y, w = draw(channel, V, seed=2)
    g, precision = (np.broadcast_to(value, y.shape) for value in whole("output", channel, y, w, V))
    for values in (g**2 - precision, g):
        assert abs(values.mean()) < SIGMAS * values.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("k", range(UNEXPLAINED.size))
def test_averages_agree_with_monte_carlo(averaged: sp.Channel, averages: Any, k: int) -> None:
    V = float(UNEXPLAINED[k])
    y, w = draw(averaged, V, seed=3)
    information, log_z = whole("output", averaged, y, w, V).g ** 2, whole("log_partition", averaged, y, w, V)
    for values, expected in (
        (information, 1 / (V + averages.equivalent_noise[k])),
        (log_z, averages.free_entropy[k] - np.log(2 * np.pi) / 2),
    ):
        assert abs(values.mean() - expected) < SIGMAS * values.std() / np.sqrt(DRAWS)


def test_free_entropy_falls_by_half_the_information(averaged: sp.Channel) -> None:
    """d(free entropy)/dV = -1/(2 (V + e)): the two averages come from different integrals."""
    low, high = np.array([1e-6, 1e-3, 0.1]), np.array([2e-6, 2e-3, 0.2])
    x, weight = np.polynomial.legendre.leggauss(16)
    V = (high + low)[:, None] / 2 + (high - low)[:, None] / 2 * x
    fallen = (high - low) / 2 * np.sum(weight / (2 * (V + averaged.averages(V, POWER).equivalent_noise)), axis=1)
    ends = averaged.averages(np.stack([low, high]), POWER).free_entropy
    np.testing.assert_allclose(ends[0] - ends[1], fallen, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("variance", [0.05, 1e-4])
def test_where_a_point_loses_its_probability_is_found(variance: float) -> None:
    """A clipped signal: at the limits, over a width that the noise sets (from 3/4 to 1/4 of a normal distribution function)."""
    found = probe_outcomes(sp.Clipped(-0.6, 0.6, variance), POWER)
    np.testing.assert_allclose(found.points, [-0.6, 0.6])
    np.testing.assert_allclose(found.thresholds, [-0.6, 0.6], rtol=1e-9)
    np.testing.assert_allclose(found.widths, 2 * norm.ppf(0.75) * np.sqrt(variance), rtol=1e-6)


def test_survives_as_a_pytree(channel: sp.Channel) -> None:
    leaves, structure = jax.tree.flatten(channel)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(channel)
    with jax.enable_x64(True):
        direct = float(jax.jit(lambda: channel.log_partition(0.3, 0.2, 0.1))())
    assert float(whole("log_partition", again, 0.3, 0.2, 0.1)) == pytest.approx(direct, abs=1e-14)


def test_works_in_the_theory(averaged: sp.Channel) -> None:
    """The errors that the curve promises AMP are those the state evolution reaches, and they are stationary points of the potential."""
    prior = sp.Pair(F=sp.Gaussian(0.0, 0.6), X=sp.GaussBernoulli(0.5))
    problem = sp.Problem(alpha=1.2, pi=3.0, prior=prior, channel=averaged, knowledge=sp.Hint(0.3), observed_fraction=0.9)
    promised = sp.amp_mse(problem)
    end = sp.state_evolution(problem, tolerance=1e-13).mse
    assert end.X[-1] == pytest.approx(promised.mse.X, rel=1e-7)
    assert end.F[-1] == pytest.approx(promised.mse.F, rel=1e-7)
    value, matrix_error = sp.effective_potential(problem, promised.mse.X * np.array([0.9, 1.0, 1.1]))
    assert matrix_error[1] == pytest.approx(promised.mse.F, rel=1e-7)
    assert value[1] == pytest.approx(promised.free_entropy, rel=1e-9)
    assert value[1] > max(value[0], value[2])
    assert sp.spinodal(problem) is None
    assert sp.phase(problem) == "easy"


@pytest.mark.parametrize(("eta", "noise"), [pytest.param(1.0, 1e-6, marks=pytest.mark.claims), (np.inf, 1e-3)])
def test_gaussian_noise_written_by_a_user_is_the_closed_form(eta: float, noise: float) -> None:
    exact = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=eta, noise_variance=noise)
    generic = exact.replace(channel=PlainGaussianNoise(noise))
    for one, other in zip(sp.fixed_points(generic), sp.fixed_points(exact), strict=True):
        np.testing.assert_allclose((one.snr_X, *one.mse, one.free_entropy), (other.snr_X, *other.mse, other.free_entropy), rtol=1e-9)
    grid = sp.Pair(F=np.array([1e-4, 0.1, 0.9]), X=np.array([1e-5, 0.01, 0.19]))
    np.testing.assert_allclose(sp.potential(generic, grid), sp.potential(exact, grid), rtol=1e-9)


@pytest.mark.claims
@pytest.mark.parametrize(("eta", "noise"), [(1.0, 1e-6), (np.inf, 1e-3)])
def test_its_transitions_and_its_trajectory_are_those_of_the_closed_form(eta: float, noise: float) -> None:
    exact = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=eta, noise_variance=noise)
    generic = exact.replace(channel=PlainGaussianNoise(noise))
    for function in (sp.spinodal, sp.bayes_transition):
        assert function(generic) == pytest.approx(function(exact), rel=1e-9)
    ours, theirs = sp.state_evolution(generic), sp.state_evolution(exact)
    assert ours.iterations == theirs.iterations
    np.testing.assert_allclose(ours.mse.X, theirs.mse.X, rtol=1e-8)


@pytest.mark.claims
def test_laplace_noise_tells_its_fisher_information() -> None:
    """Once z is known well, e is the inverse Fisher information scale^2; before that it is larger, and less than the variance."""
    noise = CHANNELS["user's laplace"].averages([0.0, POWER], POWER).equivalent_noise
    assert noise[0] == pytest.approx(0.04, rel=1e-5)
    assert 0.04 < noise[1] < 0.08


@pytest.mark.claims
def test_laplace_noise_far_below_the_signal_counts_by_its_variance() -> None:
    """Another width is averaged anew, for a quarter of a minute."""
    noise = LaplaceNoise(0.02).averages(POWER, POWER).equivalent_noise
    assert noise == pytest.approx(2 * 0.02**2, rel=0.01)


def test_sign_channel_against_adaptive_quadrature() -> None:
    def information_at(x: float, k: float) -> float:
        # In logarithms: far out on the left, cdf(k x) is smaller than any number.
        return 2 * np.exp(norm.logpdf(x) + 2 * norm.logpdf(k * x) - norm.logcdf(k * x))

    def entropy_at(x: float, k: float) -> float:
        return 2 * norm.pdf(x) * norm.cdf(k * x) * norm.logcdf(k * x)

    for V in (0.01, 0.5, 1.0):
        slope = np.sqrt((1 - V) / V)
        edges = np.array([-9.0, -1.0, -0.3, 0.0, 0.3, 1.0, 9.0])
        information = integral(partial(information_at, k=slope), edges) / V
        entropy = integral(partial(entropy_at, k=slope), edges)
        found = Sign().averages(V, 1.0)
        assert found.equivalent_noise == pytest.approx(1 / information - V, rel=1e-8)
        assert found.free_entropy == pytest.approx(entropy + np.log(2 * np.pi) / 2, abs=1e-9)


@pytest.mark.claims
def test_perceptron_with_binary_weights() -> None:
    """Signs of random projections of a binary vector: perfect learning is possible from alpha = 1.245 and AMP does it from 1.493.

    Gyorgyi, Phys. Rev. A 41, 7097 (1990); Seung, Sompolinsky, Tishby, Phys. Rev. A 45, 6056 (1992); Barbier et al., PNAS 116, 5451 (2019).
    """
    problem = sp.Problem(alpha=1.0, pi=1.0, prior=sp.Pair(F=sp.Gaussian(), X=sp.Rademacher()), channel=Sign(), knowledge=sp.Known())
    ratios = (1.23, 1.244, 1.246, 1.49, 1.496)
    found = outcomes([problem.replace(alpha=alpha) for alpha in ratios])
    assert [outcome.phase for outcome in found] == ["impossible", "impossible", "hard", "hard", "easy"]
    assert all(outcome.bayes.mse.X < 1e-9 for outcome in found[2:])


def test_problems_with_one_kind_of_channel_are_computed_together() -> None:
    sparse = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.1, eta=1.0)
    problems = [sparse.replace(channel=PlainGaussianNoise(variance)) for variance in (1e-3, 1e-4)]
    for alone, together in zip(problems, outcomes(problems), strict=True):
        assert together.amp.mse.X == pytest.approx(sp.amp_mse(alone).mse.X, rel=1e-12)
    with pytest.raises(sp.InputError, match="same kinds"):
        outcomes([problems[0], sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.1)])


def test_a_channel_that_is_not_normalised_is_refused() -> None:
    class Doubled(PlainGaussianNoise):
        def log_partition(self, y: Any, w: Any, V: Any) -> Any:
            return super().log_partition(y, w, V) + np.log(2)

    with pytest.raises(sp.InputError, match="normalised"):
        sp.amp_mse(sp.Problem(alpha=0.5, pi=3.0, channel=Doubled(0.1)))


def test_equation_7_is_for_gaussian_noise() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.2).replace(channel=LaplaceNoise(0.1))
    with pytest.raises(sp.InputError, match=r"Eq\. \(7\)"):
        sp.potential_gauss_bernoulli(problem, sp.Pair(F=0.1, X=0.01))
