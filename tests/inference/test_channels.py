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
