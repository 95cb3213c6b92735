"""Sparse codes of many samples at once: vector approximate message passing for complete samples of one model.

As in ep.py every prior is replaced by a Gaussian factor, but its precision is the same for all codes of a sample, in units in which the
components have norm 1 and the noise variance 1. The posteriors of all samples then share their eigenvectors: an iteration is two products
of matrices, where ep.py inverts a matrix for each sample. (Rangan, Schniter and Fletcher, Vector approximate message passing, IEEE Trans.
Inf. Theory 65, 2019.)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..execution.machine import suited
from .model import Codes, CodingModel, Progress, Sites, Slab, Tilted, density_of, own_density, tilted

# Share of the new sites in an iteration; from iteration PATIENT on it falls by a factor e every _SLOWER, until even cycles end.
_STEP, PATIENT, _SLOWER, ITERATIONS = 0.5, 10, 30, 120
# A sample has settled when its codes change by less than this many standard deviations of the slab, by precision. In single precision it
# is speed that counts: patches of photographs then take 10 iterations in the mean, and are as good as with 1e-3 to .15 dB.
SETTLED = {"float64": 1e-3, "float32": 2.5e-2}
# Fields of the codes that a run has at hand.
AT_HAND = ("mean",)
# The precision is that of the data.
PRECISION = None
# Precisions of sites, in units of the slab's.
_WIDEST_SITE, _NARROWEST_SITE = 1e-3, {64: 1e9, 32: 1e7}
# Numbers in the largest array of a block of samples: what the caches of a core hold, and what keeps a GPU busy.
_BLOCK, _GPU_BLOCK = 500_000, 1 << 24


class Basis(NamedTuple):
    """The model in units in which components have norm 1 and the noise variance 1: norms, slab, and singular vectors and values.

    `doubt` is what the square of a code adds to the noise of a sample by the uncertainty of its component.
    """

    model: CodingModel
    norms: jax.Array
    slab: Slab
    left: jax.Array  # atoms x rank
    values: jax.Array
    right: jax.Array  # rank x features, of whitened data
    doubt: jax.Array


class Belief(NamedTuple):
    """The posterior with sites in place of priors: cavities, the log of its integral, the noise, and variances along singular vectors."""

    cavity: Sites
    log_integral: jax.Array
    noise: jax.Array
    along: jax.Array


def ready(model: CodingModel) -> Basis:
    """The basis, from arrays of any precision, in that precision. Not to be traced."""
    G, noise = (np.asarray(value, dtype=np.float64) for value in (model.components, model.noise_variance))
    white = G / np.sqrt(noise)
    norms = np.linalg.norm(white, axis=1)
    norms = np.maximum(norms, np.finfo(np.float32).eps * max(norms.max(), np.finfo(np.float32).tiny))
    left, values, right = np.linalg.svd(white / norms[:, None], full_matrices=False)
    uncertainty = np.asarray(model.uncertainty, dtype=np.float64)
    real = np.count_nonzero((G != 0).any(axis=0) | (uncertainty > 0).any(axis=0))  # features that do not fill up
    doubt = np.sum(uncertainty / noise, axis=1) / max(real, 1) / norms**2
    slab = model.slab._replace(mean=model.slab.mean * norms, variance=model.slab.variance * norms**2)
    dtype = model.components.dtype
    parts = (jnp.asarray(part, dtype) for part in (norms, slab.mean, slab.variance, left, values, right / np.sqrt(noise), doubt))
    norms, mean, variance, left, values, right, doubt = parts
    return Basis(model, norms, Slab(model.slab.density, mean, variance), left, values, right, doubt)


def size_of_block(atoms: int, features: int) -> int:
    """How many samples are worked on together."""
    return max(1, suited(_BLOCK, _GPU_BLOCK) // max(atoms, features))


def size_of_codes(at: Basis) -> jax.Array:
    """Standard deviations of the slab."""
    return jnp.sqrt(at.slab.variance)


def start(at: Basis, samples: int) -> Progress:
    """Sites as wide as the prior, one tau for each sample; codes are in units of the basis from here on."""
    nothing = jnp.zeros((samples, len(at.norms)), at.norms.dtype)
    prior = tilted(at.slab, nothing, nothing)
    tau = 1 / _mean(at, prior.variance)
    one = jnp.ones((samples, 1), at.norms.dtype)
    return Progress(Sites(tau, prior.mean * tau), prior.mean, prior.variance, one, 0 * one)


def advance(at: Basis, y: jax.Array, seen: jax.Array, old: Progress) -> tuple[Progress, Tilted, Belief]:
    """One iteration: sites moved by a share that falls with age, the codes, and the belief it started from."""
    belief = _belief(at, y, seen, old)
    a, b = belief.cavity
    new = tilted(at.slab._replace(density=density_of(at.model, at.slab, old.density)), a, b)
    p = new.probability
    ratio = p * (1 + (1 - p) * new.slab_mean**2 / new.slab_variance)
    unit = 1 / _mean(at, at.slab.variance * (at.slab.density > 0))
    mean_variance = jnp.maximum(_mean(at, new.variance), jnp.finfo(a.dtype).tiny)
    open_still = _mean(at, (1 - ratio) * (at.slab.density > 0) + ratio / (1 + a * at.slab.variance))  # 1 - a * variance, no digits lost
    tau = jnp.clip(open_still / mean_variance, _WIDEST_SITE * unit, _NARROWEST_SITE[jnp.finfo(a.dtype).bits] * unit)
    step = _STEP * jnp.exp(-jnp.maximum(old.age - PATIENT, 0) / _SLOWER)
    target = Sites(tau, new.mean * (a + tau) - b)
    sites = Sites(*(was + step * (to - was) for was, to in zip(old.sites, target, strict=True)))
    density = old.density + step * (own_density(at.model, p) - old.density)
    return Progress(sites, new.mean, new.variance, density, old.age + 1), new, belief


def published(at: Basis, y: jax.Array, seen: jax.Array, run: Progress) -> Codes:
    """Codes in the units of the model, with the evidence and the variances of the signal. Means are those that have settled."""
    _, codes, belief = advance(at, y, seen, run)
    _, _, variance, probability, value, width = codes
    slack = _mean(at, variance) / _mean_of_belief(at, belief, run.sites)
    shape = (at.left.T @ (at.model.components / at.norms[:, None])) ** 2
    signal = slack * (belief.along @ shape)
    n = at.norms
    return Codes(run.mean / n, variance / n**2, probability, value / n, width / n**2, evidence(at, belief, run.sites, codes), signal)


def evidence(at: Basis, belief: Belief, sites: Sites, new: Tilted) -> jax.Array:
    """log of the integral over the codes: the Gaussian one, with each site's share replaced by the prior's."""
    tau, nu = belief.cavity.tau + sites.tau, belief.cavity.nu + sites.nu
    shares = new.log_integral - jnp.where(at.slab.density > 0, (nu**2 / tau - jnp.log(tau)) / 2, 0)
    return belief.log_integral + jnp.sum(shares, axis=1)


def explained(at: Basis, belief: Belief, sites: Sites) -> jax.Array:
    """Variances of codes @ components under the Gaussian."""
    return belief.along @ (at.left.T @ (at.model.components / at.norms[:, None])) ** 2


def second_moments(at: Basis, belief: Belief, sites: Sites, mean: jax.Array, weight: jax.Array, key: jax.Array) -> jax.Array:
    """Sums of weight (samples x 1) times E[codes codes^T] over samples, codes in the units of the model."""
    w = weight[:, 0]
    along, beside = w @ belief.along, w @ (1 / sites.tau)[:, 0]
    spread = (at.left * (along - beside)) @ at.left.T + beside * jnp.eye(len(at.norms), dtype=mean.dtype)
    return ((mean * weight).T @ mean + spread / (at.norms[:, None] * at.norms))[None]


def _mean(at: Basis, values: jax.Array) -> jax.Array:
    """The mean over atoms, those that fill a block up left out: they have nothing but zeros."""
    return jnp.sum(values, axis=-1, keepdims=True) / jnp.count_nonzero(at.slab.density)


def _mean_of_belief(at: Basis, belief: Belief, sites: Sites) -> jax.Array:
    atoms, rank = jnp.count_nonzero(at.slab.density), at.values.shape[0]
    return (jnp.sum(belief.along, axis=1, keepdims=True) + (atoms - rank) / sites.tau) / atoms


def _belief(at: Basis, y: jax.Array, seen: jax.Array, old: Progress) -> Belief:
    tau, nu = old.sites
    noise = 1 + ((old.mean**2 + old.variance) @ at.doubt)[:, None]
    square = at.values**2
    told = square / (square + noise * tau)  # the data's share of what is known along a singular vector
    data = (y @ at.right.T) * at.values / noise
    sites = nu @ at.left
    move = ((1 - told) * data - told * sites) @ at.left.T
    share = jnp.sum(told, axis=1, keepdims=True) / jnp.count_nonzero(at.slab.density)
    share = jnp.clip(share, jnp.finfo(y.dtype).eps, 1 - jnp.finfo(y.dtype).eps)
    cavity = Sites(tau * share / (1 - share), (move + nu * share) / (1 - share))
    variance = (1 - told) / tau
    atoms, rank = jnp.count_nonzero(at.slab.density), at.values.shape[0]
    exponent = jnp.sum((data + sites) ** 2 * variance, axis=1) + (jnp.sum(nu**2, axis=1) - jnp.sum(sites**2, axis=1)) / tau[:, 0]
    energy = jnp.sum(y**2 / at.model.noise_variance / noise, axis=1)
    energy += jnp.sum(seen * jnp.log(2 * jnp.pi * at.model.noise_variance * noise), axis=1)
    width = jnp.sum(jnp.log(variance), axis=1) - (atoms - rank) * jnp.log(tau[:, 0])
    return Belief(cavity, (exponent + width - energy) / 2, noise, variance)
