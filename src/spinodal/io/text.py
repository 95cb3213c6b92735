"""Numbers from text files: commas, semicolons, tabs or blanks between them, with or without names of rows and columns."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from ..errors import InputError
from .labels import Layout, are_labels, check_labels, column_number, is_index_name, is_label, is_word, names_of, parsed, shown

# Tried in this order on a line of data; a line with none of them is split at its blanks.
_DELIMITERS = ("\t", ";", ",")
_GZIP = b"\x1f\x8b"
# Numbers as text get some four times smaller; a file that unpacks to more than this, and to so many times its size, is no table.
_UNPACKED, _TIMES = 2**26, 100
_INTEGER = re.compile(r"[+-]?\d+")
# Integers that only increase above numbers with decimals are names of columns if there are so many; fewer if a word or an empty corner
# stands before them.
_BARE, _AFTER_CORNER = 4, 2
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|\d+ +[+-]?\d+")


# A field that begins so is a number with something added, no mark for a missing entry.
_BEGINS_AS_NUMBER = re.compile(r"[+\-\u2212]?\d")


class Table(NamedTuple):
    """A matrix with NaN where entries are missing, the line of the file that each row stands on, the column of the file that each column
    stands in, and the names of rows and columns, None where there are none."""

    values: np.ndarray
    lines: list[int]
    columns: list[int]
    row_names: tuple[str, ...] | None = None
    column_names: tuple[str, ...] | None = None


def read_table(path: Path, layout: Layout | None = None) -> Table:
    """The matrix of a text file, perhaps compressed by gzip. Lines that are blank or start with # are skipped."""
    return _Reader(path, layout or Layout()).table()


