"""scikit-learn's own checks: shapes, types, clones, invariances, bad input.

With message passing every shape is compiled anew, which takes minutes: every run makes all checks without it, the runs of statistical
claims one with it, and `make test-slow` all with it.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator, check_fit2d_1feature

import spinodal as sp

ESTIMATORS = (sp.DictionaryLearner(n_components=1), sp.BlindCalibration())
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.claims
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("iterations", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_scikit_learn_finds_nothing_wrong(estimator: Any, iterations: int) -> None:
    check_estimator(estimator.set_params(max_iter=iterations, refine_iter=2 if iterations == 0 else 30))


@pytest.mark.claims
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learn_finds_nothing_wrong_with_one_feature_and_message_passing(estimator: Any) -> None:
    check_fit2d_1feature(type(estimator).__name__, estimator.set_params(max_iter=20, refine_iter=2))
