"""Rounds of expectation maximisation: what they improve, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_codes import drawn

from spinodal.inference.coding import cost, infer_codes, rounds, vamp
from spinodal.inference.coding.em import Learn, sums_of
from spinodal.inference.coding.rounds import refine
from spinodal.inference.coding.scales import ComponentPrior

LEARNED = Learn(("density", "noise_variance", "slab_variance"))


@pytest.mark.parametrize("fast", [False, True])
def test_rounds_raise_the_evidence_and_find_the_parameters(fast: bool) -> None:
    """From components 30% off and parameters off by factors of two."""
    model, _, y = drawn(6, 12, 600, 0.1)
    error = np.random.default_rng(1).normal(size=model.components.shape) * np.std(model.components)
    wrong = model._replace(components=model.components + 0.3 * error, slab=model.slab._replace(density=0.15), noise_variance=0.2, fast=fast)
    prior = ComponentPrior(np.zeros_like(error), np.full(error.shape, np.mean(model.components**2)))
    refined = refine(y, wrong, prior, LEARNED, 40)
    assert refined.settled
    assert refined.evidence[-1] > refined.evidence[0] + 0.5
    assert infer_codes(refined.model, y).evidence.mean() > infer_codes(model, y).evidence.mean() - 0.5
    assert refined.model.noise_variance == pytest.approx(0.1, rel=0.15)
    assert refined.model.slab.density == pytest.approx(0.3, abs=0.06)


def test_noise_variances_that_differ_a_hundredfold_are_found() -> None:
    """From one for all, and the true components."""
    model, x, _ = drawn(6, 12, 600, 0.1)
    noise = np.geomspace(0.01, 1.0, 12)
    y = x @ model.components + np.sqrt(noise) * np.random.default_rng(1).normal(size=(600, 12))
    prior = ComponentPrior(np.zeros_like(model.components), np.full(model.components.shape, np.mean(model.components**2)))
    refined = refine(y, model._replace(noise_variance=float(noise.mean())), prior, LEARNED._replace(feature_noise=None), 60)
    assert refined.settled
    np.testing.assert_allclose(refined.model.noise_variance, noise, rtol=0.35)  # 600 entries each, and what the components take


@pytest.mark.parametrize("unequal", [False, True])
def test_samples_have_densities_of_their_own_where_they_differ_more_than_by_chance(unequal: bool) -> None:
    """Codes that are all zero in half of the samples, and twice as dense in the others."""
    model, x, y = drawn(12, 24, 600, 0.01)
    if unequal:
        x[300:] += drawn(12, 24, 1200, 0.01)[1][900:]
        y += (np.arange(600) >= 300)[:, None] * (x @ model.components) - drawn(12, 24, 600, 0.01)[1] @ model.components
    prior = ComponentPrior(np.zeros_like(model.components), np.full(model.components.shape, np.mean(model.components**2)))
    refined = refine(y, model, prior, LEARNED._replace(sample_density=True), 40).model
    assert np.isfinite(refined.density_weight) == unequal


def test_without_rounds_nothing_changes() -> None:
    model, _, y = drawn(6, 12, 20, 0.1)
    prior = ComponentPrior(np.zeros_like(model.components), np.ones_like(model.components))
    refined = refine(y, model, prior, LEARNED, 0)
    assert refined.model is model
    assert refined.usage is None
    assert refined.evidence.size == 0


def test_what_is_not_to_be_learned_stays() -> None:
    model, _, y = drawn(6, 12, 50, 0.1)
    prior = ComponentPrior(np.zeros_like(model.components), np.ones_like(model.components))
    refined = refine(y, model, prior, Learn(()), 3).model
    assert (refined.slab, refined.noise_variance) == (model.slab, model.noise_variance)


def test_cost_grows_with_the_cube_of_the_atoms_and_with_features_where_entries_miss() -> None:
    shape = (50_000, 400)
    assert cost(shape, 400, 30, missing=False, fast=False) == (30 * 50_000 * 400.0**3, 0.0)
    assert cost(shape, 400, 30, missing=True, fast=True) == (0.0, 8 * 400.0**3)
    assert cost(shape, 400, 0, missing=True, fast=False) == (0.0, 0.0)


def test_sites_do_not_grow_old_while_the_model_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their steps are as long in the last round as in the first: where they fell with age, samples of real data were lost."""
    ages: list[float] = []

    def watched(*given: Any) -> Any:
        ages.append(float(given[3].age.max()))
        return sums_of(*given)

    monkeypatch.setattr(rounds, "sums_of", watched)
    model, _, y = drawn(6, 12, 600, 0.1)
    prior = ComponentPrior(np.zeros_like(model.components), np.full(model.components.shape, np.mean(model.components**2)))
    refine(y, model._replace(noise_variance=1e3, fast=True), prior, LEARNED, 12)
    assert len(ages) == 12
    assert max(ages) == vamp.PATIENT
