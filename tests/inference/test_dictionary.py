"""Dictionaries from scratch (eta = inf): found at the predicted error, faults seen and mended without the truth, an honest status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.search import repair
from spinodal.inference.search.annealing import FIRST, Annealed, first_guess, is_hot
from spinodal.inference.search.diagnostics import Findings, findings_in_words, inspect, leading, settled_signals, with_directions
from spinodal.inference.task import Task, make_task
from spinodal.model.priors import Moments

# Compiled as wholes, as in a solve: their operations one by one take far longer.
look, repaired, in_place, turned_atoms = map(jax.jit, (inspect, repair.repaired, repair.in_place, repair.turned_atoms))
mend = jax.jit(repair.mend, static_argnums=0)

EASY = sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.1, noise_variance=1e-8)
N, INSTANCES = 40, 2


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
    instance = sp.sample(EASY, N, seed=20, batch=INSTANCES)
    return instance, sp.solve(instance.observed, EASY, n_atoms=N)


def test_every_atom_is_found_at_the_predicted_error(learned: tuple[sp.Instance, sp.Solution]) -> None:
    instance, solution = learned
    found = np.array([angles(solution.mean.F[k], instance.truth.F[k]) for k in range(INSTANCES)])
    assert found.max() < 1e-6
    assert np.mean(found) < 1.5 * sp.amp_mse(EASY).mse.F
    assert list(solution.status) == ["converged"] * INSTANCES


def test_a_solution_to_start_from_saves_the_way(learned: tuple[sp.Instance, sp.Solution]) -> None:
    """The same data with other noise on top: no search, the same atoms. In a batch, and alone."""
    instance, solution = learned
    noisier = instance.observed._replace(Y=instance.observed.Y + 1e-4 * np.random.default_rng(0).normal(size=instance.observed.Y.shape))
    again = sp.solve(noisier, EASY.replace(channel=sp.GaussianNoise(2e-8)), n_atoms=N, start=solution)
    assert list(again.status) == ["converged"] * INSTANCES
    assert np.all(again.iterations < 0.6 * solution.iterations)
    assert max(angles(again.mean.F[k], solution.mean.F[k]).max() for k in range(INSTANCES)) < 1e-6
    alone = sp.solve(noisier.Y[1], EASY.replace(channel=sp.GaussianNoise(2e-8)), n_atoms=N, start=solution[1])
    assert alone.iterations == again.iterations[1]
    np.testing.assert_allclose(alone.mean.F, again.mean.F[1], rtol=1e-9, atol=1e-12)
    with pytest.raises(sp.InputError, match="start must have F of shape"):
        sp.solve(noisier, EASY, n_atoms=N + 1, start=solution)
    with pytest.raises(sp.InputError, match="start must have F of shape"):
        sp.solve(noisier, EASY, n_atoms=N, start=solution[0])
    with pytest.raises(sp.InputError, match="start must be a Solution"):
        sp.solve(noisier, EASY, n_atoms=N, start=instance)  # type: ignore[arg-type]


@pytest.mark.parametrize(("nonzeros", "batch"), [(4, 2), *(pytest.param(k, 5, marks=pytest.mark.claims) for k in (2, 4, 6, 8))])
def test_square_dictionaries_with_a_fixed_number_of_nonzeros(nonzeros: int, batch: int) -> None:
    Y, F, _ = exactly_sparse(20, nonzeros, seed=nonzeros, batch=batch)
    problem = sp.Problem.sparse(alpha=1.0, pi=Y.shape[2] / 20, rho=nonzeros / 20, noise_variance=1e-10)
    solution = sp.solve(sp.Observed(Y, None, None), problem, n_atoms=20)
    errors = [10 * np.log10(np.mean(angles(solution.mean.F[k], F[k]))) for k in range(batch)]
    assert max(errors) < -50.0, errors


@pytest.mark.claims
def test_too_few_signals_are_not_called_converged() -> None:
    hopeless = sp.Problem.sparse(alpha=0.5, pi=1.5, rho=0.3, noise_variance=1e-8)
    instance = sp.sample(hopeless, 30, seed=0)
    solution = sp.solve(instance.observed, hopeless, n_atoms=30, max_iterations=1500)
    assert angles(solution.mean.F, instance.truth.F).max() > 0.1
    assert solution.status != "converged"
    assert np.all(np.isfinite(solution.mean.F))


@pytest.mark.parametrize(("n", "batch"), [(10, 1), pytest.param(20, 1, marks=pytest.mark.claims)])
def test_surplus_atoms_end_the_search_before_its_iterations_do(n: int, batch: int) -> None:
    Y, F, _ = exactly_sparse(n, 2, seed=2, batch=batch)
    N = n + 2
    problem = sp.Problem.sparse(alpha=n / N, pi=Y.shape[2] / N, rho=2 / N, noise_variance=1e-10)
    solution = sp.solve(sp.Observed(Y * np.sqrt(n / N), None, None), problem, n_atoms=N)
    assert max(angles(solution.mean.F[k], F[k]).max() for k in range(batch)) < 1e-6
    assert list(solution.status) == ["degenerate"] * batch
    assert np.mean(solution.iterations) < 5000  # of 10 000; single runs take 1900 to 9400, and 3000 on average


def test_the_best_of_several_runs_is_kept_and_is_reproducible() -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.2, noise_variance=1e-10)  # of the shape above: compiled already
    instance = sp.sample(problem, 20, seed=3)
    options: dict[str, Any] = {"n_atoms": 20, "max_iterations": 250, "search": sp.Search(vote=False)}
    alone, several = (sp.solve(instance.observed, problem, runs=k, **options) for k in (1, 3))
    assert several.mean.F.shape == alone.mean.F.shape
    assert several.free_entropy >= alone.free_entropy or alone.status != several.status == "converged"
    assert (alone.runs, several.runs) == (1, 3)
    again = sp.solve(instance.observed, problem, runs=3, **options)
    np.testing.assert_array_equal(again.mean.F, several.mean.F)
    np.testing.assert_array_equal(again.reproducibility, several.reproducibility)
    other = sp.solve(instance.observed, problem, seed=1, **options)
    assert np.any(other.mean.F != alone.mean.F)


def test_several_runs_are_refused_where_there_is_a_hint(learned: tuple[sp.Instance, sp.Solution]) -> None:
    instance, solution = learned
    with pytest.raises(sp.InputError, match="runs must be 1 where F_prime says"):
        sp.solve(instance.observed.Y, EASY.replace(eta=0.1), F_prime=instance.truth.F, runs=2)
    with pytest.raises(sp.InputError, match="runs must be 1 where a solution says"):
        sp.solve(instance.observed, EASY, n_atoms=N, start=solution, runs=2)


# Faults put into a solved state, and whether they are seen and mended.


class Settled(NamedTuple):
    """The true factors as the estimate of a run that has settled."""

    task: Task
    found: sp.Estimate
    truth: sp.Pair[Any]


@pytest.fixture(scope="module")
def solved() -> Settled:
    with jax.enable_x64(True):
        instance = sp.sample(EASY, N, seed=5)
        task = make_task(instance.observed, EASY, N, "float64", sp.Pair(False, False))
        return Settled(task, estimate(task, *instance.truth), instance.truth)


def diagnose(task: Task, found: sp.Estimate) -> Findings:
    """Everything that a look at a settled state finds."""
    return with_directions(jax.tree.map(np.asarray, look(task, found)))


@jax.jit
def estimate(task: Task, F: Any, X: Any) -> sp.Estimate:
    """These factors with small variances, residuals measured."""
    square = jnp.mean((task.Y - F @ X / np.sqrt(F.shape[1])) ** 2, axis=0)
    sure = [Moments(jnp.asarray(mean), jnp.full(mean.shape, 1e-8)) for mean in (F, X)]
    return sp.Estimate(*sure, nonzeros=jnp.sum(jnp.abs(X) > 1e-3, axis=1) * 1.0, square=square, level=square)


def changed(F: np.ndarray, mended: Moments) -> list[int]:
    """The atoms that were replaced."""
    return np.flatnonzero(np.any(np.asarray(mended.mean) != F, axis=0)).tolist()


def cosine(atom: Any, other: np.ndarray) -> float:
    return float(np.abs(np.asarray(atom) @ other) / np.linalg.norm(atom) / np.linalg.norm(other))


def copied(truth: sp.Pair[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The truth with atom 7 a copy of atom 3 that no signal uses."""
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7], X[7] = F[:, 3], 0.0
    return F, X


