"""The whole state of a solve in a file, to go on from after an interruption: plain arrays, nothing pickled, whole or not there.

All that a solve depends on is in its input and in the arrays of the run, so it goes on to the very numbers it would have reached.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np

from ...errors import InputError, check_file, check_path, check_room
from ...files import whole_file
from ...model.model import Model
from ...pair import Pair
from ..loop import Run
from ..search.noise import Held
from ..search.search import STAGES, Place
from ..solution import Solution, Status, Trace, without_signals
from ..solvers.base import Solver
from .machine import OneDevice

_LAYOUT = 5
# The standing of a run says whether the file keeps its X: never that of a trial; that of the best of those that can be elected, where those
# made since the noise was chosen come before early ones; always that of a final run, which goes on from another.
TRIAL, EARLY, ELECTABLE, FINAL = -1, 0, 1, 2
# What is kept of a group of runs that has ended, beside its model and its trace.
_ARRAYS = ("iterations", "residual", "free_entropy")
_WORDS = ("status", "reason")


def fingerprint(*inputs: Any) -> str:
    """A hash of everything a solve was asked for. Arrays count by their bytes, the rest by how it prints."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(inputs, is_leaf=lambda value: value is None):
        array = np.ascontiguousarray(leaf) if isinstance(leaf, (np.ndarray, jax.Array)) else None
        digest.update(repr(leaf).encode() if array is None else f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def stored_arrays(file: IO[bytes], size: int) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of `size` bytes that was written without compression, so that it can't unfold to more than its size.

    Checksums are compared, nothing is unpickled, and arrays fill the entries that hold them; of a file that is damaged or of another kind
    any exception may come.
    """
    found = {}
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or sum(entry.file_size for entry in entries) > size:
            raise ValueError("it is compressed, or larger inside than outside")
        for entry in entries:
            stream = io.BytesIO(archive.read(entry))
            found[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):
                raise ValueError("an array is shorter than what holds it")
    return found


class Ended(NamedTuple):
    """A group of runs that has ended: what they found, a batch, which look sound, their spare atoms, of which instances they are, their
    standing, and how each predicts entries held out (the numbers of a `Held`; NaN where nobody asked)."""

    found: Solution
    sound: np.ndarray
    spare: np.ndarray
    instances: tuple[int, ...]
    standing: np.ndarray
    held: np.ndarray

    def packed(self) -> dict[str, np.ndarray]:
        """As arrays by name."""
        found = self.found
        leaves = [jax.tree.leaves(model) for model in found.model]
        arrays = {name: np.asarray(getattr(found, name)) for name in _ARRAYS}
        arrays |= {name: np.array([str(each) for each in getattr(found, name)]) for name in _WORDS}
        for kind in ("mean", "variance"):
            arrays |= {f"{kind}_{name}": np.asarray(value) for name, value in getattr(found, kind)._asdict().items()}
        arrays |= {f"model_{k:02d}": np.stack([np.asarray(each[k]) for each in leaves]) for k in range(len(leaves[0]))}
        own = {name: np.asarray(getattr(self, name)) for name in ("sound", "spare", "instances", "standing", "held")}
        return arrays | own | {"trace": np.stack(found.trace)}

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], like: Model, sizes: Sequence[int]) -> Ended:
        """From those arrays, and a model of the same kind. `sizes` are the number of instances, M, N and P."""
        sound = arrays["sound"]
        _check_ended(arrays, sizes)
        leaves = [arrays[name] for name in sorted(arrays) if name.startswith("model_")]
        if [leaf.shape for leaf in leaves] != [(len(sound), *np.shape(each)) for each in jax.tree.leaves(like)]:
            raise ValueError("the end of a run has another model")
        if not all(leaf.dtype.kind in "fiub" for leaf in leaves):
            raise ValueError("the model at the end of a run is not made of numbers")
        columns = [leaf.tolist() if leaf.ndim == 1 else list(leaf) for leaf in leaves]
        models = [jax.tree.unflatten(jax.tree.structure(like), [column[k] for column in columns]) for k in range(len(sound))]
        status, reason = np.empty(len(sound), object), np.empty(len(sound), object)
        status[:], reason[:] = [Status(str(each)) for each in arrays["status"]], [str(each) for each in arrays["reason"]]
        mean, variance = (Pair(arrays[f"{kind}_F"], arrays[f"{kind}_X"]) for kind in ("mean", "variance"))
        numbers: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        found = Solution(mean=mean, variance=variance, status=status, reason=reason, trace=Trace(*arrays["trace"]), model=models, **numbers)
        return cls(found, sound, arrays["spare"], tuple(int(k) for k in arrays["instances"]), arrays["standing"], arrays["held"])


class _File(NamedTuple):
    """What a file holds: facts, arrays by name, how far the present run may go; and whether it is of this solve."""

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]
    goal: np.ndarray
    ours: bool


class Checkpoint:
    """The file of a solve, written again after every so many iterations."""

    def __init__(self, path: Path, every: int, made_for: str) -> None:
        check_path("checkpoint", path)
        if path.suffix != ".npz":
            raise InputError(f"checkpoint must be a file name ending in .npz, but {str(path)!r} was given.")
        if not path.parent.is_dir():
            raise InputError(f"checkpoint must be in a directory that exists, but {str(path.parent)!r} does not.")
        if path.exists():
            check_file("checkpoint", path)
        self.path, self.every, self.made_for = path, every, made_for
        self._last: int | None = None
        self._groups: list[Ended] = []
        self._best: dict[int, tuple[tuple[int, bool, float], int]] = {}  # of each instance the best run so far, and its group
        self._file = self._read() if path.exists() else None
        if self._file is not None and not self._file.ours:
            raise InputError(f"checkpoint must be of the same data, model and options, but {str(path)!r} is of others; delete it.")

    def past(self, like: Model, sizes: Sequence[int]) -> Ended | None:
        """The next group of runs, if the file has its end. `sizes` are the number of instances, M, N and P."""
        number = len(self._groups)
        ended = self._file is not None and number < self._file.about["groups"]
        if not ended:
            return None
        assert self._file is not None
        name = f"ended_{number:04d}_"
        arrays = {key.removeprefix(name): value for key, value in self._file.arrays.items() if key.startswith(name)}
        with self._believed():
            group = Ended.unpacked(arrays, like, sizes)
        self.finish(group)
        return group

    def finish(self, group: Ended) -> None:
        """Remember the end of a group of runs, and of X what may still be wanted."""
        number, self._last = len(self._groups), None
        for k, instance in enumerate(group.instances):
            rank = int(group.standing[k]), bool(group.sound[k]), float(group.found.free_entropy[k])
            if TRIAL < rank[0] < FINAL and (instance not in self._best or rank > self._best[instance][0]):
                self._best[instance] = rank, number
        self._groups.append(group)
        wanted = {number for _, number in self._best.values()} | {
            k for k, each in enumerate(self._groups) if np.any(each.standing == FINAL)
        }
        for k, each in enumerate(self._groups):
            if k not in wanted:
                self._groups[k] = each._replace(found=without_signals(each.found, np.zeros((len(each.sound), 0, 0))))

    @property
    def goes_on(self) -> bool:
        """Whether the file has the state of the present group of runs."""
        return self._file is not None and self._file.about["groups"] == len(self._groups)

    def offer(self, place: Place, goal: Any, run: Run, parts: Callable[[], list[Any]], placement: OneDevice) -> None:
        """Save, if enough iterations have passed since the last time. `parts` gives the traces."""
        now = int(np.max(run.iteration))
        if self._last is not None and now - self._last < self.every:
            return
        self._last = now
        leaves = jax.tree.leaves(placement.fetched((run, place.kept)))
        if jax.process_index() == 0:
            self._write(place, np.asarray(goal), leaves, [np.asarray(leaf) for leaf in jax.tree.leaves(parts())])

    def _write(self, place: Place, goal: np.ndarray, leaves: list[np.ndarray], traces: list[np.ndarray]) -> None:
        about = {"layout": _LAYOUT, "made_for": self.made_for, "stage": place.stage, "repair": place.repair, "groups": len(self._groups)}
        arrays = {f"leaf_{k:03d}": leaf for k, leaf in enumerate(leaves)} | {f"trace_{k:06d}": leaf for k, leaf in enumerate(traces)}
        arrays |= {f"ended_{g:04d}_{name}": value for g, group in enumerate(self._groups) for name, value in group.packed().items()}
        with whole_file(self.path, f"checkpoint {str(self.path)!r}") as temporary, temporary.open("wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), goal=goal, **arrays)  # type: ignore[arg-type]

    def _read(self) -> _File:
        with self._believed(), self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            check_room("checkpoint", 2 * size, f"{str(self.path)!r}")
            found = stored_arrays(file, size)
            about = json.loads(str(found.pop("about")))
            if not isinstance(about["groups"], int) or not isinstance(about["repair"], int) or about["stage"] not in STAGES:
                raise ValueError("it does not say how far it is")
            made = (about["layout"], about["made_for"])
            arrays = {name: found[name] for name in sorted(found)}
            return _File(about, arrays, arrays["goal"], made == (_LAYOUT, self.made_for))

    @contextmanager
    def _believed(self) -> Iterator[None]:
        """Whatever a damaged or forged file makes us stumble over becomes one sentence."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"checkpoint must be a file that a solve wrote, but {str(self.path)!r} is not ({why}).") from None

    def load(self, inspect: Any, start: Run, most: int, placement: OneDevice, solver: Solver) -> tuple[Place, Any, Run, list[Any]]:
        """Where the group of runs stood, how far it may go at present, the run, and the traces.

        `start` is a run of the same shape; runs have at most `most` iterations.
        """
        assert self._file is not None
        about, goal = self._file.about, self._file.goal
        leaves, traces = ([self._file.arrays[name] for name in self._file.arrays if name.startswith(kind)] for kind in ("leaf_", "trace_"))
        self._file = None
        place = Place(about["stage"], about["repair"])
        verdict = None if place.stage == "first" else inspect(start)
        like = (start, (start, verdict) if place.stage == "repair" else verdict)
        with self._believed():
            run, kept = jax.tree.unflatten(jax.tree.structure(like), _fitting(leaves, like))
            parts = _traces(traces)
            _check_counts(run, goal, parts, most)
        if place.stage == "repair":
            kept = placement.run(kept[0], solver.divided(start.state)), placement.everywhere(kept[1])
        elif kept is not None:
            kept = placement.everywhere(kept)
        return place._replace(kept=kept), goal, placement.run(jax.tree.map(jax.numpy.asarray, run), solver.divided(start.state)), parts


def _fitting(leaves: list[np.ndarray], like: Any) -> list[np.ndarray]:
    """The arrays, refused unless they are as many as those of `like`, and of the same shapes and types."""
    expected = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(like)]
    if [(leaf.shape, leaf.dtype) for leaf in leaves] != expected:
        raise ValueError("its arrays have other shapes or types")
    return leaves


