"""scikit-learn's own checks: shapes, types, clones, invariances, bad input. With message passing every shape is compiled anew, which takes
minutes: that is left to `make test-slow`, and every run checks the estimators without it."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

import spinodal as sp

ESTIMATORS = (sp.DictionaryLearner(n_components=1), sp.BlindCalibration())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("iterations", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_scikit_learn_finds_nothing_wrong(estimator: Any, iterations: int) -> None:
    check_estimator(estimator.set_params(max_iter=iterations))
