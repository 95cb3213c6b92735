"""Numbers from Parquet files, with pandas's index where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .arrays import reading
from .labels import Layout, are_labels, check_labels, column_number, is_index_name, names_of, parsed, shown
from .text import Table

_ACCEPTED = "FILE must hold columns of numbers"


def read_parquet(path: Path, layout: Layout) -> Table:
    """The matrix of a Parquet file: pandas's index, or a first column of words or of such a name as id, holds the names of the rows."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"FILE must not be a .parquet file unless pyarrow is installed, but {str(path)!r} is; install spinodal[parquet]."
        ) from None
    with reading(path, ".parquet"):
        found = pyarrow.parquet.ParquetFile(path).read()
    header = [str(name) for name in found.column_names]
    columns = {k: found.column(k) for k in range(len(header))}
    index = _index(found, header, columns, layout, path)
    kept = [k for k in columns if k != index]
    if not kept or not found.num_rows:
        raise InputError(f"{_ACCEPTED}, but {str(path)!r} has none.")
    values = np.column_stack([_numbers(columns[k], header[k], k, layout, path) for k in kept])
    rows = None if index is None else names_of(_words(columns[index]))
    return Table(values, list(range(1, len(values) + 1)), [k + 1 for k in kept], rows, names_of([header[k] for k in kept]))


def _index(found: Any, header: list[str], columns: dict[int, Any], layout: Layout, path: Path) -> int | None:
    """The column with the names of the rows; None if there is none."""
    if layout.index_col is not None:
        return column_number(layout.index_col, header, len(header), path)
    about = found.schema.pandas_metadata or {}
    stored = [name for name in about.get("index_columns", []) if isinstance(name, str) and name in header]
    if len(stored) > 1:
        raise InputError(f"FILE must have one column with the names of the rows, but {str(path)!r} has {', '.join(map(shown, stored))}.")
    if stored:
        return header.index(stored[0])
    if header and is_index_name(header[0]):
        return 0
    if len(header) > 1 and not _is_numeric(columns[0]) and found.num_rows and are_labels(_words(columns[0])):
        check_labels(_words(columns[0]), _ACCEPTED, path)
        return 0
    return None


def _is_numeric(column: Any) -> bool:
    import pyarrow.types as types

    kind = column.type
    return any(is_it(kind) for is_it in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null))


def _words(column: Any) -> list[str]:
    return [str(value) for value in column.to_pylist()]


def _numbers(column: Any, name: str, k: int, layout: Layout, path: Path) -> np.ndarray:
    """A column as numbers, NaN where it has none."""
    if _is_numeric(column):
        return np.array([np.nan if value is None else float(value) for value in column.to_pylist()])
    found = np.empty(len(column))
    for i, value in enumerate(column.to_pylist()):
        try:
            found[i] = parsed("" if value is None else str(value), layout)
        except ValueError:
            raise InputError(
                f"{_ACCEPTED}, but row {i + 1} of column {shown(name)} of {str(path)!r} holds {shown(str(value))}; "
                f"leave the column out, give --index-col {k + 1} if it holds the names of the rows, or --na if that means a missing entry."
            ) from None
    return found
