"""Iteration by iteration: the undamped algorithm against the state evolution, in the limit of large N."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.solvers.data import make_data
from spinodal.solvers.state import rescaled

STEPS = 8
# Noise and eta are such that the errors fall gently: where they fall by a factor an iteration, so does the 1/N correction grow.
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=1.0, rho=0.1, eta=1e-2, noise_variance=1e-2)
# No damping, no residual floor, no gauge: what the state evolution describes. Clipping acts in the first iteration only, on the gain of
# the echo of an X that nobody has estimated yet.
PLAIN = sp.AMP(damping=0.0, residual_floor=0.0, gauge=False, repair=False)
# Instances per size: self-averaging makes the larger ones as precise.
SIZES = {100: 32, 200: 16, 400: 8}


def trajectories(n: int, instances: int) -> np.ndarray:
    """Errors (F or X, instance, iteration) of the algorithm run from its own start, one step at a time."""
    drawn = sp.sample(PROBLEM, n, seed=1, batch=instances)

    def one(arguments: tuple[sp.Observed, np.ndarray, np.ndarray]) -> tuple[jax.Array, jax.Array]:
        observed, F, X = arguments
        data = make_data(observed, PROBLEM, n, "noisy", "float64")

        def step(state, _):
            state = PLAIN.step(data, state, 1.0)
            here = rescaled(state)
            return state, (jnp.mean((here.F.mean - F) ** 2), jnp.mean((here.X.mean - X) ** 2))

        return jax.lax.scan(step, PLAIN.init(data, jax.random.key(0)), None, length=STEPS)[1]

    with jax.enable_x64(True):
        return np.array(jax.jit(lambda *drawn: jax.lax.map(one, drawn))(drawn.observed, *drawn.truth))


@pytest.fixture(scope="module")
def measured() -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Mean and standard error over instances, for each size."""
    found = {}
    for n, instances in SIZES.items():
        values = trajectories(n, instances)
        found[n] = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(instances)
    return found


def predicted() -> np.ndarray:
    mse = sp.state_evolution(PROBLEM, max_iterations=STEPS, tolerance=0.0).mse
    return np.array([mse.F[1:], mse.X[1:]])


def test_the_deviation_from_state_evolution_falls_with_size(measured: dict[int, tuple[np.ndarray, np.ndarray]]) -> None:
    """Signals differ in their number of nonzeros, which costs a correction of order 1/N to the mean error on X."""
    deviation = {n: np.abs(mean[1] / predicted()[1] - 1) for n, (mean, _) in measured.items()}
    assert np.all(deviation[100] > deviation[200])
    assert np.all(deviation[200] > deviation[400])
    assert np.all(deviation[400] < 0.1)


def test_extrapolated_to_large_size_every_iteration_is_the_state_evolution(measured: dict[int, tuple[np.ndarray, np.ndarray]]) -> None:
    (small, small_error), (large, large_error) = measured[200], measured[400]
    limit, error = 2 * large - small, np.hypot(2 * large_error, small_error)
    assert np.all(np.abs(limit - predicted()) < 3 * error)
    # The error bars are small enough for this to mean something: errors fall by a factor of eight on the way.
    assert np.all(error < 0.02 * predicted())
    assert predicted()[1, 0] > 4 * predicted()[1, -1]
