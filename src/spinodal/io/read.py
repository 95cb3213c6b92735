"""`read_measurements`: what a solver may see, the truth and the parameters, from a file of any accepted kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, check_file, check_path, check_room
from ..model.sampling import Observed
from ..pair import Pair
from .arrays import read_nc, read_npy, read_npz, word
from .labels import Layout, names_of
from .matlab import read_mat
from .text import read_table

if TYPE_CHECKING:
    from ..inference.solution import Names

TEXT = (".csv", ".tsv", ".txt")
PACKED = ".gz"
TABLES = (*TEXT, ".parquet")
ACCEPTED = (".npz", ".npy", *TEXT, *(kind + PACKED for kind in TEXT), ".parquet", ".mat", ".nc")
# The arrays that have a meaning, and the numbers.
ARRAYS = ("Y", "F_prime", "mask", "F", "X")
PARAMETERS = ("density", "noise_variance", "eta")
# Arrays of an .npz file with the names of its rows and of its columns: as `spinodal solve` writes them, or shorter.
_NAMED = (("row_names", "rows"), ("column_names", "columns"))
# The letters of the paper, which files may use instead.
_LETTERS = {"rho": "density", "delta": "noise_variance"}
# Files that hold a mask beside Y; in the others NaN is how a missing entry is written.
_HAVE_A_MASK = (".npz", ".mat")
# Larger entries are a mistake of units, which the solvers refuse too.
_LARGEST = 1e15
# Bytes in memory for each byte of a text file while it is read: the text, its copies as characters and lines, the numbers.
_PER_BYTE = 8
# So many equal entries in a row of Y are no accident: a dead sensor, or a label.
_NO_ACCIDENT = 10


class Measurements(NamedTuple):
    """What was read from a file.

    Attributes:
        observed: Y, F_prime and mask.
        truth: the true F and X; None unless the file has both.
        parameters: density, noise_variance and eta where the file says them; n_atoms where an F_prime of nothing but NaN does.
        names: labels of the rows and columns of Y, where the file has some.

    Examples:
        >>> from pathlib import Path
        >>> import tempfile
        >>> import numpy as np
        >>> import spinodal as sp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "data.npz")
        ...     np.savez(path, Y=np.arange(12.0).reshape(3, 4), density=0.1)
        ...     measured = sp.read_measurements(path)
        >>> float(measured.parameters["density"]), measured.truth
        (0.1, None)
    """

    observed: Observed
    truth: Pair[np.ndarray] | None
    parameters: dict[str, Any]
    names: Names


class _Contents(NamedTuple):
    arrays: dict[str, Any]
    parameters: dict[str, Any]
    row: Callable[[int], str] = lambda k: f"row {k + 1}"
    column: Callable[[int], str] = lambda k: f"column {k + 1}"
    names: tuple[Any, Any] = (None, None)  # of rows, of columns


def read_measurements(
    path: str | Path,
    *,
    array: str | None = None,
    transpose: bool = False,
    decimal: str = ".",
    index_col: str | int | None = None,
    na: Sequence[str | float] = (),
    header: bool = False,
) -> Measurements:
    """Read Y (M x P: rows are measurements, columns are signals) from an .npz, .npy, .csv, .tsv, .txt, .parquet, .mat or .nc file.

    Files with named arrays may also hold F_prime, mask, and the truth F and X. Y is the array of that name, the one called `array`, or
    the only matrix there is. With `transpose` all of them are turned: signals are rows of Y. Missing entries (empty or NaN) become the
    mask, except in .npz and .mat files, which must say so with a mask. An F_prime of nothing but NaN says the number of atoms only.
    Names in tables, labels of NetCDF files, and row_names and column_names (or rows and columns) of .npz files become the names. Rows
    and columns are counted from 1, also in complaints.

    Args:
        path: the file; text may be compressed (.csv.gz).
        array: the name of the array to take for Y, in files of several.
        transpose: signals are the rows of the file.
        decimal: in text, the mark before the decimals: a point or a comma.
        index_col: in tables, the name or number of the column with the names of the rows, where the file does not show it.
        na: values that mean a missing entry, besides empty fields, NA, N/A, NaN and null: numbers, and in text also words.
        header: in text, the first line holds names even if they look like data.

    Examples:
        >>> from pathlib import Path
        >>> import tempfile
        >>> import spinodal as sp
        >>> lines = ["1.0, 2.0, NA", "0.5, 1.5, 3.0"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = Path(folder, "data.csv")
        ...     _ = table.write_text(chr(10).join(lines))
        ...     observed = sp.read_measurements(table).observed
        >>> observed.mask
        array([[ True,  True, False],
               [ True,  True,  True]])
    """
    from ..inference.solution import Names

    layout = Layout(decimal, index_col, tuple(map(str, na)), header).checked()
    with _opened(path) as (path, kind):
        contents = _contents(path, kind, array, layout)
        if transpose:
            turned = {name: np.swapaxes(value, -1, -2) if np.ndim(value) == 2 else value for name, value in contents.arrays.items()}
            contents = contents._replace(arrays=turned, row=contents.column, column=contents.row, names=contents.names[::-1])
        Y = _measured(contents, path)
        mask = contents.arrays.get("mask")
        if mask is None and np.isnan(Y).any():
            _check_missing(Y, kind, contents, path)
            mask = ~np.isnan(Y)
        Y, mask = _without(layout.numbers, Y, mask)
        _check_entries(Y, mask, contents, path)
        F_prime, said = contents.arrays.get("F_prime"), contents.parameters
        if F_prime is not None and F_prime.ndim == 2 and F_prime.dtype.kind == "f" and np.isnan(F_prime).all():
            said, F_prime = {"n_atoms": F_prime.shape[1], **said}, None
        return Measurements(Observed(Y, F_prime, mask), _truth(contents.arrays, Y.shape), said, Names(*contents.names))


def read_matrix(path: str | Path, names: Sequence[str], *, transpose: bool = False, decimal: str = ".") -> np.ndarray:
    """A matrix that goes with Y, from a file of its own: the array of the first of these names that the file has, or its only matrix.

    It may be of any size, and hold what Y may not: rows of one value, say. Refused unless every entry is a finite number.

    Examples:
        >>> from pathlib import Path
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "sheet.npz")
        ...     np.savez(path, F_prime=np.ones((2, 3)), Y=np.zeros((2, 9)))
        ...     read_matrix(path, ("F_prime",)).shape
        (2, 3)
    """
    kind = kind_of(Path(path))
    layout = Layout(decimal if kind in TEXT else ".").checked()
    with _opened(path) as (path, kind):
        matrix = np.asarray(_contents(path, kind, None, layout, tuple(names)).arrays["Y"])
        if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or 0 in matrix.shape:
            raise InputError(f"{names[0]} must be a matrix of real numbers, but in {str(path)!r} it is {_kind(matrix)}.")
        if not np.isfinite(matrix).all():
            i, k = np.argwhere(~np.isfinite(matrix))[0]
            raise InputError(f"{names[0]} must have all its entries, but row {i + 1}, column {k + 1} of {str(path)!r} is {matrix[i, k]:g}.")
        return matrix.T if transpose else matrix


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Path, str]]:
    """A file that is there and can be read, and its kind; whatever goes wrong with it becomes one sentence."""
    path = Path(path)
    check_path("FILE", path)
    kind = kind_of(path)
    check_file("FILE", path)
    if kind not in ACCEPTED:
        raise InputError(f"FILE must end in one of {', '.join(ACCEPTED)}, but {str(path)!r} was given.")
    try:
        path.open("rb").close()
        if kind in TEXT:
            check_room("FILE", _PER_BYTE * path.stat().st_size, f"the text in {str(path)!r}")
        yield path, kind
    except MemoryError as error:
        raise InputError(f"FILE must fit in memory, but {str(path)!r} does not ({error or 'no more memory'}).") from None
    except OSError as error:
        raise InputError(f"FILE must be a file that can be read, but {str(path)!r} can't: {error.strerror or error}.") from None


def kind_of(path: Path) -> str:
    """The ending of a file's name, without that of gzip after that of a text file."""
    kind = path.suffix.lower()
    before = Path(path.stem).suffix.lower()
    return before if kind == PACKED and before in TEXT else kind


