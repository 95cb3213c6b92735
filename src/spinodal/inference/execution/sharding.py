"""One problem over several devices: the signals (columns of Y, X and g) are divided, F is everywhere, XLA inserts the communication.

Given F, a signal needs no other signal; what the signals say about F is a sum over them. So an iteration communicates one sum of the size
of F, a few of one number for each atom, and one number of each signal, for the median. docs/cluster.md has the numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...errors import InputError
from ..loop.iterate import Run
from ..solvers.base import Solver

_SIGNALS = "signals"


class Placement:
    """Where arrays live: as JAX likes where there is no mesh, else divided by signals or on every device."""

    def __init__(self, mesh: Any, P: int) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise InputError(f"mesh must be a jax.sharding.Mesh, but {mesh!r} was given.")
        # A mesh of any shape is taken as a row of devices, and the compiler is left to place what is not said.
        self.mesh = None if mesh is None else Mesh(mesh.devices.ravel(), (_SIGNALS,))
        self.devices = 1 if mesh is None else mesh.devices.size
        if P % self.devices:
            fewer = max(d for d in range(1, self.devices) if P % d == 0)
            raise InputError(
                f"mesh must have a number of devices that divides the {P} signals, but it has {self.devices}; "
                f"try {fewer} devices or {P - P % self.devices} signals."
            )

    @property
    def memories(self) -> int:
        """Memories that hold the signals: one a device, except that devices of a CPU share that of their host."""
        if self.mesh is None:
            return 1
        places = {device.process_index if device.platform == "cpu" else device.id for device in self.mesh.devices.ravel()}
        return len(places)

    def active(self) -> AbstractContextManager[Any]:
        """The context in which functions are compiled for this placement."""
        return nullcontext() if self.mesh is None else jax.set_mesh(self.mesh)

    def columns(self, tree: Any) -> Any:
        """Arrays whose last axis is the signals; those without (F') are put everywhere."""
        if self.mesh is None:
            return jax.tree.map(jax.numpy.asarray, tree)
        return type(tree)(
            *(None if value is None else self._put(value, name != "F_prime") for name, value in zip(tree._fields, tree, strict=True))
        )

    def everywhere(self, tree: Any) -> Any:
        """Arrays that every device has whole."""
        return jax.tree.map(jax.numpy.asarray if self.mesh is None else partial(self._put, by_signal=False), tree)

    def run(self, run: Run, solver: Solver) -> Run:
        """A run with its signals divided."""
        if self.mesh is None:
            return run
        flags = jax.tree.map(lambda _: False, run)._replace(state=solver.divided(run.state))
        return jax.tree.map(self._put, run, flags)

    def _put(self, value: Any, by_signal: bool) -> Any:
        assert self.mesh is not None
        spec = PartitionSpec(*(None,) * (np.ndim(value) - 1), _SIGNALS) if by_signal else PartitionSpec()
        sharding = NamedSharding(self.mesh, spec)
        if isinstance(value, jax.Array) and not value.is_fully_addressable:  # shared by several processes already
            return jax.jit(lambda value: value, out_shardings=sharding)(value)
        if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(self._put(jax.random.key_data(value), by_signal))
        return jax.device_put(np.asarray(value), sharding)


def gathered(tree: Any) -> Any:
    """The same arrays, such that every process can read all of each."""

    def whole(value: Any) -> Any:
        if not isinstance(value, jax.Array) or value.is_fully_addressable or value.is_fully_replicated:
            return value
        everywhere = NamedSharding(value.sharding.mesh, PartitionSpec())
        return jax.jit(lambda value: value, out_shardings=everywhere)(value)

    return jax.tree.map(whole, tree)
