"""What JAX keeps of live runs: programs for each shape, tens of megabytes a shape, of which a few are worth keeping."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Hashable
from typing import Any

import jax

# Shapes whose programs are kept. Dropping those of runs alone leaves 4 MB a shape in JAX's other caches (measured), which go with
# everything else after so many shapes: then the figures take a few seconds once.
_KEPT, _UNTIL_ALL_GO = 3, 20
# The programs behind the figures have the same few shapes always.
_FIGURES = ("spinodal.theory", "spinodal.explorer", "spinodal.model.quadrature", "spinodal.model.channels")


class Shapes:
    """Counts the shapes of runs, and lets programs go when there are too many. `clear_runs` and `clear_all` are what lets them go."""

    def __init__(self, clear_runs: Callable[[], Any] | None = None, clear_all: Callable[[], Any] | None = None) -> None:
        self._clear_runs, self._clear_all = clear_runs or clear_programs_of_runs, clear_all or jax.clear_caches
        self._kept: set[Hashable] = set()
        self._seen = 0
        self._lock = threading.Lock()

    def make_room(self, shape: Hashable) -> None:
        """Before a run of this shape. A run that is under way elsewhere keeps its programs, or compiles them again."""
        with self._lock:
            if shape in self._kept:
                return
            self._seen += 1
            if self._seen > _UNTIL_ALL_GO:
                self._clear_all()
                _give_back()
                self._kept, self._seen = set(), 1
            elif len(self._kept) >= _KEPT:
                self._clear_runs()
                _give_back()
                self._kept = set()
            self._kept.add(shape)


def clear_programs_of_runs() -> None:
    """Drop every compiled program but those behind the figures."""
    jitted = type(jax.jit(abs))
    for each in gc.get_objects():
        if isinstance(each, jitted):
            module = getattr(getattr(each, "__wrapped__", None), "__module__", None) or ""
            if not module.startswith(_FIGURES):
                each.clear_cache()


def _give_back() -> None:
    """Return what was freed to the system: glibc keeps it for the thread that asked for it, and each run is a thread."""
    gc.collect()
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:
        trim(0)
