"""Measured against predicted errors for every channel: one easy point of calibration (eta = .1) and one of dictionary learning each.

The error is that of F and X with the scales of the atoms fitted (and, without F', order and signs), over what state evolution predicts for
the same point. Signs do not show the size of a signal, and a gain not that of its row of F: these are fitted too. Writes
results/channels.csv. `--n 200 --seeds 10` is the whole; on two CPU cores `--n 60 --seeds 2` takes some minutes.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import spinodal as sp
from spinodal.evaluation.scoring import align

LONG = True  # runs only when named
NOISE, FIRST_SEED, WITHIN = 1e-3, 700, 1.5
NUMBERS = ("predicted_F", "predicted_X", "ratio_F", "ratio_X")
RESULTS = Path(__file__).parent / "results" / "channels.csv"


class Case(NamedTuple):
    """A channel, and where it is easy: alpha and pi of calibration, and of dictionary learning (None: nowhere near)."""

    channel: sp.Channel
    calibration: tuple[float, float]
    dictionary: tuple[float, float] | None


CASES = {
    "Gaussian noise": Case(sp.GaussianNoise(NOISE), (1.2, 5.0), (1.2, 8.0)),
    "outliers": Case(sp.Outliers(NOISE, 0.05, 1.0), (1.2, 5.0), (1.2, 8.0)),
    "Student noise": Case(sp.StudentNoise(0.03, 3.0), (1.2, 5.0), (1.2, 8.0)),
    "clipped": Case(sp.Clipped(-0.4, 0.4, NOISE), (1.2, 5.0), (1.2, 10.0)),
    "4 bits": Case(sp.Quantized.uniform(bits=4, reach=0.8), (1.2, 5.0), (1.2, 8.0)),
    "2 bits": Case(sp.Quantized.uniform(bits=2, reach=0.4), (1.5, 8.0), (1.5, 14.0)),
    "1 bit": Case(sp.OneBit(0.0, 0.0), (3.0, 12.0), (3.0, 20.0)),
    "binary": Case(sp.Binary("probit", 0.1), (3.0, 12.0), None),
    "counts": Case(sp.Poisson(100.0), (1.5, 8.0), (1.5, 14.0)),
    "gains": Case(sp.SensorGains(NOISE, 0.3), (1.2, 5.0), (1.2, 8.0)),
    "offsets": Case(sp.SensorOffsets(NOISE, 0.1), (1.2, 5.0), (1.2, 8.0)),
    "faulty sensors": Case(sp.FaultySensors(NOISE, 0.05, 0.1), (1.2, 5.0), (1.2, 10.0)),
}


def errors(solution: sp.Solution, truth: Any, channel: sp.Channel, known: bool) -> tuple[float, float]:
    """Of F and of X, with what nobody can know fitted."""
    F, X = solution.mean
    if isinstance(channel, (sp.OneBit, sp.Binary)):
        # The size of a signal does not show in signs: one factor for each, from F X, which knows no order of the atoms.
        Z, true = F @ X, truth.F @ truth.X
        X = X * np.sum(Z * true, axis=0) / np.maximum(np.sum(Z**2, axis=0), 1e-30)
    if isinstance(channel, sp.Sensors) and (known or channel.gains is not None):
        F, X = (F, X) if known else align(sp.Pair(F, X), truth)
        X = X * np.sum(X * truth.X) / np.maximum(np.sum(X**2), 1e-30)  # of all gains a common factor is free
        if channel.gains is not None:
            # The size of a row of F and the gain of its sensor can't be told apart.
            F = F * (np.sum(F * truth.F, axis=1) / np.maximum(np.sum(F**2, axis=1), 1e-30))[:, None]
    found = sp.score(sp.Pair(F, X), truth)
    error = found.mse_scaled if known else found.mse_aligned
    if isinstance(channel, sp.Sensors) and channel.faulty is not None:
        works = solution.sensors.faulty < 0.5  # of a faulty sensor's row of F nothing is learned
        rows = sp.score(sp.Pair(F[works], X), sp.Pair(truth.F[works], truth.X))
        error = error._replace(F=(rows.mse_scaled if known else rows.mse_aligned).F)
    return float(error.F), float(error.X)


def prediction(problem: sp.Problem) -> sp.Pair[float]:
    """Errors of F and X at the fixed point that state evolution reaches; with gains, those of each row of F, averaged."""
    if problem.channel.rows_apart() is problem.channel:
        return sp.amp_mse(problem).mse
    course = sp.state_evolution(problem).mse
    return sp.Pair(float(course.F[-1]), float(course.X[-1]))


def measure(n: int, seeds: int, names: Sequence[str], kinds: Sequence[str]) -> None:
    """What is not measured now is kept."""
    kept: list[list[str]] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            kept = list(csv.reader(file))[1:]
        kept = [row for row in kept if row[0] not in names or row[1] not in kinds]
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("channel", "kind", "alpha", "pi", "n", *NUMBERS, "within", "converged", "of"))
        table.writerows(kept)
        for kind, eta in (("calibration", 0.1), ("dictionary", np.inf)):
            for name in names if kind in kinds else ():
                case = CASES[name]
                place = case.calibration if kind == "calibration" else case.dictionary
                if place is None:
                    continue
                begun = time.perf_counter()
                problem = sp.Problem.sparse(alpha=place[0], pi=place[1], rho=0.1, eta=eta).replace(channel=case.channel)
                predicted = prediction(problem)
                drawn = [sp.sample(problem, n, seed=seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
                given = [np.stack([getattr(each.observed, field) for each in drawn]) for field in ("Y", "F_prime")[: 2 - np.isinf(eta)]]
                observed = sp.Observed(*given, *(None,) * (3 - len(given)))
                options: dict[str, Any] = {"n_atoms": n, "runs": 2, "max_iterations": 1000} if np.isinf(eta) else {}
                together = sp.solve(observed, problem, **options)
                found = [errors(together[k], each.truth, case.channel, known=kind == "calibration") for k, each in enumerate(drawn)]
                ratios = [(F / predicted.F, X / predicted.X) for F, X in found]
                converged = sum(status == "converged" for status in together.status)
                F, X = np.median(ratios, axis=0)
                within = sum(max(ratio) < WITHIN for ratio in ratios)
                print(
                    f"  {name:15s} {kind:12s} predicted F {predicted.F:.2e} X {predicted.X:.2e}; measured/predicted, median: F {F:.2f} "
                    f"X {X:.2f}; within {WITHIN}: {within} of {seeds}; converged {converged}; {time.perf_counter() - begun:.0f} s",
                    flush=True,
                )
                numbers = (f"{value:.4g}" for value in (predicted.F, predicted.X, F, X))
                table.writerow((name, kind, *place, n, *numbers, within, converged, seeds))
                file.flush()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks channels", description=__doc__)
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default=",".join(CASES), help="names of channels, separated by commas")
    parser.add_argument("--kinds", default="calibration,dictionary")
    options = parser.parse_args(arguments)
    measure(options.n, options.seeds, options.only.split(","), options.kinds.split(","))


if __name__ == "__main__":
    main()
