"""Patches of a picture as rows, and back: every patch of SIDE x SIDE pixels, overlapping."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

SIDE = 8
# Patches to hold at a time, about.
_BAND = 65536


class Patches:
    """The patches of a grey picture; they are copied only when asked for."""

    def __init__(self, picture: np.ndarray) -> None:
        self.windows = sliding_window_view(picture, (SIDE, SIDE))

    def __len__(self) -> int:
        return self.windows.shape[0] * self.windows.shape[1]

    def some(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Random ones: each at most once if there are enough."""
        which = random.choice(len(self), count, replace=False) if len(self) >= count else random.integers(len(self), size=count)
        return self.windows[np.unravel_index(which, self.windows.shape[:2])].reshape(count, SIDE**2)

    def bands(self) -> Iterator[tuple[int, np.ndarray]]:
        """All patches that start in some rows of the picture: the first of these rows, and the patches."""
        rows = max(1, _BAND // self.windows.shape[1])
        for first in range(0, self.windows.shape[0], rows):
            yield first, self.windows[first : first + rows].reshape(-1, SIDE**2)


class Average:
    """A picture as the weighted mean of patches that come in bands."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total, self.weight = np.zeros(shape), np.zeros(shape)

    def add(self, first: int, patches: np.ndarray, weights: np.ndarray) -> None:
        """Patches that start in row `first` and those below, and a weight for each."""
        columns = self.total.shape[1] - SIDE + 1
        patches, weights = patches.reshape(-1, columns, SIDE, SIDE), weights.reshape(-1, columns)
        rows = len(weights)
        for i in range(SIDE):
            for j in range(SIDE):
                place = slice(first + i, first + i + rows), slice(j, j + columns)
                self.total[place] += weights * patches[:, :, i, j]
                self.weight[place] += weights

    def picture(self) -> np.ndarray:
        return self.total / self.weight
