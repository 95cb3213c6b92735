"""What every prior must satisfy, the built-in ones and those a user writes with log_partition and sample alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from whole import whole
from zoo import DIMENSIONS, PRIORS

# Statistical claims are made at this many standard errors; seeds are fixed.
SIGMAS = 5.0
DRAWS = 200_000
# Signal-to-noise ratios in units of 1/E[x^2].
SNR = np.geomspace(1e-4, 1e6, 31)


# Their code is that of others: a mixture of another length, another width, a second prior with nothing but log_partition.
ALIKE = ("mixture of points", "laplace, narrow", "nonnegative, wide", "user's gaussian")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.claims if name in ALIKE else ()) for name in PRIORS], scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def prior(name: str) -> sp.Prior:
    return PRIORS[name]


@pytest.fixture(scope="module")
def moments(prior: sp.Prior) -> tuple[float, float]:
    return tuple(float(value) for value in whole("moments", prior))


def power(moments: tuple[float, float]) -> float:
    return moments[0] ** 2 + moments[1]


def draw(prior: sp.Prior, seed: int) -> np.ndarray:
    return whole("sample", prior, jax.random.key(seed), shape=(DRAWS,)).astype(float)


def message_grid(moments: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Messages from weak to strong: a in units of 1/E[x^2], b up to four standard deviations of its own law."""
    a = np.repeat(np.array([0.05, 0.7, 3.0, 20.0]) / power(moments), 9)
    u = np.tile(np.linspace(-4, 4, 9), 4)
    return a, np.sqrt(a) * u * np.sqrt(1 + a * power(moments))


