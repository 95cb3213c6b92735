"""Reported uncertainties on data drawn from the model: 90% intervals hold 85 to 95% of what was held out.

One data set's share scatters more than its entries would on their own, since they have the components' errors in common. So every claim is
about a mean over data sets, with its standard error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri
from test_codes import drawn as drawn_codes

import spinodal as sp
from spinodal.estimators.codes import Slab, infer_codes
from spinodal.estimators.scales import Prior, Usage, most_probable
from spinodal.estimators.shared import infer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ATOMS, FEATURES, SAMPLES, HELD_OUT, UNIT = 8, 16, 300, 200, 37.0
SETS, Z = 6, ndtri(0.95)


class Fit(NamedTuple):
    """A model, samples held out, and the truth in the model's order and signs; for DictionaryLearner scaled to components of norm 1."""

    model: Any
    data: np.ndarray
    clean: np.ndarray
    components: np.ndarray
    codes: np.ndarray


@cache
def fits(eta: float, noise: float, missing: float = 0.0, shape: tuple[int, ...] = (ATOMS, FEATURES, SAMPLES), density: float = 0.25) -> Any:
    return [_fit(seed, eta, noise, missing, shape, density) for seed in range(SETS)]


def _fit(seed: int, eta: float, noise: float, missing: float, shape: tuple[int, ...], density: float) -> Fit:
    atoms, features, samples = shape
    rng = np.random.default_rng(seed)
    components = rng.normal(size=(atoms, features)) / np.sqrt(features)
    codes = UNIT * rng.normal(size=(samples + HELD_OUT, atoms)) * (rng.random((samples + HELD_OUT, atoms)) < density)
    clean = codes @ components
    data = clean + np.sqrt(noise * np.mean(clean**2)) * rng.normal(size=clean.shape)
    seen = np.where(rng.random(clean.shape) < missing, np.nan, data)[:samples]
    if np.isfinite(eta):
        error = rng.normal(size=components.shape) / np.sqrt(features)
        model: Any = sp.BlindCalibration((components + np.sqrt(eta) * error) / np.sqrt(1 + eta), eta, random_state=0).fit(seen)
    else:
        model = sp.DictionaryLearner(atoms, random_state=0).fit(seen)
        norms = np.linalg.norm(components, axis=1)
        cosine = model.components_ @ (components / norms[:, None]).T
        found, true = linear_sum_assignment(-np.abs(cosine))
        assert np.abs(cosine[found, true]).min() > 0.9
        factor = np.sign(cosine[found, true]) * norms[true]
        components, codes = components[true] / factor[:, None], codes[:, true] * factor
    return Fit(model, data[samples:], clean[samples:], components, codes[samples:])


def near(level: float, shares: Any) -> bool:
    """Whether the mean share is within 0.05 of the level, and within 0.02 and three standard errors."""
    error = np.std(shares) / np.sqrt(len(shares) - 1)
    return bool(abs(np.mean(shares) - level) < min(0.05, 0.02 + 3 * error))


def codes_covered(fit: Fit, level: float) -> tuple[float, float]:
    """Shares of the nonzero codes and of all codes inside `transform_interval`."""
    low, high = fit.model.transform_interval(fit.data, level)
    inside = (low <= fit.codes) & (fit.codes <= high)
    return float(np.mean(inside[fit.codes != 0])), float(np.mean(inside))


@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_intervals_of_codes_cover_nonzeros_and_all_as_they_say(eta: float) -> None:
    for level in (0.5, 0.9):
        shares = np.array([codes_covered(fit, level) for fit in fits(eta, 0.05)])
        for each in shares.T:
            assert near(level, each)


