"""Data that no model of ours has made: what status and which warnings a solve with all defaults gives.

Writes results/wrong_models.csv, which the table of docs/limits.md is made from.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import spinodal as sp

N, M, P, RHO = 24, 24, 400, 0.15
DECIBELS, INSTANCES, FIRST_SEED, ITERATIONS = (10, 20, 40), 5, 900, 2000
RESULTS = Path(__file__).parent / "results" / "wrong_models.csv"
Draw = Callable[[np.random.Generator, float], np.ndarray]


def sparse(rng: np.random.Generator, delta: float, atoms: int = N, signals: int = P) -> np.ndarray:
    """Data drawn from the model."""
    F, X = rng.standard_normal((M, atoms)), rng.standard_normal((atoms, signals))
    X *= rng.random(X.shape) < RHO
    return F @ X / np.sqrt(atoms) + np.sqrt(delta) * rng.standard_normal((M, signals))


def noisier_rows(rng: np.random.Generator, delta: float) -> np.ndarray:
    """One row in five has noise of ten times the size."""
    Y = sparse(rng, delta)
    Y[:: M // 5 + 1] += np.sqrt(99 * delta) * rng.standard_normal(Y[:: M // 5 + 1].shape)
    return Y


def outliers(rng: np.random.Generator, delta: float) -> np.ndarray:
    Y = sparse(rng, delta)
    return np.where(rng.random(Y.shape) < 0.01, 100 * Y, Y)


def clipped(rng: np.random.Generator, delta: float) -> np.ndarray:
    """At one standard deviation."""
    Y = sparse(rng, delta)
    return np.clip(Y, -Y.std(), Y.std())


CASES: dict[str, Draw] = {
    "the model": sparse,
    "noisier rows": noisier_rows,
    "dictionary replaced halfway": lambda rng, delta: np.hstack([sparse(rng, delta, signals=P // 2) for _ in range(2)]),
    "half the true number of atoms": lambda rng, delta: sparse(rng, delta, atoms=2 * N),
    "1% outliers x100": outliers,
    "clipped data": clipped,
    "pure noise": lambda rng, delta: np.sqrt(RHO + delta) * rng.standard_normal((M, P)),
    "wrong orientation": lambda rng, delta: sparse(rng, delta).T,
    "mean 50": lambda rng, delta: sparse(rng, delta) + 50,
}


def attempt(draw: Draw, decibels: float) -> tuple[Counter[str], Counter[str], int]:
    """How often each status and each warning came (by its first words), and how many converged without a warning."""
    statuses, warned, silent = Counter[str](), Counter[str](), 0
    for k in range(INSTANCES):
        Y = draw(np.random.default_rng(FIRST_SEED + k), RHO * 10 ** (-decibels / 10))
        solution = sp.solve(Y, n_atoms=N, max_iterations=ITERATIONS)
        statuses[str(solution.status)] += 1
        warned.update(solution.warnings)
        silent += bool(solution.status.trusted and not solution.warnings)
    return statuses, warned, silent
