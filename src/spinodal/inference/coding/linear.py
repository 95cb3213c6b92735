"""A linear model of a table with holes: table = mean + codes @ components + noise of each column, codes sparse or dense.

    model = learn_linear(table, 20)               # NaN where an entry misses
    mean, variance = predict_entries(model, table)  # of every entry as it would be measured

Components and codes are integrated over as far as the rest of this folder does it, so that the variances can be taken at their word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .api import settled_codes
from .em import Learn
from .model import CodingModel, Slab
from .rounds import Refined, refine
from .scales import ComponentPrior

# The noise at the start, as a share of each column's variance, and the variance of components at the start over the prior's.
_FIRST_NOISE, _FIRST_DOUBT = 0.1, 0.1
# Where the density starts, and passes of filling holes in by the leading components before.
_FIRST_DENSITY, _FILLINGS = 0.3, 10


class LinearModel(NamedTuple):
    """Columns' means and the units they are measured in, the model in these units, how it was found, and evidence per sample."""

    mean: np.ndarray
    unit: np.ndarray
    coding: CodingModel
    refined: Refined

    @property
    def evidence(self) -> float:
        """Mean log density of a row in the units of the table, in nats, of the data it was learned from (see `score_rows` for others)."""
        return float(self.refined.evidence[-1])


def learn_linear(
    data: np.ndarray,
    atoms: int,
    *,
    sparse: bool = True,
    feature_noise: bool | None = True,
    rounds: int = 500,
    tolerance: float = 1e-5,
    weight: np.ndarray | None = None,
    fast: bool = False,
) -> LinearModel:
    """Learn a model of the rows of `data` (NaN where missing) with so many components.

    Codes are normal, or zero or normal if `sparse`; every column has a noise variance of its own (None: if the data say so).
    """
    data = np.asarray(data, dtype=np.float64)
    known = ~np.isnan(data)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, data, 0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, (data - mean) ** 2, 0).sum(axis=0) / count)
    unit = np.where(spread > 0, spread, 1.0)
    inside = (data - mean) / unit
    prior = ComponentPrior(np.zeros((atoms, data.shape[1])), np.full((atoms, data.shape[1]), 1 / atoms))
    density = _FIRST_DENSITY if sparse else 1.0
    slab = Slab(density, 0.0, 1 / density)
    components = _leading(inside, known, atoms)
    first = CodingModel(components, _FIRST_DOUBT * prior.variance, slab, np.full(data.shape[1], _FIRST_NOISE), fast=fast)
    names = ("noise_variance", "slab_variance") + (("density",) if sparse else ())
    refined = refine(inside, first, prior, Learn(names, feature_noise, None if sparse else False), rounds, weight, tolerance)
    return LinearModel(mean, unit, refined.model, refined)


def predict_entries(model: LinearModel, data: np.ndarray, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every entry of `data` given the entries of its row that were observed.

    With `noise` the variance is that of a measurement, so that entries held back can be compared; without, that of the signal.
    """
    coding = model.coding
    codes = settled_codes(coding, (np.asarray(data, dtype=np.float64) - model.mean) / model.unit).codes
    mean = codes.mean @ coding.components
    variance = codes.signal_variance + (codes.mean**2 + codes.variance) @ coding.uncertainty + noise * np.asarray(coding.noise_variance)
    return model.mean + mean * model.unit, variance * model.unit**2


def score_rows(model: LinearModel, data: np.ndarray) -> np.ndarray:
    """Log density of the observed entries of every row, in nats, in the units of the table."""
    data = np.asarray(data, dtype=np.float64)
    inside = (data - model.mean) / model.unit
    return settled_codes(model.coding, inside).codes.evidence - (~np.isnan(data)) @ np.log(model.unit)


def _leading(inside: np.ndarray, known: np.ndarray, atoms: int) -> np.ndarray:
    """The leading singular vectors with their sizes for codes of variance 1, holes filled in by themselves; small noise beyond the rank."""
    filled = np.where(known, inside, 0)
    rank = min(atoms, *filled.shape)
    for _ in range(_FILLINGS if not known.all() else 1):
        values, vectors = np.linalg.eigh(filled.T @ filled / len(filled))
        leading = vectors[:, ::-1][:, :rank]
        filled = np.where(known, inside, filled @ leading @ leading.T)
    size = np.sqrt(np.maximum(values[::-1][:rank], 0))
    found = (leading * size).T
    more = np.random.default_rng(0).normal(size=(atoms - rank, inside.shape[1])) * np.sqrt(np.mean(found**2))
    return np.concatenate([found, more])