def _without(values: list[float], Y: np.ndarray, mask: Any) -> tuple[np.ndarray, Any]:
    """Y and its mask where entries of these values are missing."""
    hidden = np.isin(Y, values)
    if not hidden.any():
        return Y, mask
    if mask is None or np.shape(mask) == Y.shape:  # what else is wrong with a mask is said later
        mask = ~hidden if mask is None else np.where(hidden, 0, mask)
    return np.where(hidden, np.nan, Y.astype(float)), mask


def _contents(path: Path, kind: str, array: str | None, layout: Layout, wanted: tuple[str, ...] = ("Y",)) -> _Contents:
    """The arrays of the file, the one to take under the name Y: that of a name that is `wanted`, unless an `array` is named."""
    if array is not None and kind in (".npy", *TABLES):
        raise InputError(f"array must be left out for a {kind} file, which holds one matrix, but {array!r} was given.")
    _check_layout(layout, kind)
    if kind in TEXT:
        table = read_table(path, layout)
        row, column = (lambda k: f"line {table.lines[k]}"), (lambda k: f"column {table.columns[k]}")
        return _Contents({"Y": table.values}, {}, row, column, (table.row_names, table.column_names))
    if kind == ".parquet":
        from .parquet import read_parquet

        table = read_parquet(path, layout)
        return _Contents({"Y": table.values}, {}, names=(table.row_names, table.column_names))
    if kind == ".npy":
        return _Contents({"Y": read_npy(path)}, {})
    about: dict[str, Any] = {}
    labels: dict[str, list[Any]] = {}
    if kind == ".npz":
        found, about = read_npz(path, (array or wanted[0], *wanted, *ARRAYS, *PARAMETERS, *_LETTERS, *_NAMED[0], *_NAMED[1]))
    elif kind == ".mat":
        found = read_mat(path)
    else:
        found, about, labels = read_nc(path)
    said = {name: value.item() for name, value in found.items() if value.size == 1} | about
    known = {
        _LETTERS.get(name, name): value for name, value in said.items() if _LETTERS.get(name, name) in PARAMETERS and value is not None
    }
    chosen = _chosen(found, array, path, wanted)
    arrays = {name: found[name] for name in ARRAYS if name in found}
    rows, columns = labels[chosen] if len(labels.get(chosen, [])) == 2 else (None, None)
    if kind == ".npz" and found[chosen].ndim == 2:
        rows, columns = (_names(found, keys, side, chosen, array, path) for keys, side in zip(_NAMED, found[chosen].shape, strict=True))
    return _Contents(arrays | {"Y": found[chosen]}, known, names=(rows, columns))


