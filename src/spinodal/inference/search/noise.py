"""How large the noise is, where there is much of it: what predicts entries best that were held out.

In much noise the free entropy prefers too little noise and too dense codes, and so does whatever is learned on the way: the part of Y that
the codes explain by chance counts as explained. Entries held out are predicted worse then. Their residuals alone do not tell, since the
model expects larger errors of denser codes too; the whole likelihood of theirs does, as a function of the noise variance that a run keeps.
A run knows less of z than it says, more so in some entries than in others: without a factor for that, the noise would have to make up for
it, and be found too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# The shares of the power of Y above which the noise is looked for in this way: of the noise that was learned on the way, and of that with
# what is not known of z, which is large where the noise was found far too small. Below, what was learned is as good or better: at M = N/2
# this way finds a fifth too much.
_MUCH, _UNKNOWN = 0.05, 0.3
# The logarithms of the noise variances tried first, less that of the first guess; the distance between later ones, and the most of them.
_FIRST, _STEP, _MOST = (-0.3, 0.0, 0.3, 0.6), 0.3, 8
# Then the neighbourhood of the best one, how many of the nearest a parabola is fitted to, and how far its top may be from the best.
_NEAR, _FITTED, _TOP = 0.12, 5, 0.15
# Those tried first, and the distance, where the noise is known but for the atoms that were wrong. Entries are held out in several sets, so
# many at most, until there are so many of them.
_FINE, _FINE_STEP, _SETS, _ENOUGH = (-0.12, 0.0, 0.12), 0.12, 3, 8000
# The noise is known to so many standard errors of its logarithm; where these are more than this, nothing is known of it.
_ERRORS, _WIDEST = 2.0, 10.0
# By how much more than a run says of z may not be known.
_FACTORS = np.exp(np.linspace(0.0, 2.5, 26))
# No noise above this share of the power.
_HIGHEST = 0.95
# What is learned from all entries at the end is believed if it is within this factor of what was chosen, and then has this weight.
_BELIEVED, _WEIGHT = 1.3, 1 / 2
# Runs know what they say if less is known of z by no more than this factor.
_CALIBRATED = 1.05


class Held(NamedTuple):
    """How a run predicts entries held out: the mean log density of one, how many there are, the noise variance that it ended with, the
    mean variance of z that it says it does not know, the power of Y, and by which factor less is known of z than it says."""

    log_density: float
    number: int
    noise_variance: float
    unknown: float
    power: float
    factor: float = 1.0

    @classmethod
    def of(cls, numbers: np.ndarray) -> Held:
        """From its numbers in an array."""
        return cls(*numbers.tolist())._replace(number=int(numbers[1]))


class Chosen(NamedTuple):
    """A noise variance, the range that the data allow as far as is known, what the first runs learned, and by which factor the runs that
    chose it knew less than they said."""

    variance: float
    low: float
    high: float
    first: float
    factor: float = 1.0


def predicted(F: Any, X: Any, variances: Any, noise_variance: float, Y: np.ndarray, held: np.ndarray) -> Held:
    """How means F and X with their `variances` predict the held entries of Y: each is normal, with noise on top of what is not known, which
    is what the run says times the factor that predicts best."""
    (s, c), N = variances, F.shape[-1]
    error = (Y - F @ X / np.sqrt(N))[held]
    unknown = ((F**2 @ c + s @ (X**2 + c)) / N)[held]
    level = _FACTORS[:, None] * unknown + noise_variance
    density = -(np.mean(error**2 / level + np.log(level), axis=1) + np.log(2 * np.pi)) / 2 if held.any() else np.array([-np.inf])
    best = int(np.argmax(np.where(np.isfinite(density), density, -np.inf)))
    highest = float(density[best]) if np.isfinite(density[best]) else -np.inf
    power = float(np.mean(Y[held] ** 2))
    return Held(highest, int(held.sum()), float(noise_variance), float(np.mean(unknown)), power, float(_FACTORS[best]))


def joint(sets: Sequence[Held | None]) -> Held | None:
    """How runs predict several sets of entries, each run its own set, as one; None if one of them can't tell."""
    told = [held for held in sets if held is not None]
    if not told or len(told) < len(sets):
        return None
    number = sum(held.number for held in told)
    means = np.average(np.array(told), axis=0, weights=[held.number for held in told])
    return Held.of(means)._replace(number=number)


