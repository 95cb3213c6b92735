"""Sparse codes with our components: posterior means of the codes that are rather not zero, matching pursuit, least angles."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import InputError, check_count, check_positive

CODERS = ("posterior", "omp", "lars")
# Samples whose codes are dense at a time.
_ROWS = 16_384
# Matching pursuit stops when what is left is this much larger than the noise in the mean: patches of photographs are best at 1.1 to 1.2.
_LEFT = 1.15


def check_coder(coder: Any, n_nonzero: Any, penalty: Any) -> None:
    """Refuse coders that are not there, and settings that no coder has."""
    if coder not in CODERS:
        raise InputError(f"coder must be one of {', '.join(map(repr, CODERS))}, but {coder!r} was given.")
    if n_nonzero is not None:
        check_count("n_nonzero", n_nonzero)
    if penalty is not None:
        check_positive("penalty", penalty)


def sparse_codes(model: Any, X: np.ndarray, coder: str, n_nonzero: int | None, penalty: float | None) -> Any:
    """Codes of the samples as a csr_array, some thousands of samples at a time."""
    if coder != "posterior" and np.isnan(X).any():
        raise InputError(f"coder={coder!r} needs samples without missing entries; coder='posterior' does not.")
    encode = {"posterior": _posterior, "omp": _omp, "lars": _lars}[coder]
    parts = [encode(model, X[first : first + _ROWS], n_nonzero, penalty) for first in range(0, len(X), _ROWS)]
    return sparse.csr_array(sparse.vstack(parts))


def _posterior(model: Any, X: np.ndarray, n_nonzero: int | None, penalty: float | None) -> Any:
    codes, X = model._codes(X, "mean", "probability")
    return sparse.csr_array(np.where(codes.probability > 0.5, codes.mean, 0).astype(X.dtype))


def _omp(model: Any, X: np.ndarray, n_nonzero: int | None, penalty: float | None) -> Any:
    data, atoms, norms = _whitened(model, X)
    left = _LEFT**2 * data.shape[1]  # the noise has variance 1 here
    if find_spec("spams") is not None:
        import spams

        most = min(atoms.shape) if n_nonzero is None else n_nonzero
        stop = {"L": most} if n_nonzero is not None else {"eps": left, "L": most}
        found = spams.omp(np.asfortranarray(data.T), np.asfortranarray(atoms.T), **stop).T
    else:
        from sklearn.linear_model import orthogonal_mp_gram

        inner = atoms @ data.T
        sizes = None if n_nonzero is not None else np.sum(data**2, axis=1)
        found = orthogonal_mp_gram(
            atoms @ atoms.T, inner, n_nonzero_coefs=n_nonzero, tol=None if n_nonzero is not None else left, norms_squared=sizes
        )
        found = np.atleast_2d(found.T if found.ndim > 1 else found)
    return sparse.csr_array(found).multiply(1 / norms).tocsr().astype(X.dtype)


def _lars(model: Any, X: np.ndarray, n_nonzero: int | None, penalty: float | None) -> Any:
    data, atoms, norms = _whitened(model, X)
    # The largest of so many independent noises of variance 1 is about this.
    size = np.sqrt(2 * np.log(max(len(atoms), 2))) if penalty is None else penalty / np.sqrt(model.noise_variance_)
    if find_spec("spams") is not None:
        import spams

        found = spams.lasso(np.asfortranarray(data.T), np.asfortranarray(atoms.T), lambda1=float(size), mode=2).T
    else:
        from sklearn.decomposition import sparse_encode

        found = sparse_encode(data, atoms, algorithm="lasso_lars", alpha=float(size))
    return sparse.csr_array(found).multiply(1 / norms).tocsr().astype(X.dtype)


def _whitened(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples and components in units of each feature's noise, these of norm 1, and the norms they had."""
    noise = np.sqrt(np.maximum(model.feature_noise_.astype(np.float64), np.finfo(np.float64).tiny))
    atoms = model.components_ / noise
    norms = np.linalg.norm(atoms, axis=1)
    norms = np.where(norms > 0, norms, 1.0)
    return (X - model.mean_) / noise, atoms / norms[:, None], norms
