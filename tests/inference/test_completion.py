"""Tables filled in: as well as by the true law, with intervals that hold, and what is refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import t as student

import spinodal as sp
from spinodal.inference.completion import Completed, held_out, law_of

SAMPLES, FEATURES, RANK = 300, 12, 3


def made(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A table, where it has holes, and its mean and covariance; every feature has a unit and a noise of its own."""
    random = np.random.default_rng(seed)
    unit = 10.0 ** random.uniform(-2, 2, FEATURES)
    loadings = unit[:, None] * random.normal(size=(FEATURES, RANK))
    noise = (unit * random.uniform(0.1, 0.6, FEATURES)) ** 2
    mean = 5 * unit
    table = mean + random.normal(size=(SAMPLES, RANK)) @ loadings.T + np.sqrt(noise) * random.normal(size=(SAMPLES, FEATURES))
    return table, random.random(table.shape) < 0.15, mean, loadings @ loadings.T + np.diag(noise)


@cache
def completed() -> Completed:
    table, holes, *_ = made()
    return sp.complete(np.where(holes, np.nan, table))


def by_the_true_law() -> np.ndarray:
    table, holes, mean, covariance = made()
    filled = table.copy()
    for i in range(SAMPLES):
        at, hole = ~holes[i], holes[i]
        gain = covariance[np.ix_(hole, at)] @ np.linalg.inv(covariance[np.ix_(at, at)])
        filled[i, hole] = mean[hole] + gain @ (table[i, at] - mean[at])
    return filled


@pytest.mark.claims
def test_entries_are_filled_in_nearly_as_well_as_by_the_true_law() -> None:
    table, holes, _, covariance = made()
    unit = np.sqrt(np.diag(covariance))
    ours, best = (np.sqrt(np.mean(((each - table) / unit)[holes] ** 2)) for each in (completed().table, by_the_true_law()))
    assert best < ours < 1.15 * best  # 250 values of each feature tell its loadings to about 6%


@pytest.mark.claims
def test_intervals_hold_the_share_they_say() -> None:
    table, holes, *_ = made()
    for level in (0.5, 0.9):
        low, high = completed().interval(level)
        error = 3 * np.sqrt(level * (1 - level) * (1 / holes.sum() + 1 / completed().held_out.entries))
        assert np.mean((low <= table) & (table <= high), where=holes) == pytest.approx(level, abs=error)


@pytest.mark.claims
def test_what_was_given_is_kept_and_is_its_own_interval() -> None:
    table, holes, *_ = made()
    found = completed()
    low, high = found.interval(0.9)
    for each in (found.table, low, high):
        np.testing.assert_array_equal(each[~holes], table[~holes])
    assert np.all(high[holes] > low[holes])
    assert np.isnan(found.log_density(table)[~holes]).all()
    np.testing.assert_array_equal(found.missing, holes)


@pytest.mark.claims
def test_noise_is_that_of_each_feature() -> None:
    *_, covariance = made()
    loadings_part = np.linalg.eigvalsh(covariance)
    assert loadings_part[0] > 0
    unexplained = 1 / np.diag(np.linalg.inv(covariance))  # given all other features: at least the noise
    assert np.all(completed().noise_variance < 1.3 * unexplained)


def test_held_out_entries_were_seen_and_are_like_the_holes() -> None:
    random = np.random.default_rng(0)
    seen = np.ones((400, 20), bool)
    seen[::2, 5:9] = False  # a stretch that half of the samples miss
    hidden = held_out(seen, random)
    assert not np.any(hidden & ~seen)
    assert hidden.sum() >= 0.09 * seen.sum()
    assert np.mean(hidden[:, 5:9]) > 5 * np.mean(hidden[:, 9:])


def test_the_law_of_errors_is_found() -> None:
    errors = 2 * student.rvs(4.0, size=20_000, random_state=0)
    freedom, scale = law_of(errors)
    assert freedom in (3.0, 4.0, 5.0)
    assert scale == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("table", "options", "sentence"),
    [
        (np.ones((3, 3)), {}, "Y must have at least 2 rows, 2 columns and 300 entries"),
        (np.where((np.arange(40) == 3) & (np.arange(40)[:, None] > 0), np.nan, np.ones((40, 40))), {}, "column 4 has 1"),
        (np.ones((2, 40, 40)), {}, "Y must be one table"),
        (np.ones((40, 40)), {"max_components": 0}, "max_components must be a whole number of at least 1"),
        (np.ones((40, 40)), {"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_tables_are_refused(table: np.ndarray, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(sp.InputError, match=sentence):
        sp.complete(table, **options)


@pytest.mark.claims
def test_levels_beyond_what_was_held_out_are_refused() -> None:
    with pytest.raises(sp.InputError, match="level must be a number in"):
        completed().interval(0.9999)
    with pytest.raises(sp.InputError, match="values must have the shape"):
        completed().log_density(np.zeros((2, 2)))


@pytest.mark.parametrize("shape", [(2, 150), (2, 400)])
def test_too_few_rows_to_hold_any_entry_out_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(sp.InputError, match="Y must have"):
        sp.complete(np.random.default_rng(0).normal(size=shape))
