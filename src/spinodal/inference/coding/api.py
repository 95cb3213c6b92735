"""`infer_codes`: the codes of samples, given the components."""

from __future__ import annotations

import jax
import numpy as np

from . import blocks, ep, vamp
from .model import Codes, CodingModel


def infer_codes(model: CodingModel, data: np.ndarray) -> Codes:
    """The codes of the samples (rows) of `data`, NaN where it was not observed, in the precision of `data`.

    Expectation propagation finds them; if the model is `fast`, VAMP finds those of the complete samples.
    """
    return settled_codes(model, data).codes


def settled_codes(model: CodingModel, data: np.ndarray) -> blocks.Found:
    """The codes, and which of the samples had settled when their time was up."""
    data = np.asarray(data, dtype=np.float32 if np.asarray(data).dtype == np.float32 else np.float64)
    complete = ~np.isnan(data).any(axis=1) & model.fast
    with jax.enable_x64(True):
        if not complete.any():
            return blocks.infer(ep, model, data)
        if complete.all():
            return blocks.infer(vamp, model, data)
        parts = ((complete, blocks.infer(vamp, model, data[complete])), (~complete, blocks.infer(ep, model, data[~complete])))
    whole = Codes(*(np.empty((len(data), *values.shape[1:]), data.dtype) for values in parts[0][1].codes))
    settled = np.empty(len(data), bool)
    for rows, part in parts:
        settled[rows] = part.settled
        for all_rows, values in zip(whole, part.codes, strict=True):
            all_rows[rows] = values
    return blocks.Found(whole, settled)
