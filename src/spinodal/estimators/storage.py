"""Fitted models in .npz files: numbers and words only, nothing pickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import InputError

# The entry of the file that holds what is not an array: the class, its parameters, and attributes that are numbers or words.
_HEADER = "header"
_NOT_SAVED = ("callback",)


class Storable:
    """`save` and `load` for estimators: parameters and fitted attributes come back exactly. A callback is not kept."""

    def save(self, path: str | Path) -> None:
        """Write the estimator to a .npz file.

        Examples:
            >>> from pathlib import Path
            >>> import tempfile
            >>> import spinodal as sp
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder, "model.npz")
            ...     sp.DictionaryLearner(5, density=0.1).save(path)
            ...     print(sp.DictionaryLearner.load(path))
            DictionaryLearner(density=0.1, n_components=5)
        """
        header: dict[str, Any] = {"class": type(self).__name__, "plain": {}, "arrays_of": {}}
        arrays: dict[str, np.ndarray] = {}
        for name, value in vars(self).items():
            if name in _NOT_SAVED:
                continue
            if isinstance(value, dict):
                header["arrays_of"][name] = list(value)
                arrays |= {f"{name}.{key}": np.asarray(each) for key, each in value.items()}
            elif isinstance(value, np.ndarray):
                arrays[name] = value.astype(str) if value.dtype == object else value
            elif isinstance(value, (list, tuple)):
                arrays[name] = np.asarray(value)
            else:
                header["plain"][name] = _plain(name, value)
        with Path(path).open("wb") as file:  # a name without .npz stays as it is
            np.savez(file, allow_pickle=False, **{_HEADER: np.asarray(json.dumps(header))}, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that `save` wrote.

        Examples:
            >>> from pathlib import Path
            >>> import tempfile
            >>> import spinodal as sp
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder, "model.npz")
            ...     sp.BlindCalibration(eta=0.01).save(path)
            ...     print(sp.BlindCalibration.load(path).eta)
            0.01
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
                header = json.loads(str(stored.pop(_HEADER)))
        except (ValueError, KeyError, AttributeError, EOFError):
            raise InputError(f"path must be a file written by {cls.__name__}.save, but {str(path)!r} is not.") from None
        if header["class"] != cls.__name__:
            raise InputError(f"path must be a file written by {cls.__name__}.save, but {str(path)!r} holds a {header['class']}.")
        model = cls()
        vars(model).update(header["plain"])
        for name, keys in header["arrays_of"].items():
            setattr(model, name, {key: stored.pop(f"{name}.{key}") for key in keys})
        for name, value in stored.items():
            setattr(model, name, value.astype(object) if value.dtype.kind == "U" else value)
        return model


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"{name} must be a number, a word or an array to be saved, but it is a {type(value).__name__}.")
