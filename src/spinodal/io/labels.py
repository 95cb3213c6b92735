"""What in a table is a name and what a number, and how the user says so where that can't be seen."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError

# What stands for a missing entry, in any case of letters.
MISSING = frozenset({"", "na", "n/a", "nan", "null"})
# A first column of such a name holds no measurements.
_INDEX_NAMES = frozenset({"id", "ids", "index", "idx", "unnamed: 0", "row", "time", "timestamp", "date", "datetime"})
# 2024-03-01, 01.03.2024, 12:30:00.5, and a date with a time.
_DATE, _TIME = r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}", r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(am|pm)?(Z|[+-]\d{2}:?\d{2})?"
_WHEN = re.compile(rf"{_DATE}([T ]\s*{_TIME})?|{_TIME}", re.IGNORECASE)
# Longer fields are cut when they are quoted in a complaint.
_QUOTED = 40


class Layout(NamedTuple):
    """How a table is written, where that can't be seen.

    `decimal` is the mark before the decimals, `index_col` the name or number (from 1) of the column of row names, `na` holds what means a
    missing entry, and `header` says that the first line holds names even if these are numbers.
    """

    decimal: str = "."
    index_col: str | int | None = None
    na: tuple[str, ...] = ()
    header: bool = False

    def checked(self) -> Layout:
        """The same with `index_col` as a number where it is one, refused if it says what no table has."""
        if self.decimal not in (".", ","):
            raise InputError(f"decimal must be . or ,, but {self.decimal!r} was given.")
        index = self.index_col
        if isinstance(index, str) and re.fullmatch(r"[+-]?\d+", index.strip()):
            index = int(index)
        if index == "" or isinstance(index, bool) or (isinstance(index, int) and index < 1):
            raise InputError(f"index_col must be the name of a column or its number, from 1, but {self.index_col!r} was given.")
        return self._replace(index_col=index, na=tuple(each.strip() for each in self.na))

    @property
    def numbers(self) -> list[float]:
        """The numbers among what means a missing entry."""
        found = []
        for each in self.na:
            try:
                found.append(float(each.replace(",", ".") if self.decimal == "," else each))
            except ValueError:
                continue
        return found


def parsed(field: str, layout: Layout) -> float:
    """The number in a field, NaN for a missing entry; ValueError if it is neither."""
    text = field.strip()
    if text.lower() in MISSING or text in layout.na:
        return math.nan
    if "_" in text:  # Python reads 1_000 as a number; nobody writes data so.
        raise ValueError
    if layout.decimal == ",":
        if "." in text:  # thousands, or a file of both kinds
            raise ValueError
        text = text.replace(",", ".")
    return float(text)


def is_word(field: str) -> bool:
    """Whether a field is a name: no number, and not what a wrong delimiter makes of numbers, which has no letters."""
    try:
        parsed(field, Layout())
    except ValueError:
        return any(map(str.isalpha, field))
    return False


def is_label(field: str) -> bool:
    """Whether a field can only be the label of a row: a word, a date or a time."""
    return is_word(field) or _WHEN.fullmatch(field.strip()) is not None


def is_index_name(name: str) -> bool:
    """Whether a column of this name holds labels of rows, even if they are numbers."""
    return name.strip().lower() in _INDEX_NAMES


def are_labels(fields: Sequence[str]) -> bool:
    """Whether a column holds labels only."""
    return all(map(is_label, fields))


def check_labels(labels: Sequence[str], accepted: str, path: Path) -> None:
    """Refuse words that repeat, which nobody said are names: they may be categories."""
    seen: set[str] = set()
    for label in labels:
        if label in seen and is_label(label):
            raise InputError(
                f"{accepted}, but column 1 of {str(path)!r} holds {shown(label)} more than once; "
                "leave the column out if these are categories, or give --index-col 1 if they are the names of the rows."
            )
        seen.add(label)


def column_number(index_col: str | int, header: Sequence[str] | None, width: int, path: Path) -> int:
    """The column, from 0, that `index_col` says."""
    if isinstance(index_col, int):
        if index_col > width:
            raise InputError(f"index_col must be a column of FILE, but {index_col} was given and {str(path)!r} has {width}.")
        return index_col - 1
    if header is None:
        raise InputError(f"index_col must be the number of a column where FILE has no line of names, but {index_col!r} was given.")
    places = [k for k, name in enumerate(header) if name == index_col]
    if len(places) != 1:
        there = ", ".join(map(shown, header[:8])) + (", ..." if len(header) > 8 else "")
        many = "is the name of none" if not places else f"stands for {len(places)}"
        raise InputError(f"index_col must be the name of one column, but {index_col!r} {many} of the columns of {str(path)!r} ({there}).")
    # R leaves out the name of the first column.
    return places[0] + width - len(header)


def names_of(fields: Sequence[str]) -> tuple[str, ...] | None:
    """Labels of rows or columns; None for none, and for 0, 1, 2, ..., with which pandas numbers what has no name."""
    names = tuple(field.strip() for field in fields)
    return names if names and names != tuple(str(k) for k in range(len(names))) else None


def shown(field: str) -> str:
    """A field in quotes, cut if it is long."""
    return repr(field if len(field) <= _QUOTED else field[:_QUOTED] + "...")
