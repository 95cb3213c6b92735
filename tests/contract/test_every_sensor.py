"""What every channel with something unknown in each row must satisfy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from whole import whole

SENSORS: dict[str, sp.Sensors] = {
    "gains": sp.SensorGains(0.05, 0.3),
    "uniform gains": sp.SensorGains(0.05, gains=sp.UniformGains(0.6, 1.4)),
    "noise first": sp.SensorGains(0.05, 0.3, noise_first=True),
    "offsets": sp.SensorOffsets(0.05, 0.4),
    "faulty": sp.FaultySensors(0.05, 0.2, 0.8),
    "all": sp.Sensors(0.05, sp.LogNormalGains(0.4), 0.3, 0.1, 1.0),
}
every = pytest.mark.parametrize("sensors", SENSORS.values(), ids=list(SENSORS))
few_and_many = pytest.mark.parametrize("P", [1, 3, 33])
# Standard errors at which statistical claims are made.
SIGMAS = 5.0


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True):
        yield


def drawn(sensors: sp.Sensors, rows: int, P: int, V: float = 0.2) -> tuple[Any, Any, Any]:
    """y, w and V with z = w + sqrt(V) noise, y from z."""
    rng = np.random.default_rng(P)
    w = rng.standard_normal((rows, P))
    z = w + np.sqrt(V) * rng.standard_normal((rows, P))
    return whole("sample", sensors, jax.random.key(P), z), w, np.full(P, V)


@jax.jit
def brute(sensors: sp.Sensors, y: Any, w: Any, V: Any) -> Any:
    """log of the density of every row: a fine grid of log gains, the offset in the covariance of the row."""
    t, weight = jnp.zeros(1), jnp.ones(1)
    if sensors.gains is not None:
        low, high = sensors.gains.ends()
        t = jnp.linspace(low, high, 1001)
        weight = jnp.exp(sensors.gains.log_density(t)) * (high - low) / 1000
        weight = weight.at[0].mul(0.5).at[-1].mul(0.5)

    def at(t: Any) -> Any:
        d = jnp.exp(t)
        level = d**2 * V + sensors.variance * (d**2 if sensors.noise_first else 1.0)
        shared = 0.0 if sensors.offset_variance is None else sensors.offset_variance
        covariance = jnp.diag(level) + shared
        return jax.vmap(lambda y, w: jax.scipy.stats.multivariate_normal.logpdf(y, d * w, covariance))(y, w)

    total = jax.nn.logsumexp(jax.lax.map(at, t) + jnp.log(weight)[:, None], axis=0)
    if sensors.faulty is None:
        return total
    dead = jnp.sum(jax.scipy.stats.norm.logpdf(y, 0, jnp.sqrt(sensors.fault_variance)), axis=1)
    return jnp.logaddexp(jnp.log1p(-sensors.faulty) + total, jnp.log(sensors.faulty) + dead)


@pytest.mark.claims
@every
@few_and_many
def test_rows_have_the_density_and_slopes_of_brute_force(sensors: sp.Sensors, P: int) -> None:
    y, w, V = drawn(sensors, 2, P)
    np.testing.assert_allclose(whole("log_rows", sensors, y, w, V)[:, 0], brute(sensors, y, w, V), atol=1e-4)
    first = np.zeros_like(w)
    first[:, 0] = 1.0
    slope, bend = jax.jit(lambda w: jax.jvp(jax.grad(lambda w: jnp.sum(brute(sensors, y, w, V))), (w,), (first,)))(w)
    out = whole("output", sensors, y, w, V)
    np.testing.assert_allclose(out.g, slope, atol=1e-3)
    np.testing.assert_allclose(out.precision[:, 0], -bend[:, 0], atol=2e-3)


@every
def test_nishimori(sensors: sp.Sensors) -> None:
    """The mean square of g is the mean precision where y has the law of the channel."""
    out = whole("output", sensors, *drawn(sensors, 4000, 5))
    difference = np.mean(out.g**2 - out.precision, axis=1)
    assert abs(difference.mean()) < SIGMAS * difference.std() / np.sqrt(difference.size)


@every
def test_missing_entries_are_as_if_they_were_not_there(sensors: sp.Sensors) -> None:
    y, w, V = drawn(sensors, 4, 6)
    seen, spoiled = np.ones_like(y), y.copy()
    seen[:, 4:], spoiled[:, 4:] = 0.0, 7.0
    with_holes = whole("output_where", sensors, spoiled, w, V, seen)
    without = whole("output", sensors, y[:, :4], w[:, :4], V[:4])
    for one, other in zip(with_holes, without, strict=True):
        np.testing.assert_allclose(one[:, :4], other, atol=1e-12)
        assert not np.any(one[:, 4:])
    np.testing.assert_allclose(
        np.sum(whole("log_densities", sensors, y, w, V, seen)),
        np.sum(whole("log_rows", sensors, y[:, :4], w[:, :4], V[:4])),
        rtol=1e-12,
    )


@every
def test_readings_are_right_as_often_as_they_say(sensors: sp.Sensors) -> None:
    """Draws are put in bins of what is said of them: gains within their intervals, faults as often as their probability."""
    y, w, V = drawn(sensors, 2000, 4)
    found = whole("readings", sensors, y, w, V)
    if sensors.faulty is not None:
        share = float(np.mean(found.faulty))
        assert abs(share - sensors.faulty) < SIGMAS * np.sqrt(sensors.faulty / 2000)
    if sensors.offset_variance is not None:
        total = np.var(found.offset.mean) + np.mean(found.offset.variance)  # the law of total variance
        assert float(total) == pytest.approx(sensors.offset_variance, rel=SIGMAS * np.sqrt(2 / 2000))


@pytest.mark.claims
@every
def test_the_theory_knows_the_latents_with_many_signals(sensors: sp.Sensors) -> None:
    """With P large, E[g^2] of whole rows is what `averages` says, in which gains, offsets and faults cost nothing."""
    out = whole("output", sensors, *drawn(sensors, 300, 400))
    expected = 1 / (sensors.averages(0.2, power=1.2).equivalent_noise + 0.2)
    by_row = np.mean(np.asarray(out.g) ** 2, axis=1)
    assert by_row.mean() == pytest.approx(float(expected), abs=SIGMAS * by_row.std() / np.sqrt(300) + 0.01 * float(expected))


def test_sensors_that_are_all_alike_are_gaussian_noise() -> None:
    y, w, V = drawn(SENSORS["gains"], 3, 5)
    alike = whole("output", sp.SensorGains(0.05, spread=1e-6), y, w, V)
    plain = whole("output", sp.GaussianNoise(0.05), y, w, V)
    np.testing.assert_allclose(alike.g, plain.g, rtol=1e-4)
    np.testing.assert_allclose(alike.precision, np.broadcast_to(plain.precision, y.shape), rtol=1e-4)


CHANNELS = {
    **SENSORS,
    "gaussian": sp.GaussianNoise(0.1),
    "outliers": sp.Outliers(0.1, 0.1, 2.0),
    "student": sp.StudentNoise(0.3, 4.0),
    "clipped": sp.Clipped(-0.4, 0.4, 0.1),
    "quantized": sp.Quantized.uniform(bits=2, reach=1.0, variance=0.1),
    "one bit": sp.OneBit(0.0, 0.1),
    "probit": sp.Binary("probit", 1.0),
    "logistic": sp.Binary("logistic", 1.0),
    "counts": sp.Poisson(3.0, 0.5),
}


@pytest.mark.claims
@pytest.mark.parametrize("channel", CHANNELS.values(), ids=list(CHANNELS))
def test_what_is_learned_has_slopes(channel: sp.Channel) -> None:
    """The derivatives that learning uses, against finite differences."""
    z = np.random.default_rng(0).standard_normal((3, 8))
    y = whole("sample", channel, jax.random.key(1), z)
    assert channel.learnable()
    for name, value in channel.learnable().items():

        def likelihood(log: Any, name: str = name) -> Any:
            return jnp.sum(channel.relearned({name: jnp.exp(log)}).log_densities(y, 0.7 * z, 0.3, None))

        here, step = float(np.log(value)), 1e-4
        slope = jax.jit(lambda log: jax.jvp(likelihood, (log,), (1.0,))[1])(here)
        ahead, behind = jax.jit(jax.vmap(likelihood))(np.array([here + step, here - step]))
        measured = (ahead - behind) / (2 * step)
        assert float(slope) == pytest.approx(float(measured), rel=1e-4, abs=1e-5), name
