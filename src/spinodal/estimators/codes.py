"""Sparse codes of samples given the components: expectation propagation for a linear model with a spike-and-slab prior.

    sample = codes @ components + noise,    the components known in mean and variance.

Every sample is on its own here, and a few hundred atoms at most, so the posterior's covariance can be kept whole instead of being
averaged as message passing for large systems does: evidences and codes are then close to exact, whatever the components' correlations.
(Where that takes too long, see shared.py.)
The prior of each code is replaced by a Gaussian factor (a "site") exp(nu x - tau x^2/2) whose mean and variance under the rest (the
"cavity") are those of the prior itself. What the uncertainty of the components adds is counted as noise, feature by feature.

NumPy, not JAX: samples that have settled leave, so the arrays shrink from one iteration to the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

# Share of the new sites in an iteration; from iteration _PATIENT on it falls by a factor e every _PATIENT, until even cycles end.
_STEP, _PATIENT, _ITERATIONS = 0.6, 40, 160
# A sample has settled when its codes change by less than this many standard deviations of the slab; the second number if in a hurry.
_SETTLED, _SETTLED_FAST = 1e-5, 1e-3
# Precisions of sites, in units of the slab's: a site as wide as this tells nothing, one as narrow as that leaves nothing open.
_WIDEST_SITE, _NARROWEST_SITE = 1e-3, 1e12
# The least noise variance, as a share of the power of the model: below it rounding errors win.
_LEAST_NOISE = 1e-10
# Numbers in the largest array of a block of samples.
_BLOCK = 2_000_000


class Slab(NamedTuple):
    """Prior of a code: zero with probability 1 - density, else normal. A number for all, or an array that goes with the codes'."""

    density: Any
    mean: Any
    variance: Any


class Model(NamedTuple):
    """Components (atoms x features) in mean and variance, the prior of the codes, and the noise variance.

    Samples may have densities of their own, found on the way: the common one then counts as much as `counts` codes do. `fast`: in a hurry.
    """

    components: np.ndarray
    uncertainty: np.ndarray
    slab: Slab
    noise: float
    counts: float = np.inf
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


class Belief(NamedTuple):
    """The posterior with sites in place of priors: variances and means of the codes, and what the log of its integral is made of."""

    variance: np.ndarray
    mean: np.ndarray
    exponent: np.ndarray
    matrix: np.ndarray  # its determinant, times that of the sites' precisions, is the posterior precision's
    width: np.ndarray  # of the sites, and two more of the factors that `covariance` is made of
    inverse: np.ndarray
    K: np.ndarray


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


def infer_codes(model: Model, data: np.ndarray) -> Codes:
    """Codes of the samples (rows) of `data`, NaN where it was not observed, in float64."""
    data = np.asarray(data, dtype=np.float64)
    components, uncertainty = (np.asarray(value, dtype=np.float64) for value in model[:2])
    model = model._replace(components=components, uncertainty=uncertainty, noise=least_noise(model))
    width = block_width(model)
    blocks = [_infer_block(model, data[start : start + width]) for start in range(0, len(data), width)]
    return Codes(*(np.concatenate(values) for values in zip(*blocks, strict=True)))


