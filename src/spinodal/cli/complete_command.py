"""spinodal complete: a table from a file, its holes filled in, into a file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from ..errors import InputError, printable
from ..inference.completion import Completed, complete
from ..io import read_measurements
from ..io.read import PACKED, TEXT
from ..io.write import named_file, whole_file
from . import output
from .parsing import number

# What is added to the name of the input for the default name of the output.
_OURS = "-filled.csv"


def complete_file(
    *,
    file: str,
    out: str | None,
    intervals: str | None,
    level: str,
    max_components: int,
    array: str | None,
    transpose: bool,
    layout: dict[str, Any],
    seed: int,
    as_json: bool,
) -> None:
    """`layout` says how the table is written; `intervals` names a file with a line for each entry that was filled in."""
    target = _target("out", out or _beside(file), file)
    second = None if intervals is None else _target("intervals", intervals, file)
    if second is not None and second.resolve() == target.resolve():
        raise InputError(f"intervals must be another file than out, but {printable(str(intervals))} was given for both.")
    share = number("level", level)
    # Features are the columns of a table, and rows where files are read for solve.
    measured = read_measurements(file, array=array, transpose=not transpose, **layout)
    Y, _, mask = measured.observed
    with output.progress_bar("filling in") as bar:
        found = complete(
            _as_table(Y, mask), max_components=max_components, seed=seed, progress=lambda stage, done: bar(round(100 * done), 100)
        )
    low, high = found.interval(share)  # refused before anything is written
    columns, rows = measured.names
    _write_table(target, found, rows, columns)
    if second is not None:
        _write_intervals(second, found, low, high, rows, columns)
    told = {
        "filled": int(found.missing.sum()),
        "entries": int(found.missing.size),
        "held_out_error": found.held_out.rmse,
        "held_out_log_density": found.held_out.log_density,
        "models": [each._asdict() for each in found.members],
    }
    files = [str(path) for path in (target, second) if path is not None]
    if as_json:
        output.print_json({"files": files, **told})
    else:
        print(f"{', '.join(files)}: {found.summary()}")


def _as_table(Y: Any, mask: Any) -> Any:
    import numpy as np

    return Y.T if mask is None else np.where(mask, Y, np.nan).T


def _beside(file: str) -> str:
    path = Path(file)
    stem = Path(path.stem).stem if path.suffix == PACKED and Path(path.stem).suffix in TEXT else path.stem
    return str(path.with_name(stem + _OURS))


def _target(name: str, path: str, file: str) -> Path:
    target = named_file(name, path, ".csv")
    if target.resolve() == Path(file).resolve():
        raise InputError(f"{name} must be another file than the table, but {printable(path)} was given for both.")
    return target


def _write_table(path: Path, found: Completed, rows: Any, columns: Any) -> None:
    """The table as it was, names too, without holes."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if columns is not None:
            writer.writerow([*([] if rows is None else [""]), *columns])
        for i, values in enumerate(found.table.tolist()):
            writer.writerow([*([] if rows is None else [rows[i]]), *values])


def _write_intervals(path: Path, found: Completed, low: Any, high: Any, rows: Any, columns: Any) -> None:
    """A line for each entry that was filled in; rows and columns without names count from 1."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "column", "value", "deviation", "low", "high"])
        for i, j in zip(*found.missing.nonzero(), strict=True):
            where = (i + 1 if rows is None else rows[i], j + 1 if columns is None else columns[j])
            writer.writerow([*where, *(float(each[i, j]) for each in (found.table, found.deviation, low, high))])
