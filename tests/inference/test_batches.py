"""A batch may mix problems and seeds; every instance has the numbers it would have alone."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import group

PROBLEMS = [sp.Problem.sparse(alpha=0.6, pi=3.0, rho=rho, noise_variance=noise) for rho, noise in ((0.1, 1e-4), (0.2, 1e-6), (0.15, 1e-2))]
SEEDS = [3, 5, 8]
N = 12
ALONE = sp.Search(repair=False)


def arrays(solution: sp.Solution) -> list[np.ndarray]:
    """Everything that has an entry for each instance."""
    parts = (*solution.mean, *solution.variance, *solution.trace, solution.status, solution.reason, solution.iterations)
    return [*parts, solution.residual, solution.free_entropy]


def test_each_instance_has_its_own_problem_and_seed() -> None:
    """Put in another order, the batch gives the same answers in that order."""
    drawn = [sp.sample(problem, N, seed=seed).observed for problem, seed in zip(PROBLEMS, SEEDS, strict=True)]
    solutions = []
    for order in ([0, 1, 2], [2, 0, 1]):
        observed = jax.tree.map(lambda *each: np.stack(each), *(drawn[k] for k in order))
        options: dict[str, Any] = {"n_atoms": N, "seed": [SEEDS[k] for k in order], "max_iterations": 60}
        solutions.append(sp.solve(observed, [PROBLEMS[k] for k in order], search=ALONE, **options))
    for one, other in zip(*map(arrays, solutions), strict=True):
        assert np.array_equal(one[[2, 0, 1]], other, equal_nan=one.dtype.kind == "f")
    assert len({model.noise_variance for model in solutions[0].model}) == 3


@pytest.mark.claims
def test_together_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one compiled loop, as accelerators have it, each stopping and mended in its own time; and one by one."""
    monkeypatch.setattr(group, "one_by_one", lambda: False)
    drawn = [sp.sample(problem, N, seed=seed).observed for problem, seed in zip(PROBLEMS, SEEDS, strict=True)]
    together = sp.solve(jax.tree.map(lambda *each: np.stack(each), *drawn), PROBLEMS, n_atoms=N, seed=SEEDS, max_iterations=60)
    monkeypatch.undo()
    for k, (observed, problem, seed) in enumerate(zip(drawn, PROBLEMS, SEEDS, strict=True)):
        alone = sp.solve(observed, problem, n_atoms=N, seed=seed, max_iterations=60)
        assert together.status[k] == alone.status
        assert together.iterations[k] == alone.iterations
        assert np.allclose(together.mean.X[k], alone.mean.X, rtol=1e-9, atol=1e-12)
        assert together.model[k] == alone.model


def test_what_can_not_be_one_batch_is_refused() -> None:
    observed = sp.sample(PROBLEMS[0], N, seed=0, batch=2).observed
    with pytest.raises(sp.InputError, match="one for each of the 2 instances, but 3"):
        sp.solve(observed, PROBLEMS, n_atoms=N)
    with pytest.raises(sp.InputError, match="one kind"):
        sp.solve(observed, [PROBLEMS[0], PROBLEMS[0].replace(prior=sp.Pair(sp.Gaussian(), sp.Laplace()))], n_atoms=N)
    strong, weak = (PROBLEMS[0].replace(eta=eta) for eta in (0.01, 1.0))
    with pytest.raises(sp.InputError, match="one kind"):
        sp.solve(sp.sample(weak, N, seed=0, batch=2).observed, [strong, weak])
    with pytest.raises(sp.InputError, match=r"seed must be one, or one for each of the 2"):
        sp.solve(observed, PROBLEMS[0], n_atoms=N, seed=[1, 2, 3])
