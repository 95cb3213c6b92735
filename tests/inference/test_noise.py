"""The noise variance that entries held out choose."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import spinodal as sp
from spinodal.inference.execution.batch import Plan
from spinodal.inference.execution.machine import OneDevice
from spinodal.inference.execution.runs import Runs
from spinodal.inference.search.noise import Chosen, Held, Trial, is_noisy, joint, predicted, reconciled


def held(log_density: float = 0.0, noise_variance: float = 1.0, unknown: float = 0.1, power: float = 5.0) -> Held:
    return Held(log_density, 1000, noise_variance, unknown, power)


@pytest.mark.parametrize("truth", [0.3, 0.8, 1.0, 1.7, 3.0])
def test_the_top_is_found_from_either_side_with_its_error(truth: float) -> None:
    """Log densities -b (log variance - log truth)^2, as of n entries: the top is at the truth, to 1/sqrt(2 n b)."""
    trial, bend, asked = Trial(held()), 0.5, 0
    while wanted := trial.next():
        trial.add(wanted, [held(-bend * np.log(variance / truth) ** 2) for variance in wanted])
        asked += len(wanted)
    assert asked <= 10
    assert trial.chosen.variance == pytest.approx(truth, rel=1e-6)
    error = np.exp(2 / np.sqrt(2 * 1000 * bend))
    assert (trial.chosen.low, trial.chosen.high) == pytest.approx((truth / error, truth * error))
    assert trial.chosen.first == 1.0  # what was learned before


def test_where_all_predict_alike_nothing_is_known() -> None:
    trial = Trial(held())
    while wanted := trial.next():
        trial.add(wanted, [held(-1e-12 * np.log(variance / 1.1) ** 2) for variance in wanted])
    assert 0 < trial.chosen.low < 1e-3
    assert 1e3 < trial.chosen.high < np.inf


def test_no_noise_above_the_power_is_tried() -> None:
    trial = Trial(held(power=1.5))
    while wanted := trial.next():
        assert max(wanted) < 1.5
        trial.add(wanted, [held(variance) for variance in wanted])  # the more the better
    assert trial.chosen.variance < 1.5


@pytest.mark.parametrize("truth", [0.8, 1.0, 1.3])
def test_what_is_nearly_known_is_looked_for_nearby(truth: float) -> None:
    """By more entries, in sets, so that its error is smaller."""
    trial, asked = Trial(held(), fine=True), []
    while wanted := trial.next():
        trial.add(wanted, [held(-0.5 * np.log(variance / truth) ** 2) for variance in wanted])
        asked += wanted
    assert trial.folds == 3  # of 1000 entries each
    assert len(asked) <= 6
    assert 0.6 < min(asked) < max(asked) < 1.6
    assert trial.chosen.variance == pytest.approx(truth, rel=1e-6)
    assert trial.chosen.high / truth == pytest.approx(np.exp(2 / np.sqrt(2 * 3000 * 0.5)))
    assert Trial(held()._replace(number=20_000), fine=True).folds == 1


def test_sets_of_entries_count_as_one() -> None:
    few, many = held(-1.0), held(-2.0)._replace(number=3000)
    both = joint([few, many])
    assert both is not None
    assert (both.log_density, both.number) == (-1.75, 4000)
    assert joint([few]) == few
    assert joint([few, None]) is None


@pytest.mark.parametrize("more", [0.5, 1.0, 4.0])
def test_a_prediction_is_the_density_of_what_was_held_out(more: float) -> None:
    """Of errors as large as the run says, or larger, whose unknown part is then by a factor more; never less."""
    rng = np.random.default_rng(0)
    F, X, s, c = (rng.random(shape) for shape in ((5, 3), (3, 8), (5, 3), (3, 8)))
    unknown, mean, out = (F**2 @ c + s @ (X**2 + c)) / 3, F @ X / np.sqrt(3), rng.random((5, 8)) < 0.4
    Y = mean + np.sqrt(more * unknown + 0.3) * rng.choice([-1, 1], (5, 8))
    found = predicted(F, X, (s, c), 0.3, Y, out)
    expected = norm.logpdf(Y, mean, np.sqrt(max(more, 1) * unknown + 0.3))[out].mean()
    assert found.log_density == pytest.approx(expected, abs=1e-3)
    assert (found.number, found.noise_variance) == (out.sum(), 0.3)
    assert found.factor == pytest.approx(max(more, 1), rel=0.1)


def test_only_much_noise_is_looked_for() -> None:
    assert is_noisy(held(noise_variance=0.3, power=1.0))
    assert is_noisy(held(noise_variance=0.01, unknown=0.4, power=1.0))
    assert not is_noisy(held(noise_variance=0.01, unknown=0.01, power=1.0))
    assert not is_noisy(None)


def test_what_all_entries_say_counts_where_it_is_near() -> None:
    """Elsewhere it took noise for signal, or went astray. What held-out entries say stands alone if runs predict them as well as they say;
    otherwise what the first runs learned, a quarter of it here, is in the range."""
    chosen = Chosen(1.0, 0.9, 1.1, first=0.25)
    both = reconciled(chosen, 0.8)
    assert both.variance == pytest.approx(0.8**0.5)
    assert (both.low, both.high) == (0.8, 1.1)
    assert reconciled(chosen, 1.0).variance == 1.0
    for astray in (0.3, 2.0, np.nan):
        assert reconciled(chosen, astray) == chosen
        unsure = chosen._replace(factor=1.5)
        assert reconciled(unsure, astray) == unsure._replace(low=0.25)


@pytest.mark.claims
def test_five_decibels_are_recognised() -> None:
    """Learned on the way, the density ends up to three times too high here, and the noise at a fifth."""
    problem = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.15, noise_variance=0.15 / 10**0.5)
    found = [sp.solve(sp.sample(problem, 40, seed=seed).observed.Y, n_atoms=40, seed=seed).model for seed in (30_000, 30_003, 30_004)]
    assert np.mean([model.noise_variance / problem.noise_variance for model in found]) == pytest.approx(1.0, abs=0.1)
    assert np.mean([model.prior.X.rho / 0.15 for model in found]) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("shape", [(2, 1000), (3, 3000), (30, 600)])
def test_entries_held_out_leave_some_in_every_row_and_column(shape: tuple[int, int]) -> None:
    """A column that has none left would be 0/0 in every run."""
    rng = np.random.default_rng(0)
    mask = None if shape[0] < 30 else rng.random(shape) < 0.1
    if mask is not None:
        mask[rng.integers(shape[0], size=shape[1]), np.arange(shape[1])] = True
    observed = sp.Observed(rng.normal(size=(1, *shape)), None, None if mask is None else mask[None])
    made = Runs(Plan(sp.AMP(), 4, "float64", sp.Pair(False, False)), observed, [sp.Model()], [0], None, OneDevice(), None)
    whole = np.ones(shape, bool) if mask is None else mask
    sets = [made._held(0, fold) for fold in range(4)]
    assert all(each.any() and np.all(whole >= each) for each in sets)
    assert all((whole & ~each).any(axis=axis).all() for each in sets for axis in (0, 1))
    assert np.max(np.sum(sets, axis=0)) == 1  # no two share an entry


@pytest.mark.claims
def test_other_channels_hold_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They learn their noise from the likelihood of all that they see."""
    monkeypatch.setattr(Runs, "_held", None)
    problem = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.2).replace(channel=sp.Clipped(-1.0, 1.0, 0.01))
    Y = sp.sample(problem, 10, seed=0).observed.Y
    assert "noise_variance" in sp.solve(Y, n_atoms=10, channel="clipped", max_iterations=20).learned