class _Reader:
    """One file being read: `aside` is the column, counted from 0, that may hold names of rows, which only its last line can tell."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.accepted = (
            f"FILE must hold numbers (with decimal {'points' if layout.decimal == '.' else 'commas and no points'}) "
            "separated by commas, semicolons, tabs or blanks"
        )
        self.header: list[str] | None = None
        self.first_line, self.aside = 1, 0

    def table(self) -> Table:
        text = _decoded(self.path)
        rows = self._rows(text)
        start = list(itertools.islice(rows, 2))
        if not start:
            raise InputError(f"{self.accepted}, but {str(self.path)!r} is empty.")
        self.first_line, first = start[0]
        if self._is_header(first, start[1][1] if len(start) > 1 else []):
            self.header = [field.strip() for field in first]
            if len(start) < 2:
                raise InputError(f"{self.accepted}, but {str(self.path)!r} has a line of names and no numbers.")
            del start[0]
        width = len(start[0][1])
        self._fit_header(width, start[0][0])
        known = self._choose_aside(width)
        values, lines, labels, ends = [], [], [], True
        every = itertools.chain(start, rows)
        for line, fields in every:
            if len(fields) != width:
                self._uneven(line, len(fields), width, start[0][0] if self.header and len(self.header) != width else self.first_line)
            values.append(self._numbers(fields, line, known, every))
            lines.append(line)
            labels.append(fields[self.aside])
            ends = ends and not fields[-1].strip()
        return self._finish(np.array(values), lines, labels, trailing=ends and width > 1, known=known)

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """(line number, fields) of every line that is not blank."""
        delimiter = _delimiter(text, self.layout.decimal)
        if delimiter is None and '"' not in text:
            yield from ((number, line.split()) for number, line in enumerate(_lines(text), 1) if line.strip())
            return
        # Blanks in a row are one delimiter, which skipinitialspace sees to.
        split = _lines(text) if delimiter is not None else (line.strip() for line in _lines(text))
        reader = csv.reader(split, delimiter=delimiter or " ", skipinitialspace=True)
        try:
            yield from ((reader.line_num, fields) for fields in reader if len(fields) > 1 or "".join(fields).strip())
        except csv.Error as error:
            raise InputError(f"{self.accepted}, but line {reader.line_num} of {str(self.path)!r} can't be read ({error}).") from None

    def _is_header(self, fields: list[str], below: list[str]) -> bool:
        """Whether the first line holds names: words throughout, or integers that can't be data."""
        first, *rest = (field.strip() for field in fields)
        if self.layout.header:
            return True
        if first == "" and rest == [str(k) for k in range(len(rest))]:
            return bool(rest)
        if rest and rest[-1] == "":  # the line ends in a delimiter
            rest = rest[:-1]
        corner = first == "" or is_word(first)
        if corner and all(map(is_word, rest)):
            return bool(rest) or first != ""
        if is_index_name(first):
            return True
        names, least = (rest, _AFTER_CORNER) if corner else ([first, *rest], _BARE)
        if len(names) < least or not _only_increase(names):
            return False
        return _has_decimals(below, self.layout.decimal) or (corner and len(names) > _AFTER_CORNER and _in_equal_steps(names))

    def _fit_header(self, width: int, line: int) -> None:
        """Drop what a delimiter at the end of the header alone makes; refuse a header that does not fit the numbers below it."""
        header = self.header
        if header is not None and len(header) == width + 1 and header[-1] == "":
            header.pop()
        elif header is not None and len(header) not in (width, width - 1):
            self._uneven(line, width, len(header), self.first_line)

    def _choose_aside(self, width: int) -> bool:
        """Find the column that may hold names of rows; whether it is known to."""
        if self.layout.index_col is not None:
            self.aside = column_number(self.layout.index_col, self.header, width, self.path)
            return True
        # pandas and R write the rows' labels in a first column whose name is empty.
        return (
            self.header is not None and len(self.header) == width and width > 1 and (self.header[0] == "" or is_index_name(self.header[0]))
        )

    def _numbers(self, fields: list[str], line: int, known: bool, rest: Iterator[tuple[int, list[str]]]) -> np.ndarray:
        """The numbers of a line, NaN in the column that may hold names."""
        row = np.empty(len(fields))
        for k, field in enumerate(fields):
            try:
                row[k] = parsed(field, self.layout)
            except ValueError:
                if k != self.aside or not (known or (len(fields) > 1 and is_label(field))):
                    self._no_number(fields, k, line, rest)
                row[k] = math.nan
        return row

    def _no_number(self, fields: list[str], k: int, line: int, rest: Iterator[tuple[int, list[str]]]) -> NoReturn:
        """Say where there is no number, and which option may help."""
        if all(map(is_word, fields)):  # the line, not the field, is the fault
            k = 0
        where = f"line {line}, column {k + 1} of {str(self.path)!r} holds {shown(fields[k])}"
        raise InputError(f"{self.accepted}, but {where}{self._advice(fields, k, line, rest)}.")

    def _advice(self, fields: list[str], k: int, line: int, rest: Iterator[tuple[int, list[str]]]) -> str:
        field = fields[k].strip()
        if self.layout.decimal == "." and _DECIMAL_COMMA.fullmatch(field):
            return "; give --decimal , if commas are decimal"
        if self.header is not None and [each.strip() for each in fields] == self.header:
            return ", which repeats the first line; leave that line out"
        if len(fields) > 1 and all(is_word(each) or not each.strip() for each in fields):
            return "; put # before lines that hold no data, such as units"
        if len(fields) > 1 and self.header is None and line == self.first_line and 2 * sum(map(is_word, fields)) >= len(fields):
            return "; give --header if the first line holds names"
        below = [each[k] for _, each in itertools.islice(rest, 100) if len(each) > k]
        if below and all(is_label(each) for each in below):
            return f", and the column no numbers; leave it out, or give --index-col {k + 1} if it holds the names of the rows"
        if _BEGINS_AS_NUMBER.match(field):
            return ""
        return f"; give --na={field if field.isalnum() else repr(field)} if that means a missing entry"

    def _uneven(self, line: int, found: int, expected: int, other: int) -> NoReturn:
        raise InputError(
            f"FILE must have equally long lines, but line {line} of {str(self.path)!r} has {found} fields, line {other} {expected}."
        )

    def _finish(self, values: np.ndarray, lines: list[int], labels: list[str], *, trailing: bool, known: bool) -> Table:
        """The table, once every line was seen: which column holds names, and whether every line ends in a delimiter."""
        width, header = values.shape[1], self.header
        short = header is not None and len(header) == width - 1
        trailing = trailing and (header is None or short or header[-1] == "")
        if short and not trailing:  # R leaves out the name of the column of labels
            if not (known or are_labels(labels) or labels == [str(k + 1) for k in range(len(labels))]):
                self._uneven(lines[0], width, width - 1, self.first_line)
            known, header = True, ["", *header]  # type: ignore[misc]
        kept = list(range(width - trailing))
        if known or (len(kept) > 1 and are_labels(labels)):
            if self.layout.index_col is None:
                check_labels(labels, self.accepted, self.path)
            if kept == [self.aside]:
                raise InputError(f"{self.accepted}, but {str(self.path)!r} has no column beside that of the names.")
            kept.remove(self.aside)
            rows = names_of(labels)
        else:
            rows = None
            for label, line in zip(labels, lines, strict=True):
                self._numbers([label], line, False, iter(()))
        columns = None if header is None else names_of([header[k] for k in kept])
        return Table(values[:, kept], lines, [k + 1 for k in kept], rows, columns)


