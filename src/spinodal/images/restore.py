"""`denoise`: a picture without its noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, check_nonnegative, check_seed, shown
from ..inference.coding.classes import BATCH, Classes, learn_classes, restored_samples
from ..inference.execution.machine import one_thread_each
from .noise import noise_level
from .patches import SIDE, Average, Patches

# Most classes, and the fewest patches for each.
_CLASSES, _PATCHES = 64, 256
# The noise of a patch's mean, which all its pixels share, counts by this much in the weight of a patch.
_COMMON = 0.5
# The second pass looks at the first one's result with this share of what it took off put back.
_BACK = 0.5
# Noise below this share of the picture's spread is none: less than the rounding of 8-bit pictures, and single precision, in which its
# square is compared with that of the picture, can't tell it.
_NO_NOISE = 1e-3
# Grey, and two differences of colours: orthonormal, so that white noise stays white.
_OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])

Progress = Callable[[str, float], None]


class Restored(NamedTuple):
    """A restored picture, in the units of the one that was given, and the standard deviation of the noise that was assumed.

    Attributes:
        image: the picture, of the shape that was given, in float64.
        sigma: the noise, given or found.
    """

    image: np.ndarray
    sigma: float


def denoise(image: Any, sigma: float | str = "auto", *, seed: int = 0, progress: Progress | None = None) -> Restored:
    """A picture without its noise.

    The model is learned from the noisy picture alone: every patch of 8 x 8 pixels is of one of up to 64 classes, and a class has atoms and
    variances of its own. Patches overlap, and a pixel is the mean of what they say, weighted by their precisions. Colours are turned to
    grey and two differences, and each is restored on its own.

    Args:
        image: height x width, or height x width x 3, in any unit; at least 8 x 8 pixels.
        sigma: standard deviation of the noise, which is white; "auto" finds it.
        seed: of the patches that are drawn; the same seed gives the same result.
        progress: called as progress(stage, share) now and then, with the share of the stage that is done.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> truth = 128 + 60 * np.sin(np.arange(64) / 5)[:, None] * np.ones(64)
        >>> noisy = truth + 20 * np.random.default_rng(0).normal(size=truth.shape)
        >>> image, sigma = sp.images.denoise(noisy)
        >>> print(f"noise {sigma:.0f}, error {np.std(noisy - truth):.0f} before")
        noise 20, error 20 before
        >>> bool(np.std(image - truth) < 7)
        True
    """
    picture = checked_picture(image)
    if not np.isfinite(picture).all():
        raise InputError("image must be finite, but it holds NaN or infinities; spinodal.images.inpaint fills in missing pixels.")
    if not isinstance(sigma, str) or sigma != "auto":
        if isinstance(sigma, str):
            raise InputError(f'sigma must be a number or "auto", but {shown(sigma)} was given.')
        check_nonnegative("sigma", sigma)
    check_seed("seed", seed)
    planes = opponent(picture)
    level = float(np.median([noise_level(plane) for plane in planes])) if isinstance(sigma, str) else float(sigma)
    if level <= _NO_NOISE * np.ptp(picture):
        return Restored(picture, level)
    say = progress or (lambda stage, share: None)
    with one_thread_each():
        return Restored(back([_denoised(plane, level, seed, say) for plane in planes], picture.shape), level)


def checked_picture(image: Any) -> np.ndarray:
    """The picture in float64."""
    try:
        picture = np.array(np.ma.filled(image.astype(np.float64), np.nan) if isinstance(image, np.ma.MaskedArray) else image)
        picture = picture.astype(np.float64, casting="unsafe" if picture.dtype == object else "same_kind")
    except (TypeError, ValueError):
        raise InputError(f"image must be an array of real numbers, but {type(image).__name__} was given.") from None
    if picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (3,)) or min(picture.shape[:2]) < SIDE:
        raise InputError(
            f"image must have the shape (height, width) or (height, width, 3), with at least {SIDE} x {SIDE} pixels, "
            f"but its shape is {picture.shape}."
        )
    return picture


def opponent(picture: np.ndarray) -> list[np.ndarray]:
    """The planes to restore one by one."""
    return [picture] if picture.ndim == 2 else list(np.moveaxis(picture @ _OPPONENT.T, 2, 0))


def back(planes: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The picture of these planes."""
    return planes[0] if len(shape) == 2 else np.stack(planes, axis=2) @ _OPPONENT


def class_count(patches: Patches) -> int:
    """How many classes so many patches can tell apart."""
    return int(np.clip(len(patches) // _PATCHES, 1, _CLASSES))


def _denoised(plane: np.ndarray, sigma: float, seed: int, say: Progress) -> np.ndarray:
    """Twice: part of what the first pass took off is put back, as less noise."""
    middle, unit = float(np.mean(plane)), sigma
    noisy = ((plane - middle) / unit).astype(np.float32)
    patches = Patches(noisy)
    classes = learn_classes(
        lambda random: patches.some(BATCH, random), class_count(patches), 1.0, seed, lambda share: say("learning", share)
    )
    first = _pass(classes, noisy, 1.0, lambda share: say("restoring", share / 2))
    second = _pass(classes, first + _BACK * (noisy - first), _BACK, lambda share: say("restoring", (1 + share) / 2))
    return middle + unit * second


def _pass(classes: Classes, picture: np.ndarray, sigma: float, say: Callable[[float], None]) -> np.ndarray:
    """Every pixel the mean of what patches say, weighted by their precisions."""
    patches, mean = Patches(picture.astype(np.float32)), Average(picture.shape)
    for first, rows in patches.bands():
        values, variance = restored_samples(classes, rows, sigma**2)
        mean.add(first, values, 1 / (variance + _COMMON * sigma**2 / SIDE**2))
        say(min(1.0, (first + 1) / patches.windows.shape[0]))
    return mean.picture()
