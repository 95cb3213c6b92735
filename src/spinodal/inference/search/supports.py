"""Signals that message passing leaves unsolved: their nonzeros are looked for one by one, with F as it was found.

In small systems a few signals have more nonzeros than message passing can tell from so few measurements, though the data would say. Given
F, the evidence of a signal's support (which of its entries are not zero) has a closed form: the values are Gaussian and are integrated
out. Chains of supports, which change by one entry at a time, are cooled as message passing is: with noise that is added and taken away
again. The run then goes on from the likeliest support that was met, if two chains met it.

Nothing proves that this is the likeliest of all. It is never less likely than the one before. A support that one chain met alone is often
wrong, and its values are too sure of themselves: at N = 64, M = 32 and density .2 the squared errors of signals that took such supports
were 7 times their variances, where those that message passing leaves unsolved are at 2.6 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...model.channels import GaussianNoise
from ...model.model import Model
from ...model.priors import GaussBernoulli, Moments

# A signal is unsolved if its mean squared residual is so many times that of the better ones (a lower quartile), and above the noise. More
# than this share of all are no exception: something else is wrong, which no support mends.
_FAR, _MOST_SHARE = 3.0, 0.25
# Noise is added from this share of the signal's power down to that of the data, and then none, in so many steps.
_HOT, _LEVELS = 0.3, 16
# So many chains of a signal are followed together. In each step they change so many times for every measurement: more slowly, where no two
# met the likeliest support.
_CHAINS, _CHANGES = 3, (0.6, 1.2)
# All chains together take at most so many multiplications (half a second or so), and those that are followed together have at most so many
# numbers in their matrices.
_WORK, _ROOM = 5e8, 200_000
# A support must be likelier than the one before by this much, in nats, to be worth it. If the model makes data like these, or so many
# nonzeros, only at so many standard deviations, the signal is not one of its own (but of an outlier, say) and is left alone.
_WORTH, _ODD = 3.0, 5.0
# No noise is taken to be below this share of a signal's power.
_ROUNDING = 1e-6
_EPS = float(np.finfo(float).eps)


class Sparse(NamedTuple):
    """The prior of an entry: the log odds that it is not zero, and the mean and variance that it has then."""

    odds: float
    mean: float
    variance: float


class Signals(NamedTuple):
    """What is known of some signals, a row for each: F/sqrt(N), Y, how certain its entries are (1/variance; 0 where nothing was seen), and
    the prior."""

    matrix: np.ndarray
    Y: np.ndarray
    certain: np.ndarray
    prior: Sparse

    def rows(self, which: np.ndarray) -> Signals:
        return self._replace(Y=self.Y[which], certain=self.certain[which])


class Chains(NamedTuple):
    """Supports, a row for each chain, and what follows from them: the inverse covariance of y, the message (a, b) to every entry, and the
    log evidence."""

    on: np.ndarray
    inverse: np.ndarray
    a: np.ndarray
    b: np.ndarray
    evidence: np.ndarray


class Met(NamedTuple):
    """The likeliest support that each of some chains met without added noise, and its log evidence."""

    on: np.ndarray
    evidence: np.ndarray


def started(signals: Signals, on: np.ndarray) -> Chains:
    """A chain for each signal, at these supports."""
    F, prior, root = signals.matrix, signals.prior, np.sqrt(signals.certain)
    covariance = prior.variance * ((on[:, None, :] * F) @ F.T)
    covariance = root[:, :, None] * covariance * root[:, None, :] + np.eye(len(F))
    inverse = root[:, :, None] * np.linalg.inv(covariance) * root[:, None, :]
    left = signals.Y - prior.mean * on @ F.T
    pull = (inverse @ left[:, :, None])[:, :, 0]
    size = np.linalg.slogdet(covariance)[1] - np.sum(np.log(np.where(signals.certain > 0, signals.certain, 1.0)), axis=1)
    evidence = prior.odds * on.sum(axis=1) - (np.sum(left * pull, axis=1) + size) / 2
    return Chains(on.copy(), inverse, np.sum(F * (inverse @ F), axis=1), pull @ F, evidence)


def without(chains: Chains, prior: Sparse) -> tuple[np.ndarray, np.ndarray]:
    """The message to every entry from a model in which it is zero."""
    apart = np.where(chains.on, np.maximum(1 - prior.variance * chains.a, _EPS), 1.0)
    a, b = chains.a / apart, chains.b / apart
    return a, b + chains.on * (prior.mean * a) if prior.mean else b


def gains(chains: Chains, prior: Sparse) -> np.ndarray:
    """The log evidence that each change of one entry brings."""
    a, b = without(chains, prior)
    spread = np.maximum(1 + prior.variance * a, 1.0)  # rounding can take it below
    pull = prior.variance * b**2
    if prior.mean:
        pull += prior.mean * (2 * b - prior.mean * a)
    appears = prior.odds + (pull / spread - np.log(spread)) / 2
    return np.where(chains.on, -appears, appears)


def change(chains: Chains, signals: Signals, random: np.random.Generator) -> None:
    """Change one entry of every chain, in place: one drawn by Barker's rule, which prefers what brings more."""
    prior, each = signals.prior, np.arange(len(chains.on))
    gain = gains(chains, prior)
    chance = np.cumsum(1 + np.tanh(gain / 2), axis=1)
    drawn = random.random((len(each), 1)) * chance[:, -1:]
    i = np.minimum(np.sum(chance < drawn, axis=1), gain.shape[1] - 1)
    sign, a, b = np.where(chains.on[each, i], -1.0, 1.0), chains.a[each, i], chains.b[each, i]
    share = sign * prior.variance / np.maximum(1 + sign * prior.variance * a, _EPS)
    toward = (chains.inverse @ signals.matrix.T[i][:, :, None])[:, :, 0]
    overlap = toward @ signals.matrix
    chains.evidence[:] += gain[each, i]
    chains.on[each, i] ^= True
    chains.inverse[:] -= (share[:, None] * toward)[:, :, None] * toward[:, None, :]
    chains.a[:] -= share[:, None] * overlap**2
    pulled = share * b + sign * prior.mean * (1 - share * a) if prior.mean else share * b
    chains.b[:] -= pulled[:, None] * overlap
    lost = np.flatnonzero((chains.on & ~(prior.variance * chains.a < 1)).any(axis=1))
    if lost.size:  # to rounding
        for old, new in zip(chains, started(signals.rows(lost), chains.on[lost]), strict=True):
            old[lost] = new