@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_mean_and_standard_deviation_cover_codes_that_are_surely_not_zero(eta: float) -> None:
    """Where zero is likely, mean and standard deviation are no interval: all codes are covered more often, nonzeros less often."""
    shares = []
    for fit in fits(eta, 0.05):
        error, sd = np.abs(fit.model.transform(fit.data) - fit.codes), fit.model.transform_std(fit.data)
        sure = fit.model.transform_support(fit.data) > 0.99
        assert np.mean(sure) > 0.1
        shares.append(np.mean(error[sure] <= Z * sd[sure]))
        assert np.mean(error <= Z * sd) > 0.92
        assert np.mean((error <= Z * sd)[fit.codes != 0]) < 0.88
    assert near(0.9, shares)


@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_entries_held_back_are_predicted_with_and_without_their_noise(eta: float) -> None:
    signal, measured = [], []
    for k, fit in enumerate(fits(eta, 0.05)):
        hidden = np.random.default_rng(k).random(fit.data.shape) < 0.3
        holes = np.where(hidden, np.nan, fit.data)
        values, sd = fit.model.restore(holes)
        signal.append(np.mean((np.abs(values - fit.clean) <= Z * sd)[hidden]))
        values, sd = fit.model.restore(holes, noise=True)
        measured.append(np.mean((np.abs(values - fit.data) <= Z * sd)[hidden]))
    assert near(0.9, signal)
    assert near(0.9, measured)


@pytest.mark.parametrize(("eta", "noise"), [(np.inf, 0.05), (0.01, 0.05), (0.01, 1e-3)])
def test_components_are_covered(eta: float, noise: float) -> None:
    """At the lowest noise almost all of the error is in the scales, which only the nominal components and the prior of the codes fix."""
    shares = [np.mean(np.abs(fit.model.components_ - fit.components) <= Z * np.sqrt(fit.model.components_var_)) for fit in fits(eta, noise)]
    assert near(0.9, shares)


def test_learned_components_have_norm_1_and_no_doubt_along_them() -> None:
    model = fits(np.inf, 0.05)[0].model
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-12)
    assert np.all(model.scales_var_ == 0)
    assert np.ptp(model.scales_) > 0  # the codes' slab is the same for all in the model's own scales
    given = sp.DictionaryLearner(ATOMS, slab_variance=UNIT**2, random_state=0, max_iter=0).fit(fits(np.inf, 0.05)[0].data)
    assert np.all(given.scales_ == 1)
    assert np.all(given.scales_var_ > 0)


def test_scales_are_as_doubtful_as_they_vary() -> None:
    """The variance of log scales over atoms and data sets, against the one reported. Squares of n normals scatter by sqrt(2/n)."""
    logs, reported = [], []
    for fit in fits(0.01, 1e-3):
        found = fit.model.components_
        logs.append(np.log(np.sum(found * fit.components, axis=1) / np.sum(found**2, axis=1)))
        reported.append(fit.model.scales_var_)
    n = SETS * ATOMS
    assert np.mean(np.square(logs)) / np.mean(reported) == pytest.approx(1, abs=4 * np.sqrt(2 / n))


def test_scales_are_where_the_priors_have_them() -> None:
    """Multiplied by anything and its codes divided by it, a component comes back to the same scale."""
    rng = np.random.default_rng(0)
    model = drawn_codes(6, 40, 1, 0.1)[0]._replace(slab=Slab(0.3, 0.0, 1.0))
    prior = Prior(1.1 * model.components, np.full(model.components.shape, 0.02))
    usage = Usage(np.full(6, 50.0), np.zeros(6), rng.uniform(20, 80, 6))
    k = rng.uniform(0.3, 3, 6)
    other = model._replace(components=model.components * k[:, None], uncertainty=model.uncertainty * k[:, None] ** 2)
    for learn in ((), ("variance",)):
        first = most_probable(model, prior, usage, learn)
        again = most_probable(other, prior, usage._replace(square=usage.square / k**2), learn)
        np.testing.assert_allclose(again.components, first.components, rtol=1e-4)
        assert again.slab.variance == pytest.approx(first.slab.variance, rel=1e-4)


