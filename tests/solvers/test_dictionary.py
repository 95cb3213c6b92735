"""Dictionaries from scratch (eta = inf): found at the predicted error, faults seen and mended without the truth, an honest status."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.messages.data import Data, make_data
from spinodal.inference.messages.state import State, data_power, first_state
from spinodal.inference.search.annealing import cooled, first_guess, heated, is_hot
from spinodal.inference.search.repair import checks, mend
from spinodal.theory import amp_mse

EASY = sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.1, noise_variance=1e-8)
N = 40


def exactly_sparse(n: int, nonzeros: int, seed: int, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Square dictionaries, P = ceil(5 N ln N) signals of exactly `nonzeros` nonzeros each, Delta = 1e-10: Y, F, X."""
    rng = np.random.default_rng(seed)
    P = int(np.ceil(5 * n * np.log(n)))
    F = rng.standard_normal((batch, n, n))
    X = rng.standard_normal((batch, n, P)) * (np.argsort(rng.random((batch, n, P)), axis=1) < nonzeros)
    return F @ X / np.sqrt(n) + 1e-5 * rng.standard_normal((batch, n, P)), F, X


def angles(F: Any, truth: Any) -> np.ndarray:
    """1 - cos^2 of each true atom and the one matched to it."""
    return sp.score(*(sp.Pair(atoms, np.zeros((atoms.shape[1], 1))) for atoms in (F, truth))).angle


@pytest.fixture(scope="module")
def learned() -> tuple[sp.Instance, sp.Solution]:
    instance = sp.sample(EASY, N, seed=20, batch=4)
    return instance, sp.solve(instance.observed, EASY, n_atoms=N)


def test_every_atom_is_found_at_the_predicted_error(learned: tuple[sp.Instance, sp.Solution]) -> None:
    instance, solution = learned
    found = np.array([angles(solution.mean.F[k], instance.truth.F[k]) for k in range(4)])
    assert found.max() < 1e-6
    assert np.mean(found) < 1.5 * amp_mse(EASY).mse.F
    assert list(solution.status) == ["converged"] * 4


def test_a_solution_to_start_from_saves_the_way(learned: tuple[sp.Instance, sp.Solution]) -> None:
    """The same data with other noise on top: no search, the same atoms."""
    instance, solution = learned
    noisier = instance.observed._replace(Y=instance.observed.Y + 1e-4 * np.random.default_rng(0).normal(size=instance.observed.Y.shape))
    again = sp.solve(noisier, EASY.replace(channel=sp.GaussianNoise(2e-8)), n_atoms=N, start=solution)
    assert list(again.status) == ["converged"] * 4
    assert np.all(again.iterations < 0.6 * solution.iterations)
    assert max(angles(again.mean.F[k], solution.mean.F[k]).max() for k in range(4)) < 1e-6
    with pytest.raises(sp.InputError, match="start must have F of shape"):
        sp.solve(noisier, EASY, n_atoms=N + 1, start=solution)
    with pytest.raises(sp.InputError, match="start must be a Solution"):
        sp.solve(noisier, EASY, n_atoms=N, start=instance)


@pytest.mark.parametrize("nonzeros", [2, 4, 6, 8])
def test_square_dictionaries_with_a_fixed_number_of_nonzeros(nonzeros: int) -> None:
    Y, F, _ = exactly_sparse(20, nonzeros, seed=nonzeros, batch=5)
    problem = sp.Problem.sparse(alpha=1.0, pi=Y.shape[2] / 20, rho=nonzeros / 20, noise_variance=1e-10)
    solution = sp.solve(sp.Observed(Y, None, None), problem, n_atoms=20)
    errors = [10 * np.log10(np.mean(angles(solution.mean.F[k], F[k]))) for k in range(5)]
    assert max(errors) < -50.0, errors


def test_too_few_signals_are_not_called_converged() -> None:
    hopeless = sp.Problem.sparse(alpha=0.5, pi=1.5, rho=0.3, noise_variance=1e-8)
    instance = sp.sample(hopeless, 30, seed=0)
    solution = sp.solve(instance.observed, hopeless, n_atoms=30, max_iterations=1500)
    assert angles(solution.mean.F, instance.truth.F).max() > 0.1
    assert solution.status != "converged"
    assert np.all(np.isfinite(solution.mean.F))


