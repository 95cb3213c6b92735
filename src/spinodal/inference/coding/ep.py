"""Sparse codes of samples given the components: expectation propagation for a linear model with a spike-and-slab prior.

    sample = codes @ components + noise,    the components known in mean and variance.

Every sample is on its own here, and a few hundred atoms at most, so the posterior's covariance can be kept whole instead of being
averaged as message passing for large systems does: evidences and codes are then close to exact, whatever the components' correlations.
(Where that takes too long, see vamp.py.)
The prior of each code is replaced by a Gaussian factor (a "site") exp(nu x - tau x^2/2) whose mean and variance under the rest (the
"cavity") are those of the prior itself. What the uncertainty of the components adds is counted as noise, feature by feature.

NumPy, not JAX: samples that have settled leave, so the arrays shrink from one iteration to the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .model import Codes, CodingModel, Progress, Sites, Slab, Tilted, own_density, rows_of, tilted

# Share of the new sites in an iteration; from iteration _PATIENT on it falls by a factor e every _PATIENT, until even cycles end.
_STEP, _PATIENT, _ITERATIONS = 0.6, 40, 160
# A sample has settled when its codes change by less than this many standard deviations of the slab; the second number if in a hurry.
_SETTLED, _SETTLED_FAST = 1e-5, 1e-3
# Precisions of sites, in units of the slab's: a site as wide as this tells nothing, one as narrow as that leaves nothing open.
_WIDEST_SITE, _NARROWEST_SITE = 1e-3, 1e12
# Numbers in the largest array of a block of samples.
_BLOCK = 2_000_000


class Belief(NamedTuple):
    """The posterior with sites in place of priors: variances and means of the codes, and what the log of its integral is made of."""

    variance: np.ndarray
    mean: np.ndarray
    exponent: np.ndarray
    matrix: np.ndarray  # its determinant, times that of the sites' precisions, is the posterior precision's
    width: np.ndarray  # of the sites, and two more of the factors that `covariance` is made of
    inverse: np.ndarray
    K: np.ndarray


def infer(model: CodingModel, data: np.ndarray) -> Codes:
    """Codes of the samples (rows) of `data`, NaN where it was not observed."""
    found = [_infer_block(model, block) for block in blocks_of(model, data)]
    return Codes(*(np.concatenate(values) for values in zip(*found, strict=True)))


def blocks_of(model: CodingModel, data: np.ndarray, whole: bool = False) -> list[np.ndarray]:
    """Samples to work on together; fewer where the `whole` covariance of their codes is wanted."""
    side = len(model.components) if whole else min(model.components.shape)
    width = max(1, _BLOCK // max(model.components.size, side**2))
    return [data[first : first + width] for first in range(0, len(data), width)]


def start(model: CodingModel, samples: int) -> Progress:
    """Sites that say what the prior's mean and variance say."""
    nothing = np.zeros((samples, len(model.components)))
    prior = tilted(model.slab, nothing, nothing)
    return Progress(Sites(1 / prior.variance, prior.mean / prior.variance), prior, np.full((samples, 1), model.slab.density))


def advance(model: CodingModel, data: np.ndarray, old: Progress, step: float) -> tuple[Progress, Belief, Sites]:
    """One iteration: sites moved by the share `step`; the belief it started from, and its cavities."""
    noise = model.noise_variance + (old.codes.mean**2 + old.codes.variance) @ model.uncertainty
    belief = _belief(model, data, noise, old.sites)
    cavity = _cavity(belief, old.sites)
    new = tilted(model.slab._replace(density=old.density), *cavity)
    sites = Sites(*(was + step * (target - was) for was, target in zip(old.sites, _sites(model.slab, new, cavity), strict=True)))
    density = old.density + step * (own_density(model, new.probability) - old.density)
    return Progress(sites, new, density), belief, cavity


def _infer_block(model: CodingModel, data: np.ndarray) -> Codes:
    run = start(model, len(data))
    codes = np.zeros((5, len(data), len(model.components)))
    found = Codes(codes[0], codes[1], codes[2], codes[3], codes[4], np.zeros(len(data)), np.zeros(data.shape))
    going = np.arange(len(data))
    close = (_SETTLED_FAST if model.fast else _SETTLED) * np.sqrt(model.slab.variance)
    for k in range(_ITERATIONS):
        new, belief, cavity = advance(model, data[going], run, _STEP * np.exp(-max(k - _PATIENT, 0) / _PATIENT))
        keep = np.max(np.abs(new.codes.mean - run.codes.mean), axis=1) > close
        done = ~keep | (k == _ITERATIONS - 1)
        leaving = [rows_of(part, done) for part in (belief, run.sites, cavity, new.codes)]
        for whole, part in zip(found, (*leaving[3][1:], evidence(*leaving), _signal_variance(model, leaving[0], leaving[3])), strict=True):
            whole[going[done]] = part
        going, run = going[keep], Progress(rows_of(new.sites, keep), rows_of(new.codes, keep), new.density[keep])
        if going.size == 0:
            break
    return found


def _belief(model: CodingModel, data: np.ndarray, noise: np.ndarray, sites: Sites) -> Belief:
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


def _signal_variance(model: CodingModel, belief: Belief, codes: Tilted) -> np.ndarray:
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
