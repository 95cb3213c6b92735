"""What looks wrong with the data themselves, before anything is fitted: each suspicion is one sentence that says what to do.

Entries of data drawn from a model are never equal, their row means are small, and given X the entries of a column are independent normal
numbers. Each check tests one of these; its false-alarm rate on data drawn from the model is below `RATE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from ..model.model import Model
from .suspicious_table import Table, row_scales, some_signals

# The share of data sets drawn from the model on which a check may give a false alarm.
RATE = 1e-4
# Numbers that programs write where they have no measurement.
_SENTINELS = (*(sign * (10.0**digits - 1) for digits in range(2, 10) for sign in (1, -1)), -32768.0, 32767.0, 1e10, -1e10)
# A number is a sentinel only if it is as far from all others as this share of their range.
_APART = 0.5
# An index 0, 1, 2, ... of fewer entries could be data.
_SHORTEST_INDEX = 4
# So many random numbers are in order with a probability below the rate, 2/8!; smooth signals may be, but then others are as well.
_SHORTEST_ORDER, _OTHERS_ORDERED = 8, 0.1
# One entry is enough to show a sentinel of at least this size.
_PLAIN_SENTINEL = 999.0
# A row of so many equal entries is no accident.
_CONSTANT = 10
# Ties at the largest (or smallest) entry of a row: so many in a row, and so many altogether, are clipping.
_TIES, _CLIPPED = 3, 5
# What is said where each row has an end of its own.
LEVEL_OF_ITS_OWN = "a level of its own in each row"
# On a grid of values ties are no surprise; so many times as many at the last value as at the one before are.
_PILE = 4.0
# A grid is looked for among so many entries, and a few of them first; it has fewer different values than half of them, at multiples of a
# step up to this error.
_GRID_ENTRIES, _FEW_ENTRIES, _MULTIPLE = 20_000, 1000, 1e-3
# Rounding matters if it adds more than this share to the noise, and more than this share to the data.
_OF_NOISE, _OF_POWER = 0.1, 1e-6
# The noise of counts is about their mean, between these multiples of it; whole numbers of another noise are something else.
LIKE_COUNTS = (0.4, 4.0)
# Row means that were left where they are matter if they hold more than this share of the power.
_MEAN_SHARE = 0.02
# Outliers are looked for so many times over, without those already found, which hide others in their column.
_PEELS = 3
# A row is far larger than the others from this ratio on.
_LARGE = 3.0
# Kurtosis this many standard errors above the normal one shows which side is sparse.
_SIGMAS = 6.0
# A row is far larger than the others if it is so by this many standard errors, of the logarithm of a median square times sqrt(P).
_OF_MEDIAN = 6.0 * 2.33
# Halves of the signals are compared in so many signals and mixtures of rows, with so many random halves. They differ if that is so many
# standard deviations, and the difference is this share of the moments.
_LOOKED_AT, _MIXTURES, _HALVES, _DRIFT, _DIFFERENCE = 2000, 32, 64, 8.0, 0.2
# Of more than this many rows for each column the rows are the signals if there are no more columns than atoms, for then nothing could be
# learned otherwise, or if the columns' means hold more than this share of what is left of the power without the rows' means.
_TALL, _UNITS = 2.0, 0.5
# With F' known, the logarithms of the rows' powers over what F' says spread by less than this (a standard deviation), of so many rows.
_GAINS, _FEWEST_ROWS = 0.5, 10


def of_data(table: Table, model: Model, N: int, centred: str | None = None, *, noise_learned: bool = False) -> tuple[list[str], Table]:
    """Suspicions of the data, the plainest first, and the table without what they explain, which is hidden from the checks that follow.

    `centred` says that row means were taken off before the fit, though not from this table: "asked" by the user, or "auto".
    """
    if table.power == 0:
        return [f"every entry of {table.words.data} is zero, or as good as zero; check where the data come from"], table
    found = list(_index(table))
    told, table = _sentinels(table)
    found += told
    if model.noise_variance is None:  # entries of a channel with few outcomes are equal often, and their mean is not that of F X
        told, table = _means(table, N, centred) if expects_no_mean(model) and table.power > 0 else ([], table)
        return found + told, table
    told, table = _constant_rows(table)
    found += told
    if table.power == 0:
        return found, table
    step = grid_step(table)
    if step is None:
        told, table = _duplicates(table)
        found += told
    found += _clipped(table, model, step is not None)
    if step is not None:
        found += _rounded(table, model, step, noise_learned)
        # Between two steps nothing is known: a random number there undoes the rounding, so that the checks that follow see no grid.
        between = np.random.default_rng(0).uniform(-step / 2, step / 2, table.Y.shape)
        table = table._replace(Y=np.where(table.seen, table.Y + between, 0.0))
    if expects_no_mean(model) and table.power > 0:
        told, table = _means(table, N, centred)
        found += told
    return found, table


def expects_no_mean(model: Model) -> bool:
    """Whether the mean of a row of Y is zero in the model, and an offset of Y is one of F X."""
    return float(model.prior.X.moments().mean) == 0 and model.channel.shows_units and not model.channel.by_rows


def off_centre(Y: np.ndarray, seen: np.ndarray, N: int) -> np.ndarray:
    """Whether row means are further from zero than chance takes those of data that are centred; of one table, or of each of a batch.

    The test is of all entries, and again of some of them without marks for missing entries, constant rows and copies of signals.
    """
    Y = Y if seen.all() else np.where(seen, Y, 0.0)
    far = _mean_share(Y, seen, N) > 1
    tables = zip(far.ravel(), *(values.reshape(-1, *Y.shape[-2:]) for values in (Y, seen)), strict=True)
    return np.array([bool(each) and _off_without_marks(entries, there, N) for each, entries, there in tables]).reshape(far.shape)


def _off_without_marks(Y: np.ndarray, seen: np.ndarray, N: int) -> bool:
    kept = some_signals(Y.shape)
    _, table = _sentinels(Table(Y[:, kept], seen[:, kept]))
    _, table = _constant_rows(table)
    if grid_step(table) is None:
        _, table = _duplicates(table)
    return bool(_mean_share(table.Y, table.seen, N) > 1)


def _index(table: Table) -> Iterator[str]:
    for Y, all_seen, words in (
        (table.Y, table.seen, table.words.first_row),
        (table.Y.T, table.seen.T, table.words.first_column),
    ):
        line, seen = Y[0], all_seen[0]
        if not seen.all():
            continue
        counts = line.size >= _SHORTEST_INDEX and line[0] in (0, 1) and np.array_equal(line, line[0] + np.arange(line.size))
        alone = line.size >= _SHORTEST_ORDER and len(Y) > 1 and np.mean(_ordered(Y[1:])) < _OTHERS_ORDERED
        if counts or (alone and _ordered(line[None])[0]):
            yield words.format(", ".join(f"{value:.10g}" for value in line[:3]) + ", ...")


def _ordered(lines: np.ndarray) -> np.ndarray:
    """Which lines only increase, or only decrease."""
    steps = np.diff(lines, axis=1)
    return np.all(steps > 0, axis=1) | np.all(steps < 0, axis=1)


def _sentinels(table: Table) -> tuple[list[str], Table]:
    found = []
    for value in _SENTINELS:
        hidden = (value == table.Y) & table.seen
        count = int(np.sum(hidden))
        if count < (1 if abs(value) >= _PLAIN_SENTINEL else 2):
            continue
        others = table.Y[table.seen & ~hidden]
        if others.size and (value < others.min() or value > others.max()):
            gap = min(abs(value - others.min()), abs(value - others.max()))
            if gap > _APART * (others.max() - others.min()):
                what = "entry is" if count == 1 else "entries are"
                found.append(
                    f"{count} {what} {value:.10g}, which looks like a mark for missing entries; write NaN instead"
                    + table.words.missing.format(f"{value:.10g}")
                )
                table = table.without(hidden)
    return found, table


def _constant_rows(table: Table) -> tuple[list[str], Table]:
    low, high = _extremes(table)
    constant = (low == high) & (table.seen.sum(axis=1) >= _CONSTANT)
    if not constant.any():
        return [], table
    several = np.sum(constant) > 1
    sentence = (
        f"{table.rows(np.flatnonzero(constant))} of {table.words.data} never change{'' if several else 's'}; leave out what is constant"
    )
    return [sentence], table.without(constant[:, None] & table.seen)


def _extremes(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest entry of each row."""
    return np.where(table.seen, table.Y, np.inf).min(axis=1), np.where(table.seen, table.Y, -np.inf).max(axis=1)


