"""Whether the measurements themselves say that Gaussian noise is the wrong channel: then a run that settled can't be trusted.

`suspicions` are hints. These few are so plain that the status follows them: entries piled up at the ends of the range, few different
values, small counts, residuals far beyond the others of their signal, rows that no signal explains. Each names the channel to try.
On data drawn from the model none of them happens: entries of a continuous law are never equal, and given F and X the residuals of a column
are normal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..model.channels import GaussianNoise
from ..model.model import Model
from ..model.priors import Gaussian
from .execution.machine import side_by_side
from .solution import Solution, Status
from .suspicious_data import LEVEL_OF_ITS_OWN, LIKE_COUNTS, clipping, grid_step
from .suspicious_table import Table, median, row_scales, some_signals, with_means

_SETTLED = "the run settled, but "

# More entries, and residuals, than these are not looked at: of larger data, signals at equal distances are taken. A few are looked at
# first, and more only where those are odd, so that a batch on a GPU need not wait long for its verdict.
_MOST_ENTRIES, _MOST_RESIDUALS, _FEW_ENTRIES = 100_000, 20_000, 3000
# Instances that are looked at in one go.
_AT_A_TIME = 16
# Fewer entries, or fewer in a column, say nothing.
_FEWEST_ENTRIES, _SHORTEST_COLUMN = 200, 16
# Clipping matters from this share of the entries on; where more than this share are equal, it is something else (most of Y is zero, say).
_CLIPPED = (0.01, 0.5)
# So few different values (4 bits), each of them taken so often on average, are those of a coarse converter.
_FEW_VALUES, _TIMES_EACH = 16, 10
# ... if the variance that rounding adds is at least this share of the noise.
_OF_NOISE = 0.1
# Counts of a smaller mean are not near normal numbers of one variance.
_MEAN_COUNT = 20.0
# A residual of so many times the typical one of its signal is an outlier, and a larger share of them than this is no accident: of normal
# numbers one in 10^11 is, of a Laplace law one in 1500.
_FAR, _SHARE_FAR, _FEWEST_FAR = 7.0, 0.002, 10
# From a median of absolute values to a standard deviation.
_OF_MEDIAN = 1.4826
# A row is not explained if this share of its power is left, where of the typical row this share is; less than this share of rows are a few.
_ALL_LEFT, _LITTLE_LEFT, _FEW_ROWS = 0.5, 0.1, 0.25
# Residuals with a smaller share of the data's power are of the iteration, not of the noise.
_ROUNDING = 1e-8


def judged_by_data(solution: Solution) -> Solution:
    """The solution, of a batch or of one instance, with another status where it settled on data that its channel can't have made."""
    if solution.observed is None:
        return solution
    Y, _, mask = solution.observed
    if not solution.batched:
        odd = solution.status is Status.CONVERGED and bool(_look_odd(Y, mask, *solution.mean))
        reason = misfit(solution) if odd else None
        return solution if reason is None else replace(solution, status=Status.MISFIT, reason=_SETTLED + reason)

    def look(part: slice) -> np.ndarray:
        return _look_odd(Y[part], None if mask is None else mask[part], *(factor[part] for factor in solution.mean))

    parts = [slice(first, first + _AT_A_TIME) for first in range(0, len(Y), _AT_A_TIME)]
    for k in np.flatnonzero(np.concatenate(side_by_side(look, parts))).tolist():
        reason = misfit(solution[k]) if solution.status[k] is Status.CONVERGED else None
        if reason is not None:
            solution.status[k], solution.reason[k] = Status.MISFIT, _SETTLED + reason
    return solution


