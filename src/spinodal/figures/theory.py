"""Results drawn: each function takes results and returns a matplotlib Figure. The palette is safe for colour-blind readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from ..evaluation.scoring import calibration, fit_scales
from ..model.model import Problem
from ..model.sampling import Instance
from ..pair import Pair
from ..theory import effective_potential, fixed_point_curve, outcomes, phase_regions, state_evolution
from .palette import BLUE, GREEN, GREY, LINES, ORANGE, PHASE_COLOURS, VERMILION

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray

    from ..evaluation.scoring import Score
    from ..inference import Solution
    from ..theory.curve import FixedPointCurve
    from ..theory.state_evolution import Trajectory

# Bins of fewer entries are too noisy to draw.
_ENOUGH_ENTRIES = 30
CAVEAT = "Replica and state-evolution predictions: not proven, and not exact at extensive rank."


def blank_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure in the project's style and its axes, an array."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, **options))
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def eta_label(eta: float) -> str:
    """eta as a figure's legend has it."""
    return r"$\eta = \infty$ (dictionary learning)" if np.isinf(eta) else rf"$\eta = {eta:g}$"


def _caption(figure: Figure) -> None:
    figure.supxlabel(CAVEAT, fontsize=7, color=GREY)


def phase_diagram_figure(dataset: xarray.Dataset, *, highest: float | None = None) -> Figure:
    """Figure 1: transitions in pi against rho; the regions are shaded for the largest eta."""
    figure, (axis,) = blank_figure(6.4, 4.6)
    rho = dataset.rho.values
    noiseless = dataset.attrs.get("noise_variance") == 0
    top = highest or _useful_top(dataset)
    worst = dataset.isel(eta=int(np.argmax(dataset.eta.values)))

    transitions = (worst[f"pi_{name}"].values for name in ("appears", "bayes", "spinodal", "gain"))
    for phase, bottom, upper in phase_regions(*transitions, noiseless=noiseless, low=0.0, high=top):
        if np.any(upper > bottom):
            axis.fill_between(rho, bottom, upper, color=PHASE_COLOURS[phase], lw=0, label=phase)
    axis.plot(rho, np.where(worst.pi_star <= 2 * top, worst.pi_star, np.nan), color=VERMILION, lw=2, label=r"$\pi^*$ (counting bound)")
    for (k, eta), colour in zip(enumerate(dataset.eta.values), LINES, strict=False):
        here = dataset.isel(eta=k)
        axis.plot(rho, _finite(here.pi_spinodal, top), color=colour, ls=":", lw=2, label=rf"$\pi^s$, {eta_label(eta)}")
        if not noiseless:
            axis.plot(rho, _finite(here.pi_bayes, top), color=colour, ls="--", lw=1, label=rf"$\pi_B$, {eta_label(eta)}")
    axis.set(xlabel=r"density $\rho$", ylabel=r"signals per atom $\pi = P/N$", ylim=(0, top), xlim=_ends(rho))
    shaded = eta_label(float(worst.eta)).split(" (")[0]
    axis.set_title(f"{_setting(dataset)}; regions shaded for {shaded}", fontsize=10)
    axis.legend(fontsize=7, loc="upper left", framealpha=0.9)
    _caption(figure)
    return figure


