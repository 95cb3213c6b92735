"""A solver that a user wrote, with a state of its own and no more than the abstract methods, in all that surrounds a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.task import Task
from spinodal.model.priors import Moments

N, LIMIT = 12, 150
PROBLEM = sp.Problem.sparse(alpha=1.0, pi=10.0, rho=0.15, noise_variance=1e-3)


class Factors(NamedTuple):
    """Unlike any state of ours: no variances, no messages."""

    atoms: Any
    codes: Any
    count: Any


@dataclass(frozen=True)
class Gradients(sp.Solver):
    """Gradient steps with soft thresholds: dictionary learning as in a textbook."""

    threshold: float = 0.05

    def init(self, task: Task, draws: Any, start: Any = None) -> Factors:
        _, N, P = task.sizes
        atoms = task.start.mean if start is None else start.F.mean
        codes = jnp.zeros((N, P), task.Y.dtype) if start is None or start.X is None else start.X.mean
        return Factors(atoms, codes, jnp.asarray(0))

    def step(self, task: Task, state: Factors) -> Factors:
        A = state.atoms / jnp.sqrt(1.0 * task.sizes[1]).astype(task.Y.dtype)
        rate = 1 / jnp.maximum(jnp.sum(A**2), 1e-3)
        X = state.codes + rate * A.T @ task.seen(task.Y - A @ state.codes)
        X = jnp.sign(X) * jnp.maximum(jnp.abs(X) - rate * self.threshold, 0)
        F = state.atoms + task.seen(task.Y - A @ X) @ X.T / jnp.maximum(jnp.sum(X**2), 1)
        return Factors(F, X, state.count + 1)

    def _square(self, task: Task, state: Factors) -> Any:
        fit = state.atoms @ state.codes / jnp.sqrt(1.0 * task.sizes[1]).astype(task.Y.dtype)
        return jnp.mean(task.seen(task.Y - fit) ** 2, axis=0) + 1e-12

    def measure(self, task: Task, state: Factors) -> sp.Measured:
        square = self._square(task, state)
        return sp.Measured(square, square, jnp.zeros((), task.Y.dtype))

    def estimate(self, task: Task, state: Factors) -> sp.Estimate:
        F, X = (Moments(mean, jnp.full_like(mean, 1e-3)) for mean in (state.atoms, state.codes))
        return sp.Estimate(F, X, jnp.sum(state.codes != 0, axis=1).astype(task.Y.dtype), self._square(task, state))

    def free_entropy(self, task: Task, state: Factors) -> Any:
        return -jnp.mean(self._square(task, state))


def assert_sound(solution: sp.Solution, Y: np.ndarray) -> None:
    assert isinstance(solution.status, sp.Status)
    assert solution.reason
    assert np.all(np.isfinite(solution.mean.F))
    assert 0 < solution.residual < np.mean(Y**2)
    assert solution.trace.level.shape == (solution.iterations,)


@pytest.mark.parametrize("eta", [np.inf, 2.0, 0.01], ids=["from scratch", "weak hint", "strong hint"])
def test_it_can_be_searched_with(eta: float) -> None:
    """Inspected and mended, annealed without F', put in the order of F' with a weak one."""
    problem = PROBLEM.replace(eta=eta)
    observed = sp.sample(problem, N, seed=0).observed
    solution = sp.solve(observed, problem, Gradients(), n_atoms=N, search=sp.Search(repair=True), max_iterations=LIMIT)
    assert_sound(solution, observed.Y)


def test_alone_it_starts_from_scratch_goes_on_and_makes_several_runs() -> None:
    observed = sp.sample(PROBLEM, N, seed=0).observed
    options: dict[str, Any] = {"n_atoms": N, "max_iterations": LIMIT, "tolerance": 1e-12}
    alone = sp.solve(observed, PROBLEM, Gradients(), **options)
    assert_sound(alone, observed.Y)
    on = sp.solve(observed, PROBLEM, Gradients(), start=alone, **options)
    assert on.residual < alone.residual
    best = sp.solve(observed, PROBLEM, Gradients(), runs=2, **options)
    assert best.free_entropy >= alone.free_entropy


def test_a_solver_of_ours_that_can_not_reorder_can_be_searched_with() -> None:
    problem = PROBLEM.replace(eta=2.0)
    observed = sp.sample(problem, 6, seed=0).observed
    solution = sp.solve(observed, problem, sp.RelaxedBP(), search=sp.Search(repair=True), max_iterations=60)
    assert_sound(solution, observed.Y)


def test_what_is_left_out_is_named() -> None:
    class Half(sp.Solver):
        def init(self, task: Any, draws: Any, start: Any = None) -> Any:
            return None

    with pytest.raises(TypeError, match="estimate"):
        Half()  # type: ignore[abstract]
