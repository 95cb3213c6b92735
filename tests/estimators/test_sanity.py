"""Samples that users mistake: each mistake is warned of in words of the estimator, with what helps, and sound samples are not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.exceptions import ConvergenceWarning

import spinodal as sp
from draws import draw

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES, FEATURES, ATOMS = 400, 12, 10
DATA = draw(sp.Problem.sparse(alpha=1.2, pi=40.0, rho=0.2, noise_variance=1e-3), ATOMS, seed=3).observed.Y.T


def said(X: Any, **options: Any) -> str:
    """The warnings of a fit that does as little as possible."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=0, random_state=0, **options).fit(X)
    return "\n".join(str(each.message) for each in caught if not issubclass(each.category, ConvergenceWarning))


def where(place: tuple[Any, Any], value: float) -> np.ndarray:
    X = DATA.copy()
    X[place] = value
    return X


def other_half() -> np.ndarray:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(FEATURES, FEATURES)))[0] * np.geomspace(0.3, 3, FEATURES)
    return np.concatenate([DATA[: SAMPLES // 2] * np.geomspace(3, 0.3, FEATURES), DATA[SAMPLES // 2 :] @ turn])


MISTAKES: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {
    "an index": (np.column_stack([np.arange(SAMPLES), DATA]), ("The first column of X is 0, 1, 2, ...", "leave that column out.")),
    "column numbers": (np.concatenate([np.arange(FEATURES)[None], DATA]), ("The first row of X is 0, 1, 2, ...", "leave that row out.")),
    "-999": (where((slice(3, 7), 2), -999.0), ("4 entries are -999", "write NaN instead.")),
    "samples in columns": (DATA.T, ("X has 12 rows and 400 columns, and its columns look like the samples", "(X.T).")),
    "a noisy feature": (
        DATA + np.where(np.arange(FEATURES) == 4, 30, 0) * np.random.default_rng(0).normal(size=DATA.shape),
        ("Feature 5 of X is far larger",),
    ),
    "copies": (np.concatenate([DATA, DATA[:3]]), ("3 of the 403 samples are copies of others", "leave copies out")),
    "a dead feature": (where((slice(None), 5), 0.0), ("Feature 6 of X never changes",)),
    "drift": (other_half(), ("The first half of the samples differs from the second half",)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_warned_of_with_what_helps(mistake: str) -> None:
    X, words = MISTAKES[mistake]
    told = said(X)
    assert all(word in told for word in words), told


def test_features_are_called_by_their_names() -> None:
    names = [f"sensor {k}" for k in range(FEATURES)]
    assert "Feature sensor 5 of X never changes" in said(pandas.DataFrame(where((slice(None), 5), 0.0), columns=names))


@pytest.mark.claims
def test_sound_samples_are_not_warned_of() -> None:
    holes = np.where(np.random.default_rng(0).random(DATA.shape) < 0.1, np.nan, DATA)
    assert [said(X) for X in (DATA, holes, DATA.astype(np.float32), 1e-6 * DATA)] == [""] * 4
    for seed in range(20):
        drawn = draw(sp.Problem.sparse(alpha=1.2, pi=40.0, rho=0.2, noise_variance=1e-3), ATOMS, seed=100 + seed).observed.Y.T
        assert said(drawn) == ""


@pytest.mark.claims
def test_means_are_taken_off_where_they_are_far_from_zero() -> None:
    far = DATA + np.arange(FEATURES)
    assert "so the mean of each feature was taken off and kept as mean_; to leave it in the data, pass center=False." in said(far)
    assert "subtract the mean of each feature (center=True)." in said(far, center=False)
    assert "mean" not in said(far, center=True)
    assert "mean" not in said(far, slab_mean="auto")
    fits = {
        center: sp.DictionaryLearner(ATOMS, center=center, max_iter=0, refine_iter=2, random_state=0).fit(far)
        for center in ("auto", True, False)
    }
    np.testing.assert_array_equal(fits["auto"].components_, fits[True].components_)
    np.testing.assert_allclose(fits["auto"].mean_, far.mean(axis=0))
    np.testing.assert_array_equal(fits[False].mean_, 0)
    np.testing.assert_array_equal(sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=0).fit(DATA).mean_, 0)
    with pytest.raises(sp.InputError, match=r"center must be True, False or .auto., but 'no' was given"):
        sp.DictionaryLearner(ATOMS, center="no").fit(DATA)


@pytest.mark.parametrize(
    "dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.claims), pytest.param(np.int64, marks=pytest.mark.claims)]
)
def test_masked_entries_are_missing(dtype: type) -> None:
    hidden = np.random.default_rng(0).random(DATA.shape) < 0.1
    values = np.round(100 * DATA).astype(dtype)
    masked = np.ma.array(np.where(hidden, 12345, values), mask=hidden)
    holes = np.where(hidden, np.nan, values)
    fits = [sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=2, random_state=0).fit(X) for X in (masked, holes)]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(fits[0].transform(masked), fits[1].transform(holes), rtol=1e-2, atol=1e-2)


def test_more_components_than_memory_are_refused() -> None:
    with pytest.raises(sp.InputError, match=r"n_components must leave room in memory, but n_components=1000000000000 on \(400, 12\)"):
        sp.DictionaryLearner(10**12).fit(DATA)
