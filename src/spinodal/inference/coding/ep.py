"""Sparse codes of samples given the components: expectation propagation for a linear model with a spike-and-slab prior.

    sample = codes @ components + noise,    the components known in mean and variance, the noise of every feature by its variance.

Every sample is on its own here, and a few hundred atoms at most, so the posterior's covariance can be kept whole instead of being
averaged as message passing for large systems does: evidences and codes are then close to exact, whatever the components' correlations.
(Where that takes too long, see vamp.py.)
The prior of each code is replaced by a Gaussian factor (a "site") exp(nu x - tau x^2/2) whose mean and variance under the rest (the
"cavity") are those of the prior itself. What the uncertainty of the components adds is counted as noise, feature by feature. An entry
that was not observed has the weight 0, so samples with different holes go through one program.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .inverse import inverse
from .model import Codes, CodingModel, Progress, Sites, Tilted, density_of, own_density, site_precision, tilted

# Share of the new sites in an iteration; from iteration PATIENT on it falls by a factor e every PATIENT, until even cycles end.
_STEP, PATIENT, ITERATIONS = 0.6, 40, 160
# A sample has settled when its codes change by less than this many standard deviations of the slab.
SETTLED = {"float64": 1e-5}
# Precisions of sites, in units of the slab's: wider ones hardly tell less but let rounding errors grow (half of the samples of a hard case
# then never settle), one as narrow as that leaves nothing open.
_WIDEST_SITE, _NARROWEST_SITE = 0.3, 1e12
# Fields of the codes that a run has at hand.
AT_HAND = ()
# Double precision whatever the data's: where the data say almost all of a code, variances are small differences of large numbers.
PRECISION = "float64"
# Numbers in the largest array of a block of samples, and in the products of components that are worth keeping.
_BLOCK, _PRODUCTS = 4_000_000, 1 << 24
# Draws of the codes of a sample by which their covariance is estimated, where there are more atoms than features.
_DRAWS = 4


class Belief(NamedTuple):
    """The posterior with sites in place of priors: cavities, the log of its integral, and what covariances are made of."""

    cavity: Sites
    log_integral: jax.Array
    variance: jax.Array
    weight: jax.Array  # of every entry: 1/noise where observed, else 0
    core: jax.Array  # the codes' covariance, or that of the entries' pulls if there are more atoms than features


def size_of_block(atoms: int, features: int) -> int:
    """How many samples are worked on together."""
    return max(1, _BLOCK // max(min(atoms, features) ** 2, atoms, features))


def ready(model: CodingModel) -> CodingModel:
    """The model, as it is."""
    return model


def size_of_codes(model: CodingModel) -> jax.Array:
    """The standard deviation of the slab."""
    return jnp.sqrt(model.slab.variance)


def start(model: CodingModel, samples: int) -> Progress:
    """Sites that say what the prior's mean and variance say."""
    G = model.components
    nothing = jnp.zeros((samples, len(G)), G.dtype)
    prior = tilted(model.slab, nothing, nothing)
    narrow = jnp.clip(1 / prior.variance, None, _NARROWEST_SITE / model.slab.variance)
    zero = jnp.zeros((samples, 1), G.dtype)
    return Progress(Sites(narrow, prior.mean * narrow), prior.mean, prior.variance, zero + 1, zero)


def advance(model: CodingModel, y: jax.Array, seen: jax.Array, old: Progress) -> tuple[Progress, Tilted, Belief]:
    """One iteration: sites moved by a share that falls with age, the codes, and the belief it started from."""
    belief = _belief(model, y, seen, old)
    a, b = belief.cavity
    new = tilted(model.slab._replace(density=density_of(model, model.slab, old.density)), a, b)
    unit = 1 / model.slab.variance
    tau = jnp.clip(site_precision(model.slab, a, new), _WIDEST_SITE * unit, _NARROWEST_SITE * unit)
    step = _STEP * jnp.exp(-jnp.maximum(old.age - PATIENT, 0) / PATIENT)
    target = Sites(tau, new.mean * (a + tau) - b)
    sites = Sites(*(was + step * (to - was) for was, to in zip(old.sites, target, strict=True)))
    density = old.density + step * (own_density(model, new.probability) - old.density)
    return Progress(sites, new.mean, new.variance, density, old.age + 1), new, belief


def published(model: CodingModel, y: jax.Array, seen: jax.Array, run: Progress) -> Codes:
    """What is known of the codes where the iteration stands."""
    _, codes, belief = advance(model, y, seen, run)
    return Codes(*codes[1:], evidence(model, belief, run.sites, codes), signal_variance(model, belief, run.sites, codes))


def evidence(model: CodingModel, belief: Belief, sites: Sites, new: Tilted) -> jax.Array:
    """log of the integral over the codes: the Gaussian one, with each site's share replaced by the prior's."""
    tau, nu = belief.cavity.tau + sites.tau, belief.cavity.nu + sites.nu
    return belief.log_integral + jnp.sum(new.log_integral - (nu**2 / tau - jnp.log(tau)) / 2, axis=1)


def signal_variance(model: CodingModel, belief: Belief, sites: Sites, codes: Tilted) -> jax.Array:
    """Variances of codes @ components: correlations between codes as the Gaussian has them, variances the codes' own."""
    scale = jnp.sqrt(codes.variance / belief.variance)
    return _explained(model, belief, sites, scale)


def explained(model: CodingModel, belief: Belief, sites: Sites) -> jax.Array:
    """Variances of codes @ components under the Gaussian."""
    return _explained(model, belief, sites, jnp.ones_like(belief.variance))


