"""What every solver promises: shapes, types, finite answers, an honest status, and results that depend on nothing but the input."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import spinodal as sp
from draws import draw
from spinodal.evaluation.scoring import signal_errors

PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)
N, INSTANCES, LIMIT = 20, 3, 200
INSTANCE = draw(PROBLEM, N, seed=5, batch=INSTANCES)
TRUTH = sp.Pair(INSTANCE.truth.F[0], INSTANCE.truth.X[0])

MESSAGE_PASSING: dict[str, Any] = {
    "AMP": sp.AMP(),
    "AMP, one variance": sp.AMP(variance="scalar"),
    "AMP, a variance for each entry": sp.AMP(variance="entry"),
    "AMP, adaptive damping": sp.AMP(damping="adaptive"),
    "AMP, as printed": sp.AMP.as_printed(damping=0.5),
    "MUAMP": sp.MUAMP(),
    "BiGAMP": sp.BiGAMP(),
    "RelaxedBP": sp.RelaxedBP(),
}
SOLVERS = MESSAGE_PASSING | {"Lasso": sp.Lasso(), "Oracle": sp.Oracle(INSTANCE.truth)}
# Each is compiled anew, several times over: of the variants of one solver, one that has a state of its own runs always.
VARIANTS = [name for name in SOLVERS if name.startswith("AMP, ") and "adaptive" not in name]
every_solver, message_passing = (
    pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.claims if name in VARIANTS else ()) for name in solvers])
    for solvers in (SOLVERS, MESSAGE_PASSING)
)
IN_SINGLE = ("AMP", "Lasso", "Oracle")
SOLVED: dict[str, sp.Solution] = {}


def first(tree: Any) -> Any:
    return jax.tree.map(lambda value: value[0], tree)


def solved(name: str) -> sp.Solution:
    """The batch solved once, whatever asks."""
    if name not in SOLVED:
        SOLVED[name] = sp.solve(INSTANCE.observed, PROBLEM, SOLVERS[name], max_iterations=LIMIT)
    return SOLVED[name]


def assert_sound(solution: sp.Solution) -> None:
    """Nothing that is not a number, no negative variance, a status from the list."""
    for values in (*solution.mean, *solution.variance):
        assert np.all(np.isfinite(values))
    assert all(np.all(values >= 0) for values in solution.variance)
    assert np.all(np.isfinite(solution.residual))
    assert np.all(np.asarray(solution.residual) >= 0)
    assert not np.any(np.isnan(solution.free_entropy))
    assert all(isinstance(status, sp.Status) for status in np.atleast_1d(np.asarray(solution.status, dtype=object)))
    assert all(isinstance(reason, str) and reason for reason in np.atleast_1d(solution.reason))


@every_solver
def test_shapes_types_and_finite_values(name: str) -> None:
    M, _, P = PROBLEM.sizes(N)
    solution = solved(name)
    assert_sound(solution)
    for pair in (solution.mean, solution.variance):
        assert pair.F.shape == (INSTANCES, M, N)
        assert pair.X.shape == (INSTANCES, N, P)
        assert pair.F.dtype == pair.X.dtype == np.float64
        assert isinstance(pair.F, np.ndarray)
    for values in (solution.status, solution.iterations, solution.residual, solution.free_entropy):
        assert np.shape(values) == (INSTANCES,)


@message_passing
def test_the_trace_covers_the_iterations_and_no_more(name: str) -> None:
    solution = solved(name)
    for k, length in enumerate(solution.iterations):
        assert 1 <= length <= LIMIT
        for values in solution.trace:
            assert values.shape == (INSTANCES, max(solution.iterations))
            assert np.all(np.isfinite(values[k, :length]))
            assert np.all(np.isnan(values[k, length:]))


@message_passing
def test_the_residual_is_that_of_the_estimates(name: str) -> None:
    solution = solved(name)
    error = INSTANCE.observed.Y - solution.mean.F @ solution.mean.X / np.sqrt(N)
    assert np.allclose(solution.residual, np.mean(error**2, axis=(1, 2)), rtol=1e-9)


@message_passing
def test_alone_watched_and_in_a_batch_are_the_same(name: str) -> None:
    """One instance alone, with a progress callback, against the same instance in a batch of others."""
    calls: list[tuple[str, int, float]] = []
    alone = sp.solve(first(INSTANCE.observed), PROBLEM, SOLVERS[name], max_iterations=LIMIT, progress=lambda *now: calls.append(now))
    together = solved(name)[0]
    assert alone.status == together.status
    assert alone.iterations == together.iterations
    for one, other in zip((*alone.mean, *alone.variance), (*together.mean, *together.variance), strict=True):
        assert np.allclose(one, other, rtol=1e-6, atol=1e-9)
    iterations = [iteration for _, iteration, _ in calls]
    assert iterations == sorted(iterations)
    assert iterations[-1] == alone.iterations
    assert {stage for stage, _, _ in calls} == {"compiling", "iterating", "predicting"}
    assert all(np.isfinite(residual) for stage, _, residual in calls if stage == "iterating")
    assert all(0 <= damping < 1 for damping in alone.trace.damping)


@every_solver
def test_the_same_input_gives_the_same_numbers(name: str) -> None:
    again = sp.solve(INSTANCE.observed, PROBLEM, SOLVERS[name], max_iterations=LIMIT)
    assert all(np.array_equal(one, other) for one, other in zip(again.mean, solved(name).mean, strict=True))
    assert np.array_equal(again.iterations, solved(name).iterations)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in IN_SINGLE else pytest.mark.claims) for name in SOLVERS])
def test_single_precision_stays_single_and_close(name: str) -> None:
    solution = sp.solve(INSTANCE.observed, PROBLEM, SOLVERS[name], max_iterations=LIMIT, dtype=np.float32)
    assert_sound(solution)
    assert all(values.dtype == np.float32 for values in (*solution.mean, *solution.variance))
    if "as printed" not in name and "one variance" not in name:  # those need not settle, and amplify the last digit
        assert np.mean((solution.mean.X - solved(name).mean.X) ** 2) < 1e-2 * np.mean((solved(name).mean.X - INSTANCE.truth.X) ** 2)


@pytest.mark.parametrize("name", ["AMP", *(pytest.param(name, marks=pytest.mark.claims) for name in ("MUAMP", "BiGAMP", "RelaxedBP"))])
def test_missing_entries_are_never_read(name: str) -> None:
    """20% missing: whatever stands in the unobserved entries of Y, the answer is the same, and better than nothing."""
    problem = PROBLEM.replace(channel=sp.GaussianNoise(1e-2), observed_fraction=0.8)
    instance = sp.sample(problem, N, seed=5)
    solution = sp.solve(instance.observed, problem, SOLVERS[name], max_iterations=LIMIT)
    assert_sound(solution)
    filled = instance.observed._replace(Y=np.where(instance.observed.mask, instance.observed.Y, 1e6))
    other = sp.solve(filled, problem, SOLVERS[name], max_iterations=LIMIT)
    assert np.array_equal(solution.mean.X, other.mean.X)
    assert np.mean((solution.mean.X - instance.truth.X) ** 2) < 0.8 * np.mean(instance.truth.X**2)


@pytest.mark.claims
def test_amp_recovers_from_an_incomplete_Y() -> None:
    """30% missing: the errors are those predicted for the observed fraction, and not those for a complete Y, which are half as large."""
    problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.1, noise_variance=1e-6, observed_fraction=0.7)
    instance = sp.sample(problem, 100, seed=1)
    solution = sp.solve(instance.observed, problem)
    assert solution.status == "converged"
    expected = sp.amp_mse(problem).mse
    assert 0.9 < sp.score(solution.mean, instance.truth).mse_scaled.F / expected.F < 1.3
    assert 0.8 < np.median(signal_errors(solution.mean, instance.truth)) / expected.X < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.1, np.inf])
def test_an_incomplete_Y_at_full_size(eta: float) -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=eta, noise_variance=1e-6, observed_fraction=0.7)
    instance = sp.sample(problem, 200, seed=7)
    solution = sp.solve(instance.observed, problem, n_atoms=200)
    assert solution.status == "converged"
    assert 0.95 < sp.score(solution.mean, instance.truth).mse_aligned.F / sp.amp_mse(problem).mse.F < 1.15


def test_without_a_hint_the_given_matrix_plays_no_part() -> None:
    """At eta = inf, F' only says how many atoms there are."""
    problem = PROBLEM.replace(eta=np.inf)
    observed = first(INSTANCE.observed)
    solutions = [
        sp.solve(observed._replace(F_prime=F), problem, max_iterations=60) for F in (observed.F_prime, np.full_like(observed.F_prime, 7.0))
    ]
    assert_sound(solutions[0])
    assert np.array_equal(solutions[0].mean.F, solutions[1].mean.F)


def test_a_solver_has_nowhere_to_read_the_truth() -> None:
    """What reaches a solver is an Observed, and that has no field for it."""
    assert sp.Observed._fields == ("Y", "F_prime", "mask")


def test_options_are_checked() -> None:
    for wrong in ({"variance": "full"}, {"damping": 1.0}, {"damping": "some"}, {"residual_floor": 2.0}):
        with pytest.raises(sp.InputError):
            sp.AMP(**wrong)
    with pytest.raises(sp.InputError):
        sp.Search(anneal=1.0)  # type: ignore[arg-type]
    for solver, wrong in ((sp.BiGAMP, {"damping": 1.0}), (sp.BiGAMP, {"variance": "full"}), (sp.MUAMP, {"residual_floor": 2.0})):
        with pytest.raises(sp.InputError):
            solver(**wrong)
    for wrong in ({"max_iterations": 0}, {"tolerance": 1.0}, {"seed": -1}, {"dtype": "float16"}, {"n_atoms": 3}, {"learn": ("alpha",)}):
        with pytest.raises(sp.InputError):
            sp.solve(INSTANCE.observed, PROBLEM, **wrong)
