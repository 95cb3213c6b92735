"""Matrices from .mat files. How much a file unpacks to is known before it is unpacked; structs, cells and objects never are."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..errors import InputError, check_room
from .arrays import TIMES_HELD, is_hdf5, reading

# Classes of MATLAB that hold text, a sparse matrix or numbers. The others hold further variables, or code.
_PLAIN = range(4, 16)
_MATRIX, _COMPRESSED = 14, 15
# Bytes before the first variable, and where among them the order of bytes is said.
_HEADER, _ORDER = 128, 126
# A variable begins with a mark of 8 bytes and 16 of flags; its sizes and its name, of 63 characters at most, are not far from there.
_MARK, _FLAGS, _START = 8, 16, 1024
_CHUNK = 2**20


class _Variable(NamedTuple):
    """A variable: its name and shape, whether it is a matrix, where its mark is, its bytes in the file, and those that it unpacks to."""

    name: str
    shape: tuple[int, ...]
    is_matrix: bool
    place: int
    stored: int
    size: int | None  # None if it is not compressed


def read_mat(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file of version 4 to 7.2; sparse matrices are filled. Of structs and the like the shape alone is read."""
    import scipy.io
    from scipy.io.matlab import matfile_version

    if is_hdf5(path):
        raise InputError(
            f"FILE must be a .mat file of version 7 or older, but {str(path)!r} is of version 7.3; in MATLAB, save('file.mat', 'Y', '-v7')."
        )
    with reading(path, ".mat"), path.open("rb") as file:
        if matfile_version(path)[0] == 0:  # version 4, which has matrices only, and compresses nothing
            _check_room(path, sum(8 * math.prod(map(int, shape)) for _, shape, _ in scipy.io.whosmat(path)))
            return {name: _filled(value) for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
        variables = {each.name: each for each in _variables(file)}
        matrices = [each for each in variables.values() if each.is_matrix]
        _check_room(path, sum(max(8 * math.prod(each.shape), each.size or each.stored) for each in matrices))
        found = {name: np.broadcast_to(np.array(None, object), each.shape) for name, each in variables.items()}
        for each in matrices:
            _check_size(file, each)
            found[each.name] = _filled(scipy.io.loadmat(_alone(file, each))[each.name])
        return found


def _check_room(path: Path, needed: int) -> None:
    check_room("FILE", TIMES_HELD * needed, f"what {str(path)!r} unpacks to (sparse matrices are filled)")


def _filled(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else value.toarray()


def _alone(file: IO[bytes], variable: _Variable) -> IO[bytes]:
    """A file with this variable only. SciPy unpacks some of every variable that it passes, and of a struct that may be much."""
    file.seek(0)
    alone = io.BytesIO(file.read(_HEADER))
    alone.seek(_HEADER)
    file.seek(variable.place)
    left = _MARK + variable.stored
    while part := file.read(min(left, _CHUNK)):
        left -= alone.write(part)
    alone.seek(0)
    return alone


def _variables(file: IO[bytes]) -> Iterator[_Variable]:
    """The variables of a file of version 5 to 7.2 that have names; what has none holds the functions of the others."""
    file.seek(_ORDER)
    order = "<" if file.read(_HEADER - _ORDER) == b"IM" else ">"
    while mark := file.read(_MARK):
        kind, stored = struct.unpack(f"{order}2I", mark)
        after, compressed = file.tell(), kind == _COMPRESSED
        start = next(_unpacked(file, stored), b"")[:_START] if compressed else mark + file.read(min(stored, _START))
        kind, size = struct.unpack_from(f"{order}2I", start)
        if kind != _MATRIX:
            raise ValueError(f"a variable is of type {kind}, not {_MATRIX}")
        (flags,) = struct.unpack_from(f"{order}I", start, 2 * _MARK)
        sizes, end = _element(start, _MARK + _FLAGS, order)
        name, _ = _element(start, end, order)
        shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
        if min(shape, default=-1) < 0:
            raise ValueError(f"a variable says that its shape is {shape}")
        if name:
            yield _Variable(name.decode("latin1"), shape, flags & 0xFF in _PLAIN, after - _MARK, stored, size if compressed else None)
        file.seek(after + stored)


def _element(content: bytes, place: int, order: str) -> tuple[bytes, int]:
    """A part of a variable, and where the next begins. Four bytes or fewer stand in the mark itself."""
    kind, size = struct.unpack_from(f"{order}2I", content, place)
    short = kind >> 16
    begin, size = (place + _MARK // 2, short) if short else (place + _MARK, size)
    if begin + size > len(content):
        raise ValueError("a name or a list of sizes is too long, or ends before it should")
    return content[begin : begin + size], begin + size + -(begin + size) % _MARK


def _check_size(file: IO[bytes], variable: _Variable) -> None:
    """Refuse a compressed variable that unpacks to more than it says."""
    if variable.size is None:
        return
    file.seek(variable.place + _MARK)
    left = _MARK + variable.size + _MARK  # some programs fill up to a whole mark
    for part in _unpacked(file, variable.stored):
        left -= len(part)
        if left < 0:
            raise ValueError(f"{variable.name} unpacks to more than the {variable.size} bytes that it says")


def _unpacked(file: IO[bytes], size: int) -> Iterator[bytes]:
    """What so many bytes of a file unpack to, in parts of bounded size."""
    stream = zlib.decompressobj()
    while size and not stream.eof:
        packed = file.read(min(size, _CHUNK))
        if not packed:
            return
        size -= len(packed)
        while packed and not stream.eof:
            yield stream.decompress(packed, _CHUNK)
            packed = stream.unconsumed_tail
