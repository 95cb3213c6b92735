"""Components and parameters refined by expectation maximisation, with the samples' codes by expectation propagation.

Message passing finds the atoms; its parameters rest on averages that hold for large systems. Here the posterior of the codes keeps its
covariance, so that a few dozen rounds on real data, whatever its correlations, end at parameters that fit it best. Codes, and then
components given the codes, and then the parameters given both, are improved in turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import shared
from .codes import Model, Progress, advance, block_width, covariance, evidence, least_noise, start
from .scales import Prior, Usage, learned_slab

# Moves of the codes' sites before anything is learned from them, and the share of the new sites in a move. The faster moves go two by two.
_FIRST_STEPS, _STEP, _FAST_STEPS = 10, 0.6, 2
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


class Refined(NamedTuple):
    """The model, the mean evidence of a sample in each round, whether it had settled, and how atoms were used (None without a round)."""

    model: Model
    evidence: np.ndarray
    settled: bool
    usage: Usage | None


def refine(data: np.ndarray, model: Model, prior: Prior, learn: tuple[str, ...], rounds: int) -> Refined:
    """Up to `rounds` rounds of improvement; settled when the evidence changes little from one to the next."""
    data = np.asarray(data, dtype=np.float64)
    entries = int(np.count_nonzero(~np.isnan(data)))
    fast = model.fast and entries == data.size
    width = block_width(model, whole=True)
    blocks = shared.blocks_of(data) if fast else [data[first : first + width] for first in range(0, len(data), width)]
    move, runs = (_fast_move, _fast_start(model, blocks)) if fast else (_sums, _start(model, blocks))
    history: list[float] = []
    settled, usage = False, None
    while len(history) < rounds and not settled:
        moved = [move(model, block, run) for block, run in zip(blocks, runs, strict=True)]
        runs = [run for run, _ in moved]
        sums = Sums(*(sum(values[1:], start=values[0]) for values in zip(*(found for _, found in moved), strict=True)))
        history.append(sums.evidence / len(data))
        model = _improved(model, sums, prior, learn, entries, data.shape[0] * len(model.components))
        settled = len(history) > 1 and bool(abs(history[-1] - history[-2]) * len(data) < _SETTLED * entries)
    if history:
        model = model._replace(uncertainty=_widened(model.uncertainty, sums, prior))
        usage = Usage(sums.nonzeros, sums.total, sums.square)
    return Refined(model, np.array(history), settled, usage)


def _start(model: Model, blocks: list[np.ndarray]) -> list[Any]:
    """Sites of every block after a few moves."""
    runs = [start(model, len(block)) for block in blocks]
    for _ in range(_FIRST_STEPS):
        runs = [advance(model, block, run, _STEP)[0] for block, run in zip(blocks, runs, strict=True)]
    return runs


def _fast_start(model: Model, blocks: list[np.ndarray]) -> list[Any]:
    """The same, by shared.py."""
    at, runs = shared.basis(model), [shared.start(model, len(block)) for block in blocks]
    for _ in range(_FIRST_STEPS):
        runs = [shared.advance(model, at, block, run)[0] for block, run in zip(blocks, runs, strict=True)]
    return runs


def _fast_move(model: Model, data: np.ndarray, run: shared.State) -> tuple[shared.State, Sums]:
    """Moves of the sites of a block of complete samples, and what its codes say; covariances as the shared eigenvectors have them."""
    at = shared.basis(model)
    for _ in range(_FAST_STEPS):
        before = run
        run, belief, cavity = shared.advance(model, at, data, before)
    x = run.codes.mean / at.norms
    along = belief.variance.sum(axis=0)
    spread = (at.vectors * along) @ at.vectors.T / np.outer(at.norms, at.norms)
    beside = along @ at.values + data.shape[1] * np.sum((x**2 + run.codes.variance / at.norms**2) @ model.uncertainty.mean(axis=1))
    error = np.sum((data - x @ model.components) ** 2) + beside
    value = shared.evidence(belief, before.sites, cavity, run.codes).sum()
    square = np.sum(x**2 + run.codes.variance / at.norms**2, axis=0)
    noise = shared.noise_of(model, at, before.codes)[:, 0]
    informative = _left(model.noise, noise, belief.variance @ at.values / data.shape[1]) @ x**2
    second = (x.T @ x + spread)[None]
    nonzeros = run.codes.probability.sum(axis=0)
    return run, Sums(data.T @ x, second, informative[None], float(error), nonzeros, x.sum(axis=0), square, float(value))


def _sums(model: Model, data: np.ndarray, run: Progress) -> tuple[Progress, Sums]:
    """One move of the sites of a block of samples, and what its codes say."""
    new, belief, cavity = advance(model, data, run, _STEP)
    codes, spread = new.codes, covariance(belief)
    seen = ~np.isnan(data)
    y = np.where(seen, data, 0)
    x = codes.mean
    G = model.components
    explained = np.sum((spread @ G) * G[None], axis=1)
    doubt = (x**2 + codes.variance) @ model.uncertainty
    product = y.T @ x
    informative = np.where(seen, _left(model.noise, model.noise + doubt, explained), 0).T @ x**2
    if seen.all():
        second = (x.T @ x + spread.sum(axis=0))[None]
    else:
        weights = seen.astype(float)
        flat = (x[:, :, None] * x[:, None, :] + spread).reshape(len(x), -1)
        second = (weights.T @ flat).reshape(data.shape[1], x.shape[1], x.shape[1])
    error = np.sum(np.where(seen, (y - x @ G) ** 2 + explained + doubt, 0))
    value = float(evidence(belief, run.sites, cavity, codes).sum())
    square = np.sum(x**2 + codes.variance, axis=0)
    return new, Sums(product, second, informative, float(error), codes.probability.sum(axis=0), x.sum(axis=0), square, value)


def _improved(model: Model, sums: Sums, prior: Prior, learn: tuple[str, ...], entries: int, codes: int) -> Model:
    """The components' posterior given the codes, and the parameters' best values given both."""
    second = sums.second if len(sums.second) > 1 or _alike(prior) else np.repeat(sums.second, len(sums.product), axis=0)
    each = np.arange(second.shape[1])
    precision = second / model.noise
    precision[:, each, each] += 1 / prior.variance.T[: len(precision)]
    inverse = np.linalg.inv(precision)
    pull = sums.product / model.noise + (prior.mean / prior.variance).T
    components = (inverse @ pull[:, :, None])[:, :, 0].T
    uncertainty = np.broadcast_to(inverse[:, each, each].T, components.shape).copy()
    noise, slab = model.noise, model.slab
    if "noise" in learn:
        noise = float(np.clip(sums.error / entries, noise / _FASTEST, noise * _FASTEST))
    if "rho" in learn:
        slab = slab._replace(density=float(np.clip(sums.nonzeros.sum() / codes, _LEAST_DENSITY, 1 - _LEAST_DENSITY)))
    target = learned_slab(slab, Usage(sums.nonzeros, sums.total, sums.square), learn)
    slab = target._replace(variance=float(np.clip(target.variance, slab.variance / _FASTEST, slab.variance * _FASTEST)))
    new = model._replace(components=components, uncertainty=uncertainty, slab=slab, noise=noise)
    return new._replace(noise=least_noise(new))


def _left(noise: float, weighed: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """The share of an entry's information on the components that is left after it has helped to find the codes.

    The entry is compared with what codes found without it say, of variance explained/(1 - explained/weighed): the noise was `weighed`
    when they were found.
    """
    without = explained / np.maximum(1 - explained / weighed, np.finfo(float).eps)
    return noise / (noise + without)


def _widened(variance: np.ndarray, sums: Sums, prior: Prior) -> np.ndarray:
    """Variances of the components with the codes known no better than they are. Given the codes, as `_improved` has them, they are less."""
    second = np.diagonal(sums.second, axis1=1, axis2=2)
    share = (sums.informative / np.maximum(second, np.finfo(float).tiny)).T
    return 1 / (1 / prior.variance + share * np.maximum(1 / variance - 1 / prior.variance, 0))


def _alike(prior: Prior) -> bool:
    """Whether all features have the same prior variances."""
    return not np.ptp(prior.variance, axis=1).any()
