"""Tables filled in: spinodal.complete beside scikit-learn's FactorAnalysis and SoftImpute, on real data.

    python -m benchmarks completion [--data digits,patches] [--methods 'Spinodal;SoftImpute'] [--design holes,rows] [--figure]

Some entries of tables that are known are held out at random: a fifth of all (holes), or a fifth of those in half of the rows (rows), so
that the other half is whole. Errors are in units of each feature's standard deviation; densities are those of the standardised features,
natural logarithms, a mean over the held-out entries. Coverage is the share of them in the intervals.

FactorAnalysis can't learn from rows with holes. In the first design it learns from a table that it filled in itself, ten times; in the
second from the rows that are whole. Held-out entries are then normal given the others of their row. SoftImpute is our own, after Mazumder,
Hastie and Tibshirani (2010); the density of an entry is normal with a variance for each feature, from a tenth of the seen entries that were
held out in another run. Both get the best number of components, or the best penalty, by the truth, for errors and densities apart.
Rows are added to benchmarks/results/completion.csv, in place of older ones of the same case. Settings were chosen on the data sets
named TUNED, and on no others.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

import spinodal as sp

LONG = True
TABLE = Path(__file__).parent / "results" / "completion.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "completion.png"
TUNED = ("patches", "indian pines", "digits", "wine")
# Share of entries held out, rows of a data set that are used at most (fewer of one with many features), and the seed of both.
HELD_OUT, MOST_ROWS, SEED = 0.2, 2000, 0
FEWER = {"fermentation": 600}
# Bands of a spectrum that miss in the figure.
STRETCH = 40
# Features with one value in this share of the rows are left out: what is held out would be constant.
CONSTANT = 0.95
COMPONENTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PENALTIES = (0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.012, 0.008, 0.005, 0.003, 0.002, 0.001, 0.0005, 0.0002)
IMPUTATIONS, SOFT_ROUNDS, SOFT_TOLERANCE = 10, 300, 1e-3


class Row(NamedTuple):
    """One method on one table; coverages are NaN where a method has no intervals."""

    data: str
    design: str
    method: str
    rmse: float
    log_density: float
    coverage_50: float
    coverage_90: float
    cpu: float
    setting: str


# Fields of a row that are no numbers.
WORDS = ("data", "design", "method", "setting")


class Found(NamedTuple):
    """Means and variances of all entries, log densities and intervals of those held out, and what was set."""

    mean: np.ndarray
    log_density: float
    coverage: tuple[float, float]
    cpu: float
    setting: str


def _picture_patches() -> np.ndarray:
    picture = sp.datasets.photograph("china").values @ np.array([0.299, 0.587, 0.114])
    return np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 64)


# Name: the package that is needed, and the table.
DATA: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
    "patches": ("sklearn", _picture_patches),
    "indian pines": ("tensorly", lambda: sp.datasets.indian_pines().values.reshape(-1, 200)),
    "fermentation": ("chemotools", lambda: sp.datasets.fermentation().values),
    "digits": ("sklearn", lambda: sp.datasets.digits().values),
    "wine": ("sklearn", lambda: sp.datasets.wine().values),
}


def table_of(name: str) -> np.ndarray:
    """At most MOST_ROWS rows; features that hardly ever change left out."""
    values = np.asarray(DATA[name][1](), dtype=float)
    rows = np.random.default_rng(SEED).permutation(len(values))[:MOST_ROWS][: FEWER.get(name)]
    values = values[rows]
    most_common = np.array([np.unique(each, return_counts=True)[1].max() for each in values.T])
    return values[:, most_common < CONSTANT * len(values)]


def held_out(shape: tuple[int, int], design: str) -> np.ndarray:
    random = np.random.default_rng(SEED + 1)
    held = random.random(shape) < HELD_OUT
    if design == "rows":
        held[: len(held) // 2] = False
    held &= np.cumsum(~held, axis=1)[:, -1:] > 0  # never a whole row
    return held


def gauss(error: np.ndarray, variance: np.ndarray) -> float:
    return float(np.mean(-(error**2) / variance - np.log(2 * np.pi * variance)) / 2)


def inside(error: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    z = np.abs(error) / np.sqrt(variance)
    return float(np.mean(z < 0.674490)), float(np.mean(z < 1.644854))


def spinodal_completed(values: np.ndarray, held: np.ndarray) -> Iterator[Found]:
    begun = time.process_time()
    found = sp.complete(np.where(held, np.nan, values))
    cpu = time.process_time() - begun
    at = [np.asarray(found.interval(level)) for level in (0.5, 0.9)]
    cover = tuple(float(np.mean((low[held] <= values[held]) & (values[held] <= high[held]))) for low, high in at)
    yield Found(found.table, float(np.mean(found.log_density(values)[held])), (cover[0], cover[1]), cpu, found.summary().split("; ")[1])


def factor_analysis(values: np.ndarray, held: np.ndarray) -> Iterator[Found]:
    from sklearn.decomposition import FactorAnalysis

    whole = ~held.any(axis=1)
    for count in [each for each in COMPONENTS if each < values.shape[1]]:
        begun = time.process_time()
        filled = np.where(held, 0.0, values)
        rounds = 1 if whole.sum() > len(values) / 3 else IMPUTATIONS
        for _ in range(rounds):
            learned = FactorAnalysis(count, tol=1e-3, max_iter=300, random_state=0).fit(filled[whole] if rounds == 1 else filled)
            filled, variance = conditional(learned.mean_, learned.components_, learned.noise_variance_, values, held)
        error = (values - filled)[held]
        yield Found(filled, gauss(error, variance[held]), inside(error, variance[held]), time.process_time() - begun, f"{count} components")


def conditional(
    mean: np.ndarray, components: np.ndarray, noise: np.ndarray, values: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Held-out entries given the others, by factor analysis: rows with what was held out filled in, and variances."""
    noise = np.maximum(noise, 1e-9)
    filled, variance = values.copy(), np.zeros_like(values)
    scaled = components / noise
    for i in np.flatnonzero(held.any(axis=1)):
        seen = ~held[i]
        covariance = np.linalg.inv(np.eye(len(components)) + scaled[:, seen] @ components[:, seen].T)
        codes = covariance @ (scaled[:, seen] @ (values[i, seen] - mean[seen]))
        there = components[:, held[i]]
        filled[i, held[i]] = mean[held[i]] + codes @ there
        variance[i, held[i]] = noise[held[i]] + np.sum(there * (covariance @ there), axis=0)
    return filled, variance


