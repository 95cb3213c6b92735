"""Dictionary learning in noise: what `solve` finds with its defaults, and what it says of it, against a run started from the truth.

`python -m benchmarks noise --shapes 0 1 --snr 5 10` runs some of the grid, `--auto` with everything learned. An atom is there if one is
within 1 - cos^2 < max(1e-4, 10 D) of it, where D is state evolution's error. A result is right if all atoms are there, and wrong if it
lacks one that the informed run has; it is neither if it only lacks what that lacks too, or if 10 D is above 1, where any atom would do.
Writes results/noise.csv (or noise_auto.csv), a row for each instance, in place of earlier rows of the same cells. Minutes a shape on a CPU
for the first four; the others are for a GPU.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp
from spinodal.inference.solution import Trace

LONG = True  # runs only when named
SMALL = ((40, 20, 600, 0.15), (40, 40, 600, 0.15), (64, 64, 2000, 0.1), (100, 50, 1000, 0.1))
SHAPES = (*SMALL, (200, 100, 1000, 0.1), (256, 64, 10_000, 0.05))
SNR = (5.0, 10.0, 15.0, 20.0, 30.0)
FIRST_SEED, INSTANCES = 70_000, 10
# So many iterations of the informed run, with a tolerance that does not end it before.
FORGETS, NEVER = 1000, 1e-12
# A result is as good as the informed run's within this factor of its mean error, and a free entropy no lower than this.
AS_GOOD, AS_LIKELY = 1.2, 1e-4
RESULTS = Path(__file__).parent / "results"
FIELDS = ("N", "M", "P", "rho", "snr", "seed", "error", "informed", "predicted", "worst", "entropy", "all_there", "missing", "kind")
FIELDS += ("status", "runs", "least_reproducibility", "density", "noise_variance", "seconds")


def angles(F: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """1 - cos^2 of each true atom and the one matched to it."""
    return sp.score(*(sp.Pair(atoms, np.zeros((atoms.shape[1], 1))) for atoms in (F, truth))).angle


def informed_run(instance: sp.Instance, problem: sp.Problem) -> sp.Solution:
    """The same solver started from the truth, and run until it forgets what it need not know: near its fixed point it drifts so slowly
    that the usual tolerance would end it after twenty iterations, with an error of up to a fifth less than its own fixed point's."""
    F, X = instance.truth
    sure = sp.Pair(np.full(F.shape, 0.05), np.full(X.shape, 1e-3))
    nothing = Trace(*(np.zeros(0),) * 4)
    start = sp.Solution(instance.truth, sure, sp.Status.CONVERGED, "the truth", 0, 0.0, 0.0, nothing)
    until = {"max_iterations": FORGETS, "tolerance": NEVER}
    return sp.solve(instance.observed, problem, n_atoms=F.shape[1], start=start, search=sp.Search(repair=False), **until)


def kind(worst: float, missing: int, close: float) -> str:
    """What a result is: right, wrong or neither."""
    if close >= 1:
        return "neither"
    return "wrong" if missing else "right" if worst < close else "neither"


def measure(shape: tuple[int, int, int, float], snr: float, seed: int, auto: bool) -> dict[str, Any]:
    N, M, P, rho = shape
    problem = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=rho, noise_variance=rho * 10 ** (-snr / 10))
    instance = sp.sample(problem, N, seed=seed)
    predicted = float(sp.bayes_mmse(problem).mse.F)
    close = max(1e-4, 10 * predicted)
    best = informed_run(instance, problem)
    expected = angles(best.mean.F, instance.truth.F)
    begun = time.perf_counter()
    found = sp.solve(instance.observed, None if auto else problem, n_atoms=N, seed=seed)
    seconds = time.perf_counter() - begun
    error = angles(found.mean.F, instance.truth.F)
    missing = int(np.sum((expected < close) & (error >= close)))
    return {
        **dict(zip(("N", "M", "P", "rho", "snr", "seed"), (*shape, snr, seed), strict=True)),
        "error": np.mean(error),
        "informed": np.mean(expected),
        "predicted": predicted,
        "worst": np.max(error),
        "entropy": float(found.free_entropy) - float(best.free_entropy),
        "all_there": int(np.all(expected < close)),
        "missing": missing,
        "kind": kind(float(np.max(error)), missing, close),
        "status": str(found.status),
        "runs": int(found.runs),
        "least_reproducibility": float(np.nanmin(found.reproducibility)),
        "density": found.model.prior.X.rho / rho,
        "noise_variance": found.model.noise_variance / problem.noise_variance,
        "seconds": seconds,
    }


def summed_up(rows: Sequence[dict[str, Any]]) -> str:
    """A cell in a line."""
    good = sum(row["error"] < AS_GOOD * row["informed"] for row in rows)
    likely = sum(row["entropy"] > -AS_LIKELY for row in rows)
    wrong, right = ([row for row in rows if row["kind"] == each] for each in ("wrong", "right"))
    trusted = [sum(row["status"] == "converged" for row in some) for some in (wrong, right)]
    ratio = np.mean([row["error"] / row["informed"] for row in rows])
    return (
        f"error {ratio:.2f} of the informed run's, as good in {good} of {len(rows)}, as likely in {likely}; "
        f"{len(wrong)} wrong ({trusted[0]} called converged), {len(right)} right ({trusted[1]} called converged); "
        f"{np.median([row['runs'] for row in rows]):.0f} runs, {np.median([row['seconds'] for row in rows]):.1f} s"
    )


def keep(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The rows in the file, in place of those of the same instances."""
    old = list(csv.DictReader(path.open())) if path.exists() else []
    new = [{name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()} for row in rows]
    kept = {tuple(row[name] for name in FIELDS[:6]): row for row in (*old, *new)}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks noise", description=__doc__)
    parser.add_argument("--shapes", type=int, nargs="+", default=range(4), choices=range(len(SHAPES)), help="which of the six")
    parser.add_argument("--snr", type=float, nargs="+", default=SNR, help="signal-to-noise ratios in dB")
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--auto", action="store_true", help="learn the density, the noise and the scale")
    given = parser.parse_args(arguments)
    path = RESULTS / ("noise_auto.csv" if given.auto else "noise.csv")
    for shape in (SHAPES[k] for k in given.shapes):
        for snr in given.snr:
            rows = [measure(shape, snr, FIRST_SEED + k, given.auto) for k in range(given.instances)]
            print(f"N, M, P, rho = {shape}, {snr:g} dB: {summed_up(rows)}", flush=True)
            keep(path, rows)
