"""Data drawn from the model, and estimators fitted to them once for all tests. All have one shape, so that little is compiled."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

import spinodal as sp

ATOMS, FEATURES, SAMPLES, HELD_OUT, UNIT, NOISE = 8, 16, 300, 200, 37.0, 0.05
SHAPE = (ATOMS, FEATURES, SAMPLES)


class Drawn(NamedTuple):
    """Samples to fit, and others held out, with and without noise of this variance; components and the codes of both."""

    data: np.ndarray
    held_out: np.ndarray
    clean: np.ndarray
    components: np.ndarray
    codes: np.ndarray
    held_out_codes: np.ndarray
    noise: float
    nominal: np.ndarray


@cache
def drawn(
    seed: int = 0,
    eta: float = np.inf,
    noise: float = NOISE,
    missing: float = 0.0,
    shape: tuple[int, int, int] = SHAPE,
    density: float = 0.25,
) -> Drawn:
    """Noise is a share of the power of the signal. Nominal components are those that eta says."""
    atoms, features, samples = shape
    rng = np.random.default_rng(seed)
    components = rng.normal(size=(atoms, features)) / np.sqrt(features)
    codes = UNIT * rng.normal(size=(samples + HELD_OUT, atoms)) * (rng.random((samples + HELD_OUT, atoms)) < density)
    clean = codes @ components
    variance = noise * np.mean(clean**2)
    data = clean + np.sqrt(variance) * rng.normal(size=clean.shape)
    seen = np.where(rng.random(clean.shape) < missing, np.nan, data)[:samples]
    error = rng.normal(size=components.shape) / np.sqrt(features)
    nominal = (components + np.sqrt(eta) * error) / np.sqrt(1 + eta) if np.isfinite(eta) else error
    return Drawn(seen, data[samples:], clean[samples:], components, codes[:samples], codes[samples:], variance, nominal)


class Fit(NamedTuple):
    """A model, samples held out, and the truth in the model's order and signs; for DictionaryLearner scaled to components of norm 1."""

    model: Any
    data: np.ndarray
    clean: np.ndarray
    components: np.ndarray
    codes: np.ndarray


@cache
def fit_drawn(seed: int = 0, eta: float = np.inf, noise: float = NOISE, *others: Any, **options: Any) -> Fit:
    truth = drawn(seed, eta, noise, *others)
    components, codes = truth.components, truth.held_out_codes
    if np.isfinite(eta):
        model: Any = sp.BlindCalibration(truth.nominal, eta, random_state=0, **options).fit(truth.data)
    else:
        model = sp.DictionaryLearner(len(components), random_state=0, **options).fit(truth.data)
        norms = np.linalg.norm(components, axis=1)
        cosine = model.components_ @ (components / norms[:, None]).T
        found, true = linear_sum_assignment(-np.abs(cosine))
        assert np.abs(cosine[found, true]).min() > 0.9
        factor = np.sign(cosine[found, true]) * norms[true]
        components, codes = components[true] / factor[:, None], codes[:, true] * factor
    return Fit(model, truth.held_out, truth.clean, components, codes)


def learned() -> sp.DictionaryLearner:
    """DictionaryLearner as users have it, fitted to drawn().data."""
    return fit_drawn().model
