"""Data that no model of ours has made: what status and which warnings a solve with all defaults gives.

Writes results/wrong_models.csv, which the table of docs/evidence/wrong-models.md is made from.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import spinodal as sp

N, M, P, RHO = 24, 24, 400, 0.15
DECIBELS, INSTANCES, FIRST_SEED, ITERATIONS = (5, 10, 20, 40), 10, 900, 2000
RESULTS = Path(__file__).parent / "results" / "wrong_models.csv"
Draw = Callable[[np.random.Generator, float], np.ndarray]


def sparse(rng: np.random.Generator, delta: float, atoms: int = N, signals: int = P) -> np.ndarray:
    """Data drawn from the model."""
    F, X = rng.standard_normal((M, atoms)), rng.standard_normal((atoms, signals))
    X *= rng.random(X.shape) < RHO
    return F @ X / np.sqrt(atoms) + np.sqrt(delta) * rng.standard_normal((M, signals))


def noisier_rows(rng: np.random.Generator, delta: float) -> np.ndarray:
    """Some rows have noise of ten times the size."""
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


# What a warning is about, by words of it.
KINDS = {
    "mean of Y": "mean",
    "rows look like the signals": "orientation",
    "far more noise": "noisy rows",
    "outlier": "outliers",
    "clipped": "clipped",
    "first half": "drift",
    "no better than noise": "noise only",
    "differ from signal to signal": "unexplained signals",
    "the fit explains noise": "noise is fitted",
    "the learned density": "density",
    "the learned noise is": "noise variance",
}


def attempt(draw: Draw, decibels: float) -> tuple[Counter[str], Counter[str], int]:
    """How often each status and each kind of warning came, and how many converged without a warning."""
    Y = np.stack([draw(np.random.default_rng(FIRST_SEED + k), RHO * 10 ** (-decibels / 10)) for k in range(INSTANCES)])
    solution = sp.solve(Y, n_atoms=N, max_iterations=ITERATIONS)
    warned = Counter(kind for each in solution.warnings for words, kind in KINDS.items() if any(words in warning for warning in each))
    silent = sum(status.trusted and not each for status, each in zip(solution.status, solution.warnings, strict=True))
    return Counter(map(str, solution.status)), warned, silent


def main() -> None:
    print(f"N = {N}, M = {M}, P = {P}, rho = {RHO}; {INSTANCES} instances, everything learned")
    print(f"  {'':30s} {'SNR':>5s}  converged, of these without a warning  warnings")
    rows = []
    for name, draw in CASES.items():
        for decibels in DECIBELS:
            statuses, warned, silent = attempt(draw, decibels)
            told = ", ".join(f"{kind} {count}" for kind, count in warned.most_common())
            rows.append((name, decibels, INSTANCES, statuses["converged"], silent, told))
            print(f"  {name:30s} {decibels:2d} dB  {statuses['converged']:9d}, {silent:26d}  {told}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "decibels", "instances", "converged", "converged_without_warning", "warnings"))
        writer.writerows(rows)