def _names(found: dict[str, Any], keys: tuple[str, ...], side: int, chosen: str, array: str | None, path: Path) -> tuple[str, ...] | None:
    """The names under the first of the keys that has some: words, or a number for each row or column. None if there are none."""
    for key in keys:
        value = found.get(key)
        if value is None or key == chosen or value.ndim != 1 or value.dtype.kind not in "USiufM":
            continue
        if len(value) == side:
            return names_of([word(each) for each in value])
        # Numbers may be something else, and of a matrix that was asked for others than Y may have the names.
        if value.dtype.kind in "US" and array in (None, "Y"):
            what = key.removesuffix("_names").removesuffix("s")
            raise InputError(
                f"{key} must have a name for each {what} of {chosen}, but in {str(path)!r} it has {len(value)} for {side} {what}s."
            )
    return None


def _check_layout(layout: Layout, kind: str) -> None:
    """Refuse what a file of this kind has no use for."""
    for name, given, kinds in (
        ("decimal", layout.decimal != ".", TEXT),
        ("header", layout.header, TEXT),
        ("index_col", layout.index_col is not None, TABLES),
        ("na", len(layout.numbers) < len(layout.na), TABLES),
    ):
        if given and kind not in kinds:
            what = "hold numbers only" if name == "na" else "be left out"
            value = ", ".join(layout.na) if name == "na" else getattr(layout, name)
            raise InputError(
                f"{name} must {what} for a {kind} file, which is no {'text' if kinds is TEXT else 'table'}, but {value!r} was given."
            )


