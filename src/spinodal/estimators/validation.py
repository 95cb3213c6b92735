"""Parameters of the estimators checked and understood; what is worth a warning before a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from ..errors import InputError, check, check_count, check_finite, check_nonnegative, check_positive, check_room
from ..inference.checks import check_no_mean, is_centered
from ..inference.coding import Options, cost
from .sanity import suspicions_of_samples

# More operations than this, or more bytes for second moments, are worth a warning: about half an hour, and what few machines have.
_LONG_WORK, _MUCH_ROOM = 2e13, 8e9
# Components and codes are held so many times: means, variances, and those before.
_TIMES_HELD = 4
# Seeds are drawn below this.
_SEEDS = 2**31 - 1
# Samples x components x (the smaller of components and features)^2 above which expectation propagation takes long: a fit tens of seconds,
# in which rounds by VAMP take a few. (Patches of two pictures, of this size, are restored at least as well by VAMP.)
_LONG_CODES = 5e8


def is_auto(value: Any) -> bool:
    """Whether a parameter is to be learned."""
    return isinstance(value, str) and value == "auto"


def check_parameters(model: Any) -> None:
    """Refuse parameters that can't be used."""
    if not is_auto(model.density):
        check("density", model.density, 0.0, 1.0, low_open=True, high_open=True)
    if not is_auto(model.noise_variance):
        check_nonnegative("noise_variance", model.noise_variance)
    if not is_auto(model.slab_mean):
        check_finite("slab_mean", model.slab_mean)
    if not is_auto(model.slab_variance):
        check_positive("slab_variance", model.slab_variance)
    if is_centered(model.center):
        check_no_mean(model.slab_mean, is_auto(model.slab_mean))
    if not is_auto(model.max_iter):
        check_count("max_iter", model.max_iter, 0)
    for name in ("fast", "own_density"):
        value = getattr(model, name)
        if not is_auto(value) and not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True, False or 'auto', but {value!r} was given.")
    check_count("n_init", model.n_init)
    check_count("refine_iter", model.refine_iter, 0)
    check("tol", model.tol, 0.0, 1.0, high_open=True)


def options_of(model: Any, n_components: int, shape: tuple[int, int], minibatches: bool | None = None) -> Options:
    """How to fit data of this shape, as the parameters say."""
    seed = int(check_random_state(model.random_state).randint(_SEEDS - model.n_init))
    return Options(
        n_components=n_components,
        n_init=model.n_init,
        max_iter=None if is_auto(model.max_iter) else model.max_iter,
        tol=model.tol,
        refine_iter=model.refine_iter,
        own_density=None if is_auto(model.own_density) else bool(model.own_density),
        fast=is_fast(model, shape, n_components),
        seed=seed,
        progress=_progress(model),
        minibatches=minibatches,
    )


def is_fast(model: Any, shape: tuple[int, int], n_components: int) -> bool:
    """Whether codes are found by VAMP: as the parameter says, or if expectation propagation would take longer than some seconds."""
    if is_auto(model.fast):
        return shape[0] * n_components * min(n_components, shape[1]) ** 2 > _LONG_CODES
    return bool(model.fast)


def weights_of(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    """Weights of the samples, checked; None if all are alike."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weight if np.ptp(weight) else None


def warn_before(model: Any, X: np.ndarray, n_components: int) -> None:
    """Warn of what looks wrong with the samples, of few of them, and of rounds that would take long or much memory."""
    check_room("n_components", _TIMES_HELD * X.itemsize * n_components * sum(X.shape), f"n_components={n_components} on {X.shape}")
    names = getattr(model, "feature_names_in_", None)
    for sentence in suspicions_of_samples(X, n_components, model.slab_mean, is_centered(model.center), names):
        warnings.warn(f"{sentence[0].upper()}{sentence[1:]}.", stacklevel=3)
    if len(X) < n_components:
        warnings.warn(f"{len(X)} samples for {n_components} components: a component may be the copy of a sample.", stacklevel=3)
    work, room = cost(X.shape, n_components, model.refine_iter, missing=bool(np.isnan(X).any()), fast=is_fast(model, X.shape, n_components))
    if work > _LONG_WORK or room > _MUCH_ROOM:
        warnings.warn(
            f"refine_iter={model.refine_iter} rounds on {len(X)} samples with {n_components} components may take {work:.0e} operations "
            f"and {room / 1e9:.2g} GB; refine_iter=0 leaves them out.",
            stacklevel=3,
        )


def _progress(model: Any) -> Callable[[str, int, float], None] | None:
    """The callback, told after the screen if the estimator is verbose."""
    if not model.verbose and model.callback is None:
        return None

    def tell(stage: str, iteration: int, residual: float) -> None:
        if stage != "iterating":
            return
        if model.verbose:
            print(f"[{type(model).__name__}] iteration {iteration}, residual {residual:.3g} of the data's power")
        if model.callback is not None:
            model.callback(iteration, residual)

    return tell
