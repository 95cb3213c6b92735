"""Results in files."""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..errors import InputError, check_path, shown

if TYPE_CHECKING:
    from ..inference.solution import Solution


def plain(value: Any) -> Any:
    """Numbers and containers as JSON has them: "inf" and "-inf" as words, NaN and None as null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else "inf" if value > 0 else "-inf"
    return value


def named_file(name: str, path: str | Path, suffix: str) -> Path:
    """The path of a file to be written, refused unless it has the suffix and a file can be put there. Nothing is made yet."""
    target = Path(path)
    if target.suffix != suffix:
        raise InputError(f"{name} must be a file name ending in {suffix}, but {shown(str(path))} was given.")
    check_path(name, target)
    if target.is_dir():
        raise InputError(f"{name} must be a file, but {str(path)!r} is a directory.")
    if target.exists() and not target.is_file():
        raise InputError(f"{name} must be a file, but {str(path)!r} is a pipe or a device.")
    # Directories that do not exist are made later, but not those that a link leads to; the first that exists must allow it.
    real = os.path.realpath(target)
    if target.is_symlink() and (os.path.islink(real) or not os.path.isdir(os.path.dirname(real))):  # in a circle, or to no folder
        raise InputError(f"{name} must be a file, but {str(path)!r} is a link that leads nowhere.")
    above = next(folder for folder in target.absolute().parents if os.path.lexists(folder))
    _check_writable(f"{name} must be in", above, str(target.parent))
    return target


def writable_directory(name: str, path: str | Path) -> Path:
    """The directory, made if need be; refused now if it can't be written, before any work is done."""
    directory = Path(path)
    check_path(name, directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(f"{name} must be", str(path), error) from None
    _check_writable(f"{name} must be", directory, str(path))
    return directory


def _check_writable(rule: str, directory: Path, given: str) -> None:
    try:
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _not_writable(rule, given, error) from None


def _not_writable(rule: str, given: str, error: OSError) -> InputError:
    return InputError(f"{rule} a directory that can be written, but {given!r} can't: {error.strerror or error}.")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path that takes the place of `path` when the block ends well; directories above it are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror or error}.") from None
    with files.whole_file(path) as temporary:
        yield temporary


def save_solution(solution: Solution, path: Path, about: dict[str, Any]) -> None:
    """Means, variances and names of a solution: labelled arrays in an .nc file, a line for each entry of F and X in a .csv file, and in an
    .npz file arrays, with the trace. `about` is JSON under "parameters", except in .csv files."""
    if path.suffix != ".npz":
        with whole_file(path) as temporary:
            (_write_csv if path.suffix == ".csv" else _write_nc)(solution, temporary, about)
        return
    length = int(solution.iterations)
    arrays: dict[str, Any] = {f"trace_{name}": np.asarray(values)[:length] for name, values in solution.trace._asdict().items()}
    arrays |= {"F_mean": solution.mean.F, "F_var": solution.variance.F, "X_mean": solution.mean.X, "X_var": solution.variance.X}
    if solution.reproducibility is not None:
        arrays["reproducibility"] = solution.reproducibility
    if solution.row_means is not None:
        arrays["row_means"] = solution.row_means
    named = {"row_names": solution.names.rows, "column_names": solution.names.columns}
    arrays |= {name: np.array(labels) for name, labels in named.items() if labels is not None}
    with whole_file(path) as temporary:
        np.savez(temporary, parameters=np.array(json.dumps(plain(about))), **arrays)


def _write_nc(solution: Solution, path: Path, about: dict[str, Any]) -> None:
    dataset = solution.to_xarray().assign_attrs(parameters=json.dumps(plain(about)))
    dataset.to_netcdf(path, engine="scipy")


def _write_csv(solution: Solution, path: Path, about: dict[str, Any]) -> None:
    """The matrix, the row, the column, the mean and the variance; atoms count from 0, as rows and columns without a name do."""
    (M, N), P = np.shape(solution.mean.F), np.shape(solution.mean.X)[1]
    rows, columns = (names or range(size) for names, size in zip(solution.names, (M, P), strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["matrix", "row", "column", "mean", "variance"])
        for name, across, down in (("F", rows, range(N)), ("X", range(N), columns)):
            mean, variance = (np.asarray(getattr(pair, name)).tolist() for pair in (solution.mean, solution.variance))
            for i, row in enumerate(across):
                writer.writerows([name, row, column, mean[i][k], variance[i][k]] for k, column in enumerate(down))
        if solution.row_means is not None:
            writer.writerows(
                ["row_means", row, "", value, ""] for row, value in zip(rows, np.asarray(solution.row_means).tolist(), strict=True)
            )
