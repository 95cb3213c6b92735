"""What looks wrong with samples before a fit, in the words of estimators; the checks are those of `solve`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..inference.suspicious_data import expects_no_mean, far_larger, halves_differ, of_data, off_centre, orientation, outliers
from ..inference.suspicious_table import Table, Words, some_signals
from ..model.model import Model
from ..model.priors import GaussBernoulli

# Of the transpose of X, which has a row for each feature.
_WORDS = Words(
    data="X",
    row="feature",
    signals="samples",
    means="mean_",
    center="",
    no_center="",
    missing="",
    clipped="",
    counts="",
    first_row="the first column of X is {}, which looks like an index; leave that column out",
    first_column="the first row of X is {}, which looks like column numbers; leave that row out",
    turned="X has {1} rows and {0} columns, and its columns look like the samples; if each column is a sample, fit the transpose (X.T)",
)
# The density of the model that the samples are compared with; the checks do not depend on it.
_DENSITY = 0.1


def without_masked(X: Any) -> Any:
    """Masked entries of an array as NaN, which is a missing entry here; anything else as it is."""
    return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan) if isinstance(X, np.ma.MaskedArray) else X


def means_to_take(center: bool | None, X: np.ndarray, n_components: int, slab_mean: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """The mean of each feature over its observed entries where it is to be taken off: always, never, or (None) where it is further from
    zero than chance takes it and the codes have no mean; zeros otherwise."""
    known = ~np.isnan(X)
    if center is None:
        center = not isinstance(slab_mean, str) and slab_mean == 0 and bool(off_centre(np.where(known, X, 0.0).T, known.T, n_components))
    if not center:
        return np.zeros(X.shape[1], X.dtype)
    each = np.ones(len(X)) if weight is None else weight
    count = each @ known
    return (each @ np.where(known, X, 0) / np.where(count > 0, count, 1)).astype(X.dtype)


def suspicions_of_samples(
    X: np.ndarray, n_components: int, slab_mean: Any, center: bool | None, names: Sequence[str] | None = None
) -> Iterator[str]:
    """A sentence for each sign that samples (NaN where missing) are not what they should be."""
    samples = np.asarray(X, dtype=float)[some_signals(X.shape[::-1])]
    seen = np.isfinite(samples).T
    if not seen.any():
        return
    table = Table(np.where(seen, samples.T, 0.0), seen, None if names is None else [str(name) for name in names], _WORDS)
    model = Model.sparse(rho=_DENSITY, noise_variance=max(table.power, float(np.finfo(float).tiny)))
    mean = 1.0 if isinstance(slab_mean, str) else float(slab_mean)  # what is learned explains the mean as what is given does
    model = model.replace(prior=model.prior._replace(X=GaussBernoulli(_DENSITY, mean, 1.0)))
    taken = expects_no_mean(model) and center is None and bool(off_centre(table.Y, table.seen, n_components))
    with np.errstate(all="ignore"):
        found, table = of_data(table, model, n_components, "asked" if center else "auto" if taken else None)
        yield from found
        if table.power == 0:
            return
        without = table.without(outliers(table))
        turned = orientation(without, n_components)
        if turned:
            yield turned
            return
        larger = np.flatnonzero(far_larger(without, n_components))
        if larger.size:
            yield (
                f"{table.rows(larger)} of X {'are' if larger.size > 1 else 'is'} far larger than the others, by noise or by another unit; "
                "divide every feature by the size of its noise, or leave noisy ones out"
            )
        if halves_differ(table):
            yield (
                "the first half of the samples differs from the second half, as if something had changed on the way; "
                "fit each half by itself, and compare"
            )
