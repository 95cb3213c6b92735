"""Numbers from text files: commas, semicolons, tabs or blanks between them, with or without a header."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError

# What stands for a missing entry, in any case of letters.
MISSING = frozenset({"", "na", "n/a", "nan", "null"})
# Tried in this order on a line of data; a line with none of them is split at its blanks.
_DELIMITERS = ("\t", ";", ",")
_ACCEPTED = "FILE must hold numbers (with decimal points) separated by commas, semicolons, tabs or blanks"
# Longer fields are cut when they are quoted in a complaint.
_QUOTED = 40


class Table(NamedTuple):
    """A matrix with NaN where entries are missing, the line of the file that each row stands on, the column where numbers begin, and the
    names of rows and columns, None where there are none."""

    values: np.ndarray
    lines: list[int]
    first_column: int
    row_names: tuple[str, ...] | None = None
    column_names: tuple[str, ...] | None = None


def read_table(path: Path) -> Table:
    """The matrix of a text file. Lines that are blank or start with # are skipped."""
    text = _decoded(path)
    rows = _rows(text, _delimiter(text), path)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{_ACCEPTED}, but {str(path)!r} is empty.")
    header = _is_header(first[1])
    # pandas and R write the rows' labels in a first column whose name is empty.
    skipped = 1 if header and first[1][0].strip() == "" else 0
    width, values, lines, labels = len(first[1]), [], [], []
    for line, fields in rows if header else itertools.chain([first], rows):
        if len(fields) != width:
            raise InputError(
                f"FILE must have equally long lines, but line {line} of {str(path)!r} has {len(fields)} fields, line {first[0]} {width}."
            )
        values.append(_numbers(fields, line, skipped, path))
        lines.append(line)
        labels += fields[:skipped]
    if not values:
        raise InputError(f"{_ACCEPTED}, but {str(path)!r} has a line of names and no numbers.")
    return Table(np.array(values), lines, skipped + 1, _names(labels), _names(first[1][skipped:]) if header else None)


def _names(fields: list[str]) -> tuple[str, ...] | None:
    """Labels of rows or columns; None for none, and for 0, 1, 2, ..., with which pandas numbers what has no name."""
    names = tuple(field.strip() for field in fields)
    return names if names and names != tuple(str(k) for k in range(len(names))) else None


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError:
        # Numbers are the same in every encoding; only names may suffer.
        return data.decode("latin-1")


def _lines(text: str) -> Iterator[str]:
    """The lines; a comment becomes a blank line, so that lines keep their numbers."""
    return ("\n" if line.lstrip().startswith("#") else line for line in io.StringIO(text, newline=None))


def _delimiter(text: str) -> str | None:
    """What separates the fields: looked for in the second line that is not blank, since the first may be a header, then in the first."""
    filled = list(itertools.islice((line for line in _lines(text) if line.strip()), 2))
    return next((mark for line in reversed(filled) for mark in _DELIMITERS if mark in line), None)


def _rows(text: str, delimiter: str | None, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every line that is not blank."""
    if delimiter is None:
        yield from ((number, line.split()) for number, line in enumerate(_lines(text), 1) if line.strip())
        return
    reader = csv.reader(_lines(text), delimiter=delimiter, skipinitialspace=True)
    try:
        yield from ((reader.line_num, fields) for fields in reader if len(fields) > 1 or "".join(fields).strip())
    except csv.Error as error:
        raise InputError(f"{_ACCEPTED}, but line {reader.line_num} of {str(path)!r} can't be read ({error}).") from None


def _number(field: str) -> float:
    text = field.strip()
    if text.lower() in MISSING:
        return math.nan
    if "_" in text:  # Python reads 1_000 as a number; nobody writes data so.
        raise ValueError
    return float(text)


def _numbers(fields: list[str], line: int, skipped: int, path: Path) -> np.ndarray:
    row = np.empty(len(fields) - skipped)
    for k, field in enumerate(fields[skipped:]):
        try:
            row[k] = _number(field)
        except ValueError:
            shown = repr(field if len(field) <= _QUOTED else field[:_QUOTED] + "...")
            raise InputError(f"{_ACCEPTED}, but line {line}, column {k + skipped + 1} of {str(path)!r} holds {shown}.") from None
    return row


def _is_header(fields: list[str]) -> bool:
    """Whether the first line holds names: words throughout, or an empty corner and pandas's 0, 1, 2, ..."""
    first, *rest = (field.strip() for field in fields)
    if first == "" and rest == [str(k) for k in range(len(rest))]:
        return bool(rest)
    return all(map(_is_word, rest)) and (_is_word(first) or (first == "" and bool(rest)))


def _is_word(field: str) -> bool:
    """Whether a field is a name: no number, and not what a wrong delimiter makes of numbers, which has no letters."""
    try:
        _number(field)
    except ValueError:
        return any(map(str.isalpha, field))
    return False
