"""What a report says of the sensors: a sentence, a picture, and a table of those that stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..figures.sensors import NINETY, SUSPECT, sensors_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..inference.solution import Solution

# Sensors named in a sentence or a table, at most.
_NAMED = 12


def sensors_in_words(solution: Solution) -> str:
    """How many sensors are suspected of a fault, and how much gains and offsets differ."""
    found, channel = solution.sensors, solution.model.channel
    parts = []
    works = np.asarray(found.faulty) <= SUSPECT
    if channel.faulty is not None:
        bad = [_name(solution, int(k)) for k in np.flatnonzero(~works)]
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        named = f"{len(bad)} of {works.size} suspected of a fault: {', '.join(bad[:_NAMED])}{more}"
        parts.append(named if bad else "none is suspected of a fault")
    if channel.gains is not None and works.any():
        low, high = np.min(found.gain.mean[works]), np.max(found.gain.mean[works])
        parts.append(f"gains from {low:.3g} to {high:.3g}")
    if channel.offset_variance is not None and works.any():
        low, high = np.min(found.offset.mean[works]), np.max(found.offset.mean[works])
        parts.append(f"offsets from {low:.3g} to {high:.3g}")
    return "; ".join(parts)


def sensors_picture(solution: Solution) -> Figure:
    """The figure for the parts that the channel has."""
    channel = solution.model.channel
    return sensors_figure(
        solution.sensors, gains=channel.gains is not None, offsets=channel.offset_variance is not None, faults=channel.faulty is not None
    )


def standing_out(solution: Solution) -> tuple[list[str], list[tuple[str, ...]]]:
    """Columns and rows of a table: suspects first, then the gains furthest from 1."""
    found, channel = solution.sensors, solution.model.channel
    apart = np.abs(np.log(np.maximum(found.gain.mean, np.finfo(float).tiny))) + np.abs(found.offset.mean)
    order = np.lexsort((-apart, found.faulty <= SUSPECT))
    columns = ["sensor"]
    columns += ["gain, 90%"] if channel.gains is not None else []
    columns += ["offset, 90%"] if channel.offset_variance is not None else []
    columns += ["probability of a fault"] if channel.faulty is not None else []
    rows = []
    for k in order[:_NAMED]:
        bad = found.faulty[k] > SUSPECT
        row = [_name(solution, int(k))]
        for values, there in ((found.gain, channel.gains is not None), (found.offset, channel.offset_variance is not None)):
            if there:
                row.append("no reading" if bad else _interval(values.mean[k], values.variance[k]))
        rows.append((*row, *([f"{found.faulty[k]:.3f}"] if channel.faulty is not None else [])))
    return columns, rows


def _interval(mean: Any, variance: Any) -> str:
    reach = NINETY * np.sqrt(variance)
    return f"{mean:.4g} ({mean - reach:.4g} to {mean + reach:.4g})"


def _name(solution: Solution, k: int) -> str:
    return solution.names.rows[k] if solution.names.rows is not None else f"row {k + 1}"
