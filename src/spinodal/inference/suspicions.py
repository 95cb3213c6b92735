"""Signs that data do not follow the model: a run can converge on them, and still be wrong.

Each suspicion is one sentence: what is seen, and what to do about it. Those of the data alone are in `suspicious_data`; here are those of
the fit. They test facts that hold for data drawn from the model, whatever the sizes and the noise: the signals come in no order, rows and
signals have residuals of the predicted size, no atom is the noise of a single row, and the model is likelier than noise alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..model.model import Model
from ..model.priors import Gaussian
from .misfit import of_rows
from .suspicious_data import (
    RATE,
    chi_square_beyond,
    of_data,
    of_gains,
    orientation,
    outliers,
    outliers_in_words,
    share_beyond,
)
from .suspicious_table import Table, median, row_scales, some_signals, with_means

if TYPE_CHECKING:
    from .solution import Solution

# Learned densities outside of this range are at an end of what can be learned, and above this one hardly sparse.
_LOWEST, _HIGHEST, _DENSE = 2e-4, 1 - 2e-4, 0.5
# A learned noise of this share of the data's power says that all is noise; one below this share, that nothing is.
_ALL_NOISE, _NO_NOISE = 0.99, 2e-8
# The typical signal's residual, over what the model predicts, is wrong outside of this range.
_TOO_SMALL, _TOO_LARGE = 0.5, 1.5
# Residuals below this share of what the noise leaves, where every nonzero code and every entry of F takes its part of it, show that noise
# is fitted. Right fits leave at least 0.55 of it, at 5 dB and at M = N/2 too; half the true number of atoms, at 40 dB, leaves 0.3 to 0.45.
_OF_THE_NOISE = 0.45
# Residuals with a smaller share of the data's power are of the iteration, not of the noise.
_ROUNDING = 1e-8
# A row is noisier from this ratio of variances on, if it is so many standard errors of the logarithm of a median square, 2.33/sqrt(P).
_NOISIER, _SIGMAS, _OF_MEDIAN = 4.0, 6.0, 2.33
# ... and if its typical residual is more than this, in units of what the model predicts: it should be 0.67, the median of a normal number.
# What is left of data without noise is far less.
_LOUD = 0.3
# Less than this share of the rows are a few.
_FEW = 0.5
# Residuals vary too much from signal to signal if their quartiles are this many times too far apart, and so many standard errors more; that
# of the distance of two quartiles is 1.17/sqrt(P) of it. Up to a sixth of the signals of a good run may not have settled.
_UNEQUAL, _ERRORS, _OF_QUARTILES = 1.5, 4.0, 1.17
# The distance of the quartiles of a standard normal number.
_QUARTILES = 1.349
# Atoms are used unequally in the two halves if the sum of squared differences is this many standard deviations above that of random halves,
# of which so many are drawn, and the typical difference is more than this share of an atom's uses.
_DRIFT, _HALVES, _DIFFERENCE = 8.0, 64, 0.2


def suspicions(solution: Solution) -> tuple[str, ...]:
    """What looks wrong with the data or the model of a solution of one instance, a sentence for each sign; nothing where nothing does."""
    if solution.observed is None or solution.model is None:
        return ()
    with np.errstate(all="ignore"):
        return tuple(_all(solution, solution.model))


def _all(solution: Solution, model: Model) -> Iterator[str]:
    M, P = np.shape(solution.observed.Y)  # type: ignore[union-attr]
    N = np.shape(solution.mean.F)[1]
    kept = some_signals((M, P))
    Y, hint, mask = solution.observed  # type: ignore[misc]
    dtype, Y = np.asarray(Y).dtype, np.asarray(Y)[:, kept].astype(float)
    seen = np.isfinite(Y) & (True if mask is None else np.asarray(mask, bool)[:, kept])
    means = None if solution.row_means is None else np.asarray(solution.row_means, dtype=float)[:, None]
    table = Table(np.where(seen, Y if means is None else with_means(Y, means, dtype), 0.0), seen, solution.names.rows)
    yield from _repeated_names(solution)
    centred = None if solution.row_means is None else solution.centered
    found, table = of_data(table, model, N, centred, noise_learned="noise_variance" in solution.learned)
    yield from found
    if table.power == 0:
        return
    normal = isinstance(model.prior.F, Gaussian) and model.noise_variance is not None
    if normal and hint is not None:
        yield from of_gains(table, hint)
    out = outliers(table) if normal else np.zeros(table.Y.shape, bool)
    turned = orientation(table.without(out), N) if normal and hint is None else None
    if turned:
        yield turned
        return  # rows that are signals look strange in every other way too
    if all(np.isfinite(value).all() for value in (*solution.mean, *solution.variance)):
        yield from _of_fit(solution, model, table, np.where(table.seen, Y, 0.0), kept, out)
    elif out.any():
        yield outliers_in_words(out, int(np.sum(table.seen)))


def _repeated_names(solution: Solution) -> Iterator[str]:
    for what, names in zip(("rows", "columns"), solution.names, strict=True):
        repeated = [name for name, count in Counter(names or ()).items() if count > 1]
        if repeated:
            yield f"{len(repeated)} names of {what} of Y occur more than once, such as {repeated[0]!r}; give each a name of its own"


def _of_fit(solution: Solution, model: Model, table: Table, Y: np.ndarray, kept: np.ndarray, out: np.ndarray) -> Iterator[str]:
    """Suspicions of the fit. Y is what was fitted; the table may have had its means taken off."""
    entries = int(np.sum(table.seen))
    power = float(np.sum(Y**2) / entries)
    if model.noise_variance is not None:
        left = _residuals(solution, Y, table.seen, float(model.noise_variance), kept)
        if str(solution.status) != "converged":  # else the status says so
            yield from of_rows(table, left.plain)
        noise_alone = str(solution.status) != "diverged" and is_noise(solution, *_seen(solution))
        noisier = _noisier_rows(solution, model, table, left, out, atoms_tell=not noise_alone)
        if noisier.any():
            has = "have" if np.sum(noisier) > 1 else "has"
            yield (
                f"{table.rows(np.flatnonzero(noisier))} of Y {has} far more noise than the others, or another unit; "
                'learn the noise of each row (noise_variance="rows"), divide every row by the size of its noise, or leave noisy rows out'
            )
        if out[~noisier].any():
            yield outliers_in_words(out, entries)
        if noise_alone:
            yield "the fit explains Y no better than noise alone would, so nothing was learned; more signals, or less noise, are needed"
        if str(solution.status) == "converged" and left.share > _ROUNDING:
            yield from _misfit(solution, left)
        if str(solution.status) in ("converged", "unconfirmed") and left.share > _ROUNDING:
            yield from _fits_noise(solution, left)
    yield from _parameters(solution, model, power)
    yield from _drift(np.asarray(solution.mean.X)[:, kept], np.asarray(solution.variance.X)[:, kept])


def _seen(solution: Solution) -> tuple[np.ndarray, np.ndarray | None]:
    """Y with zeros where it was not observed, and the mask."""
    assert solution.observed is not None
    return np.nan_to_num(np.asarray(solution.observed.Y)), solution.observed.mask


class _Left(NamedTuple):
    """Residuals in units of what the model predicts for them, their share of the data's power, and as they are."""

    units: np.ndarray
    share: float
    seen: np.ndarray
    plain: np.ndarray