def is_noisy(held: Held | None) -> bool:
    """Whether there is so much noise that learning it on the way goes wrong."""
    if held is None:
        return False
    return held.noise_variance > _MUCH * held.power or held.noise_variance + held.unknown > _UNKNOWN * held.power


def reconciled(chosen: Chosen, learned: float) -> Chosen:
    """Between the noise that held-out entries chose and what a run from there learns of all entries.

    With right atoms the first is uncertain, and too large rather than too small, for runs are too sure of what they know; the second has a
    small error and is too small by a twentieth to a tenth, with codes that are too dense. The mean of their logarithms is nearer than
    either: that is measured, not proven. Where they are far apart, what is learned from all entries took noise for signal, as it does with
    few measurements, or with wrong atoms. With right ones held-out entries are predicted as well as runs say, and the choice stands alone.
    Otherwise what the first runs learned counts against it.
    """
    if 1 / _BELIEVED < learned / chosen.variance < _BELIEVED:
        middle, other = float(chosen.variance ** (1 - _WEIGHT) * learned**_WEIGHT), learned
    else:
        middle, other = chosen.variance, chosen.variance if chosen.factor < _CALIBRATED else chosen.first
    return chosen._replace(variance=middle, low=min(chosen.low, other), high=max(chosen.high, other))


class Trial:
    """Which noise variances are to be tried next, and what came out of those before: first whole steps until the best lies between worse
    ones, then its neighbourhood; a `fine` one takes steps of that size from the start."""

    def __init__(self, first: Held, fine: bool = False) -> None:
        self.first = first
        self.begin: tuple[float, ...] = _FINE if fine else _FIRST
        self.step = _FINE_STEP if fine else _STEP
        self.tried: dict[float, float] = {}  # log densities, by the logarithm of the noise over its first guess
        self.factors: dict[float, float] = {}
        self.folds = int(np.clip(np.ceil(_ENOUGH / max(1, first.number)), 1, _SETS)) if fine else 1

    def next(self) -> list[float]:
        """Noise variances to be tried next; none if that is all."""
        highest = np.log(_HIGHEST * self.first.power / self.first.noise_variance)
        if not self.tried:
            wanted = [x for x in self.begin if x < highest or x == 0]
        elif len(self.tried) < _MOST and (beyond := self._beyond()) is not None and beyond < highest:
            wanted = [beyond]
        else:
            near = (self.best - _NEAR, self.best + _NEAR)
            wanted = [x for x in near if x < highest and min(abs(x - other) for other in self.tried) > _NEAR / 2]
            wanted = wanted if len(wanted) == len(near) else []  # done, or at the end of what is possible
        self._asked = wanted
        return [float(self.first.noise_variance * np.exp(x)) for x in wanted]

    def _beyond(self) -> float | None:
        """A step further, where the best is at an end."""
        if self.best == max(self.tried):
            return self.best + self.step
        return self.best - self.step if self.best == min(self.tried) else None

    def add(self, wanted: Sequence[float], held: Sequence[Held | None]) -> None:
        """What came out."""
        for x, each in zip(self._asked, held, strict=True):
            self.tried[x] = -np.inf if each is None else each.log_density
            self.factors[x] = np.inf if each is None else each.factor

    @property
    def best(self) -> float:
        return max(self.tried, key=lambda x: self.tried[x])

    @property
    def chosen(self) -> Chosen:
        """The top of the parabola that fits the best and its nearest neighbours."""
        x = np.array(sorted(self.tried, key=lambda x: abs(x - self.best))[:_FITTED])
        y = np.array([self.tried[each] for each in x])
        top, width = self.best, _NEAR
        if len(x) > 2 and np.isfinite(y).all():
            bend, slope, _ = np.polyfit(x - self.best, y, 2)
            if bend < 0:
                top = self.best + float(np.clip(-slope / (2 * bend), -_TOP, _TOP))
                width = float(np.clip(_ERRORS / np.sqrt(2 * self.folds * self.first.number * -bend), np.finfo(float).eps, _WIDEST))
        first = self.first.noise_variance
        at = float(first * np.exp(top))
        return Chosen(at, float(at * np.exp(-width)), float(at * np.exp(width)), first, self.factors[self.best])
