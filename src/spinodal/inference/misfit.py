"""Whether the measurements themselves say that Gaussian noise is the wrong channel: then a run that settled can't be trusted.

`suspicions` are hints. These few are so plain that the status follows them: entries piled up at the ends of the range, few different
values, small counts, residuals far beyond the others of their signal, rows that no signal explains. Each names the channel to try.
On data drawn from the model none of them happens: entries of a continuous law are never equal, and given F and X the residuals of a column
are normal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from ..model.channels import GaussianNoise
from ..model.model import Model
from ..model.priors import Gaussian
from .solution import Solution, Status
from .suspicious_data import clipping, grid_step, median, row_scales
from .suspicious_table import Table, some_signals

_SETTLED = "the run settled, but "

# More entries, and residuals, than these are not looked at: of larger data, signals at equal distances are taken. Less than a millisecond
# for each instance, so that a batch on a GPU need not wait for it.
_MOST_ENTRIES, _MOST_RESIDUALS = 100_000, 20_000
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
# The noise of counts is about their mean; whole numbers of another noise are something else.
_LIKE_COUNTS = (0.4, 4.0)
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
    if not solution.batched:
        reason = misfit(solution) if solution.status is Status.CONVERGED else None
        return solution if reason is None else replace(solution, status=Status.MISFIT, reason=_SETTLED + reason)
    settled = [k for k, status in enumerate(solution.status) if status is Status.CONVERGED]
    with ThreadPoolExecutor() as threads:  # NumPy sorts and multiplies without Python's lock
        for k, reason in zip(settled, threads.map(misfit, [solution[k] for k in settled]), strict=True):
            if reason is not None:
                solution.status[k], solution.reason[k] = Status.MISFIT, _SETTLED + reason
    return solution


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
    Y = np.asarray(Y)[:, kept].astype(float)
    seen = np.isfinite(Y) & (True if mask is None else np.asarray(mask, bool)[:, kept])
    if np.sum(seen) < _FEWEST_ENTRIES or not np.any(Y):
        return
    offset = 0.0 if solution.row_means is None else np.asarray(solution.row_means, dtype=float)[:, None]
    if isinstance(model.prior.F, Gaussian):
        yield from of_values(Table(np.where(seen, Y + offset, 0.0), seen, solution.names.rows), model)
    fewer = some_signals(Y.shape, _MOST_RESIDUALS)
    Y, seen, kept = Y[:, fewer], seen[:, fewer], kept[fewer]
    left = _left(solution, np.where(seen, Y, 0.0), seen, kept)
    if left is None:
        return
    variance = np.asarray(model.channel.variance)  # type: ignore[attr-defined]
    if variance.ndim:
        left = left / np.sqrt(variance[:, kept] if variance.shape[-1] > 1 else variance)
    table = Table(np.where(seen, Y, 0.0), seen, solution.names.rows)
    if not variance.ndim:
        yield from of_rows(table, left)
    yield from _far_out(left, seen)


def of_values(table: Table, model: Model) -> Iterator[str]:
    """What the values themselves say, where they should come from a continuous law."""
    values = table.Y[table.seen]
    step, noise = grid_step(table), float(np.median(model.channel.variance))  # type: ignore[attr-defined]
    if step is not None and values.min() >= 0 and np.all(values == np.round(values)) and values.max() > 1:
        mean = float(values.mean())
        if mean < _MEAN_COUNT and _LIKE_COUNTS[0] * mean < noise < _LIKE_COUNTS[1] * mean:
            yield (
                f"Y holds small counts (whole numbers up to {values.max():.0f}, {mean:.2g} on average), whose noise is not Gaussian: "
                f"try channel=Poisson({mean:.2g})"
            )
        return
    different = np.unique(values) if step is not None else np.zeros(0)
    if (
        step is not None
        and step**2 / 12 > _OF_NOISE * noise
        and different.size <= _FEW_VALUES
        and values.size > _TIMES_EACH * different.size
    ):
        middle = np.round((different[1:] + different[:-1]) / 2 / step, 6) * step + 0.0
        levels = f"OneBit({middle[0]:.3g})" if middle.size == 1 else f"Quantized([{', '.join(f'{m:.3g}' for m in middle)}])"
        yield f"Y has only {different.size} values, so it was rounded coarsely: try channel={levels}"
        return
    share, ends_in_words = clipping(table, model, on_grid=step is not None)
    if _CLIPPED[0] <= share <= _CLIPPED[1]:
        low, high = table.Y[table.seen].min(), table.Y[table.seen].max()
        ends = f"Clipped({low:.4g}, {high:.4g})" if "a level of its own in each row" not in ends_in_words else "Clipped(low, high)"
        yield f"{100 * share:.2g}% of the entries of Y are equal to its largest or smallest value, so it was clipped: try channel={ends}"


def of_rows(table: Table, left: np.ndarray) -> Iterator[str]:
    """A few rows of which nothing is explained, where most of the others is: sensors that say nothing about the signals."""
    power = np.sum(table.Y**2, axis=1)
    share = np.sum(left**2, axis=1) / np.where(power > 0, power, np.inf)
    unexplained = share > _ALL_LEFT
    if not 0 < np.sum(unexplained) <= _FEW_ROWS * share.size or np.median(share) > _LITTLE_LEFT:
        return
    number, which = int(np.sum(unexplained)), table.rows(np.flatnonzero(unexplained))
    size = float(np.mean(power[unexplained] / np.maximum(table.seen.sum(axis=1)[unexplained], 1)))
    yield (
        f"no signal explains {which} of Y: if {'these sensors are' if number > 1 else 'this sensor is'} faulty, try "
        f"channel=FaultySensors(faulty={number / share.size:.2g}, fault_variance={size:.2g})"
    )


def _far_out(left: np.ndarray, seen: np.ndarray) -> Iterator[str]:
    """Residuals far beyond the others of their column. That a whole signal is not explained is another matter: its residuals are alike."""
    long = seen.sum(axis=0) >= _SHORTEST_COLUMN
    if not long.any():
        return
    left, seen = left[:, long], seen[:, long]
    left = left / row_scales(left, seen)[:, None]
    scale = _OF_MEDIAN * median(np.where(seen, np.abs(left), np.nan), 0)
    far = seen & (np.abs(left) > _FAR * scale)
    share, count = float(np.sum(far) / np.sum(seen)), int(np.sum(far))
    if share > _SHARE_FAR and count >= _FEWEST_FAR:
        usual, odd = float(np.median(scale) ** 2), float(np.mean(left[far] ** 2))
        yield (
            f"{100 * share:.2g}% of the residuals are far beyond the others of their signal, so the noise is not Gaussian: try "
            f"channel=Outliers({usual:.2g}, {share:.2g}, {odd:.2g})"
        )


def _left(solution: Solution, Y: np.ndarray, seen: np.ndarray, kept: np.ndarray) -> np.ndarray | None:
    """Residuals of the fit; None where there are none but rounding errors."""
    F, X = np.asarray(solution.mean.F, dtype=float), np.asarray(solution.mean.X)[:, kept].astype(float)
    left = np.where(seen, Y - F @ X / np.sqrt(F.shape[1]), 0.0)
    return left if np.all(np.isfinite(left)) and np.sum(left**2) > _ROUNDING * np.sum(Y**2) else None
