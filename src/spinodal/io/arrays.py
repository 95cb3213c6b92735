"""Named arrays from .npz, .npy and .nc files. Nothing is ever unpickled."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError, check_room, shown

# What is read is held twice: here, and where it is computed with.
TIMES_HELD = 2
_ENDING = ".npy"
_HDF5 = b"\x89HDF\r\n\x1a\n"


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever a damaged or forged file makes its reader raise becomes one sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the readers are not ours, and raise anything from struct.error to AssertionError
        if "pickle" in str(error).lower():
            raise _pickled(path) from None
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"FILE must be a whole {kind} file, but {str(path)!r} can't be read ({why}).") from None


def _pickled(path: Path) -> InputError:
    return InputError(
        f"FILE must hold plain arrays, but {str(path)!r} holds pickled objects, which are never loaded; "
        "save plain numbers, and names as np.array(names, str)."
    )


def read_npz(path: Path, wanted: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays, and the parameters that `spinodal sample` writes beside them. Others than the wanted are loaded only if the first of
    these is not there: they may be large, or pickled."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"FILE must be a whole .npz file, but {str(path)!r} is not one, or was cut short.")
    with reading(path, ".npz"), zipfile.ZipFile(path) as file:
        entries = {entry.filename.removesuffix(_ENDING): entry for entry in file.infolist()}
        read = [name for name in entries if name == "parameters" or name in wanted or wanted[0] not in entries]
        # The directory says how much there is before anything is unpacked, and no more than it says is unpacked.
        check_room("FILE", TIMES_HELD * sum(entries[name].file_size for name in read), f"what {str(path)!r} unpacks to")
        found: dict[str, Any] = {}
        for name in read:
            array = _member(file, entries[name], path)
            if array is not None:
                found[name] = array
            elif name in wanted or name == "parameters":
                raise InputError(f"FILE must hold plain arrays, but {shown(name)} in {str(path)!r} is not one.")
        about = json.loads(str(found.pop("parameters"))) if "parameters" in found else {}
        return found, about if isinstance(about, dict) else {}


def _member(file: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> np.ndarray | None:
    """An array of an .npz file; None for a member that is none."""
    with file.open(entry) as stream:
        if not entry.filename.endswith(_ENDING) or stream.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            return None
    with file.open(entry) as stream:
        _check_header(stream, entry.file_size, path)
    with file.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _check_header(stream: IO[bytes], size: int, path: Path) -> None:
    """Refuse an array that is larger than the `size` bytes that hold it: its memory would be taken before anyone notices."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise _pickled(path)
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"an array says that its shape is {shown(shape)}, and ends before that")


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    with reading(path, ".npy"), path.open("rb") as file:
        if not file.peek(1):
            raise InputError(f"FILE must be a whole .npy file, but {str(path)!r} is empty.")
        size = path.stat().st_size
        check_room("FILE", TIMES_HELD * size, f"the array in {str(path)!r}")
        _check_header(file, size, path)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def read_nc(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[Any]]]:
    """The variables of a NetCDF file, its attributes, and for each variable the labels along its axes, None where an axis has none."""
    import xarray

    newer = is_hdf5(path)
    with reading(path, ".nc"):
        try:
            with xarray.open_dataset(path, engine=None if newer else "scipy", decode_times=False) as dataset:
                check_room("FILE", TIMES_HELD * int(dataset.nbytes), f"what {str(path)!r} unpacks to")
                labels = {
                    str(name): [tuple(map(word, dataset[axis].values)) if axis in dataset.coords else None for axis in variable.dims]
                    for name, variable in dataset.data_vars.items()
                }
                return {str(name): variable.values for name, variable in dataset.data_vars.items()}, dict(dataset.attrs), labels
        except ValueError:
            if not newer:
                raise
            raise InputError(
                f"FILE must be a NetCDF-3 file unless netCDF4 or h5netcdf is installed, but {str(path)!r} is NetCDF-4; "
                "install one of them, or write it with xarray's to_netcdf(path, engine='scipy')."
            ) from None


def word(label: Any) -> str:
    """A label as text."""
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def is_hdf5(path: Path) -> bool:
    """Whether a file is of HDF5. MATLAB puts 512 bytes of its own before the mark."""
    with path.open("rb") as file:
        start = file.read(512 + len(_HDF5))
    return start.startswith(_HDF5) or start[512:] == _HDF5