def _look_odd(Y: np.ndarray, mask: np.ndarray | None, F: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Whether a few signals of each instance, all instances at a time, show something of what `misfit` looks for: entries that are equal, a
    row of which much is left, a residual far out. Where that is common enough to count, none is among so many once in e^6 times."""
    few = some_signals(np.shape(Y)[-2:], _FEW_ENTRIES)
    Y, X = (np.take(values, few, axis=-1).astype(float, copy=False) for values in (Y, X))
    F = np.asarray(F, dtype=float)
    seen = np.isfinite(Y) if mask is None else np.isfinite(Y) & np.take(np.asarray(mask, bool), few, axis=-1)
    with np.errstate(all="ignore"):
        left = Y - F @ X / np.sqrt(F.shape[-1])
        holes = not seen.all()
        left, known, entries = (np.where(seen, each, gap) if holes else each for each, gap in ((left, 0.0), (Y, 0.0), (Y, np.nan)))
        much_left, far = _shares_left(known, left) > _ALL_LEFT / 2, _far_out(left, seen).which
    return _some_equal(entries) | np.any(much_left, axis=-1) | np.any(far, axis=(-2, -1))


def _some_equal(Y: np.ndarray) -> np.ndarray:
    """Whether entries of a row are equal, or several of all are the largest or the smallest; of one table, or of each of a batch."""
    ordered = np.sort(Y, axis=-1)  # NaN comes last; to sort rows is quicker than to sort all entries
    at_largest, at_smallest = (np.equal(Y, end.reduce(Y, axis=(-2, -1), keepdims=True)) for end in (np.fmax, np.fmin))
    several = np.maximum(*(np.count_nonzero(each, axis=(-2, -1)) for each in (at_largest, at_smallest))) > 1
    return several | np.any(ordered[..., 1:] == ordered[..., :-1], axis=(-2, -1))


def misfit(solution: Solution) -> str | None:
    """Why Gaussian noise is the wrong channel for the data of one instance, and which to try; None if nothing says so."""
    model = solution.model
    if solution.observed is None or not isinstance(getattr(model, "channel", None), GaussianNoise):
        return None
    with np.errstate(all="ignore"):
        return next(_reasons(solution, model), None)


def _reasons(solution: Solution, model: Model) -> Iterator[str]:
    Y, _, mask = solution.observed  # type: ignore[misc]
    kept = some_signals(np.shape(Y), _MOST_ENTRIES)
    dtype, Y = np.asarray(Y).dtype, _some(np.asarray(Y, dtype=float), kept)
    seen = np.isfinite(Y) if mask is None else np.isfinite(Y) & _some(np.asarray(mask, bool), kept)
    if np.sum(seen) < _FEWEST_ENTRIES or not np.any(Y):
        return
    Y = Y if seen.all() else np.where(seen, Y, 0.0)
    table = Table(Y, seen, solution.names.rows)
    if isinstance(model.prior.F, Gaussian):
        means = None if solution.row_means is None else np.asarray(solution.row_means, dtype=float)[:, None]
        yield from of_values(table if means is None else table._replace(Y=np.where(seen, with_means(Y, means, dtype), 0.0)), model)
    fewer = some_signals(Y.shape, _MOST_RESIDUALS)
    table, kept = table._replace(Y=_some(Y, fewer), seen=_some(seen, fewer)), kept[fewer]
    left = _left(solution, table, kept)
    if left is None:
        return
    variance = np.asarray(model.channel.variance)  # type: ignore[attr-defined]
    size = np.sqrt(variance[:, kept] if variance.ndim and variance.shape[-1] > 1 else variance)
    if not variance.ndim:
        yield from of_rows(table, left)
    far, beyond = _far_out(left / size if variance.ndim else left, table.seen), np.abs(left) > size
    yield from of_far_out(far._replace(which=far.which & beyond))  # what the noise explains is no outlier


def _some(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Some columns; no copy where that is all of them."""
    return values if kept.size == values.shape[1] else values[:, kept]


def of_values(table: Table, model: Model) -> Iterator[str]:
    """What the values themselves say, where they should come from a continuous law."""
    step = grid_step(table)
    if step is not None:
        values, noise = table.Y[table.seen], float(np.median(model.channel.variance))  # type: ignore[attr-defined]
        if values.min() >= 0 and np.all(values == np.round(values)) and values.max() > 1:
            mean = float(values.mean())
            if mean < _MEAN_COUNT and LIKE_COUNTS[0] * mean < noise < LIKE_COUNTS[1] * mean:
                yield (
                    f"Y holds small counts (whole numbers up to {values.max():.0f}, {mean:.2g} on average), whose noise is not Gaussian: "
                    'try channel="poisson", which learns their rate'
                )
                return
        different = np.unique(values)
        few = different.size <= _FEW_VALUES and values.size > _TIMES_EACH * different.size
        if few and step**2 / 12 > _OF_NOISE * noise:
            yield f"Y has only {different.size} values, so {_of_few_values(different)}"
            return
    share, ends_in_words = clipping(table, model, on_grid=step is not None)
    if _CLIPPED[0] <= share <= _CLIPPED[1]:
        ends = '"clipped"' if LEVEL_OF_ITS_OWN not in ends_in_words else "Clipped(low, high), with the ends of each row as M x 1 arrays"
        yield f"{100 * share:.2g}% of the entries of Y are equal to its largest or smallest value, so it was clipped: try channel={ends}"


def _of_few_values(different: np.ndarray) -> str:
    """Which channel measurements of a few different values ask for."""
    if np.array_equal(different, (-1, 1)):
        return 'it holds signs: try channel="one-bit"'
    if np.array_equal(different, (0, 1)):
        return 'it holds answers of yes or no: try channel="binary", or channel="one-bit" with -1 in the place of 0'
    return 'it was rounded coarsely: try channel="quantized", which reads the thresholds off the data'


def _shares_left(Y: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The share of each row's power that is not explained."""
    power = np.sum(Y**2, axis=-1)
    return np.sum(left**2, axis=-1) / np.where(power > 0, power, np.inf)


def of_rows(table: Table, left: np.ndarray) -> Iterator[str]:
    """A few rows of which nothing is explained, where most of the others is: sensors that say nothing about the signals."""
    share = _shares_left(table.Y, left)
    unexplained = share > _ALL_LEFT
    if not 0 < np.sum(unexplained) <= _FEW_ROWS * share.size or np.median(share) > _LITTLE_LEFT:
        return
    number, which = int(np.sum(unexplained)), table.rows(np.flatnonzero(unexplained))
    size = float(np.mean(np.sum(table.Y[unexplained] ** 2, axis=1) / np.maximum(table.seen[unexplained].sum(axis=1), 1)))
    yield (
        f"no signal explains {which} of Y: if {'these sensors are' if number > 1 else 'this sensor is'} faulty, try "
        f'channel="faulty:faulty={number / share.size:.2g},fault_variance={size:.2g}"'
    )


class FarOut(NamedTuple):
    """Residuals, each row in units of its typical one: which are there, and which are far out."""

    seen: np.ndarray
    which: np.ndarray


def _far_out(left: np.ndarray, seen: np.ndarray) -> FarOut:
    """Residuals far beyond the others of their column. That a whole signal is not explained is another matter: its residuals are alike."""
    seen = seen & (seen.sum(axis=-2, keepdims=True) >= _SHORTEST_COLUMN)
    left = left / row_scales(left, seen)[..., None]
    scale = _OF_MEDIAN * median(np.where(seen, np.abs(left), np.nan), -2)
    return FarOut(seen, seen & (np.abs(left) > _FAR * scale[..., None, :]))


def of_far_out(far: FarOut) -> Iterator[str]:
    """Too many residuals far out."""
    share, count = float(np.sum(far.which) / max(np.sum(far.seen), 1)), int(np.sum(far.which))
    if share > _SHARE_FAR and count >= _FEWEST_FAR:
        yield (
            f"{100 * share:.2g}% of the residuals are far beyond the others of their signal, so the noise is not Gaussian: try "
            'channel="outliers"'
        )


def _left(solution: Solution, table: Table, kept: np.ndarray) -> np.ndarray | None:
    """Residuals of the fit of these signals; None where there are none but rounding errors."""
    F, X = np.asarray(solution.mean.F, dtype=float), _some(np.asarray(solution.mean.X), kept).astype(float, copy=False)
    left = table.Y - F @ X / np.sqrt(F.shape[1])
    left = left if table.seen.all() else np.where(table.seen, left, 0.0)
    return left if np.all(np.isfinite(left)) and np.sum(left**2) > _ROUNDING * np.sum(table.Y**2) else None
