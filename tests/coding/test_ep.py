"""Expectation propagation against the sum over all supports."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from exact_codes import SLAB, drawn, summed_over_supports

import spinodal as sp
from spinodal.inference.coding import infer_codes
from spinodal.inference.coding.model import tilted


def test_the_prior_is_gauss_bernoulli() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.exponential(5, 50), 4 * rng.normal(size=50)
    with jax.enable_x64(True):
        mine = tilted(SLAB, a, b)
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
    part = model._replace(components=model.components[:, :6], uncertainty=model.uncertainty[:, :6])
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


def test_the_variance_of_the_signal_is_exact_where_all_codes_are_normal() -> None:
    model, _, y = drawn(6, 4, 3, 0.1)
    normal = model._replace(slab=model.slab._replace(density=1 - 1e-12))
    y[0, 1] = np.nan
    for row, found in zip(y, infer_codes(normal, y).signal_variance, strict=True):
        G = model.components[:, ~np.isnan(row)]
        covariance = np.linalg.inv(np.eye(6) / model.slab.variance + G @ G.T / model.noise_variance)
        np.testing.assert_allclose(found, np.diag(model.components.T @ covariance @ model.components), rtol=1e-5)


def test_the_interval_of_one_code_is_its_posterior_if_it_is_not_zero() -> None:
    model, _, y = drawn(1, 4, 20, 0.2)
    found, G, noise = infer_codes(model, y), model.components[0], model.noise_variance
    precision = 1 / model.slab.variance + G @ G / noise
    np.testing.assert_allclose(found.slab_variance[:, 0], 1 / precision, rtol=1e-8)
    np.testing.assert_allclose(found.slab_mean[:, 0], (model.slab.mean / model.slab.variance + y @ G / noise) / precision, rtol=1e-8)
