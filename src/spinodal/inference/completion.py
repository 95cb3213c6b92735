"""`complete`: what is missing of a table, with intervals that held-out entries have calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from ..errors import InputError, check, check_count, check_seed
from .checks import as_observed
from .coding.factors import NO_TAILS, Factors, first_factors, in_blocks, learn_factors, predictions
from .solution import UNNAMED, Names

# Entries that are held out: a share of those seen, at most so many, and the fewest that can say anything.
_HELD_OUT, _MOST_HELD_OUT, _FEWEST_HELD_OUT = 0.1, 20_000, 30
# Entries of a column that must be left.
_FEWEST_IN_COLUMN = 2
# Rounds of a fit between looks at the held-out entries, and of the last one, which sees these too and starts from the result.
_ROUNDS, _LAST_ROUNDS = (6, 6, 12, 24, 24), 5
# A larger model must gain so much log density for each held-out entry.
_WORTH_IT = 0.003
# Most components, and most for the number of samples and of features.
MOST_COMPONENTS, _PER_SAMPLE, _PER_FEATURE = 64, 1 / 3, 3 / 4
# Components that are tried: this number first, then so many times as many.
_FIRST_COMPONENTS, _MORE_COMPONENTS = 2, 4
# Degrees of freedom where the learning of heavy tails starts; classes that are tried, and the fewest samples for each.
_FIRST_FREEDOM, _CLASSES, _SAMPLES_PER_CLASS = 4.0, (4, 8), 100
# A component counts if it has this share of what all explain.
_COUNTS = 1e-4
# Degrees of freedom that the law of held-out errors may have, and steps for its scale.
_FREEDOMS, _SCALE_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 100.0), 50

Progress = Callable[[str, float], None]


class Member(NamedTuple):
    """One of the models that are averaged: its classes and components, those in use, and degrees of freedom (inf: normal)."""

    n_classes: int
    n_components: int
    used: int
    freedom: float


class HeldOut(NamedTuple):
    """Number of held-out entries, mean log density of them, and root mean squared error, for features of standard deviation 1."""

    entries: int
    log_density: float
    rmse: float


@dataclass(frozen=True, eq=False, repr=False)
class Completed:
    """A table with its holes filled in, and how far to trust that.

    Attributes:
        table: the values that were given, and means where there were none.
        deviation: the standard deviation of each filled-in entry as the models have it, 0 where there was a value.
        missing: True where an entry was filled in.
        members: the models that were averaged, by precision.
        noise_variance: of each feature, in its units squared: the part that no other feature explains.
        held_out: number of entries that were held out, the mean log density there, and the root mean squared error over the standard
            deviation of the features.
        errors: their absolute errors in units of `deviation`, from small to large: they calibrate the intervals.
        law: degrees of freedom and scale of a Student law for the same.
        names: labels of rows and columns, where the data came with some.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> random = np.random.default_rng(0)
        >>> truth = random.normal(size=(200, 2)) @ random.normal(size=(2, 10)) + 0.1 * random.normal(size=(200, 10))
        >>> found = sp.complete(np.where(random.random(truth.shape) < 0.1, np.nan, truth))
        >>> found.table.shape, bool(found.held_out.rmse < 0.2)
        ((200, 10), True)
    """

    table: np.ndarray
    deviation: np.ndarray
    missing: np.ndarray
    members: tuple[Member, ...]
    noise_variance: np.ndarray
    held_out: HeldOut
    errors: np.ndarray
    law: tuple[float, float]
    names: Names = field(default=UNNAMED)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold this share of the entries; a value that was given is its own interval.

        They are as wide, in standard deviations, as was needed for that share of the held-out entries (split conformal prediction).

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> random = np.random.default_rng(0)
            >>> truth = random.normal(size=(200, 2)) @ random.normal(size=(2, 10)) + 0.1 * random.normal(size=(200, 10))
            >>> holes = random.random(truth.shape) < 0.1
            >>> low, high = sp.complete(np.where(holes, np.nan, truth)).interval(0.9)
            >>> bool(0.8 < np.mean((low <= truth) & (truth <= high), where=holes) < 0.97)
            True
        """
        count = len(self.errors)
        check("level", level, 0.0, count / (count + 1), low_open=True)
        reach = self.errors[max(int(np.ceil((count + 1) * level)) - 1, 0)] * self.deviation
        return self.table - reach, self.table + reach

    def log_density(self, values: Any) -> np.ndarray:
        """Log of the predictive density of these values, NaN where an entry was not missing.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> random = np.random.default_rng(0)
            >>> truth = random.normal(size=(200, 2)) @ random.normal(size=(2, 10)) + 0.1 * random.normal(size=(200, 10))
            >>> holes = random.random(truth.shape) < 0.1
            >>> found = sp.complete(np.where(holes, np.nan, truth))
            >>> bool(np.nanmean(found.log_density(truth)) > np.nanmean(found.log_density(truth + 1)))
            True
        """
        given = np.asarray(values, dtype=float)
        if given.shape != self.table.shape:
            raise InputError(f"values must have the shape of the table, {self.table.shape}, but theirs is {given.shape}.")
        freedom, scale = self.law
        width = scale * np.where(self.missing, self.deviation, 1.0)
        return np.where(self.missing, student.logpdf((given - self.table) / width, freedom) - np.log(width), np.nan)

    def summary(self) -> str:
        """What was done, in a few words.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> random = np.random.default_rng(0)
            >>> truth = random.normal(size=(200, 1)) * random.normal(size=10) + 0.1 * random.normal(size=(200, 10))
            >>> print(sp.complete(truth).summary().split(";")[0])
            0 of 2000 entries filled in
        """
        models = ", ".join(
            f"{each.used} components"
            + (f" in each of {each.n_classes} classes" if each.n_classes > 1 else "")
            + (" with heavy tails" if np.isfinite(each.freedom) else "")
            for each in self.members
        )
        return (
            f"{int(self.missing.sum())} of {self.missing.size} entries filled in; {models}; "
            f"held-out error {self.held_out.rmse:.3g} of a standard deviation"
        )

    def __repr__(self) -> str:
        return f"Completed({self.table.shape[0]} x {self.table.shape[1]}: {self.summary()})"


