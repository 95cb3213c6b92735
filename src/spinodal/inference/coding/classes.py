"""Codes in blocks: every sample is of one class, and a class has atoms of its own.

    sample = mean of the class + codes @ atoms of the class + noise,    the noise of known variance.

The atoms of a class are orthonormal and their codes normal, each with its own variance, so given the class the codes are known in closed
form: there is nothing to iterate, damp or wait for. Classes are learned by expectation maximisation on random minibatches, in which samples
draw their classes. Variances that the spread of the noise alone would give are set to zero, which tells how many atoms a class has.

One JAX code path in single precision, compiled once for a number of classes: samples come in batches of a fixed size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Samples that fit into the caches together, and blocks of them in a minibatch.
BLOCK, BLOCKS = 2048, 4
BATCH = BLOCK * BLOCKS
# Minibatches of a fit; the weight of the newest one in the running sums is FIRST_SHARE at first, then falls as a power of their number.
STEPS, _FIRST_STEPS, _FIRST_SHARE, _FALL = 40, 4, 0.7, 0.6
# The first classes are samples, shrunk, large ones more often, with this share of the variance of all samples.
_SHRUNK, _FIRST_VARIANCE, _LEAST_POWER = 0.7, 0.2, 0.05
# A variance counts if it is above (1 + _SPREAD sqrt(features/samples))^2 times the noise; first variances are at least this share of it.
_SPREAD, _LEAST_VARIANCE = 0.5, 1e-3
# Numbers of atoms are rounded up to a multiple of this share of the features, so that little is compiled anew.
_RANKS = 4
# Samples of a class that are looked at, over those of the average class.
_ROOM = 4
# The least number of samples of a class in a minibatch.
_FEWEST = 1e-3


def _compiled(function: Callable[..., Any], static: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Compiled, with all digits of single precision: some GPUs multiply matrices with three digits, and covariances lose their meaning."""

    @wraps(function)
    def exactly(*arguments: Any, **others: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **others)

    return jax.jit(exactly, static_argnames=static)


class Classes(NamedTuple):
    """Share of the samples, mean, atoms (in columns) and variances of the codes of every class, from small to large."""

    share: jax.Array
    mean: jax.Array
    atoms: jax.Array
    variance: jax.Array


class Sums(NamedTuple):
    """Of every class: the number of its samples, their sum, and the sum of their outer products."""

    count: jax.Array
    total: jax.Array
    square: jax.Array


