"""Missing entries: errors at the state evolution's prediction for the share of Y that was observed, and the holes filled in."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp

OBSERVED = 0.7


def easy(alpha: float, eta: float) -> sp.Problem:
    """A point where 30% less is still enough for every signal, whatever its share of holes and nonzeros."""
    return sp.Problem.sparse(alpha=alpha, pi=6.0, rho=0.1, eta=eta, noise_variance=1e-6, observed_fraction=OBSERVED)


@pytest.mark.parametrize(
    ("N", "alpha", "eta", "instances"),
    [(60, 1.5, 0.1, 2), *(pytest.param(200, 0.7, eta, 4, marks=pytest.mark.slow) for eta in (0.1, np.inf))],
)
@pytest.mark.claims
def test_errors_are_those_predicted_for_the_share_observed(N: int, alpha: float, eta: float, instances: int) -> None:
    problem = easy(alpha, eta)
    predicted = sp.amp_mse(problem).mse
    instance = sp.sample(problem, N, seed=300, batch=instances)
    solution = sp.solve(instance.observed, problem, n_atoms=N)
    assert np.all(solution.status == "converged")
    D, E, holes = [], [], []
    for k in range(instances):
        mean, truth = solution[k].mean, sp.Pair(*(value[k] for value in instance.truth))
        found = sp.score(mean, truth)
        D.append(found.mse_scaled.F if eta < 1 else found.mse_aligned.F)
        E.append(np.mean(found.signals))
        off = (mean.F @ mean.X - truth.F @ truth.X) / np.sqrt(N)
        holes.append(np.mean(off[np.isnan(instance.observed.Y[k])] ** 2))
    assert 0.9 < np.mean(D) / predicted.F < 1.2
    assert 0.9 < np.mean(E) / predicted.X < 1.2
    # z = F X/sqrt(N) where nobody looked: the errors of both factors, which are then independent of the entry's own noise.
    assert 0.9 < np.mean(holes) / (0.1 * predicted.F + predicted.X - predicted.F * predicted.X) < 1.25
    # Not what it would be with nothing missing.
    complete = sp.amp_mse(problem.replace(observed_fraction=1.0)).mse
    assert np.mean(D) > 1.3 * complete.F
    assert np.mean(E) > 1.3 * complete.X
