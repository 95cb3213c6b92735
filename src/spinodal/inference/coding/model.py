"""What is assumed of the samples whose codes are sought, and what is found: the types that EP and VAMP share.

sample = codes @ components + noise,    most codes zero, the components known in mean and variance.

Everything here follows the precision and the device of its arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# The least noise variance of a feature, as a share of the power of the model: below it rounding errors win.
_LEAST_NOISE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
# How many codes of a sample the common density counts for, where samples have densities of their own.
_COMMON_WEIGHT = 4.0
# A density that is raised for one sample stays below this.
_HIGHEST_DENSITY = 0.99


class Slab(NamedTuple):
    """Prior of a code: zero with probability 1 - density, else normal. The density is a number for all, or one for each atom."""

    density: Any
    mean: Any
    variance: Any


class CodingModel(NamedTuple):
    """Components (atoms x features) in mean and variance, the prior of the codes, and the noise variance (one, or one a feature).

    Samples may have densities of their own, found on the way: the common one then weighs as much as `density_weight` codes
    (infinite, or None, for samples that have the common one). `fast` gives up some precision for speed.
    """

    components: Any
    uncertainty: Any
    slab: Slab
    noise_variance: Any
    density_weight: Any = np.inf
    fast: bool = False


class Codes(NamedTuple):
    """What is known of every code: posterior mean and variance, probability of not being zero, mean and variance if it is not.

    And of each sample: log evidence, in nats, and the variance of codes @ components that the codes leave, feature by feature.
    """

    mean: Any
    variance: Any
    probability: Any
    slab_mean: Any
    slab_variance: Any
    evidence: Any
    signal_variance: Any


class Sites(NamedTuple):
    """Gaussian factors exp(nu x - tau x^2/2) in place of the priors."""

    tau: jax.Array
    nu: jax.Array


class Tilted(NamedTuple):
    """The prior under a Gaussian message: log of the integral, mean, variance, probability of not being zero, and what holds if so."""

    log_integral: jax.Array
    mean: jax.Array
    variance: jax.Array
    probability: jax.Array
    slab_mean: jax.Array
    slab_variance: jax.Array


class Progress(NamedTuple):
    """Where the iteration stands: the sites, moments of the codes as the last cavities had them, the density of each sample over the
    common one, and how many iterations there were."""

    sites: Sites
    mean: jax.Array
    variance: jax.Array
    density: jax.Array
    age: jax.Array


def tilted(slab: Slab, a: jax.Array, b: jax.Array) -> Tilted:
    """The spike-and-slab prior times exp(b x - a x^2/2): what GaussBernoulli's log_partition and posterior say."""
    rho, m, v = slab
    spread = 1 + a * v
    log_spike, exponent = jnp.log1p(-rho), (b * m - a * m**2 / 2 + b**2 * v / 2) / spread
    log_slab = jnp.log(rho) - jnp.log(spread) / 2 + exponent
    # The chances of the spike over those of the slab without logs, which take longer than all the rest; no product of 0 and infinity.
    most = jnp.log(jnp.finfo(spread.dtype).max) / 2
    p = 1 / (1 + (1 - rho) / rho * jnp.sqrt(spread) * jnp.exp(jnp.clip(-exponent, -most, most)))
    value, width = (m + v * b) / spread, v / spread
    return Tilted(jnp.logaddexp(log_spike, log_slab), p * value, p * (width + (1 - p) * value**2), p, value, width * jnp.ones_like(p))


def site_precision(slab: Slab, a: jax.Array, new: Tilted) -> jax.Array:
    """1/variance - a, without the loss of digits where the code is surely not zero: there it is 1/v."""
    p = new.probability
    ratio = p * (1 + (1 - p) * new.slab_mean**2 / new.slab_variance)  # of the variance to that of a code which is not zero
    return (1 / slab.variance + a) / jnp.maximum(ratio, jnp.finfo(ratio.dtype).tiny) - a


def density_of(model: CodingModel, slab: Slab, ratio: jax.Array) -> jax.Array:
    """Densities of the codes of samples that have `ratio` times the common one."""
    if model.density_weight is None:
        return slab.density
    return jnp.minimum(slab.density * ratio, jnp.maximum(slab.density, _HIGHEST_DENSITY))


def own_density(model: CodingModel, probability: jax.Array) -> jax.Array | float:
    """The density of each sample over the common one: 1, moved to what its codes say if samples may differ."""
    if model.density_weight is None:
        return 1.0
    codes = jnp.count_nonzero(model.slab.density)  # atoms that fill a block up have the density 0
    share = codes / (model.density_weight + codes)
    return 1 + share * (probability.sum(axis=1, keepdims=True) / jnp.sum(model.slab.density) - 1)


def least_noise(model: CodingModel, dtype: Any = np.float64) -> np.ndarray:
    """The noise variance of every feature, kept from zero."""
    density = np.broadcast_to(model.slab.density, len(model.components))
    power = density * (model.slab.variance + model.slab.mean**2) @ np.square(model.components, dtype=np.float64)
    least = _LEAST_NOISE[np.dtype(dtype)] * np.mean(power)
    return np.maximum(np.broadcast_to(model.noise_variance, power.shape), max(float(least), np.finfo(np.float64).tiny ** 0.5))


def density_weight(own_density: bool) -> float:
    """How many codes the common density weighs as much as."""
    return _COMMON_WEIGHT if own_density else np.inf
