"""VAMP against the sum over all supports, and the choice between it and expectation propagation."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from exact_codes import drawn, summed_over_supports

from spinodal.inference.coding import CodingModel, Slab, blocks, ep, infer_codes, vamp


@pytest.mark.parametrize(("atoms", "features"), [(6, 12), (7, 5)])
def test_evidence_and_codes_are_close_to_the_exact_ones(atoms: int, features: int) -> None:
    model, x, y = drawn(atoms, features, 200, 0.1)
    exact, found = summed_over_supports(model, y), infer_codes(model._replace(fast=True), y)
    assert np.mean(found.evidence) == pytest.approx(np.mean(exact.evidence), abs=0.3)
    error, least = np.mean((found.mean - x) ** 2), np.mean((exact.mean - x) ** 2)
    assert error < 1.15 * least
    assert np.mean(found.variance) == pytest.approx(error, rel=0.25)


def test_one_atom_is_exact() -> None:
    model, _, y = drawn(1, 4, 50, 0.2)
    exact, found = summed_over_supports(model, y), infer_codes(model._replace(fast=True), y)
    np.testing.assert_allclose(found.evidence, exact.evidence, atol=1e-4)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-4)


def test_samples_with_holes_go_to_expectation_propagation_and_keep_their_places() -> None:
    model, _, y = drawn(6, 12, 9, 0.1)
    y[::3, 4] = np.nan
    fast = model._replace(fast=True)
    both, whole = infer_codes(fast, y), ~np.isnan(y).any(axis=1)
    with jax.enable_x64(True):
        apart = blocks.infer(vamp, fast, y[whole]).codes, blocks.infer(ep, fast, y[~whole]).codes
    for mixed, complete, holed in zip(both, *apart, strict=True):
        np.testing.assert_allclose(mixed[whole], complete, rtol=1e-12)
        np.testing.assert_allclose(mixed[~whole], holed, rtol=1e-12)


@pytest.mark.parametrize("fast", [False, True])
def test_samples_of_unequal_complexity_are_coded_better_with_densities_of_their_own(fast: bool) -> None:
    rng = np.random.default_rng(3)
    G = rng.normal(size=(32, 40)) / np.sqrt(40)
    density = np.where(rng.random((120, 1)) < 0.5, 0.02, 0.5)
    x = 3 * rng.normal(size=(120, 32)) * (rng.random((120, 32)) < density)
    model = CodingModel(G, np.zeros_like(G), Slab(0.26, 0.0, 9.0), 1.0, fast=fast)
    y = x @ G + rng.normal(size=(120, 40))
    common, own = (np.mean((infer_codes(each, y).mean - x) ** 2) for each in (model, model._replace(density_weight=4.0)))
    assert own < 0.95 * common


@pytest.mark.parametrize(("atoms", "features"), [(6, 12), (7, 5)])
@pytest.mark.parametrize("fast", [False, True])
def test_variances_of_the_signal_are_its_errors(atoms: int, features: int, fast: bool) -> None:
    """Given the true components, fewer or more of them than features. Codes taken as independent would have several times as much."""
    model, x, y = drawn(atoms, features, 600, 0.1)
    found = infer_codes(model._replace(fast=fast), y)
    error = np.mean(((found.mean - x) @ model.components) ** 2)
    assert np.mean(found.signal_variance) == pytest.approx(error, rel=0.15)
    assert np.mean(found.variance @ model.components**2) > 1.5 * error


@pytest.mark.claims
def test_samples_settle_also_where_atoms_are_many() -> None:
    """Twice as many atoms as features and little noise: 20 half steps, never shortened, leave five times the error of EP."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(24, 24)) / np.sqrt(24)
    G = np.concatenate([half, half + rng.normal(size=half.shape) / np.sqrt(24)])
    x = rng.normal(size=(300, 48)) * (rng.random((300, 48)) < 0.1)
    y = x @ G + 0.03 * rng.normal(size=(300, 24))
    model = CodingModel(G, np.zeros_like(G), Slab(0.1, 0.0, 1.0), 0.03**2)
    error, least = (np.mean(((infer_codes(model._replace(fast=fast), y).mean - x) @ G) ** 2) for fast in (True, False))
    assert least < 0.4 * 0.03**2
    assert error < 1.3 * least


@pytest.mark.parametrize("fast", [False, True])
def test_codes_do_not_depend_on_the_samples_beside_them(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Easy and hard samples in many small blocks, which are left and filled again, and one by one: the same codes, also means alone."""
    model, _, y = drawn(6, 12, 200, 0.1)
    model = model._replace(fast=fast)
    whole = infer_codes(model, y)
    monkeypatch.setattr(blocks, "_SMALLEST", 16)
    monkeypatch.setattr(blocks, "_LARGEST", 16)
    parts = infer_codes(model, y)
    monkeypatch.setattr(blocks, "_LARGEST", 64)
    monkeypatch.setattr(blocks, "suited", lambda on_a_cpu, elsewhere: elsewhere)  # what is left of a block goes on in two smaller ones
    stages = infer_codes(model, y)
    for one, *others in zip(whole, parts, stages, strict=True):
        for other in others:
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(infer_codes(model, y, ("mean",)).mean, whole.mean, rtol=1e-6, atol=1e-9)
    assert infer_codes(model, y, ("mean",)).evidence is None
