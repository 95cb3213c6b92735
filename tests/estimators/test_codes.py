"""Codes given the components, against the sum over all supports."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import numpy as np
import pytest

import spinodal as sp
from spinodal.estimators.codes import Model, Slab, infer_codes, tilted

SLAB = Slab(0.3, 0.4, 2.0)


class Exact(NamedTuple):
    mean: np.ndarray
    evidence: np.ndarray


def summed_over_supports(model: Model, y: np.ndarray) -> Exact:
    """Evidence and mean codes of each sample (row) by enumeration."""
    rho, m, v = model.slab
    N, M = model.components.shape
    logs, means = [], []
    for support in itertools.product([False, True], repeat=N):
        on = np.array(support)
        G = model.components[on]
        covariance = model.noise * np.eye(M) + v * G.T @ G
        error = y - m * G.sum(axis=0)
        solved = np.linalg.solve(covariance, error.T).T
        log = -(np.sum(error * solved, axis=1) + np.linalg.slogdet(2 * np.pi * covariance)[1]) / 2
        logs.append(log + on.sum() * np.log(rho) + (~on).sum() * np.log1p(-rho))
        codes = np.zeros((len(y), N))
        codes[:, on] = m + v * solved @ G.T
        means.append(codes)
    weights = np.exp(np.array(logs) - np.logaddexp.reduce(logs, axis=0))
    return Exact(np.einsum("sp,spn->pn", weights, np.array(means)), np.logaddexp.reduce(logs, axis=0))


def drawn(N: int, M: int, samples: int, noise: float) -> tuple[Model, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    G = rng.normal(size=(N, M)) / np.sqrt(M) + rng.normal(size=M) / np.sqrt(M)  # atoms with something in common
    x = (rng.random((samples, N)) < SLAB.density) * (SLAB.mean + np.sqrt(SLAB.variance) * rng.normal(size=(samples, N)))
    return Model(G, np.zeros_like(G), SLAB, noise), x, x @ G + np.sqrt(noise) * rng.normal(size=(samples, M))


def test_the_prior_is_gauss_bernoulli() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.exponential(5, 50), 4 * rng.normal(size=50)
    mine = tilted(SLAB, a, b)
    with jax.enable_x64(True):
        prior = sp.GaussBernoulli(SLAB.density, SLAB.mean, SLAB.variance)
        mean, variance = prior.posterior(a, b)
        np.testing.assert_allclose(mine.log_integral, prior.log_partition(a, b), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(mine.mean, mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(mine.variance, variance, rtol=1e-9)
        np.testing.assert_allclose(mine.probability, prior.slab_probability(a, b), rtol=1e-10)


@pytest.mark.parametrize(("atoms", "features"), [(6, 12), (7, 5)])
def test_evidence_and_codes_are_close_to_the_exact_ones(atoms: int, features: int) -> None:
    model, x, y = drawn(atoms, features, 200, 0.1)
    exact, found = summed_over_supports(model, y), infer_codes(model, y)
    assert np.mean(found.evidence) == pytest.approx(np.mean(exact.evidence), abs=0.1)
    assert np.std(found.evidence - exact.evidence) < 0.3
    # The errors of the exact posterior mean are the smallest possible; these are hardly larger, and the reported variances are theirs.
    error, least = np.mean((found.mean - x) ** 2), np.mean((exact.mean - x) ** 2)
    assert error < 1.1 * least
    assert np.mean(found.variance) == pytest.approx(error, rel=0.25)


def test_one_atom_is_exact() -> None:
    model, _, y = drawn(1, 4, 50, 0.2)
    exact, found = summed_over_supports(model, y), infer_codes(model, y)
    np.testing.assert_allclose(found.evidence, exact.evidence, atol=1e-8)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-8)


def test_missing_entries_count_as_features_that_are_not_there() -> None:
    model, _, y = drawn(5, 8, 20, 0.1)
    part = Model(model.components[:, :6], model.uncertainty[:, :6], model.slab, model.noise)
    y[:, 6:] = np.nan
    for mine, other in zip(infer_codes(model, y), infer_codes(part, y[:, :6]), strict=True):
        np.testing.assert_allclose(mine[..., : other.shape[-1]], other, atol=1e-4)
    nothing = infer_codes(model, np.full((1, 8), np.nan))
    assert nothing.evidence == pytest.approx(0, abs=1e-8)
    np.testing.assert_allclose(nothing.mean, SLAB.density * SLAB.mean, rtol=1e-6)


def test_uncertain_components_widen_the_codes() -> None:
    model, _, y = drawn(5, 8, 20, 0.1)
    doubtful = model._replace(uncertainty=np.full_like(model.components, 0.05))
    assert infer_codes(doubtful, y).variance.mean() > infer_codes(model, y).variance.mean()
