"""Data that Gaussian noise can't have made are not called converged, and the reason names the channel to try; ordinary data are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.misfit import judged_by_data, misfit
from spinodal.inference.solution import Names, Solution, Status, Trace, joined
from spinodal.inference.suspicious_table import with_means

N, M, P, RHO, NOISE = 40, 40, 300, 0.1, 1e-3


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(M, N)), rng.normal(size=(N, P)) * (rng.random((N, P)) < RHO), rng


def settled(Y: np.ndarray, F: np.ndarray, X: np.ndarray, noise: Any = NOISE, **options: Any) -> Solution:
    """A run that ended at F and X with Gaussian noise."""
    model = sp.Model.sparse(rho=RHO).replace(channel=sp.GaussianNoise(noise))
    trace = Trace(*(np.ones(1) for _ in range(4)))
    means, variances = sp.Pair(F, X), sp.Pair(np.full(F.shape, 1e-4), np.full(X.shape, 1e-4))
    observed = sp.Observed(Y, None, options.pop("mask", None))
    return Solution(means, variances, Status.CONVERGED, "settled", 1, 0.0, 0.0, trace, model, observed=observed, **options)


def with_faults(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    z = z.copy()
    z[[3, 17]] = z.std() * rng.normal(size=(2, P))
    return z


SPOILED: dict[str, tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], float, tuple[str, ...]]] = {
    "clipped": (lambda y, _: np.clip(y, -0.5, 0.4), NOISE, ("clipped", 'channel="clipped"')),
    "2 bits": (
        lambda y, _: 0.3 * np.clip(np.floor(y / 0.3), -2, 1) + 0.15,
        0.008,
        ("only 4 values", 'channel="quantized"'),
    ),
    "1 bit": (lambda y, _: np.where(y > 0, 1.0, -1.0), 0.5, ("only 2 values", 'channel="one-bit"')),
    "yes or no": (lambda y, _: np.where(y > 0, 1.0, 0.0), 0.1, ("only 2 values", 'channel="binary"')),
    "codes of a converter": (
        lambda y, _: np.clip(np.floor(y / 0.1) + 4.0, 0.0, 7.0),
        0.5,
        ("only 8 values", 'channel="quantized"'),
    ),
    "whole numbers that saturate": (
        lambda y, _: np.clip(np.round(300 * y + 2000), 0.0, 2150.0),
        90.0,
        ("clipped", 'channel="clipped"'),
    ),
    "counts": (lambda y, rng: 1.0 * rng.poisson(3 * np.exp(y)), 3.0, ("small counts", 'channel="poisson"')),
    "outliers": (lambda y, rng: np.where(rng.random(y.shape) < 0.01, y + 3 * rng.normal(size=y.shape), y), NOISE, ('channel="outliers"',)),
    "Student noise": (lambda y, rng: y + 0.1 * rng.standard_t(2, y.shape), 0.05, ("far beyond", 'channel="outliers"')),
    "faulty": (with_faults, NOISE, ("no signal explains rows 4, 18", 'channel="faulty:faulty=0.05')),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_wrong_channel_is_named(name: str) -> None:
    spoil, noise, words = SPOILED[name]
    F, X, rng = drawn(1)
    y = F @ X / np.sqrt(N) + np.sqrt(NOISE) * rng.normal(size=(M, P))
    judged = judged_by_data(settled(spoil(y, rng), F, X, noise))
    assert judged.status is Status.MISFIT
    assert not judged.status.trusted
    assert all(word in judged.reason for word in words), judged.reason


def test_a_batch_is_judged_as_its_instances_are() -> None:
    """Two of every three instances are spoiled, the mildest way first: 1.5% clipped, which a look at a few signals must not overlook."""
    mildly = [lambda y, _: np.clip(y, *np.quantile(y, (0.008, 0.993))), *(spoil for spoil, _, _ in SPOILED.values())]
    singles = []
    for k in range(36):
        F, X, rng = drawn(k)
        y = F @ X / np.sqrt(N) + np.sqrt(NOISE) * rng.normal(size=(M, P))
        singles.append(settled(mildly[k // 3 % len(mildly)](y, rng) if k % 3 else y, F, X))
    alone = [judged_by_data(single).status for single in singles]
    observed = sp.Observed(np.stack([single.observed.Y for single in singles]), None, None)
    together = judged_by_data(replace(joined(singles), observed=observed))
    assert list(together.status) == alone
    assert all((status is Status.MISFIT) == (misfit(single) is not None) for status, single in zip(alone, singles, strict=True))
    assert {Status.MISFIT, Status.CONVERGED} == set(alone)


@pytest.mark.parametrize("noise", [1e-8, 1e-3, 0.1, 1.0])
def test_ordinary_data_raise_no_alarm(noise: float) -> None:
    for seed in range(20):
        F, X, rng = drawn(seed)
        y = F @ X / np.sqrt(N) + np.sqrt(noise) * rng.normal(size=(M, P))
        found_F, found_X = F + 0.1 * np.sqrt(noise) * rng.normal(size=F.shape), X * (1 + 0.02 * rng.normal(size=X.shape))
        found_X[:, : P // 6] = 0  # a sixth of the signals was not found
        assert misfit(settled(y, found_F, found_X, noise)) is None
        assert misfit(settled(np.round(y, 3), F, X, noise)) is None  # rounding that does not matter
        rows = noise * np.exp(1.5 * rng.normal(size=(M, 1)))
        y = F @ X / np.sqrt(N) + np.sqrt(rows) * rng.normal(size=(M, P))
        assert misfit(settled(y, F, X, rows)) is None


def test_residuals_that_the_noise_explains_are_no_outliers() -> None:
    """Data without noise: a run that has settled leaves residuals of all sizes, far below the noise that it assumes."""
    F, X, rng = drawn(4)
    y = F @ X / np.sqrt(N)
    y += 1e-6 * rng.standard_t(1.5, y.shape)
    y[:, :3] += 0.1 * rng.normal(size=(M, 3))  # of a few signals more is left
    assert "far beyond" in str(misfit(settled(y, F, X, 1e-12)))
    assert misfit(settled(y, F, X, 1e-8)) is None


def test_pixels_and_many_zeros_are_no_counts_and_no_clipping() -> None:
    F, X, rng = drawn(3)
    pixels = np.clip(np.round(128 + 60 * F @ X / np.sqrt(N) + rng.normal(size=(M, P))), 0, 255)
    centred = pixels - pixels.mean(axis=1, keepdims=True)
    assert misfit(settled(centred, 60 * F, X, 1.0, row_means=pixels.mean(axis=1))) is None
    sparse = np.where(rng.random((M, P)) < 0.8, 0.0, rng.exponential(size=(M, P)))
    assert "clipped" not in str(misfit(settled(sparse, F, X, 1.0)))


def test_what_is_not_gaussian_or_not_settled_is_left_alone() -> None:
    F, X, rng = drawn(1)
    y = np.clip(F @ X / np.sqrt(N) + 0.03 * rng.normal(size=(M, P)), -0.3, 0.3)
    run = settled(y, F, X)
    right = Solution(**{**vars(run), "model": run.model.replace(channel=sp.Clipped(-0.3, 0.3, NOISE))})
    assert judged_by_data(right) is right
    lost = Solution(**{**vars(run), "status": Status.DEGENERATE})
    assert judged_by_data(lost) is lost
    named = settled(with_faults(F @ X / np.sqrt(N), rng), F, X, names=Names(tuple(f"s{m}" for m in range(M))))
    assert "rows s3, s17" in judged_by_data(named).reason
    holes = rng.random((M, P)) < 0.7
    assert judged_by_data(settled(np.where(holes, y, 0.0), F, X, mask=holes)).status is Status.MISFIT


@pytest.mark.claims
def test_solve_says_misfit_and_the_right_channel_converges() -> None:
    detector = sp.Clipped(-0.5, 0.5, 1e-4)
    problem = sp.Problem.sparse(alpha=1.0, pi=5.0, rho=0.1, eta=0.1).replace(channel=detector)
    observed = sp.sample(problem, 40, seed=1).observed
    wrong = sp.solve(observed.Y, F_prime=observed.F_prime, eta=0.1)
    assert wrong.status is Status.MISFIT
    assert 'channel="clipped"' in wrong.reason
    assert "Do not rely on it" in wrong.summary() or "misfit" in wrong.summary()
    assert sp.solve(observed, problem).status == "converged"
    both = sp.Observed(np.stack([observed.Y, observed.Y]), np.stack([observed.F_prime, observed.F_prime]), None)
    assert [str(status) for status in sp.solve(both, problem.replace(channel=sp.GaussianNoise(3e-3))).status] == ["misfit", "misfit"]


@pytest.mark.parametrize("offset", [0.0, 5.0, -2000.0])
@pytest.mark.parametrize("step", [0.1, 0.25, 3.0])
def test_row_means_that_were_put_back_leave_the_grid_what_it_was(offset: float, step: float) -> None:
    rng = np.random.default_rng(0)
    Y = np.round(rng.normal(size=(12, 400)) / step) * step + offset
    Y = np.where(rng.random(Y.shape) < 0.02, -999.0, Y)
    means = Y.mean(axis=1, keepdims=True)
    again = with_means(Y - means, means, float)
    assert np.array_equal(again, np.array([[float(f"{value:.10g}") for value in row] for row in Y]))


def test_no_digits_are_lost_where_there_is_no_grid() -> None:
    rng = np.random.default_rng(1)
    for size in (1e-30, 1e-9, 1.0, 1e12):
        Y, means = size * rng.normal(size=(5, 100)), size * rng.normal(size=(5, 1))
        np.testing.assert_allclose(with_means(Y - means, means, float), Y, rtol=0, atol=3e-14 * size)
