"""Expectation maximisation: codes of samples given the model, and the model of highest likelihood given sums over the codes.

Message passing finds the atoms; its parameters rest on averages that hold for large systems. Here the posterior of the codes keeps its
covariance, so that a few dozen rounds on real data, whatever its correlations, end at parameters that fit it best.

The sums are all that is kept of the samples (`sums_of`), so it does not matter how many there are or where they come from.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .blocks import Block
from .model import CodingModel, Progress, density_weight, least_noise
from .scales import ComponentPrior, Usage, learned_slab

# A round changes variances by at most this factor.
_FASTEST = 2.0
# Densities stay away from 0 and 1.
_LEAST_DENSITY = 1e-4
# What all features say of a noise variance, or all atoms of a density, counts as much as this many entries, or samples, of its own.
_COMMON_COUNT = 4.0
# Samples are of unequal density if the variance of their numbers of nonzero codes is so many times the binomial one, and so many of its
# standard deviations more. (In data drawn from the model it is about 1; in patches of photographs 2 to 7.)
_UNEQUAL, _SURELY = 1.5, 5.0
# The least noise variance of a feature, as a share of the mean: one that never changes would have none.
_LEAST_RATIO = 1e-5


class Sums(NamedTuple):
    """What the samples say, summed: products of data and codes, second moments of codes for each feature (or one for all), and more."""

    product: Any  # features x atoms
    second: Any  # (features or 1) x atoms x atoms
    informative: Any  # features x atoms: squares of codes, less what was spent on finding them
    error: Any  # expected squared error of each feature
    entries: Any  # of each feature that were observed
    nonzeros: Any  # of the codes of each atom, then their sum and the sum of their squares
    total: Any
    square: Any
    spread: Any  # expected squares of the number of nonzero codes of a sample
    evidence: Any
    weight: Any  # of all samples


class Learn(NamedTuple):
    """Names of the parameters to learn, and what differs: noise from feature to feature, density from atom to atom (None: see the data).

    `sample_density`: whether samples come to have densities of their own if the data say so.
    """

    names: tuple[str, ...]
    feature_noise: bool | None = False
    atom_density: bool | None = False
    sample_density: bool = False

    @property
    def at_first(self) -> Learn:
        """The same, but nothing differs unless it was said to."""
        return self._replace(feature_noise=bool(self.feature_noise), atom_density=bool(self.atom_density), sample_density=False)


@partial(jax.jit, static_argnames=("method", "steps", "holes"))
def sums_of(method: ModuleType, at: Any, block: Block, run: Progress, key: jax.Array, steps: int, holes: bool) -> tuple[Progress, Sums]:
    """Moves of the sites of a block, and what its codes say; second moments for each feature if samples have holes."""
    for_all = jax.lax.fori_loop(0, steps - 1, lambda _, now: method.advance(at, block.y, block.seen, now)[0], run)
    new, codes, belief = method.advance(at, block.y, block.seen, for_all)
    model, unit = (at, 1.0) if isinstance(at, CodingModel) else (at.model, at.norms)
    G, w = model.components, block.weight[:, None]
    p, x, square = codes.probability, codes.mean / unit, (codes.mean**2 + codes.variance) / unit**2
    explained = method.explained(at, belief, for_all.sites)
    doubt = square @ model.uncertainty
    weighed = model.noise_variance + (for_all.mean**2 + for_all.variance) / unit**2 @ model.uncertainty
    left = block.seen * w * _left(model.noise_variance, weighed, explained)
    seen = block.seen * w
    sums = Sums(
        (block.y * w).T @ x,
        method.second_moments(at, belief, for_all.sites, x, seen if holes else w, key),
        left.T @ x**2,
        jnp.sum(seen * ((block.y - x @ G) ** 2 + explained + doubt), axis=0),
        jnp.sum(seen, axis=0),
        jnp.sum(p * w, axis=0),
        jnp.sum(x * w, axis=0),
        jnp.sum(square * w, axis=0),
        jnp.sum((jnp.sum(p, axis=1) ** 2 + jnp.sum(p * (1 - p), axis=1)) * w[:, 0]),
        jnp.sum(jnp.where(w[:, 0] > 0, method.evidence(at, belief, for_all.sites, codes) * w[:, 0], 0)),
        jnp.sum(w),
    )
    return new, sums


def host_sums(sums: Sums, atoms: int, features: int) -> Sums:
    """Sums in double precision on the host, without what filled the model up."""
    s = Sums(*(np.asarray(value, dtype=np.float64) for value in jax.device_get(jax.block_until_ready(sums))))
    rows = slice(None, features)
    return Sums(
        s.product[rows, :atoms],
        s.second[rows, :atoms, :atoms],
        s.informative[rows, :atoms],
        s.error[rows],
        s.entries[rows],
        s.nonzeros[:atoms],
        s.total[:atoms],
        s.square[:atoms],
        s.spread,
        s.evidence,
        s.weight,
    )


def improved(model: CodingModel, sums: Sums, prior: ComponentPrior, learn: Learn) -> CodingModel:
    """The components' posterior given the codes, and the parameters' best values given both."""
    components, uncertainty = _components(sums, np.broadcast_to(model.noise_variance, len(sums.error)), prior)
    noise, slab = model.noise_variance, model.slab
    if "noise_variance" in learn.names:
        noise = np.clip(_noise(sums, learn.feature_noise), np.asarray(noise) / _FASTEST, np.asarray(noise) * _FASTEST)
        noise = float(noise) if np.ndim(noise) == 0 else noise
    if "density" in learn.names:
        slab = slab._replace(density=_density(sums, learn.atom_density))
    target = learned_slab(slab, Usage(sums.nonzeros, sums.total, sums.square), learn.names)
    slab = target._replace(variance=float(np.clip(target.variance, slab.variance / _FASTEST, slab.variance * _FASTEST)))
    new = model._replace(components=components, uncertainty=uncertainty, slab=slab, noise_variance=noise)
    if learn.sample_density and "density" in learn.names and _unequal(sums):
        new = new._replace(density_weight=density_weight(True))
    least = least_noise(new)
    return new._replace(noise_variance=float(least.max()) if np.ndim(noise) == 0 else least)


def widened(variance: np.ndarray, sums: Sums, prior: ComponentPrior) -> np.ndarray:
    """Variances of the components with the codes known no better than they are. Given the codes, as `improved` has them, they are less."""
    second = np.diagonal(sums.second, axis1=1, axis2=2)
    share = (sums.informative / np.maximum(second, np.finfo(float).tiny)).T
    return 1 / (1 / prior.variance + share * np.maximum(1 / variance - 1 / prior.variance, 0))


def cost(shape: tuple[int, int], atoms: int, rounds: int, *, missing: bool, fast: bool) -> tuple[float, float]:
    """Operations of the rounds on data of this shape, and bytes of their second moments: a matrix for each feature if entries miss."""
    samples, features = shape
    operations = 0.0 if fast else float(rounds) * samples * atoms**2 * min(atoms, features)
    return operations, 8.0 * features * atoms**2 if missing and rounds else 0.0


def _components(sums: Sums, noise: np.ndarray, prior: ComponentPrior) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the components given the codes."""
    pull = sums.product / noise[:, None] + (prior.mean / prior.variance).T
    if len(sums.second) == 1 and not np.ptp(prior.variance):
        # One matrix for all features, in its eigenvectors.
        values, vectors = np.linalg.eigh(sums.second[0])
        inverse = 1 / (np.maximum(values, 0) / noise[:, None] + 1 / prior.variance.flat[0])
        return ((pull @ vectors * inverse) @ vectors.T).T, (inverse @ (vectors**2).T).T
    each = np.arange(len(prior.mean))
    precision = sums.second / noise[:, None, None]
    precision[:, each, each] += 1 / prior.variance.T
    inverse = np.linalg.inv(precision)
    return (inverse @ pull[:, :, None])[:, :, 0].T, inverse[:, each, each].T


