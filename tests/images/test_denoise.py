"""Noise taken off: how much, in which units, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from pictures import noisy, rms, truth
from spinodal.images.noise import noise_level
from spinodal.images.patches import Average, Patches


@pytest.mark.claims
def test_most_of_the_noise_goes_and_the_level_is_found() -> None:
    image, sigma = sp.images.denoise(noisy(20))
    assert sigma == pytest.approx(20, rel=0.1)
    assert rms(image, truth()) < 9  # a Gaussian filter of the best width leaves 13


@pytest.mark.claims
def test_the_same_seed_gives_the_same_picture_in_any_unit() -> None:
    first = sp.images.denoise(noisy(20), 20.0, seed=3).image
    np.testing.assert_array_equal(sp.images.denoise(noisy(20), 20.0, seed=3).image, first)
    np.testing.assert_allclose(sp.images.denoise(noisy(20) / 255 + 7, 20 / 255, seed=3).image, first / 255 + 7, atol=2e-3)


@pytest.mark.claims
def test_colours_are_restored_together() -> None:
    tint = np.array([1.0, 0.6, 0.3])
    coloured = truth()[:, :, None] * tint
    damaged = coloured + 20 * np.random.default_rng(1).normal(size=coloured.shape)
    found = sp.images.denoise(damaged)
    assert found.sigma == pytest.approx(20, rel=0.1)
    assert rms(found.image, coloured) < 9
    alone = sp.images.denoise(damaged[:, :, 0], 20.0).image
    assert rms(found.image[:, :, 0], coloured[:, :, 0]) < rms(alone, coloured[:, :, 0])


@pytest.mark.claims
def test_any_size_from_one_patch_up_will_do() -> None:
    damaged = 100 + 10 * np.random.default_rng(0).normal(size=(37, 21))
    assert rms(sp.images.denoise(damaged, 10.0).image, np.full((37, 21), 100.0)) < 6
    one = sp.images.denoise(damaged[:8, :8], 10.0).image
    assert one.shape == (8, 8)
    assert np.isfinite(one).all()


def test_a_picture_without_noise_is_left_alone() -> None:
    flat = np.full((20, 20), 7.0)
    np.testing.assert_array_equal(sp.images.denoise(flat).image, flat)
    np.testing.assert_array_equal(sp.images.denoise(truth(), 0.0).image, truth())


@pytest.mark.parametrize("sigma", [2.0, 10.0, 40.0])
def test_the_noise_level_is_found_at_any_level(sigma: float) -> None:
    assert noise_level(noisy(sigma)) == pytest.approx(sigma, rel=0.15)


def test_patches_average_to_the_picture_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spinodal.images.patches._BAND", 200)  # several bands
    patches, mean, random = Patches(truth()), Average(truth().shape), np.random.default_rng(0)
    for first, rows in patches.bands():
        mean.add(first, rows, random.random(len(rows)) + 0.1)
    np.testing.assert_allclose(mean.picture(), truth())


@pytest.mark.parametrize(
    ("image", "options", "sentence"),
    [
        (np.zeros(9), {}, r"image must have the shape .* but its shape is \(9,\)"),
        (np.zeros((7, 30)), {}, "at least 8 x 8 pixels"),
        (np.zeros((9, 9, 4)), {}, "image must have the shape"),
        ("photo.png", {}, "image must be an array of real numbers, but str was given"),
        (np.full((9, 9), np.nan), {}, "inpaint fills in missing pixels"),
        (np.zeros((9, 9)), {"sigma": -1.0}, "sigma must be a number"),
        (np.zeros((9, 9)), {"sigma": "much"}, 'sigma must be a number or "auto"'),
        (np.zeros((9, 9)), {"seed": -1}, "seed must be a whole number"),
    ],
)
def test_what_cannot_be_used_is_refused(image: object, options: dict, sentence: str) -> None:
    with pytest.raises(sp.InputError, match=sentence):
        sp.images.denoise(image, **options)
