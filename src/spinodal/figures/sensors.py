"""The sensors of a calibrated array, each with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .palette import BLUE, GREY, VERMILION
from .theory import blank_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..model.channels import Readings

# Standard deviations of a normal number that 90% of it lie within, and the probability from which a sensor is called faulty.
NINETY, SUSPECT = 1.645, 0.5


def sensors_figure(readings: Readings, *, gains: bool, offsets: bool, faults: bool) -> Figure:
    """Gain and offset of every row of Y with intervals of 90%, and the probability that it is faulty; suspects in red."""
    wanted = [
        (kind, values)
        for kind, values, there in (("gain", readings.gain, gains), ("offset", readings.offset, offsets), ("faulty", None, faults))
        if there
    ]
    figure, axes = blank_figure(9.6, 0.6 + 1.9 * len(wanted), len(wanted), 1, sharex=True)
    suspects = np.asarray(readings.faulty) > SUSPECT
    place = np.arange(1, suspects.size + 1)
    for axis, (kind, values) in zip(np.ravel(axes), wanted, strict=True):
        if values is None:
            axis.bar(place, readings.faulty, color=[VERMILION if bad else BLUE for bad in suspects])
            axis.set(ylabel="probability of a fault", ylim=(0, 1.05))
            continue
        for bad, colour, label in ((False, BLUE, "works"), (True, VERMILION, "suspected of a fault: no reading")):
            which = suspects == bad
            if which.any() and not bad:
                reach, told = NINETY * np.sqrt(values.variance[which]), f"{label}, with 90% interval"
                axis.errorbar(place[which], values.mean[which], reach, fmt="o", ms=3, lw=1, color=colour, label=told)
            elif which.any():
                level = float(np.median(values.mean[~which])) if (~which).any() else 0.0
                axis.plot(place[which], np.full(which.sum(), level), "x", color=colour, label=label)
        axis.axhline(1.0 if kind == "gain" else 0.0, color=GREY, ls=":")
        axis.set_ylabel(kind)
        if axis is np.ravel(axes)[0]:
            axis.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    np.ravel(axes)[-1].set_xlabel("sensor (row of Y)")
    return figure
