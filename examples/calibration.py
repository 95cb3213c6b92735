"""A sensing matrix known to 10%, calibrated by the very measurements it makes of unknown sparse signals.

    python examples/calibration.py [--size 100] [--signals 800] [--out DIR]

Signals are estimated with the nominal matrix (its errors count as noise), with the matrix calibrated on the way, and with the true one.
Only the calibration learns the density and the noise from the data; the other two are told both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import spinodal as sp
from spinodal.figures.theory import blank_figure

# 10% off: the variance of the errors is a hundredth of the entries'.
ETA, NOISE, DENSITY, MEASUREMENTS = 0.01, 1e-4, 0.1, 0.5


def compare(size: int, signals: int, seed: int) -> dict[str, np.ndarray]:
    """Mean squared error of each signal, over the signals' power, by the matrix that was used."""
    problem = sp.Problem.sparse(alpha=MEASUREMENTS, pi=signals / size, rho=DENSITY, eta=ETA, noise_variance=NOISE)
    instance = sp.sample(problem, size, seed=seed)
    Y, nominal = instance.observed.Y, instance.observed.F_prime
    # F' = (F + sqrt(eta) errors)/sqrt(1 + eta): the best guess of F before any measurement is F'/sqrt(1 + eta).
    matrices = {"nominal": (nominal / np.sqrt(1 + ETA), NOISE + DENSITY * ETA / (1 + ETA)), "true": (instance.truth.F, NOISE)}
    errors = {}
    for name, (matrix, noise) in matrices.items():
        # eta = 0: the matrix is taken as exact, and its errors count as noise.
        exact = sp.Model.sparse(rho=DENSITY, eta=0.0, noise_variance=noise)
        errors[name] = error(sp.solve(Y, exact, F_prime=matrix), instance)
    errors["calibrated"] = error(sp.solve(Y, F_prime=nominal, eta=ETA), instance)
    return {name: errors[name] for name in ("nominal", "calibrated", "true")}


def error(solution: sp.Solution, instance: sp.Instance) -> np.ndarray:
    truth = instance.truth.X
    return np.mean((solution.mean.X - truth) ** 2, axis=0) / np.mean(truth**2)


def figure(errors: dict[str, np.ndarray]) -> Figure:
    """The share of signals with an error below some value."""
    drawing, (panel,) = blank_figure(6.0, 3.8)
    for name, values in errors.items():
        panel.step(np.sort(values), np.arange(1, len(values) + 1) / len(values), where="post", label=f"{name} matrix")
    panel.set(xscale="log", xlabel="squared error of a signal / power of the signals", ylabel="share of signals below", ylim=(0, 1.02))
    panel.legend()
    return drawing


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--signals", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args(arguments)
    errors = compare(options.size, options.signals, options.seed)
    for name, values in errors.items():
        spread = values.std() / np.sqrt(len(values))
        print(f"{name + ' matrix':20s} error / power {values.mean():.2e} +- {spread:.0e}, of the median signal {np.median(values):.2e}")
    options.out.mkdir(parents=True, exist_ok=True)
    figure(errors).savefig(options.out / "calibration.png", dpi=110)


if __name__ == "__main__":
    main()
