"""Rounds of expectation maximisation over all samples, each going on from where its codes were: for data that fit into memory with them.

Where there are too many samples for that, see stream.py.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import blocks
from .em import Learn, Sums, host_sums, improved, sums_of, widened
from .model import CodingModel
from .scales import ComponentPrior, Usage

# Moves of the codes' sites before anything is learned from them, and in a round.
_FIRST_STEPS, _STEPS = 10, 2
# Settled when the evidence changes by less than this many nats per observed entry.
SETTLED = 1e-3
# Rounds that bring nothing before the best model is taken: rounds by VAMP may go up and down, and may lose what they had found.
_PATIENCE = 6


class Refined(NamedTuple):
    """The model, the mean evidence of a sample in each round, whether it had settled, and how atoms were used (None without a round)."""

    model: CodingModel
    evidence: np.ndarray
    settled: bool
    usage: Usage | None


def refine(
    data: np.ndarray,
    model: CodingModel,
    prior: ComponentPrior,
    learn: Learn,
    rounds: int,
    weight: np.ndarray | None = None,
    tolerance: float = SETTLED,
    *,
    goes_on: bool = False,
) -> Refined:
    """Up to `rounds` rounds of improvement; settled when the evidence of an entry changes by less than `tolerance` nats.

    What atoms, features and samples have of their own is learned when all else has settled, or at once where the model `goes_on` from
    another fit. Rounds have settled, too, when some of them brought nothing. If they end lower than they were, as rounds by VAMP may, the
    best model of them is returned.
    """
    if rounds == 0:
        return Refined(model, np.zeros(0), False, None)
    data = np.asarray(data)
    holes = bool(np.isnan(data).any())
    method = blocks.method_of(model, complete=not holes)
    data = data.astype(method.PRECISION or data.dtype, copy=False)
    atoms, features = model.components.shape
    history: list[float] = []
    settled, now, waited, since = False, learn if goes_on else learn.at_first, 0, 0
    best: tuple[float, CodingModel, Sums] | None = None
    with jax.enable_x64(True):
        size = blocks.block_size(method, model, len(data))
        parts = [slice(first, first + size) for first in range(0, len(data), size)]
        work = [jax.device_put(blocks.as_block(data[part], size, None if weight is None else weight[part])) for part in parts]
        at = method.ready(blocks.prepared(model, data.dtype))
        runs = [blocks.start(method, at, size) for _ in parts]
        keys = jax.random.split(jax.random.key(0), len(parts))  # the same draws in every round, so that rounds can settle
        while len(history) < rounds and not settled:
            steps = _STEPS if history else _FIRST_STEPS
            moved = [sums_of(method, at, *each, steps, holes) for each in zip(work, runs, keys, strict=True)]
            # Sites never grow old: the model moves, and those that hardly follow it lose some samples, or let rounds settle too early.
            runs = [run._replace(age=jnp.minimum(run.age, method.PATIENT)) for run, _ in moved]
            sums = total([host_sums(found, atoms, features) for _, found in moved])
            history.append(float(sums.evidence / sums.weight))
            change = abs(history[-1] - history[-2]) if len(history) > since + 1 else np.inf
            least = tolerance * sums.entries.sum() / sums.weight
            waited = 0 if best is None or history[-1] > best[0] + least else waited + 1
            if best is None or history[-1] > best[0]:
                best = history[-1], model, sums
            if waited >= _PATIENCE:
                settled, (_, model, sums) = True, best
            else:
                settled = bool(change < least)
            model = improved(model, sums, prior, now)
            if settled and now != learn:  # what atoms and features have of their own comes last: early, an atom little used would stay so
                # The next round is the first to learn it, and the one after to tell.
                now, settled, waited, since = learn, False, 0, len(history)
            at = method.ready(blocks.prepared(model, data.dtype))
    assert best is not None
    if best[0] > history[-1] + least:
        _, model, sums = best
    model = model._replace(uncertainty=widened(model.uncertainty, sums, prior))
    return Refined(model, np.array(history), settled, Usage(sums.nonzeros, sums.total, sums.square))


def total(parts: list[Sums]) -> Sums:
    """What several blocks of samples say together."""
    return Sums(*(sum(values[1:], start=values[0]) for values in zip(*parts, strict=True)))
