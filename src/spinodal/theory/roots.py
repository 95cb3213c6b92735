"""Roots and minima of many scalar functions at once, each problem with its own bracket. The functions are vectorised: NumPy in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Points evaluated together in the search for a minimum; a round leaves the two intervals next to the best of them.
_POINTS = 9
# A root that takes more evaluations than this is left as it is: bisection alone would need fewer.
_MOST_STEPS = 200


def find_root(
    function: Callable[..., np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *args: np.ndarray,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> np.ndarray:
    """Roots of function(x, *args) between `low` and `high`, to an absolute or a relative tolerance in x; NaN where the ends have one sign.

    Chandrupatla, Advances in Engineering Software 28, 145 (1997): inverse quadratic steps where they can be trusted, else bisection.
    """
    root = np.full(np.shape(low), np.nan)
    if root.size == 0:
        return root
    # a and b bracket the root, c is the point before them; t is where between a and b the next point lies.
    a, b = np.array(low, dtype=float), np.array(high, dtype=float)
    args = tuple(np.asarray(arg) for arg in args)
    f_a, f_b = function(a, *args), function(b, *args)
    active = np.flatnonzero(np.sign(f_a) * np.sign(f_b) <= 0)
    a, b, f_a, f_b, args = a[active], b[active], f_a[active], f_b[active], tuple(arg[active] for arg in args)
    t = np.full(active.size, 0.5)
    for _ in range(_MOST_STEPS):
        if active.size == 0:
            break
        x = a + t * (b - a)
        f = function(x, *args)
        same = np.sign(f) == np.sign(f_a)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = x, f
        best = np.where(np.abs(f_a) < np.abs(f_b), a, b)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = (absolute + relative * np.abs(best)) / np.abs(b - a)
            done = (share > 0.5) | (f_a == 0) | (f_b == 0) | (x == b)
            root[active] = best
            xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
            trusted = (1 - np.sqrt(1 - xi) < phi) & (phi < np.sqrt(xi))
            step = f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        t = np.clip(np.where(trusted, step, 0.5), np.minimum(share, 0.5), np.maximum(1 - share, 0.5))
        going = np.flatnonzero(~done)
        active, a, b, f_a, f_b, t = active[going], a[going], b[going], f_a[going], f_b[going], t[going]
        args = tuple(arg[going] for arg in args)
    return root


def find_minimum(
    function: Callable[..., np.ndarray], low: np.ndarray, high: np.ndarray, *args: np.ndarray, absolute: float
) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of the minima of function(x, *args) between `low` and `high`, where it has one minimum."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    rows = np.arange(low.size)
    repeated = tuple(np.repeat(arg, _POINTS) for arg in args)
    while True:
        x: Any = np.linspace(low, high, _POINTS, axis=-1)
        values = function(x.ravel(), *repeated).reshape(x.shape)
        best = np.argmin(values, axis=-1)
        if np.all(high - low <= absolute):
            return x[rows, best], values[rows, best]
        low, high = x[rows, np.maximum(best - 1, 0)], x[rows, np.minimum(best + 1, _POINTS - 1)]
