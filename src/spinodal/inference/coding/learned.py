"""A learned model as it is published, and what it says of samples: their codes, intervals for them, the samples without noise.

Published components may have another scale than in the model in which all codes have one slab: those of norm 1, for instance. Codes are
published in the scale that goes with them, and the uncertainty of a scale is added where a scale counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .api import infer_codes
from .model import Codes, CodingModel, Slab, density_weight
from .scales import Scales


class Learned(NamedTuple):
    """What was learned, in the units of the data.

    `scales` are the norms that components have in the model in which all nonzero codes have one slab, where they are published with norm
    1, else 1; `scales_var` are their relative variances, counted in `components_var`. `noise_variance` and `density` are means over
    features and components, whose own are `feature_noise` and `component_density`. `own_density` says whether samples have densities of
    their own, near those, and `noise_weight` how much the noise of a feature counts when samples are restored (1: as it is, 0: not at all).
    """

    components: np.ndarray
    components_var: np.ndarray
    scales: np.ndarray
    scales_var: np.ndarray
    feature_noise: np.ndarray
    component_density: np.ndarray
    noise_variance: float
    density: float
    slab_mean: float
    slab_variance: float
    own_density: bool
    noise_weight: float = 1.0


def published(model: CodingModel, scales: Scales, dtype: np.dtype) -> Learned:
    """The learned model in arrays of `dtype`, from components in the scales they are published in and variances given these scales."""
    components, variance, size, doubt = (value.astype(dtype) for value in (model.components, model.uncertainty, *scales))
    noise = np.broadcast_to(model.noise_variance, components.shape[1]).astype(dtype)
    density = np.broadcast_to(model.slab.density, len(components)).astype(dtype)
    common = float(np.mean(model.noise_variance)), float(np.mean(model.slab.density)), float(model.slab.mean), float(model.slab.variance)
    own = model.density_weight is not None and bool(np.isfinite(model.density_weight))
    return Learned(components, variance + components**2 * doubt[:, None], size, doubt, noise, density, *common, own)


def coding_model(learned: Learned, *, own_density: bool | None = None, fast: bool = False) -> CodingModel:
    """The model in which all codes have the same slab; samples have densities of their own as was learned, or as is said here."""
    own = learned.own_density if own_density is None else own_density
    slab = Slab(learned.component_density.astype(np.float64), learned.slab_mean, learned.slab_variance)
    size = learned.scales.astype(np.float64)[:, None]
    components, variance = learned.components * size, _given_scales(learned) * size**2
    return CodingModel(components, variance, slab, learned.feature_noise.astype(np.float64), density_weight(own), fast)


def published_codes(
    learned: Learned, data: np.ndarray, *, own_density: bool | None = None, fast: bool = False, only: tuple[str, ...] = ()
) -> Codes:
    """The codes of the samples (rows) of `data`, in the scales of the published components; only some fields if they are named."""
    found = infer_codes(coding_model(learned, own_density=own_density, fast=fast), data, only)
    size = learned.scales.astype(data.dtype)
    powers = {"mean": size, "variance": size**2, "slab_mean": size, "slab_variance": size**2}
    wanted = {name: getattr(found, name) for name in powers}
    for name, values in wanted.items():
        if values is not None:
            np.multiply(values, powers[name], out=values)  # in place: codes of many samples are most of the memory
    return found


def code_std(learned: Learned, codes: Codes) -> np.ndarray:
    """Standard deviations of the codes."""
    return np.sqrt(codes.variance + (codes.mean**2 + codes.variance) * learned.scales_var)


def code_interval(learned: Learned, codes: Codes, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals that hold the codes with probability `level` if they are not zero."""
    middle, square = codes.slab_mean, codes.slab_variance
    half = ndtri((1 + level) / 2) * np.sqrt(square + (middle**2 + square) * learned.scales_var)
    return middle - half, middle + half


def restored_std(learned: Learned, codes: Codes, noise: bool) -> np.ndarray:
    """Standard deviations of codes @ components, or of measurements of it with their noise."""
    variance = codes.signal_variance + (codes.mean**2 + codes.variance) @ _given_scales(learned)
    return np.sqrt(variance + noise * learned.feature_noise)


def _given_scales(learned: Learned) -> np.ndarray:
    """The variances of the components without what their scales add, which no product with codes can tell."""
    along = learned.components.astype(np.float64) ** 2 * learned.scales_var[:, None]
    return np.maximum(learned.components_var.astype(np.float64) - along, 0)
