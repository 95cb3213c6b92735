"""Expectation maximisation on minibatches: any number of samples, from wherever they come, in constant memory.

Codes are found anew for every minibatch, and what they say enters running sums, in which older minibatches fade. All that is kept is the
model and its sums (`Stream`), so a fit can go on with more samples at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from . import blocks
from .em import Learn, Sums, host_sums, improved, sums_of, widened
from .model import CodingModel
from .rounds import total
from .scales import ComponentPrior, Usage

# Moves of the sites of a new minibatch.
_STEPS = 12
# The share of the newest minibatch in the running sums: _FIRST_SHARE for _FIRST_STEPS minibatches, then a falling power of their number.
_FIRST_SHARE, _FIRST_STEPS, _FALL = 0.7, 4, 0.6
# Minibatches before atoms and features may have densities and noise of their own.
_COMMON_STEPS = 16
# An atom is idle if fewer codes than this share of the mean use it; then it is replaced by what is left of a sample that is badly
# explained, in every minibatch of this many, the first ones of a fit.
_IDLE, _REVIVALS = 0.02, 24
# Samples in a minibatch.
BATCH = 4096


class Stream(NamedTuple):
    """The model, sums of fading minibatches per unit of weight, how many there were, and the weight of all samples."""

    model: CodingModel
    sums: Sums | None = None
    steps: int = 0
    weight: float = 0.0
    evidence: tuple[float, ...] = ()


def absorbed(stream: Stream, data: np.ndarray, prior: ComponentPrior, learn: Learn, weight: np.ndarray | None = None) -> Stream:
    """The stream after one more minibatch (samples in rows, NaN where missing)."""
    model = stream.model
    holes = bool(np.isnan(data).any())
    method = blocks.method_of(model, complete=not holes)
    data = np.asarray(data, dtype=method.PRECISION or data.dtype)
    atoms, features = model.components.shape
    with jax.enable_x64(True):
        at = method.ready(blocks.prepared(model, data.dtype))
        size = blocks.block_size(method, model, len(data))
        first = blocks.start(method, at, size)
        found = []
        for k, begin in enumerate(range(0, len(data), size)):
            rows = slice(begin, begin + size)
            block = blocks.as_block(data[rows], size, None if weight is None else weight[rows])
            key = jax.random.fold_in(jax.random.key(stream.steps), k)
            found.append(host_sums(sums_of(method, at, block, first, key, _STEPS, holes)[1], atoms, features))
    new = total(found)
    if not new.weight > 0:
        return stream
    share = _FIRST_SHARE if stream.steps < _FIRST_STEPS else (stream.steps + 2.0) ** -_FALL
    sums = _mixed(stream.sums, new, share, features)
    seen = stream.weight + float(new.weight)
    whole = Sums(*(value * seen for value in sums))
    model = improved(model, whole, prior, learn if stream.steps >= _COMMON_STEPS else learn.at_first)
    return Stream(model, sums, stream.steps + 1, seen, (*stream.evidence, float(new.evidence / new.weight)))


def finished(stream: Stream, prior: ComponentPrior) -> tuple[CodingModel, Usage]:
    """The model with the uncertainties that its components have, and how its atoms were used."""
    sums = Sums(*(value * stream.weight for value in stream.sums or ()))
    model = stream.model._replace(uncertainty=widened(stream.model.uncertainty, sums, prior))
    return model, Usage(sums.nonzeros, sums.total, sums.square)


def _mixed(old: Sums | None, new: Sums, share: float, features: int) -> Sums:
    """Running sums per unit of weight."""
    now = Sums(*(value / new.weight for value in new))
    if old is None:
        return now
    if len(old.second) != len(now.second):  # samples with holes have a matrix for each feature
        old, now = (each._replace(second=np.repeat(each.second, features, axis=0)) if len(each.second) == 1 else each for each in (old, now))
    return Sums(*((1 - share) * was + share * is_now for was, is_now in zip(old, now, strict=True)))
