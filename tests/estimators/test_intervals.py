"""Reported uncertainties on data drawn from the model: 90% intervals hold 85 to 95% of what was held out.

One data set's share scatters more than its entries would on their own, since they have the components' errors in common. So every claim is
about a mean over data sets: two of them in every run, more of them with their standard error where statistical claims are tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fits import ATOMS, FEATURES, SHAPE, UNIT, Fit, drawn, fit_drawn, learned
from scipy.special import ndtri

import spinodal as sp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW, SETS, Z = 2, 6, ndtri(0.95)
data_sets = pytest.mark.parametrize("sets", [FEW, pytest.param(SETS, marks=pytest.mark.claims)])


def fits(sets: int, *about: Any, **options: Any) -> list[Fit]:
    return [fit_drawn(seed, *about, **options) for seed in range(sets)]


def near(level: float, shares: Any) -> bool:
    """Whether the mean share is within 0.05 of the level and, of more than a few, within 0.02 and three standard errors."""
    error = np.std(shares) / np.sqrt(len(shares) - 1) if len(shares) > FEW else np.inf
    return bool(abs(np.mean(shares) - level) < min(0.05, 0.02 + 3 * error))


def codes_covered(fit: Fit, level: float) -> tuple[float, float]:
    """Shares of the nonzero codes and of all codes inside `transform_interval`."""
    low, high = fit.model.transform_interval(fit.data, level)
    inside = (low <= fit.codes) & (fit.codes <= high)
    return float(np.mean(inside[fit.codes != 0])), float(np.mean(inside))


def components_covered(fit: Fit) -> float:
    """The share of components within 90% of their normal distribution."""
    return float(np.mean(np.abs(fit.model.components_ - fit.components) <= Z * np.sqrt(fit.model.components_var_)))


@data_sets
@pytest.mark.parametrize("eta", [pytest.param(np.inf, marks=pytest.mark.claims), 0.01])
def test_intervals_of_codes_cover_nonzeros_and_all_as_they_say(eta: float, sets: int) -> None:
    for level in (0.5, 0.9):
        shares = np.array([codes_covered(fit, level) for fit in fits(sets, eta, 0.05)])
        for each in shares.T:
            assert near(level, each)


@data_sets
@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_mean_and_standard_deviation_cover_codes_that_are_surely_not_zero(eta: float, sets: int) -> None:
    """Where zero is likely, mean and standard deviation are no interval: all codes are covered more often, nonzeros less often."""
    shares = []
    for fit in fits(sets, eta, 0.05):
        error, sd = np.abs(fit.model.transform(fit.data) - fit.codes), fit.model.transform_std(fit.data)
        sure = fit.model.transform_support(fit.data) > 0.99
        assert np.mean(sure) > 0.1
        shares.append(np.mean(error[sure] <= Z * sd[sure]))
        assert np.mean(error <= Z * sd) > 0.92
        assert np.mean((error <= Z * sd)[fit.codes != 0]) < 0.88
    assert near(0.9, shares)


@data_sets
@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_entries_held_back_are_predicted_with_and_without_their_noise(eta: float, sets: int) -> None:
    signal, measured = [], []
    for k, fit in enumerate(fits(sets, eta, 0.05)):
        hidden = np.random.default_rng(k).random(fit.data.shape) < 0.3
        holes = np.where(hidden, np.nan, fit.data)
        values, sd = fit.model.restore(holes)
        signal.append(np.mean((np.abs(values - fit.clean) <= Z * sd)[hidden]))
        values, sd = fit.model.restore(holes, noise=True)
        measured.append(np.mean((np.abs(values - fit.data) <= Z * sd)[hidden]))
    assert near(0.9, signal)
    assert near(0.9, measured)


@data_sets
@pytest.mark.parametrize("eta", [np.inf, 0.01])
def test_components_are_covered(eta: float, sets: int) -> None:
    assert near(0.9, [components_covered(fit) for fit in fits(sets, eta, 0.05)])


def test_components_are_covered_where_almost_all_of_the_error_is_in_the_scales() -> None:
    """At the lowest noise only the nominal components and the prior of the codes fix scales; a few data sets would scatter too much."""
    assert near(0.9, [components_covered(fit) for fit in fits(SETS, 0.01, 1e-3)])


def test_learned_components_have_norm_1_and_no_doubt_along_them() -> None:
    model = learned()
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-12)
    assert np.all(model.scales_var_ == 0)
    assert np.ptp(model.scales_) > 0  # the codes' slab is the same for all in the model's own scales
    given = sp.DictionaryLearner(ATOMS, slab_variance=UNIT**2, random_state=0, max_iter=0).fit(drawn().held_out)
    assert np.all(given.scales_ == 1)
    assert np.all(given.scales_var_ > 0)


def test_scales_are_as_doubtful_as_they_vary() -> None:
    """The variance of log scales over atoms and data sets, against the one reported. Squares of n normals scatter by sqrt(2/n)."""
    logs, reported = [], []
    for fit in fits(SETS, 0.01, 1e-3):
        found = fit.model.components_
        logs.append(np.log(np.sum(found * fit.components, axis=1) / np.sum(found**2, axis=1)))
        reported.append(fit.model.scales_var_)
    n = SETS * ATOMS
    assert np.mean(np.square(logs)) / np.mean(reported) == pytest.approx(1, abs=4 * np.sqrt(2 / n))


def test_samples_without_an_entry_have_the_priors_intervals_and_bad_levels_are_refused() -> None:
    model = learned()
    low, high = model.transform_interval(np.full((1, FEATURES), np.nan, dtype=np.float32), 0.8)
    assert low.dtype == high.dtype == np.float32
    np.testing.assert_allclose(high[0], ndtri(0.9) * np.sqrt(model.slab_variance_) * model.scales_, rtol=1e-2)
    np.testing.assert_allclose(low, -high, rtol=1e-5)
    with pytest.raises(sp.InputError, match=r"^level must"):
        model.transform_interval(np.zeros((1, FEATURES)), 90)


def check_all_intervals(found: list[Fit]) -> None:
    """Codes, components and measurements that were held back, at level 0.9."""
    for each in np.array([codes_covered(fit, 0.9) for fit in found]).T:
        assert near(0.9, each)
    measured = []
    for k, fit in enumerate(found):
        hidden = np.random.default_rng(k).random(fit.data.shape) < 0.3
        values, sd = fit.model.restore(np.where(hidden, np.nan, fit.data), noise=True)
        measured.append(np.mean((np.abs(values - fit.data) <= Z * sd)[hidden]))
    assert near(0.9, [components_covered(fit) for fit in found])
    assert near(0.9, measured)


def test_intervals_at_another_noise_and_density() -> None:
    check_all_intervals(fits(FEW, np.inf, 0.01, 0.0, SHAPE, 0.2))


def test_intervals_at_another_size_with_missing_entries() -> None:
    """Nothing has to be compiled for BlindCalibration without message passing."""
    check_all_intervals(fits(FEW, 0.01, 0.02, 0.3, (6, 16, 250), 0.25, max_iter=0))


SIZES = [
    pytest.param((16, 32, 600), 0.1, 0.01, 0.0, marks=pytest.mark.claims),
    pytest.param((8, 16, 300), 0.25, 0.05, 0.3, marks=pytest.mark.slow),
    pytest.param((16, 24, 800), 0.3, 1e-4, 0.0, marks=pytest.mark.slow),
    pytest.param((32, 48, 1500), 0.15, 0.1, 0.3, marks=pytest.mark.slow),
    pytest.param((64, 64, 4000), 0.1, 1e-3, 0.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("eta", [np.inf, 0.01])
@pytest.mark.parametrize(("shape", "density", "noise", "missing"), SIZES)
def test_intervals_at_other_sizes(eta: float, shape: tuple[int, ...], density: float, noise: float, missing: float) -> None:
    check_all_intervals(fits(SETS, eta, noise, missing, shape, density))
