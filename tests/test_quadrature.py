"""The quadrature over the message, against independent integrals."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import oracle
import spinodal as sp
from spinodal.model.quadrature import averages, evaluate
from zoo import PlainGaussian

RHO = ["0.001", "0.02", "0.2", "0.6", "0.95"]
SNR = ["1e-6", "1e-3", "0.3", "2", "20", "300", "1e4", "1e6", "1e9", "1e12"]


@pytest.mark.parametrize("rho", [pytest.param(rho, marks=() if rho == "0.2" else pytest.mark.claims) for rho in RHO])
def test_gauss_bernoulli_mmse_to_nine_digits(rho: str) -> None:
    expected = [float(oracle.gauss_bernoulli_mmse(rho, a)) for a in SNR]
    np.testing.assert_allclose(sp.GaussBernoulli(float(rho)).mmse([float(a) for a in SNR]), expected, rtol=1e-9)


def test_gaussian_by_quadrature_is_the_closed_form() -> None:
    """The built-in prior answers in closed form, the user's one goes through the quadrature."""
    snr = np.geomspace(1e-6, 1e4, 21)
    exact, numerical = averages(sp.Gaussian(0.5, 1.7), snr), averages(PlainGaussian(0.5, 1.7), snr)
    for one, other in zip(exact, numerical, strict=True):
        # The information is a difference of entropies of order one, hence good to 1e-16 absolutely.
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-15)


def test_mixture_is_gauss_bernoulli_and_rademacher() -> None:
    """Two classes, two sets of stable formulas, one distribution."""
    snr = np.geomspace(1e-4, 1e8, 25)
    sparse = averages(sp.GaussBernoulli(0.3, 0.5, 2.0), snr), averages(sp.Mixture([0.7, 0.3], [0.0, 0.5], [0.0, 2.0]), snr)
    signs = averages(sp.Rademacher(1.5), snr), averages(sp.Mixture([0.5, 0.5], [-1.5, 1.5], [0.0, 0.0]), snr)
    for first, second in (sparse, signs):
        for one, other in zip(first, second, strict=True):
            # A mixture's variance is a sum of squared distances to the mean, which rounds at eps^2.
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-31)


def test_scaling_the_prior_is_scaling_the_message() -> None:
    snr = np.geomspace(1e-3, 1e6, 10)
    unit, wide = sp.GaussBernoulli(0.3), sp.GaussBernoulli(0.3, 0.0, 9.0)
    np.testing.assert_allclose(wide.mmse(snr / 9), 9 * unit.mmse(snr), rtol=1e-10)
    np.testing.assert_allclose(wide.information(snr / 9), unit.information(snr), rtol=1e-10)


def test_shapes_chunks_and_the_users_precision_are_respected() -> None:
    prior = sp.GaussBernoulli(0.2)
    many = np.geomspace(1e-3, 1e3, 5000)
    assert prior.mmse(1.0).shape == ()
    assert prior.mmse(many.reshape(50, 100)).shape == (50, 100)
    # 5000 points are evaluated in chunks; each is what it would be alone.
    np.testing.assert_array_equal(prior.mmse(many)[[0, 4095, 4096, 4999]], prior.mmse(many[[0, 4095, 4096, 4999]]))
    assert prior.mmse(many).dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert prior.mmse(np.zeros(0)).shape == (0,)
    assert evaluate(lambda member, x: member * x, np.array([2.0]), np.zeros(0, int), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("snr", [-1.0, np.nan, "much", [1.0, -2.0], None])
def test_bad_ratios_are_refused(snr: object) -> None:
    with pytest.raises(sp.InputError, match="snr"):
        sp.GaussBernoulli(0.2).mmse(snr)