def _traces(arrays: list[np.ndarray]) -> list[Any]:
    """The parts of the traces: where each begins and ends in every run, and the values between."""
    each = len(Trace._fields) + 2
    if len(arrays) % each:
        raise ValueError("a trace is not whole")
    return [(arrays[k], arrays[k + 1], Trace(*arrays[k + 2 : k + each])) for k in range(0, len(arrays), each)]


def _check_counts(run: Run, goal: np.ndarray, parts: list[Any], most: int) -> None:
    """Refuse numbers of iterations that no solve has, and traces that do not go with them."""
    size = np.shape(run.iteration)
    in_order = [(run.begun, run.iteration), *((begun, end) for begun, end, _ in parts)]
    counts = [goal, run.history.age, *(each for pair in in_order for each in pair)]
    if any(np.shape(each) != size or np.asarray(each).dtype.kind not in "iu" or np.any((each < 0) | (each > most)) for each in counts):
        raise ValueError("its numbers of iterations are not those of this solve")
    if any(np.any(begun > end) for begun, end in in_order):
        raise ValueError("a part of it ends before it begins")
    for begun, end, trace in parts:
        if any(values.shape != (*size, int(np.max(end - begun))) or values.dtype.kind != "f" for values in trace):
            raise ValueError("a trace is not as long as it says")