def grid_step(table: Table) -> float | None:
    """The step of the grid that all values are on; None if they are on no grid."""
    apart = slice(None, None, max(1, table.Y.size // _FEW_ENTRIES))
    few = np.sort(table.Y.ravel()[apart][table.seen.ravel()[apart]])
    if np.all(few[1:] > few[:-1]) and few.size > _FEW_ENTRIES / 2:  # where half of all values occur twice, some of so many do
        return None
    values = table.Y[table.seen]
    values = values[:: max(1, values.size // _GRID_ENTRIES)]
    different = np.unique(values)
    if different.size < 2 or different.size > values.size / 2:
        return None
    gaps = np.diff(different)
    step = float(gaps.min())
    multiples = gaps / step
    return step if np.all(np.abs(multiples - np.round(multiples)) < _MULTIPLE) else None


def _duplicates(table: Table) -> tuple[list[str], Table]:
    """Columns that are equal have the same sum with any weights; only neighbours in the order of two such sums are compared."""
    weights = np.random.default_rng(0).normal(size=(2, len(table.Y)))
    sums = weights @ table.Y
    order = np.lexsort(sums)
    first, second = order[:-1], order[1:]
    alike = np.all(np.isclose(sums[:, first], sums[:, second], rtol=1e-9, atol=0), axis=0) & (sums[0, first] != 0)
    pairs = [(a, b) for a, b in zip(first[alike], second[alike], strict=True) if np.array_equal(table.Y[:, a], table.Y[:, b])]
    if not pairs:
        return [], table
    copies = np.zeros(table.Y.shape[1], bool)
    copies[[max(pair) for pair in pairs]] = True
    one, what = min(pairs, key=max), "are copies of others" if len(pairs) > 1 else "is a copy of another"
    sentence = (
        f"{len(pairs)} of the {copies.size} {table.words.signals} {what}, such as {max(one) + 1} of {min(one) + 1}; "
        "leave copies out, for they count as new evidence"
    )
    return [sentence], table.without(copies & table.seen)


def clipping(table: Table, model: Model, on_grid: bool) -> tuple[float, list[str]]:
    """The share of entries tied at the ends of the rows' ranges, and the levels in words; none where that is no sign of clipping. Zeros
    are natural where the factors, or counts, are nonnegative."""
    Y, seen, occupied = table.Y, table.seen, np.any(table.Y != 0, axis=0)
    if not occupied.all():
        Y, seen = Y[:, occupied], seen[:, occupied]
    zero_is_natural = float(model.prior.X.moments().mean) != 0 or (on_grid and np.all(Y >= 0))
    share, levels = 0.0, []
    for sign in (1, -1):
        tied = _at_top(sign * Y, seen, on_grid)
        if zero_is_natural:
            tied &= Y != 0
        if np.sum(tied) >= _CLIPPED:
            share += float(np.sum(tied) / np.sum(seen))
            different = np.unique(Y[tied])
            levels.append(f"{different[0]:.4g}" if different.size == 1 else LEVEL_OF_ITS_OWN)
    return share, list(dict.fromkeys(levels))


def _clipped(table: Table, model: Model, on_grid: bool) -> Iterator[str]:
    share, levels = clipping(table, model, on_grid)
    if levels:
        yield (
            f"{100 * share:.2g}% of the entries are equal to the largest or smallest values ({' and '.join(levels)}), "
            f"so the data look clipped; {table.words.clipped}mark these entries as missing (NaN)"
        )


def _at_top(Y: np.ndarray, seen: np.ndarray, on_grid: bool) -> np.ndarray:
    """Entries that are tied for the largest of their row; on a grid, those that pile up at the largest of all."""
    if on_grid:
        values, counts = np.unique(Y[seen], return_counts=True)
        piled = values.size > 1 and counts[-1] > _PILE * counts[-2]
        return (values[-1] == Y) & seen & piled
    Y = Y if seen.all() else np.where(seen, Y, -np.inf)
    top = (Y.max(axis=1, keepdims=True, initial=-np.inf) == Y) & seen
    return top & (np.count_nonzero(top, axis=1, keepdims=True) >= _TIES)


def _rounded(table: Table, model: Model, step: float, noise_learned: bool) -> Iterator[str]:
    values = table.Y[table.seen]
    error = step**2 / 12  # the variance of rounding to multiples of the step
    # Codes of a converter are whole numbers too, but with less noise than counts have.
    quiet = noise_learned and float(model.noise_variance) < LIKE_COUNTS[0] * float(np.mean(values))
    if np.all(values >= 0) and step == round(step) and np.all(values == np.round(values)) and not quiet:
        yield (
            f"{table.words.data} holds counts (whole numbers from zero up), whose noise grows with their size; {table.words.counts}"
            f"take their square roots, with the mean of each {table.words.row} taken off"
        )
    elif error > max(_OF_NOISE * float(model.noise_variance), _OF_POWER * table.power):
        yield (
            f"{table.words.data} is rounded to multiples of {step:.3g}, which is not small compared with the noise; "
            f"use the data before rounding, or give a noise_variance of at least {error:.2g}"
        )


def _row_means(Y: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The means of the rows, their share of the power, and how many entries a row has; of one table, or of several along leading axes."""
    counts = np.full(Y.shape[:-1], Y.shape[-1]) if seen.all() else np.maximum(np.count_nonzero(seen, axis=-1), 1)
    means = Y.sum(axis=-1) / counts
    total = np.einsum("...i,...i->...", *[Y.reshape(*Y.shape[:-2], -1)] * 2)
    return means, np.sum(means**2 * counts, axis=-1) / np.where(total > 0, total, np.inf), np.mean(counts, axis=-1)


def _mean_share(Y: np.ndarray, seen: np.ndarray, N: int) -> np.ndarray:
    """The share of the row means in the power, in units of what it exceeds by chance in a share `RATE` of data sets.

    The mean of a row has on average 1/P of the row's power; means of rows vary together, in about as many ways as there are atoms or rows.
    """
    rows, (_, share, entries) = Y.shape[-2], _row_means(Y, seen)
    ways = max(1.0, rows * N / (rows + N))
    return share * entries * ways / chi_square_beyond(RATE, ways)


def _means(table: Table, N: int, centred: str | None) -> tuple[list[str], Table]:
    """What there is to say of row means, and the table without them."""
    means, share, _ = _row_means(table.Y, table.seen)
    if centred is None and (_mean_share(table.Y, table.seen, N) <= 1 or share < _MEAN_SHARE):
        return [], table
    words = table.words
    held = f"the mean of {words.data} is far from zero ({words.row} means hold {100 * share:.3g}% of its power)"
    sentences = {
        None: f"{held}, but the model is centred; subtract the mean of each {words.row} (center=True{words.center})",
        "auto": f"{held}, so the mean of each {words.row} was taken off and kept as {words.means}; "
        f"to leave it in the data, pass center=False{words.no_center}",
    }
    told = [sentences[centred]] if centred in sentences else []
    return told, table._replace(Y=np.where(table.seen, table.Y - means[:, None], 0.0))


def of_gains(table: Table, hint: np.ndarray) -> Iterator[str]:
    """Rows far larger or smaller than F' says: sensors with gains of their own."""
    power = np.sum(table.Y**2, axis=1) / np.maximum(table.seen.sum(axis=1), 1)
    expected = np.sum(np.asarray(hint, dtype=float) ** 2, axis=1)
    logs = np.log(power / expected)
    logs = logs[np.isfinite(logs)]
    spread = float((np.quantile(logs, 0.84) - np.quantile(logs, 0.16)) / 2) if logs.size >= _FEWEST_ROWS else 0.0
    if spread > _GAINS:
        yield (
            f"the rows of Y differ in size from those of F_prime (by a factor of {np.exp(spread / 2):.2g}, typically): if the sensors have "
            f'gains of their own, try channel="gains:spread={spread / 2:.2g}", or spinodal.calibrate(Y, F0)'
        )


def outliers(table: Table) -> np.ndarray:
    """Which entries are far beyond the others of their column, where F is normal.

    Given X the entries of a column are M independent normal numbers, so the share of one in their sum of squares is a Beta variable. Rows
    far larger than the others are brought to their scale before: that a whole row is large is another matter.
    """
    scale = row_scales(table.Y, table.seen)
    Y = table.Y / np.where(scale > _LARGE, scale, 1.0)[:, None]
    out, columns = np.zeros(Y.shape, bool), np.arange(Y.shape[1])
    for _ in range(_PEELS):
        seen = table.seen & ~out
        squares = np.where(seen, Y, 0.0) ** 2
        total, number = squares.sum(axis=0), seen.sum(axis=0)
        largest = np.argmax(squares, axis=0)
        share = squares[largest, columns] / np.where(total > 0, total, 1)
        chance = share_beyond(share, number)
        here = (number > 2) & (total > 0) & (chance < RATE / np.sum(table.seen))
        if not here.any():
            break
        out[largest[here], columns[here]] = True
    return out


def outliers_in_words(out: np.ndarray, entries: int) -> str:
    """The suspicion of these outliers."""
    count = int(np.sum(out))
    what = "entry is an outlier" if count == 1 else "entries are outliers"
    return (
        f"{count} {what} ({100 * count / entries:.2g}% of all), far beyond the other entries of the same signal; "
        'check them and mark wrong ones as missing (NaN), or use channel="outliers"'
    )


# Chances of extremes among normal numbers, in elementary functions: SciPy's would take a fifth of a second to load in every solve.


def share_beyond(share: Any, number: Any) -> np.ndarray:
    """A bound on the chance that one of so many normal numbers has at least this share of the sum of their squares.

    The share is a Beta variable, whose tail is at most (1 - s)^a / sqrt(pi a s) with a = (number - 1)/2, and little less where it is small.
    """
    a = np.maximum(np.asarray(number) - 1, 0.5) / 2
    share = np.clip(share, np.finfo(float).tiny, 1)
    return np.minimum((1 - share) ** a / np.sqrt(np.pi * a * share), 1.0)


def chi_square_beyond(chance: float, number: float) -> float:
    """What the sum of the squares of so many standard normal numbers exceeds with this probability, about (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * number)
    return number * (1 - spread + NormalDist().inv_cdf(1 - chance) * math.sqrt(spread)) ** 3


def orientation(table: Table, N: int) -> str | None:
    """Whether the rows look like the signals, where F is normal.

    Sparse codes make the entries of a row, each of another signal, heavier in the tails than normal ones; those of a column are normal.
    Where it is the other way round, and there are more rows than columns, the rows are the signals. So they are in a long table whose
    columns differ in their means, as quantities of different units do: with many rows those of a normal F are near zero.
    """
    M, P = table.Y.shape
    if M <= P:
        return None
    across_rows, across_columns = _kurtosis(table, 0), _kurtosis(table, 1)
    heavier = across_rows > max(_SIGMAS * np.sqrt(24 / M), across_columns)
    if heavier or (M > _TALL * P and (P <= N or _between_columns(table) > _UNITS)):
        return table.words.turned.format(M, P)
    return None


def _between_columns(table: Table) -> float:
    """The share that the means of the columns have in the power, once those of the rows are taken off."""
    seen = table.seen
    Y = np.where(seen, table.Y - table.Y.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1), 0.0)
    number, total = seen.sum(axis=0), float(np.sum(Y**2))
    return float(np.sum(Y.sum(axis=0) ** 2 / np.maximum(number, 1))) / total if total > 0 else 0.0


def _kurtosis(table: Table, axis: int) -> float:
    """Mean excess kurtosis of the entries along an axis."""
    number = np.maximum(table.seen.sum(axis=axis, keepdims=True), 1)
    apart = np.where(table.seen, table.Y - table.Y.sum(axis=axis, keepdims=True) / number, 0.0)
    second, fourth = ((apart**power).sum(axis=axis, keepdims=True) / number for power in (2, 4))
    return float(np.mean(fourth[second > 0] / second[second > 0] ** 2) - 3) if np.any(second > 0) else 0.0


def far_larger(table: Table, N: int) -> np.ndarray:
    """Rows whose entries are far larger than those of the others, where F is normal: their mean square is that of N normal numbers."""
    M, P = table.Y.shape
    error = np.exp(_OF_MEDIAN / np.sqrt(np.mean(table.seen) * P))
    return row_scales(table.Y, table.seen) ** 2 > error * chi_square_beyond(RATE / M, N) / N


def halves_differ(table: Table) -> bool:
    """Whether second moments of the first half of the signals differ from those of the second half: a permutation test, exact at any size.

    Of many rows a few random mixtures are looked at, and of many signals some.
    """
    P = table.Y.shape[1]
    kept = np.linspace(0, P - 1, min(P, _LOOKED_AT)).astype(int)
    rng = np.random.default_rng(0)
    Y = table.Y[:, kept]
    Y = Y if len(Y) <= _MIXTURES else rng.normal(size=(_MIXTURES, len(Y))) @ Y
    side = np.where(np.arange(kept.size) < kept.size // 2, -1.0, 1.0)
    differences = [float(np.sum(((Y * signs) @ Y.T) ** 2)) for signs in (side, *(rng.permutation(side) for _ in range(_HALVES)))]
    excess = differences[0] - np.mean(differences[1:])
    return bool(excess > _DRIFT * np.std(differences[1:]) and excess > _DIFFERENCE**2 * np.sum((Y @ Y.T) ** 2))