def block_width(model: Model, whole: bool = False) -> int:
    """Samples to work on together, also where the `whole` covariance of their codes is wanted."""
    side = len(model.components) if whole else min(model.components.shape)
    return max(1, _BLOCK // max(model.components.size, side**2))


def least_noise(model: Model) -> float:
    """The noise variance, kept from zero."""
    power = model.slab.density * (model.slab.variance + model.slab.mean**2) * np.mean(np.sum(np.square(model.components), axis=0))
    return float(max(model.noise, _LEAST_NOISE * power, np.finfo(float).tiny ** 0.5))


def start(model: Model, samples: int) -> Progress:
    """Sites that say what the prior's mean and variance say."""
    nothing = np.zeros((samples, len(model.components)))
    prior = tilted(model.slab, nothing, nothing)
    return Progress(Sites(1 / prior.variance, prior.mean / prior.variance), prior, np.full((samples, 1), model.slab.density))


def own_density(model: Model, probability: np.ndarray) -> np.ndarray:
    """The density of each sample: the common one, moved to what its codes say if samples may differ."""
    share = probability.shape[1] / (model.counts + probability.shape[1])
    return model.slab.density + share * (probability.mean(axis=1, keepdims=True) - model.slab.density)


def advance(model: Model, data: np.ndarray, old: Progress, step: float) -> tuple[Progress, Belief, Sites]:
    """One iteration: sites moved by the share `step`; the belief it started from, and its cavities."""
    noise = model.noise + (old.codes.mean**2 + old.codes.variance) @ model.uncertainty
    belief = _belief(model, data, noise, old.sites)
    cavity = _cavity(belief, old.sites)
    new = tilted(model.slab._replace(density=old.density), *cavity)
    sites = Sites(*(was + step * (target - was) for was, target in zip(old.sites, _sites(model.slab, new, cavity), strict=True)))
    return Progress(sites, new, own_density(model, new.probability)), belief, cavity


def _infer_block(model: Model, data: np.ndarray) -> Codes:
    run = start(model, len(data))
    codes = np.zeros((5, len(data), len(model.components)))
    found = Codes(codes[0], codes[1], codes[2], codes[3], codes[4], np.zeros(len(data)), np.zeros(data.shape))
    going = np.arange(len(data))
    close = (_SETTLED_FAST if model.fast else _SETTLED) * np.sqrt(model.slab.variance)
    for k in range(_ITERATIONS):
        new, belief, cavity = advance(model, data[going], run, _STEP * np.exp(-max(k - _PATIENT, 0) / _PATIENT))
        keep = np.max(np.abs(new.codes.mean - run.codes.mean), axis=1) > close
        done = ~keep | (k == _ITERATIONS - 1)
        leaving = [_rows(part, done) for part in (belief, run.sites, cavity, new.codes)]
        for whole, part in zip(found, (*leaving[3][1:], evidence(*leaving), _signal_variance(model, leaving[0], leaving[3])), strict=True):
            whole[going[done]] = part
        going, run = going[keep], Progress(_rows(new.sites, keep), _rows(new.codes, keep), new.density[keep])
        if going.size == 0:
            break
    return found


def _rows(values: Any, which: np.ndarray) -> Any:
    """Some rows of every array of a NamedTuple."""
    return type(values)(*(value[which] for value in values))


def _belief(model: Model, data: np.ndarray, noise: np.ndarray, sites: Sites) -> Belief:
    """The Gaussian posterior with precision G W G^T + diag(tau), W = 1/noise where observed, through the smaller of two matrices."""
    G = model.components
    seen = ~np.isnan(data)
    y, w = np.where(seen, data, 0), seen / noise
    width = 1 / np.sqrt(sites.tau)
    h = width * ((y * w) @ G.T + sites.nu)
    atoms, weights = _where_seen(G, w)
    K = width[:, :, None] * atoms * np.sqrt(weights)[:, None, :]
    if K.shape[1] <= K.shape[2]:
        B = _one_plus(K @ K.transpose(0, 2, 1))
        inverse = np.linalg.inv(B)
        share = np.diagonal(inverse, axis1=1, axis2=2)
        pulled = (inverse @ h[:, :, None])[:, :, 0]
    else:
        B = _one_plus(K.transpose(0, 2, 1) @ K)
        inverse = K @ np.linalg.inv(B)
        share = 1 - np.sum(inverse * K, axis=2)
        pulled = h - (inverse @ (K.transpose(0, 2, 1) @ h[:, :, None]))[:, :, 0]
    energy = np.sum(np.where(seen, np.log(2 * np.pi * noise), 0) + y**2 * w, axis=1)
    share = np.maximum(share, np.finfo(float).eps)
    return Belief(share * width**2, width * pulled, (np.sum(h * pulled, axis=1) - energy) / 2, B, width, inverse, K)


def _where_seen(G: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Components and weights of the features that a sample has: smaller matrices where much is missing."""
    most = max(1, int(np.count_nonzero(w, axis=1).max()))
    if most == w.shape[1]:
        return G, w
    first = np.argsort(w == 0, axis=1, kind="stable")[:, :most]
    return G.T[first].transpose(0, 2, 1), np.take_along_axis(w, first, axis=1)


def covariance(belief: Belief) -> np.ndarray:
    """The whole covariance of the codes of each sample."""
    N, M = belief.K.shape[1:]
    whole = belief.inverse if N <= M else _one_plus(-belief.inverse @ belief.K.transpose(0, 2, 1))
    return belief.width[:, :, None] * whole * belief.width[:, None, :]


def _signal_variance(model: Model, belief: Belief, codes: Tilted) -> np.ndarray:
    """Variances of codes @ components: correlations between codes as the Gaussian has them, variances the codes' own."""
    G = (np.sqrt(codes.variance / belief.variance) * belief.width)[:, :, None] * model.components
    if belief.K.shape[1] <= belief.K.shape[2]:
        return np.einsum("snm,snm->sm", belief.inverse @ G, G)
    across = G.transpose(0, 2, 1)
    return np.maximum(np.sum(G**2, axis=1) - np.sum((across @ belief.inverse) * (across @ belief.K), axis=2), 0)


def _one_plus(B: np.ndarray) -> np.ndarray:
    diagonal = np.arange(B.shape[1])
    B[:, diagonal, diagonal] += 1
    return B


def _cavity(belief: Belief, sites: Sites) -> Sites:
    """The message (a, b) to each code from all but its own site."""
    a = np.maximum(1 / belief.variance - sites.tau, np.finfo(float).eps / belief.variance)
    return Sites(a, belief.mean / belief.variance - sites.nu)


def evidence(belief: Belief, sites: Sites, cavity: Sites, new: Tilted) -> np.ndarray:
    """log of the integral over the codes: the Gaussian one, with each site's share replaced by the prior's."""
    gaussian = belief.exponent - (np.linalg.slogdet(belief.matrix)[1] + np.sum(np.log(sites.tau), axis=1)) / 2
    tau, nu = cavity.tau + sites.tau, cavity.nu + sites.nu
    return gaussian + np.sum(new.log_integral - (nu**2 / tau - np.log(tau)) / 2, axis=1)


def _sites(slab: Slab, new: Tilted, cavity: Sites) -> Sites:
    """The sites under which the Gaussian has the prior's mean and variance; the mean alone where no site of allowed width has both."""
    with np.errstate(divide="ignore"):
        tau = np.clip(1 / new.variance - cavity.tau, _WIDEST_SITE / slab.variance, _NARROWEST_SITE / slab.variance)
    return Sites(tau, new.mean * (cavity.tau + tau) - cavity.nu)
