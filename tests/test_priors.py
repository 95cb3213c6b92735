"""Particular priors: closed forms, independent integrals, and parameters that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import spinodal as sp
from spinodal.model.priors.halfline import cut_moments, log_mills
from whole import whole
from zoo import PRIORS, ThreePoint

MESSAGES = [(0.5, 0.3), (0.5, -2.0), (4.0, 6.0), (4.0, 0.0), (30.0, -25.0), (30.0, 60.0), (1e-3, 0.05), (2.0, 14.0)]


def densities() -> dict[str, tuple[sp.Prior, float, Callable[[float], float], float]]:
    """Continuous parts by their own formula: prior, weight of the atom at zero, density, left end."""
    laplace = sp.Laplace(0.7)
    half = sp.NonnegativeGaussBernoulli(0.35, 1.8)
    return {
        "laplace": (laplace, 0.0, lambda x: np.exp(-abs(x) / 0.7) / 1.4, -np.inf),
        "nonnegative": (half, 0.65, lambda x: 0.35 * np.sqrt(2 / (np.pi * 1.8)) * np.exp(-(x**2) / 3.6), 0.0),
    }


@pytest.mark.parametrize("kind", ["laplace", "nonnegative"])
@pytest.mark.parametrize(("a", "b"), MESSAGES)
def test_half_line_priors_against_adaptive_quadrature(kind: str, a: float, b: float) -> None:
    prior, atom, density, left = densities()[kind]
    peak = b / a
    edges = np.unique(np.clip(peak + np.array([-40, -8, -2, 0, 2, 8, 40]) / np.sqrt(a), max(left, -60), 60))
    edges = np.unique(np.concatenate([edges, [0.0]])) if edges[0] <= 0 <= edges[-1] else edges
    top = b**2 / (2 * a)  # taken out of the exponent: no overflow

    def moment(k: int) -> float:
        at_zero = atom * np.exp(-top) if k == 0 else 0.0
        return at_zero + oracle.integral(lambda x: x**k * density(x) * np.exp(b * x - a * x**2 / 2 - top), edges)

    Z, first, second = moment(0), moment(1), moment(2)
    log_z = float(whole("log_partition", prior, a, b))
    mean, variance = (float(value) for value in whole("posterior", prior, a, b))
    assert log_z == pytest.approx(np.log(Z) + top, rel=1e-9, abs=1e-10)
    assert mean == pytest.approx(first / Z, rel=1e-9, abs=1e-12)
    assert variance == pytest.approx(second / Z - (first / Z) ** 2, rel=1e-7)


@pytest.mark.parametrize("kind", ["laplace", "nonnegative"])
@pytest.mark.parametrize("a", [3.0, *(pytest.param(a, marks=pytest.mark.claims) for a in (0.05, 200.0))])
def test_half_line_mmse_against_adaptive_quadrature(kind: str, a: float) -> None:
    """E[x^2] - E[mean^2] with the density of u integrated by scipy: another route than the mean posterior variance."""
    prior, *_ = densities()[kind]
    with jax.enable_x64(True):
        evaluate = jax.jit(lambda u: (prior.log_evidence(a, u), prior.posterior(a, np.sqrt(a) * u).mean))

        def integrand(u: float) -> float:
            log_p, mean = evaluate(u)
            return float(np.exp(log_p) / np.sqrt(2 * np.pi) * mean**2)

        ends = 10 + 28 * np.sqrt(a)
        overlap = oracle.integral(integrand, np.array([-ends, -8.0, 0.0, 8.0, ends]))
        expected = float(prior.second_moment()) - overlap
    assert float(prior.mmse(a)) == pytest.approx(expected, rel=1e-8)


def test_mills_ratio_and_cut_moments_join_smoothly() -> None:
    """Against mpmath on both sides of the switch to the series at t = 25, and far into both tails."""
    import mpmath as mp

    t = np.array([-30.0, -5.0, -0.1, 0.0, 0.1, 5.0, 24.999, 25.0, 25.001, 40.0, 1e3, 1e6])
    with mp.workdps(60):
        mills = [mp.exp(mp.mpf(x) ** 2 / 2) * mp.sqrt(mp.pi / 2) * mp.erfc(mp.mpf(x) / mp.sqrt(2)) for x in t]
        means = [1 / h - mp.mpf(x) for h, x in zip(mills, t, strict=True)]
        variances = [1 - m * (m + mp.mpf(x)) for m, x in zip(means, t, strict=True)]
        logs = [float(mp.log(h)) for h in mills]
    with jax.enable_x64(True):
        mean, variance = (np.asarray(value) for value in cut_moments(t))
        log_h = np.asarray(log_mills(t))
    np.testing.assert_allclose(log_h, logs, rtol=1e-11, atol=1e-14)
    # Just below the switch the closed forms have lost eps t^2 (mean) and eps t^4 (variance).
    np.testing.assert_allclose(mean, [float(m) for m in means], rtol=1e-11)
    np.testing.assert_allclose(variance, [float(v) for v in variances], rtol=1e-7)


def test_known_closed_forms() -> None:
    snr = np.geomspace(1e-3, 1e3, 7)
    np.testing.assert_allclose(sp.Gaussian(0.3, 2.0).mmse(snr), 2 / (1 + 2 * snr), rtol=1e-13)
    np.testing.assert_allclose(sp.Gaussian(0.3, 2.0).information(snr), np.log1p(2 * snr) / 2, rtol=1e-13)
    # A dense Gauss-Bernoulli prior is nearly Gaussian, continuously so.
    assert float(sp.GaussBernoulli(1 - 1e-9).mmse(2.0)) == pytest.approx(1 / 3, rel=1e-7)


def test_discrete_information_saturates_at_the_entropy() -> None:
    assert float(sp.Rademacher().information(1e4)) == pytest.approx(np.log(2), rel=1e-12)
    rho = 0.4
    entropy = -(1 - rho) * np.log(1 - rho) - rho * np.log(rho / 2)
    assert float(ThreePoint(rho).information(1e4)) == pytest.approx(entropy, rel=1e-10)


def test_priors_of_two_classes_are_never_the_same_pytree() -> None:
    structures = {jax.tree.structure(prior) for prior in (sp.Laplace(), sp.Rademacher(), sp.Gaussian(), PRIORS["user's gaussian"])}
    assert len(structures) == 4


def test_a_prior_without_the_two_methods_says_so() -> None:
    class Empty(sp.Prior):
        pass

    with pytest.raises(TypeError, match="Empty must define log_partition"):
        Empty().log_partition(1.0, 0.0)
    with pytest.raises(TypeError, match="Empty must define sample"):
        Empty().sample(jax.random.key(0), (1,))


not_positive = st.one_of(st.floats(max_value=0.0), st.just(np.nan), st.just(np.inf), st.sampled_from(["wide", None, True, [1.0, -1.0]]))
not_a_density = st.one_of(st.floats(max_value=0.0), st.floats(min_value=1.0), st.just(np.nan), st.sampled_from(["half", None, True]))
not_finite = st.sampled_from([np.nan, np.inf, -np.inf, "middle", None])

REFUSALS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("variance", lambda v: sp.Gaussian(0.0, v), not_positive),
    ("mean", lambda v: sp.Gaussian(v, 1.0), not_finite),
    ("rho", sp.GaussBernoulli, not_a_density),
    ("mean", lambda v: sp.GaussBernoulli(0.5, v), not_finite),
    ("variance", lambda v: sp.GaussBernoulli(0.5, 0.0, v), not_positive),
    ("scale", sp.Rademacher, not_positive),
    ("scale", sp.Laplace, not_positive),
    ("rho", sp.NonnegativeGaussBernoulli, not_a_density),
    ("variance", lambda v: sp.NonnegativeGaussBernoulli(0.5, v), not_positive),
]


@pytest.mark.parametrize(("argument", "make", "bad"), REFUSALS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bad_parameters_are_refused_by_name(argument: str, make: Callable[[Any], Any], bad: Any, data: st.DataObject) -> None:
    value = data.draw(bad)
    with pytest.raises(sp.InputError, match=argument) as refusal:
        make(value)
    assert str(refusal.value).count(".") >= 1
    assert "\n" not in str(refusal.value)


@settings(max_examples=25, deadline=None)
@given(rho=st.floats(1e-3, 0.999), mean=st.floats(-5, 5), variance=st.floats(1e-3, 1e3), a=st.floats(1e-6, 1e6), u=st.floats(-6, 6))
def test_any_gauss_bernoulli_denoiser_shrinks_and_is_certain_of_itself(
    rho: float, mean: float, variance: float, a: float, u: float
) -> None:
    prior = sp.GaussBernoulli(rho, mean, variance)
    with jax.enable_x64(True):
        belief = float(prior.slab_probability(a, np.sqrt(a) * u))
        value, spread = (float(x) for x in prior.posterior(a, np.sqrt(a) * u))
    assert 0 <= belief <= 1
    assert spread >= 0
    assert np.isfinite(value)


@pytest.mark.parametrize(
    ("weights", "means", "variances", "word"),
    [
        ([0.5, 0.6], [0, 1], [1, 1], "sum to 1"),
        ([0.5, 0.5], [0, 1, 2], [1, 1], "one length"),
        ([1.5, -0.5], [0, 1], [1, 1], "weights"),
        ([0.5, 0.5], [0, np.nan], [1, 1], "means"),
        ([0.5, 0.5], [0, 1], [1, -1], "variances"),
        ([], [], [], "lists"),
        (1.0, 0.0, 1.0, "lists"),
    ],
)
def test_bad_mixtures_are_refused(weights: Any, means: Any, variances: Any, word: str) -> None:
    with pytest.raises(sp.InputError, match=word):
        sp.Mixture(weights, means, variances)


def test_a_dimension_that_rounding_spoils_is_asked_for() -> None:
    class TwoWidths(sp.Prior):
        """Zero, or Gaussian of one of two variances: written so that log_partition cancels at large signal-to-noise ratios."""

        def __init__(self, rho: float) -> None:
            self.rho = rho

        def log_partition(self, a: Any, b: Any) -> Any:
            narrow, wide = (b**2 * v / (2 * (1 + a * v)) - jnp.log1p(a * v) / 2 for v in (0.25, 7.75))
            return jnp.logaddexp(jnp.log1p(-self.rho), jnp.log(self.rho) + jnp.logaddexp(narrow, wide) - jnp.log(2.0))

        def sample(self, key: Any, shape: Any) -> Any:
            on, large, value = jax.random.split(key, 3)
            variance = jnp.where(jax.random.bernoulli(large, 0.5, shape), 7.75, 0.25)
            return jax.random.bernoulli(on, self.rho, shape) * jnp.sqrt(variance) * jax.random.normal(value, shape)

    with pytest.raises(sp.InputError, match=r"^TwoWidths must have a method dimension\(\) that returns its information dimension"):
        TwoWidths(0.2).dimension()
