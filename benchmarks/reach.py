"""What dictionary learning from scratch reaches: defaults, ten instances of each case in one batch, success without any atom missing.

Meant for a GPU: minutes there. The table "What it reaches" of docs/evidence/dictionary-learning.md is of these cases.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

import spinodal as sp
from spinodal.evaluation.record import record

LONG = True
INSTANCES, FIRST_SEED = 10, 12_000


class Case(NamedTuple):
    """Sizes, density (or nonzeros of each signal), noise."""

    N: int
    M: int
    P: int
    rho: float
    delta: float = 1e-8
    nonzeros: int | None = None


def square(N: int, nonzeros: int) -> Case:
    return Case(N, N, int(np.ceil(5 * N * np.log(N))), nonzeros / N, 1e-10, nonzeros)


CASES = (
    Case(200, 100, 1000, 0.1),
    Case(200, 100, 1000, 0.1, 1e-5),
    Case(300, 150, 900, 0.1),
    Case(300, 150, 900, 0.1, 1e-5),
    *(Case(100, 50, P, rho) for P in (500, 1000) for rho in (0.05, 0.1)),
    *(Case(64, 32, 640, rho) for rho in (0.15, 0.2)),
    *(square(N, N * tenths // 10) for N in (20, 50) for tenths in (1, 2, 3, 4)),
    Case(300, 150, 2882, 0.2),
)


def draw(case: Case, seed: int) -> tuple[np.ndarray, sp.Pair[np.ndarray]]:
    rng = np.random.default_rng(seed)
    F, X = rng.standard_normal((case.M, case.N)), rng.standard_normal((case.N, case.P))
    chance = rng.random(X.shape)
    X *= chance < case.rho if case.nonzeros is None else np.argsort(np.argsort(chance, axis=0), axis=0) < case.nonzeros
    noise = np.sqrt(case.delta) * rng.standard_normal((case.M, case.P))
    return F @ X / np.sqrt(case.N) + noise, sp.Pair(F, X)


def main() -> None:
    for case in CASES:
        problem = sp.Problem.sparse(alpha=case.M / case.N, pi=case.P / case.N, rho=case.rho, noise_variance=case.delta)
        drawn = [draw(case, FIRST_SEED + k) for k in range(INSTANCES)]
        started = time.perf_counter()
        solution = sp.solve(np.stack([Y for Y, _ in drawn]), problem, n_atoms=case.N, seed=FIRST_SEED)
        seconds = time.perf_counter() - started
        truth = sp.Pair(*(np.stack(values) for values in zip(*(truth for _, truth in drawn), strict=True)))
        found = record(solution, truth)
        if case.nonzeros is None:
            predicted = float(sp.amp_mse(problem).mse.F)
            ratio = found.angle / predicted
            worst = np.max(found.score.angle) / predicted
            error = f"1 - cos^2 over D = {predicted:.1e}: {np.mean(ratio):.2f} (worst {np.max(ratio):.2f}, worst atom {worst:.1f})"
        else:
            error = f"worst {10 * np.log10(np.max(found.score.mse_aligned.F)):.0f} dB"
        what = f"rho {case.rho:g}" if case.nonzeros is None else f"{case.nonzeros} nonzeros"
        print(
            f"N = {case.N}, M = {case.M}, P = {case.P}, {what}, Delta {case.delta:g}: {np.sum(found.learned)} of {INSTANCES}; "
            f"{error}; iterations {np.min(solution.iterations)}-{np.max(solution.iterations)}; "
            f"converged {np.sum(found.converged)}; {seconds:.0f} s",
            flush=True,
        )
