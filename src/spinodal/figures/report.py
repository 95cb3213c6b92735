"""The figures of a report: one solution of one data set, each as a matplotlib Figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.model import Problem
from ..theory import phase_diagram
from .palette import BLUE, GREEN, GREY, ORANGE, VERMILION
from .theory import blank_figure, phase_diagram_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from ..inference.solution import Solution

# Densities at which the phase diagram is drawn.
_DENSITIES = 25
_BINS = 60
# Atoms drawn as images, at most; the most used come first.
MOST_IMAGES = 100
# Colours of the heatmaps end at this quantile of the sizes, so that one outlier doesn't fade the rest.
_BRIGHTEST = 0.995
# Names of the rows of Y are shown if there are no more than this, and none is drawn longer than this.
_MOST_NAMES, _LONGEST_NAME = 40, 20


def residuals(solution: Solution) -> np.ndarray:
    """Y - F X/sqrt(N) at the posterior means; NaN where Y was not observed."""
    assert solution.observed is not None
    F, X = (np.asarray(value, dtype=float) for value in solution.mean)
    difference = np.asarray(solution.observed.Y, dtype=float) - F @ X / np.sqrt(F.shape[1])
    return difference if solution.observed.mask is None else np.where(solution.observed.mask, difference, np.nan)


def signal_residuals(left: np.ndarray) -> np.ndarray:
    """Root mean square residual of each signal."""
    seen = np.isfinite(left)
    return np.sqrt(np.sum(np.where(seen, left, 0.0) ** 2, axis=0) / np.maximum(seen.sum(axis=0), 1))


def usage(solution: Solution) -> np.ndarray:
    """Mean square of each atom's coefficients, over what the prior expects."""
    power = np.mean(np.asarray(solution.mean.X, dtype=float) ** 2 + solution.variance.X, axis=1)
    return power / float(solution.model.prior.X.second_moment())


def noise_of(solution: Solution) -> float:
    """The variance of Gaussian noise; 0 where there is none, or another kind of noise."""
    return float(solution.model.noise_variance or 0.0)


def solution_figure(solution: Solution) -> Figure:
    """A solution at a glance: the atoms, the course of the run, the residuals beside the noise, and the usage of each atom."""
    from ..report.solution import one_instance, one_line

    one_instance(solution)
    figure, axes = blank_figure(10.5, 6.4, 2, 2)
    (atoms, course), (left, used) = axes
    _draw_atoms(atoms, np.asarray(solution.mean.F, dtype=float), solution.names.rows)
    _draw_course(course, solution)
    if solution.observed is None:
        left.set_axis_off()
    else:
        _draw_residuals(left, residuals(solution), noise_of(solution))
    _draw_usage(used, usage(solution))
    figure.suptitle(one_line(solution), fontsize=10)
    return figure


def position_figure(problem: Problem, spinodal: float | None) -> Figure:
    """The phase diagram at the problem's alpha, eta and noise, with the problem in it. Needs a prior of X with a density."""
    rho, pi = float(problem.prior.X.rho), float(problem.pi)  # type: ignore[attr-defined]
    rate = float(problem.alpha) * float(problem.observed_fraction)
    last = min(0.98, max(1.1 * rate, 1.5 * rho))
    dataset = phase_diagram(problem, rho=np.linspace(min(last / _DENSITIES, rho), last, _DENSITIES), eta=[float(problem.eta)])
    near = spinodal if spinodal is not None and np.isfinite(spinodal) else 0.0
    figure = phase_diagram_figure(dataset, highest=max(3.0, 1.4 * pi, 1.4 * near))
    axis = figure.axes[0]
    axis.scatter(rho, pi, marker="*", s=220, color=VERMILION, edgecolor="black", lw=0.8, zorder=5, clip_on=False, label="these data")
    # The legend would cover the upper left corner, where the data often are.
    axis.legend().remove()
    figure.legend(*axis.get_legend_handles_labels(), fontsize=8, loc="outside right center", markerscale=0.5, frameon=False)
    figure.set_size_inches(9.6, 4.2)
    return figure


