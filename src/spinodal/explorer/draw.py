"""The figures as plotly has them: plain dictionaries. A colour is "@name", which the page looks up in its theme."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..figures.palette import phase_key
from ..theory import FixedPoint, Region, phase_regions
from .preview import Diagram, Point
from .state import State

# The part of the (rho, pi) plane that is shown.
_LOWEST_PI, _HIGHEST_PI = 0.5, 100.0
# Smaller errors are shown as this, at the bottom of a logarithmic axis.
_LEAST_ERROR = 1e-12
# Where the names of the regions may stand.
_HEIGHTS = {
    "impossible": (1.2, 2.0, 4.0, 8.0),
    "hard": (14.0, 20.0, 30.0, 40.0),
    "easy": (60.0, 80.0),
    "nothing to gain": (0.6, 0.85, 10.0),
}
# Letters of a name for which a region must have a density of its own; a long name may overlap its neighbours.
_LETTERS = 6
# Significant digits of what is drawn.
_DIGITS = 5
# The part of the S-curve that is shown around the present pi.
_AROUND = 30.0

Figure = dict[str, Any]


def _axis(title: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 6}, "zeroline": False, **more}


def _log(title: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """A logarithmic axis, from `low` to `high` where they are given."""
    span = {"range": [float(np.log10(low)), float(np.log10(high))]} if low and high else {}
    return _axis(title, type="log", exponentformat="power", dtick=_ticks(low, high), **span)


def _ticks(low: float | None, high: float | None) -> int:
    """Decades between two ticks, so that no more than six have to find a place."""
    return max(1, int(np.ceil(np.log10(high / low) / 6))) if low and high else 1


def _numbers(values: Any) -> list[float | None]:
    """Numbers short enough to send at every step of a slider; infinities and NaN leave a gap."""
    values = np.asarray(values, dtype=float)
    finite = np.isfinite(values)
    size = np.where(finite & (values != 0), np.abs(values), 1.0)
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(size)))
    short = (np.round(np.where(finite, values, 0.0) * scale) / scale).tolist()
    return short if finite.all() else [value if kept else None for value, kept in zip(short, finite, strict=True)]


def _line(x: Any, y: Any, name: str, colour: str, **line: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _numbers(x),
        "y": _numbers(y),
        "name": name,
        "line": {"color": colour, "width": 2, **line},
        "hoverinfo": "skip",
    }


def _dots(x: Any, y: Any, name: str, colour: str, **marker: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": _numbers(x),
        "y": _numbers(y),
        "name": name,
        "marker": {"color": colour, "size": 9, **marker},
    }


def _layout(title: str, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"title": {"text": title}, "xaxis": x, "yaxis": y, **more}


def diagram_figure(drawn: Diagram, state: State) -> Figure:
    """Regions and transitions in pi against rho (or alpha). The page adds the point where we are."""
    x, (appears, bayes, spinodal, _) = drawn.across, drawn.transitions
    top, floor = _HIGHEST_PI * 1.2, _LOWEST_PI / 1.2
    noiseless = state.delta == 0 and state.is_gaussian
    regions = phase_regions(*drawn.transitions, noiseless=noiseless, low=floor, high=top)
    regions = [region for region in regions if np.any(region.top > region.bottom)]

    def shaded(phase: str, bottom: np.ndarray, upper: np.ndarray) -> dict[str, Any]:
        ring, colour = (np.concatenate([x, x[::-1]]), np.concatenate([bottom, upper[::-1]])), f"@{phase_key(phase)}"
        return {**_line(*ring, phase, colour), "fill": "toself", "fillcolor": colour, "line": {"width": 0, "color": colour}}

    lines = [
        # Counting equations says nothing where an entry of Y is less than a number.
        *([_line(x, np.where(drawn.pi_star <= 2 * top, drawn.pi_star, np.nan), "π*", "@bound")] if state.is_gaussian else []),
        _line(x, np.where(spinodal <= 2 * top, spinodal, np.nan), "πˢ (AMP)", "@spinodal", dash="dot"),
    ]
    if not noiseless:
        lines += [
            _line(x, np.where(bayes <= 2 * top, bayes, np.nan), "π<sub>B</sub> (Bayes)", "@matrix", dash="dash"),
            _line(x, np.where(appears <= 2 * top, appears, np.nan), "2nd spinodal", "@muted", dash="dot", width=1),
        ]
    name = "density ρ" if drawn.axis == "rho" else "α (this prior has no density)"
    across = _axis(name, range=[0, 1.0 if drawn.axis == "rho" else 2.0])
    layout = _layout("phase diagram: click to select", across, _log("signals per atom π = P/N", _LOWEST_PI, _HIGHEST_PI))
    layout["annotations"] = _phase_names(x, regions)
    return {"data": [shaded(*region) for region in regions] + lines, "layout": layout}


def _phase_names(x: np.ndarray, regions: list[Region]) -> list[dict[str, Any]]:
    """The name of each phase, where it is widest at a height of its own, so that no two meet."""

    def found(phase: str, pi: float) -> np.ndarray:
        """Where the phase is seen at this height: no later region hides it."""
        seen = np.zeros(x.shape, bool)
        for name, bottom, upper in regions:
            seen = np.where((bottom <= pi) & (pi < upper), name == phase, seen)
        return x[seen]

    names = []
    for phase, heights in _HEIGHTS.items():
        inside = [found(phase, pi) for pi in heights]
        widest = int(np.argmax([part.size for part in inside]))
        part = inside[widest]
        # A phase may lie on both sides of another: the side where densities are small is meant.
        across = np.split(part, np.flatnonzero(np.diff(part) > 1.5 * (x[1] - x[0])) + 1)[0]
        if across.size > len(phase) / _LETTERS:
            place = {"x": float((across[0] + across[-1]) / 2), "y": float(np.log10(heights[widest]))}
            names.append({"text": phase, "showarrow": False, "font": {"color": "@ink", "size": 11}, **place})
    return names


def curve_figure(point: Point, state: State) -> Figure:
    """The S-curve: the pi at which each signal-to-noise ratio A of X is a fixed point, and where the present pi meets it."""
    curve = point.curve
    traces = []
    pieces = np.flatnonzero(np.diff(curve.stable.astype(int))) + 1
    named: set[bool] = set()
    for part in np.split(np.arange(curve.pi.size), pieces) if curve.pi.size else []:
        wide = np.append(part, part[-1] + 1) if part[-1] + 1 < curve.pi.size else part
        stable = bool(curve.stable[part[0]])
        trace = _line(curve.snr_X[wide], curve.pi[wide], "stable" if stable else "unstable", "@signals", dash="solid" if stable else "dot")
        traces.append({**trace, "showlegend": stable not in named})
        named.add(stable)
    low, high = state.pi / _AROUND, state.pi * _AROUND
    near = (curve.pi > low) & (curve.pi < high)
    span = (curve.snr_X[near].min() / 3, curve.snr_X[near].max() * 3) if near.any() else (1e-3, 1e6)
    traces.append(_line(span, [state.pi, state.pi], f"π = {state.pi:g}", "@muted", width=1))
    for fixed, name, colour, size in _ends(point):
        if 0 < fixed.snr_X < np.inf:
            traces.append(_dots([fixed.snr_X], [state.pi], name, colour, size=size))
    axes = _log("signal-to-noise ratio A of X", *map(float, span)), _log("π(A) that holds it", low, high)
    return {"data": traces, "layout": _layout("fixed points", *axes)}


def potential_figure(point: Point) -> Figure:
    """The potential along E, its maxima, and the state evolution climbing it from the right."""
    E, phi = point.E, point.potential
    finite = np.isfinite(phi)
    traces = [_line(E[finite], phi[finite], "Φ(E)", "@signals")]
    climb = np.unique(np.geomspace(1, max(point.trajectory.mse.X.size, 2), 40).astype(int)) - 1
    climb = climb[climb < point.trajectory.mse.X.size]
    steps = np.clip(point.trajectory.mse.X[climb], E[0], E[-1])
    path = _dots(steps, point.climbed[climb], "state evolution", "@muted", size=5)
    traces.append({**path, "mode": "lines+markers", "line": {"width": 1, "color": "@muted", "dash": "dot"}})
    for fixed, name, colour, size in _ends(point):
        if fixed.mse.X > 0 and np.isfinite(fixed.free_entropy):
            traces.append(_dots([fixed.mse.X], [fixed.free_entropy], name, colour, size=size))
    low, high = float(phi[finite].min()), float(phi[finite].max())
    # Without noise the potential has no top; what matters is where it bends.
    room = max(0.08 * (high - low), 1e-9)
    axes = _log("error on X, E", float(E[0]), float(E[-1]) * 1.3), _axis("potential Φ(E)", range=[low - room, high + room])
    return {"data": traces, "layout": _layout(f"potential: {point.outcome.phase}", *axes)}


def _ends(point: Point) -> list[tuple[FixedPoint, str, str, int]]:
    return [(point.outcome.bayes, "Bayes", "@bayes", 13), (point.outcome.amp, "AMP", "@amp", 8)]


def errors_figure(point: Point) -> Figure:
    """Both errors of the state evolution, iteration by iteration. The page adds those of a live run."""
    mse = point.trajectory.mse
    steps = np.arange(1, mse.X.size + 1)
    traces = [
        _line(steps, np.maximum(mse.X, _LEAST_ERROR), "E, predicted", "@signals"),
        _line(steps, np.maximum(mse.F, _LEAST_ERROR), "D, predicted", "@matrix"),
    ]
    lowest = max(float(min(mse.X.min(), mse.F.min())), _LEAST_ERROR)
    highest = float(max(mse.X.max(), mse.F.max()))
    axes = _log("iteration + 1"), _log("mean squared error", lowest / 3, highest * 3)
    return {"data": traces, "layout": _layout("state evolution", *axes)}
