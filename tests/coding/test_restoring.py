"""How much the noise of features counts when samples are restored."""

from __future__ import annotations

import numpy as np
import pytest

from spinodal.inference.coding import Learned, for_restoring
from spinodal.inference.coding.restoring import with_noise_weight

FEATURES, ATOMS, SAMPLES = 24, 3, 400


def drawn(common: float, seed: int = 0) -> tuple[Learned, np.ndarray]:
    """A model whose first eight features have little noise, and samples of it; these features also deviate together by so much."""
    rng = np.random.default_rng(seed)
    noise = np.where(np.arange(FEATURES) < 8, 1e-3, 0.1)
    components = rng.standard_normal((ATOMS, FEATURES)) / np.sqrt(FEATURES)
    codes = 3 * rng.standard_normal((SAMPLES, ATOMS))
    together = common * rng.standard_normal((SAMPLES, 1)) * (noise < 0.01) * rng.choice([-1, 1], FEATURES)
    data = codes @ components + together + np.sqrt(noise) * rng.standard_normal((SAMPLES, FEATURES))
    one = np.ones(ATOMS)
    return Learned(components, 0 * components, one, 0 * one, noise, 0.99 * one, noise.mean(), 0.99, 0.0, 9.0, False), data


def test_where_the_model_is_right_each_feature_counts_by_its_own_noise() -> None:
    learned, data = drawn(0.0)
    assert with_noise_weight(learned, data, 0).noise_weight == 1


def test_features_that_deviate_together_count_less() -> None:
    learned, data = drawn(0.6)
    assert with_noise_weight(learned, data, 0).noise_weight < 1


def test_features_of_about_the_same_noise_need_no_look() -> None:
    learned, _ = drawn(0.0)
    alike = learned._replace(feature_noise=np.linspace(1.0, 1.5, FEATURES))
    assert with_noise_weight(alike, np.zeros((0, FEATURES)), 0) is alike


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_noise_that_counts_is_between_its_own_and_the_mean(weight: float) -> None:
    learned, _ = drawn(0.0)
    noise = for_restoring(learned._replace(noise_weight=weight)).feature_noise
    ratio = np.log(noise / learned.feature_noise.mean()) / np.log(learned.feature_noise / learned.feature_noise.mean())
    assert ratio == pytest.approx(np.full(FEATURES, weight))
