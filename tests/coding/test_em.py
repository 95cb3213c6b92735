"""Rounds of expectation maximisation: what they improve, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from exact_codes import drawn

from spinodal.inference.coding import cost, infer_codes
from spinodal.inference.coding.em import Learn
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
