"""Unknown sensors, solved for: with F known, with a hint, in one call."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.evaluation.scoring import align


def aligned_error(X: np.ndarray, truth: np.ndarray) -> float:
    """Mean square error of the typical signal, a common scale fitted."""
    scale = np.sum(X * truth) / np.sum(X * X)
    return float(np.median(np.mean((scale * X - truth) ** 2, axis=0)))


@pytest.fixture(scope="module")
def array() -> tuple[sp.Problem, sp.Instance, sp.Solution]:
    sensors = sp.Sensors(1e-4, sp.LogNormalGains(0.3), 0.05, 0.06, 0.3)
    problem = sp.Problem.sparse(alpha=0.8, pi=2.0, rho=0.15, eta=0.01).replace(channel=sensors)
    instance = sp.sample(problem, 100, seed=0)
    return problem, instance, sp.calibrate(instance.observed.Y, instance.observed.F_prime)


@pytest.mark.claims
def test_one_call_is_as_good_as_being_told_everything(array: tuple[sp.Problem, sp.Instance, sp.Solution]) -> None:
    problem, instance, found = array
    told = sp.solve(instance.observed, problem)
    assert found.status == "converged"
    assert aligned_error(found.mean.X, instance.truth.X) < 1.1 * aligned_error(told.mean.X, instance.truth.X)
    learned = found.model.channel.learnable()
    assert learned["gain_spread"] == pytest.approx(0.3, rel=0.25)  # of 73 gains
    assert learned["variance"] == pytest.approx(1e-4, rel=0.3)


@pytest.mark.claims
def test_faults_are_named_and_gains_lie_in_their_intervals(array: tuple[sp.Problem, sp.Instance, sp.Solution]) -> None:
    _, instance, found = array
    clean = instance.truth.F @ instance.truth.X / 10
    related = np.array([np.corrcoef(y, z)[0, 1] for y, z in zip(instance.observed.Y, clean, strict=True)])
    readings = found.sensors
    np.testing.assert_array_equal(readings.faulty > 0.5, related < 0.5)
    works = related > 0.5
    true = np.array([np.polyfit(z, y, 1)[0] for y, z in zip(instance.observed.Y, clean, strict=True)])[works]
    mean, spread = readings.gain.mean[works], np.sqrt(readings.gain.variance[works])
    scale = np.exp(np.median(np.log(true / mean)))
    within = np.mean(np.abs(mean * scale - true) < 1.645 * spread)
    assert abs(within - 0.9) < 5 * np.sqrt(0.09 / works.sum())


@pytest.mark.claims
def test_the_report_shows_each_sensor(array: tuple[sp.Problem, sp.Instance, sp.Solution], tmp_path: Path) -> None:
    found = array[2]
    page = found.report(tmp_path / "page.html").read_text()
    assert "The sensors" in page
    assert "suspected of a fault" in page
    assert "suspected of a fault" in found.summary()
    assert found.to_xarray()["gain"].shape == (80,)


@pytest.mark.parametrize(
    ("sensors", "alpha", "P"),
    [
        (sp.SensorGains(1e-8, gains=sp.UniformGains(0.6, 1.4)), 0.7, 3),
        pytest.param(sp.FaultySensors(1e-8, 0.2, 0.2), 0.8, 3, marks=pytest.mark.claims),
        pytest.param(sp.SensorOffsets(1e-8, 0.5), 0.7, 5, marks=pytest.mark.claims),
    ],
    ids=["gains", "faulty", "offsets"],
)
def test_few_signals_with_the_matrix_known(sensors: sp.Sensors, alpha: float, P: int) -> None:
    """Cal-AMP's case: F known, as few signals as it takes."""
    problem = sp.Problem.sparse(alpha=alpha, pi=P / 100, rho=0.15, eta=0.0).replace(channel=sensors)
    instance = sp.sample(problem, 100, seed=2)
    found = sp.solve(instance.observed, problem, max_iterations=1500).mean.X
    cosine = np.sum(found * instance.truth.X) / np.sqrt(np.sum(found**2) * np.sum(instance.truth.X**2))
    assert cosine > 0.999


@pytest.mark.claims
def test_missing_entries(array: tuple[sp.Problem, sp.Instance, sp.Solution]) -> None:
    problem, _, _ = array
    holes = problem.replace(observed_fraction=0.7, pi=3.0)
    instance = sp.sample(holes, 60, seed=3)
    found = sp.solve(instance.observed, holes)
    assert aligned_error(found.mean.X, instance.truth.X) < 3 * sp.amp_mse(holes).mse.X