def test_posterior_moments_are_derivatives_of_log_partition(prior: sp.Prior, moments: tuple[float, float]) -> None:
    a, b = message_grid(moments)
    h = 1e-4 * np.sqrt(a)
    slope = (whole("log_partition", prior, a, b + h) - whole("log_partition", prior, a, b - h)) / (2 * h)
    mean, variance = whole("posterior", prior, a, b)
    bend = (whole("posterior", prior, a, b + h).mean - whole("posterior", prior, a, b - h).mean) / (2 * h)
    # In units of the message's own resolution 1/sqrt(a), where derivatives of log Z are of order one.
    np.testing.assert_allclose(mean * np.sqrt(a), slope * np.sqrt(a), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(variance * a, bend * a, rtol=1e-6, atol=1e-7)


def test_posterior_variance_is_not_negative(prior: sp.Prior, moments: tuple[float, float]) -> None:
    a, b = message_grid(moments)
    mean, variance = whole("posterior", prior, a, 10 * b)
    assert np.all(np.isfinite(mean))
    # A log_partition alone is differentiated twice, which rounds at the scale of the squared mean.
    assert np.all(variance >= -1e-13 * (1 + mean**2))


def test_pure_methods_follow_the_dtype_and_shape_of_their_input(prior: sp.Prior) -> None:
    a, b = jnp.float32(0.5), np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    mean, variance = jax.eval_shape(prior.posterior, a, b)
    assert mean.shape == variance.shape == jax.eval_shape(prior.log_partition, a, b).shape == (2, 3)
    assert mean.dtype == variance.dtype == jnp.float32


def test_samples_have_the_prior_moments(prior: sp.Prior, moments: tuple[float, float]) -> None:
    x = draw(prior, seed=1)
    mean, variance = moments
    assert abs(x.mean() - mean) < SIGMAS * np.sqrt(variance / DRAWS) + 1e-12
    assert abs(np.mean(x**2) - power(moments)) < SIGMAS * np.std(x**2) / np.sqrt(DRAWS) + 1e-12


def test_mmse_and_overlap_share_the_second_moment(prior: sp.Prior, moments: tuple[float, float]) -> None:
    a = SNR / power(moments)
    np.testing.assert_allclose(prior.mmse(a) + prior.overlap(a), power(moments), rtol=1e-9)


def test_mmse_decreases_from_the_variance_to_zero(prior: sp.Prior, moments: tuple[float, float]) -> None:
    mmse = prior.mmse(np.concatenate([[0.0], SNR / power(moments), [np.inf]]))
    assert mmse[0] == pytest.approx(moments[1], rel=1e-10)
    assert mmse[-1] == 0.0
    # Discrete priors underflow to exact zeros at the end; until then every step goes down.
    assert np.all(np.diff(mmse[mmse > 1e-13 * moments[1]]) < 0)
    assert np.all(mmse >= -1e-13 * moments[1])


def test_information_grows_by_half_the_mmse(prior: sp.Prior, moments: tuple[float, float]) -> None:
    low, high = np.array([1e-3, 0.3, 8.0]) / power(moments), np.array([3e-3, 0.9, 24.0]) / power(moments)
    x, w = np.polynomial.legendre.leggauss(20)
    a = (high + low)[:, None] / 2 + (high - low)[:, None] / 2 * x
    grown = (high - low) / 2 * np.sum(w * prior.mmse(a) / 2, axis=1)
    np.testing.assert_allclose(prior.information(high) - prior.information(low), grown, rtol=1e-9, atol=1e-13)


def test_free_entropy_and_information_are_the_same_thing(prior: sp.Prior, moments: tuple[float, float]) -> None:
    a = np.array([0.0, 0.1, 2.0, 50.0]) / power(moments)
    np.testing.assert_allclose(prior.free_entropy(a), a * power(moments) / 2 - prior.information(a), rtol=1e-12, atol=1e-15)
    assert prior.free_entropy(0.0) == 0.0


def test_monte_carlo_agrees(prior: sp.Prior, moments: tuple[float, float]) -> None:
    x0 = draw(prior, seed=2)
    noise = np.random.default_rng(3).standard_normal(DRAWS)
    for a in np.array([0.5, 10.0]) / power(moments):
        b = a * x0 + np.sqrt(a) * noise
        (mean, variance), log_z = whole("posterior", prior, a, b), whole("log_partition", prior, a, b)
        pairs = (
            ((mean - x0) ** 2, prior.mmse(a)),
            (variance, prior.mmse(a)),
            (mean * x0, prior.overlap(a)),
            (log_z, prior.free_entropy(a)),
        )
        for values, expected in pairs:
            assert abs(values.mean() - expected) < SIGMAS * values.std() / np.sqrt(DRAWS) + 1e-12 * power(moments)


def test_dimension_is_the_limit_of_snr_times_mmse(name: str, prior: sp.Prior, moments: tuple[float, float]) -> None:
    with jax.enable_x64(True):
        dimension = float(prior.dimension())
    # A generic prior reads it off at a finite ratio, hence not to machine precision.
    assert dimension == pytest.approx(DIMENSIONS[name], abs=1e-3)
    a = 1e10 / power(moments)
    assert float(a * prior.mmse(a)) == pytest.approx(dimension, abs=1e-3)


def test_survives_as_a_pytree(prior: sp.Prior) -> None:
    leaves, structure = jax.tree.flatten(prior)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(prior)
    with jax.enable_x64(True):
        direct = float(jax.jit(lambda: prior.log_partition(0.3, 0.2))())
    assert float(whole("log_partition", again, 0.3, 0.2)) == pytest.approx(direct, abs=1e-14)


@pytest.mark.parametrize(
    "kind", [pytest.param("mixture", marks=pytest.mark.claims), pytest.param("laplace", marks=pytest.mark.slow), "user's gaussian"]
)
def test_works_in_the_theory_on_both_sides(kind: str) -> None:
    """The errors that the curve promises AMP are those the state evolution reaches; tests/theory has pairs of the other kinds."""
    problem = sp.Problem(
        alpha=0.9, pi=2.0, prior=sp.Pair(F=PRIORS[kind], X=PRIORS[kind]), channel=sp.GaussianNoise(0.05), knowledge=sp.Hint(0.5)
    )
    end = sp.state_evolution(problem, tolerance=1e-13).mse
    promised = sp.amp_mse(problem).mse
    assert end.X[-1] == pytest.approx(promised.X, rel=1e-7)
    assert end.F[-1] == pytest.approx(promised.F, rel=1e-7)
