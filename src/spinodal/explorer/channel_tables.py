"""Channels whose averages are looked up, as `tables` does for priors: their tables at a few powers of z, interpolated between them.

A channel's averages depend on the power Q of z, which changes with the density of X. They are smooth in log Q, so that tables at even steps
of it give every other (about 1e-4, relative). The theory itself is not written a second time: `Previewed` is a Channel like any other.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..model.channels import Channel, ChannelTable, named_channel

# Even steps in log Q, and through how many neighbours a polynomial is laid.
_STEP, _NEIGHBOURS = 0.5, 6

_known: list[str] = []
_tables: dict[tuple[str, int], ChannelTable] = {}
_lock, _naming = threading.Lock(), threading.Lock()


class Previewed(Channel):
    """The channel of some words, "clipped:low=-1,high=1", for the theory alone."""

    def __init__(self, words: str) -> None:
        with _naming:
            if words not in _known:
                _known.append(words)
            # A number, and no words: what JAX compiled for one channel serves them all.
            self.row = float(_known.index(words))

    def table(self, power: float) -> ChannelTable:
        words = _known[int(self.row)]
        place = float(np.log(power)) / _STEP
        first = int(np.floor(place)) - _NEIGHBOURS // 2 + 1
        nodes = np.arange(first, first + _NEIGHBOURS)
        tables = [_table(words, int(node)) for node in nodes]
        weights = [np.prod([(place - other) / (node - other) for other in nodes if other != node]) for node in nodes]
        return ChannelTable(*(sum(w * part for w, part in zip(weights, parts, strict=True)) for parts in zip(*tables, strict=True)))


def _table(words: str, node: int) -> ChannelTable:
    """The table at one of the powers, made when it is first asked for."""
    with _lock:
        if (words, node) not in _tables:
            found: Any = named_channel(words).table(float(np.exp(_STEP * node)))
            _tables[words, node] = found
        return _tables[words, node]
