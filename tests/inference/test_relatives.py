"""Solvers against one another: limits in which two of them are the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.experiments import FIGURE_4, follow
from spinodal.inference.task import make_task

# Undamped iterations in which AMP and belief propagation are compared; at eta = 1 both come apart after some more.
STEPS = 4
ALONE = sp.Search(repair=False)
CALIBRATION = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)


@pytest.fixture(scope="module")
def compressed_sensing() -> tuple[sp.Problem, sp.Instance]:
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.1, eta=0.0, noise_variance=1e-6)
    return problem, sp.sample(problem, 100, seed=3, batch=4)


@pytest.mark.claims
def test_with_a_known_matrix_joint_amp_is_amp_for_the_signals(compressed_sensing: tuple[sp.Problem, sp.Instance]) -> None:
    problem, instance = compressed_sensing
    joint, alone = (sp.solve(instance.observed, problem, solver) for solver in (sp.AMP(), sp.MUAMP()))
    assert np.array_equal(joint.mean.F, instance.truth.F)
    assert np.all(joint.variance.F == 0)
    assert np.array_equal(joint.iterations, alone.iterations)
    assert np.allclose(joint.mean.X, alone.mean.X, rtol=1e-9, atol=1e-12)
    assert np.allclose(joint.variance.X, alone.variance.X, rtol=1e-9, atol=1e-15)
    assert np.allclose(joint.free_entropy, alone.free_entropy, rtol=1e-9)


@pytest.mark.claims
def test_with_a_known_matrix_the_error_is_that_of_compressed_sensing(compressed_sensing: tuple[sp.Problem, sp.Instance]) -> None:
    """Its state evolution in one line, E = mmse(alpha/(Delta + E)), solved here by itself and not through the factorization's."""
    problem, instance = compressed_sensing
    solution = sp.solve(instance.observed, problem)
    E = 0.1
    for _ in range(500):
        E = float(problem.prior.X.mmse(0.5 / (1e-6 + E)))
    assert sp.amp_mse(problem).mse.X == pytest.approx(E, rel=1e-6)
    errors = np.mean((solution.mean.X - instance.truth.X) ** 2, axis=1)
    settled = errors < 1e-4
    assert np.mean(settled) > 0.97
    assert np.mean(errors[settled]) == pytest.approx(E, rel=0.15)


@pytest.mark.claims
def test_a_small_eta_is_continuous_with_a_known_matrix(compressed_sensing: tuple[sp.Problem, sp.Instance]) -> None:
    problem, instance = compressed_sensing
    known = sp.solve(instance.observed, problem)
    almost = sp.solve(instance.observed, problem.replace(eta=1e-12))
    assert np.allclose(almost.mean.F, known.mean.F, atol=1e-6)
    errors = np.mean((almost.mean.X - known.mean.X) ** 2, axis=1)
    assert np.quantile(errors, 0.95) < 1e-3 * sp.amp_mse(problem).mse.X


