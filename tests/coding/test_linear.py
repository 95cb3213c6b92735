"""Tables with holes: held-out entries, their variances, and factor analysis as the limit of dense codes."""

from __future__ import annotations

import numpy as np
import pytest

from spinodal.inference.coding import learn_linear, predict_entries, score_rows

ROWS, COLUMNS, ATOMS = 600, 24, 5


def table(sparse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table, the noise variance of each column, and the same table with holes."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(ROWS, ATOMS)) * (1.8 * (rng.random((ROWS, ATOMS)) < 0.3) if sparse else 1.0)
    noise = np.exp(rng.normal(size=COLUMNS))
    whole = 3 + codes @ rng.normal(size=(ATOMS, COLUMNS)) + rng.normal(size=(ROWS, COLUMNS)) * np.sqrt(noise)
    return whole, noise, np.where(rng.random(whole.shape) < 0.3, np.nan, whole)


@pytest.mark.parametrize("sparse", [False, True])
def test_held_out_entries_lie_in_their_intervals_and_columns_have_their_noise(sparse: bool) -> None:
    whole, noise, holes = table(sparse)
    model = learn_linear(holes, ATOMS, sparse=sparse)
    mean, variance = predict_entries(model, holes)
    out = np.isnan(holes)
    score = (whole - mean)[out] / np.sqrt(variance[out])
    assert model.refined.settled
    assert np.mean(np.abs(score) < 1.645) == pytest.approx(0.9, abs=0.02)  # 4,300 entries: three standard errors are .014
    assert np.mean(np.abs(score) < 0.6745) == pytest.approx(0.5, abs=0.03)
    assert np.mean((whole - mean)[out] ** 2) < 1.35 * noise.mean()
    ratio = np.log(model.coding.noise_variance * model.unit**2 / noise)
    assert np.median(np.abs(ratio)) < 0.15  # 420 entries of a column: the standard error is .07
    assert np.abs(ratio).max() < 0.7  # of the columns that are almost noiseless the rounds learn slowly


def test_sparse_codes_predict_sparse_data_better() -> None:
    whole, _, holes = table(sparse=True)
    out = np.isnan(holes)
    error = [np.mean((whole - predict_entries(learn_linear(holes, ATOMS, sparse=sparse), holes)[0])[out] ** 2) for sparse in (True, False)]
    assert error[0] < 0.98 * error[1]


def test_dense_codes_are_factor_analysis() -> None:
    """Without holes the two differ by the prior of the components alone."""
    from sklearn.decomposition import FactorAnalysis

    whole = table(sparse=False)[0]
    model = learn_linear(whole, ATOMS, sparse=False)
    assert score_rows(model, whole).mean() == pytest.approx(FactorAnalysis(ATOMS).fit(whole).score(whole), abs=0.1)


def test_units_do_not_matter() -> None:
    holes = table(sparse=False)[2]
    unit = np.geomspace(1e-3, 1e3, COLUMNS)
    mean = predict_entries(learn_linear(holes, ATOMS), holes)[0]
    np.testing.assert_allclose(predict_entries(learn_linear(holes * unit, ATOMS), holes * unit)[0] / unit, mean, rtol=1e-3, atol=1e-3)
