"""Observed data checked before anything is computed."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from ..errors import InputError, check_count
from ..model.model import Problem
from ..model.sampling import Observed

# Data are in units of the priors, so entries beyond this are a mistake of units; their squares would overflow in single precision.
_LARGEST = 1e15
# Arrays of the size of X alive at a time, at most.
_ARRAYS = 6
# F' with a smaller eta than this is F to rounding.
_EXACT = float(np.finfo(float).eps ** 2)


def check_observed(observed: Observed, problem: Problem, n_atoms: int | None) -> tuple[Observed, int, str]:
    """Refuse what can't be used; return clean arrays, the number of atoms, and how F is known ("exact", "noisy" or "none")."""
    if not hasattr(observed, "Y"):
        raise InputError(f"observed must be an Observed (Y, F_prime, mask), but {type(observed).__name__} was given.")
    Y = _array("Y", observed.Y)
    if Y.ndim not in (2, 3) or 0 in Y.shape:
        raise InputError(f"Y must be an M x P matrix (or a batch of them), but its shape is {Y.shape}.")
    mask = _mask(Y, observed.mask)
    if mask is not None:
        Y = np.where(np.isnan(Y), 0.0, Y)
    _check_size("Y", Y)
    eta = float(problem.eta)
    matrix = "exact" if eta < _EXACT else "none" if np.isinf(eta) else "noisy"
    F_prime = None
    if matrix != "none":
        if observed.F_prime is None:
            raise InputError(f"F_prime must be given when eta = {eta:g}; it may be left out only when eta = inf.")
        F_prime = _array("F_prime", observed.F_prime)
        if F_prime.ndim != Y.ndim or F_prime.shape[:-1] != Y.shape[:-1] or F_prime.shape[-1] == 0:
            raise InputError(f"F_prime must be M x N with the M = {Y.shape[-2]} rows of Y, but its shape is {F_prime.shape}.")
        _check_size("F_prime", F_prime)
    N = _atoms(observed, F_prime, n_atoms)
    return Observed(Y, F_prime, mask), N, matrix


def check_memory(shape: tuple[int, ...], N: int, size: int, memories: int = 1) -> None:
    """Refuse what can't fit: a run holds about six arrays of the size of X and Y, and a few of F's, of `size` bytes an entry.

    The signals may be divided among several `memories` of the size of this one.
    """
    *batch, M, P = shape
    needed = math.prod(batch) * bytes_needed(M, N, P, size)
    room = memory() * memories
    if needed > room:
        raise InputError(
            f"Y and n_atoms must leave room in memory, but {M} x {P} with {N} atoms needs about {needed / 1e9:.3g} GB and there are "
            f"{room / 1e9:.3g} GB; try fewer signals or atoms, or single precision."
        )


def bytes_needed(M: int, N: int, P: int, size: int) -> int:
    """Bytes that a run holds, at most."""
    return size * (_ARRAYS * max(N, M) * P + _ARRAYS * M * N)


def memory() -> float:
    """Bytes of memory of the device that computes."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return float((device.memory_stats() or {}).get("bytes_limit", math.inf))
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return math.inf


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        return array.astype(np.float64 if array.dtype.kind != "f" or array.dtype.itemsize > 4 else np.float32, copy=False)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers, but {type(value).__name__} was given.") from None


def _check_size(name: str, array: np.ndarray) -> None:
    largest = _largest(array)
    if not np.isfinite(largest):
        raise InputError(f"{name} must be finite, but it holds NaN or infinite values.")
    if largest > _LARGEST:
        raise InputError(f"{name} must hold numbers of at most {_LARGEST:g} in size, in units of the priors, but it holds {largest:g}.")


def _largest(array: np.ndarray) -> float:
    """Largest absolute value; NaN if there is one. Two passes and no copy: large data are looked at as little as possible."""
    return float(np.maximum(array.max(), -array.min()))


def _mask(Y: np.ndarray, mask: Any) -> np.ndarray | None:
    """Observed entries as booleans; NaN in Y counts as unobserved. None when everything is observed."""
    if mask is None:
        if np.isnan(_largest(Y)):
            raise InputError(
                "Y must be finite where it was observed, but it holds NaN; give a mask (False where missing) if those entries are missing."
            )
        return None
    given = _array("mask", mask)
    if given.shape != Y.shape or not np.isin(given, (0, 1)).all():
        raise InputError(f"mask must hold 0 and 1 (or False and True) in the shape {Y.shape} of Y, but its shape is {given.shape}.")
    observed = given.astype(bool)
    if (np.isnan(Y) & observed).any():
        raise InputError("Y must be finite where mask says it was observed, but it holds NaN there.")
    if observed.all():
        return None
    if not observed.any(axis=-1).all() or not observed.any(axis=-2).all():
        raise InputError("mask must leave at least one observed entry in every row and column of Y, but some have none.")
    return observed


def _atoms(observed: Observed, F_prime: np.ndarray | None, n_atoms: int | None) -> int:
    if n_atoms is not None:
        check_count("n_atoms", n_atoms)
    if F_prime is not None:
        N = F_prime.shape[-1]
        if n_atoms not in (None, N):
            raise InputError(f"n_atoms must be the {N} columns of F_prime or be left out, but {n_atoms} was given.")
        return N
    if n_atoms is not None:
        return n_atoms
    if observed.F_prime is not None and np.ndim(observed.F_prime) >= 2:
        return int(np.shape(observed.F_prime)[-1])
    raise InputError("n_atoms must be given when eta = inf and there is no F_prime to count the atoms of.")