def convergence_figure(solution: Solution) -> Figure:
    """Residuals, measured and expected, against the iteration. Each entry of Y is predicted without itself (the Onsager term)."""
    figure, (axis,) = blank_figure(6.4, 3.2)
    _draw_course(axis, solution)
    return figure


def _draw_course(axis: Any, solution: Solution) -> None:
    steps = np.arange(1, int(solution.iterations) + 1)
    if not steps.size:
        axis.text(0.5, 0.5, "no iterations to show", ha="center", transform=axis.transAxes)
        axis.set_axis_off()
        return
    for values, colour, label in (
        (solution.trace.residual, BLUE, "measured"),
        (solution.trace.level, ORANGE, "expected"),
    ):
        axis.semilogy(steps, np.asarray(values)[: steps.size], color=colour, label=label)
    if noise_of(solution) > 0:
        axis.axhline(noise_of(solution), color=GREY, ls=":", label=r"noise variance $\Delta$")
    axis.set(xlabel="iteration", ylabel="mean squared residual,\neach entry predicted from others")
    _count(axis.xaxis)
    # Above the curves, which go everywhere.
    axis.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)


def residual_figure(left: np.ndarray, noise: float) -> Figure:
    """Histogram of the residuals beside the modelled noise, and the root mean square of each signal's."""
    figure, (together, apart) = blank_figure(9.6, 3.2, 1, 2)
    _draw_residuals(together, left, noise)
    each = signal_residuals(left)
    apart.plot(np.arange(1, each.size + 1), each, ".", ms=3, color=BLUE, rasterized=True)
    if noise > 0:
        apart.axhline(np.sqrt(noise), color=GREY, ls=":", label=r"$\sqrt{\Delta}$")
        apart.legend(fontsize=8)
    apart.set(xlabel="signal (column of Y)", ylabel="root mean square residual", ylim=(0, None))
    return figure


def _draw_residuals(axis: Any, left: np.ndarray, noise: float) -> None:
    finite = left[np.isfinite(left)]
    heights, edges = np.histogram(finite, _BINS, density=finite.size > 0)
    axis.stairs(heights, edges, fill=True, color=BLUE, alpha=0.6, label="residuals")
    if noise > 0:
        x = np.linspace(edges[0], edges[-1], 300)
        axis.plot(x, np.exp(-(x**2) / (2 * noise)) / np.sqrt(2 * np.pi * noise), color=VERMILION, label="noise as modelled")
    axis.set(xlabel=r"$Y - FX/\sqrt{N}$", ylabel="density")
    axis.legend(fontsize=8)


