"""A batch may mix problems and seeds; every instance has the numbers it would have alone."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import spinodal as sp

PROBLEMS = [sp.Problem.sparse(alpha=0.6, pi=3.0, rho=rho, noise_variance=noise) for rho, noise in ((0.1, 1e-4), (0.2, 1e-6), (0.15, 1e-2))]
SEEDS = [3, 5, 8]
N = 12
SOLVER = sp.AMP(repair=False)


def test_each_instance_has_its_own_problem_and_seed() -> None:
    """Put in another order, the batch gives the same answers in that order."""
    drawn = [sp.sample(problem, N, seed=seed).observed for problem, seed in zip(PROBLEMS, SEEDS, strict=True)]
    solutions = []
    for order in ([0, 1, 2], [2, 0, 1]):
        observed = jax.tree.map(lambda *each: np.stack(each), *(drawn[k] for k in order))
        options: dict[str, Any] = {"n_atoms": N, "seed": [SEEDS[k] for k in order], "max_iterations": 60}
        solutions.append(sp.solve(observed, [PROBLEMS[k] for k in order], SOLVER, **options))
    for one, other in zip(jax.tree.leaves(solutions[0]), jax.tree.leaves(solutions[1]), strict=True):
        assert np.array_equal(one[[2, 0, 1]], other, equal_nan=one.dtype.kind == "f")
    assert len(set(solutions[0].parameters.noise)) == 3


@pytest.mark.slow
def test_in_a_batch_and_alone() -> None:
    drawn = [sp.sample(problem, N, seed=seed).observed for problem, seed in zip(PROBLEMS, SEEDS, strict=True)]
    together = sp.solve(jax.tree.map(lambda *each: np.stack(each), *drawn), PROBLEMS, n_atoms=N, seed=SEEDS, max_iterations=60)
    for k, (observed, problem, seed) in enumerate(zip(drawn, PROBLEMS, SEEDS, strict=True)):
        alone = sp.solve(observed, problem, n_atoms=N, seed=seed, max_iterations=60)
        assert together.status[k] == alone.status
        assert together.iterations[k] == alone.iterations
        assert np.allclose(together.mean.X[k], alone.mean.X, rtol=1e-9, atol=1e-12)
        assert np.allclose(together.parameters.noise[k], alone.parameters.noise)


def test_what_can_not_be_one_batch_is_refused() -> None:
    observed = sp.sample(PROBLEMS[0], N, seed=0, batch=2).observed
    with pytest.raises(sp.InputError, match="one for each of the 2 instances, but 3"):
        sp.solve(observed, PROBLEMS, n_atoms=N)
    with pytest.raises(sp.InputError, match="one kind"):
        sp.solve(observed, [PROBLEMS[0], PROBLEMS[0].replace(eta=1.0)], n_atoms=N)
    with pytest.raises(sp.InputError, match=r"seed must be one, or one for each of the 2"):
        sp.solve(observed, PROBLEMS[0], n_atoms=N, seed=[1, 2, 3])
