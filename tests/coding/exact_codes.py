"""Samples drawn from a small model, and their codes by the sum over all supports."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from spinodal.inference.coding import CodingModel, Slab

SLAB = Slab(0.3, 0.4, 2.0)


class Exact(NamedTuple):
    mean: np.ndarray
    evidence: np.ndarray


def summed_over_supports(model: CodingModel, y: np.ndarray) -> Exact:
    """Evidence and mean codes of each sample (row) by enumeration."""
    rho, m, v = model.slab
    N, M = model.components.shape
    logs, means = [], []
    for support in itertools.product([False, True], repeat=N):
        on = np.array(support)
        G = model.components[on]
        covariance = model.noise_variance * np.eye(M) + v * G.T @ G
        error = y - m * G.sum(axis=0)
        solved = np.linalg.solve(covariance, error.T).T
        log = -(np.sum(error * solved, axis=1) + np.linalg.slogdet(2 * np.pi * covariance)[1]) / 2
        logs.append(log + on.sum() * np.log(rho) + (~on).sum() * np.log1p(-rho))
        codes = np.zeros((len(y), N))
        codes[:, on] = m + v * solved @ G.T
        means.append(codes)
    weights = np.exp(np.array(logs) - np.logaddexp.reduce(logs, axis=0))
    return Exact(np.einsum("sp,spn->pn", weights, np.array(means)), np.logaddexp.reduce(logs, axis=0))


def drawn(N: int, M: int, samples: int, noise: float) -> tuple[CodingModel, np.ndarray, np.ndarray]:
    """A model, codes and samples."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(N, M)) / np.sqrt(M) + rng.normal(size=M) / np.sqrt(M)  # atoms with something in common
    x = (rng.random((samples, N)) < SLAB.density) * (SLAB.mean + np.sqrt(SLAB.variance) * rng.normal(size=(samples, N)))
    return CodingModel(G, np.zeros_like(G), SLAB, noise), x, x @ G + np.sqrt(noise) * rng.normal(size=(samples, M))
