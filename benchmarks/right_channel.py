"""What the right channel buys: the same data solved with Gaussian noise, whose variance is learned, and with the channel that made them.

Calibration with N = M = 100 and 500 signals, eta = .1, density .1, noise of variance 1e-4; five draws of each. The error is that of X, the
atoms' scales fitted (sensors: their common scale too). Writes results/right_channel.csv. Two minutes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp

N, ALPHA, PI, RHO, ETA, NOISE, INSTANCES, FIRST_SEED = 100, 1.0, 5.0, 0.1, 0.1, 1e-4, 5, 300
RESULTS = Path(__file__).parent / "results" / "right_channel.csv"
# Cuts 10% of the entries, which are nearly normal with the variance RHO.
LEVEL = 1.645 * RHO**0.5


def with_faults(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three rows, nobody knows which, replaced by noise of the data's power."""
    rows = rng.choice(len(Y), 3, replace=False)
    Y = Y.copy()
    Y[rows] = Y.std() * rng.normal(size=Y[rows].shape)
    return Y


# How the data were made, the channel that says so, and what is done to them on top.
CASES: dict[str, tuple[sp.Channel, sp.Channel, Callable[..., np.ndarray] | None]] = {
    "Gaussian noise": (sp.GaussianNoise(NOISE), sp.GaussianNoise(NOISE), None),
    "1% outliers of 100 times the size": (sp.Outliers(NOISE, 0.01, 1e4 * NOISE), sp.Outliers(NOISE, 0.01, 1e4 * NOISE), None),
    "10% clipped": (sp.Clipped(-LEVEL, LEVEL, NOISE), sp.Clipped(-LEVEL, LEVEL, NOISE), None),
    "2 bits": (sp.Quantized.uniform(bits=2, reach=0.6), sp.Quantized.uniform(bits=2, reach=0.6), None),
    "counts of mean 3": (sp.Poisson(3.0), sp.Poisson(3.0), None),
    "3 faulty sensors of 100": (sp.GaussianNoise(NOISE), sp.FaultySensors(NOISE, 0.03, RHO), with_faults),
    "gains spread by 2": (sp.SensorGains(NOISE, np.log(2)), sp.SensorGains(NOISE, np.log(2)), None),
}


def solved(instance: Any, Y: np.ndarray, problem: sp.Problem | None) -> tuple[float, str, str]:
    """Error of X, status and reason; without a problem Gaussian noise is assumed, and its variance and the density are learned."""
    F_prime = instance.observed.F_prime
    solution = sp.solve(Y, F_prime=F_prime, eta=ETA) if problem is None else sp.solve(Y, problem, F_prime=F_prime)
    return sp.score(solution.mean, instance.truth).mse_scaled.X, str(solution.status), str(solution.reason)


def main() -> None:
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("case", "gaussian", "gaussian_converged", "right", "right_converged", "instances", "gaussian_status", "reason"))
        print(f"  {'':34s} Gaussian, converged;  right, converged;  ratio")
        for name, (made, right, spoil) in CASES.items():
            problem = sp.Problem.sparse(alpha=ALPHA, pi=PI, rho=RHO, eta=ETA).replace(channel=made)
            ends = []
            for seed in range(FIRST_SEED, FIRST_SEED + INSTANCES):
                instance = sp.sample(problem, N, seed=seed)
                Y = instance.observed.Y if spoil is None else spoil(instance.observed.Y, np.random.default_rng(seed))
                ends.append([solved(instance, Y, given) for given in (None, problem.replace(channel=right))])
            errors = [float(np.median([end[k][0] for end in ends])) for k in (0, 1)]
            sound = [sum(end[k][1] == "converged" for end in ends) for k in (0, 1)]
            statuses = ", ".join(dict.fromkeys(end[0][1] for end in ends))
            print(
                f"  {name:34s} {errors[0]:.2e}, {sound[0]} of {INSTANCES} ({statuses});  {errors[1]:.2e}, {sound[1]} of {INSTANCES};  "
                f"{errors[0] / errors[1]:.3g}",
                flush=True,
            )
            row = (name, f"{errors[0]:.3g}", sound[0], f"{errors[1]:.3g}", sound[1], INSTANCES, statuses, ends[0][0][2])
            table.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