def _ends(values: np.ndarray) -> tuple[float, float] | None:
    """The ends of an axis from its first value to its last; None, for Matplotlib to choose, if there is one value only."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else None


def _finite(values: Any, top: float) -> np.ndarray:
    values = np.asarray(values)
    return np.where(values <= 2 * top, values, np.nan)


def _useful_top(dataset: xarray.Dataset) -> float:
    """High enough for most of the finite spinodals, low enough to see the small ones."""
    values = dataset.pi_spinodal.values
    finite = values[np.isfinite(values)]
    return float(np.clip(1.1 * np.quantile(finite, 0.8), 3.0, 100.0)) if finite.size else 10.0


def error_curves_figure(dataset: xarray.Dataset) -> Figure:
    """Figure 2: Bayes-optimal (full) and AMP (dotted) errors on F and X against pi."""
    figure, axes = blank_figure(9.6, 3.8, 1, 2, sharex=True, sharey=True)
    errors = np.stack([dataset[f"{branch}_mse_{factor}"].values for branch in ("bayes", "amp") for factor in ("F", "X")])
    lowest = float(errors[errors > 0].min(initial=1.0))
    for axis, factor, what in zip(axes, ("F", "X"), ("matrix, D", "signals, E"), strict=True):
        for (k, eta), colour in zip(enumerate(dataset.eta.values), LINES, strict=False):
            here = dataset.isel(eta=k)
            for branch, name, style in (("bayes", "Bayes", {"lw": 1.5}), ("amp", "AMP", {"ls": ":", "lw": 2.2})):
                # Zero errors leave a logarithmic axis at the bottom.
                values = np.maximum(here[f"{branch}_mse_{factor}"].values, lowest / 10)
                axis.semilogy(here.pi, values, color=colour, label=f"{name}, {eta_label(eta)}", **style)
        axis.set(xlabel=r"signals per atom $\pi = P/N$", ylabel=f"mean squared error of the {what}", xlim=_ends(dataset.pi.values))
        axis.set_ylim(bottom=lowest / 2)
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=7, loc="outside right center")
    figure.suptitle(_setting(dataset), fontsize=10)
    _caption(figure)
    return figure


def _setting(dataset: xarray.Dataset) -> str:
    """alpha and the noise of a dataset, as a title has them; of a channel without a noise variance its name."""
    noise = rf"$\Delta = {dataset.attrs['noise_variance']:g}$" if "noise_variance" in dataset.attrs else None
    noise = noise or str(dataset.attrs["channel"]).partition("(")[0]
    return rf"$\alpha = {dataset.attrs['alpha']:g}$, {noise}"


def curve_figure(curve: FixedPointCurve) -> Figure:
    """All fixed points of all pi: the error on X against pi."""
    figure, (axis,) = blank_figure(6.4, 3.8)
    axis.loglog(curve.pi, np.where(curve.stable, curve.mse_X, np.nan), color=BLUE, lw=2, label="stable")
    axis.loglog(curve.pi, np.where(curve.stable, np.nan, curve.mse_X), color=ORANGE, ls="--", lw=1.5, label="unstable")
    axis.set(xlabel=r"signals per atom $\pi = P/N$", ylabel="mean squared error of the signals, E")
    axis.legend(fontsize=8)
    _caption(figure)
    return figure


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """State evolution: both errors from iteration to iteration."""
    figure, (axis,) = blank_figure(6.4, 3.8)
    for values, colour, name in zip(trajectory.mse, (ORANGE, BLUE), ("matrix, D", "signals, E"), strict=True):
        axis.semilogy(np.arange(len(values)), values, color=colour, lw=2, label=name)
    axis.set(xlabel="iteration", ylabel="mean squared error")
    axis.legend(fontsize=8)
    _caption(figure)
    return figure


def score_figure(score: Score) -> Figure:
    """Errors of single atoms and of single signals, from the best to the worst."""
    if np.ndim(score.atoms_recovered):
        raise InputError(f"score must be of one instance, but it is of a batch of {len(score.angle)}.")
    figure, axes = blank_figure(9.6, 3.2, 1, 2)
    panels = (
        (score.angle, ORANGE, "atom", "1 − cos² to the true atom"),
        (score.signals, BLUE, "signal", "mean squared error of the signal"),
    )
    for axis, (values, colour, what, label) in zip(axes, panels, strict=True):
        axis.plot(np.arange(1, len(values) + 1), np.sort(values), color=colour, marker=".", lw=1)
        if np.any(values > 0):
            axis.set_yscale("log")
        axis.set(xlabel=f"{what}, from best to worst", ylabel=label)
    return figure


def factor_graph_figure(*, N: int, M: int, P: int) -> Figure:
    """Figure 3: the factor graph of the posterior; circles are variables, squares are measurements."""
    figure, (axis,) = blank_figure(5.6, 4.2)
    axis.set_axis_off()
    axis.set_aspect("equal")
    measurements = {(mu, signal): (3.2 * signal, 2.2 * mu) for mu in range(M) for signal in range(P)}
    width, height = 3.2 * (P - 1), 2.2 * (M - 1)
    signals = {(i, signal): (3.2 * signal + 0.75 * (i - (N - 1) / 2), height + 1.9) for i in range(N) for signal in range(P)}
    entries = {(mu, i): (-1.9, 2.2 * mu + 0.65 * (i - (N - 1) / 2)) for mu in range(M) for i in range(N)}
    for (mu, signal), (x, y) in measurements.items():
        for i in range(N):
            axis.plot(*zip((x, y), signals[i, signal], strict=True), color=BLUE, lw=0.8, zorder=1)
            axis.plot(*zip((x, y), entries[mu, i], strict=True), color=ORANGE, lw=0.8, zorder=1)
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 3}
    for (i, signal), at in signals.items():
        axis.scatter(*at, s=420, color="white", edgecolor=BLUE, zorder=2)
        axis.text(*at, rf"$x_{{{i + 1}{signal + 1}}}$", **style)
    for (mu, i), at in entries.items():
        axis.scatter(*at, s=420, color="white", edgecolor=ORANGE, zorder=2)
        axis.text(*at, rf"$F_{{{mu + 1}{i + 1}}}$", **style)
    for (mu, signal), at in measurements.items():
        axis.scatter(*at, s=420, marker="s", color="#444444", zorder=2)
        axis.text(*at, rf"$y_{{{mu + 1}{signal + 1}}}$", color="white", **style)
    axis.set(xlim=(-2.6, width + 1.2), ylim=(-1.2, height + 2.6))
    axis.set_title(f"Factor graph, N = {N}, M = {M}, P = {P}", fontsize=10)
    return figure


def explain_figure(problem: Problem) -> Figure:
    """One point explained: the fixed-point curve with the current pi, the potential, and the state evolution climbing it."""
    figure, axes = blank_figure(10.5, 3.6, 1, 3)
    fixed, potential, iterations = axes
    curve, outcome, trajectory = fixed_point_curve(problem), outcomes([problem])[0], state_evolution(problem)

    pieces = np.flatnonzero(np.diff(curve.stable.astype(int))) + 1
    for part in np.split(np.arange(curve.pi.size), pieces):
        wide = np.append(part, part[-1] + 1) if part[-1] + 1 < curve.pi.size else part
        fixed.loglog(curve.mse_X[wide], curve.pi[wide], color=BLUE, ls="-" if curve.stable[part[0]] else ":", lw=2)
    fixed.axhline(problem.pi, color=GREY, lw=1)
    fixed.text(0.03, problem.pi, rf"$\pi = {problem.pi:g}$", transform=fixed.get_yaxis_transform(), ha="left", va="bottom", fontsize=8)
    near = curve.pi[(curve.pi > problem.pi / 20) & (curve.pi < problem.pi * 20)]
    fixed.set(xlabel="error on X, E", ylabel=r"$\pi$ at which it is a fixed point", title="fixed points (full: stable)")
    if near.size:
        fixed.set_ylim(near.min(), near.max())

    low = max(min(point.mse.X for point in (outcome.bayes, outcome.amp)), 1e-12) / 30
    E = np.geomspace(low, trajectory.mse.X[0] * (1 - 1e-9), 300)
    phi, _ = effective_potential(problem, E)
    potential.semilogx(E, phi, color=BLUE, lw=2)
    for point, colour, label in ((outcome.bayes, VERMILION, "Bayes-optimal"), (outcome.amp, GREEN, "AMP")):
        if np.isfinite(point.free_entropy) and point.mse.X > 0:
            potential.scatter(point.mse.X, point.free_entropy, color=colour, s=60 if label == "AMP" else 110, zorder=3, label=label)
    if potential.get_legend_handles_labels()[0]:
        potential.legend(fontsize=8)
    potential.set(xlabel="error on X, E", ylabel=r"potential $\Phi(E, D^*(E))$", title=f"potential: {outcome.phase}")

    steps = np.arange(trajectory.iterations + 1)
    iterations.loglog(steps + 1, trajectory.mse.X, color=BLUE, label="E (signals)")
    iterations.loglog(steps + 1, trajectory.mse.F, color=ORANGE, label="D (matrix)")
    iterations.set(xlabel="iteration + 1", ylabel="mean squared error", title="state evolution, uninformed start")
    iterations.legend(fontsize=8)
    for axis in axes:
        axis.title.set_fontsize(10)
    _caption(figure)
    return figure


def figure_4_figure(panels: Sequence[xarray.Dataset]) -> Figure:
    """Figure 4: errors of AMP at several sizes against the Bayes-optimal ones; D raw and with scales fitted, E of all signals and of the
    median one."""
    figure, axes = blank_figure(15.0, 3.9 * len(panels), len(panels), 4, squeeze=False)
    columns = (
        ("mse_F", "F", "D (matrix), raw"),
        ("mse_F_scaled", "F", "D, atoms' scales fitted"),
        ("mse_X_scaled", "X", "E (signals), mean over signals"),
        ("mse_X_median", "X", "E of the median signal"),
    )
    for row, data in zip(axes, panels, strict=True):
        for axis, (name, factor, title) in zip(row, columns, strict=True):
            axis.semilogy(data.pi, data[f"bayes_mse_{factor}"], color="black", lw=1.5, label="Bayes")
            axis.semilogy(data.pi, data[f"amp_mse_{factor}"], color="black", ls=":", lw=1.5, label="AMP, N to infinity")
            for n, colour in zip(data.N.values, LINES, strict=False):
                here = data.sel(N=n)
                middle = here[name].median("instance")
                low, high = middle - here[name].min("instance"), here[name].max("instance") - middle
                axis.errorbar(here.pi, middle, yerr=[low, high], color=colour, marker="o", ms=4, lw=0.8, capsize=2, label=f"N = {n}")
                if name == "mse_F":
                    axis.semilogy(here.pi, here.amp_mse_F + here.scale_floor, color=colour, ls="--", lw=0.8)
            axis.set(xlabel=r"signals per atom $\pi = P/N$", ylabel="mean squared error")
            axis.set_title(title, fontsize=10)
        row[0].set_ylabel(
            rf"$\eta = {data.attrs['eta']:g}$, {_setting(data)}"
            "\nmean squared error"
        )
    axes[0, 0].legend(fontsize=7)
    figure.suptitle("Points: median and range over instances. Dashed: prediction plus the floor set by the atoms' free scales.", fontsize=9)
    _caption(figure)
    return figure


def recovery_figure(problem: Problem, instance: Instance, solution: Solution) -> Figure:
    """One instance: the level of the residuals as the iterations go, X against the truth, and reported against actual errors."""
    figure, (progress, recovered, reported) = blank_figure(11.0, 3.6, 1, 3)
    steps = np.arange(1, int(solution.iterations) + 1)
    predicted = outcomes([problem])[0].amp.mse
    power = problem.prior.F.second_moment() * predicted.X + problem.prior.X.second_moment() * predicted.F
    progress.semilogy(steps, solution.trace.level[: steps.size], color=BLUE, label="variance of the residuals")
    progress.axhline(float(problem.noise_variance + power), color="black", ls=":", label="predicted end")
    progress.set(xlabel="iteration", ylabel="squared units of Y", title=f"AMP: {solution.status}")
    progress.legend(fontsize=8)

    fitted = fit_scales(Pair(*solution.mean), instance.truth.F)
    shown = np.random.default_rng(0).choice(instance.truth.X.size, min(4000, instance.truth.X.size), replace=False)
    recovered.scatter(instance.truth.X.ravel()[shown], fitted.X.ravel()[shown], s=4, color=GREEN, alpha=0.5, lw=0, rasterized=True)
    ends = [float(instance.truth.X.min()), float(instance.truth.X.max())]
    recovered.plot(ends, ends, color=GREY, lw=0.8)
    recovered.set(xlabel="true X", ylabel="recovered X", title="signals, scales fitted")

    k = np.sum(solution.mean.F * instance.truth.F, axis=0) / np.sum(solution.mean.F**2, axis=0)
    for mean, variance, truth, colour, name in (
        (fitted.F, solution.variance.F * k**2, instance.truth.F, ORANGE, "F"),
        (fitted.X, solution.variance.X / k[:, None] ** 2, instance.truth.X, BLUE, "X"),
    ):
        bins = calibration(mean, variance, truth)
        enough = bins.entries > _ENOUGH_ENTRIES
        reported.loglog(bins.reported[enough], bins.actual[enough], "o-", ms=4, color=colour, label=name)
    reported.plot(reported.get_xlim(), reported.get_xlim(), color=GREY, lw=0.8, label="perfect")
    reported.set(xlabel="reported variance", ylabel="actual squared error", title="calibration of the uncertainties")
    reported.legend(fontsize=8)
    for axis in (progress, recovered, reported):
        axis.title.set_fontsize(10)
    _caption(figure)
    return figure


def dictionary_figure(dataset: xarray.Dataset) -> Figure:
    """Share of the dictionaries learned from scratch over (rho, pi), with the transitions of the theory."""
    figure, (axis,) = blank_figure(6.4, 4.6)
    done = dataset.solved.mean("instance")
    rho, pi = np.meshgrid(dataset.rho.values, dataset.pi.values, indexing="ij")
    known = np.isfinite(done.values)
    points = axis.scatter(rho[known], pi[known], c=done.values[known], s=90, cmap="cividis", vmin=0, vmax=1, edgecolor=GREY, zorder=3)
    figure.colorbar(points, ax=axis, label="share of instances with every atom found")
    axis.plot(dataset.rho, dataset.pi_star, color=VERMILION, lw=2, label=r"$\pi^*$ (counting bound)")
    axis.plot(dataset.rho, dataset.pi_spinodal, color=BLUE, ls=":", lw=2, label=r"$\pi^s$ (spinodal), $\eta = \infty$")
    axis.set(xlabel=r"density $\rho$", ylabel=r"signals per atom $\pi = P/N$", yscale="log")
    axis.set_yticks(dataset.pi.values, [f"{value:g}" for value in dataset.pi.values])
    axis.minorticks_off()
    about = dataset.attrs
    where = rf"$N = {about['N']}$, $\alpha = {about['alpha']:g}$, $\Delta = {about['noise_variance']:g}$"
    axis.set_title(f"from scratch: {where}, {dataset.sizes['instance']} instances a point", fontsize=10)
    axis.legend(fontsize=8, loc="lower right", framealpha=0.9)
    _caption(figure)
    return figure
