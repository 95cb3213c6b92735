"""The whole state of a solve in a file, to go on from after an interruption: plain arrays, nothing pickled, whole or not there.

All that a solve depends on is in its input and in the arrays of the run, so it goes on to the very numbers it would have reached.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...errors import InputError
from ..loop import Run
from ..search.search import Place
from ..solution import Trace
from ..solvers.base import Solver
from .machine import OneDevice

_LAYOUT = 2


def fingerprint(*inputs: Any) -> str:
    """A hash of everything a solve was asked for. Arrays count by their bytes, the rest by how it prints."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(inputs, is_leaf=lambda value: value is None):
        array = np.ascontiguousarray(leaf) if isinstance(leaf, (np.ndarray, jax.Array)) else None
        digest.update(repr(leaf).encode() if array is None else f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


class Checkpoint:
    """The file of a solve, written again after every so many iterations."""

    def __init__(self, path: Path, every: int, made_for: str) -> None:
        if path.suffix != ".npz":
            raise InputError(f"checkpoint must be a file name ending in .npz, but {str(path)!r} was given.")
        if not path.parent.is_dir():
            raise InputError(f"checkpoint must be in a directory that exists, but {str(path.parent)!r} does not.")
        self.path, self.every, self.made_for = path, every, made_for
        self._last: int | None = None

    def offer(self, place: Place, goal: Any, run: Run, parts: list[Any], placement: OneDevice) -> None:
        """Save, if enough iterations have passed since the last time."""
        now = int(np.max(run.iteration))
        if self._last is not None and now - self._last < self.every:
            return
        self._last = now
        leaves = jax.tree.leaves(placement.fetched((run, place.kept)))
        if jax.process_index() == 0:
            self._write(place, np.asarray(goal), leaves, [np.asarray(leaf) for leaf in jax.tree.leaves(parts)])

    def _write(self, place: Place, goal: np.ndarray, leaves: list[np.ndarray], traces: list[np.ndarray]) -> None:
        about = {"layout": _LAYOUT, "made_for": self.made_for, "stage": place.stage, "repair": place.repair}
        arrays = {f"leaf_{k:03d}": leaf for k, leaf in enumerate(leaves)} | {f"trace_{k:06d}": leaf for k, leaf in enumerate(traces)}
        temporary = None
        try:
            with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=".", suffix=".npz", delete=False) as file:
                temporary = Path(file.name)
                np.savez(file, about=np.array(json.dumps(about)), goal=goal, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError as error:
            raise InputError(f"checkpoint {str(self.path)!r} can't be written: {error.strerror or error}.") from None
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def load(self, inspect: Any, start: Run, placement: OneDevice, solver: Solver) -> tuple[Place, Any, Run, list[Any]]:
        """Where the solve stood, how far its present run may go, the run, and the traces. `start` is a run of the same shape."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                goal = file["goal"]
                leaves, traces = ([file[name] for name in sorted(file.files) if name.startswith(kind)] for kind in ("leaf_", "trace_"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"checkpoint must be a file that a solve wrote, but {str(self.path)!r} is not ({error}).") from None
        if about.get("layout") != _LAYOUT or about.get("made_for") != self.made_for:
            raise InputError(f"checkpoint must be of the same data, model and options, but {str(self.path)!r} is of others; delete it.")
        place = Place(about["stage"], about["repair"])
        verdict = None if place.stage == "first" else inspect(start)
        like = (start, (start, verdict) if place.stage == "repair" else verdict)
        run, kept = jax.tree.unflatten(jax.tree.structure(like), leaves)
        if place.stage == "repair":
            kept = placement.run(kept[0], solver.divided(start.state)), placement.everywhere(kept[1])
        elif kept is not None:
            kept = placement.everywhere(kept)
        each = len(Trace._fields) + 2
        parts = [(traces[k], traces[k + 1], Trace(*traces[k + 2 : k + each])) for k in range(0, len(traces), each)]
        return place._replace(kept=kept), goal, placement.run(jax.tree.map(jax.numpy.asarray, run), solver.divided(start.state)), parts
