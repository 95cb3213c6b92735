"""How many signals dictionary learning needs as the number of atoms grows: the smallest pi at which nine of ten instances are learned.

`python -m benchmarks frontier --rho 0.1 --sizes 100 200` walks down (or up) in pi until fewer than nine in ten are learned, all instances
of a point in one batch, and appends each point to results/frontier.csv; `--points 0.1:400:1.25` does single points (density, atoms,
spinodals), and `--first-seed 507 --instances 1` one of their instances. `--single` makes one run of each instance instead of runs that
vote. Meant for a GPU: on two CPU cores a point that fails takes minutes at N = 100 already. `--draw` draws what the file holds.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import spinodal as sp
from spinodal.evaluation.record import Record, record, solve_drawn
from spinodal.figures.palette import BLUE, GREY, ORANGE, VERMILION
from spinodal.figures.theory import blank_figure
from spinodal.model.sampling import sample_each

LONG = True  # runs only when named
RATIOS = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.5, 7.5)
ALPHA, NOISE, ENOUGH, FIRST_SEED = 0.5, 1e-8, 0.9, 500
VOTE, SINGLE = "vote", "single run"
# An atom is half right if its squared sine is below this.
HALF_RIGHT = 0.5
RESULTS = Path(__file__).parent / "results" / "frontier.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "frontier.png"
COLOURS = {0.05: BLUE, 0.1: ORANGE, 0.2: VERMILION}


def attempt(problem: sp.Problem, n: int, seeds: range, method: str) -> Record:
    """An instance for each seed drawn, solved and scored."""
    drawn = sample_each([problem] * len(seeds), n, seeds=seeds)
    return record(solve_drawn(drawn, problem, seed=seeds[0], search=sp.Search(vote=method == VOTE)), drawn.truth)


def point(rho: float, n: int, ratio: float, seeds: range, method: str) -> bool:
    """Whether enough are learned at one point, which is printed and kept."""
    P = round(ratio * float(sp.spinodal(sp.Problem.sparse(alpha=ALPHA, pi=1.0, rho=rho, noise_variance=NOISE))) * n)
    problem = sp.Problem.sparse(alpha=ALPHA, pi=P / n, rho=rho, noise_variance=NOISE)
    started, instances = time.perf_counter(), len(seeds)
    found = attempt(problem, n, seeds, method)
    seconds, solved, right = time.perf_counter() - started, int(np.sum(found.learned)), float(np.mean(found.score.angle < HALF_RIGHT))
    print(
        f"{method}: rho = {rho:g}, N = {n}, {ratio:g} spinodals: {solved} of {instances}, {np.sum(found.converged)} called converged, "
        f"{right:.0%} of the atoms half right, {found.iterations.min()}-{found.iterations.max()} iterations, {seconds:.0f} s",
        flush=True,
    )
    with RESULTS.open("a", newline="") as file:
        row = (method, rho, n, ratio, P, solved, instances, found.iterations.min(), found.iterations.max())
        csv.writer(file, lineterminator="\n").writerow(row)
    return solved >= ENOUGH * instances


def walk(rho: float, n: int, seeds: range, first: float, method: str) -> None:
    """From the first ratio of pi to the spinodal down while enough are learned, or up until enough are."""
    place, seen = RATIOS.index(first), set[int]()
    while 0 <= place < len(RATIOS) and place not in seen:
        seen.add(place)
        place += -1 if point(rho, n, RATIOS[place], seeds, method) else 1


def draw() -> None:
    """Filled: at least nine in ten learned. Open: fewer. The lines: the fewest signals that were enough."""
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    figure, axes = blank_figure(9.6, 3.8, 1, 3, sharey=True)
    for axis, (rho, colour) in zip(axes, COLOURS.items(), strict=True):
        for method, own, size in ((SINGLE, GREY, 5), (VOTE, colour, 8)):
            here = [{key: float(value) for key, value in row.items() if key != "method"} for row in rows if row["method"] == method]
            here = [row for row in here if row["rho"] == rho]
            for row in here:
                share = row["solved"] / row["instances"]
                axis.plot(row["N"], row["spinodals"], "o", ms=size, mfc=own if share >= ENOUGH else "white", mec=own, zorder=size)
                if method == VOTE and 0 < share < 1:
                    label = f" {row['solved']:.0f}/{row['instances']:.0f}"
                    axis.annotate(label, (row["N"], row["spinodals"]), xytext=(7, -2), textcoords="offset points", fontsize=8, va="top")
            enough: dict[float, float] = {}
            for row in here:
                if row["solved"] >= ENOUGH * row["instances"]:
                    enough[row["N"]] = min(row["spinodals"], enough.get(row["N"], np.inf))
            axis.plot(*zip(*sorted(enough.items()), strict=True), color=own, lw=1, label=method)
        axis.axhline(1, color=GREY, ls=":")
        axis.set(xscale="log", yscale="log", xlabel="atoms N", title=rf"$\rho$ = {rho:g}", ylim=(0.9, 9), xlim=(80, 1200))
        axis.set_xticks([100, 200, 400, 800], ["100", "200", "400", "800"])
        axis.set_yticks([1, 1.5, 2, 3, 4, 6, 8], ["1", "1.5", "2", "3", "4", "6", "8"])
        axis.minorticks_off()
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylabel(r"signals per atom $\pi$, in spinodals")
    axes[0].annotate("spinodal", (85, 1.02), fontsize=8, color=GREY)
    figure.savefig(FIGURE, dpi=120)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks frontier", description=__doc__)
    parser.add_argument("--rho", type=float, nargs="+", default=sorted(COLOURS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[100])
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="of the first instance; the others follow it")
    parser.add_argument("--first", type=float, choices=RATIOS, default=2.0, help="pi over the spinodal to begin with")
    parser.add_argument("--points", nargs="+", metavar="RHO:N:RATIO", help="these points only")
    parser.add_argument("--single", action="store_true", help="one run of each instance")
    parser.add_argument("--draw", action="store_true", help="only draw the results so far")
    given = parser.parse_args(arguments)
    method, seeds = SINGLE if given.single else VOTE, range(given.first_seed, given.first_seed + given.instances)
    if given.points:
        for rho, n, ratio in (words.split(":") for words in given.points):
            point(float(rho), int(n), float(ratio), seeds, method)
    elif not given.draw:
        for rho in given.rho:
            for n in given.sizes:
                walk(rho, n, seeds, given.first, method)
    draw()
