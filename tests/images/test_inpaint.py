"""Missing pixels filled in: how well, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from pictures import noisy, rms, truth
from spinodal.images.fill import _interpolated, _shares

MISSING = np.random.default_rng(0).random(truth().shape) < 0.5


@pytest.mark.claims
def test_pixels_that_were_seen_stay_and_the_others_beat_interpolation() -> None:
    told: list[tuple[str, float]] = []
    image = sp.images.inpaint(truth(), MISSING, progress=lambda stage, share: told.append((stage, share))).image
    np.testing.assert_array_equal(image[~MISSING], truth()[~MISSING])
    assert rms(image, truth()) < 0.7 * rms(_interpolated(truth(), MISSING), truth())
    assert told[-1] == ("filling", 1.0)


@pytest.mark.claims
def test_nan_and_a_mask_say_the_same() -> None:
    marked = np.where(MISSING, np.nan, truth())
    np.testing.assert_array_equal(sp.images.inpaint(marked).image, sp.images.inpaint(truth(), MISSING).image)


@pytest.mark.claims
def test_noise_in_the_other_pixels_goes_too() -> None:
    image = sp.images.inpaint(noisy(15), MISSING, 15.0).image
    assert rms(image[~MISSING], truth()[~MISSING]) < 10


@pytest.mark.claims
@pytest.mark.parametrize("alike", [True, False])
def test_colours_may_miss_together_or_alone(alike: bool) -> None:
    coloured = truth()[:, :, None] * np.array([1.0, 0.6, 0.3])
    where = MISSING if alike else np.random.default_rng(1).random(coloured.shape) < 0.5
    image = sp.images.inpaint(coloured, where).image
    worst = np.stack([_interpolated(coloured[:, :, k], where if alike else where[:, :, k]) for k in range(3)], axis=2)
    assert rms(image, coloured) < rms(worst, coloured)


@pytest.mark.claims
def test_a_smooth_picture_is_left_to_the_smooth_surface() -> None:
    i, j = np.mgrid[:64, :64] / 64
    smooth = 100 * np.sin(3 * i + 2 * j**2) + 20 * np.cos(9 * i * j)
    missing = np.random.default_rng(2).random(smooth.shape) < 0.8
    assert rms(sp.images.inpaint(smooth, missing).image, smooth) < 1.05 * rms(_interpolated(smooth, missing), smooth)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_hidden_pixels_tell_how_much_of_the_patches_is_best(share: float) -> None:
    """Of a truth that lies between the two; nothing is told of pixels in the middle of a hole."""
    random = np.random.default_rng(0)
    smooth, step = random.normal(size=(2, 64, 64))
    missing = random.random(smooth.shape) < 0.5
    missing[20:40, 20:40] = True
    hidden = ~missing & (random.random(smooth.shape) < 0.1)
    found = _shares(smooth, smooth + step, smooth + share * step, missing, hidden)
    assert found[30, 30] == 1.0
    np.testing.assert_allclose(found[hidden], share, atol=1e-6)


def test_a_picture_of_one_shade_or_one_pixel_stays_so() -> None:
    flat = np.full((12, 12), 3.0)
    np.testing.assert_allclose(sp.images.inpaint(flat, flat > 5).image, flat)
    one = np.ones((12, 12), bool)
    one[4, 4] = False
    np.testing.assert_allclose(sp.images.inpaint(flat, one).image, flat)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.zeros((9, 9)), "mask must be an array of True and False"),
        (np.zeros((9, 8), bool), "its shape"),
        (np.ones((9, 9), bool), "image must have a pixel that is not missing"),
    ],
)
def test_what_cannot_be_used_is_refused(mask: np.ndarray, sentence: str) -> None:
    with pytest.raises(sp.InputError, match=sentence):
        sp.images.inpaint(np.zeros((9, 9)), mask)
