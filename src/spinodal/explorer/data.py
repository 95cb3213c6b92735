"""What is on screen as a file: the numbers of a figure as CSV, JSON or NetCDF, made in memory."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from . import preview
from .state import State

if TYPE_CHECKING:
    import xarray

    from .runs import Run

# Kinds of files, as browsers call them.
TYPES = {"csv": "text/csv", "json": "application/json", "nc": "application/x-netcdf"}


def dataset(which: str, state: State, run: Run | None = None) -> xarray.Dataset:
    """The numbers of a figure. Those of "recovered" and "atoms" are a run's; there are none without."""
    import xarray

    about: dict[str, Any] = {**state._asdict(), "made_by": "spinodal explore"}
    if which == "diagram":
        drawn = preview.diagram(state)
        values = {"pi_star": drawn.pi_star, **{f"pi_{name}": column for name, column in drawn.transitions._asdict().items()}}
        return xarray.Dataset({name: (drawn.axis, column) for name, column in values.items()}, {drawn.axis: drawn.across}, about)
    if which == "recovered":
        result = run.result if run and run.result else {"true_X": [], "found_X": []}
        return xarray.Dataset({name: ("entry", np.asarray(result[name], float)) for name in ("true_X", "found_X")}, attrs=about)
    if which == "atoms":
        return xarray.Dataset({"angle": ("atom", np.asarray(run.result["angle"] if run and run.result else [], float))}, attrs=about)
    point = preview.point(state)
    if which == "potential":
        return xarray.Dataset({"potential": ("mse_X", point.potential)}, {"mse_X": point.E}, about)
    if which == "curve":
        columns = {name: ("snr_X", value) for name, value in point.curve._asdict().items() if name != "snr_X"}
        return xarray.Dataset(columns, {"snr_X": point.curve.snr_X}, about)
    mse = point.trajectory.mse
    values = {"predicted_mse_X": ("iteration", mse.X), "predicted_mse_F": ("iteration", mse.F)}
    predicted = xarray.Dataset(values, {"iteration": np.arange(mse.X.size)}, about)
    if run is None or not run.iterations:
        return predicted
    count = len(run.iterations)
    measured = {"measured_mse_X": ("iteration", run.errors.X[:count]), "measured_mse_F": ("iteration", run.errors.F[:count])}
    measured["measured_mse_X_median_signal"] = ("iteration", run.typical[:count])
    together = xarray.merge(
        [predicted, xarray.Dataset(measured, {"iteration": run.iterations[:count]})], join="outer", compat="no_conflicts"
    )
    return together.assign_attrs(about)


def data_file(which: str, kind: str, state: State, run: Run | None = None) -> dict[str, Any]:
    """The file as Dash sends it: name, type and bytes."""
    values = dataset(which, state, run)
    if kind == "csv":
        content = values.to_dataframe().reset_index().to_csv(index=False).encode()
    elif kind == "json":
        content = json.dumps(_plain(values.to_dict()), allow_nan=False).encode()
    else:
        content = bytes(values.to_netcdf(engine="scipy"))
    return {"filename": f"spinodal-{which}.{kind}", "content": base64.b64encode(content).decode(), "type": TYPES[kind], "base64": True}


def _plain(value: Any) -> Any:
    """Infinities as words and NaN as null, as everywhere in our JSON."""
    from ..io.write import plain

    return plain(value)
