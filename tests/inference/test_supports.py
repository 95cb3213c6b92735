"""The nonzeros of single signals: the evidence of a support, chains of supports, and what they bring."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import spinodal as sp
from spinodal.inference.execution import runs
from spinodal.inference.search import supports
from spinodal.model.priors import Moments

LAW = supports.Sparse(odds=-1.2, mean=0.3, variance=0.8)


def drawn(
    seed: int, M: int = 6, N: int = 9, count: int = 12, noise: float = 0.01, holes: float = 0.2
) -> tuple[supports.Signals, np.ndarray]:
    """Signals with missing entries, and their supports."""
    random = np.random.default_rng(seed)
    F = random.standard_normal((M, N)) / np.sqrt(N)
    on = random.random((count, N)) < 1 / (1 + np.exp(-LAW.odds))
    X = np.where(on, LAW.mean + np.sqrt(LAW.variance) * random.standard_normal(on.shape), 0)
    variance = random.uniform(0.005, 0.02, (count, M))
    Y = X @ F.T + np.sqrt(variance) * random.standard_normal((count, M))
    seen = random.random(Y.shape) > holes
    return supports.Signals(F, np.where(seen, Y, 0), np.where(seen, 1 / variance, 0), LAW), on


def evidence(signals: supports.Signals, k: int, on: np.ndarray) -> float:
    """That of one signal, from the density of a multivariate normal, up to what all supports share."""
    seen = signals.certain[k] > 0
    F = signals.matrix[seen][:, on]
    covariance = LAW.variance * F @ F.T + np.diag(1 / signals.certain[k, seen])
    density = multivariate_normal(LAW.mean * F.sum(axis=1), covariance).logpdf(signals.Y[k, seen])
    return float(density + LAW.odds * on.sum() + seen.sum() * np.log(2 * np.pi) / 2)


def test_the_evidence_is_the_density_of_the_data_given_the_support() -> None:
    signals, on = drawn(0)
    expected = [evidence(signals, k, each) for k, each in enumerate(on)]
    np.testing.assert_allclose(supports.started(signals, on).evidence, expected, rtol=1e-10)


def test_a_gain_is_what_the_evidence_gains() -> None:
    signals, on = drawn(1)
    chains = supports.started(signals, on)
    gains = supports.gains(chains, LAW)
    for i in range(on.shape[1]):
        other = on.copy()
        other[:, i] ^= True
        np.testing.assert_allclose(gains[:, i], supports.started(signals, other).evidence - chains.evidence, rtol=1e-7, atol=1e-8)


def test_chains_are_what_their_supports_make_them() -> None:
    signals, on = drawn(2)
    chains, random = supports.started(signals, on), np.random.default_rng(0)
    for _ in range(200):
        supports.change(chains, signals, random)
    anew = supports.started(signals, chains.on)
    for name in ("inverse", "a", "b", "evidence"):
        np.testing.assert_allclose(getattr(chains, name), getattr(anew, name), rtol=1e-5, atol=1e-5)


def test_given_a_support_values_are_those_of_least_squares_with_a_prior() -> None:
    signals, on = drawn(3)
    mean, variance = supports.given(signals, on)
    for k, each in enumerate(on):
        F = signals.matrix[:, each]
        covariance = np.linalg.inv(F.T @ (signals.certain[k][:, None] * F) + np.eye(each.sum()) / LAW.variance)
        expected = covariance @ (F.T @ (signals.certain[k] * signals.Y[k]) + LAW.mean / LAW.variance)
        np.testing.assert_allclose(mean[k, each], expected, rtol=1e-7)
        np.testing.assert_allclose(variance[k, each], np.diag(covariance), rtol=1e-7)
        assert not mean[k, ~each].any()


def test_the_likeliest_of_all_supports_is_found() -> None:
    """Of 512 supports, by trying them all. Most signals have a support that was met twice, and nine in ten of these are the likeliest."""
    every = np.array(list(itertools.product([False, True], repeat=9)))
    found = []
    for seed in range(4):
        signals, on = drawn(seed, count=30)
        best = [np.max(supports.started(signals.rows(np.full(len(every), k)), every).evidence) for k in range(30)]
        met, agreed = supports.searched(signals, np.zeros_like(on), np.random.default_rng(0))
        found += list(zip(agreed, met.evidence > np.array(best) - 1e-6, strict=True))
        assert np.all(met.evidence >= supports.started(signals, np.zeros_like(on)).evidence - 1e-9)
    agreed, likeliest = np.array(found).T
    assert np.mean(agreed) > 0.8
    assert np.mean(likeliest[agreed]) > 0.9


def test_the_same_seed_meets_the_same() -> None:
    signals, on = drawn(5)
    first, second = (supports.searched(signals, np.zeros_like(on), np.random.default_rng(7))[0] for _ in range(2))
    np.testing.assert_array_equal(first.on, second.on)


def test_what_the_model_does_not_make_is_not_plausible() -> None:
    """Signals of the model are; one with an outlier, or with nonzeros everywhere, is not."""
    signals, on = drawn(6, M=20, N=40, count=50, holes=0.0)
    assert np.mean(supports.plausible(signals, on)) > 0.95
    signals.Y[:, 0] += 50
    met, _ = supports.searched(signals.rows(np.arange(3)), on[:3], np.random.default_rng(0))
    assert not supports.plausible(signals.rows(np.arange(3)), met.on).any()
    assert not supports.plausible(signals, np.ones_like(on)).any()


def known(instance: sp.Instance) -> tuple[Moments, Moments]:
    """F and X as a run knows them that has solved all signals."""
    F, X = instance.truth
    return Moments(F, np.full_like(F, 1e-6)), Moments(X.copy(), np.where(X == 0, 1e-12, 1e-5))


def test_signals_that_lost_their_nonzeros_get_them_back_and_others_stay() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, noise_variance=1e-4)
    instance = sp.sample(problem, 40, seed=0)
    F, X = known(instance)
    X.mean[:, :3] = 0.0
    found = supports.signals_searched(F, X, instance.observed.Y, None, problem, (0,))
    assert found is not None
    np.testing.assert_array_equal(found.mean[:, 3:], X.mean[:, 3:])
    assert np.mean((found.mean[:, :3] - instance.truth.X[:, :3]) ** 2) < 0.02 * np.mean(instance.truth.X[:, :3] ** 2)


@pytest.mark.parametrize("case", ["solved", "another prior", "another channel", "too many", "too much work"])
def test_nothing_is_looked_for_in_vain(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supports, "searched", lambda *_: pytest.fail("searched"))
    problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, noise_variance=1e-4)
    instance = sp.sample(problem, 40, seed=0)
    F, X = known(instance)
    if case != "solved":
        X.mean[:, : 100 if case == "too many" else 3] = 0.0
    if case == "too much work":
        monkeypatch.setattr(supports, "_WORK", 1e3)
    if case == "another prior":
        problem = problem.replace(prior=sp.Pair(sp.Gaussian(), sp.Laplace(1.0)))
    if case == "another channel":
        problem = problem.replace(channel=sp.StudentNoise(scale=0.01))
    assert supports.signals_searched(F, X, instance.observed.Y, None, problem, (0,)) is None


def test_a_support_that_was_met_once_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, noise_variance=1e-4)
    instance = sp.sample(problem, 40, seed=0)
    F, X = known(instance)
    X.mean[:, :3] = 0.0
    search = supports.searched
    monkeypatch.setattr(supports, "searched", lambda *given: (search(*given)[0], np.array([True, False, True])))
    found = supports.signals_searched(F, X, instance.observed.Y, None, problem, (0,))
    assert found is not None
    assert np.sum(found.mean[:, :3].any(axis=0)) == 2


@pytest.mark.claims
def test_with_few_measurements_signals_are_solved_that_message_passing_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """N = 40, M = 20, 30 dB: in each of three instances less than two thirds of the error of X, and no more of that of F."""
    problem = sp.Problem.sparse(alpha=0.5, pi=15.0, rho=0.15, noise_variance=1.5e-4)
    errors = {}
    for way in ("with", "without"):
        if way == "without":
            monkeypatch.setattr(runs, "signals_searched", lambda *_: None)
        for seed in range(3):
            instance = sp.sample(problem, 40, seed=seed)
            solution = sp.solve(instance.observed, problem, n_atoms=40, seed=seed)
            assert solution.status == "converged"
            score = sp.score(solution.mean, instance.truth)
            errors[way, seed] = np.mean(score.signals), np.mean(score.angle)
    for seed in range(3):
        (signals, angle), (signals_before, angle_before) = errors["with", seed], errors["without", seed]
        assert signals < signals_before / 1.5
        assert angle < 1.02 * angle_before


@pytest.mark.claims
def test_a_solve_goes_on_exactly_after_signals_were_looked_at(tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def interrupts(stage: str, iteration: int, residual: float) -> None:
        stages.append(stage)
        if stages[-1] == "iterating" and "looking at single signals" in stages:
            raise Interrupted

    stages: list[str] = []
    problem = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.4, noise_variance=1e-10)
    instance = sp.sample(problem, 20, seed=0)
    kept = {"n_atoms": 20, "checkpoint": tmp_path / "state.npz", "every": 5}
    with pytest.raises(Interrupted):
        sp.solve(instance.observed, problem, progress=interrupts, **kept)
    whole, rest = sp.solve(instance.observed, problem, n_atoms=20), sp.solve(instance.observed, problem, **kept)
    for name in ("F", "X"):
        np.testing.assert_array_equal(getattr(rest.mean, name), getattr(whole.mean, name))
    assert rest.iterations == whole.iterations


@pytest.mark.claims
def test_instances_of_a_batch_have_signals_of_their_own() -> None:
    """Everything is learned, so that signals of data drawn again are looked at, too: more of them than there are seeds."""
    problem = sp.Problem.sparse(alpha=0.5, pi=15.0, rho=0.15, noise_variance=1.5e-3)
    instances = [sp.sample(problem, 40, seed=seed) for seed in (1, 2)]
    together = sp.solve(np.stack([each.observed.Y for each in instances]), n_atoms=40, seed=[3, 4])
    for k, instance in enumerate(instances):
        assert together[k].status == "converged"
        assert together[k].model.noise_variance == pytest.approx(problem.noise_variance, rel=0.15)
        assert np.mean(sp.score(together[k].mean, instance.truth).angle) < 3e-3
