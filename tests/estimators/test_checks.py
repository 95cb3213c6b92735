"""scikit-learn's own checks: shapes, types, clones, invariances, bad input. Few iterations, since every shape is compiled anew. The two
estimators share nearly all of their code, so one is checked in every run and the other by `make test-slow`."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

import spinodal as sp


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [sp.DictionaryLearner(n_components=1, max_iter=20), pytest.param(sp.BlindCalibration(max_iter=20), marks=pytest.mark.slow)],
)
def test_scikit_learn_finds_nothing_wrong(estimator: Any) -> None:
    check_estimator(estimator)
