"""Offsets of the rows of Y, better than their means.

The mean of a row is its offset and the mean of its signals, which is small, but at little noise not small enough: an atom of its own is
then spent on what was taken off too much. Most codes are zero, so a code whose median is not zero has found such a constant. It is moved to
the offsets, together with the mean of what is left over, and the solve made again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..model.sampling import Observed
from .solution import Solution

# How often offsets are corrected, at most.
_ROUNDS = 5
# Corrections of less than this many standard errors of a mean over signals do not matter.
_ERRORS = 3.0
# And no mean is wrong by more than this many standard errors of its own.
_MOST = 5.0
# From a median of absolute values to a standard deviation.
_OF_MEDIAN = 1.4826
# Codes denser than this have medians that are not zero.
_SPARSE = 0.4


def with_offsets(fit: Callable[[np.ndarray, bool], Solution], given: Observed, row_means: np.ndarray) -> Solution:
    """A solution of data less the offsets of their rows, at first their means. `fit` takes offsets off, and may be asked to be
    quick. Instances of a batch that were not off centre are left alone."""
    off = np.any(row_means, axis=-1)
    solution = fit(row_means, False)
    correction = _corrections(solution, less(given, row_means), off)
    if not np.any(correction):
        return solution
    for _ in range(_ROUNDS):
        row_means = row_means + correction
        correction = _corrections(fit(row_means, True), less(given, row_means), off)
        if not np.any(correction):
            break
    return fit(row_means, False)


def less(observed: Observed, row_means: np.ndarray) -> Observed:
    """The data less a number for each row; zero where nothing was seen."""
    seen = True if observed.mask is None else np.asarray(observed.mask, bool)
    return observed._replace(Y=np.where(seen, observed.Y - row_means[..., None], 0.0))


def _corrections(solution: Solution, observed: Observed, off: np.ndarray) -> np.ndarray:
    """Of each row, and of a batch in each instance."""
    if observed.Y.ndim == 2:
        return constant_part(solution, observed) * off
    masks = [None] * len(observed.Y) if observed.mask is None else observed.mask
    alone = [observed._replace(Y=Y, mask=mask) for Y, mask in zip(observed.Y, masks, strict=True)]
    return np.stack([constant_part(solution[k], each) * off[k] for k, each in enumerate(alone)])


def constant_part(solution: Solution, observed: Observed) -> np.ndarray:
    """What all signals have in common in each row, from the medians of codes and the means of residuals, if it is more than chance has, and
    no more than a mean can be wrong by."""
    F, X = (np.asarray(value, float) for value in solution.mean)
    M, N, P = *F.shape, X.shape[1]
    density = solution.model.prior.X.density()
    if density is None or density > _SPARSE or not (np.isfinite(F).all() and np.isfinite(X).all()):
        return np.zeros(M)
    left = observed.Y - F @ X / np.sqrt(N)
    left = left if observed.mask is None else np.where(observed.mask, left, np.nan)
    of_codes, of_residuals = F @ np.median(X, axis=1) / np.sqrt(N), _means(left)
    typical = _OF_MEDIAN * np.nanmedian(np.abs(left))  # signals that are not explained do not count
    found = np.zeros(M)
    for part, spread in ((of_codes, typical), (of_residuals, np.sqrt(np.nanmean(left**2)))):
        if _size(part) > _ERRORS * spread / np.sqrt(P):
            found = found + part
    return found if _size(found) < _MOST * _size(observed.Y) / np.sqrt(P) else np.zeros(M)


def _means(left: np.ndarray) -> np.ndarray:
    """Of rows, without NaN; zero of those that have nothing else."""
    there = ~np.isnan(left)
    return np.asarray(np.sum(left, axis=1, where=there) / np.maximum(np.sum(there, axis=1), 1))


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