def differences(problem: sp.Problem, n: int, instances: int, steps: int) -> np.ndarray:
    """Mean squared differences between AMP's and belief propagation's means over the predicted errors: (F or X, iteration)."""
    observed = sp.sample(problem, n, seed=2, batch=instances).observed
    reference = sp.RelaxedBP(damping=0.0, residual_floor=0.0)

    def one(observed: sp.Observed) -> list[jax.Array]:
        task = make_task(observed, problem, n, "float64", sp.Pair(False, False))
        found = (follow(task, steps, lambda mean: mean, solver) for solver in (None, reference))
        return [jnp.mean((amp - bp) ** 2, axis=(1, 2)) for amp, bp in zip(*found, strict=True)]

    with jax.enable_x64(True):
        squares = np.mean(jax.jit(lambda observed: jax.lax.map(one, observed))(observed), axis=1)
    expected = sp.state_evolution(problem, max_iterations=steps, tolerance=0.0).mse
    return squares / np.array([np.asarray(mse)[1:] for mse in expected])


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(CALIBRATION, id="eta=0.1"),
        pytest.param(sp.Problem.sparse(pi=3.0, **FIGURE_4[1]), id="eta=1e-2", marks=pytest.mark.claims),
        pytest.param(sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=1.0, noise_variance=1e-8), id="eta=1", marks=pytest.mark.claims),
    ],
)
@pytest.mark.claims
def test_iteration_by_iteration_amp_approaches_belief_propagation(problem: sp.Problem) -> None:
    """Squared differences fall as 1/N^2 at large N: by 16 over a factor of four, here by at least 6 as such sizes are not large."""
    small, large = differences(problem, 16, 16, STEPS), differences(problem, 64, 4, STEPS)
    # F has heard nothing in the first iteration: both have it as F' says.
    assert np.all(large[0, 0] < 1e-12)
    assert np.all(small[0, 1:] > 6 * large[0, 1:])
    assert np.all(small[1] > 6 * large[1])


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(((12, 8), (48, 2)), id="small"),
        pytest.param(((12, 16), (24, 8), (48, 4)), id="large", marks=pytest.mark.claims),
    ],
)
@pytest.mark.claims
def test_amp_ends_where_belief_propagation_does_as_size_grows(sizes: tuple[tuple[int, int], ...]) -> None:
    """The defaults of both, run to the end. The difference falls for the typical signal and on average. No rate is claimed here: a few
    signals carry most of the average.

    The number of instances falls with N so that the sizes are compared on similar numbers of signals. At N = 12 some runs of AMP go round
    and round (2 of 16, their level by 1%), and say so.
    """
    error = sp.amp_mse(CALIBRATION).mse.X
    average, typical = [], []
    for n, instances in sizes:
        instance = sp.sample(CALIBRATION, n, seed=2, batch=instances)
        amp = sp.solve(instance.observed, CALIBRATION, search=ALONE)
        reference = sp.solve(instance.observed, CALIBRATION, sp.RelaxedBP())
        assert np.all((amp.status == "converged") | ((n == 12) & (amp.status == "max_iterations")))
        assert np.all(reference.status == "converged")
        by_signal = np.mean((amp.mean.X - reference.mean.X) ** 2, axis=1) / error
        average.append(np.mean(by_signal))
        typical.append(np.median(by_signal))
    assert np.all(np.diff(average) < 0)
    assert np.all(np.diff(typical) < 0)
    assert average[-1] < 0.2
    assert typical[-1] < 0.02


@pytest.mark.claims
def test_variance_structures_agree_where_signals_are_alike() -> None:
    """Scalar, row-column and entry variances are averages of the same thing; at a benign point the estimates agree."""
    instance = sp.sample(CALIBRATION, 48, seed=2, batch=4)
    entry, shared, scalar = (
        sp.solve(instance.observed, CALIBRATION, sp.AMP(variance=name), search=ALONE) for name in ("entry", "row-column", "scalar")
    )
    error = np.mean((entry.mean.X - instance.truth.X) ** 2)
    assert np.mean((entry.mean.X - shared.mean.X) ** 2) < 0.1 * error
    assert np.mean((entry.mean.X - scalar.mean.X) ** 2) < 0.5 * error


@pytest.mark.claims
def test_alternating_updates_end_where_parallel_ones_do() -> None:
    """The same fixed points, so the same errors and the same uncertainties, also where errors are as small as the noise lets them be. Of
    the typical instance: at this size a hard signal may blur an atom."""
    for problem in (CALIBRATION, CALIBRATION.replace(channel=sp.GaussianNoise(1e-6))):
        instance = sp.sample(problem, 48, seed=2, batch=4)
        ends = [sp.solve(instance.observed, problem, solver, search=ALONE) for solver in (sp.AMP(), sp.BiGAMP())]
        assert all(np.all(end.status == "converged") for end in ends)
        parallel, alternating = (
            np.array(
                [sp.score(sp.Pair(F, X), sp.Pair(*truth)).mse_scaled.F for F, X, *truth in zip(*end.mean, *instance.truth, strict=True)]
            )
            for end in ends
        )
        assert np.median(alternating / parallel) == pytest.approx(1, abs=0.01)
        ratio = np.mean(ends[1].variance.F, axis=(1, 2)) / np.mean(ends[0].variance.F, axis=(1, 2))
        assert np.all(np.abs(ratio - 1) < 0.05)


@pytest.mark.claims
def test_learning_the_matrix_beats_being_uncertain_about_it() -> None:
    instance = sp.sample(CALIBRATION, 48, seed=2, batch=4)
    learned, uncertain = (sp.solve(instance.observed, CALIBRATION, solver, search=ALONE) for solver in (sp.AMP(), sp.MUAMP()))
    assert np.mean((learned.mean.X - instance.truth.X) ** 2) < np.mean((uncertain.mean.X - instance.truth.X) ** 2)
    assert np.mean((learned.mean.F - instance.truth.F) ** 2) < np.mean((uncertain.mean.F - instance.truth.F) ** 2)
