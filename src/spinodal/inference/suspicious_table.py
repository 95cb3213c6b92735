"""A table as the checks of data see it, and the words in which they speak of it: those of `solve`, or of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Taking a mean off and putting it back loses fewer units in the last place than this. Digits beyond the second number are left as they are:
# no power of ten is exact there.
_ROUNDED, _TINY = 4.0, 1e-22
# Rows named in a sentence, at most.
_NAMED = 5
# More entries than this are not looked at: of larger data, signals at equal distances are taken.
_MOST_ENTRIES = 2_000_000
_OF_TABLES = "(for the file's first line --header, for its first column --index-col 1 on the command line)"


class Words(NamedTuple):
    """What the data, their rows and their columns are called, and what to do about what is found."""

    data: str = "Y"
    row: str = "row"
    signals: str = "signals"
    means: str = "row_means"
    center: str = ", --center"
    no_center: str = " (--no-center)"
    missing: str = " (--na {} on the command line)"
    clipped: str = 'say channel="clipped", or '
    counts: str = 'say channel="poisson", or '
    first_row: str = f"the first row of Y is {{}}, which looks like column numbers; leave that row out {_OF_TABLES}"
    first_column: str = f"the first column of Y is {{}}, which looks like an index; leave that column out {_OF_TABLES}"
    turned: str = (
        "Y has {} rows and only {} columns, and its rows look like the signals; if each row is a signal, solve for the transpose "
        "(Y.T, or --transpose on the command line)"
    )


def with_means(Y: np.ndarray, means: Any, dtype: Any) -> np.ndarray:
    """Y of this type, from which the means of the rows were taken off, as it was before: to the digits that it had, since equal entries and
    marks of missing ones are looked for."""
    whole = Y + means
    eps = np.finfo(dtype if np.dtype(dtype).kind == "f" else float).eps
    lost = _ROUNDED * eps * (np.abs(whole) + np.abs(means))  # entry by entry, no more than this
    digits = -np.ceil(np.log10(np.maximum(lost, _TINY))).astype(int)
    up, down = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)  # powers of ten that are exact
    return np.where(lost < _TINY, whole, np.rint(whole * up / down) * down / up)


class Table(NamedTuple):
    """Y with zeros where an entry is missing, which entries are there, and the names of the rows."""

    Y: np.ndarray
    seen: np.ndarray
    names: Sequence[str] | None = None
    words: Words = Words()

    @property
    def power(self) -> float:
        """The mean square of the entries; 0 where there are none."""
        return float(np.sum(self.Y**2) / max(np.sum(self.seen), 1))

    def without(self, hidden: np.ndarray) -> Table:
        """The table with more entries missing."""
        seen = self.seen & ~hidden
        return self._replace(Y=np.where(seen, self.Y, 0.0), seen=seen)

    def rows(self, which: Any) -> str:
        """Rows by name, or counted from 1: "row 3", "rows a, b"."""
        listed = [str(m + 1) if self.names is None else self.names[m] for m in which]
        return f"{self.words.row}{'s' if len(listed) > 1 else ''} {', '.join(listed[:_NAMED])}{', ...' if len(listed) > _NAMED else ''}"


def some_signals(shape: tuple[int, ...], most: int = _MOST_ENTRIES) -> np.ndarray:
    """Signals to look at: all, or of data with more than so many entries some at equal distances."""
    M, P = shape
    return np.arange(P) if most >= M * P else np.linspace(0, P - 1, max(2, most // M)).astype(int)


def row_scales(Y: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The typical size of each row's entries beside the others of their column, in units of the typical row's; 1 where that is unknown.
    Of one table, or of several along leading axes."""
    size = np.where(seen, np.abs(Y), np.nan)
    typical = median(size, -2)[..., None, :]
    scale = median(size / np.where(typical > 0, typical, np.nan), -1)
    known = np.isfinite(scale) & (scale > 0)
    return np.where(known, scale / median(np.where(known, scale, np.nan), -1)[..., None], 1.0)


def median(values: np.ndarray, axis: int) -> np.ndarray:
    """Medians of what is not NaN; NaN where nothing is left."""
    ordered = np.moveaxis(values, axis, -1).copy()  # along memory it is faster
    ordered.sort(axis=-1)  # NaN comes last
    length = ordered.shape[-1]
    if not np.any(np.isnan(ordered[..., -1])):
        return (ordered[..., (length - 1) // 2] + ordered[..., length // 2]) / 2
    number = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    middle = [np.take_along_axis(ordered, np.maximum(each, 0), -1) for each in ((number - 1) // 2, number // 2 - (number == 0))]
    return np.squeeze((middle[0] + middle[1]) / 2, -1)
