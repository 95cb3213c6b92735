"""The scales of components: data do not change if a component is multiplied by k and its codes are divided by it.

Without anything to fix them components are given norm 1. If the user said how large components or codes are, the priors fix k up to an
uncertainty of its own, and rounds of expectation maximisation, which hold either components or codes, hardly move along it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .model import CodingModel, Slab

# Steps towards the most probable scales, the longest of them, and the length of one that is not worth taking, all in log k.
_STEPS, _LONGEST, _SETTLED = 1000, 0.3, 1e-6


class ComponentPrior(NamedTuple):
    """Mean and variance of every entry of the components before the data."""

    mean: np.ndarray
    variance: np.ndarray


class Usage(NamedTuple):
    """Codes of every component, summed over samples: how many are not zero, their sum, and that of their squares."""

    nonzeros: np.ndarray
    total: np.ndarray
    square: np.ndarray


class Scales(NamedTuple):
    """Of every component: its size in the model, if it is published with norm 1, and the relative variance of its scale."""

    size: np.ndarray
    variance: np.ndarray


def of_unit_norm(model: CodingModel) -> tuple[CodingModel, Scales]:
    """Components of norm 1 and their variances, which have no part along them. What is not known better than not at all stays as it is."""
    square = np.sum(model.components**2, axis=1)
    known = square > np.sum(model.uncertainty, axis=1)
    size = np.where(known, np.sqrt(square), 1.0)
    unit, variance = model.components / size[:, None], model.uncertainty / size[:, None] ** 2
    along = np.sum(unit**2 * variance, axis=1, keepdims=True)
    across = np.maximum((1 - 2 * unit**2) * variance + unit**2 * along, 0)
    return model._replace(components=unit, uncertainty=np.where(known[:, None], across, variance)), Scales(size, np.zeros_like(size))


def most_probable(model: CodingModel, prior: ComponentPrior, usage: Usage, learn: tuple[str, ...]) -> CodingModel:
    """The model with its scales where the priors have them, and the slab, where it is learned, that goes with them.

    The gradient of the log posterior in log k is that of `inference.messages.gauge`.
    """
    own = np.sum((model.components**2 + model.uncertainty) / prior.variance, axis=1)
    hint = np.sum(model.components * prior.mean / prior.variance, axis=1)
    features, log_k, slab = model.components.shape[1], np.zeros(len(own)), model.slab
    for _ in range(_STEPS):
        k = np.exp(log_k)
        scaled = Usage(usage.nonzeros, usage.total / k, usage.square / k**2)
        slab = learned_slab(slab, scaled, learn)
        gradient = features - own * k**2 + hint * k - scaled.nonzeros + (scaled.square - slab.mean * scaled.total) / slab.variance
        curvature = np.maximum(2 * own * k**2 - hint * k, own * k**2) + 2 * scaled.square / slab.variance
        step = np.clip(gradient / curvature, -_LONGEST, _LONGEST)
        log_k = log_k + step
        if np.max(np.abs(step)) < _SETTLED:
            break
    k = np.exp(log_k)[:, None]
    return model._replace(components=model.components * k, uncertainty=model.uncertainty * k**2, slab=slab)


def learned_slab(slab: Slab, usage: Usage, learn: tuple[str, ...]) -> Slab:
    """Mean and variance of the slab that fit the codes best, where they are learned."""
    nonzeros = max(float(usage.nonzeros.sum()), np.finfo(float).tiny)
    if "slab_mean" in learn:
        slab = slab._replace(mean=float(usage.total.sum()) / nonzeros)
    if "slab_variance" in learn:
        target = float(usage.square.sum()) / nonzeros - slab.mean**2
        slab = slab._replace(variance=max(target, np.finfo(float).eps * slab.variance))
    return slab


def as_learned(model: CodingModel, prior: ComponentPrior, seen: np.ndarray, fixed_slab: bool) -> Scales:
    """How well the priors fix the scales: the posterior variance of log k, from data `seen` in these places.

    The prior of a component tells k to the precision |mean|^2/variance + 2 for each feature, the slab to 2 + mean^2/variance for each
    nonzero code. A slab that was learned compares components with each other only. The size of the prior's entries is that of the nominal
    ones, where there are any: an error that all scales have in common.
    """
    samples, features = (np.count_nonzero(seen.any(axis=axis)) for axis in (1, 0))
    of_prior = np.sum(prior.mean**2 / prior.variance, axis=1) + 2 * features
    of_slab = np.mean(model.slab.density) * samples * (2 + model.slab.mean**2 / model.slab.variance)
    common, weight = (0.0, of_prior / (of_prior + of_slab)) if fixed_slab else (of_slab / np.sum(of_prior), 1.0)
    of_size = 2 * features * len(of_prior) / np.sum(of_prior) ** 2 if prior.mean.any() else 0.0
    return Scales(np.ones(len(of_prior)), (1 + common) / (of_prior + of_slab) + of_size * weight**2)