def _chosen(found: dict[str, Any], array: str | None, path: Path, wanted: tuple[str, ...]) -> str:
    """The name of the array to take: the one that is named, else one that is wanted, else the only matrix."""
    there = ", ".join(f"{name} ({_kind(value)})" for name, value in found.items()) or "nothing"
    if array is not None:
        if array not in found:
            raise InputError(f"array must be the name of an array in {str(path)!r}, but {array!r} was given and there is {there}.")
        return array
    for name in wanted:
        if name in found:
            return name
    matrices = [name for name, value in found.items() if name not in ARRAYS and value.ndim == 2 and value.dtype.kind in "fiub"]
    # MATLAB has no scalars and vectors, only matrices of one row or column.
    matrices = [name for name in matrices if min(found[name].shape) > 1] or matrices
    if len(matrices) == 1:
        return matrices[0]
    advice = "; name the one to use with --array NAME" if wanted == ("Y",) else ""
    raise InputError(f"FILE must hold an array {wanted[0]} or one matrix only, but {str(path)!r} holds {there}{advice}.")


def _kind(value: Any) -> str:
    """Shape and, unless it is of real numbers, type of an array, in words."""
    sizes = " x ".join(map(str, value.shape)) or "a single value"
    return sizes if value.dtype.kind in "fiub" else f"{sizes}, {value.dtype}"


def _measured(contents: _Contents, path: Path) -> np.ndarray:
    Y = np.asarray(contents.arrays["Y"])
    if Y.dtype.kind not in "fiub":
        raise InputError(f"Y must hold real numbers, but in {str(path)!r} it holds {Y.dtype}.")
    if Y.ndim != 2 or 0 in Y.shape:
        raise InputError(f"Y must be an M x P matrix with M and P of at least 1, but in {str(path)!r} its shape is {Y.shape}.")
    return Y


def _check_missing(Y: np.ndarray, kind: str, contents: _Contents, path: Path) -> None:
    """Refuse NaN in a file that has room for a mask and no mask: it may be a computation that failed."""
    if kind in _HAVE_A_MASK:
        i, k = np.argwhere(np.isnan(Y))[0]
        where = f"{contents.row(i)}, {contents.column(k)}"
        raise InputError(
            f"Y must come with a mask (0 where entries are missing) if it holds NaN, but there is none and {where} of {str(path)!r} is NaN."
        )


def _check_entries(Y: np.ndarray, mask: Any, contents: _Contents, path: Path) -> None:
    """Refuse infinite and huge entries, rows and columns without any, and rows of one value, saying where they are."""
    bad = np.argwhere(np.abs(Y, dtype=float) > _LARGEST)
    if bad.size:
        i, k = bad[0]
        where = f"{contents.row(i)}, {contents.column(k)}"
        advice = f"; give --na {Y[i, k]:g} if that means a missing entry" if np.isfinite(Y[i, k]) else ""
        raise InputError(
            f"Y must hold finite numbers of at most {_LARGEST:g} in size, but {where} of {str(path)!r} holds {Y[i, k]:g}{advice}."
        )
    seen = ~np.isnan(Y)
    if np.shape(mask) == Y.shape and np.asarray(mask).dtype.kind in "fiub":
        seen &= np.asarray(mask) != 0
    for axis, name in ((1, contents.row), (0, contents.column)):
        empty = np.flatnonzero(~seen.any(axis=axis))
        if empty.size:
            raise InputError(f"Y must have an observed entry in every row and column, but {name(empty[0])} of {str(path)!r} has none.")
    low, high = np.where(seen, Y, np.inf).min(axis=1), np.where(seen, Y, -np.inf).max(axis=1)
    constant = np.flatnonzero((low == high) & (seen.sum(axis=1) >= _NO_ACCIDENT))
    if constant.size:
        first, more = constant[0], f" (and {constant.size - 1} more)" if constant.size > 1 else ""
        raise InputError(
            f"Y must vary from signal to signal, but {contents.row(first)} of {str(path)!r}{more} is {low[first]:g} throughout; "
            "leave out what is constant."
        )


def _truth(arrays: dict[str, Any], shape: tuple[int, ...]) -> Pair[np.ndarray] | None:
    """F and X of the file, refused unless they are real, finite and of shapes that fit Y."""
    if "F" not in arrays or "X" not in arrays:
        return None
    F, X = arrays["F"], arrays["X"]
    for name, array in (("F", F), ("X", X)):
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise InputError(f"{name} must hold finite real numbers to score against, but it does not.")
    if F.ndim != 2 or X.ndim != 2 or F.shape[1] != X.shape[0] or (F.shape[0], X.shape[1]) != shape or 0 in F.shape:
        raise InputError(f"F and X must fit Y as M x N and N x P, but their shapes are {F.shape} and {X.shape}.")
    return Pair(F, X)
