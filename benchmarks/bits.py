"""What a quantiser of few bits costs: signals per atom with which dictionary learning recovers nine tenths of F, against the density.

`python -m benchmarks bits` asks the theory, with 1 to 4 bits and with none lost (uniform cells of the width that is best for normal z; Max
1960), writes results/bits.csv and draws docs/images/bits.png. No run of an algorithm is in it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import spinodal as sp
from spinodal.figures.palette import BLUE, GREEN, GREY, ORANGE, VERMILION
from spinodal.figures.theory import blank_figure

LONG = True  # runs only when named
ALPHA = 1.0
DENSITIES = np.round(np.linspace(0.02, 0.5, 13), 3)
# The best width of a uniform cell for a normal variable, in standard deviations, by the number of bits.
BEST_STEP = {1: 1.5958, 2: 0.9957, 3: 0.5860, 4: 0.3352}
COLOURS = {1: VERMILION, 2: ORANGE, 3: GREEN, 4: BLUE, np.inf: GREY}
RESULTS = Path(__file__).parent / "results" / "bits.csv"
# The largest error of F that counts, the range in which pi is looked for, and the halvings of its logarithm.
ENOUGH, RANGE, HALVINGS = 0.1, (1.0, 1e3), 14
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "bits.png"


def problem(rho: float, bits: float) -> sp.Problem:
    """Dictionary learning through a quantiser that fits the power of z; inf: z itself."""
    whole = sp.Problem.sparse(alpha=ALPHA, pi=1.0, rho=float(rho))
    if np.isinf(bits):
        return whole
    reach = BEST_STEP[int(bits)] * np.sqrt(rho) * 2 ** (bits - 1)
    return whole.replace(channel=sp.Quantized.uniform(bits=int(bits), reach=float(reach)))


def enough(rho: float, bits: float) -> float:
    """The fewest signals per atom at which AMP is promised so small an error; NaN if the range has none."""
    asked = problem(rho, bits)

    def reached(pi: float) -> bool:
        return float(sp.amp_mse(asked.replace(pi=float(pi))).mse.F) <= ENOUGH

    low, high = RANGE
    if not reached(high):
        return np.nan
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def draw(rows: Sequence[dict[str, float]]) -> None:
    figure, (axis,) = blank_figure(6.4, 4.2)
    for bits, colour in COLOURS.items():
        here = [row for row in rows if row["bits"] == bits]
        label = "no bit lost" if np.isinf(bits) else f"{bits:g} bit" + "s" * (bits > 1)
        axis.plot([row["rho"] for row in here], [row["pi"] for row in here], "o-", ms=3, color=colour, label=label)
    axis.set(xlabel=r"density $\rho$", ylabel=r"signals per atom $\pi$ for 90% of F", yscale="log", xlim=(0, None))
    axis.set_yticks([1, 2, 3, 5, 10, 20, 30], ["1", "2", "3", "5", "10", "20", "30"])
    axis.minorticks_off()
    axis.legend(frameon=False)
    figure.savefig(FIGURE, dpi=120)


def main(arguments: Sequence[str] = ()) -> None:
    rows = []
    for bits in COLOURS:
        for rho in DENSITIES:
            rows.append({"bits": float(bits), "rho": float(rho), "pi": enough(rho, bits)})
        print(f"{bits:g} bits: " + ", ".join(f"{row['pi']:.3g}" for row in rows[-len(DENSITIES) :]), flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, ("bits", "rho", "pi"), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: f"{value:.6g}" for name, value in row.items()} for row in rows)
    draw(rows)
