"""Samples from wherever they are: arrays, memory maps, anything with a shape that can be sliced by rows (Zarr, HDF5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# Rows that are read together from what is not in memory.
_RUN = 64


def drawn(source: Any, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` rows at random; short runs of rows where single ones would be slow to read."""
    rows = source.shape[0]
    if type(source) is np.ndarray or rows <= count:
        order = random.choice(rows, min(count, rows), replace=False)
        return np.asarray(source)[order]
    starts = random.integers(0, max(rows - _RUN, 0) + 1, -(-count // _RUN))
    return np.concatenate([np.asarray(source[first : first + _RUN]) for first in np.sort(starts)])[:count]


def chunks(source: Any, size: int) -> Iterator[np.ndarray]:
    """All rows in order, `size` at a time."""
    for first in range(0, source.shape[0], size):
        yield np.asarray(source[first : first + size])


def is_lazy(source: Any) -> bool:
    """Whether it is a table outside memory: a memory map, or something with rows to slice that is no array."""
    if isinstance(source, np.memmap):
        return True
    if isinstance(source, np.ndarray) or any(hasattr(source, name) for name in ("iloc", "toarray", "__array_namespace__")):
        return False
    return len(getattr(source, "shape", ())) == 2 and hasattr(source, "__getitem__") and hasattr(source, "dtype")