@pytest.mark.slow
def test_surplus_atoms_end_the_search_before_its_iterations_do() -> None:
    Y, F, _ = exactly_sparse(20, 2, seed=2, batch=2)
    problem = sp.Problem.sparse(alpha=20 / 22, pi=Y.shape[2] / 22, rho=2 / 22, noise_variance=1e-10)
    solution = sp.solve(sp.Observed(Y * np.sqrt(20 / 22), None, None), problem, n_atoms=22)
    assert max(angles(solution.mean.F[k], F[k]).max() for k in range(2)) < 1e-6
    assert list(solution.status) == ["degenerate"] * 2
    assert max(solution.iterations) < 5000  # of 10 000


@pytest.mark.slow
def test_restarts_keep_the_best_and_are_reproducible() -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.2, noise_variance=1e-10)
    instance = sp.sample(problem, 12, seed=3)
    options: dict[str, Any] = {"n_atoms": 12, "max_iterations": 250}
    alone, several = (sp.solve(instance.observed, problem, restarts=k, **options) for k in (1, 6))
    assert several.mean.F.shape == alone.mean.F.shape
    # A batch settles where an instance alone does, to rounding.
    assert several.free_entropy > alone.free_entropy - 1e-6 or alone.status != several.status == "converged"
    again = sp.solve(instance.observed, problem, restarts=6, **options)
    np.testing.assert_array_equal(again.mean.F, several.mean.F)
    other = sp.solve(instance.observed, problem, seed=1, **options)
    assert np.any(other.mean.F != alone.mean.F)


def test_restarts_are_refused_where_there_is_a_hint() -> None:
    problem = EASY.replace(eta=0.1)
    instance = sp.sample(problem, 10, seed=0)
    with pytest.raises(sp.InputError, match="restarts must be 1"):
        sp.solve(instance.observed, problem, restarts=2)


# Faults put into a solved state, and whether they are seen and mended.


@pytest.fixture(scope="module")
def solved() -> tuple[Data, State, Any]:
    """The true factors as the state of a run that has settled."""
    with jax.enable_x64(True):
        instance = sp.sample(EASY, N, seed=5)
        data = make_data(instance.observed, EASY, N, "none", "float64")
        state = first_state(data)
        return data, with_estimates(data, state, instance.truth.F, instance.truth.X), instance.truth


def with_estimates(data: Data, state: State, F: Any, X: Any) -> State:
    """A state with these estimates, residuals measured."""
    small = 1e-8
    square = jnp.mean((data.Y - F @ X / np.sqrt(F.shape[1])) ** 2, axis=0)
    moments = {"F": state.F._replace(mean=jnp.asarray(F), variance=jnp.full(F.shape, small))}
    moments |= {"X": state.X._replace(mean=jnp.asarray(X), variance=jnp.full(X.shape, small))}
    return state._replace(**moments, square=square, level=square, nonzeros=jnp.sum(jnp.abs(X) > 1e-3, axis=1) * 1.0)


def cosines(directions: Any, atom: np.ndarray) -> Any:
    return np.abs(np.asarray(directions).T @ atom) / np.linalg.norm(directions, axis=0) / np.linalg.norm(atom)


def test_the_truth_is_no_trouble(solved: tuple[Data, State, Any]) -> None:
    data, state, _ = solved
    with jax.enable_x64(True):
        assert not checks(data, state).trouble


def test_residuals_far_above_the_noise_are_trouble_though_usage_is_right(solved: tuple[Data, State, Any]) -> None:
    data, state, truth = solved
    with jax.enable_x64(True):
        assert checks(data, state).explained
        wrong = checks(data, with_estimates(data, state, np.random.default_rng(0).permuted(truth.F, axis=1), truth.X))
        assert wrong.trouble
        assert not wrong.explained