@pytest.mark.claims
@pytest.mark.parametrize(
    ("channel", "alpha", "pi", "n"),
    [(sp.FaultySensors(1e-3, 0.05, 0.1), 1.2, 10.0, 100), (sp.SensorGains(1e-3, 0.3), 1.2, 8.0, 80), (sp.Poisson(100.0), 1.5, 14.0, 50)],
    ids=["faults", "gains", "counts"],
)
def test_from_scratch(channel: sp.Channel, alpha: float, pi: float, n: int) -> None:
    """Many signals in a row must not call all sensors faulty while nothing is known, nor drift along the size of a row of F; and counts
    are no columns of F to start from."""
    problem = sp.Problem.sparse(alpha=alpha, pi=pi, rho=0.1, eta=np.inf).replace(channel=channel)
    instance = sp.sample(problem, n, seed=700)
    solution = sp.solve(instance.observed, problem, n_atoms=n, runs=2, max_iterations=1000)
    assert str(solution.status) == "converged"
    X, truth = align(solution.mean, instance.truth).X, instance.truth.X
    X = X * np.sum(X * truth) / np.sum(X**2)  # of all gains a common factor is free
    # So many counts are Gaussian noise on the logarithm, whose prediction takes no minute.
    predicted = sp.amp_mse(problem.replace(channel=sp.GaussianNoise(1e-2)) if isinstance(channel, sp.Poisson) else problem).mse
    assert np.mean((X - truth) ** 2) < 1.5 * predicted.X
    if isinstance(channel, sp.FaultySensors):
        Z = instance.truth.F @ instance.truth.X / np.sqrt(n)
        dead = np.mean((instance.observed.Y - Z) ** 2, axis=1) > 10 * 1e-3
        np.testing.assert_array_equal(solution.sensors.faulty > 0.5, dead)


def test_not_all_sensors_are_faulty_while_it_is_hot() -> None:
    """With w = 0 and the heat in the variance of z, noise of the signals' own power explains each row better than the signals do."""
    rng = np.random.default_rng(0)
    y, V, heat, sensors = np.sqrt(0.1) * rng.normal(size=(100, 2000)), 0.1, 0.06, sp.FaultySensors(1e-3, 0.05, 0.1)
    with jax.enable_x64(True):
        taken_for_evidence = np.asarray(sensors.output_where(y, 0 * y, V + heat, None).precision)[:, 0]
        hot = np.asarray(sensors.output_where(y, 0 * y, V, None, heat).precision)[:, 0]
        far_off = np.asarray(sensors.output_where(y, 3 * y, V, None, heat).precision)[:, 0]  # a fit that is worse than none
        cold = np.asarray(sensors.output_where(y, 3 * y, V, None).precision)[:, 0]
    whole = 1 / (V + heat + 1e-3)
    assert np.sum(taken_for_evidence > 0.5 * whole) == 0
    assert np.sum(hot > 0.5 * whole) > 90
    assert 85 < np.sum(far_off > 0.5 * whole) < 100
    assert np.sum(cold > 0.1) == 0  # without heat each row speaks for itself


def test_the_size_of_a_row_is_held_where_its_gain_is_unknown() -> None:
    """Row m of F three times too large, its gain three times too small: Y is explained, and the size still comes back."""
    from spinodal.inference.messages.gauge import row_step
    from spinodal.inference.messages.update import first_state
    from spinodal.inference.task import make_task

    problem = sp.Problem.sparse(alpha=1.0, pi=5.0, rho=0.2, eta=np.inf).replace(channel=sp.SensorGains(1e-3, 0.3))
    instance = sp.sample(problem, 60, seed=1)
    F, X = instance.truth
    with jax.enable_x64(True):
        task = make_task(instance.observed, problem, 60, "float64", sp.Pair(False, False))
        tripled = F * np.where(np.arange(60) == 7, 3.0, 1.0)[:, None]
        moments = [type(task.start)(jnp.asarray(mean), jnp.full(mean.shape, 1e-3)) for mean in (tripled, X)]
        state, power = first_state(task, *moments), jnp.sum(X**2 + 1e-3, axis=1)
        for _ in range(30):
            state = row_step(task, state, power, True)
        settled = np.asarray(state.F.mean)
        same = row_step(task._replace(channel=sp.GaussianNoise(1e-3)), state, power, True)
    size = np.mean(settled**2, axis=1)
    np.testing.assert_allclose(settled / np.sqrt(size)[:, None], F / np.sqrt(np.mean(F**2, axis=1))[:, None], rtol=1e-10)
    assert np.abs(size - 1).max() < 0.2  # of 60 entries, with what the law of the gains adds
    np.testing.assert_array_equal(np.asarray(same.F.mean), settled)


def test_bad_input() -> None:
    with pytest.raises(sp.InputError, match="spread must be"):
        sp.SensorGains(0.1, spread=0.0)
    with pytest.raises(sp.InputError, match="high must be a finite number above low"):
        sp.UniformGains(1.0, 1.0)
    with pytest.raises(sp.InputError, match="gains must be"):
        sp.Sensors(0.1, gains=0.3)  # type: ignore[arg-type]
    with pytest.raises(sp.InputError, match="F0 must be a matrix"):
        sp.calibrate(np.ones((3, 4)), None)


def test_by_name() -> None:
    from spinodal.model.channels import named_channel

    assert named_channel("gains:spread=0.2").gains == sp.LogNormalGains(0.2)  # type: ignore[attr-defined]
    assert named_channel("gains:low=0.6,high=1.4").gains == sp.UniformGains(0.6, 1.4)  # type: ignore[attr-defined]
    assert named_channel("faulty:faulty=0.1").faulty == 0.1  # type: ignore[attr-defined]
    with pytest.raises(sp.InputError, match="channel gains must have its parameters"):
        named_channel("gains:width=3")
