"""One problem over several devices: the signals (columns of Y, X and g) are divided, F is everywhere, XLA inserts the communication.

Given F, a signal needs no other signal; what the signals say about F is a sum over them. So an iteration communicates one sum of the size
of F, a few of one number for each atom, and one number of each signal, for the median. docs/cluster.md has the numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...errors import InputError
from .machine import OneDevice

_SIGNALS = "signals"


class Sharded(OneDevice):
    """Arrays divided by signals, or on every device of a mesh."""

    def __init__(self, mesh: Any, P: int) -> None:
        if not isinstance(mesh, Mesh):
            raise InputError(f"mesh must be a jax.sharding.Mesh, but {mesh!r} was given.")
        # A mesh of any shape is taken as a row of devices, and the compiler is left to place what is not said.
        self.mesh = Mesh(mesh.devices.ravel(), (_SIGNALS,))
        self.devices = mesh.devices.size
        # Memories that hold the signals: one a device, except that devices of a CPU share that of their host.
        self.memories = len({each.process_index if each.platform == "cpu" else each.id for each in self.mesh.devices.ravel()})
        if P % self.devices:
            fewer = max(d for d in range(1, self.devices) if P % d == 0)
            raise InputError(
                f"mesh must have a number of devices that divides the {P} signals, but it has {self.devices}; "
                f"try {fewer} devices or {P - P % self.devices} signals."
            )

    def active(self) -> AbstractContextManager[Any]:
        return jax.set_mesh(self.mesh)

    def columns(self, tree: Any) -> Any:
        return type(tree)(
            *(None if value is None else self._put(value, name != "F_prime") for name, value in zip(tree._fields, tree, strict=True))
        )

    def everywhere(self, tree: Any) -> Any:
        return jax.tree.map(partial(self._put, by_signal=False), tree)

    def run(self, run: Any, divided: Any) -> Any:
        flags = jax.tree.map(lambda _: False, run)._replace(state=divided)
        return jax.tree.map(self._put, run, flags)

    def fetched(self, tree: Any) -> Any:
        return jax.device_get(jax.tree.map(_whole, tree))

    def _put(self, value: Any, by_signal: bool) -> Any:
        spec = PartitionSpec(*(None,) * (np.ndim(value) - 1), _SIGNALS) if by_signal else PartitionSpec()
        sharding = NamedSharding(self.mesh, spec)
        if isinstance(value, jax.Array) and not value.is_fully_addressable:  # shared by several processes already
            return jax.jit(lambda value: value, out_shardings=sharding)(value)
        return jax.device_put(np.asarray(value), sharding)


def _whole(value: Any) -> Any:
    """The same array, such that every process can read all of it."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable or value.is_fully_replicated:
        return value
    everywhere = NamedSharding(value.sharding.mesh, PartitionSpec())
    return jax.jit(lambda value: value, out_shardings=everywhere)(value)
