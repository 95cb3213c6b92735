"""Which machine computes. Only this folder asks."""

from __future__ import annotations

import math
import os
from typing import Any

import jax

# Compute capability that the kernels' compiler asks for.
_OLDEST = 8.0


def device() -> Any:
    """The device that computes: the one that the user chose as JAX's default, or else JAX's first."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        return jax.devices()[0]
    return jax.devices(chosen)[0] if isinstance(chosen, str) else chosen


def platform() -> str:
    """ "cpu", "gpu" or "tpu"."""
    return str(device().platform)


def one_by_one() -> bool:
    """Whether instances are best solved one after another: on a CPU, where each stays in cache and stops when it is done."""
    return platform() == "cpu"


def shared() -> bool:
    """Whether several devices share the signals."""
    return not jax.sharding.get_abstract_mesh().empty


def runs_kernels() -> bool:
    """Whether kernels of our own can be used here: on GPUs of NVIDIA that are not too old for their compiler, each with all its arrays."""
    if platform() != "gpu" or shared():
        return False
    capability = str(getattr(device(), "compute_capability", ""))
    return capability[:1].isdigit() and float(capability) >= _OLDEST


def memory() -> float:
    """Bytes of memory of the device that computes."""
    if platform() != "cpu":
        return float((device().memory_stats() or {}).get("bytes_limit", math.inf))
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return math.inf
