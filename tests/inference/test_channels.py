"""Channels that a user writes: log_partition and sample, and `solve` does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr

import spinodal as sp
from spinodal.inference.starts import automatic

N = 20


@dataclass(frozen=True)
class WrittenOut(sp.Channel):
    """Gaussian noise from the two methods alone, by a name of its own."""

    width: Any

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return -((y - w) ** 2) / (2 * (self.width + V)) - jnp.log(2 * jnp.pi * (self.width + V)) / 2

    def sample(self, key: Any, z: Any) -> Any:
        return z + jnp.sqrt(self.width) * jax.random.normal(key, z.shape)


@dataclass(frozen=True)
class LaplaceNoise(sp.Channel):
    """Noise of density exp(-|x|/scale)/(2 scale), variance 2 scale^2."""

    scale: Any

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        off, root = (y - w) / self.scale, jnp.sqrt(V) / self.scale
        above, below = -off + log_ndtr(off / root - root), off + log_ndtr(-off / root - root)
        return jnp.logaddexp(above, below) + root**2 / 2 - jnp.log(2 * self.scale)

    def sample(self, key: Any, z: Any) -> Any:
        return z + self.scale * jax.random.laplace(key, z.shape)


def problem_with(channel: sp.Channel) -> sp.Problem:
    base = sp.Problem.sparse(alpha=1.5, pi=6.0, rho=0.1, eta=0.05)
    return base.replace(channel=channel)


@pytest.mark.parametrize("observed_fraction", [1.0, pytest.param(0.9, marks=pytest.mark.claims)])
def test_a_generic_channel_gives_the_numbers_of_the_built_in_one(observed_fraction: float) -> None:
    ours, generic = (
        problem_with(channel).replace(observed_fraction=observed_fraction) for channel in (sp.GaussianNoise(1e-3), WrittenOut(1e-3))
    )
    instance = sp.sample(ours, N, seed=0)
    expected, found = (sp.solve(instance.observed, problem) for problem in (ours, generic))
    assert found.status == expected.status == "converged"
    assert found.iterations == expected.iterations
    for one, other in zip((*found.mean, *found.variance), (*expected.mean, *expected.variance), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.max(np.abs(other)))
    assert found.free_entropy == pytest.approx(expected.free_entropy, rel=1e-6)
    assert found.residual == pytest.approx(expected.residual, rel=1e-6)
    assert found.model.channel == WrittenOut(1e-3)


def test_both_draw_the_same_instance() -> None:
    one, other = (sp.sample(problem_with(channel), N, seed=0) for channel in (sp.GaussianNoise(1e-3), WrittenOut(1e-3)))
    np.testing.assert_allclose(one.observed.Y, other.observed.Y, rtol=1e-12)


@pytest.mark.claims
def test_noise_that_is_known_to_be_heavy_tailed_harms_less() -> None:
    """Laplace noise, told as it is and as Gaussian of its variance: the second takes outliers at their word."""
    scale = 0.07
    right, wrong = problem_with(LaplaceNoise(scale)), problem_with(sp.GaussianNoise(2 * scale**2))
    instance = sp.sample(right, N, seed=0)
    told, taken = (sp.solve(instance.observed, problem) for problem in (right, wrong))
    assert told.status == taken.status == "converged"
    errors = [[np.mean((a - b) ** 2) for a, b in zip(solution.mean, instance.truth, strict=True)] for solution in (told, taken)]
    assert errors[0][0] < errors[1][0]
    assert errors[0][1] < 0.9 * errors[1][1]
    assert told.free_entropy > taken.free_entropy


@pytest.mark.claims
def test_the_parameters_of_a_channel_without_a_variance_are_not_learned() -> None:
    problem = problem_with(LaplaceNoise(0.07))
    instance = sp.sample(problem, N, seed=0)
    solution = sp.solve(instance.observed, problem, learn=("noise_variance", "density"))
    assert solution.learned == ("density",)
    assert solution.model.channel == LaplaceNoise(0.07)


def counted(rate: float, seed: int, n: int = 30) -> tuple[sp.Problem, sp.Instance]:
    """Counts whose rates vary by a factor of two."""
    problem = sp.Problem.sparse(alpha=1.5, pi=15.0, rho=0.1).replace(channel=sp.Poisson(rate))
    problem = problem.replace(prior=sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.1, variance=5.0)))
    return problem, sp.sample(problem, n, seed=seed)


@pytest.mark.parametrize(("rate", "seed"), [(0.2, 1), (3.0, 2), (40.0, 3), (1000.0, 4)])
def test_the_first_guess_of_a_rate_is_near_it(rate: float, seed: int) -> None:
    Y = counted(rate, seed)[1].observed.Y
    assert 0.4 < sp.Poisson().first_guess(Y)["rate"] / rate < 2.5


LEARNED_FROM_WORDS = {
    "poisson": ("rate", "density", "slab_variance"),
    "poisson:rate=5": ("density", "slab_variance"),
    "poisson:background=0.5": ("rate", "density", "slab_variance"),
    "gaussian": ("noise_variance", "density", "slab_variance"),
    "outliers:share=0.1": ("noise_variance", "outlier_variance", "density", "slab_variance"),
    "student": ("scale", "nu", "density", "slab_variance"),
    "clipped": ("noise_variance", "density", "slab_variance"),
    "clipped:variance=0.1": ("density", "slab_variance"),
    "gains:spread=0.2": ("noise_variance", "density", "slab_variance"),
    "one-bit": ("noise_variance", "density"),  # one bit does not say how large a signal is
    "one-bit:variance=0.1": ("density",),
    "binary": ("scale", "density"),
    "quantized": ("noise_variance", "density", "slab_variance"),
    "quantized:bits=2,reach=3,variance=0": ("density", "slab_variance"),
}


@pytest.mark.parametrize(("words", "names"), LEARNED_FROM_WORDS.items(), ids=LEARNED_FROM_WORDS)
def test_what_words_leave_out_of_a_channel_is_learned_if_it_has_no_usual_value(words: str, names: tuple[str, ...]) -> None:
    observed = counted(5.0, seed=2)[1].observed
    assert automatic(observed, channel=words)[1] == names
    assert automatic(observed, channel=words, density=0.1)[1] == tuple(name for name in names if name not in ("density", "slab_variance"))


def test_a_channel_that_is_an_object_is_taken_as_it_is() -> None:
    observed = counted(5.0, seed=2)[1].observed
    model, learned = automatic(observed, channel=sp.Poisson(7.0))
    assert (model.channel, learned) == (sp.Poisson(7.0), ("density", "slab_variance"))


@pytest.mark.parametrize(
    ("words", "units"),
    [
        ("outliers", {"variance": 2500, "share": 1, "outlier_variance": 2500}),
        ("student", {"scale": 50, "nu": 1}),
        ("clipped", {"low": 50, "high": 1, "variance": 2500}),
    ],
)
def test_first_guesses_follow_the_units_and_the_ends_of_the_range(words: str, units: dict[str, float]) -> None:
    Y = np.maximum(np.random.default_rng(0).normal(size=(1, 4000)), -1.0)
    one, other = (automatic(sp.Observed(unit * Y, None, None), channel=words)[0].channel for unit in (1.0, 50.0))
    for name, unit in units.items():
        np.testing.assert_allclose(getattr(other, name), unit * getattr(one, name))
    if words == "clipped":
        assert (one.low, one.high) == (-1.0, np.inf)


def test_words_that_name_no_channel_or_do_not_fit_the_data_are_refused() -> None:
    observed = counted(5.0, seed=2)[1].observed
    with pytest.raises(sp.InputError, match="Y must hold counts"):
        sp.solve(observed.Y - 1.0, n_atoms=30, channel="poisson")
    with pytest.raises(sp.InputError, match="channel must be one of"):
        sp.solve(observed.Y, n_atoms=30, channel="fish")


MEASURED = {
    "outliers": sp.Outliers(1e-3, 0.02, 10.0),
    "student": sp.StudentNoise(scale=0.02, nu=3.0),
    "clipped": sp.Clipped(-0.5, 0.5, 1e-3),
}


@pytest.mark.claims
@pytest.mark.parametrize("words", MEASURED)
def test_a_channel_named_in_a_word_is_learned_from_data_in_any_unit_and_that_costs_nothing(words: str) -> None:
    unit, problem = 50.0, sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.1).replace(channel=MEASURED[words])
    instance = sp.sample(problem, 40, seed=1)
    told = sp.solve(instance.observed, problem, n_atoms=40)
    found = sp.solve(unit * instance.observed.Y, n_atoms=40, channel=words, center=False)
    assert found.status == told.status == "converged"
    angles = [np.mean(sp.score(each.mean, instance.truth).angle) for each in (found, told)]
    assert angles[0] < 1.05 * angles[1] < 2e-3
    np.testing.assert_allclose([found.model.prior.X.rho, found.model.prior.X.variance / unit**2], [0.1, 1.0], rtol=0.1)


@pytest.mark.claims
@pytest.mark.parametrize("known", [True, False])
def test_the_noise_of_signs_is_learned_which_taken_for_zero_spoils_the_matrix(known: bool) -> None:
    problem = sp.Problem.sparse(alpha=2.0, pi=30.0, rho=0.1, eta=0.1 if known else np.inf).replace(channel=sp.OneBit(0.0, 0.02))
    instance = sp.sample(problem, 40, seed=1)
    given = {"F_prime": instance.observed.F_prime} if known else {"n_atoms": 40}
    told = sp.solve(instance.observed, problem, **({} if known else given))
    found = sp.solve(instance.observed.Y, channel="one-bit", **given)
    assert found.status == told.status == "converged"
    angles = [np.mean(sp.score(each.mean, instance.truth).angle) for each in (found, told)]
    assert angles[0] < 1.05 * angles[1] < 0.1
    if known:
        noiseless = sp.solve(instance.observed.Y, channel="one-bit:variance=0", **given)
        assert np.mean(sp.score(noiseless.mean, instance.truth).angle) > 5 * angles[1]
    np.testing.assert_allclose([found.model.channel.variance, found.model.prior.X.rho], [0.02, 0.1], rtol=0.5)


@pytest.mark.claims
def test_thresholds_are_read_off_the_data() -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=20.0, rho=0.1).replace(channel=sp.Quantized.uniform(bits=2, reach=0.8, variance=0.01))
    instance = sp.sample(problem, 40, seed=1)
    told, found = sp.solve(instance.observed, problem, n_atoms=40), sp.solve(instance.observed.Y, n_atoms=40, channel="quantized")
    np.testing.assert_allclose(found.model.channel.thresholds, problem.channel.thresholds, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.model.channel.variance, 0.01, rtol=0.1)
    assert found.status == told.status == "converged"
    assert np.mean(sp.score(found.mean, instance.truth).angle) < 1.05 * np.mean(sp.score(told.mean, instance.truth).angle)


def test_thresholds_that_can_not_be_read_off_the_data_must_be_given() -> None:
    observed = sp.sample(problem_with(sp.GaussianNoise(1e-3)), N, seed=0).observed
    with pytest.raises(sp.InputError, match="thresholds must be given"):
        automatic(observed, channel="quantized")
    assert automatic(observed, channel="quantized:bits=4,reach=2")[0].channel.levels.size == 16


@pytest.mark.claims
@pytest.mark.parametrize(("rate", "seed"), [(5.0, 2)])
def test_from_counts_alone_the_rate_is_learned_and_costs_nothing(rate: float, seed: int) -> None:
    problem, instance = counted(rate, seed)
    found, told = (sp.solve(instance.observed, n_atoms=30, **given) for given in ({"channel": "poisson"}, {"model": problem}))
    assert found.status == told.status == "converged"
    np.testing.assert_allclose(found.model.channel.rate, rate, rtol=0.05)
    np.testing.assert_allclose([found.model.prior.X.rho, found.model.prior.X.variance], [0.1, 5.0], rtol=0.15)
    angles = [np.mean(sp.score(each.mean, instance.truth).angle) for each in (found, told)]
    assert angles[0] < 1.05 * angles[1] < 0.05


@pytest.mark.parametrize("holes", [False, True])
def test_every_row_may_be_clipped_at_ends_of_its_own(holes: bool) -> None:
    problem = problem_with(sp.GaussianNoise(1e-3))
    observed = sp.sample(problem, N, seed=0).observed
    high = 0.3 + np.arange(len(observed.Y))[:, None] / 20
    Y = np.clip(observed.Y, -high, high)
    Y[np.random.default_rng(0).random(Y.shape) < (0.1 if holes else 0.0)] = np.nan
    clipped = problem.replace(channel=sp.Clipped(-high, high, 1e-3))
    assert sp.solve(Y, clipped, F_prime=observed.F_prime, max_iterations=30).residual < 0.1
    with pytest.raises(sp.InputError, match="Y must lie between low = "):
        sp.solve(1.1 * Y, clipped, F_prime=observed.F_prime)
    with pytest.raises(sp.InputError, match="low must be below high"):
        sp.Clipped(high, -high)
