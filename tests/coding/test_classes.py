"""Codes in blocks: classes learned from their own draws, and samples completed exactly."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from spinodal.inference.coding.classes import BATCH, Classes, complete, learn_classes, restored_samples, trimmed

FEATURES, COUNT, NOISE = 8, 3, 0.1


def drawn(random: np.random.Generator, samples: int, classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """Samples of the classes, without noise and with it."""
    which = random.integers(COUNT, size=samples)
    codes = random.normal(size=(samples, classes.variance.shape[1]))
    clean = np.asarray(classes.mean)[which] + np.einsum(
        "sd,spd->sp", codes * np.sqrt(np.asarray(classes.variance))[which], np.asarray(classes.atoms)[which]
    )
    return clean, clean + np.sqrt(NOISE) * random.normal(size=clean.shape)


@pytest.fixture(scope="module")
def true() -> Classes:
    """Three classes of two atoms each."""
    random = np.random.default_rng(0)
    atoms = np.linalg.qr(random.normal(size=(COUNT, FEATURES, FEATURES)))[0][:, :, :2]
    parts = np.full(COUNT, 1 / COUNT), random.normal(size=(COUNT, FEATURES)), atoms, np.tile([1.0, 9.0], (COUNT, 1))
    return Classes(*(jnp.asarray(part, dtype=jnp.float32) for part in parts))


def test_learned_classes_restore_as_well_as_the_true_ones(true: Classes) -> None:
    learned = learn_classes(lambda random: drawn(random, BATCH, true)[1], COUNT, NOISE)
    clean, noisy = drawn(np.random.default_rng(1), 3000, true)
    error, least = (np.mean((restored_samples(each, noisy, NOISE)[0] - clean) ** 2) for each in (learned, true))
    assert least < 0.5 * NOISE
    assert error < 1.05 * least
    assert trimmed(learned).atoms.shape[2] <= 4  # of eight: the two that there are, and what noise may add


def test_reported_variances_are_the_errors(true: Classes) -> None:
    clean, noisy = drawn(np.random.default_rng(1), 20_000, true)
    values, variance = restored_samples(true, noisy, NOISE)
    assert np.mean(variance) == pytest.approx(np.mean((values - clean) ** 2), rel=0.03)


@pytest.mark.parametrize("spare", [False, True])
def test_missing_entries_are_what_the_normal_distribution_says(true: Classes, spare: bool) -> None:
    """Against the textbook's conditional mean and variance, for one class."""
    one = Classes(*(part[:1] for part in true))
    random = np.random.default_rng(2)
    data, seen = random.normal(size=(5, FEATURES)).astype(np.float32), random.random((5, FEATURES)) < 0.6
    found = complete(
        one,
        jnp.asarray(data),
        jnp.asarray(data),
        jnp.asarray(seen),
        np.float32(1.0),
        np.float32(NOISE),
        most=int(seen.sum(axis=1).max()) + spare,
    )
    atoms, mean = np.asarray(one.atoms[0], dtype=float), np.asarray(one.mean[0], dtype=float)
    C = (atoms * np.asarray(one.variance[0], dtype=float)) @ atoms.T
    for row, there, got, left in zip(data, seen, found.mean, found.variance, strict=True):
        gain = C[:, there] @ np.linalg.inv(C[np.ix_(there, there)] + NOISE * np.eye(there.sum()))
        np.testing.assert_allclose(got, mean + gain @ (row - mean)[there], atol=1e-4)
        np.testing.assert_allclose(left, np.diag(C - gain @ C[there]), atol=1e-4)
    assert float(found.sums.count[0]) == 5