def _only_increase(names: list[str]) -> bool:
    if not all(map(_INTEGER.fullmatch, names)):
        return False
    return all(float(a) < float(b) for a, b in itertools.pairwise(names))


def _in_equal_steps(names: list[str]) -> bool:
    return len({float(b) - float(a) for a, b in itertools.pairwise(names)}) == 1


def _has_decimals(fields: list[str], decimal: str) -> bool:
    """Whether at least half of the fields of a line, its first apart, are numbers with decimals."""
    return len(fields) > 1 and 2 * sum(decimal in field for field in fields[1:]) >= len(fields) - 1


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    if data.startswith(_GZIP):
        data = _unpacked(data, path)
    try:
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError:
        # Numbers are the same in every encoding; only names may suffer.
        return data.decode("latin-1")


def _unpacked(data: bytes, path: Path) -> bytes:
    """What gzip packed, refused where it is far larger than numbers could be."""
    most, whole = max(_UNPACKED, _TIMES * len(data)), b""
    try:
        while data:  # gzip files may be put one after the other
            stream = zlib.decompressobj(wbits=31)
            whole += stream.decompress(data, most + 1 - len(whole))
            if len(whole) > most:
                raise InputError(f"FILE must hold numbers, but {str(path)!r} unpacks to more than {_TIMES} times its size.")
            if not stream.eof:
                raise InputError(f"FILE must be a whole gzip file, but {str(path)!r} was cut short.")
            data = stream.unused_data.lstrip(b"\0")
    except zlib.error as error:
        raise InputError(f"FILE must be a whole gzip file, but {str(path)!r} can't be unpacked ({error}).") from None
    return whole


def _lines(text: str) -> Iterator[str]:
    """The lines; a comment becomes a blank line, so that lines keep their numbers."""
    return ("\n" if line.lstrip().startswith("#") else line for line in io.StringIO(text, newline=None))


def _delimiter(text: str, decimal: str) -> str | None:
    """What separates the fields: looked for in the second line that is not blank, since the first may be a header, then in the first.

    Where commas are decimal they separate fields only in lines that have quotes around these.
    """
    filled = list(itertools.islice((line for line in _lines(text) if line.strip()), 2))
    for line in reversed(filled):
        for mark in _DELIMITERS:
            if mark in line and (mark != decimal or '"' in line):
                return mark
    return None
