"""Codes of many samples at once: against the sum over all supports, and beside those of one sample at a time."""

from __future__ import annotations

import numpy as np
import pytest
from test_codes import drawn, summed_over_supports

import spinodal as sp
from spinodal.estimators.codes import Model, Slab, infer_codes
from spinodal.estimators.shared import infer


@pytest.mark.parametrize(("atoms", "features"), [(6, 12), (7, 5)])
def test_evidence_and_codes_are_close_to_the_exact_ones(atoms: int, features: int) -> None:
    model, x, y = drawn(atoms, features, 200, 0.1)
    exact, found = summed_over_supports(model, y), infer(model._replace(fast=True), y)
    assert np.mean(found.evidence) == pytest.approx(np.mean(exact.evidence), abs=0.3)
    error, least = np.mean((found.mean - x) ** 2), np.mean((exact.mean - x) ** 2)
    assert error < 1.15 * least
    assert np.mean(found.variance) == pytest.approx(error, rel=0.25)


def test_one_atom_is_exact() -> None:
    model, _, y = drawn(1, 4, 50, 0.2)
    exact, found = summed_over_supports(model, y), infer(model._replace(fast=True), y)
    np.testing.assert_allclose(found.evidence, exact.evidence, atol=1e-4)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-4)


def test_samples_with_holes_go_one_by_one_and_keep_their_places() -> None:
    model, _, y = drawn(6, 12, 9, 0.1)
    y[::3, 4] = np.nan
    fast = model._replace(fast=True)
    both, whole = infer(fast, y), ~np.isnan(y).any(axis=1)
    for mixed, complete, holed in zip(both, infer(fast, y[whole]), infer_codes(fast, y[~whole]), strict=True):
        np.testing.assert_allclose(mixed[whole], complete, rtol=1e-12)
        np.testing.assert_allclose(mixed[~whole], holed, rtol=1e-12)


@pytest.mark.parametrize("fast", [False, True])
def test_samples_of_unequal_complexity_are_coded_better_with_densities_of_their_own(fast: bool) -> None:
    rng = np.random.default_rng(3)
    G = rng.normal(size=(32, 40)) / np.sqrt(40)
    density = np.where(rng.random((300, 1)) < 0.5, 0.02, 0.5)
    x = 3 * rng.normal(size=(300, 32)) * (rng.random((300, 32)) < density)
    model = Model(G, np.zeros_like(G), Slab(0.26, 0.0, 9.0), 1.0, fast=fast)
    y = x @ G + rng.normal(size=(300, 40))
    common, own = (np.mean((infer(each, y).mean - x) ** 2) for each in (model, model._replace(counts=4.0)))
    assert own < 0.95 * common


def test_fit_without_message_passing_restores_what_was_missing() -> None:
    rng = np.random.default_rng(4)
    components = rng.normal(size=(8, 16)) / 4
    clean = 20 * rng.normal(size=(600, 8)) * (rng.random((600, 8)) < 0.25) @ components
    data = clean + rng.normal(size=clean.shape)
    model = sp.DictionaryLearner(8, fast=True, max_iter=0, refine_iter=60, n_init=3, random_state=0).fit(data[:500])
    assert model.n_iter_ == len(model.history_["evidence"]) > 1
    assert model.history_["residual"].size == 0
    values, doubt = model.restore(data[500:])
    error = np.mean((values - clean[500:]) ** 2)
    assert error < 0.5  # of the noise, 1
    assert np.mean(doubt**2) == pytest.approx(error, rel=0.5)
    holes = np.where(rng.random((100, 16)) < 0.2, np.nan, data[500:])
    filled, _ = model.restore(holes)
    missing = np.isnan(holes)
    assert np.mean((filled - clean[500:])[missing] ** 2) < 0.1 * np.mean(clean[500:][missing] ** 2)