class _Fit(NamedTuple):
    """A model, and the means and variances of all entries."""

    factors: Factors
    mean: np.ndarray
    variance: np.ndarray


def complete(Y: Any, *, max_components: int = MOST_COMPONENTS, seed: int = 0, progress: Progress | None = None) -> Completed:
    """What is missing of a table, given the rest: samples in rows, features in columns.

    Every feature is a mean, a few components that all features share, and a noise of its own. How many components there are, whether
    samples have heavy tails, and whether they fall into classes with components of their own, is told by entries that are held out. The
    same entries calibrate the intervals. Models that help each other are averaged by their precisions.

    Args:
        Y: the table, an array, masked array, DataFrame or DataArray, with NaN where an entry is missing.
        max_components: the most components to try.
        seed: of the entries that are held out, and of where classes start.
        progress: called as progress(stage, share) now and then, with the share of the work that is done.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> random = np.random.default_rng(0)
        >>> truth = random.normal(size=(300, 2)) @ random.normal(size=(2, 12)) + 0.1 * random.normal(size=(300, 12))
        >>> holes = random.random(truth.shape) < 0.2
        >>> found = sp.complete(np.where(holes, np.nan, truth))
        >>> bool(np.std((found.table - truth)[holes]) < 0.2)
        True
    """
    observed, names = as_observed(Y)
    if observed.Y.ndim != 2:
        raise InputError(f"Y must be one table, samples x features, but it has {observed.Y.ndim} dimensions.")
    check_count("max_components", max_components)
    check_seed("seed", seed)
    values = np.asarray(observed.Y, dtype=float)
    seen = np.ones(values.shape, bool) if observed.mask is None else np.asarray(observed.mask, bool)
    _check_enough(seen, names)
    say = progress or (lambda stage, share: None)
    middle = np.sum(values, axis=0, where=seen) / seen.sum(axis=0)
    spread = np.sqrt(np.sum((values - middle) ** 2, axis=0, where=seen) / seen.sum(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    scaled = np.where(seen, (values - middle) / spread, 0.0)
    random = np.random.default_rng(seed)
    hidden = held_out(seen, random)
    _check_held_out(hidden)
    with jax.enable_x64(True):
        fits = _chosen(scaled, seen & ~hidden, _Checked(scaled, hidden), max_components, random, say)
        mean, variance = _averaged(fits)
        final = [_again(fit, scaled, seen) for fit in fits]
    error = (scaled - mean)[hidden]
    standard = error / np.sqrt(variance[hidden])
    filled, left = _averaged(final)
    say("refitting", 1.0)
    return Completed(
        table=np.where(seen, values, middle + spread * filled),
        deviation=np.where(seen, 0.0, spread * np.sqrt(left)),
        missing=~seen,
        members=tuple(_member(fit) for fit in final),
        noise_variance=spread**2 * np.mean([np.exp(fit.factors.log_share) @ np.asarray(fit.factors.noise) for fit in final], axis=0),
        held_out=HeldOut(len(error), _log_density(error, variance[hidden]), float(np.sqrt(np.mean(error**2)))),
        errors=np.sort(np.abs(standard)),
        law=law_of(standard),
        names=names,
    )


def _check_held_out(hidden: np.ndarray) -> None:
    if hidden.sum() * 2 < _FEWEST_HELD_OUT:
        raise InputError(
            f"Y must have enough entries in every column for some to be held out, but only {hidden.sum()} of {hidden.size} can be; "
            "more rows help."
        )


def _check_enough(seen: np.ndarray, names: Names) -> None:
    if min(seen.shape) < 2 or seen.sum() * _HELD_OUT < _FEWEST_HELD_OUT:
        raise InputError(
            f"Y must have at least 2 rows, 2 columns and {_FEWEST_HELD_OUT / _HELD_OUT:.0f} entries that are not missing, "
            f"but it is {seen.shape[0]} x {seen.shape[1]} with {seen.sum()} of them."
        )
    few = np.flatnonzero(seen.sum(axis=0) < _FEWEST_IN_COLUMN)
    if few.size:
        which = f"column {few[0] + 1}" if names.columns is None else f"column {names.columns[few[0]]!r}"
        raise InputError(f"Y must have at least {_FEWEST_IN_COLUMN} entries in every column, but {which} has {seen[:, few[0]].sum()}.")


def held_out(seen: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Entries to hold out: rows get the holes of other rows besides their own, so that what is held out is like what is missing.

    Where holes are few, entries at random make up the number.
    """
    wanted = min(_MOST_HELD_OUT, int(_HELD_OUT * seen.sum()))
    hidden = np.zeros_like(seen)
    holed = np.flatnonzero(~seen.all(axis=1))
    for i in random.permutation(len(seen)) if holed.size else np.array([], int):
        # At most half of what a row has: a row that is nearly empty can say nothing of its own holes.
        there = np.flatnonzero(seen[i] & ~seen[random.choice(holed)])
        hidden[i, random.permutation(there)[: int(seen[i].sum()) // 2]] = True
        if hidden.sum() >= wanted:
            break
    more = wanted - int(hidden.sum())
    if more > 0:
        free = np.flatnonzero(seen & ~hidden)
        hidden.flat[random.choice(free, more, replace=False)] = True
    hidden[:, (seen & ~hidden).sum(axis=0) < _FEWEST_IN_COLUMN] = False
    return hidden


class _Checked(NamedTuple):
    """The truth, and where it was held out."""

    values: np.ndarray
    hidden: np.ndarray

    def score(self, fits: list[_Fit]) -> float:
        """Mean log density of what was held out, and log of the precision of its errors, both of which count.

        Densities of values that repeat, such as zeros, can grow without end; errors can not shrink so.
        """
        mean, variance = _averaged(fits)
        error = (self.values - mean)[self.hidden]
        return _log_density(error, variance[self.hidden]) - float(np.log(np.mean(error**2))) / 2

    def gauss(self, fits: list[_Fit]) -> float:
        """The same with normal densities, which tell more and fewer components apart."""
        mean, variance = _averaged(fits)
        error, variance = (self.values - mean)[self.hidden], variance[self.hidden]
        return float(-np.mean(error**2 / variance + np.log(variance)) / 2 - np.log(np.mean(error**2)) / 2)


def _chosen(values: np.ndarray, seen: np.ndarray, checked: _Checked, most: int, random: np.random.Generator, say: Progress) -> list[_Fit]:
    """Models that predict the held-out entries best, together: normal ones first, then heavy tails, then classes."""
    samples, features = values.shape
    most = max(1, min(most, int(_PER_SAMPLE * samples), int(_PER_FEATURE * features)))
    best: list[_Fit] = []
    reached, rank = -np.inf, min(_FIRST_COMPONENTS, most)
    while True:
        say("components", 0.4 * rank / most)
        fit = _fitted(first_factors(values, seen, 1, rank, NO_TAILS, random), values, seen, checked.gauss)
        score = checked.gauss([fit])
        gain = score - reached
        if gain > 0:
            best, reached = [fit], score
        if gain < _WORTH_IT or rank == most:
            break
        rank = min(_MORE_COMPONENTS * rank, most)
    normal = best[0].factors
    rank = normal.loadings.shape[2] - 1
    say("tails", 0.5)
    reached = checked.score(best)
    heavy = _fitted(normal._replace(freedom=jnp.array([_FIRST_FREEDOM])), values, seen, checked.score)
    best, reached = _with(best, reached, heavy, checked)
    for n_classes in _CLASSES:
        say("classes", 0.5 + 0.4 * n_classes / max(_CLASSES))
        if samples < n_classes * _SAMPLES_PER_CLASS:
            break
        start = first_factors(values, seen, n_classes, max(1, rank // 2), _FIRST_FREEDOM, random)
        before = reached
        best, reached = _with(best, reached, _fitted(start, values, seen, checked.score), checked)
        if reached - before < _WORTH_IT:
            break
    return best


def _with(best: list[_Fit], reached: float, new: _Fit, checked: _Checked) -> tuple[list[_Fit], float]:
    """The best of three: the models so far, these and the new one, the new one alone. More models must be worth it."""
    for trial, price in (([new], 0.0), ([*best, new], _WORTH_IT)):
        score = checked.score(trial)
        if score > reached + price:
            best, reached = trial, score
    return best, reached


def _fitted(start: Factors, values: np.ndarray, seen: np.ndarray, score: Callable[[list[_Fit]], float]) -> _Fit:
    """A model that was learned as long as that helps to predict the held-out entries."""
    n_classes, _, columns = start.loadings.shape
    blocks = in_blocks(values, seen, n_classes, columns - 1)
    factors, best, reached = start, None, -np.inf
    for rounds in _ROUNDS:
        factors = learn_factors(factors, blocks, rounds)
        fit = _Fit(factors, *predictions(factors, blocks, len(values)))
        new = score([fit])
        gain = new - reached
        if best is None or gain > 0:
            best, reached = fit, new
        if not gain > _WORTH_IT:
            break
    assert best is not None
    return best


def _again(fit: _Fit, values: np.ndarray, seen: np.ndarray) -> _Fit:
    """The same model, with the held-out entries too."""
    n_classes, _, columns = fit.factors.loadings.shape
    blocks = in_blocks(values, seen, n_classes, columns - 1)
    factors = learn_factors(fit.factors, blocks, _LAST_ROUNDS)
    return _Fit(factors, *predictions(factors, blocks, len(values)))


def _averaged(fits: list[_Fit]) -> tuple[np.ndarray, np.ndarray]:
    """Means weighted by precisions, and the mean precision inverted."""
    precision = sum(1 / fit.variance for fit in fits) / len(fits)
    mean = sum(fit.mean / fit.variance for fit in fits) / len(fits) / precision
    return np.asarray(mean), np.asarray(1 / precision)


def _member(fit: _Fit) -> Member:
    n_classes, _, columns = fit.factors.loadings.shape
    share = np.exp(np.asarray(fit.factors.log_share))
    power = np.sum(np.asarray(fit.factors.loadings)[:, :, :-1] ** 2, axis=1)
    used = (power > _COUNTS * power.sum(axis=1, keepdims=True)).sum(axis=1)
    freedom = float(share @ np.asarray(fit.factors.freedom))
    return Member(n_classes, columns - 1, round(float(share @ used)), np.inf if freedom >= NO_TAILS / 10 else freedom)


def _log_density(error: np.ndarray, variance: np.ndarray) -> float:
    """Mean log density under the Student law that fits best."""
    standard = error / np.sqrt(variance)
    freedom, scale = law_of(standard)
    return float(np.mean(student.logpdf(standard / scale, freedom) - np.log(scale) - np.log(variance) / 2))


def law_of(errors: np.ndarray) -> tuple[float, float]:
    """Degrees of freedom and scale of the Student law of highest likelihood, of a few."""
    found = []
    for freedom in _FREEDOMS:
        square: float = np.median(errors**2).item() + float(np.finfo(float).tiny)
        for _ in range(_SCALE_STEPS):
            square = np.mean((freedom + 1) * errors**2 / (freedom + errors**2 / square)).item()
        scale = float(np.sqrt(square))
        found.append((float(np.mean(student.logpdf(errors / scale, freedom) - np.log(scale))), freedom, scale))
    return max(found)[1:]