def _residuals(solution: Solution, Y: np.ndarray, seen: np.ndarray, noise: float, kept: np.ndarray) -> _Left:
    """The residual of an entry has the variance noise^2/(noise + V), where V is the uncertainty of its F X/sqrt(N).

    V is taken as the product of a factor for each row and one for each signal.
    """
    F, X, F_variance, X_variance = (np.asarray(value, dtype=float) for value in (*solution.mean, *solution.variance))
    X, X_variance = X[:, kept], X_variance[:, kept]
    N = F.shape[1]
    left = np.where(seen, Y - F @ X / np.sqrt(N), 0.0)
    signal = (np.mean(F**2, axis=0) @ X_variance + np.mean(F_variance, axis=0) @ (X**2 + X_variance)) / N
    row = (F**2 @ np.mean(X_variance, axis=1) + F_variance @ np.mean(X**2 + X_variance, axis=1)) / N
    V = row[:, None] * signal / max(float(np.mean(signal)), float(np.finfo(float).tiny))
    power = float(np.sum(Y**2))
    noise = max(noise, _ROUNDING * power / Y.size)
    return _Left(left * np.sqrt(noise + V) / noise, float(np.sum(left**2)) / power, seen, left)


def _parameters(solution: Solution, model: Model, power: float) -> Iterator[str]:
    """What was learned lies at an end of its range."""
    rho, noise = getattr(model.prior.X, "rho", None), model.noise_variance
    if "density" in solution.learned and rho is not None:
        if not _LOWEST < float(rho) < _HIGHEST:
            yield f"the learned density, {float(rho):.2g}, is at an end of its range; give the density, or change the number of atoms"
        elif float(rho) > _DENSE:
            yield (
                f"the learned density is {float(rho):.2g}, so the codes are hardly sparse, and dense codes do not tell atoms from "
                "their mixtures; try more atoms, or give the density"
            )
    if "noise_variance" in solution.learned and noise is not None:
        if float(noise) > _ALL_NOISE * power:
            yield "the learned noise is as large as the data; look for structure in Y first, or give a noise_variance"
        elif float(noise) < _NO_NOISE * power and str(solution.status) != "converged":
            yield "the learned noise is practically zero, so the noise itself is fitted; try fewer atoms, or give a noise_variance"


