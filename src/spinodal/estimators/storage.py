"""Estimators in .npz files: numbers and words only, nothing pickled. What is saved and what is loaded pass the same checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..files import whole_file
from ..inference.execution.checkpoint import stored_arrays
from ..inference.solution import Status

# The entry of the file that holds what is not an array: the layout, the class, and all that is a number or a word.
_HEADER, _LAYOUT = "header", 2
_NOT_SAVED = ("callback", "_ongoing")
# scikit-learn keeps the choice of `set_output` here.
_OUTPUT = "_sklearn_output_config"
# Fitted attributes: arrays by their sides (k components, f features), numbers by what they lie strictly between, counts, and words.
_ARRAYS = {
    "components_": "kf",
    "components_var_": "kf",
    "scales_": "k",
    "scales_var_": "k",
    "feature_noise_": "f",
    "component_density_": "k",
    "mean_": "f",
    "reproducibility_": "k",
}
_MOST = sys.float_info.max
_NUMBERS = {
    "noise_variance_": (-1 / _MOST, _MOST),
    "noise_weight_": (-1 / _MOST, 1 + sys.float_info.epsilon),
    "density_": (0.0, 1.0),
    "slab_mean_": (-_MOST, _MOST),
    "slab_variance_": (0.0, _MOST),
}
_COUNTS = ("n_iter_", "n_features_in_")
_STATUSES = ("status_", "solver_status_")
# Parameters that are true or false.
_FLAGS = ("warm_start",)
_FLAGS_OR_AUTO = ("own_density", "center", "fast")
_FITTED_FLAGS = ("converged_", "own_density_")
_FITTED = {*_ARRAYS, *_NUMBERS, *_COUNTS, *_STATUSES, *_FITTED_FLAGS, "history_"}


class Storable:
    """`save` and `load` for estimators: parameters and fitted attributes come back exactly. A callback is not kept."""

    # Parameters that may be arrays.
    _array_parameters: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """Write the estimator to a .npz file, whole or not at all: a file that was there stays until the new one is complete.

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
        values = {name: _plain(value) for name, value in vars(self).items() if name not in _NOT_SAVED}
        why = _objection(self, values)
        if why is not None:
            raise InputError(f"The {type(self).__name__} can't be saved: {why}.")
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        arrays |= {f"history_.{name}": value for name, value in values.pop("history_", {}).items()}
        words = {name: value for name, value in values.items() if name not in arrays}
        header = json.dumps({"layout": _LAYOUT, "class": type(self).__name__, "values": words})
        with whole_file(Path(path), repr(str(path))) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_HEADER: np.asarray(header)}, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that `save` wrote. A file that is damaged, or of something else, is refused; nothing is ever unpickled.

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
        refused = f"path must be a file written by {cls.__name__}.save, but {str(path)!r}"
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):  # it may never end
            raise InputError(f"{refused} is a pipe or a device.")
        try:
            with Path(path).open("rb") as file:
                stored = stored_arrays(file, os.fstat(file.fileno()).st_size)
            header = json.loads(str(stored.pop(_HEADER)))
            layout, kind, values = (header[key] for key in ("layout", "class", "values"))
            values = {name: value for name, value in values.items() if name != "history_"}
        except OSError as error:
            raise InputError(f"{refused} can't be read: {error.strerror or error}.") from None
        except Exception:  # of a damaged file the readers may raise anything, from struct.error to RecursionError
            raise InputError(f"{refused} is damaged or is another kind of file.") from None
        if kind != cls.__name__:
            raise InputError(f"{refused} holds {f'a {kind}' if isinstance(kind, str) and kind.isidentifier() else 'something else'}.")
        if layout != _LAYOUT:
            raise InputError(f"{refused} is of another version of Spinodal.")
        history = {name: stored.pop(name) for name in list(stored) if name.startswith("history_.")}
        values |= stored
        if "components_" in values:
            values["history_"] = {name.removeprefix("history_."): value for name, value in history.items()}
        model = cls()
        why = _objection(model, values)
        if why is not None:
            raise InputError(f"{refused} can't be used: {why}.")
        vars(model).update({name: value.astype(object) if name == "feature_names_in_" else value for name, value in values.items()})
        return model


