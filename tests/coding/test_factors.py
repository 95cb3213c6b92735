"""Factors with missing entries: samples as normal and Student laws say, by another route."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

from spinodal.inference.coding import factors
from spinodal.inference.coding.factors import NO_TAILS, Factors, in_blocks, learn_factors, predictions

FEATURES, RANK, SAMPLES = 7, 2, 5


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def one_class(freedom: float) -> tuple[Factors, np.ndarray, np.ndarray]:
    """Factors without uncertainty, samples and what of them was seen."""
    random = np.random.default_rng(0)
    loadings = random.normal(size=(1, FEATURES, RANK + 1))
    noise = random.uniform(0.1, 1.0, size=(1, FEATURES))
    spread = np.zeros((1, FEATURES, RANK + 1, RANK + 1))
    known = Factors(*(jnp.asarray(each) for each in (np.zeros(1), loadings, spread, noise, np.ones(1), np.full(1, freedom))))
    return known, random.normal(size=(SAMPLES, FEATURES)), random.random((SAMPLES, FEATURES)) < 0.6


def covariance(known: Factors) -> tuple[np.ndarray, np.ndarray]:
    L = np.asarray(known.loadings[0])
    return L[:, -1], L[:, :-1] @ L[:, :-1].T + np.diag(np.asarray(known.noise[0]))


@pytest.mark.parametrize("freedom", [3.0, NO_TAILS])
def test_the_evidence_is_the_density_of_what_was_seen(freedom: float) -> None:
    known, values, seen = one_class(freedom)
    mean, whole = covariance(known)
    found = factors._posterior(known, jnp.asarray(np.where(seen, values, 0)), jnp.asarray(seen, dtype=float)).evidence[0]
    for i in range(SAMPLES):
        at = seen[i]
        law = multivariate_normal if freedom == NO_TAILS else multivariate_t
        more = {} if freedom == NO_TAILS else {"df": freedom}
        assert found[i] == pytest.approx(law.logpdf(values[i, at], mean[at], whole[np.ix_(at, at)], **more), rel=1e-9)


@pytest.mark.parametrize("freedom", [3.0, NO_TAILS])
def test_missing_entries_are_those_of_the_conditional_law(freedom: float) -> None:
    known, values, seen = one_class(freedom)
    mean, whole = covariance(known)
    found, variance = predictions(known, in_blocks(values, seen, 1, RANK), SAMPLES)
    for i in range(SAMPLES):
        at, hole = seen[i], ~seen[i]
        gain = whole[np.ix_(hole, at)] @ np.linalg.inv(whole[np.ix_(at, at)])
        away = values[i, at] - mean[at]
        power = away @ np.linalg.solve(whole[np.ix_(at, at)], away)
        wider = 1.0 if freedom == NO_TAILS else (freedom + power) / (freedom + at.sum())
        left = np.diag(whole[np.ix_(hole, hole)] - gain @ whole[np.ix_(at, hole)])
        np.testing.assert_allclose(found[i, hole], mean[hole] + gain @ away, rtol=1e-9)
        np.testing.assert_allclose(variance[i, hole], left * wider, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 6, 25])
def test_inverses_and_determinants(size: int) -> None:
    half = np.random.default_rng(0).normal(size=(3, size, 2 * size))
    matrices = half @ half.transpose(0, 2, 1)
    inverse, logs = factors._inverse(jnp.asarray(matrices))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrices), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(logs, np.linalg.slogdet(matrices)[1], rtol=1e-9)


def test_blocks_do_not_change_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    _, values, seen = one_class(NO_TAILS)
    values, seen = np.tile(values, (20, 1)), np.tile(seen, (20, 1))
    start = factors.first_factors(values, seen, 2, RANK, 5.0, np.random.default_rng(0))
    whole = in_blocks(values, seen, 2, RANK)
    monkeypatch.setattr(factors, "_BLOCK_NUMBERS", 1)
    parts = in_blocks(values, seen, 2, RANK)
    assert len(whole.values) == 1
    assert len(parts.values) > 1
    once, again = learn_factors(start, whole, 2), learn_factors(start, parts, 2)
    np.testing.assert_allclose(once.noise, again.noise, rtol=1e-8)
    np.testing.assert_allclose(once.freedom, again.freedom, rtol=1e-6)


@pytest.mark.parametrize("freedom", [4.0, 30.0])
def test_degrees_of_freedom_are_those_of_highest_likelihood(freedom: float) -> None:
    draws = np.random.default_rng(0).gamma(freedom / 2, 2 / freedom, size=200_000)
    found = factors._freedom(jnp.asarray(8.0), jnp.asarray(np.mean(np.log(draws) - draws)))
    for _ in range(5):
        found = factors._freedom(found, jnp.asarray(np.mean(np.log(draws) - draws)))
    assert float(found) == pytest.approx(freedom, rel=0.03)
