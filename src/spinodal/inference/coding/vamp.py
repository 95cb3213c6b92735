"""Sparse codes of many samples at once: vector approximate message passing for complete samples of one model.

As in ep.py every prior is replaced by a Gaussian factor, but its precision is the same for all codes of a sample, in units in which the
components have norm 1. The posteriors of all samples then share their eigenvectors: an iteration is two products of matrices, where
ep.py inverts a matrix for each sample. (Rangan, Schniter and Fletcher, Vector approximate message passing, IEEE Trans. Inf. Theory 65,
2019.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .model import Codes, CodingModel, Progress, Sites, Slab, Tilted, own_density, rows_of, tilted

# Share of the new sites in an iteration; from iteration _PATIENT on it falls by a factor e every _SLOWER, until even cycles end.
_STEP, _PATIENT, _SLOWER, _ITERATIONS = 0.5, 10, 30, 120
# A sample has settled when its codes change by less than this many standard deviations of the slab.
_SETTLED = 1e-3
# Precisions of sites, in units of the slab's.
_WIDEST_SITE, _NARROWEST_SITE = 1e-3, 1e9
# Samples to work on together.
_BLOCK = 8192


class Basis(NamedTuple):
    """Components of norm 1 and their slab, the norms they had, eigenvectors and eigenvalues of their scalar products."""

    components: np.ndarray
    norms: np.ndarray
    slab: Slab
    vectors: np.ndarray
    values: np.ndarray


class Belief(NamedTuple):
    """The Gaussian posterior: variances along the eigenvectors, mean, and the log of its integral."""

    variance: np.ndarray
    mean: np.ndarray
    log_integral: np.ndarray


def basis(model: CodingModel) -> Basis:
    """The model in units in which components have norm 1."""
    norms = np.linalg.norm(model.components, axis=1)
    norms = np.maximum(norms, np.finfo(float).eps * max(norms.max(), np.finfo(float).tiny))
    components = model.components / norms[:, None]
    values, vectors = np.linalg.eigh(components @ components.T)
    slab = model.slab._replace(mean=model.slab.mean * norms, variance=model.slab.variance * norms**2)
    return Basis(components, norms, slab, vectors, np.maximum(values, 0))


def start(model: CodingModel, samples: int) -> Progress:
    """Sites as wide as the prior, one tau for each sample; codes are in units of the basis from here on."""
    at = basis(model)
    nothing = np.zeros((samples, len(at.norms)))
    prior = tilted(at.slab, nothing, nothing)
    tau = 1 / prior.variance.mean(axis=1, keepdims=True)
    return Progress(Sites(tau, prior.mean * tau), prior, np.full((samples, 1), model.slab.density))


def advance(model: CodingModel, at: Basis, data: np.ndarray, old: Progress, step: float = _STEP) -> tuple[Progress, Belief, Sites]:
    """One iteration: sites moved by the share `step`; the belief it started from, and its cavities."""
    noise = noise_of(model, at, old.codes)
    belief = _belief(at, data, noise, old.sites)
    inverse = 1 / belief.variance.mean(axis=1, keepdims=True)
    a, b = inverse - old.sites.tau, belief.mean * inverse - old.sites.nu
    a = np.maximum(a, np.finfo(float).eps * inverse)
    new = tilted(at.slab._replace(density=old.density), a, b)
    unit = 1 / at.slab.variance.mean()
    with np.errstate(divide="ignore"):
        tau = np.clip(1 / new.variance.mean(axis=1, keepdims=True) - a, _WIDEST_SITE * unit, _NARROWEST_SITE * unit)
    target = Sites(tau, new.mean * (a + tau) - b)
    sites = Sites(*(was + step * (to - was) for was, to in zip(old.sites, target, strict=True)))
    density = old.density + step * (own_density(model, new.probability) - old.density)
    return Progress(sites, new, density), belief, Sites(a, b)


def infer(model: CodingModel, data: np.ndarray) -> Codes:
    """Codes of the samples (rows) of `data`, all of them complete."""
    found = [_infer_block(model, block) for block in blocks_of(data)]
    return Codes(*(np.concatenate(values) for values in zip(*found, strict=True)))


def blocks_of(data: np.ndarray) -> list[np.ndarray]:
    """Samples to work on together."""
    return [data[first : first + _BLOCK] for first in range(0, len(data), _BLOCK)]


def evidence(belief: Belief, sites: Sites, cavity: Sites, new: Tilted) -> np.ndarray:
    """log of the integral over the codes: the Gaussian one, with each site's share replaced by the prior's."""
    tau, nu = cavity.tau + sites.tau, cavity.nu + sites.nu
    return belief.log_integral + np.sum(new.log_integral - (nu**2 / tau - np.log(tau)) / 2, axis=1)


def _infer_block(model: CodingModel, data: np.ndarray) -> Codes:
    """Every sample until it has settled; those that have leave."""
    at, run = basis(model), start(model, len(data))
    codes = np.zeros((5, len(data), len(at.norms)))
    found = Codes(codes[0], codes[1], codes[2], codes[3], codes[4], np.zeros(len(data)), np.zeros(data.shape))
    going = np.arange(len(data))
    close = _SETTLED * np.sqrt(at.slab.variance)
    for k in range(_ITERATIONS):
        new, belief, cavity = advance(model, at, data[going], run, _STEP * np.exp(-max(k - _PATIENT, 0) / _SLOWER))
        keep = (np.abs(new.codes.mean - run.codes.mean) > close).any(axis=1) & (k < _ITERATIONS - 1)
        if not keep.all():
            done = [rows_of(part, ~keep) for part in (belief, run.sites, cavity, new.codes)]
            for whole, part in zip(found, _published(at, *done), strict=True):
                whole[going[~keep]] = part
        going, run = going[keep], Progress(rows_of(new.sites, keep), rows_of(new.codes, keep), new.density[keep])
        if going.size == 0:
            break
    return found


def _published(at: Basis, belief: Belief, sites: Sites, cavity: Sites, codes: Tilted) -> Codes:
    """Codes in the units of the model, with the evidence and the variances of the signal."""
    _, mean, variance, probability, value, width = codes
    slack = variance.mean(axis=1, keepdims=True) / belief.variance.mean(axis=1, keepdims=True)
    signal_variance = slack * belief.variance @ (at.vectors.T @ at.components) ** 2
    log_density = evidence(belief, sites, cavity, codes)
    return Codes(mean / at.norms, variance / at.norms**2, probability, value / at.norms, width / at.norms**2, log_density, signal_variance)


def noise_of(model: CodingModel, at: Basis, codes: Tilted) -> np.ndarray:
    """The noise variance of each sample, with what the uncertainty of the components adds on average."""
    return model.noise_variance + (codes.mean**2 + codes.variance) @ (model.uncertainty.mean(axis=1) / at.norms**2)[:, None]


def _belief(at: Basis, data: np.ndarray, noise: np.ndarray, sites: Sites) -> Belief:
    U = at.vectors
    variance = 1 / (at.values / noise + sites.tau)
    pull = data @ (at.components.T @ U) / noise + sites.nu @ U
    along = variance * pull
    energy = np.sum(data**2 / noise, axis=1) + data.shape[1] * np.log(2 * np.pi * noise[:, 0])
    return Belief(variance, along @ U.T, (np.sum(pull * along + np.log(variance), axis=1) - energy) / 2)
