"""pandas in, pandas out: names and index are kept by everything that has a row for each sample, and numbers are those of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import spinodal as sp

pytestmark = pytest.mark.filterwarnings("ignore:Not settled", "ignore:X does not have valid feature names")

PROBLEM = sp.Problem.sparse(alpha=2.0, pi=10.0, rho=0.3, eta=0.1, noise_variance=1e-2)
INSTANCE = sp.sample(PROBLEM, 4, seed=1)
DATA = pd.DataFrame(INSTANCE.observed.Y.T, columns=[f"sensor {k}" for k in range(8)], index=pd.date_range("2026-01-01", periods=40))


@pytest.fixture(params=[sp.DictionaryLearner, sp.BlindCalibration], scope="module")
def model(request: Any) -> Any:
    first = 4 if request.param is sp.DictionaryLearner else INSTANCE.observed.F_prime.T
    return request.param(first, max_iter=0, refine_iter=2, **({"random_state": 0})).fit(DATA)


def test_frames_keep_names_index_and_numbers(model: Any) -> None:
    plain = {name: getattr(model, name)(DATA) for name in ("transform_std", "transform_support", "transform_interval", "restore")}
    assert all(isinstance(each, np.ndarray) for value in plain.values() for each in (value if isinstance(value, tuple) else [value]))
    with config_context(transform_output="pandas"):
        codes = model.transform(DATA)
        framed = {name: getattr(model, name)(DATA) for name in plain}
        again = model.inverse_transform(codes)
    for name, value in framed.items():
        wanted = list(DATA.columns) if name == "restore" else list(model.get_feature_names_out())
        together = zip(value, plain[name], strict=True) if isinstance(value, tuple) else [(value, plain[name])]
        for frame, array in together:
            assert frame.columns.tolist() == wanted, name
            assert frame.index.equals(DATA.index), name
            np.testing.assert_array_equal(frame.to_numpy(), array)
    assert again.columns.tolist() == DATA.columns.tolist()
    assert again.index.equals(DATA.index)
    np.testing.assert_allclose(again.to_numpy(), codes.to_numpy() @ model.components_ + model.mean_)


def test_the_choice_of_a_model_wins_over_that_of_all(model: Any) -> None:
    model.set_output(transform="pandas")
    try:
        assert isinstance(model.transform_std(DATA), pd.DataFrame)
        assert isinstance(model.transform_std(DATA.to_numpy()), pd.DataFrame)
    finally:
        model.set_output(transform="default")
    assert isinstance(model.transform_std(DATA), np.ndarray)


def test_components_have_the_names_of_the_features(model: Any) -> None:
    frame = model.components_frame()
    assert frame.columns.tolist() == DATA.columns.tolist()
    assert frame.index.tolist() == list(model.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), model.components_)
    unnamed = type(model)(*([4] if isinstance(model, sp.DictionaryLearner) else [INSTANCE.observed.F_prime.T]), max_iter=0, refine_iter=1)
    assert unnamed.fit(DATA.to_numpy()).components_frame().columns.tolist() == [f"x{k}" for k in range(8)]


def test_components_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        sp.DictionaryLearner().components_frame()