def test_the_truth_is_no_trouble(solved: Settled) -> None:
    with jax.enable_x64(True):
        seen = diagnose(solved.task, solved.found)
        assert not seen.trouble
        assert findings_in_words(seen) == []


def test_residuals_far_above_the_noise_are_trouble_though_usage_is_right(solved: Settled) -> None:
    task, found, truth = solved
    with jax.enable_x64(True):
        assert diagnose(task, found).explained
        wrong = diagnose(task, estimate(task, np.random.default_rng(0).permuted(truth.F, axis=1), truth.X))
        assert wrong.trouble
        assert not wrong.explained


def test_a_copied_atom_is_seen_and_the_missing_one_sought_where_the_residuals_point(solved: Settled) -> None:
    task, _, truth = solved
    F, X = copied(truth)
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        seen = diagnose(task, spoiled)
        assert seen.trouble
        assert seen.copy_of[7] == 3
        mended = repaired(task, spoiled, seen)
        assert changed(F, mended) == [7]
        assert cosine(mended.mean[:, 7], truth.F[:, 7]) > 0.9


def test_a_missing_atom_takes_the_place_of_the_one_used_least(solved: Settled) -> None:
    task, _, truth = solved
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7] = 0.8 * F[:, 3] + 0.6 * F[:, 11]  # neither a copy nor right
    X[7] *= np.random.default_rng(0).random(X.shape[1]) < 0.3
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        seen = diagnose(task, spoiled)
        assert seen.trouble
        mended = repaired(task, spoiled, seen)
        assert 7 in changed(F, mended)
        assert cosine(mended.mean[:, 7], truth.F[:, 7]) > 0.8


