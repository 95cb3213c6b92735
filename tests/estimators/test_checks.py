"""scikit-learn's own checks: shapes, types, clones, invariances, bad input. Few iterations, since every shape is compiled anew."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

import spinodal as sp


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [sp.DictionaryLearner(n_components=1, max_iter=20), sp.BlindCalibration(max_iter=20)])
def test_scikit_learn_finds_nothing_wrong(estimator: Any) -> None:
    check_estimator(estimator)
