"""Records: one row for a run, the same for a batch as for each of its instances, with one criterion for each question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation import record as module
from spinodal.evaluation.record import Record, against_truth, draw_solve_score, record
from spinodal.evaluation.scoring import DICTIONARY_LEARNED, SIGNAL_RECOVERED
from spinodal.inference.solution import Status
from spinodal.theory import outcomes

RNG = np.random.default_rng(3)
M, N, P = 12, 8, 40
F, X = RNG.normal(size=(3, M, N)), RNG.normal(size=(3, N, P)) * (RNG.random((3, N, P)) < 0.3)
PROBLEM = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=0.3, eta=0.1, noise_variance=1e-4)


def solution(F: np.ndarray, X: np.ndarray) -> Any:
    """What `solve` returns, as far as a record looks at it."""
    batch = F.shape[:-2]
    status: Any = Status.CONVERGED
    model: Any = sp.Model.sparse(rho=0.3, eta=0.1, noise_variance=1e-4)
    if batch:
        status = np.array([Status.CONVERGED, Status.DIVERGED, Status.CONVERGED], dtype=object)
        model = [sp.Model.sparse(rho=density, eta=0.1, noise_variance=1e-4) for density in (0.1, 0.2, 0.3)]
    numbers = {name: np.arange(np.prod(batch, dtype=int)).reshape(batch) for name in ("iterations", "residual", "free_entropy")}
    return SimpleNamespace(mean=sp.Pair(F, X), status=status, model=model, problem=PROBLEM, **numbers)


def test_a_batch_is_recorded_like_each_of_its_instances() -> None:
    found = sp.Pair(F + 0.01 * RNG.normal(size=F.shape), X + 0.02 * RNG.normal(size=X.shape))
    together = record(solution(*found), sp.Pair(F, X), predicted=1.3e-4).flat()
    for k in range(3):
        alone = record(solution(found.F[k], found.X[k]), sp.Pair(F[k], X[k]), predicted=1.3e-4).flat()
        for name in set(alone) - {"status", "converged", "iterations", "residual", "free_entropy", "rho_used"}:
            np.testing.assert_allclose(together[name][k], alone[name], rtol=1e-12, err_msg=name)
    assert list(together["status"]) == ["converged", "diverged", "converged"]
    assert list(together["converged"]) == [True, False, True]
    assert list(together["iterations"]) == [0, 1, 2]
    assert list(together["rho_used"]) == [0.1, 0.2, 0.3]
    assert 0 < together["signals_at_prediction"][0] < 1


def wrong_signals(count: int, error: float) -> Record:
    """The truth but for so many signals, whose error is this share of the signals' power."""
    off = np.where(np.arange(P) < count, np.sqrt(error * np.mean(X[0] ** 2)), 0.0)
    return record(solution(F[0], X[0] + off), sp.Pair(F[0], X[0]))


def test_a_signal_is_recovered_below_its_threshold_and_most_of_them_are_a_success() -> None:
    for count in (P // 2 - 1, P // 2 + 1):
        assert wrong_signals(count, 0.99 * SIGNAL_RECOVERED).signals_recovered == 1
        found = wrong_signals(count, 1.01 * SIGNAL_RECOVERED)
        assert found.signals_recovered == pytest.approx(1 - count / P)
        assert bool(found.success) == (count < P / 2)


def test_a_dictionary_is_learned_if_every_atom_is() -> None:
    """One atom is turned, its row of X is the true one."""
    across = RNG.normal(size=M)
    atom = F[0][:, 0]
    across -= atom * (across @ atom) / (atom @ atom)
    across *= np.linalg.norm(atom) / np.linalg.norm(across)
    for sine_squared, learned in ((0.99 * DICTIONARY_LEARNED, True), (1.01 * DICTIONARY_LEARNED, False)):
        turned = F[0].copy()
        turned[:, 0] = np.sqrt(1 - sine_squared) * atom + np.sqrt(sine_squared) * across
        found = record(solution(turned, X[0]), sp.Pair(F[0], X[0]))
        assert bool(found.learned) is learned
        assert found.atoms_learned == (1 if learned else (N - 1) / N)
        assert found.score.atoms_recovered == 1
        assert found.angle == pytest.approx(sine_squared / N)


def test_only_what_is_observed_reaches_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def solve(observed: sp.Observed, problem: sp.Problem, solver: Any, **options: Any) -> Any:
        given.update(observed=observed, problem=problem, solver=solver, **options)
        return solution(np.zeros((M, N)), np.zeros((N, P)))

    monkeypatch.setattr(module, "solve", solve)
    believed = PROBLEM.replace(eta=0.2)
    row = draw_solve_score(PROBLEM, N, seed=5, believed=believed, max_iterations=7)
    drawn = sp.sample(PROBLEM, N, seed=5)
    np.testing.assert_array_equal(given["observed"].Y, drawn.observed.Y)
    assert given["observed"].mask is None
    assert (given["problem"], given["n_atoms"], given["seed"], given["max_iterations"]) == (believed, N, 5, 7)
    assert row.score.mse.X == pytest.approx(np.mean(drawn.truth.X**2))


def test_errors_against_the_truth_come_with_predictions() -> None:
    truth = sp.Pair(F[0], X[0])
    row = against_truth(solution(-F[0], -X[0]), truth, outcomes([PROBLEM])[0])
    assert row["mse_F"] == pytest.approx(np.mean((2 * F[0]) ** 2))
    assert row["mse_F_scaled"] == row["mse_X_aligned"] == 0
    assert row["atoms_recovered"] == 1
    assert row["predicted"]["scale_floor"] == sp.scale_floor(PROBLEM, N)
    assert row["predicted"]["mse_X"] == sp.amp_mse(PROBLEM).mse.X