def soft_impute(values: np.ndarray, held: np.ndarray) -> Iterator[Found]:
    check = ~held & (np.random.default_rng(SEED + 2).random(held.shape) < 0.1)
    spent = 0.0
    paths = [soft_path(values, held | check), soft_path(values, held)]
    for (_, trial, first), (penalty, filled, second) in zip(*paths, strict=True):
        spent = first + second
        squares = np.where(check, (values - trial) ** 2, 0)
        variance = (squares.sum(axis=0) + squares.sum() / check.sum()) / (check.sum(axis=0) + 1)
        error, there = (values - filled)[held], np.broadcast_to(variance, held.shape)[held]
        yield Found(filled, gauss(error, there), inside(error, there), spent, f"penalty {penalty:g}")


def soft_path(values: np.ndarray, held: np.ndarray) -> Iterator[tuple[float, np.ndarray, float]]:
    """The path of penalties, each started from the one before; a penalty is a share of the largest singular value."""
    mean = np.where(held, 0, values).sum(axis=0) / np.maximum((~held).sum(axis=0), 1)
    data = np.where(held, 0, values - mean)
    filled, largest = data.copy(), np.linalg.norm(data, 2)
    for penalty in PENALTIES:
        begun = time.process_time()
        for _ in range(SOFT_ROUNDS):
            new = np.where(held, shrunk(filled, penalty * largest), data)
            moved = np.linalg.norm(new - filled) / max(float(np.linalg.norm(new[held])), 1e-12)
            filled = new
            if moved < SOFT_TOLERANCE:
                break
        yield penalty, filled + mean, time.process_time() - begun


def shrunk(matrix: np.ndarray, by: float) -> np.ndarray:
    """The matrix with its singular values reduced by so much; by the eigenvectors of the smaller of its two products with itself."""
    if matrix.shape[0] < matrix.shape[1]:
        return shrunk(matrix.T, by).T
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    values = np.sqrt(np.maximum(squares, 1e-300))
    return (matrix @ (vectors * (np.maximum(values - by, 0) / values))) @ vectors.T


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Iterator[Found]]] = {
    "Spinodal": spinodal_completed,
    "FactorAnalysis": factor_analysis,
    "SoftImpute": soft_impute,
}


