"""The face of `solve`: any kind of table, names carried, several numbers of atoms, everything learned, one instance to go on from."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spinodal as sp

N = 12
PROBLEM = sp.Problem.sparse(alpha=1.0, pi=8.0, rho=0.15, eta=0.05, noise_variance=1e-3)
INSTANCE = sp.sample(PROBLEM, N, seed=1)
Y, F_PRIME, _ = INSTANCE.observed
M, P = Y.shape
ROWS, COLUMNS = tuple(f"sensor {i}" for i in range(M)), tuple(f"t{k}" for k in range(P))
HOLES = np.random.default_rng(0).random(Y.shape) < 0.1
OPTIONS: dict[str, Any] = {"F_prime": F_PRIME, "max_iterations": 300}


def assert_same(one: sp.Solution, other: sp.Solution) -> None:
    for a, b in zip((*one.mean, *one.variance), (*other.mean, *other.variance), strict=True):
        assert np.array_equal(a, b)


@pytest.fixture(scope="module")
def plain() -> sp.Solution:
    return sp.solve(INSTANCE.observed, PROBLEM, max_iterations=300)


COMPLETE: dict[str, tuple[Any, bool]] = {
    "array": (Y, False),
    "lists": (Y.tolist(), False),
    "masked array with nothing masked": (np.ma.masked_array(Y), False),
    "DataFrame": (pd.DataFrame(Y, index=list(ROWS), columns=list(COLUMNS)), True),
    "DataArray": (xr.DataArray(Y, dims=("sensor", "time"), coords={"sensor": list(ROWS), "time": list(COLUMNS)}), True),
    "DataArray without coordinates": (xr.DataArray(Y, dims=("sensor", "time")), False),
}


@pytest.mark.parametrize("kind", COMPLETE)
def test_any_table_will_do_and_its_names_are_carried(kind: str, plain: sp.Solution) -> None:
    data, named = COMPLETE[kind]
    solution = sp.solve(data, PROBLEM, **OPTIONS)
    assert_same(solution, plain)
    assert tuple(solution.names) == ((ROWS, COLUMNS) if named else (None, None))
    assert solution.seconds is not None


WITH_HOLES: dict[str, tuple[Any, Any]] = {
    "NaN": (np.where(HOLES, np.nan, Y), None),
    "mask": (Y, ~HOLES),
    "masked array": (np.ma.masked_array(np.where(HOLES, 1e20, Y), HOLES), None),
    "DataFrame": (pd.DataFrame(np.where(HOLES, np.nan, Y)), None),
    "DataArray": (xr.DataArray(np.where(HOLES, np.nan, Y)), None),
}


def test_however_entries_are_missing_it_is_the_same() -> None:
    solutions = {kind: sp.solve(data, PROBLEM, mask=mask, **OPTIONS) for kind, (data, mask) in WITH_HOLES.items()}
    for solution in solutions.values():
        assert_same(solution, solutions["NaN"])
        assert np.array_equal(solution.observed.mask, ~HOLES)
        assert not any("1e+20" in warning for warning in solution.warnings)
    z = INSTANCE.truth.F @ INSTANCE.truth.X / np.sqrt(N)
    found = solutions["NaN"].mean.F @ solutions["NaN"].mean.X / np.sqrt(N)
    assert np.mean((found - z)[HOLES] ** 2) < 0.2 * np.mean(z[HOLES] ** 2)


def test_a_batch_is_indexed_instance_by_instance(plain: sp.Solution) -> None:
    both = sp.solve(np.stack([Y, 2 * Y]), PROBLEM, F_prime=np.stack([F_PRIME, F_PRIME]), max_iterations=300)
    assert both.batched
    assert not both[0].batched
    assert_same(both[0], plain)
    assert both[0].trace.level.shape == (plain.iterations,)
    assert both[0].model == plain.model == sp.Model(PROBLEM.prior, PROBLEM.channel, PROBLEM.knowledge)
    assert isinstance(both[1].status, sp.Status)


def test_a_single_solution_can_be_gone_on_from() -> None:
    """Stopped early and gone on from, it ends where one run does."""
    stopped = sp.solve(Y, PROBLEM, F_prime=F_PRIME, max_iterations=25)
    assert stopped.status == "max_iterations"
    assert "25 iterations" in stopped.reason
    on = sp.solve(Y, PROBLEM, F_prime=F_PRIME, max_iterations=300, start=stopped)
    whole = sp.solve(Y, PROBLEM, F_prime=F_PRIME, max_iterations=300)
    assert on.status == whole.status == "converged"
    assert np.mean((on.mean.X - whole.mean.X) ** 2) < 0.05 * np.mean((stopped.mean.X - whole.mean.X) ** 2)
    assert on.trace.residual[0] < whole.trace.residual[0]


def test_whoever_watches_sees_the_estimates_and_may_end_it() -> None:
    class Enough(Exception):
        pass

    seen: list[tuple[int, tuple[int, ...]]] = []

    def watch(iteration: int, mean: sp.Pair[Any]) -> None:
        seen.append((iteration, mean.X.shape))
        if iteration >= 3:
            raise Enough

    with pytest.raises(Enough):
        sp.solve(Y, PROBLEM, watch=watch, **OPTIONS)
    assert seen == [(1, (N, P)), (2, (N, P)), (3, (N, P))]


# From Y alone: an easy dictionary.

EASY = sp.Problem.sparse(alpha=10 / 12, pi=20.0, rho=0.15, noise_variance=1e-4)
ATOMS = 12


@cache
def dictionary() -> Any:
    return sp.sample(EASY, ATOMS, seed=3)


@pytest.fixture(scope="module")
def several() -> sp.Solution:
    names = pd.DataFrame(dictionary().observed.Y, index=[f"row {i}" for i in range(10)])
    return sp.solve(names, n_atoms=[ATOMS - 2, ATOMS], max_iterations=1000)


@pytest.mark.claims
def test_the_number_of_atoms_of_the_highest_evidence_is_kept(several: sp.Solution) -> None:
    assert several.mean.F.shape == (10, ATOMS)
    assert [number for number, *_ in several.candidates] == [ATOMS - 2, ATOMS]
    evidence = [each for _, each, _, _ in several.candidates]
    assert np.argmax(evidence) == 1
    assert all(isinstance(status, sp.Status) and iterations > 0 for _, _, status, iterations in several.candidates)
    # In nats for each entry of Y, whatever the number of atoms.
    assert evidence[1] == pytest.approx(several.free_entropy * ATOMS / 10)
    assert several.names.rows == tuple(f"row {i}" for i in range(10))


@pytest.mark.claims
def test_everything_is_learned_from_the_data_alone(several: sp.Solution) -> None:
    assert several.status == "converged"
    assert several.learned == ("noise_variance", "density", "slab_variance")
    truth = dictionary().truth
    density = np.mean(truth.X != 0)
    assert several.model.prior.X.rho == pytest.approx(density, rel=0.1)
    assert several.model.noise_variance == pytest.approx(1e-4, rel=0.2)
    assert sp.score(several.mean, truth).atoms_recovered == 1
    assert several.problem.pi == 20.0


@pytest.mark.parametrize("wrong", [[], [0, 3], [2.5, 3], "3"])
def test_numbers_of_atoms_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(sp.InputError, match="n_atoms"):
        sp.solve(dictionary().observed.Y, n_atoms=wrong)


def test_several_numbers_of_atoms_are_for_one_instance() -> None:
    with pytest.raises(sp.InputError, match="n_atoms"):
        sp.solve(np.stack([dictionary().observed.Y] * 2), n_atoms=[3, 4])


@pytest.mark.claims
def test_the_error_of_the_hint_can_be_learned() -> None:
    """eta = "auto", with the rest told or not."""
    problem = sp.Problem.sparse(alpha=1.0, pi=12.0, rho=0.1, eta=0.2, noise_variance=1e-4)
    instance = sp.sample(problem, 20, seed=0)
    Y, F_prime, _ = instance.observed
    told = sp.solve(Y, F_prime=F_prime, eta="auto", density=0.1, noise_variance=1e-4)
    assert told.learned == ("eta",)
    assert told.model.eta == pytest.approx(0.2, rel=0.2)
    assert (told.model.prior.X.rho, told.model.noise_variance) == (0.1, 1e-4)
    alone = sp.solve(Y, F_prime=F_prime, density="auto")
    assert alone.learned == ("noise_variance", "density", "slab_variance", "eta")
    assert alone.model.eta == pytest.approx(0.2, rel=0.2)


def test_a_hint_may_be_better_for_some_atoms() -> None:
    """eta for each column: the same for all is one number; a better one for half of them is used for that half."""
    problem = PROBLEM.replace(channel=sp.GaussianNoise(0.05))
    eta = np.where(np.arange(N) < N // 2, 1e-3, 0.09)
    mixed = problem.replace(knowledge=sp.Hint(eta))
    drawn = sp.sample(mixed, N, seed=4)
    solution = sp.solve(drawn.observed, mixed, max_iterations=300)
    assert solution.status == "converged"
    off = np.mean((solution.mean.F - drawn.truth.F) ** 2, axis=0)
    assert np.all(off[: N // 2] < 2e-3)
    assert np.mean(off[N // 2 :]) > 5 * np.mean(off[: N // 2])
    worse = sp.solve(drawn.observed, problem.replace(eta=0.09), max_iterations=300)
    assert np.mean(off) < np.mean((worse.mean.F - drawn.truth.F) ** 2)
    uniform = sp.solve(drawn.observed, problem.replace(knowledge=sp.Hint(np.full(N, 0.09))), max_iterations=300)
    np.testing.assert_allclose(uniform.mean.F, worse.mean.F, rtol=1e-9, atol=1e-12)


def test_a_mask_of_another_shape_than_a_masked_array_is_refused() -> None:
    with pytest.raises(sp.InputError, match="mask must hold"):
        sp.solve(np.ma.masked_array(Y, Y > 1), n_atoms=4, mask=np.ones((3, 3), bool))


def test_a_batch_has_no_problem_of_its_own() -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
    solution = sp.solve(sp.sample(problem, 10, seed=1, batch=2).observed, problem, max_iterations=5)
    assert solution[1].problem.pi == 6.0
    with pytest.raises(sp.InputError, match="take one of them"):
        _ = solution.problem
