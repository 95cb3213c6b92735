"""The noise level of a picture, from the picture alone."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .patches import Patches

# Patches that are looked at.
_LOOKED_AT = 50_000


def noise_level(picture: np.ndarray) -> float:
    """Standard deviation of white noise in a grey picture: the lower of two estimates, each of which takes fine texture for noise."""
    picture = np.asarray(picture, dtype=np.float64)
    return min(_by_directions(picture), _by_differences(picture))


def _by_directions(picture: np.ndarray) -> float:
    """A picture fills few of the directions that patches can vary in; in all others they vary by the noise.

    The largest eigenvalues of their covariance are left out until the mean of the rest is its median. (Chen, Zhu and Heng, An efficient
    statistical method for image noise level estimation, ICCV 2015.)
    """
    patches = Patches(picture)
    random = np.random.default_rng(0)
    rows = patches.some(min(len(patches), _LOOKED_AT), random)
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows.T)))  # from small to large
    kept = len(values)
    while kept > 1 and np.mean(values[:kept]) > np.median(values[:kept]):
        kept -= 1
    return float(np.sqrt(max(np.mean(values[:kept]), 0.0)))


def _by_differences(picture: np.ndarray) -> float:
    """The median size of the diagonal differences of pixels, which most edges do not change. (Donoho and Johnstone, Biometrika 81, 1994.)"""
    rows = picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]
    diagonal = (rows[::2, ::2] - rows[1::2, ::2] - rows[::2, 1::2] + rows[1::2, 1::2]) / 2
    return float(np.median(np.abs(diagonal)) / ndtri(0.75))