def learn_classes(
    draw: Callable[[np.random.Generator], np.ndarray],
    count: int,
    noise_variance: float,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Classes:
    """Classes of the samples that `draw` returns, BATCH (rows) at a time; `progress` is told the share of the work that is done."""
    random = np.random.default_rng(seed)
    noise = np.float32(noise_variance)
    classes = _first_classes(draw(random), count, noise, random)
    sums = None
    for step in range(STEPS):
        samples, uniform = (jnp.asarray(each, dtype=jnp.float32) for each in (draw(random), random.random(BATCH)))
        new = fetched(sums_of(trimmed(classes), samples, uniform, noise))
        share = _FIRST_SHARE if step < _FIRST_STEPS else (step + 2) ** -_FALL
        sums = new if sums is None else Sums(*((1 - share) * old + share * now for old, now in zip(sums, new, strict=True)))
        classes = fetched(best_classes(sums, noise))
        if progress is not None:
            progress((step + 1) / STEPS)
    return classes


def restored_samples(classes: Classes, data: np.ndarray, noise_variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of the samples (rows) without noise, and the mean posterior variance of the entries of each."""
    values, variance = np.empty(data.shape, np.float32), np.empty(len(data), np.float32)
    noise, classes = np.float32(noise_variance), trimmed(classes)
    for first in range(0, len(data), BATCH):
        part = data[first : first + BATCH]
        batch = np.zeros((BATCH, data.shape[1]), np.float32)
        batch[: len(part)] = part
        found = _restore(classes, batch, noise)
        values[first : first + BATCH], variance[first : first + BATCH] = (np.asarray(each)[: len(part)] for each in found)
    return values, variance


def trimmed(classes: Classes) -> Classes:
    """The classes without the atoms that none of them uses."""
    features = classes.mean.shape[1]
    used = int(np.max(np.sum(np.asarray(classes.variance) > 0, axis=1)))
    step = max(1, features // _RANKS)
    first = max(0, classes.variance.shape[1] - step * max(1, -(-used // step)))
    return classes._replace(atoms=classes.atoms[:, :, first:], variance=classes.variance[:, first:])


def log_density(classes: Classes, data: jax.Array, noise: jax.Array) -> jax.Array:
    """log of share times density of every sample (rows) in every class (columns), up to a common constant."""

    def one(_: None, each: Classes) -> tuple[None, jax.Array]:
        along = data @ each.atoms - each.mean @ each.atoms
        gain = each.variance / (each.variance + noise)  # without atoms the exponent would be |away|^2/noise
        return None, jnp.sum(along**2 * gain, axis=1) / noise + jnp.sum(jnp.log1p(-gain))

    # Away from the means of all classes at a time: one by one it would take as long as all the rest.
    away = jnp.sum(data**2, axis=1, keepdims=True) - 2 * data @ classes.mean.T + jnp.sum(classes.mean**2, axis=1)
    return jnp.log(classes.share) + (jax.lax.scan(one, None, classes)[1].T - away / noise) / 2


def fetched(tree: Any) -> Any:
    """Arrays that a program is done with, as NumPy's. Programs are waited for one by one: two that factorize matrices at a time can occupy
    all threads of a CPU."""
    return jax.device_get(jax.block_until_ready(tree))


@_compiled
def sums_of(classes: Classes, data: jax.Array, uniform: jax.Array, noise: jax.Array) -> Sums:
    """What a batch of samples says. Each is given to one class, drawn by its probabilities with the help of a uniform number.

    Of a class with many samples some stand for all: outer products of all samples in all classes would take four times as long as
    everything else.
    """
    samples, features = data.shape
    count = len(classes.share)
    room = min(samples, _ROOM * samples // count)
    blocks = jax.lax.map(lambda each: log_density(classes, each, noise), data.reshape(BLOCKS, -1, features))
    chance = jax.nn.softmax(blocks.reshape(samples, count), axis=1)
    which = jnp.minimum(jnp.sum(jnp.cumsum(chance, axis=1) < uniform[:, None], axis=1), count - 1)
    order, given = jnp.argsort(which), jnp.bincount(which, length=count)
    used = jnp.minimum(given, room)
    place = jnp.arange(room)

    def one(each: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, length = each
        rows = jnp.where((place < length)[:, None], data[order[jnp.minimum(first + place, samples - 1)]], 0)
        return rows.sum(axis=0), rows.T @ rows

    total, square = jax.lax.map(one, (jnp.cumsum(given) - given, used))
    stands_for = jnp.where(used > 0, chance.sum(axis=0) / jnp.maximum(used, 1), 0)
    return Sums(stands_for * used, stands_for[:, None] * total, stands_for[:, None, None] * square)


@_compiled
def best_classes(sums: Sums, noise: jax.Array) -> Classes:
    """The classes of highest likelihood: eigenvectors of their covariances, and what the eigenvalues have above the noise."""
    count = jnp.maximum(sums.count, _FEWEST)
    mean = sums.total / count[:, None]
    values, vectors = jnp.linalg.eigh(sums.square / count[:, None, None] - mean[:, :, None] * mean[:, None, :])
    counts = values > noise * (1 + _SPREAD * jnp.sqrt(mean.shape[1] / count[:, None])) ** 2
    return Classes(count / count.sum(), mean, vectors, jnp.where(counts, values - noise, 0))


@_compiled
def _restore(classes: Classes, data: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    def block(samples: jax.Array) -> tuple[jax.Array, jax.Array]:
        chance = jax.nn.softmax(log_density(classes, samples, noise), axis=1)

        def one(so_far: tuple[jax.Array, ...], each: tuple[jax.Array, Classes]) -> tuple[tuple[jax.Array, ...], None]:
            (mean, within, square), (weight, of) = so_far, each
            gain, middle = of.variance / (of.variance + noise), of.mean @ of.atoms
            codes = (samples @ of.atoms - middle) * gain
            power = jnp.sum(of.mean**2) + jnp.sum((codes + 2 * middle) * codes, axis=1)  # of mean + codes: atoms are orthonormal
            open_still = noise * jnp.sum(gain)
            return (mean + (weight[:, None] * codes) @ of.atoms.T, within + weight * open_still, square + weight * power), None

        zero = jnp.zeros(len(samples), samples.dtype)
        (mean, within, square), _ = jax.lax.scan(one, (chance @ classes.mean, zero, zero), (chance.T, classes))
        within, square = within / samples.shape[1], square / samples.shape[1]
        return mean, within + jnp.maximum(square - jnp.mean(mean**2, axis=1), 0)

    mean, variance = jax.lax.map(block, data.reshape(BLOCKS, -1, data.shape[1]))
    return mean.reshape(data.shape), variance.reshape(-1)


def _first_classes(data: np.ndarray, count: int, noise: np.float32, random: np.random.Generator) -> Classes:
    """Samples as means, and a share of the covariance of all."""
    power = np.sqrt(np.maximum(np.mean(np.square(data, dtype=np.float64), axis=1) / noise - 1, _LEAST_POWER))
    mean = _SHRUNK * data[random.choice(len(data), count, replace=False, p=power / power.sum())]
    values, vectors = np.linalg.eigh(np.cov(data.T))
    variance = _FIRST_VARIANCE * np.maximum(values - noise, _LEAST_VARIANCE * noise)
    wide = partial(jnp.asarray, dtype=jnp.float32)
    return Classes(
        wide(np.full(count, 1 / count)), wide(mean), wide(np.repeat(vectors[None], count, 0)), wide(np.repeat(variance[None], count, 0))
    )


class Completed(NamedTuple):
    """Samples with what they miss: posterior mean and variance of every entry, and what they say of their classes."""

    mean: jax.Array
    variance: jax.Array
    sums: Sums


@partial(_compiled, static=("most",))
def complete(
    classes: Classes, guess: jax.Array, data: jax.Array, seen: jax.Array, level: jax.Array, noise: jax.Array, most: int
) -> Completed:
    """The entries of samples of which only some were `seen`, `most` of a sample at most, with noise, given the class that each is in.

    The class is that in which a first `guess` of the whole sample is most probable, if its error has the variance `level`.
    """
    which = jnp.argmax(log_density(classes, guess, level), axis=1)
    covariance = ((classes.atoms * classes.variance[:, None, :]) @ classes.atoms.transpose(0, 2, 1))[which]
    middle = classes.mean[which]
    # Seen entries first: equations are solved for these alone, and for some that fill up.
    place = jnp.argsort(~seen, axis=1, stable=True)[:, :most]
    known = jnp.take_along_axis(seen, place, axis=1).astype(data.dtype)
    part = known[:, :, None] * jnp.take_along_axis(covariance, place[:, :, None], axis=1)
    among = jnp.take_along_axis(part, place[:, None, :], axis=2) * known[:, None, :]
    factor = jnp.linalg.cholesky(among + jnp.eye(most, dtype=data.dtype) * (known * noise + 1 - known)[:, :, None])
    # One solve for both: two at a time can occupy all threads of a CPU, each waiting for one.
    sides = jnp.concatenate([part, (known * jnp.take_along_axis(data - middle, place, axis=1))[:, :, None]], axis=2)
    solved = jax.scipy.linalg.solve_triangular(factor, sides, lower=True)
    half, pull = solved[:, :, :-1], solved[:, :, -1:]
    across = half.transpose(0, 2, 1)
    mean = middle + (across @ pull)[:, :, 0]
    left = covariance - across @ half
    total = [
        jax.ops.segment_sum(each, which, len(classes.share))
        for each in (jnp.ones(len(data)), mean, left + mean[:, :, None] * mean[:, None, :])
    ]
    return Completed(mean, jnp.maximum(jnp.diagonal(left, axis1=1, axis2=2), 0), Sums(*total))
