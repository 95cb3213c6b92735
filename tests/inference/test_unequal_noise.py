"""Noise that differs from row to row, from signal to signal or from entry to entry: in every solver, in the theory, and learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import machine
from spinodal.inference.loop import Tolerance, begin, iterate
from spinodal.inference.task import make_task

N, M, P = 16, 12, 64
EASY = sp.Problem.sparse(alpha=0.75, pi=4.0, rho=0.1, eta=0.05, noise_variance=1e-3)
ALONE = sp.Search(repair=False)
SHAPES = {"rows": (M, 1), "columns": (1, P), "entries": (M, P)}


def spread(shape: tuple[int, int], middle: float = 1e-3, seed: int = 0) -> np.ndarray:
    return middle * np.exp(1.5 * np.random.default_rng(seed).normal(size=shape))


def with_noise(variance: Any, problem: sp.Problem = EASY) -> sp.Problem:
    return problem.replace(channel=sp.GaussianNoise(variance))


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(sp.AMP(variance="entry"), marks=pytest.mark.claims),
        pytest.param(sp.MUAMP(variance="entry"), marks=pytest.mark.claims),
        pytest.param(sp.RelaxedBP(), marks=pytest.mark.claims),
    ],
)
def test_equal_variances_in_an_array_give_the_numbers_of_one(solver: Any) -> None:
    observed = sp.sample(EASY, N, seed=1).observed
    one, rows, columns, entries = (
        sp.solve(observed, with_noise(variance), solver, search=ALONE, max_iterations=60)
        for variance in (1e-3, *(np.full(shape, 1e-3) for shape in SHAPES.values()))
    )

    def same(these: Any, those: Any, atol: float) -> None:
        np.testing.assert_allclose(these.mean.X, those.mean.X, rtol=1e-8, atol=atol)
        np.testing.assert_allclose(these.mean.F, those.mean.F, rtol=1e-8, atol=atol)

    same(columns, one, 1e-9)
    same(entries, rows, 1e-9)
    # Each entry has its own share of the measured square of g, where one variance for all has their mean: AMP's numbers differ by 1/N.
    same(rows, one, 1e-9 if isinstance(solver, sp.RelaxedBP) else 0.05)


@pytest.mark.parametrize("shape", [pytest.param(SHAPES[k], id=k, marks=() if k == "entries" else pytest.mark.claims) for k in SHAPES])
def test_blocks_take_their_columns_of_the_variances(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = with_noise(spread(shape))
    observed = sp.sample(problem, N, seed=3).observed
    solver = sp.AMP().suited(problem.channel)

    def after_some_iterations(widest: int) -> Any:
        monkeypatch.setattr(machine, "_WIDEST", widest)
        task = make_task(observed, jax.tree.map(jnp.asarray, problem), N, "float64", sp.Pair(False, False))
        return jax.jit(lambda: iterate(solver, task, begin(solver, task, solver.init(task, None)), 5, Tolerance(0.0)).state)()

    with jax.enable_x64(True):
        whole, parts = after_some_iterations(P), after_some_iterations(20)
    np.testing.assert_allclose(parts.X.mean, whole.X.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.F.mean, whole.F.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.claims
def test_a_batch_has_the_variances_of_each_instance() -> None:
    problems = [with_noise(spread((M, 1), seed=seed)) for seed in (1, 2)]
    drawn = [sp.sample(problem, N, seed=7).observed for problem in problems]
    both = sp.Observed(*(np.stack([getattr(each, name) for each in drawn]) for name in ("Y", "F_prime")), None)
    together = sp.solve(both, problems, search=ALONE, max_iterations=60)
    for k, problem in enumerate(problems):
        alone = sp.solve(drawn[k], problem, search=ALONE, max_iterations=60)
        np.testing.assert_allclose(together[k].mean.X, alone.mean.X, rtol=1e-7, atol=1e-9)
    with pytest.raises(sp.InputError, match="models of one kind"):
        sp.solve(both, [problems[0], with_noise(1e-3 * np.ones((M, P)))])


@pytest.mark.claims
def test_rows_are_read_from_disk_and_columns_refused(tmp_path: Path) -> None:
    problem = with_noise(spread((M, 1)))
    observed = sp.sample(problem, N, seed=1).observed
    whole = sp.solve(observed, problem, search=ALONE, max_iterations=300)
    parts = sp.solve_on_disk(observed.Y, problem, tmp_path, F_prime=observed.F_prime, block=25, max_iterations=300)
    np.testing.assert_allclose(parts.mean.X, whole.mean.X, atol=1e-9)
    with pytest.raises(sp.InputError, match="noise_variance must be a number or 12 x 1 for solve_on_disk"):
        sp.solve_on_disk(observed.Y, with_noise(spread((M, P))), tmp_path, F_prime=observed.F_prime)


# ---- theory


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_state_evolution_of_equal_variances_is_that_of_one(shape: tuple[int, int]) -> None:
    one, many = (sp.state_evolution(with_noise(variance)).mse for variance in (1e-3, np.full(shape, 1e-3)))
    assert many.F[-1] == pytest.approx(one.F[-1], rel=1e-8)
    assert many.X[-1] == pytest.approx(one.X[-1], rel=1e-8)


@pytest.mark.claims
def test_noise_scattered_over_the_entries_is_worth_its_mean_precision() -> None:
    variance = spread((40, 50))
    V = np.array([1e-5, 1e-3, 0.09])
    noise, entropy = sp.GaussianNoise(variance).averages(V, 0.1)
    for k, left in enumerate(V):
        assert noise[k] == pytest.approx(1 / np.mean(1 / (variance + left)) - left, rel=1e-8, abs=1e-9 * left)
        assert entropy[k] == pytest.approx(-np.mean(1 + np.log(variance + left)) / 2, rel=1e-8)
    # Two routes: the curve of fixed points with the averages, and every row and every column by itself.
    problem = with_noise(spread((60, 320)))
    assert sp.amp_mse(problem).mse.X == pytest.approx(sp.state_evolution(problem).mse.X[-1], rel=0.03)
    with pytest.raises(sp.InputError, match="use state_evolution for rows and columns"):
        sp.amp_mse(with_noise(spread((M, 1))))


@pytest.mark.claims
@pytest.mark.parametrize("kind", SHAPES)
def test_errors_are_the_predicted_ones(kind: str) -> None:
    n = 100
    m, p = 80, 400
    problem = sp.Problem.sparse(alpha=0.8, pi=4.0, rho=0.1, eta=0.1)
    problem = with_noise(spread({"rows": (m, 1), "columns": (1, p), "entries": (m, p)}[kind]), problem)
    predicted = sp.state_evolution(problem).mse
    instance = sp.sample(problem, n, seed=2)
    solution = sp.solve(instance.observed, problem)
    found = sp.score(solution.mean, instance.truth).mse_scaled
    assert solution.status == "converged"
    assert found.F < 1.35 * predicted.F[-1]
    assert found.X < 1.5 * predicted.X[-1]


# ---- learning


@pytest.mark.claims
@pytest.mark.parametrize("known", [True, False])
def test_a_variance_for_each_row_is_learned(known: bool) -> None:
    n, m, p = 40, 40, 600
    variance = spread((m, 1))
    problem = sp.Problem.sparse(alpha=m / n, pi=p / n, rho=0.1, eta=0.05 if known else np.inf).replace(channel=sp.GaussianNoise(variance))
    observed = sp.sample(problem, n, seed=1).observed
    told: dict[str, Any] = {"F_prime": observed.F_prime, "eta": 0.05} if known else {"n_atoms": n}
    solution = sp.solve(observed.Y, density=0.1, noise_variance="rows", **told)
    assert solution.status == "converged"
    assert solution.learned == ("row_variances",)
    off = np.log(solution.model.channel.variance / variance)
    assert np.median(np.abs(off)) < 0.2  # a variance from 600 numbers is known to 6%, and part of each residual is not noise
    assert np.corrcoef(np.log(variance[:, 0]), np.log(solution.model.channel.variance[:, 0]))[0, 1] > 0.98


@pytest.mark.claims
def test_one_factor_is_learned_for_all() -> None:
    variance = spread((24, 1))
    problem = sp.Problem.sparse(alpha=0.8, pi=10.0, rho=0.1, eta=0.05).replace(channel=sp.GaussianNoise(variance))
    observed = sp.sample(problem, 30, seed=1).observed
    solution = sp.solve(observed, problem.replace(channel=sp.GaussianNoise(4 * variance)), learn=("noise_variance",), search=ALONE)
    ratio = solution.model.channel.variance / variance
    assert np.ptp(ratio) < 1e-9
    assert ratio[0, 0] == pytest.approx(1, abs=0.15)


# ---- what is refused


def test_shapes_that_do_not_fit_are_refused() -> None:
    observed = sp.sample(EASY, N, seed=1).observed
    with pytest.raises(
        sp.InputError, match=r"noise_variance must be a number, 12 x 1, 1 x 64 or 12 x 64 for this Y, but its shape is \(5, 1\)"
    ):
        sp.solve(observed, with_noise(np.ones((5, 1))))
    with pytest.raises(sp.InputError, match=r"but its shape is \(12,\)"):
        sp.solve(observed, with_noise(np.ones(12)))
    with pytest.raises(sp.InputError, match="noise_variance must be a number in"):
        sp.GaussianNoise(np.zeros((12, 1)))
    with pytest.raises(sp.InputError, match="12 x 1"):
        sp.sample(with_noise(np.ones((5, 1))), N, seed=0)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.claims)])
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind == "columns" else pytest.mark.claims) for kind in SHAPES])
def test_a_result_can_be_looked_at(kind: str, known: bool) -> None:
    problem = with_noise(spread(SHAPES[kind]))
    observed = sp.sample(problem, N, seed=1).observed
    solution = sp.solve(observed, problem) if known else sp.solve(observed.Y, problem.replace(eta=np.inf), n_atoms=N, max_iterations=50)
    assert problem.noise_variance is None  # no one number
    assert str(solution.status) in solution.summary()
    assert all("spread" not in warning for warning in solution.warnings)
    assert solution.to_xarray().attrs["status"] == str(solution.status)
    assert len(solution.plot().axes) > 2
