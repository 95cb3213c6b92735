"""The results of a sweep as a table and as labelled arrays, with all that is needed to know where they come from."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .compute import RESULTS, STATUSES
from .plan import Plan
from .run import Say, look
from .spec import AXES, Spec

if TYPE_CHECKING:
    import pandas
    import xarray


def table(directory: Path, say: Say = warnings.warn) -> pandas.DataFrame:
    """A row for every point of the plan, also those that failed or are still missing; provenance in `attrs`.

    A point whose row in the ledger is damaged is missing, and `say` is told so in a sentence.
    """
    return _read(directory, say)[0]


def _read(directory: Path, say: Say) -> tuple[pandas.DataFrame, Spec, Plan]:
    import pandas

    now, found, ledger = look(directory, say)
    nothing = {"status": "missing", "error": None, **dict.fromkeys(RESULTS)}
    records = []
    for point in now.plan.points:
        row = found.points.get(point.id, nothing)
        about = {"id": point.id, **point.numbers, "N": point.N, "instance": point.instance, "solver": _solver_name(now.spec, point.solver)}
        about |= {"seed": point.seed, "status": row["status"], "error": row["error"]}
        records.append(about | {name: np.nan if row[name] is None else row[name] for name in RESULTS})
    frame = pandas.DataFrame.from_records(records)
    frame.attrs = _provenance(ledger, now.spec, found.runs, found.batches)
    return frame, now.spec, now.plan


def _solver_name(spec: Spec, k: int) -> str:
    """The method, with its options where the spec has more than one solver."""
    solver = spec.solvers[k]
    options = ", ".join(f"{name}={value}" for name, value in solver.items() if name != "method")
    return f"{solver['method']} ({options})" if options else str(solver["method"])


def _provenance(about: dict[str, str], spec: Spec, runs: list[dict[str, Any]], batches: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": spec.name,
        "spinodal_version": about["version"],
        "spec": about["spec"],
        "plan": about["digest"],
        "seed": spec.seed,
        "float_type": spec.dtype,
        "machines": json.dumps(sorted({batch["machine"] for batch in batches})),
        "executors": json.dumps([run["executor"] for run in runs]),
        "seconds": float(sum(batch["seconds"] for batch in batches)),
    }


def dataset(directory: Path, say: Say = warnings.warn) -> xarray.Dataset:
    """Arrays over the axes of the grid (or over `point` for a random design), N, solver and instance. Points without numbers are NaN."""
    import xarray

    frame, spec, plan = _read(directory, say)
    solvers = [_solver_name(spec, k) for k in range(len(spec.solvers))]
    coordinates: dict[str, Any] = {}
    if spec.axes is not None:
        coordinates |= {name: list(values) for name, values in spec.axes.items()}
        places = [[values.index(x) for x in frame[name]] for name, values in spec.axes.items()]
    else:
        coordinates["point"] = np.arange(len(spec.designs))
        places = [[point.design for point in plan.points]]
    coordinates |= {"N": list(spec.sizes), "solver": solvers, "instance": np.arange(spec.instances)}
    places += [[spec.sizes.index(n) for n in frame["N"]], [solvers.index(name) for name in frame["solver"]], list(frame["instance"])]
    shape = tuple(len(values) for values in coordinates.values())
    dims = tuple(coordinates)
    data: dict[str, Any] = {}
    codes = frame["status"].map({name: k for k, name in enumerate(STATUSES)}).to_numpy(np.int8)
    for name, column in {"status": codes, **{name: frame[name].to_numpy(float) for name in RESULTS}}.items():
        values = np.zeros(shape, np.int8) if name == "status" else np.full(shape, np.nan)
        values[tuple(np.array(place) for place in places)] = column
        data[name] = (dims, values)
    if spec.axes is None:
        data |= {name: ("point", [design[name] for design in spec.designs]) for name in AXES if name in spec.designs[0]}
    result = xarray.Dataset(data, coords=coordinates, attrs=frame.attrs)
    result["status"].attrs["statuses"] = " ".join(STATUSES)
    return result