def measured(name: str, design: str, method: str) -> Row:
    """Standardised by what was seen; the best setting by the truth, for errors and densities apart."""
    values = table_of(name)
    held = held_out((values.shape[0], values.shape[1]), design)
    seen = np.where(held, np.nan, values)
    values = (values - np.nanmean(seen, axis=0)) / np.nanstd(seen, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(METHODS[method](values, held))
    errors = [float(np.sqrt(np.mean((each.mean - values)[held] ** 2))) for each in found]
    closest, likeliest = found[int(np.argmin(errors))], max(found, key=lambda each: each.log_density)
    setting = closest.setting if closest is likeliest else f"{closest.setting}; density: {likeliest.setting}"
    return Row(name, design, method, min(errors), likeliest.log_density, *likeliest.coverage, closest.cpu, setting)


def draw() -> None:
    """Spectra of two pixels of Indian Pines, a stretch of which was held out, and what was filled in."""
    import matplotlib.pyplot as plt

    values = table_of("indian pines")[:300]
    random = np.random.default_rng(SEED)
    held = np.zeros(values.shape, bool)
    for i in range(0, len(held), 2):  # every second spectrum misses a stretch
        first = random.integers(held.shape[1] - STRETCH)
        held[i, first : first + STRETCH] = True
    found = sp.complete(np.where(held, np.nan, values))
    low, high = found.interval(0.9)
    print(f"{found.summary()}; 90% intervals hold {np.mean((low <= values) & (values <= high), where=held):.0%}")
    figure, panels = plt.subplots(1, 2, figsize=(11, 3.2), layout="constrained", sharey=True)
    band = np.arange(values.shape[1]) + 1
    early, late = (int(np.argmin(np.abs(np.argmax(held, axis=1) + 1000 * ~held.any(axis=1) - at))) for at in (20, 75))
    for panel, i in zip(panels, (early, late), strict=True):
        hole = held[i]
        panel.plot(band, np.where(hole, np.nan, values[i]), color="0.3", lw=1, label="seen")
        panel.plot(band[hole], values[i, hole], ".", color="C3", ms=4, label="held out")
        panel.plot(band[hole], found.table[i, hole], color="C0", lw=1.2, label="filled in")
        panel.fill_between(band[hole], low[i, hole], high[i, hole], color="C0", alpha=0.25, lw=0, label="90% interval")
        panel.set_xlabel("band")
    panels[0].set_ylabel("radiance")
    panels[1].legend(fontsize=8)
    figure.savefig(FIGURE, dpi=100)
    print(f"{FIGURE.name} written")


def rows_there() -> dict[tuple[str, str, str], Row]:
    """What was measured so far."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        rows = [Row(*(r[name] if name in WORDS else float(r[name]) for name in Row._fields)) for r in csv.DictReader(file)]
    return {(row.data, row.design, row.method): row for row in rows}


def keep(row: Row) -> None:
    rows = rows_there() | {(row.data, row.design, row.method): row}
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for _, each in sorted(rows.items()):
            writer.writerow([f"{x:.4f}" if isinstance(x, float) else x for x in each])


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("benchmarks completion")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--design", default="holes,rows")
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    parser.add_argument("--figure", action="store_true", help="draw docs/images/completion.png, and nothing else")
    options = parser.parse_args(arguments)
    if options.figure:
        draw()
        return
    for name in options.data.split(","):
        if find_spec(DATA[name][0]) is None:
            print(f"{name} is left out: {DATA[name][0]} is not installed")
            continue
        for design in options.design.split(","):
            for method in options.methods.split(";"):
                row = measured(name, design, method)
                keep(row)
                print(
                    f"{name}, {design}, {method}: rmse {row.rmse:.4f}, log density {row.log_density:.3f}, "
                    f"50%: {row.coverage_50:.3f}, 90%: {row.coverage_90:.3f}, cpu {row.cpu:.1f} s, {row.setting}",
                    flush=True,
                )