def _noise(sums: Sums, own: bool | None) -> Any:
    """The noise variance, or one for each feature if the data say so: if these are likelier by more than it costs to learn them."""
    common = max(sums.error.sum() / max(sums.entries.sum(), 1), np.finfo(float).tiny)
    ratio = np.log(np.maximum(sums.error / np.maximum(sums.entries, 1) / common, _LEAST_RATIO))
    each = common * np.exp(ratio * sums.entries / (sums.entries + _COMMON_COUNT))
    gain = np.sum(sums.entries * np.log(common / each)) / 2
    return each if _worth(gain, sums.entries, own) else common


def _density(sums: Sums, own: bool | None) -> Any:
    """The density of the codes, or one for each atom if the data say so."""
    count = np.full(len(sums.nonzeros), max(float(sums.weight), 1.0))
    common = np.clip(sums.nonzeros.sum() / count.sum(), _LEAST_DENSITY, 1 - _LEAST_DENSITY)
    each = np.clip((sums.nonzeros + _COMMON_COUNT * common) / (count + _COMMON_COUNT), _LEAST_DENSITY, 1 - _LEAST_DENSITY)
    gain = np.sum(count * (each * np.log(each / common) + (1 - each) * np.log((1 - each) / (1 - common))))
    return each if _worth(gain, count, own) else float(common)


def _unequal(sums: Sums) -> bool:
    """Whether samples differ more in their numbers of nonzero codes than chance explains, by a factor and by more than its own spread.

    Under one density their variance, with what is not known of the codes, is the binomial one.
    """
    weight = max(float(sums.weight), 1.0)
    share = sums.nonzeros / weight
    variance = sums.spread / weight - share.sum() ** 2
    return bool(variance > (_UNEQUAL + _SURELY * np.sqrt(2 / weight)) * np.sum(share * (1 - share)))


def _worth(gain: float, counts: np.ndarray, own: bool | None) -> bool:
    """Whether values of their own are wanted, or their gain in likelihood is worth as many parameters (Schwarz's criterion)."""
    return bool(gain > (len(counts) - 1) / 2 * np.log(max(counts.mean(), 2))) if own is None else own


def _left(noise: jax.Array, weighed: jax.Array, explained: jax.Array) -> jax.Array:
    """The share of an entry's information on the components that is left after it has helped to find the codes.

    The entry is compared with what codes found without it say, of variance explained/(1 - explained/weighed): the noise was `weighed`
    when they were found.
    """
    without = explained / jnp.maximum(1 - explained / weighed, jnp.finfo(explained.dtype).eps)
    return noise / (noise + without)