def test_two_atoms_that_span_the_right_plane_with_wrong_axes_are_told_apart(solved: Settled) -> None:
    task, found, truth = solved
    turn = np.array([[1.0, 0.65], [0.1, 0.76]])
    F, X = truth.F.copy(), truth.X.copy()
    pair = [3, 7]
    F[:, pair] = F[:, pair] @ turn
    X[pair] = np.linalg.solve(turn, X[pair])
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        assert np.allclose(spoiled.square, found.square)  # the data are explained as well as before
        seen = diagnose(task, spoiled)
        assert seen.trouble
        (given_way,) = np.flatnonzero(np.asarray(seen.mixed_with) >= 0)
        mended = repaired(task, spoiled, seen)
        assert changed(F, mended) == [given_way]
        assert given_way in pair
        assert max(cosine(mended.mean[:, given_way], truth.F[:, i]) for i in pair) > 0.99


def sheared(truth: Any, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Atom 3 with a share of atom 7 in it, and codes that make up for it."""
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 3] += share * F[:, 7]
    X[7] -= share * X[3]
    return F, X


@pytest.mark.parametrize("share", [0.1, 0.5, 2.0])
def test_an_atom_with_some_of_another_in_it_shows_in_the_ratio_of_their_codes(solved: Settled, share: float) -> None:
    task, found, truth = solved
    F, X = sheared(truth, share)
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        assert np.allclose(spoiled.square, found.square)
        seen = diagnose(task, spoiled)
        assert seen.trouble
        assert seen.local
        assert list(np.flatnonzero(np.asarray(seen.mixed_with) >= 0)) == [3]
        assert seen.mixed_with[3] == 7
        assert seen.ratio[3] == pytest.approx(-share, rel=1e-2)
        turned = turned_atoms(spoiled, seen)
        np.testing.assert_allclose(turned.F.mean @ turned.X.mean, F @ X, atol=1e-9)  # the data are explained as before
        assert cosine(turned.F.mean[:, 3], truth.F[:, 3]) > 0.999
        zero = truth.X[7] == 0
        assert np.mean(np.abs(turned.X.mean[7][zero])) < 0.05 * np.mean(np.abs(X[7][zero]))


def test_what_is_right_shares_no_ratio(solved: Settled) -> None:
    task, found, _ = solved
    with jax.enable_x64(True):
        assert np.all(np.asarray(diagnose(task, found).mixed_with) < 0)


def test_a_missing_atom_is_mended_in_place_and_settled_signals_are_kept(solved: Settled) -> None:
    task, _, truth = solved
    F, X = truth.F.copy(), truth.X.copy()
    F[:, 7], X[7] = np.random.default_rng(3).standard_normal(len(F)), 0
    solver = Annealed(sp.AMP())
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        seen = diagnose(task, spoiled)
        assert seen.local
        assert mend(solver, task, jax.jit(solver.init)(task, None, spoiled), seen, True, FIRST).temperature == 0
        mended, settled = in_place(task, spoiled, seen), np.asarray(settled_signals(task, spoiled))
        assert cosine(mended.F.mean[:, 7], truth.F[:, 7]) > 0.8
        others = np.delete(np.arange(N), 7)
        np.testing.assert_array_equal(mended.X.mean[np.ix_(others, settled)], X[np.ix_(others, settled)])
        assert np.all(mended.X.mean[:, ~settled] == 0)
        assert np.mean(truth.X[7][~settled] != 0) > 0.9


def test_reasons_name_the_atoms(solved: Settled) -> None:
    """Counted from 1, as columns of a table are."""
    task, _, truth = solved
    F, X = copied(truth)
    with jax.enable_x64(True):
        words = "; ".join(findings_in_words(jax.tree.map(np.asarray, diagnose(task, estimate(task, F, X)))))
    assert "1 atom is a copy: 4 and 8" in words
    assert "1 atom is hardly used: 8" in words
    assert "share 1 direction that no atom has" in words


def test_mending_forgets_the_signals_keeps_good_atoms_and_heats(solved: Settled) -> None:
    task, found, truth = solved
    F, X = copied(truth)
    solver = Annealed(sp.AMP())
    with jax.enable_x64(True):
        spoiled = estimate(task, F, X)
        state = jax.jit(solver.init)(task, None, spoiled)
        mended = mend(solver, task, state, diagnose(task, spoiled), False, FIRST)
        kept = np.delete(np.arange(N), 7)
        np.testing.assert_array_equal(mended.inner.F.mean[:, kept], F[:, kept])
        assert np.mean(np.square(mended.inner.F.mean[:, 7])) == pytest.approx(1.0)
        assert np.all(mended.inner.X.mean == 0)
        assert mended.age == mended.inner.age == 0
        assert is_hot(mended.temperature, jnp.median(found.square))


@dataclass(frozen=True)
class Idle(sp.Solver):
    """A solver that does nothing, to look at what surrounds it."""

    def init(self, task: Task, draws: Any, start: Any = None) -> Any:
        return jnp.zeros(())

    def step(self, task: Task, state: Any) -> Any:
        return state

    measure = estimate = free_entropy = step  # type: ignore[assignment]


def test_the_temperature_falls_slowly_then_quickly_to_nothing(solved: Settled) -> None:
    task = solved.task
    with jax.enable_x64(True):
        hot = Annealed(Idle(), 50)
        state = jax.jit(hot.init)(task, None)
        temperatures = [float(state.temperature)]
        step = jax.jit(hot.step)
        for _ in range(300):
            state = step(task, state)
            temperatures.append(float(state.temperature))
        power, noise = float(task.power), float(task.channel.variance)
        assert power == pytest.approx(np.mean(np.square(task.Y)))
        assert temperatures[0] == pytest.approx(0.6 * power, rel=1e-3)
        assert temperatures[50] == pytest.approx(0.1 * power, rel=1e-3)
        assert np.all(np.diff(temperatures) <= 0)
        assert temperatures[-1] < 1e-3 * noise
        assert Annealed(Idle(), 0).init(task, None).temperature == 0


@pytest.mark.parametrize("P", [3, 40, 100])
def test_the_first_guess_is_finite_distinct_and_of_the_prior_s_size(P: int) -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((10, P))
    Y[:, 0] = 0.0
    with jax.enable_x64(True):
        task = make_task(sp.Observed(Y, None, None), EASY, 40, "float64", sp.Pair(False, False))
        guess = jax.jit(first_guess)(task, rng.random((11, 40)))
    size = np.mean(np.square(guess.mean), axis=0)
    np.testing.assert_allclose(size, 1.0, rtol=1e-12)
    unit = np.asarray(guess.mean) / np.sqrt(10)
    assert np.max(np.abs(unit.T @ unit) - np.eye(40)) < 1 - 1e-3


@pytest.mark.parametrize("rank", [0, 3, 40])
def test_the_leading_directions_are_the_eigenvectors(rank: int) -> None:
    """Beside numpy's whole decomposition, also where there are fewer than are looked for."""
    left = np.random.default_rng(rank).standard_normal((60, rank)) * 0.8 ** np.arange(rank)
    values, vectors = leading(left @ left.T)
    expected, directions = np.linalg.eigh(left @ left.T)
    assert len(values) == min(rank, 20)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-9)
    np.testing.assert_allclose(values[:3], expected[::-1][: min(rank, 3)], rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(vectors[:, :2] * directions[:, ::-1][:, : min(rank, 2)], axis=0)), 1, rtol=1e-3)
