"""Expectation maximisation on minibatches: any number of samples, from wherever they come, in constant memory.

Codes are found anew for every minibatch, and what they say enters running sums, in which older minibatches fade. All that is kept is the
model and its sums (`Stream`), so a fit can go on with more samples at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from . import blocks, ep
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
# An atom is idle if it has fewer nonzero codes than this share of the mean; in the first minibatches of a fit it is then replaced by a
# sample.
_IDLE, _REVIVALS = 0.02, 24
# Samples in a minibatch.
BATCH = 4096
# Minibatches between judgements, how many of these may bring nothing, and nats per entry that are something.
_CHECK, _PATIENCE, _JUDGED_WELL = 6, 2, 1e-3
# After so many judgements the better of several first models is known: after one, what is ahead may end behind.
_TRIED = 3
# Codes have settled well enough to judge by when they change by this many standard deviations of the slab.
_JUDGED_CLOSELY = 1e-2


class Stream(NamedTuple):
    """The model, sums of fading minibatches per unit of weight, how many there were, the weight of all samples, the evidence of
    each minibatch, and that of the samples that judge."""

    model: CodingModel
    sums: Sums | None = None
    steps: int = 0
    weight: float = 0.0
    evidence: tuple[float, ...] = ()
    judged: float = np.nan


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
    if stream.steps < _REVIVALS and not prior.mean.any():
        model = _revived(model, sums.nonzeros, data, stream.steps)
    return Stream(model, sums, stream.steps + 1, seen, (*stream.evidence, float(new.evidence / new.weight)))


class _Course(NamedTuple):
    """A stream so far, where it was judged best, how well, and how many judgements ago."""

    stream: Stream
    best: Stream
    highest: float
    waited: int


def learn_stream(
    draw: Callable[[np.random.Generator], np.ndarray],
    judge: np.ndarray,
    firsts: Sequence[CodingModel],
    prior: ComponentPrior,
    learn: Learn,
    most: int,
    seed: int = 0,
) -> tuple[Stream, bool]:
    """The best stream of up to `most` minibatches that `draw` returns, and whether it had settled.

    Every few minibatches the samples of `judge`, always the same, say by their evidence whether the model got better. They are judged by
    expectation propagation, whatever the model is learned by. When it got no better twice, that is the end. Of several first models the one
    goes on that was best after some judgements.
    """
    random = np.random.default_rng(seed)
    least = _JUDGED_WELL * np.count_nonzero(~np.isnan(judge)) / len(judge)

    def further(course: _Course, checks: int) -> _Course:
        stream, best, highest, waited = course
        while checks > 0 and stream.steps < most and waited < _PATIENCE:
            for _ in range(min(_CHECK, most - stream.steps)):
                stream = absorbed(stream, draw(random), prior, learn)
            value, checks = judged(stream.model, judge), checks - 1
            waited = 0 if value > highest + least else waited + 1
            best, highest = (stream, value) if value > highest else (best, highest)
        return _Course(stream, best, highest, waited)

    courses = [_Course(Stream(first), Stream(first), -np.inf, 0) for first in firsts]
    if len(courses) > 1:
        courses = [further(course, _TRIED) for course in courses]
    end = further(max(courses, key=lambda course: course.highest), most)
    return end.best._replace(judged=end.highest), end.waited >= _PATIENCE


def judged(model: CodingModel, samples: np.ndarray) -> float:
    """Mean evidence of samples by expectation propagation, to some digits; what is not a number ranks last."""
    with jax.enable_x64(True):
        found = blocks.infer(ep, model, np.asarray(samples, dtype=np.float64), _JUDGED_CLOSELY, ("evidence",))
    return float(np.nan_to_num(np.mean(found.codes.evidence), nan=-np.inf))


def finished(stream: Stream, prior: ComponentPrior) -> tuple[CodingModel, Usage]:
    """The model with the uncertainties that its components have, and how its atoms were used."""
    sums = Sums(*(value * stream.weight for value in stream.sums or ()))
    model = stream.model._replace(uncertainty=widened(stream.model.uncertainty, sums, prior))
    return model, Usage(sums.nonzeros, sums.total, sums.square)


def _revived(model: CodingModel, nonzeros: np.ndarray, data: np.ndarray, seed: int) -> CodingModel:
    """Atoms that next to no code uses, replaced by samples, large ones more often."""
    idle = np.flatnonzero(nonzeros < _IDLE * nonzeros.mean())
    power = np.nansum(np.square(data, dtype=np.float64), axis=1)
    if idle.size == 0 or not power.sum() > 0:
        return model
    rows = np.random.default_rng(seed).choice(len(data), idle.size, p=power / power.sum())
    new = np.nan_to_num(data[rows].astype(np.float64))
    norms = np.linalg.norm(model.components, axis=1)
    components = model.components.copy()
    components[idle] = new / np.linalg.norm(new, axis=1, keepdims=True) * np.median(norms)
    return model._replace(components=components)


def _mixed(old: Sums | None, new: Sums, share: float, features: int) -> Sums:
    """Running sums per unit of weight."""
    now = Sums(*(value / new.weight for value in new))
    if old is None:
        return now
    if len(old.second) != len(now.second):  # samples with holes have a matrix for each feature
        old, now = (each._replace(second=np.broadcast_to(each.second, (features, *each.second.shape[1:]))) for each in (old, now))
    return Sums(*((1 - share) * was + share * is_now for was, is_now in zip(old, now, strict=True)))