@pytest.mark.parametrize(("atoms", "features"), [(6, 12), (7, 5)])
@pytest.mark.parametrize("fast", [False, True])
def test_variances_of_the_signal_are_its_errors(atoms: int, features: int, fast: bool) -> None:
    """Given the true components, fewer or more of them than features. Codes taken as independent would have several times as much."""
    model, x, y = drawn_codes(atoms, features, 600, 0.1)
    found = infer(model._replace(fast=fast), y)
    error = np.mean(((found.mean - x) @ model.components) ** 2)
    assert np.mean(found.signal_variance) == pytest.approx(error, rel=0.15)
    assert np.mean(found.variance @ model.components**2) > 1.5 * error


def test_the_variance_of_the_signal_is_exact_where_all_codes_are_normal() -> None:
    model, _, y = drawn_codes(6, 4, 3, 0.1)
    normal = model._replace(slab=model.slab._replace(density=1 - 1e-12))
    y[0, 1] = np.nan
    for row, found in zip(y, infer_codes(normal, y).signal_variance, strict=True):
        G = model.components[:, ~np.isnan(row)]
        covariance = np.linalg.inv(np.eye(6) / model.slab.variance + G @ G.T / model.noise)
        np.testing.assert_allclose(found, np.diag(model.components.T @ covariance @ model.components), rtol=1e-5)


def test_the_interval_of_one_code_is_its_posterior_if_it_is_not_zero() -> None:
    model, _, y = drawn_codes(1, 4, 20, 0.2)
    found, G = infer_codes(model, y), model.components[0]
    precision = 1 / model.slab.variance + G @ G / model.noise
    np.testing.assert_allclose(found.slab_variance[:, 0], 1 / precision, rtol=1e-8)
    np.testing.assert_allclose(found.slab_mean[:, 0], (model.slab.mean / model.slab.variance + y @ G / model.noise) / precision, rtol=1e-8)


def test_samples_without_an_entry_have_the_priors_intervals_and_bad_levels_are_refused() -> None:
    model = fits(np.inf, 0.05)[0].model
    low, high = model.transform_interval(np.full((1, FEATURES), np.nan, dtype=np.float32), 0.8)
    assert low.dtype == high.dtype == np.float32
    np.testing.assert_allclose(high[0], ndtri(0.9) * np.sqrt(model.slab_variance_) * model.scales_, rtol=1e-2)
    np.testing.assert_allclose(low, -high, rtol=1e-5)
    with pytest.raises(sp.InputError, match=r"^level must"):
        model.transform_interval(np.zeros((1, FEATURES)), 90)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [np.inf, 0.01])
@pytest.mark.parametrize(
    ("shape", "density", "noise", "missing"),
    [
        ((8, 16, 300), 0.25, 0.05, 0.3),
        ((16, 32, 600), 0.1, 0.01, 0.0),
        ((16, 24, 800), 0.3, 1e-4, 0.0),
        ((32, 48, 1500), 0.15, 0.1, 0.3),
        ((64, 64, 4000), 0.1, 1e-3, 0.0),
    ],
)
def test_intervals_at_other_sizes(eta: float, shape: tuple[int, ...], density: float, noise: float, missing: float) -> None:
    found = fits(eta, noise, missing, shape, density)
    for each in np.array([codes_covered(fit, 0.9) for fit in found]).T:
        assert near(0.9, each)
    components, measured = [], []
    for k, fit in enumerate(found):
        components.append(np.mean(np.abs(fit.model.components_ - fit.components) <= Z * np.sqrt(fit.model.components_var_)))
        hidden = np.random.default_rng(k).random(fit.data.shape) < 0.3
        values, sd = fit.model.restore(np.where(hidden, np.nan, fit.data), noise=True)
        measured.append(np.mean((np.abs(values - fit.data) <= Z * sd)[hidden]))
    assert near(0.9, components)
    assert near(0.9, measured)