def _check_ended(arrays: dict[str, np.ndarray], sizes: Sequence[int]) -> None:
    """Refuse the end of a group of runs unless its arrays are of the shapes and types that one has."""
    count, M, N, P = sizes
    width = len(arrays["sound"])
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("sound", "instances", "standing", *_ARRAYS, *_WORDS), (width,))
    shapes |= {"spare": (width, N), "held": (width, len(Held._fields))}
    shapes |= {f"{kind}_F": (width, M, N) for kind in ("mean", "variance")}
    # Of X only what may still be wanted was kept.
    shapes |= {f"{kind}_X": (width, N, P) if arrays["mean_X"].size else (width, 0, 0) for kind in ("mean", "variance")}
    kinds = {"sound": "b", "spare": "b", "instances": "iu", "standing": "iu", "iterations": "iu", **dict.fromkeys(_WORDS, "U")}
    if any(arrays[name].shape != shape or arrays[name].dtype.kind not in kinds.get(name, "f") for name, shape in shapes.items()):
        raise ValueError("the end of a run has arrays of other shapes or types")
    instances, iterations, trace = (arrays[name] for name in ("instances", "iterations", "trace"))
    if trace.ndim != 3 or trace.shape[:2] != (len(Trace._fields), width) or trace.dtype.kind != "f":
        raise ValueError("the trace of a run has another shape or type")
    if np.any((instances < 0) | (instances >= count)) or np.any((iterations < 0) | (iterations > trace.shape[2])):
        raise ValueError("the end of a run has other numbers of instances or iterations")
