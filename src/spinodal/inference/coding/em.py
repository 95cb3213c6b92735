"""Expectation maximisation: rounds that improve the codes, the components given the codes, and the parameters given both.

Message passing finds the atoms; its parameters rest on averages that hold for large systems. Here the posterior of the codes keeps its
covariance, so that a few dozen rounds on real data, whatever its correlations, end at parameters that fit it best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import ep, vamp
from .model import CodingModel, Progress, least_noise
from .scales import ComponentPrior, Usage, learned_slab

# Moves of the codes' sites before anything is learned from them, and the share of the new sites in a move. The moves of VAMP go two by two.
_FIRST_STEPS, _STEP, _VAMP_STEPS = 10, 0.6, 2
# Settled when the evidence changes by less than this many nats per observed entry.
_SETTLED = 1e-3
# A round changes variances by at most this factor.
_FASTEST = 2.0
# The density stays away from 0 and 1.
_LEAST_DENSITY = 1e-4


class Sums(NamedTuple):
    """What the samples say, summed: products of data and codes, second moments of codes for each feature (or one for all), and more."""

    product: np.ndarray  # features x atoms
    second: np.ndarray  # (features or 1) x atoms x atoms
    informative: np.ndarray  # (features or 1) x atoms: squares of codes, less what was spent on finding them
    error: float  # expected squared error
    nonzeros: np.ndarray  # of the codes of each atom, as their sum and the sum of their squares
    total: np.ndarray
    square: np.ndarray
    evidence: float


class Method(NamedTuple):
    """How the codes are improved: samples to work on together, the sites of a block before the first round, and a move of them."""

    blocks: Callable[[CodingModel, np.ndarray], list[np.ndarray]]
    start: Callable[[CodingModel, np.ndarray], Progress]
    move: Callable[[CodingModel, np.ndarray, Progress], tuple[Progress, Sums]]


class Refined(NamedTuple):
    """The model, the mean evidence of a sample in each round, whether it had settled, and how atoms were used (None without a round)."""

    model: CodingModel
    evidence: np.ndarray
    settled: bool
    usage: Usage | None


def refine(data: np.ndarray, model: CodingModel, prior: ComponentPrior, learn: tuple[str, ...], rounds: int) -> Refined:
    """Up to `rounds` rounds of improvement; settled when the evidence changes little from one to the next."""
    data = np.asarray(data, dtype=np.float64)
    entries = int(np.count_nonzero(~np.isnan(data)))
    method = _VAMP if model.fast and entries == data.size else _EP
    blocks = method.blocks(model, data)
    runs = [method.start(model, block) for block in blocks]
    history: list[float] = []
    settled, usage = False, None
    while len(history) < rounds and not settled:
        moved = [method.move(model, block, run) for block, run in zip(blocks, runs, strict=True)]
        runs = [run for run, _ in moved]
        sums = Sums(*(sum(values[1:], start=values[0]) for values in zip(*(found for _, found in moved), strict=True)))
        history.append(sums.evidence / len(data))
        model = _improved(model, sums, prior, learn, entries, data.shape[0] * len(model.components))
        settled = len(history) > 1 and bool(abs(history[-1] - history[-2]) * len(data) < _SETTLED * entries)
    if history:
        model = model._replace(uncertainty=_widened(model.uncertainty, sums, prior))
        usage = Usage(sums.nonzeros, sums.total, sums.square)
    return Refined(model, np.array(history), settled, usage)


def cost(shape: tuple[int, int], atoms: int, rounds: int, *, missing: bool, fast: bool) -> tuple[float, float]:
    """Operations of the rounds on data of this shape, and bytes of their second moments: a matrix for each feature if entries miss."""
    samples, features = shape
    operations = 0.0 if fast else float(rounds) * samples * atoms**2 * min(atoms, features)
    return operations, 8.0 * features * atoms**2 if missing and rounds else 0.0


def _start_vamp(model: CodingModel, data: np.ndarray) -> Progress:
    at, run = vamp.basis(model), vamp.start(model, len(data))
    for _ in range(_FIRST_STEPS):
        run = vamp.advance(model, at, data, run)[0]
    return run


def _move_vamp(model: CodingModel, data: np.ndarray, run: Progress) -> tuple[Progress, Sums]:
    """Moves of the sites of a block of complete samples, and what its codes say; covariances as the shared eigenvectors have them."""
    at = vamp.basis(model)
    for _ in range(_VAMP_STEPS):
        before = run
        run, belief, cavity = vamp.advance(model, at, data, before)
    x = run.codes.mean / at.norms
    along = belief.variance.sum(axis=0)
    spread = (at.vectors * along) @ at.vectors.T / np.outer(at.norms, at.norms)
    beside = along @ at.values + data.shape[1] * np.sum((x**2 + run.codes.variance / at.norms**2) @ model.uncertainty.mean(axis=1))
    error = np.sum((data - x @ model.components) ** 2) + beside
    value = vamp.evidence(belief, before.sites, cavity, run.codes).sum()
    square = np.sum(x**2 + run.codes.variance / at.norms**2, axis=0)
    noise = vamp.noise_of(model, at, before.codes)[:, 0]
    informative = _left(model.noise_variance, noise, belief.variance @ at.values / data.shape[1]) @ x**2
    second = (x.T @ x + spread)[None]
    nonzeros = run.codes.probability.sum(axis=0)
    return run, Sums(data.T @ x, second, informative[None], float(error), nonzeros, x.sum(axis=0), square, float(value))


def _start_ep(model: CodingModel, data: np.ndarray) -> Progress:
    run = ep.start(model, len(data))
    for _ in range(_FIRST_STEPS):
        run = ep.advance(model, data, run, _STEP)[0]
    return run


def _move_ep(model: CodingModel, data: np.ndarray, run: Progress) -> tuple[Progress, Sums]:
    """One move of the sites of a block of samples, and what its codes say."""
    new, belief, cavity = ep.advance(model, data, run, _STEP)
    codes, spread = new.codes, ep.covariance(belief)
    seen = ~np.isnan(data)
    y = np.where(seen, data, 0)
    x = codes.mean
    G = model.components
    explained = np.sum((spread @ G) * G[None], axis=1)
    doubt = (x**2 + codes.variance) @ model.uncertainty
    product = y.T @ x
    informative = np.where(seen, _left(model.noise_variance, model.noise_variance + doubt, explained), 0).T @ x**2
    if seen.all():
        second = (x.T @ x + spread.sum(axis=0))[None]
    else:
        weights = seen.astype(float)
        flat = (x[:, :, None] * x[:, None, :] + spread).reshape(len(x), -1)
        second = (weights.T @ flat).reshape(data.shape[1], x.shape[1], x.shape[1])
    error = np.sum(np.where(seen, (y - x @ G) ** 2 + explained + doubt, 0))
    value = float(ep.evidence(belief, run.sites, cavity, codes).sum())
    square = np.sum(x**2 + codes.variance, axis=0)
    return new, Sums(product, second, informative, float(error), codes.probability.sum(axis=0), x.sum(axis=0), square, value)


_EP = Method(lambda model, data: ep.blocks_of(model, data, whole=True), _start_ep, _move_ep)
_VAMP = Method(lambda model, data: vamp.blocks_of(data), _start_vamp, _move_vamp)


def _improved(model: CodingModel, sums: Sums, prior: ComponentPrior, learn: tuple[str, ...], entries: int, codes: int) -> CodingModel:
    """The components' posterior given the codes, and the parameters' best values given both."""
    second = sums.second if len(sums.second) > 1 or _alike(prior) else np.repeat(sums.second, len(sums.product), axis=0)
    each = np.arange(second.shape[1])
    precision = second / model.noise_variance
    precision[:, each, each] += 1 / prior.variance.T[: len(precision)]
    inverse = np.linalg.inv(precision)
    pull = sums.product / model.noise_variance + (prior.mean / prior.variance).T
    components = (inverse @ pull[:, :, None])[:, :, 0].T
    uncertainty = np.broadcast_to(inverse[:, each, each].T, components.shape).copy()
    noise, slab = model.noise_variance, model.slab
    if "noise_variance" in learn:
        noise = float(np.clip(sums.error / entries, noise / _FASTEST, noise * _FASTEST))
    if "density" in learn:
        slab = slab._replace(density=float(np.clip(sums.nonzeros.sum() / codes, _LEAST_DENSITY, 1 - _LEAST_DENSITY)))
    target = learned_slab(slab, Usage(sums.nonzeros, sums.total, sums.square), learn)
    slab = target._replace(variance=float(np.clip(target.variance, slab.variance / _FASTEST, slab.variance * _FASTEST)))
    new = model._replace(components=components, uncertainty=uncertainty, slab=slab, noise_variance=noise)
    return new._replace(noise_variance=least_noise(new))


def _left(noise: float, weighed: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """The share of an entry's information on the components that is left after it has helped to find the codes.

    The entry is compared with what codes found without it say, of variance explained/(1 - explained/weighed): the noise was `weighed`
    when they were found.
    """
    without = explained / np.maximum(1 - explained / weighed, np.finfo(float).eps)
    return noise / (noise + without)


def _widened(variance: np.ndarray, sums: Sums, prior: ComponentPrior) -> np.ndarray:
    """Variances of the components with the codes known no better than they are. Given the codes, as `_improved` has them, they are less."""
    second = np.diagonal(sums.second, axis1=1, axis2=2)
    share = (sums.informative / np.maximum(second, np.finfo(float).tiny)).T
    return 1 / (1 / prior.variance + share * np.maximum(1 / variance - 1 / prior.variance, 0))


def _alike(prior: ComponentPrior) -> bool:
    """Whether all features have the same prior variances."""
    return not np.ptp(prior.variance, axis=1).any()