def atoms_figure(F: np.ndarray, order: np.ndarray, shape: tuple[int, int] | None, names: Sequence[str] | None = None) -> Figure:
    """F as a heatmap; or, given the shape of an image, its columns in the given order as images, each on its own scale."""
    if shape is None:
        figure, (axis,) = blank_figure(9.6, 4.2)
        _draw_atoms(axis, F, names)
        return figure
    chosen = order[:MOST_IMAGES]
    height, width = shape
    across = int(np.ceil(np.sqrt(chosen.size * height / width)))
    down = -(-chosen.size // across)
    # One pixel of nothing around each image.
    sheet = np.full((down * (height + 1) + 1, across * (width + 1) + 1), np.nan)
    for k, atom in enumerate(chosen):
        top, left = (k // across) * (height + 1) + 1, (k % across) * (width + 1) + 1
        bright = np.max(np.abs(F[:, atom])) or 1.0
        sheet[top : top + height, left : left + width] = (F[:, atom] / bright).reshape(shape)
    size = 7.0
    figure, (axis,) = blank_figure(size, size * sheet.shape[0] / sheet.shape[1])
    axis.imshow(sheet, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    axis.set_axis_off()
    return figure


def _draw_atoms(axis: Any, F: np.ndarray, names: Sequence[str] | None) -> None:
    sizes = np.abs(F[np.isfinite(F)])
    bright = float(np.quantile(sizes, _BRIGHTEST)) if sizes.any() else 1.0
    M, N = F.shape
    drawn = axis.imshow(F, aspect="auto", cmap="RdBu_r", vmin=-bright, vmax=bright, extent=(0.5, N + 0.5, M + 0.5, 0.5))
    axis.set(xlabel="atom (column of F)", ylabel="measurement (row of Y)")
    _count(axis.xaxis, axis.yaxis)
    if names is not None and len(names) <= _MOST_NAMES:
        shown = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in names]
        # parse_math: a name with dollar signs is not a formula.
        axis.set_yticks(np.arange(1, M + 1), shown, fontsize=7, parse_math=False)
        axis.set_ylabel("")
    axis.figure.colorbar(drawn, ax=axis, pad=0.01)


def _count(*axes: Any) -> None:
    """Whole numbers only, for what is counted."""
    for axis in axes:
        axis.get_major_locator().set_params(integer=True)


def usage_figure(used: np.ndarray) -> Figure:
    """How much each atom is used, over what the prior expects."""
    figure, (axis,) = blank_figure(9.6, 2.8)
    _draw_usage(axis, used)
    return figure


def _draw_usage(axis: Any, used: np.ndarray) -> None:
    axis.stairs(used, np.arange(used.size + 1) + 0.5, fill=True, color=GREEN, alpha=0.7)
    axis.axhline(1.0, color=GREY, ls=":", label="as the prior expects")
    axis.set(xlabel="atom (row of X)", ylabel="mean square of X, relative", xlim=(0.5, used.size + 0.5), ylim=(0, None))
    _count(axis.xaxis)
    axis.legend(fontsize=8)


def reproducibility_figure(share: np.ndarray) -> Figure:
    """Which share of the other runs found each atom by themselves; atoms of which nothing is known are left out."""
    figure, (axis,) = blank_figure(9.6, 2.8)
    axis.stairs(np.nan_to_num(share), np.arange(share.size + 1) + 0.5, fill=True, color=BLUE, alpha=0.7)
    axis.set(xlabel="atom (column of F)", ylabel="share of other runs", xlim=(0.5, share.size + 0.5), ylim=(0, 1.05))
    _count(axis.xaxis)
    return figure


def uncertainty_figure(solution: Solution) -> Figure:
    """Histograms of the reported standard deviations of F and X, with the priors' own."""
    figure, axes = blank_figure(9.6, 3.0, 1, 2)
    for axis, name, colour in zip(axes, ("F", "X"), (ORANGE, BLUE), strict=True):
        before = float(np.sqrt(getattr(solution.model.prior, name).moments().variance))
        spread = np.sqrt(np.asarray(getattr(solution.variance, name), dtype=float).ravel())
        spread = spread[np.isfinite(spread) & (spread > 0)]
        low, high = (float(spread.min()), max(float(spread.max()), before)) if spread.size else (before / 10, before)
        edges = np.geomspace(low / 2, high * 2, _BINS + 1)
        axis.stairs(np.histogram(spread, edges)[0], edges, fill=True, color=colour, alpha=0.7)
        axis.axvline(before, color=GREY, ls=":", label="before any data")
        axis.set(xscale="log", xlabel=f"reported standard deviation of an entry of {name}", ylabel="entries")
        axis.legend(fontsize=8)
    return figure


def figure_style(ink: str) -> dict[str, Any]:
    """Matplotlib settings that draw everything but the data in one colour, on nothing."""
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor")
    return dict.fromkeys(names, ink) | {"axes.facecolor": "none", "figure.facecolor": "none", "legend.facecolor": "none"}
