"""The results of a sweep drawn: a map of averages over two axes, beside what the theory predicts."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, check_choice
from ..model.channels import GaussianNoise, named_channel
from ..model.model import Problem
from ..theory import phase_diagram
from .palette import GREY, PHASE_COLOURS, VERMILION
from .theory import CAVEAT, blank_figure, eta_label

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_LABELS = {
    "rho": r"density $\rho$",
    "pi": r"signals per atom $\pi = P/N$",
    "alpha": r"measurements per atom $\alpha = M/N$",
    "eta": r"error of the matrix $\eta$",
    "noise_variance": r"noise variance $\Delta$",
    "N": "size N",
    "success": "share of instances with the median signal recovered",
}
# Axes that get a panel for each of their values; all others but the instances are averaged over too.
_PANELS = "eta"
# Densities at which the theory's curves are computed.
_FINE = 60


def sweep_figure(dataset: xarray.Dataset, *, x: str = "rho", y: str = "pi", value: str = "success") -> Figure:
    """The mean of `value` over all but the axes `x` and `y`, a panel for each eta; with the transitions where the axes are rho and pi."""
    axes = tuple(str(name) for name in dataset.dims if name not in ("instance", "point"))
    if "point" in dataset.dims:
        raise InputError("the sweep must be over a [grid] to be drawn as a map, but it is a [random] design; export it instead.")
    for name, given in (("x", x), ("y", y)):
        check_choice(name, given, axes)
    check_choice("value", value, tuple(str(name) for name in dataset.data_vars if name != "status"))
    if x == y:
        raise InputError(f"x and y must be different axes, but both are {x}.")
    for name, given in (("x", x), ("y", y)):
        if dataset[given].dtype.kind not in "fiu" or not np.isfinite(dataset[given].values).all():
            raise InputError(f"{name} must be an axis of finite numbers to be drawn, but {given} was given, which has others.")
    others = [name for name in dataset[value].dims if name not in (x, y, _PANELS)]
    mean = dataset[value].mean(others)
    panels = mean[_PANELS].values if _PANELS in mean.dims and _PANELS not in (x, y) else [None]
    figure, drawn = blank_figure(2.4 + 4.2 * len(panels), 4.6, 1, len(panels), sharey=True)
    theory = _transitions(dataset) if {x, y} == {"rho", "pi"} else None
    shades: dict[str, Any] = {"cmap": "cividis", "edgecolor": GREY, "zorder": 3, "s": 70}
    if value == "success":
        shades |= {"vmin": 0, "vmax": 1}
    else:
        numbers = mean.values[np.isfinite(mean.values)]
        shades |= {"vmin": float(numbers.min()), "vmax": float(numbers.max())} if numbers.size else {}
    for axis, eta in zip(drawn, panels, strict=True):
        here = (mean if eta is None else mean.sel({_PANELS: eta})).transpose(x, y)
        right, up = np.meshgrid(here[x].values, here[y].values, indexing="ij")
        known = np.isfinite(here.values)
        points = axis.scatter(right[known], up[known], c=here.values[known], **shades)
        if not known.all():
            axis.scatter(right[~known], up[~known], marker="x", color=GREY, zorder=3, label="no numbers")
        if theory is not None:
            _draw_transitions(axis, theory if eta is None else theory.sel(eta=eta), flip=x == "pi")
        axis.set(xlabel=_LABELS.get(x, x), title="" if eta is None else eta_label(float(eta)))
        for name, values, scale in ((x, here[x].values, axis.set_xscale), (y, here[y].values, axis.set_yscale)):
            if name == "pi" and values.min() > 0 and values.max() > 5 * values.min():
                scale("log")
        if y == "pi" and axis.get_yscale() == "log":
            axis.set_yticks(here.pi.values, [f"{tick:.3g}" for tick in here.pi.values])
            axis.minorticks_off()
        margin = 1.15 if axis.get_yscale() == "log" else 1.05
        if up.min() > 0:
            axis.set_ylim(up.min() / margin, up.max() * margin)
        axis.title.set_fontsize(10)
    drawn[0].set_ylabel(_LABELS.get(y, y))
    figure.colorbar(points, ax=list(drawn), label=_LABELS.get(value, value))
    handles, names = drawn[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, fontsize=8, loc="outside lower center", ncols=len(handles), frameon=False)
    caveat = "" if theory is None else f"\nCurves: {CAVEAT[0].lower()}{CAVEAT[1:]}"
    figure.suptitle(_title(dataset) + caveat, fontsize=9)
    return figure


def _title(dataset: xarray.Dataset) -> str:
    sizes = ", ".join(str(n) for n in dataset.N.values)
    parts = [f"N = {sizes}", rf"$\alpha$ = {', '.join(f'{value:g}' for value in dataset.alpha.values)}"]
    noise = rf"$\Delta$ = {', '.join(f'{value:g}' for value in dataset.noise_variance.values)}"
    parts.append(_channel_of(dataset) or noise)
    return f"{'; '.join(parts)}; {', '.join(map(str, dataset.solver.values))}; {dataset.sizes['instance']} instances a point"


def _channel_of(dataset: xarray.Dataset) -> str | None:
    """The channel of the sweep in words; None for Gaussian noise."""
    words: str | None = tomllib.loads(dataset.attrs["spec"]).get("channel")
    return words


def _transitions(dataset: xarray.Dataset) -> xarray.Dataset | None:
    """The theory's transitions for the sweep's problem, where it has one alpha and one noise level and the paper's priors."""
    if any(dataset.sizes[name] > 1 for name in ("alpha", "noise_variance", "observed_fraction")) or "[prior" in dataset.attrs["spec"]:
        return None
    words, observed = _channel_of(dataset), float(dataset.observed_fraction[0])
    channel = GaussianNoise(float(dataset.noise_variance[0])) if words is None else named_channel(words)
    problem = Problem.sparse(alpha=float(dataset.alpha[0]), pi=1.0, rho=0.1, observed_fraction=observed).replace(channel=channel)
    low, high = float(dataset.rho.min()), float(dataset.rho.max())
    rho = np.linspace(low, high, _FINE) if high > low else np.array([low])
    return phase_diagram(problem, rho=rho, eta=dataset.eta.values)


def _draw_transitions(axis: Any, theory: xarray.Dataset, flip: bool) -> None:
    """The counting bound and the spinodal, and the regions they bound."""

    def curve(name: str) -> np.ndarray:
        return np.where(np.isfinite(theory[name].values), theory[name].values, np.nan)

    theory = theory.isel(eta=0) if "eta" in theory.dims else theory
    for name, label, style in (
        ("pi_star", r"$\pi^*$ (counting bound)", {"color": VERMILION, "ls": "-"}),
        ("pi_bayes", r"$\pi_B$ (Bayes-optimal jump)", {"color": "black", "ls": "--"}),
        ("pi_spinodal", r"$\pi^s$ (AMP gets there above)", {"color": "black", "ls": "-"}),
    ):
        if name == "pi_bayes" and np.allclose(curve(name), curve("pi_star"), rtol=1e-6, equal_nan=True):
            continue
        across = (curve(name), theory.rho.values) if flip else (theory.rho.values, curve(name))
        axis.plot(*across, lw=1.8, zorder=2, label=label, **style)
    if not flip:
        easy = np.fmax(theory.pi_spinodal.values, theory.pi_gain.values)  # NaN, no spinodal, is ignored
        axis.fill_between(theory.rho.values, easy, 1e6, color=PHASE_COLOURS["easy"], lw=0, zorder=0)
