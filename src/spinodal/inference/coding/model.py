"""What is assumed of the samples whose codes are sought, and what is found: the types that EP and VAMP share.

sample = codes @ components + noise,    most codes zero, the components known in mean and variance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

# The least noise variance, as a share of the power of the model: below it rounding errors win.
_LEAST_NOISE = 1e-10
# How many codes of a sample the common density counts for, where samples have densities of their own.
_COMMON_WEIGHT = 4.0


class Slab(NamedTuple):
    """Prior of a code: zero with probability 1 - density, else normal. A number for all, or an array that goes with the codes'."""

    density: Any
    mean: Any
    variance: Any


class CodingModel(NamedTuple):
    """Components (atoms x features) in mean and variance, the prior of the codes, and the noise variance.

    Samples may have densities of their own, found on the way: the common one then weighs as much as `density_weight` codes. `fast` gives
    up some precision for speed.
    """

    components: np.ndarray
    uncertainty: np.ndarray
    slab: Slab
    noise_variance: float
    density_weight: float = np.inf
    fast: bool = False


class Codes(NamedTuple):
    """What is known of every code: posterior mean and variance, probability of not being zero, mean and variance if it is not.

    And of each sample: log evidence, in nats, and the variance of codes @ components that the codes leave, feature by feature.
    """

    mean: np.ndarray
    variance: np.ndarray
    probability: np.ndarray
    slab_mean: np.ndarray
    slab_variance: np.ndarray
    evidence: np.ndarray
    signal_variance: np.ndarray


class Sites(NamedTuple):
    """Gaussian factors exp(nu x - tau x^2/2) in place of the priors."""

    tau: np.ndarray
    nu: np.ndarray


class Tilted(NamedTuple):
    """The prior under a Gaussian message: log of the integral, mean, variance, probability of not being zero, and what holds if so."""

    log_integral: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    probability: np.ndarray
    slab_mean: np.ndarray
    slab_variance: np.ndarray


class Progress(NamedTuple):
    """Where the iteration stands: the sites, the codes as the last cavities had them, and the density of each sample."""

    sites: Sites
    codes: Tilted
    density: np.ndarray


def tilted(slab: Slab, a: np.ndarray, b: np.ndarray) -> Tilted:
    """The spike-and-slab prior times exp(b x - a x^2/2): what GaussBernoulli's log_partition and posterior say, in NumPy."""
    rho, m, v = slab
    spread = 1 + a * v
    log_odds = np.log(rho) - np.log1p(-rho) - np.log(spread) / 2 + (b * m - a * m**2 / 2 + b**2 * v / 2) / spread
    p = expit(log_odds)
    value, width = (m + v * b) / spread, v / spread
    return Tilted(np.log1p(-rho) + np.logaddexp(0, log_odds), p * value, p * (width + (1 - p) * value**2), p, value, width)


def rows_of(values: Any, which: np.ndarray) -> Any:
    """Some rows of every array of a NamedTuple."""
    return type(values)(*(value[which] for value in values))


def least_noise(model: CodingModel) -> float:
    """The noise variance, kept from zero."""
    power = model.slab.density * (model.slab.variance + model.slab.mean**2) * np.mean(np.sum(np.square(model.components), axis=0))
    return float(max(model.noise_variance, _LEAST_NOISE * power, np.finfo(float).tiny ** 0.5))


def own_density(model: CodingModel, probability: np.ndarray) -> np.ndarray:
    """The density of each sample: the common one, moved to what its codes say if samples may differ."""
    share = probability.shape[1] / (model.density_weight + probability.shape[1])
    return model.slab.density + share * (probability.mean(axis=1, keepdims=True) - model.slab.density)


def density_weight(own_density: bool) -> float:
    """How many codes the common density weighs as much as."""
    return _COMMON_WEIGHT if own_density else np.inf
