"""Arguments of a solve checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..errors import InputError, check_choice, check_count, shown
from ..model.channels import Channel
from ..model.knowledge import Knowledge, Known
from ..model.model import Model
from ..model.sampling import Observed
from .offsets import less
from .search.search import Search, is_strong
from .solution import Names, Solution
from .suspicious_data import expects_no_mean, off_centre

# Data are in units of the priors, so entries beyond this are a mistake of units; their squares would overflow in single precision.
_LARGEST = 1e15
# More iterations, runs, or numbers of atoms to try are taken for a mistake: nobody waits for them.
MOST_ITERATIONS, MOST_RUNS, _MOST_NUMBERS = 1_000_000, 1000, 100
# F' with a smaller eta than this is F to rounding.
_EXACT = float(np.finfo(float).eps ** 2)


def as_observed(Y: Any, F_prime: Any = None, mask: Any = None) -> tuple[Observed, Names]:
    """What was given as Y, with F' and a mask, as clean arrays; and the names of rows and columns.

    Y may be an array, a masked array, a pandas DataFrame, an xarray DataArray, or an Observed. NaN is a missing entry.
    """
    names = Names()
    if isinstance(Y, Observed):
        for name, given in (("F_prime", F_prime), ("mask", mask)):
            if given is not None:
                raise InputError(f"{name} must be left out where Y is an Observed, which has its own.")
        Y, F_prime, mask = Y
    elif hasattr(Y, "columns") and hasattr(Y, "to_numpy"):  # pandas
        names = Names(_labels(Y.index), _labels(Y.columns))
        Y = Y.to_numpy()
    elif hasattr(Y, "dims") and hasattr(Y, "coords"):  # xarray
        labels = [_labels(Y.coords[dim].values) if dim in Y.coords else None for dim in Y.dims]
        names = Names(*labels) if len(labels) == 2 else names
        Y = Y.values
    if isinstance(Y, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(Y)
        Y = np.where(hidden, np.nan, np.ma.getdata(Y).astype(float))
        mask = ~hidden if mask is None else np.where(hidden, False, mask) if np.shape(mask) == hidden.shape else mask
    Y = _array("Y", Y)
    if Y.ndim not in (2, 3) or 0 in Y.shape:
        raise InputError(f"Y must be an M x P matrix (or a batch of them), but its shape is {Y.shape}.")
    largest = _largest(Y)
    mask = _mask(Y, mask, np.isnan(largest))
    if mask is not None:
        Y = np.where(mask, Y, 0.0)
        largest = _largest(Y)
    _check_size("Y", largest)
    if F_prime is not None:
        F_prime = _array("F_prime", F_prime)
        if F_prime.ndim != Y.ndim or F_prime.shape[:-1] != Y.shape[:-1] or F_prime.shape[-1] == 0:
            raise InputError(f"F_prime must be M x N with the M = {Y.shape[-2]} rows of Y, but its shape is {F_prime.shape}.")
    return Observed(Y, F_prime, mask), names


def _labels(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def is_centered(center: Any) -> bool | None:
    """What `center` says, None for "auto"; refused unless it is one of these or True or False."""
    if isinstance(center, str) and center == "auto":
        return None
    if not isinstance(center, (bool, np.bool_)):
        raise InputError(f'center must be True, False or "auto", but {shown(center)} was given.')
    return bool(center)


def _check_offsets(center: np.ndarray, Y: np.ndarray) -> np.ndarray:
    if center.shape != Y.shape[:-1] or center.dtype.kind not in "fiu" or not np.isfinite(center).all():
        raise InputError(
            f"center must have a finite number for each row of Y ({Y.shape[:-1]}), but an array of shape {center.shape} was given."
        )
    return center


class Centred(NamedTuple):
    """The data, less the row means if they were taken off; these means, and why they were."""

    observed: Observed
    row_means: np.ndarray | None = None
    why: str | None = None


def centred(observed: Observed, center: Any, models: Sequence[Model], learn: Sequence[str], n_atoms: Any) -> Centred:
    """The data less the mean of each row's observed entries, where that is wanted, or where nothing is said and the means are further from
    zero than chance takes those of the model; of a batch each instance by itself."""
    if isinstance(center, np.ndarray):
        return Centred(less(observed, _check_offsets(center, observed.Y)), center, "asked")
    wanted = is_centered(center)
    if wanted is False or (wanted is None and ("slab_mean" in learn or not all(map(expects_no_mean, models)))):
        return Centred(observed)
    Y, _, mask = observed
    seen = np.ones(Y.shape, bool) if mask is None else np.asarray(mask, bool)
    off = np.ones(len(Y) if Y.ndim == 3 else 1, bool)
    if wanted is None:
        N = _least_atoms(observed.F_prime, n_atoms)
        off = np.atleast_1d(off_centre(Y, seen, N))
        if not off.any():
            return Centred(observed)
    means = np.sum(Y, axis=-1, where=seen) / np.maximum(np.sum(seen, axis=-1), 1)
    means = np.where(off[:, None] if Y.ndim == 3 else off[0], means, 0.0)
    return Centred(less(observed, means), means, "auto" if wanted is None else "asked")


def _least_atoms(F_prime: Any, n_atoms: Any) -> int:
    """The number of atoms, the least of several; 1 where none is given, or none that could be one, which is refused later."""
    numbers = [F_prime.shape[-1]] if F_prime is not None else n_atoms if isinstance(n_atoms, (list, tuple, np.ndarray)) else [n_atoms]
    return min((int(number) for number in numbers if isinstance(number, (int, np.integer)) and number > 0), default=1)


def check_center(models: Sequence[Model], learn: Sequence[str]) -> None:
    """Refuse to take row means off data whose model explains them."""
    for model in models:
        check_no_mean(model.prior.X.moments().mean, "slab_mean" in learn)
        if not model.channel.shows_units:  # the mean of y is not z, so an offset of y is none of z
            raise InputError(f"center must be left out with {model.channel!r}, which does not add noise to F X, but center=True was given.")


def check_no_mean(mean: Any, learned: bool) -> None:
    """Refuse to centre data whose prior of X has a mean or learns one."""
    if learned or mean != 0:
        raise InputError("center must be left out where the prior of X has a mean or learns one, but center=True was given.")


def check_outcomes(observed: Observed, models: Sequence[Model]) -> None:
    """Refuse data that a channel can't have put out."""
    Y, mask = observed.Y, observed.mask
    if mask is not None:  # another entry of the row stands for a missing one
        Y = np.where(mask, Y, np.take_along_axis(Y, np.argmax(mask, axis=-1)[..., None], axis=-1))
    for channel in {id(model.channel): model.channel for model in models}.values():
        if wrong := channel.fault_of_shape(observed.Y.shape):
            raise InputError(wrong)
        if fault := channel.fault_of(Y):
            raise InputError(f"Y {fault}, {channel!r}, but it holds other values.")


