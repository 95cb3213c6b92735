"""The noise level of a picture, from the picture alone."""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn
from scipy.special import gammaincinv

from .patches import SIDE, Patches

# Patches that are looked at.
_LOOKED_AT = 20_000
# This share of the patches is taken to be smooth, so that noise alone gives them high frequencies.
_SMOOTH = 0.05
# The frequencies that are high: all from this sum of their two numbers on.
_HIGH = np.add.outer(np.arange(SIDE), np.arange(SIDE)) >= SIDE


def noise_level(picture: np.ndarray) -> float:
    """Standard deviation of white noise in a grey picture, from the smoothest of its patches.

    The mean square of n high frequencies of a patch of noise is known in distribution (chi-squared), so a low quantile of it over all
    patches tells the noise, however much texture the others have. Patches of one shade, which clipping leaves, do not count.
    """
    patches = Patches(np.asarray(picture, dtype=np.float64))
    rows = patches.some(min(len(patches), _LOOKED_AT), np.random.default_rng(0))
    rows = rows[np.ptp(rows, axis=1) > 0]
    if len(rows) == 0:
        return 0.0
    high = dctn(rows.reshape(-1, SIDE, SIDE), axes=(1, 2), norm="ortho")[:, _HIGH]
    half = high.shape[1] / 2
    return float(np.sqrt(np.quantile(np.mean(high**2, axis=1), _SMOOTH) * half / gammaincinv(half, _SMOOTH)))
