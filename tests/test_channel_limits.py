"""Channels in their limits, against each other, by name, and with data that they can't have put out."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import spinodal as sp
from spinodal.errors import InputError
from spinodal.model.channels import named_channel
from whole import whole

RNG = np.random.default_rng(0)
W, V = RNG.normal(size=200), 0.05


def outputs(channel: sp.Channel, y: Any) -> np.ndarray:
    """g and precision, one below the other."""
    return np.stack([np.broadcast_to(value, W.shape) for value in whole("output", channel, y, W, V)])


def test_many_bits_are_gaussian_noise_of_a_twelfth_of_the_squared_step() -> None:
    step = 0.05
    fine = sp.Quantized(np.arange(-8, 8, step), variance=0.01)
    y = np.asarray(whole("sample", fine, jax.random.key(0), W))
    found, expected = outputs(fine, y), outputs(sp.GaussianNoise(0.01 + step**2 / 12), y)
    np.testing.assert_allclose(found, expected, atol=2 * step**2 * np.abs(expected).max())
    np.testing.assert_allclose(
        whole("log_partition", fine, y, W, V) - np.log(step), whole("log_partition", sp.GaussianNoise(0.01), y, W, V), atol=0.1
    )


def test_one_bit_is_a_quantiser_of_one_threshold() -> None:
    y = np.where(RNG.random(200) < 0.5, 1.0, -1.0)
    np.testing.assert_allclose(outputs(sp.OneBit(0.0, 0.02), y), outputs(sp.Quantized([0.0], 0.02), y), rtol=1e-9, atol=1e-12)


def test_a_threshold_far_away_says_nothing() -> None:
    assert np.max(np.abs(outputs(sp.OneBit(-1e6, 0.1), np.ones(200)))) < 1e-12


@pytest.mark.parametrize(
    ("channel", "close"),
    [
        (sp.StudentNoise(0.2, 1e6), 1e-4),
        (sp.Clipped(-np.inf, np.inf, 0.04), 1e-12),
        (sp.Outliers(0.04, 1e-12, 1.0), 1e-6),
    ],
    ids=["student", "clipped", "outliers"],
)
def test_at_the_end_of_their_parameters_they_are_gaussian_noise(channel: sp.Channel, close: float) -> None:
    y = W + 0.3 * RNG.normal(size=200)
    expected = outputs(sp.GaussianNoise(0.04), y)
    np.testing.assert_allclose(outputs(channel, y), expected, atol=close * np.abs(expected).max())


def test_counts_at_a_high_rate_are_gaussian_noise_on_the_logarithm() -> None:
    rate = 1e6
    y = np.round(rate * np.exp(W))
    found, expected = outputs(sp.Poisson(rate), y), outputs(sp.GaussianNoise(1 / y), np.log(y / rate))
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-3)


def test_channels_have_names() -> None:
    assert named_channel("gaussian:variance=0.1") == sp.GaussianNoise(0.1)
    assert named_channel("clipped:low=-1, high=2") == sp.Clipped(-1.0, 2.0)
    assert named_channel("binary:link=logistic") == sp.Binary("logistic")
    assert named_channel("quantized:bits=3,reach=2").levels.size == 8
    assert named_channel("poisson") == sp.Poisson()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("radio", "channel must be one of"),
        ("clipped:lo=1", "key=value with low, high, variance"),
        ("clipped:low", "key=value"),
        ("clipped:low=x", "low of the channel clipped must be a number"),
        ("clipped:low=2,high=1", "low must be below high"),
        ("quantized:bits=2.5", "bits must be a whole number"),
        ("quantized:bits=inf", "bits must be a whole number"),
        ("outliers:share=2", "share must be"),
        ("outliers:variance=2,outlier_variance=1", "outlier_variance must be above"),
        ("student:nu=0", "nu must be"),
        ("binary:link=other", "link must be one of"),
        ("poisson:rate=-1", "rate must be"),
    ],
)
def test_bad_words_are_refused_in_a_sentence(words: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        named_channel(words)


@pytest.mark.parametrize("thresholds", [[1.0, 0.0], [], [0.0, np.nan], [[0.0, 1.0]]])
def test_thresholds_must_rise(thresholds: Any) -> None:
    with pytest.raises(InputError, match="thresholds must be finite numbers in rising order"):
        sp.Quantized(thresholds)


@pytest.mark.parametrize(
    ("channel", "complaint"),
    [
        (sp.Poisson(3.0), "must hold counts"),
        (sp.OneBit(), "must hold -1 and 1"),
        (sp.Binary(), "must hold 0 and 1"),
        (sp.Clipped(-0.1, 0.1), "must lie between low = -0.1 and high = 0.1"),
    ],
    ids=["poisson", "one bit", "binary", "clipped"],
)
def test_data_that_the_channel_can_not_have_put_out_are_refused(channel: sp.Channel, complaint: str) -> None:
    Y = np.random.default_rng(1).normal(size=(6, 30))
    with pytest.raises(InputError, match=complaint):
        sp.solve(Y, n_atoms=4, channel=channel)


@pytest.mark.parametrize(
    "given", [{"channel": 3.0}, {"channel": sp.Clipped(), "noise_variance": 0.1}, {"channel": sp.Clipped(), "model": sp.Model()}]
)
def test_a_channel_that_is_said_twice_or_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"channel|noise_variance"):
        sp.solve(np.random.default_rng(1).uniform(-1, 1, (6, 30)), n_atoms=4, **given)


def test_the_theory_refuses_more_counts_and_thresholds_than_it_can_sum_over() -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=3.0, rho=0.1)
    with pytest.raises(InputError, match="counts of at most"):
        sp.amp_mse(problem.replace(channel=sp.Poisson(1e9)))
    with pytest.raises(InputError, match="thresholds must be at most"):
        sp.amp_mse(problem.replace(channel=sp.Quantized.uniform(bits=8, reach=1.0)))


@pytest.mark.claims
def test_the_right_channel_is_better_than_gaussian_noise_and_knows_it() -> None:
    """18% of the entries are cut off: told so, the error of F is a tenth, and the evidence higher."""
    detector = sp.Clipped(-0.4, 0.4, 1e-3)
    instance = sp.sample(sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.1).replace(channel=detector), 40, seed=0)
    Y = instance.observed.Y
    right, wrong = (sp.solve(Y, n_atoms=40, density=0.1, **given) for given in ({"channel": detector}, {}))
    errors = [float(np.mean(sp.score(each.mean, instance.truth).angle)) for each in (right, wrong)]
    assert right.status == "converged"
    assert not right.warnings
    assert any('channel="clipped"' in words for words in wrong.warnings)
    assert errors[0] < 0.2 * errors[1]
    assert right.free_entropy > wrong.free_entropy


def test_a_hazard_is_that_of_log_ndtr_everywhere() -> None:
    from scipy.special import log_ndtr

    from spinodal.model.channels.cells import hazard

    t = np.concatenate([np.linspace(-60, 8, 2001), [-20.0, -20.0001, 40.0]])
    expected = np.exp(-(t**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(t))
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(hazard(t)), expected, rtol=1e-10)
        assert float(hazard(-1e4)) == pytest.approx(1e4 + 1e-4, rel=1e-14)
    single = np.asarray(hazard(np.linspace(-30, 8, 501).astype(np.float32)))
    expected = np.interp(np.linspace(-30, 8, 501), t[:2001], expected[:2001])
    np.testing.assert_allclose(single, expected, rtol=2e-3, atol=1e-6)


def test_mills_ratio_is_that_of_scipy_from_zero_to_infinity() -> None:
    from scipy.special import erfcx

    from spinodal.model.channels.cells import mills

    t = np.concatenate([np.linspace(0, 30, 1001), np.geomspace(30, 1e10, 101)])
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(mills(t)), np.sqrt(np.pi / 2) * erfcx(t / np.sqrt(2)), rtol=5e-15)
        np.testing.assert_array_equal(np.asarray(mills(-t)), np.asarray(mills(t)))


@pytest.mark.parametrize("w", [0.0, 0.3, -4.0, 30.0, -300.0])
def test_cells_that_cover_the_line_tell_nothing_together(w: float) -> None:
    from spinodal.model.channels.cells import cell_output, log_between

    edges = np.array([-np.inf, -1.0, -0.9, 0.0, 0.7, np.inf])
    with jax.enable_x64(True):
        low, high, level = edges[:-1], edges[1:], 0.25
        g, precision = (np.asarray(value) for value in cell_output(low, high, w, level))
        probability = np.exp(np.asarray(log_between((low - w) / 0.5, (high - w) / 0.5)))
    # The mean slope vanishes, and its mean square is the mean precision.
    assert np.sum(probability) == pytest.approx(1, abs=1e-12)
    assert np.sum(probability * g) == pytest.approx(0, abs=1e-9)
    assert np.sum(probability * precision) == pytest.approx(np.sum(probability * g**2), rel=1e-8, abs=1e-12)
    assert np.all(np.isfinite(g))
    assert np.all((precision >= 0) & (precision <= 1 / level))


def test_a_cell_without_end_is_a_tail() -> None:
    from spinodal.model.channels.cells import cell_output, tail_output

    w = np.concatenate([np.linspace(-8, 8, 101), [-1e3, 1e3]])
    with jax.enable_x64(True):
        for sign, low, high in ((1.0, 0.2, np.inf), (-1.0, -np.inf, 0.2)):
            cell, tail = cell_output(low, high, w, 0.3), tail_output(sign, 0.2, w, 0.3)
            np.testing.assert_allclose(np.asarray(cell.g), np.asarray(tail.g), rtol=1e-12, atol=1e-300)
            np.testing.assert_allclose(np.asarray(cell.precision), np.asarray(tail.precision), rtol=1e-9, atol=1e-14)


def test_few_thresholds_are_compared_and_many_looked_up_alike() -> None:
    edges = np.linspace(-1, 1, 15)
    y = np.concatenate([edges, edges + 1e-9, np.linspace(-2, 2, 101)])
    few = sp.Quantized(edges)._cell(y)
    many = sp.Quantized(np.concatenate([edges, np.linspace(3, 4, 20)]))._cell(y)
    np.testing.assert_array_equal(np.asarray(few[0]), np.asarray(many[0]))
    np.testing.assert_array_equal(np.minimum(np.asarray(few[1]), 3), np.asarray(many[1]))