def _drift(X: np.ndarray, variance: np.ndarray) -> Iterator[str]:
    """Signals of the model come in no order, so the two halves are like random ones: a permutation test, exact at any size and noise."""
    P = X.shape[1]
    used = (variance < X**2).astype(float)
    side = np.where(np.arange(P) < P // 2, -1.0, 1.0)
    rng = np.random.default_rng(0)
    by_chance = np.sum((used @ np.stack([rng.permutation(side) for _ in range(_HALVES)], axis=1)) ** 2, axis=0)
    excess = np.sum((used @ side) ** 2) - np.mean(by_chance)
    uses = np.sum(np.sum(used, axis=1) ** 2)
    if excess > _DRIFT * np.std(by_chance) and excess > _DIFFERENCE**2 * uses:
        yield (
            "the first half of the signals uses different atoms from the second half, as if the dictionary had changed midway; "
            "solve for each half by itself, and compare"
        )


def _noisier_rows(solution: Solution, model: Model, table: Table, left: _Left, out: np.ndarray, *, atoms_tell: bool) -> np.ndarray:
    """Rows whose residuals, whose entries, or (unless they are atoms of noise) whose share of an atom are far above those of the others."""
    (M, N), P = np.shape(solution.mean.F), table.Y.shape[1]
    error = np.exp(_SIGMAS * _OF_MEDIAN / np.sqrt(np.mean(table.seen) * P))
    noisier = np.zeros(M, bool)
    if left.share > _ROUNDING:
        loud = median(np.where(table.seen, np.abs(left.units), np.nan), -1) > _LOUD
        noisier |= loud & (row_scales(left.units, table.seen) ** 2 > max(_NOISIER, error))
    if isinstance(model.prior.F, Gaussian) and solution.observed.F_prime is None:  # type: ignore[union-attr]
        # The mean square of a row is that of N normal numbers; the share of a row in an atom is a Beta variable.
        noisier |= row_scales(table.Y, table.seen) ** 2 > error * chi_square_beyond(RATE / M, N) / N
        squares = np.asarray(solution.mean.F, dtype=float) ** 2
        share = squares / np.maximum(np.sum(squares, axis=0), np.finfo(float).tiny)
        alone = np.any(share_beyond(share, M) < RATE / (M * N), axis=1)
        # Outliers anywhere make such atoms too; they are in a few rows only if it is the rows that are noisy.
        if atoms_tell and np.mean(alone) < _FEW and not out[~alone & ~noisier].any():
            noisier |= alone
    return noisier


def is_noise(solution: Solution, Y: np.ndarray, mask: np.ndarray | None) -> bool:
    """Whether the evidence is below that of Gaussian noise with the power of the data."""
    noise = solution.model.noise_variance
    if noise is None or float(noise) <= 0 or not np.isfinite(float(solution.free_entropy)):
        return False
    (_, N), P = np.shape(solution.mean.F), np.shape(solution.mean.X)[1]
    seen = Y if mask is None else Y[np.asarray(mask, bool)]
    power = float(np.mean(np.square(seen, dtype=float)))
    evidence = float(solution.free_entropy) * N * P / seen.size
    return bool(power > 0 and evidence < -(1 + np.log(power)) / 2)


def _fits_noise(solution: Solution, left: _Left) -> Iterator[str]:
    """Held-out entries chose a noise that the residuals of all others do not show: what was fitted is explained too well."""
    density = getattr(solution.model.prior.X, "rho", None)
    if density is None or "noise_variance" not in solution.learned or solution.observed.F_prime is not None:  # type: ignore[union-attr]
        return
    M, N = np.shape(solution.mean.F)
    free = 1 - float(density) * N / (M * np.mean(left.seen)) - N / np.shape(solution.mean.X)[1]
    share = float(np.sum(left.plain**2) / np.sum(left.seen)) / float(solution.model.noise_variance)
    if share < _OF_THE_NOISE * free:
        yield (
            f"the residuals are only {share:.2g} of the learned noise, so the fit explains noise, or mixes what more atoms would keep "
            "apart; try more atoms, or more signals"
        )


def _misfit(solution: Solution, left: _Left) -> Iterator[str]:
    """The sums of squared residuals of the signals are chi-square variables, of which cube roots are normal (Wilson and Hilferty)."""
    number = np.maximum(left.seen.sum(axis=0), 1)
    square = np.sum(left.units**2, axis=0) / number
    typical = float(np.median(square))
    if not _TOO_SMALL < typical < _TOO_LARGE and "noise_variance" not in solution.learned:
        advice = "too large" if typical < 1 else "too small, or atoms are missing"
        yield (
            f"the residuals of the typical signal are {typical:.2g} times what noise_variance predicts, so noise_variance looks {advice}; "
            "leave it out so that it is learned"
        )
    scores = (np.cbrt(square) - (1 - 2 / (9 * number))) / np.sqrt(2 / (9 * number))
    low, high = np.quantile(scores, (0.25, 0.75))
    if (high - low) / _QUARTILES > _UNEQUAL + _ERRORS * _OF_QUARTILES / np.sqrt(number.size):
        yield (
            "the residuals differ from signal to signal far more than noise does, so part of the signals is not explained; "
            "try more atoms, or more measurements of each signal"
        )
