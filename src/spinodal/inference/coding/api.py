"""`infer_codes`: the codes of samples, given the components."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from . import blocks, ep, vamp
from .model import Codes, CodingModel


def infer_codes(model: CodingModel, data: np.ndarray, only: tuple[str, ...] = (), close: float | None = None) -> Codes:
    """The codes of the samples (rows) of `data`, NaN where it was not observed, in the precision of `data`.

    Expectation propagation finds them; if the model is `fast`, VAMP finds those of the complete samples. If fields of `Codes` are named,
    the others are None. They have settled when they change by less than `close` standard deviations of the slab, if that is given.
    """
    return settled_codes(model, data, only, close).codes


def settled_codes(model: CodingModel, data: np.ndarray, only: tuple[str, ...] = (), close: float | None = None) -> blocks.Found:
    """The codes, and which of the samples had settled when their time was up."""
    data = np.asarray(data, dtype=np.float32 if np.asarray(data).dtype == np.float32 else np.float64)
    complete = ~np.isnan(data).any(axis=1) & model.fast
    with jax.enable_x64(True):
        if not complete.any():
            return blocks.infer(ep, model, data, close, only)
        if complete.all():
            return blocks.infer(vamp, model, data, close, only)
        parts = [(rows, blocks.infer(method, model, data[rows], close, only)) for rows, method in ((complete, vamp), (~complete, ep))]
    fields: dict[str, Any] = {}
    settled = np.empty(len(data), bool)
    for name, values in parts[0][1].codes._asdict().items():
        fields[name] = None if values is None else np.empty((len(data), *values.shape[1:]), data.dtype)
    for rows, part in parts:
        settled[rows] = part.settled
        for name, values in part.codes._asdict().items():
            if values is not None:
                fields[name][rows] = values
    return blocks.Found(Codes(**fields), settled)