def check_knowledge(observed: Observed, knowledge: Knowledge) -> tuple[Observed, Knowledge]:
    """F' where the knowledge needs one, and the knowledge: F itself where eta says that F' is that to rounding."""
    eta = getattr(knowledge, "eta", None)
    if eta is not None and np.ndim(eta) == 0 and float(eta) < _EXACT:
        knowledge = Known()
    if not knowledge.fixed and eta is not None and np.all(np.isinf(eta)):
        return observed._replace(F_prime=None), knowledge
    if observed.F_prime is None:
        raise InputError(f"F_prime must be given with {knowledge!r}; it may be left out only when eta = inf.")
    _check_size("F_prime", _largest(observed.F_prime))
    return observed, knowledge


def check_models(models: Sequence[Model], size: int) -> None:
    """Refuse models that one compiled run can't serve: they must be of the same kinds up to their numbers."""
    if not models or not all(isinstance(model, Model) for model in models):
        raise InputError(f"model must be a Model or a Problem, or a list of them, but {models!r} was given.")
    kinds = {(jax.tree.structure((m.prior, m.channel, m.knowledge)), is_strong(m.knowledge, m.prior.F), _shapes(m.channel)) for m in models}
    if len(kinds) > 1:
        raise InputError(
            f"model must hold models of one kind (priors, channel; eta zero, small, large or infinite), but there are {len(kinds)} kinds."
        )
    check_number("model", len(models), size)


def _shapes(channel: Channel) -> tuple[Any, ...]:
    return tuple(np.shape(leaf) for leaf in jax.tree.leaves(channel))


def check_number(name: str, given: int, size: int) -> None:
    """Refuse a number of things that is not one, and not one for each instance."""
    if given not in (1, size):
        raise InputError(f"{name} must be one, or one for each of the {size} instances, but {given} were given.")


