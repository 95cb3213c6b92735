"""`infer_codes`: the codes of samples, given the components."""

from __future__ import annotations

import numpy as np

from . import ep, vamp
from .model import Codes, CodingModel, least_noise


def infer_codes(model: CodingModel, data: np.ndarray) -> Codes:
    """The codes of the samples (rows) of `data`, NaN where it was not observed, in float64.

    Expectation propagation finds them; if the model is `fast`, VAMP finds those of the complete samples.
    """
    data, components, uncertainty = (np.asarray(value, dtype=np.float64) for value in (data, model.components, model.uncertainty))
    model = model._replace(components=components, uncertainty=uncertainty, noise_variance=least_noise(model))
    complete = ~np.isnan(data).any(axis=1) & model.fast
    if not complete.any():
        return ep.infer(model, data)
    if complete.all():
        return vamp.infer(model, data)
    found = vamp.infer(model, data[complete])
    whole = Codes(*(np.empty((len(data), *values.shape[1:])) for values in found))
    for rows, codes in ((complete, found), (~complete, ep.infer(model, data[~complete]))):
        for values, part in zip(whole, codes, strict=True):
            values[rows] = part
    return whole