def test_a_copied_atom_is_seen_and_the_missing_one_sought_where_the_residuals_point(solved: tuple[Data, State, Any]) -> None:
    data, state, truth = solved
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7], X[7] = F[:, 3], 0.0
    with jax.enable_x64(True):
        found = checks(data, with_estimates(data, state, F, X))
        assert found.trouble
        assert np.flatnonzero(found.restart).tolist() == [7]
        assert cosines(found.fresh[:, [7]], truth.F[:, 7])[0] > 0.9


def test_a_missing_atom_takes_the_place_of_the_one_used_least(solved: tuple[Data, State, Any]) -> None:
    data, state, truth = solved
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7] = 0.8 * F[:, 3] + 0.6 * F[:, 11]  # neither a copy nor right
    X[7] *= np.random.default_rng(0).random(X.shape[1]) < 0.3
    with jax.enable_x64(True):
        found = checks(data, with_estimates(data, state, F, X))
        assert found.trouble
        assert found.restart[7]
        assert cosines(found.fresh[:, [7]], truth.F[:, 7])[0] > 0.8


def test_two_atoms_that_span_the_right_plane_with_wrong_axes_are_told_apart(solved: tuple[Data, State, Any]) -> None:
    data, state, truth = solved
    turn = np.array([[1.0, 0.65], [0.1, 0.76]])
    F, X = truth.F.copy(), truth.X.copy()
    pair = [3, 7]
    F[:, pair] = F[:, pair] @ turn
    X[pair] = np.linalg.solve(turn, X[pair])
    with jax.enable_x64(True):
        spoiled = with_estimates(data, state, F, X)
        assert np.allclose(spoiled.square, state.square)  # the data are explained as well as before
        found = checks(data, spoiled)
        assert found.trouble
        (restarted,) = np.flatnonzero(found.restart)
        assert restarted in pair
        assert max(cosines(found.fresh[:, [restarted]], truth.F[:, i])[0] for i in pair) > 0.99


def test_mending_forgets_the_signals_keeps_good_atoms_and_heats(solved: tuple[Data, State, Any]) -> None:
    data, state, truth = solved
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7], X[7] = F[:, 3], 0.0
    with jax.enable_x64(True):
        spoiled = with_estimates(data, state, F, X)
        mended = mend(data, spoiled, checks(data, spoiled), 40)
        kept = np.delete(np.arange(N), 7)
        np.testing.assert_array_equal(mended.F.mean[:, kept], F[:, kept])
        assert np.mean(np.square(mended.F.mean[:, 7])) == pytest.approx(1.0)
        assert np.all(mended.X.mean == 0)
        assert mended.age == 0
        assert is_hot(data, mended, jnp.median(state.level))


def test_the_noise_falls_slowly_then_quickly_to_what_it_was(solved: tuple[Data, State, Any]) -> None:
    data, state, _ = solved
    with jax.enable_x64(True):
        power = float(data_power(data))
        hot = heated(data, state, 50)
        levels = [float(hot.noise)]
        for _ in range(300):
            hot = cooled(data, hot)._replace(age=hot.age + 1)
            levels.append(float(hot.noise))
        assert levels[0] == pytest.approx(0.6 * power, rel=1e-3)
        assert levels[50] == pytest.approx(0.1 * power, rel=1e-3)
        assert np.all(np.diff(levels) <= 0)
        assert levels[-1] == pytest.approx(float(data.noise), rel=1e-3)
        assert heated(data, state, 0).noise == data.noise


@pytest.mark.parametrize("P", [3, 40, 100])
def test_the_first_guess_is_finite_distinct_and_of_the_prior_s_size(P: int) -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((10, P))
    Y[:, 0] = 0.0
    with jax.enable_x64(True):
        data = make_data(sp.Observed(Y, None, None), EASY, 40, "none", "float64")
        guess = first_guess(data, jax.random.key(0))
    size = np.mean(np.square(guess.mean), axis=0)
    np.testing.assert_allclose(size, 1.0, rtol=1e-12)
    unit = np.asarray(guess.mean) / np.sqrt(10)
    assert np.max(np.abs(unit.T @ unit) - np.eye(40)) < 1 - 1e-3