def check_dtype(dtype: Any) -> None:
    """Refuse other precisions than the two."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = dtype
    check_choice("dtype", name, ("float64", "float32"))


def check_asides(search: Any, progress: Any, watch: Any) -> None:
    """Refuse what can't be called, or is no search, before it is needed."""
    if search is not None and not isinstance(search, Search):
        raise InputError(f"search must be a spinodal.Search, but {shown(search)} was given.")
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(f"progress must be True, False or a function, but {shown(progress)} was given.")
    if watch is not None and not callable(watch):
        raise InputError(f"watch must be a function, but {shown(watch)} was given.")


def check_runs(runs: Any, hinted: bool, started: bool) -> None:
    """Refuse a number of runs that can't be made."""
    check_count("runs", runs, 1, MOST_RUNS)
    if runs > 1 and (hinted or started):
        where = "F_prime says" if hinted else "a solution says"
        raise InputError(f"runs must be 1 where {where} where to start, but {runs} was given.")


def check_start(start: Any, shape: tuple[int, ...], N: int) -> None:
    """Refuse a start that does not fit the data."""
    *batch, M, P = shape
    if not isinstance(start, Solution):
        raise InputError(f"start must be a Solution, but {type(start).__name__} was given.")
    shapes = (np.shape(start.mean.F), np.shape(start.mean.X))
    if shapes != ((*batch, M, N), (*batch, N, P)):
        raise InputError(
            f"start must have F of shape {(*batch, M, N)} and X of shape {(*batch, N, P)}, but {shapes[0]} and {shapes[1]} were given."
        )


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        return array.astype(np.float64 if array.dtype.kind != "f" or array.dtype.itemsize > 4 else np.float32, copy=False)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers, but {type(value).__name__} was given.") from None


def _check_size(name: str, largest: float) -> None:
    if not np.isfinite(largest):
        raise InputError(f"{name} must be finite, but it holds NaN or infinite values.")
    if largest > _LARGEST:
        raise InputError(f"{name} must hold numbers of at most {_LARGEST:g} in size, in units of the priors, but it holds {largest:g}.")


def _largest(array: np.ndarray) -> float:
    """Largest absolute value; NaN if there is one. Two passes and no copy: large data are looked at as little as possible."""
    return float(np.maximum(array.max(), -array.min()))


def _mask(Y: np.ndarray, mask: Any, has_holes: bool) -> np.ndarray | None:
    """Observed entries as truth values; NaN in Y is unobserved. None when everything is observed."""
    holes = np.isnan(Y) if has_holes else None
    if mask is None:
        if holes is None:
            return None
        observed = ~holes
    else:
        given = _array("mask", mask)
        if given.shape != Y.shape or not np.isin(given, (0, 1)).all():
            raise InputError(f"mask must hold 0 and 1 (or False and True) in the shape {Y.shape} of Y, but its shape is {given.shape}.")
        observed = given.astype(bool)
        if holes is not None and (holes & observed).any():
            raise InputError("Y must be finite where mask says it was observed, but it holds NaN there.")
    if observed.all():
        return None
    if not observed.any(axis=-1).all() or not observed.any(axis=-2).all():
        raise InputError("mask must leave at least one observed entry in every row and column of Y, but some have none.")
    return observed


def count_atoms(F_prime: np.ndarray | None, n_atoms: int | None) -> int:
    """The number of atoms: that of F', or the given one."""
    if n_atoms is not None:
        check_count("n_atoms", n_atoms)
    if F_prime is not None:
        N = int(F_prime.shape[-1])
        if n_atoms not in (None, N):
            raise InputError(f"n_atoms must be the {N} columns of F_prime or be left out, but {n_atoms} was given.")
        return N
    if n_atoms is None:
        raise InputError("n_atoms must be given where there is no F_prime to count the atoms of.")
    return n_atoms


def check_numbers_of_atoms(numbers: Sequence[int], observed: Observed) -> None:
    """Refuse numbers of atoms to try that are none, are for a batch, or can't all be tried: before the first of them is."""
    if len(numbers) == 0:
        raise InputError("n_atoms must be a number, or several, but an empty list was given.")
    if observed.Y.ndim == 3:
        raise InputError(f"n_atoms must be one number for a batch of instances, but {len(numbers)} were given.")
    check_count("the count of n_atoms", len(numbers), 1, _MOST_NUMBERS)
    for number in numbers:
        count_atoms(observed.F_prime, number)