def second_moments(model: CodingModel, belief: Belief, sites: Sites, mean: jax.Array, weight: jax.Array, key: jax.Array) -> jax.Array:
    """Sums of weight times E[codes codes^T] over samples: one matrix for each column of `weight` (samples x any number).

    Where there are more atoms than features covariances are estimated by draws, right in the mean, instead of a matrix for each sample.
    """
    G, tau = model.components, sites.tau
    if _by_atoms(G):
        whole = belief.core + mean[:, :, None] * mean[:, None, :]
        return (weight.T @ whole.reshape(len(mean), -1)).reshape(-1, len(G), len(G))
    # Draws of the prior and of the noise, moved by what a measurement of them would say.
    first, second = jax.random.split(key)
    codes = jax.random.normal(first, (len(tau), _DRAWS, len(G)), G.dtype) / jnp.sqrt(tau)[:, None]
    root = jnp.sqrt(belief.weight)[:, None]
    measured = (codes @ G) * root + jax.random.normal(second, (len(tau), _DRAWS, G.shape[1]), G.dtype)
    moved = ((measured @ belief.core) * root) @ G.T
    drawn = (codes - moved / tau[:, None]) / jnp.sqrt(jnp.asarray(_DRAWS, G.dtype))
    rows = jnp.concatenate([mean[:, None], drawn], axis=1).reshape(-1, len(G))
    each = jnp.repeat(weight, _DRAWS + 1, axis=0).T
    return jax.lax.map(lambda w: (rows * w[:, None]).T @ rows, each)


def _explained(model: CodingModel, belief: Belief, sites: Sites, scale: jax.Array) -> jax.Array:
    G = model.components
    if _by_atoms(G):
        weighted = belief.core * scale[:, :, None] * scale[:, None, :]
        return jnp.sum((weighted @ G) * G, axis=1)
    width = scale / sites.tau
    root = jnp.sqrt(belief.weight)
    across = _products_of(width, G) * root[:, None, :]
    return jnp.maximum((scale * width) @ G**2 - jnp.sum((across @ belief.core) * across, axis=2), 0)


def _belief(model: CodingModel, y: jax.Array, seen: jax.Array, old: Progress) -> Belief:
    """The Gaussian posterior with precision G W G^T + diag(tau), W = 1/noise where observed, through the smaller of two matrices."""
    G, (tau, nu) = model.components, old.sites
    noise = model.noise_variance + (old.mean**2 + old.variance) @ model.uncertainty
    w = seen / noise
    energy = jnp.sum(jnp.where(seen > 0, jnp.log(2 * jnp.pi * noise), 0) + y**2 * w, axis=1)
    each = jnp.arange(min(G.shape))
    tiny = jnp.finfo(G.dtype).eps
    if _by_atoms(G):
        precision = _products_of(w, G.T).at[:, each, each].add(tau)
        core, log_det = inverse(precision)
        pull = (y * w) @ G.T + nu
        mean = jnp.einsum("sij,sj->si", core, pull)
        variance = jnp.clip(core[:, each, each], tiny / tau, 1 / tau)
        cavity = Sites(jnp.maximum(1 / variance - tau, tiny / variance), mean / variance - nu)
        return Belief(cavity, (jnp.sum(pull * mean, axis=1) - log_det - energy) / 2, variance, w, core)
    # With S = 1 + W^(1/2) G^T diag(1/tau) G W^(1/2), all follows from g_i^T W^(1/2) S^-1 W^(1/2) g_i of every atom, and no digits are
    # lost where a site leaves next to nothing open.
    root, at = jnp.sqrt(w), nu / tau
    S = (_products_of(1 / tau, G) * (root[:, :, None] * root[:, None, :])).at[:, each, each].add(1)
    core, log_det = inverse(S)
    left = (y - at @ G) * root
    solved = jnp.einsum("sij,sj->si", core, left)
    pull = (solved * root) @ G.T
    told = _contracted(core * (root[:, :, None] * root[:, None, :]), G)
    told = jnp.clip(told, tiny * (w @ G.T**2), (1 - tiny) * tau)
    share = 1 - told / tau
    cavity = Sites(told / share, (pull + at * told) / share)
    of_sites = jnp.sum(nu * at - jnp.log(tau), axis=1)
    energy = energy - jnp.sum(y**2 * w, axis=1) + jnp.sum(left * solved, axis=1)
    return Belief(cavity, (of_sites - log_det - energy) / 2, share / tau, w, core)


def _products_of(weight: jax.Array, G: jax.Array) -> jax.Array:
    """G^T diag(weight) G for the weights of every sample: one product of matrices where the products of entries are not too many."""
    if G.size * G.shape[1] <= _PRODUCTS:
        pairs = (G[:, :, None] * G[:, None, :]).reshape(len(G), -1)
        return (weight @ pairs).reshape(-1, G.shape[1], G.shape[1])
    return (weight[:, :, None] * G).swapaxes(1, 2) @ G


def _contracted(matrix: jax.Array, G: jax.Array) -> jax.Array:
    """g^T matrix g for every sample and every row g of G."""
    if G.size * G.shape[1] <= _PRODUCTS:
        pairs = (G[:, :, None] * G[:, None, :]).reshape(len(G), -1)
        return matrix.reshape(len(matrix), -1) @ pairs.T
    return jnp.sum((G @ matrix) * G, axis=2)


def _by_atoms(G: jax.Array) -> bool:
    return G.shape[0] <= G.shape[1]