def annealed(signals: Signals, changes: int, random: np.random.Generator) -> Met:
    """What a chain for each signal meets that is cooled slowly."""
    known = np.maximum(1, np.sum(signals.certain > 0, axis=1))
    least = 1 / np.max(signals.certain, axis=1)
    hot = np.maximum(_HOT * np.sum(np.where(signals.certain > 0, signals.Y, 0.0) ** 2, axis=1) / known, least)
    on = np.zeros((len(signals.Y), signals.matrix.shape[1]), bool)
    for level in np.linspace(1, 0, _LEVELS - 1):
        added = (least ** (1 - level) * hot**level)[:, None]
        on = _followed(signals._replace(certain=signals.certain / (1 + added * signals.certain)), on, changes, random)[0].on
    return _followed(signals, on, changes, random)[1]


def _followed(signals: Signals, on: np.ndarray, changes: int, random: np.random.Generator) -> tuple[Chains, Met]:
    """Chains from these supports after so many changes, and the likeliest supports that they met."""
    chains = started(signals, on)
    best = Met(chains.on.copy(), chains.evidence.copy())
    for _ in range(changes):
        change(chains, signals, random)
        better = chains.evidence > best.evidence
        best.on[better], best.evidence[better] = chains.on[better], chains.evidence[better]
    return chains, best


