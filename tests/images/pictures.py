"""A small picture with edges, a texture and a slope, and damage done to it."""

from __future__ import annotations

import numpy as np

SIZE = 64


def truth() -> np.ndarray:
    """Grey, 0 to 255: stripes in one corner, a disc on a slope."""
    i, j = np.mgrid[:SIZE, :SIZE]
    picture = 80.0 + j
    picture[(i - 40) ** 2 + (j - 40) ** 2 < 200] = 220
    stripes = (i < 24) & (j < 24)
    picture[stripes] = 120 + 80 * np.sin(1.3 * (i + j))[stripes]
    return picture


def noisy(sigma: float, seed: int = 0) -> np.ndarray:
    return truth() + sigma * np.random.default_rng(seed).normal(size=(SIZE, SIZE))


def rms(picture: np.ndarray, true: np.ndarray) -> float:
    return float(np.sqrt(np.mean((picture - true) ** 2)))
