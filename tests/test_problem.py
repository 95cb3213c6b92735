"""Drawing instances: shapes, seeds, batches and the statistics of Eqs. (1)-(3)."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spinodal as sp
from spinodal.model import sampling

SIGMAS = 5.0


def test_shapes_and_precision() -> None:
    instance = sp.sample(sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0), 20, seed=0)
    assert instance.observed.Y.shape == (10, 60)
    assert instance.observed.F_prime.shape == instance.truth.F.shape == (10, 20)
    assert instance.truth.X.shape == (20, 60)
    assert instance.observed.mask is None
    for array in (instance.observed.Y, instance.observed.F_prime, *instance.truth):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64


def test_same_seed_same_instance_other_seed_another() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=1.0, noise_variance=0.1, observed_fraction=0.5)
    first, again, other = (sp.sample(problem, 12, seed=seed) for seed in (3, 3, 4))
    for one, two in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.truth.X, other.truth.X)


def test_a_member_of_a_batch_does_not_depend_on_its_size() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=1.0, noise_variance=0.1)
    alone, three = sp.sample(problem, 12, seed=9), sp.sample(problem, 12, seed=9, batch=3)
    assert three.observed.Y.shape == (3, 6, 12)
    np.testing.assert_allclose(alone.observed.Y, three.observed.Y[0], rtol=1e-13)
    np.testing.assert_array_equal(alone.truth.X, three.truth.X[0])
    assert not np.array_equal(three.truth.X[0], three.truth.X[1])


def test_how_a_draw_is_compiled_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small draws are compiled with little effort; with full effort they are the same, to rounding."""
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.1, eta=0.1, noise_variance=1e-2)
    drawn = []
    for most in (10**6, 0):
        monkeypatch.setattr(sampling, "_SMALL", most)
        drawn.append(sp.sample(problem, 20, seed=1, batch=2))
    jax.tree.map(lambda little, full: np.testing.assert_allclose(little, full, rtol=1e-12, atol=1e-12), *drawn)


def test_measurements_have_the_predicted_power() -> None:
    """Var(Y) = Delta + rho; entries are weakly correlated, so the error bar comes from independent instances."""
    problem = sp.Problem.sparse(alpha=0.5, pi=0.5, rho=0.3, noise_variance=0.2)
    Y = sp.sample(problem, 60, seed=5, batch=200).observed.Y
    powers = np.mean(Y**2, axis=(1, 2))
    assert abs(powers.mean() - 0.5) < SIGMAS * powers.std() / np.sqrt(powers.size)
    means = Y.mean(axis=(1, 2))
    assert abs(means.mean()) < SIGMAS * means.std() / np.sqrt(means.size)


def test_noise_is_what_remains_of_the_product() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.3, noise_variance=0.04)
    observed, truth = sp.sample(problem, 200, seed=6)
    noise = observed.Y - truth.F @ truth.X / np.sqrt(200)
    assert abs(np.mean(noise**2) - 0.04) < SIGMAS * 0.04 * np.sqrt(2 / noise.size)
    exact = sp.sample(problem.replace(channel=sp.GaussianNoise(0.0)), 200, seed=6)
    np.testing.assert_allclose(exact.observed.Y, exact.truth.F @ exact.truth.X / np.sqrt(200), atol=1e-12)


@pytest.mark.parametrize("eta", [0.01, 1.0, 30.0])
def test_side_information_has_the_stated_correlation(eta: float) -> None:
    observed, truth = sp.sample(sp.Problem.sparse(alpha=1.0, pi=0.1, rho=0.3, eta=eta), 300, seed=7)
    product = observed.F_prime * truth.F
    assert abs(product.mean() - 1 / np.sqrt(1 + eta)) < SIGMAS * product.std() / 300
    assert abs(np.mean(observed.F_prime**2) - 1) < SIGMAS * np.sqrt(2) / 300


def test_side_information_as_a_message_is_the_posterior_of_the_paper() -> None:
    """Eq. (3): N(F'/sqrt(1 + eta), eta/(1 + eta)) for a standard Gaussian F."""
    eta, F_prime = 0.3, np.array([-1.2, 0.0, 0.7])
    with jax.enable_x64(True):
        a, b = sp.Hint(eta).message(F_prime)
        mean, variance = sp.Gaussian().posterior(a, b)
        np.testing.assert_allclose(mean, F_prime / np.sqrt(1 + eta), rtol=1e-12)
        np.testing.assert_allclose(variance, eta / (1 + eta), rtol=1e-12)


def test_exact_and_absent_side_information() -> None:
    known = sp.sample(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=0.0), 10, seed=1)
    np.testing.assert_array_equal(known.observed.F_prime, known.truth.F)
    assert sp.sample(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2), 10, seed=1).observed.F_prime is None


def test_unobserved_entries_are_masked() -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=1.0, rho=0.2, observed_fraction=0.7)
    observed = sp.sample(problem, 200, seed=2).observed
    np.testing.assert_array_equal(np.isnan(observed.Y), ~observed.mask)
    assert abs(observed.mask.mean() - 0.7) < SIGMAS * np.sqrt(0.21 / observed.mask.size)


bad_positive = st.one_of(st.floats(max_value=0.0), st.just(np.nan), st.just(np.inf), st.sampled_from(["one", None, True]))


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(["alpha", "pi"]), value=bad_positive)
def test_sizes_that_are_not_positive_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(sp.InputError, match=name):
        sp.Problem.sparse(**{"alpha": 0.5, "pi": 1.0, "rho": 0.2, name: value})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"eta": -1.0}, "eta"),
        ({"eta": np.nan}, "eta"),
        ({"noise_variance": -1e-9}, "noise_variance"),
        ({"noise_variance": np.inf}, "noise_variance"),
        ({"observed_fraction": 0.0}, "observed_fraction"),
        ({"observed_fraction": 1.1}, "observed_fraction"),
        *(({"rho": rho}, "rho") for rho in (0.0, 1.0, 1.2, np.nan)),
    ],
)
def test_bad_parameters_are_refused_by_name(arguments: dict[str, float], word: str) -> None:
    with pytest.raises(sp.InputError, match=word):
        sp.Problem.sparse(**{"alpha": 0.5, "pi": 1.0, "rho": 0.2, **arguments})


@pytest.mark.parametrize(("arguments", "word"), [({"n": 0}, "n"), ({"n": 2.5}, "n"), ({"seed": -1}, "seed"), ({"batch": 0}, "batch")])
def test_bad_draws_are_refused_by_name(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(sp.InputError, match=word):
        sp.sample(sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2), **{"n": 10, "seed": 0, **arguments})


@pytest.mark.parametrize("prior", [sp.Gaussian(), 0.3, "sparse", sp.Pair(F=sp.Gaussian(), X=0.2), sp.Pair(F="normal", X=sp.Laplace())])
def test_what_is_not_a_pair_of_priors_is_refused(prior: object) -> None:
    with pytest.raises(sp.InputError, match="prior"):
        sp.Problem(alpha=0.5, pi=1.0, prior=prior)
    with pytest.raises(sp.InputError, match="channel"):
        sp.Problem(alpha=0.5, pi=1.0, channel=0.1)