def searched(signals: Signals, before: np.ndarray, random: np.random.Generator) -> tuple[Met, np.ndarray]:
    """The likeliest support met of each signal, the one from before included, and whether it was met twice."""
    M, N = signals.matrix.shape
    best, work = Met(before.copy(), started(signals, before).evidence), _WORK
    agreed = np.zeros(len(before), bool)
    together = max(1, _ROOM // (_CHAINS * M * M))
    for changes in _CHANGES:
        left = np.flatnonzero(~agreed)[: affordable(work, changes, M, N)]
        work -= len(left) * _cost(changes, M, N)
        for here in np.array_split(left, -(-len(left) // together) or 1):
            which = np.repeat(here, _CHAINS)
            met = annealed(signals.rows(which), _number(changes, M), random)
            for k in here:
                own = np.flatnonzero(which == k)
                _elect(best, k, met.on[own], met.evidence[own], agreed)
    return best, agreed


def affordable(work: float, changes: float, M: int, N: int) -> int:
    """For how many signals so much work is enough."""
    return int(work // _cost(changes, M, N))


def _cost(changes: float, M: int, N: int) -> float:
    return float(_CHAINS * _LEVELS * _number(changes, M) * M * (M + N))


def _number(changes: float, M: int) -> int:
    return max(1, round(changes * M))


def _elect(best: Met, k: int, on: np.ndarray, evidence: np.ndarray, agreed: np.ndarray) -> None:
    """The likeliest support of a signal so far, and whether it was met more than once."""
    on, evidence = np.vstack([best.on[k], on]), np.append(best.evidence[k], evidence)
    first = np.argmax(evidence)
    best.on[k], best.evidence[k] = on[first], evidence[first]
    agreed[k] = np.sum(np.all(on == on[first], axis=1)) > 1


def given(signals: Signals, on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every entry, the support being this one."""
    a, b = without(started(signals, on), signals.prior)
    spread = np.maximum(1 + signals.prior.variance * a, 1.0)
    mean = np.where(on, (signals.prior.mean + signals.prior.variance * b) / spread, 0.0)
    return mean, np.where(on, signals.prior.variance / spread, np.finfo(float).tiny)


def plausible(signals: Signals, on: np.ndarray) -> np.ndarray:
    """Whether the model makes such signals, given these supports."""
    prior, known = signals.prior, np.sum(signals.certain > 0, axis=1)
    mean, _ = given(signals, on)
    # the squared Mahalanobis distance of y from its mean
    distance = np.sum(signals.certain * (signals.Y - mean @ signals.matrix.T) ** 2, axis=1)
    distance += np.sum(np.where(on, mean - prior.mean, 0.0) ** 2, axis=1) / prior.variance
    density = 1 / (1 + np.exp(-prior.odds))
    number, spread = on.shape[1] * density, np.sqrt(on.shape[1] * density * (1 - density))
    return (distance < known + _ODD * np.sqrt(2 * known)) & (on.sum(axis=1) < number + _ODD * spread)


def unsolved(square: np.ndarray, certain: np.ndarray) -> np.ndarray:
    """The signals with squared residuals (M x P) far above those of most, and above the noise, the worst last. None, if they are many."""
    level = np.sum(certain * square, axis=0) / np.maximum(1, np.sum(certain > 0, axis=0))
    far = np.flatnonzero(level > max(1.0, _FAR * float(np.quantile(level, 0.25))))
    return far[np.argsort(level[far])] if far.size <= _MOST_SHARE * level.size else far[:0]


def signals_searched(F: Moments, X: Moments, Y: np.ndarray, mask: np.ndarray | None, model: Model, seed: Sequence[int]) -> Moments | None:
    """X with the signals that were left unsolved looked at again, where codes are sparse and noise is Gaussian. None: nothing was found."""
    prior = model.prior.X
    if not (isinstance(prior, GaussBernoulli) and isinstance(model.channel, GaussianNoise)):
        return None
    N = F.mean.shape[1]
    seen = np.isfinite(Y) if mask is None else np.isfinite(Y) & mask
    Y = np.where(seen, Y, 0)
    w, V = F.mean @ X.mean / np.sqrt(N), F.variance @ (X.mean**2 + X.variance) / N
    with np.errstate(divide="ignore", invalid="ignore"):  # where there is no noise at all
        precision = np.fmin(model.channel.output(Y, w, V).precision, 1 / (_ROUNDING * np.mean(Y**2, axis=0)))
    certain = np.where(seen & np.isfinite(precision), precision, 0)
    which = unsolved((Y - w) ** 2, certain)[: affordable(_WORK, _CHANGES[0], *F.mean.shape)]
    if not which.size:
        return None
    law = Sparse(float(np.log(prior.rho) - np.log1p(-prior.rho)), float(prior.mean), float(prior.variance))
    rows, weights = (each[:, which].T.astype(float) for each in (Y, certain))
    signals = Signals(np.asarray(F.mean, float) / np.sqrt(N), rows, weights, law)
    before = (X.mean[:, which] ** 2 > X.variance[:, which]).T
    met, agreed = searched(signals, before, np.random.default_rng(seed))
    gained = started(signals, met.on).evidence - started(signals, before).evidence
    better = np.flatnonzero(agreed & (gained > _WORTH) & plausible(signals, met.on))
    if not better.size:
        return None
    mean, variance = (each.copy() for each in X)
    mean[:, which[better]], variance[:, which[better]] = (each.T for each in given(signals.rows(better), met.on[better]))
    return Moments(mean, variance)
