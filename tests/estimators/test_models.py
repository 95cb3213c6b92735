"""What a user does with the estimators: fit in any units, score, search, save, be told what is wrong."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from fits import ATOMS, FEATURES, UNIT, drawn, learned
from sklearn.datasets import make_sparse_coded_signal
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import spinodal as sp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_components_and_parameters_are_found_in_the_units_of_the_data() -> None:
    model, truth = learned(), drawn()
    found = sp.score(sp.Pair(model.components_.T, model.transform(truth.data).T), sp.Pair(truth.components.T, truth.codes.T))
    assert found.atoms_recovered == 1
    assert model.noise_variance_ == pytest.approx(truth.noise, rel=0.1)
    assert model.density_ == pytest.approx(0.25, abs=0.04)
    assert model.slab_variance_ == pytest.approx(UNIT**2, rel=0.3)
    assert model.converged_
    assert len(model.history_["residual"]) == model.n_iter_
    error = model.inverse_transform(model.transform(truth.data)) - truth.data
    assert np.mean(error**2) < 1.1 * truth.noise


def test_units_do_not_matter() -> None:
    model, data = learned(), drawn().data
    small = sp.DictionaryLearner(ATOMS, random_state=0).fit(data * 1e-9)
    signs = np.sign(np.sum(small.components_ * model.components_, axis=1, keepdims=True))  # that of an atom and its codes is free
    np.testing.assert_allclose(signs * small.components_, model.components_, atol=1e-5)
    assert small.score(data * 1e-9) == pytest.approx(model.score(data) + FEATURES * np.log(1e9), abs=1e-3)


def test_uncertainties_are_of_the_size_of_the_errors() -> None:
    model, truth = learned(), drawn()
    match = np.argmax(np.abs(truth.components @ model.components_.T), axis=1)
    sign = np.sign(np.sum(truth.components * model.components_[match], axis=1))
    scale = np.sum(truth.components * model.components_[match], axis=1) / np.sum(model.components_[match] ** 2, axis=1)
    error = np.mean((model.components_[match] * scale[:, None] - truth.components) ** 2)
    assert set(match) == set(range(ATOMS))
    assert np.all(sign != 0)
    assert 0.4 < error / np.mean(model.components_var_) < 2.5
    std, support = model.transform_std(truth.data), model.transform_support(truth.data)
    assert np.all(std >= 0)
    assert np.all((support >= 0) & (support <= 1))
    assert np.mean((support[:, match] > 0.5) == (truth.codes != 0)) > 0.9


def best_number(model: Any, numbers: list[int], data: np.ndarray) -> int:
    """The number of components of the highest evidence of held-out samples."""
    split = ShuffleSplit(1, test_size=0.3, random_state=0)
    search = GridSearchCV(model, {"n_components": numbers}, cv=split, refit=False).fit(data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    return search.best_params_["n_components"]


@pytest.mark.claims
def test_held_out_evidence_is_highest_at_the_true_number_of_components() -> None:
    model = sp.DictionaryLearner(max_iter=0, n_init=3, fast=True, random_state=0)
    assert best_number(model, [ATOMS - 3, ATOMS, ATOMS + 4], drawn().data) == ATOMS


@pytest.mark.slow
def test_held_out_evidence_is_highest_at_the_true_number_of_components_with_message_passing() -> None:
    assert best_number(sp.DictionaryLearner(random_state=0, max_iter=600), [ATOMS - 3, ATOMS, ATOMS + 4], drawn().data) == ATOMS


@pytest.mark.parametrize("max_iter", [0, pytest.param(2000, marks=pytest.mark.claims)])
def test_pipeline_missing_entries_and_single_precision(max_iter: int) -> None:
    data = drawn().data.astype(np.float32)
    missing = np.random.default_rng(0).random(data.shape) < 0.1
    missing[:, 3] = missing[7] = True
    pipeline = make_pipeline(
        FunctionTransformer(), sp.DictionaryLearner(ATOMS, max_iter=max_iter, n_init=2 if max_iter == 0 else 1, random_state=0)
    )
    holes = np.where(missing, np.float32(np.nan), data)
    codes = pipeline.fit(holes).transform(holes)
    model = pipeline[-1]
    assert codes.dtype == model.components_.dtype == np.float32
    assert list(model.get_feature_names_out())[:2] == ["dictionarylearner0", "dictionarylearner1"]
    # A feature without a single entry keeps its prior, a sample without one gets the prior's codes, and the other holes are filled well.
    np.testing.assert_allclose(model.components_[:, 3], 0, atol=1e-12)
    np.testing.assert_allclose(codes[7], 0, atol=1e-12)
    assert np.all(np.isfinite(codes))
    missing[:, 3] = missing[7] = False
    error = model.inverse_transform(codes) - data
    assert np.mean(error[missing] ** 2) < 0.25 * np.mean(data[missing] ** 2)


def test_blind_calibration_improves_the_nominal_components_in_their_order() -> None:
    truth = drawn(eta=0.1)
    model = sp.BlindCalibration(5 * truth.nominal, 0.1, random_state=0).fit(truth.data)
    cosine = np.sum(model.components_ * truth.components, axis=1) / np.linalg.norm(model.components_, axis=1)
    cosine /= np.linalg.norm(truth.components, axis=1)
    assert np.all(cosine > 0.98)
    assert np.sqrt(np.mean(model.components_**2)) == pytest.approx(5 * np.sqrt(np.mean(truth.nominal**2)), rel=0.2)


def test_a_warm_start_goes_on_from_the_last_fit() -> None:
    data = drawn().data
    model = copy.deepcopy(learned()).set_params(warm_start=True)
    before = model.components_
    assert (model.status_, model.solver_status_) == ("converged", "unconfirmed")  # n_init = 1: no other run to compare it with
    assert np.isnan(model.reproducibility_).all()
    model.fit(data)
    assert len(model.history_["residual"]) == 0  # no message passing
    assert model.n_iter_ == len(model.history_["evidence"]) <= 3
    np.testing.assert_allclose(model.components_, before, atol=0.02)


def test_work_that_would_take_hours_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="refine_iter=0 leaves them out"):
        sp.DictionaryLearner(4, refine_iter=10**12).fit(np.zeros((10, 4)))


@pytest.mark.claims
def test_fit_without_message_passing_restores_what_was_missing() -> None:
    truth = drawn()
    model = sp.DictionaryLearner(ATOMS, fast=True, max_iter=0, refine_iter=60, n_init=3, random_state=0).fit(truth.data)
    assert model.n_iter_ == len(model.history_["evidence"]) > 1
    assert model.history_["residual"].size == 0
    values, doubt = model.restore(truth.held_out)
    error = np.mean((values - truth.clean) ** 2)
    assert error < 0.6 * truth.noise
    assert np.mean(doubt**2) == pytest.approx(error, rel=0.5)
    missing = np.random.default_rng(4).random(truth.held_out.shape) < 0.2
    filled, _ = model.restore(np.where(missing, np.nan, truth.held_out))
    assert np.mean((filled - truth.clean)[missing] ** 2) < 0.15 * np.mean(truth.clean[missing] ** 2)


def test_callback_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[Any] = []
    model = sp.DictionaryLearner(ATOMS, random_state=0, verbose=True, callback=lambda *call: calls.append(call))
    model.fit(drawn().data)
    assert calls[-1][0] == model.n_iter_
    assert "iteration" in capsys.readouterr().out
    np.testing.assert_allclose(model.components_, learned().components_, atol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (sp.DictionaryLearner(0), "n_components"),
        (sp.DictionaryLearner(2.5), "n_components"),
        (sp.DictionaryLearner(2, density=1.0), "density"),
        (sp.DictionaryLearner(2, density="many"), "density"),
        (sp.DictionaryLearner(2, noise_variance=-1), "noise_variance"),
        (sp.DictionaryLearner(2, slab_variance=0), "slab_variance"),
        (sp.DictionaryLearner(2, max_iter=-1), "max_iter"),
        (sp.DictionaryLearner(2, refine_iter=-1), "refine_iter"),
        (sp.DictionaryLearner(2, center="yes"), "center"),
        (sp.DictionaryLearner(2, own_density="yes"), "own_density"),
        (sp.BlindCalibration(np.ones((2, 4)), 0.0), "eta"),
        (sp.BlindCalibration(np.ones((2, 4)), -1), "eta"),
        (sp.BlindCalibration(np.ones((4, 3)), 0.1), "matrix"),
        (sp.BlindCalibration(np.zeros((2, 4)), 0.1), "matrix"),
        (sp.BlindCalibration("matrix", 0.1), "matrix"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(estimator: Any, names: str) -> None:
    with pytest.raises(sp.InputError, match=f"^{names} must") as refused:
        estimator.fit(np.ones((10, 4)))
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("slab_mean", [1.5, "auto"])
def test_centred_data_and_a_prior_with_a_mean_do_not_go_together(slab_mean: float | str) -> None:
    """The sentence is that of `solve`."""
    positive = sp.Model(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.1, mean=1.5)), channel=sp.GaussianNoise(0.1))
    said = []
    for refused in (
        lambda: sp.solve(np.eye(4), positive, n_atoms=2, center=True),
        lambda: sp.DictionaryLearner(2, slab_mean=slab_mean, center=True).fit(np.ones((10, 4))),
        lambda: sp.BlindCalibration(np.ones((2, 4)), slab_mean=slab_mean, center=True).fit(np.ones((10, 4))),
    ):
        with pytest.raises(sp.InputError, match=r"^center must be left out where the prior of X has a mean") as error:
            refused()
        said.append(str(error.value))
    assert len(set(said)) == 1


def test_zeros_teach_nothing_and_too_few_samples_are_warned_of() -> None:
    model = sp.DictionaryLearner(3, center=True).fit(np.full((10, 4), 2.5))
    assert not model.converged_
    np.testing.assert_array_equal(model.components_, 0)
    np.testing.assert_allclose(model.inverse_transform(model.transform(np.full((2, 4), 2.5))), 2.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sp.DictionaryLearner(6).fit(np.zeros((3, 4)))
    assert any("3 samples for 6 components" in str(each.message) for each in caught)


def test_scikit_learn_is_not_imported_unasked() -> None:
    code = "import sys, spinodal; spinodal.Problem; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.claims
@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_data_with_hardly_any_noise_keep_what_message_passing_found(noise: float) -> None:
    """scikit-learn's own sparse signals: rounds and codes with so little noise came apart."""
    for seed in range(2):
        X, dictionary, codes = make_sparse_coded_signal(n_samples=300, n_components=20, n_features=16, n_nonzero_coefs=3, random_state=seed)
        X = X + np.sqrt(noise) * np.random.default_rng(seed).normal(size=X.shape)
        model = sp.DictionaryLearner(20, random_state=0).fit(X)
        cosines = np.abs(model.components_ @ dictionary.T)
        assert model.status_ == "converged"
        assert cosines.max(axis=0).min() > 1 - 1e-5
        found = np.abs(model.transform(X))[:, cosines.argmax(axis=0)]
        assert np.mean((found - np.abs(codes)) ** 2) < 1e-4 * np.mean(codes**2)
