"""Scales of components where priors fix them."""

from __future__ import annotations

import numpy as np
import pytest
from exact_codes import drawn

from spinodal.inference.coding import Slab
from spinodal.inference.coding.scales import ComponentPrior, Usage, most_probable


def test_scales_are_where_the_priors_have_them() -> None:
    """Multiplied by anything and its codes divided by it, a component comes back to the same scale."""
    rng = np.random.default_rng(0)
    model = drawn(6, 40, 1, 0.1)[0]._replace(slab=Slab(0.3, 0.0, 1.0))
    prior = ComponentPrior(1.1 * model.components, np.full(model.components.shape, 0.02))
    usage = Usage(np.full(6, 50.0), np.zeros(6), rng.uniform(20, 80, 6))
    k = rng.uniform(0.3, 3, 6)
    other = model._replace(components=model.components * k[:, None], uncertainty=model.uncertainty * k[:, None] ** 2)
    for learn in ((), ("slab_variance",)):
        first = most_probable(model, prior, usage, learn)
        again = most_probable(other, prior, usage._replace(square=usage.square / k**2), learn)
        np.testing.assert_allclose(again.components, first.components, rtol=1e-4)
        assert again.slab.variance == pytest.approx(first.slab.variance, rel=1e-4)
