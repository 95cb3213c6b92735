"""How often the estimators' 90% intervals hold the truth, on data drawn from their model: a table, and a figure for other levels.

`python -m benchmarks intervals` draws several data sets for each row, fits DictionaryLearner or BlindCalibration to the first part of each,
and asks for codes, missing entries and components of samples held out. For DictionaryLearner true components are scaled to norm 1, and
matched in order and sign; for BlindCalibration nothing is matched. A number is the mean over data sets, in brackets its standard error;
data sets are *wrong* in which a component was not found. A second table is of `solve`, with true parameters: errors after the atoms' scales
were fitted, raw ones, and raw ones with the variance of the scales added.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

import spinodal as sp
from spinodal.evaluation.record import solve_drawn
from spinodal.figures.palette import BLUE, GREEN, GREY, ORANGE, VERMILION
from spinodal.figures.theory import blank_figure

LONG = True  # runs only when named
LEVELS, HELD_OUT, HIDDEN, UNIT = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95), 400, 0.3, 20.0
FOUND = 0.9  # least cosine between a component that was found and the true one
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "intervals.png"


class Case(NamedTuple):
    """A row of the table. Noise is a share of the power of the signal; eta is infinite for DictionaryLearner."""

    atoms: int
    features: int
    samples: int
    density: float
    noise: float
    missing: float
    eta: float
    sets: int


CASES = (
    Case(8, 16, 300, 0.25, 0.05, 0.0, np.inf, 12),
    Case(8, 16, 300, 0.25, 1e-3, 0.0, np.inf, 12),
    Case(8, 16, 300, 0.25, 0.05, 0.3, np.inf, 12),
    Case(16, 32, 600, 0.1, 0.01, 0.0, np.inf, 6),
    Case(16, 32, 600, 0.1, 0.01, 0.3, np.inf, 6),
    Case(16, 24, 800, 0.3, 1e-4, 0.0, np.inf, 6),
    Case(32, 48, 1500, 0.15, 0.1, 0.0, np.inf, 4),
    Case(32, 32, 2000, 0.2, 0.01, 0.0, np.inf, 4),
    Case(64, 64, 4000, 0.1, 1e-3, 0.0, np.inf, 3),
    Case(8, 16, 300, 0.25, 0.05, 0.0, 0.01, 12),
    Case(8, 16, 300, 0.25, 1e-3, 0.0, 0.01, 12),
    Case(16, 32, 600, 0.1, 0.01, 0.3, 0.01, 6),
    Case(16, 24, 800, 0.3, 1e-4, 0.0, 0.01, 6),
    Case(32, 48, 1500, 0.15, 0.1, 0.0, 0.01, 4),
    Case(8, 16, 300, 0.25, 0.05, 0.0, 1.0, 12),
    Case(16, 32, 600, 0.1, 0.01, 0.0, 1.0, 6),
)
# What is counted: the heading of its column.
COLUMNS = {
    "sure": "mean ± sd, surely nonzero codes",
    "nonzero": "mean ± sd, all nonzero codes",
    "all": "mean ± sd, all codes",
    "interval, nonzero": "`transform_interval`, nonzero codes",
    "interval, all": "`transform_interval`, all codes",
    "hidden": "`restore`, missing signal",
    "measured": "`restore(noise=True)`, missing data",
    "components": "`components_`",
}
DRAWN = {"interval, nonzero": BLUE, "measured": ORANGE, "hidden": GREEN, "components": VERMILION}


def covered(case: Case, seed: int) -> tuple[dict[str, np.ndarray], bool]:
    """Fit one data set; the share of truths within intervals of each level, and whether all components were found."""
    rng = np.random.default_rng([seed, case.atoms, case.samples])
    components = rng.normal(size=(case.atoms, case.features)) / np.sqrt(case.features)
    shape = case.samples + HELD_OUT, case.atoms
    codes = UNIT * rng.normal(size=shape) * (rng.random(shape) < case.density)
    clean = codes @ components
    data = clean + np.sqrt(case.noise * np.mean(clean**2)) * rng.normal(size=clean.shape)
    seen = np.where(rng.random(data.shape) < case.missing, np.nan, data)
    model: Any = sp.DictionaryLearner(case.atoms, random_state=0)
    if np.isfinite(case.eta):
        error = rng.normal(size=components.shape) / np.sqrt(case.features)
        model = sp.BlindCalibration((components + np.sqrt(case.eta) * error) / np.sqrt(1 + case.eta), case.eta, random_state=0)
    model.fit(seen[: case.samples])
    norms = np.linalg.norm(components, axis=1)
    cosine = components @ model.components_.T / np.outer(norms, np.linalg.norm(model.components_, axis=1))
    true, order = linear_sum_assignment(-np.abs(cosine))
    sign = np.sign(cosine[true, order])
    if np.isfinite(case.eta):
        order, sign, norms = true, np.ones(case.atoms), np.ones(case.atoms)
    all_found = bool(np.all(np.abs(cosine[true, order]) > FOUND))
    truth = components * (sign / norms)[:, None], codes[case.samples :] * sign * norms
    held_out, clean, data = (values[case.samples :] for values in (seen, clean, data))
    mean, sd = (value[:, order] for value in (model.transform(held_out), model.transform_std(held_out)))
    sure, nonzero = model.transform_support(held_out)[:, order] > 0.99, truth[1] != 0
    hidden = rng.random(held_out.shape) < HIDDEN
    holes = np.where(hidden, np.nan, data)
    (filled, doubt), (_, wider) = model.restore(holes), model.restore(holes, noise=True)
    spread = np.sqrt(model.components_var_[order])
    low, high = (value[:, order] for value in model.transform_interval(held_out, 0.9))
    middle, half = (low + high) / 2, (high - low) / 2 / ndtri(0.95)
    counts: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for level in LEVELS:
        z = ndtri((1 + level) / 2)
        within = np.abs(mean - truth[1]) <= z * sd
        inside = np.abs(middle - truth[1]) <= z * half
        for name, values in {
            "sure": within[sure],
            "nonzero": within[nonzero],
            "all": within,
            "interval, nonzero": inside[nonzero],
            "interval, all": inside,
            "hidden": (np.abs(filled - clean) <= z * doubt)[hidden],
            "measured": (np.abs(filled - data) <= z * wider)[hidden],
            "components": np.abs(model.components_[order] - truth[0]) <= z * spread,
        }.items():
            counts[name].append(float(np.mean(values)))
    return {name: np.array(values) for name, values in counts.items()}, all_found


def covered_by_solver(problem: sp.Problem, n: int, seed: int) -> list[float]:
    """The shares of F and X within 1.645 standard deviations; X where it is sure, where it is not zero, and all."""
    instance = sp.sample(problem, n, seed=seed)
    scratch = np.isinf(problem.eta)
    solution = solve_drawn(instance, problem, seed=seed)
    wide = sp.with_free_scales(solution, problem)
    order, sign = np.arange(n), np.ones(n)
    if scratch:
        product = instance.truth.F.T @ (solution.mean.F / np.linalg.norm(solution.mean.F, axis=0))
        true, order = linear_sum_assignment(-np.abs(product))
        sign = np.sign(product[true, order])
    F, X = solution.mean.F[:, order] * sign, solution.mean.X[order] * sign[:, None]
    k = np.sum(F * instance.truth.F, axis=0) / np.sum(F**2, axis=0)
    variance, wide = (sp.Pair(value.F[:, order], value.X[order]) for value in (solution.variance, wide))
    fitted = sp.Pair(F * k, X / k[:, None]), sp.Pair(variance.F * k**2, variance.X / k[:, None] ** 2)
    sure, nonzero = np.abs(X) > 6 * np.sqrt(variance.X), instance.truth.X != 0
    shares = []
    for mean, spread in (fitted, (sp.Pair(F, X), variance), (sp.Pair(F, X), wide)):
        inside = [np.abs(a - b) <= ndtri(0.95) * np.sqrt(v) for a, b, v in zip(mean, instance.truth, spread, strict=True)]
        shares += [float(np.mean(values)) for values in (inside[0], inside[1][sure], inside[1][nonzero], inside[1])]
    return shares


def solver_table() -> None:
    print(f"\n| η | Δ | {' | '.join(f'{name}: F | X, sure | X, nonzero | X, all' for name in ('fitted', 'raw', 'raw, free scales'))} |")
    print("|" + "---|" * 14)
    for eta, alpha, pi, n in ((0.01, 0.6, 6.0, 100), (1.0, 0.6, 6.0, 100), (np.inf, 1.0, 20.0, 50)):
        for noise in (1e-2, 1e-4, 1e-6):
            problem = sp.Problem.sparse(alpha=alpha, pi=pi, rho=0.1, eta=eta, noise_variance=noise)
            shares = np.array([covered_by_solver(problem, n, seed) for seed in range(4)])
            shown = [f"{100 * v.mean():.0f} ({100 * v.std() / np.sqrt(len(v) - 1):.1f})" for v in shares.T]
            print(f"| {eta:g} | {noise:g} | {' | '.join(shown)} |", flush=True)


def draw(curves: dict[str, list[dict[str, np.ndarray]]]) -> None:
    """Share covered against the level asked for, a line for each row of the table."""
    figure, axes = blank_figure(8.4, 4.0, 1, len(curves), sharey=True)
    for axis, (title, rows) in zip(axes, curves.items(), strict=True):
        axis.plot([0.48, 1], [0.48, 1], color=GREY, lw=1, ls=":")
        axis.plot([0.9, 0.9], [0.85, 0.95], color=GREY, lw=5, alpha=0.4, solid_capstyle="butt", label="85 to 95%")
        for name, colour in DRAWN.items():
            for k, row in enumerate(rows):
                axis.plot(LEVELS, row[name], "o-", ms=3, lw=0.8, color=colour, label=None if k else COLUMNS[name].replace("`", ""))
        axis.set(xlabel="level of the interval", title=title, xlim=(0.48, 0.98), ylim=(0.44, 1))
    axes[0].set_ylabel("share of truths inside")
    axes[0].legend(fontsize=7, loc="upper left")
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"| atoms × features, samples | density | noise | missing | η | data sets | {' | '.join(COLUMNS.values())} |")
    print("|" + "---|" * (6 + len(COLUMNS)))
    curves: dict[str, list[dict[str, np.ndarray]]] = {"DictionaryLearner": [], "BlindCalibration": []}
    for case in CASES:
        sets, all_found = zip(*(covered(case, seed) for seed in range(case.sets)), strict=True)
        values = {name: np.array([each[name] for each in sets]) for name in COLUMNS}
        curves["DictionaryLearner" if np.isinf(case.eta) else "BlindCalibration"].append({k: v.mean(axis=0) for k, v in values.items()})
        at = LEVELS.index(0.9)
        shown = [f"{100 * v[:, at].mean():.0f} ({100 * v[:, at].std() / np.sqrt(len(v) - 1):.1f})" for v in values.values()]
        eta = "∞" if np.isinf(case.eta) else f"{case.eta:g}"
        head = f"{case.atoms} × {case.features}, {case.samples} | {case.density:g} | {case.noise:g} | {100 * case.missing:.0f}% | {eta}"
        count = f"{case.sets}" if all(all_found) else f"{case.sets}, {all_found.count(False)} wrong"
        print(f"| {head} | {count} | {' | '.join(shown)} |", flush=True)
    draw(curves)
    solver_table()