def _plain(value: Any) -> Any:
    """Values as a file has them: arrays of numbers or words, plain numbers and words."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except ValueError:  # rows of unequal length
            return value
    return value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value


def _objection(model: Any, values: dict[str, Any]) -> str | None:
    """What is wrong with the attributes of an estimator of this class, in words; None if nothing is."""
    parameters, fitted = set(model.get_params(deep=False)), _FITTED & values.keys()
    optional = {"feature_names_in_", _OUTPUT}
    for name in values.keys() - parameters - _FITTED - optional:
        return f"it has an attribute {name!r}, which is not one of a {type(model).__name__}"
    for name in parameters & values.keys():
        value = values[name]
        if isinstance(value, np.ndarray) and name in model._array_parameters:
            if value.dtype.kind not in "fiub":
                return f"{name} is not an array of real numbers"
        elif not (value is None or isinstance(value, (bool, int, float, str))):
            return f"{name} is neither a number nor a word"
        elif name in _FLAGS and not isinstance(value, bool):
            return f"{name} is neither true nor false"
        elif name in _FLAGS_OR_AUTO and not (isinstance(value, bool) or value == "auto"):
            return f"{name} is neither true, false nor 'auto'"
    output = values.get(_OUTPUT, {})
    if not isinstance(output, dict) or not all(isinstance(value, str) for value in output.values()):
        return "the choice of set_output is not a word"
    if fitted:
        return _objection_to_fit(values)
    return "it has names of features, but is not fitted" if "feature_names_in_" in values else None


def _objection_to_fit(values: dict[str, Any]) -> str | None:
    """What is wrong with the fitted attributes: some are missing, or of a wrong kind, shape or range."""
    for name in sorted(_FITTED - values.keys()):
        return f"{name} is missing"
    for name in _COUNTS:
        if isinstance(values[name], bool) or not isinstance(values[name], int) or values[name] < 0:
            return f"{name} is not a count"
    for name, (low, high) in _NUMBERS.items():
        if isinstance(values[name], bool) or not isinstance(values[name], (int, float)) or not low < values[name] < high:
            return f"{name} is not a number that it could be"
    for name in _STATUSES:
        if values[name] not in [str(status) for status in Status]:  # a list: what is no word may have no hash
            return f"{name} is not a status"
    for name in _FITTED_FLAGS:
        if not isinstance(values[name], bool):
            return f"{name} is neither true nor false"
    sides = {"k": np.shape(values["components_"])[:1], "f": (values["n_features_in_"],)}
    kinds = {getattr(values[name], "dtype", None) for name in _ARRAYS}
    if kinds not in ({np.dtype(np.float64)}, {np.dtype(np.float32)}):
        return f"{', '.join(_ARRAYS)} are not arrays of one precision"
    for name, axes in _ARRAYS.items():
        shape = sum((sides[axis] for axis in axes), start=())
        if values[name].shape != shape or 0 in shape:
            return f"{name} has the shape {values[name].shape}, not {shape}"
        if name == "reproducibility_":
            if not (np.isnan(values[name]) | ((values[name] >= 0) & (values[name] <= 1))).all():  # NaN: no other run says anything
                return "reproducibility_ has values that are not shares"
        elif name == "component_density_" and not ((values[name] > 0) & (values[name] <= 1)).all():
            return "component_density_ has values that are not densities"
        elif not np.isfinite(values[name]).all() or (("var" in name or "noise" in name) and (values[name] < 0).any()):
            return f"{name} has values that are not finite, or negative variances"
    names = values.get("feature_names_in_")
    if names is not None and not (isinstance(names, np.ndarray) and names.dtype.kind == "U" and names.shape == sides["f"]):
        return "feature_names_in_ is not a name for each feature"
    for name, value in values["history_"].items():
        if not (isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1):
            return f"history_[{name!r}] is not a row of numbers"
    return None
