"""The machine: which one computes, and the few operations that are best done differently on each.

Only this folder asks. Every operation here has a plain twin that tests compare it to.

*Sums and transposes.* A CPU prefers products with vectors, an accelerator one reduction for all.

*Ranks.* Sorting is quick on an accelerator. On a CPU, compiled sorting takes longer than a whole look at X if there are few atoms, and what
is asked for is one element: it is found by counting.

*New values in place of the old.* Looking at arrays of the size of X takes longer than anything that is computed of them, on every machine.
Plainly (`renew_plainly`) the values are computed and then summed. A CPU does the same, ordered so that the new values take the place of
the old ones without a copy. A GPU of NVIDIA has a kernel (`pallas.py`) that looks once for the values and the sums.

*Blocks.* Given F, a signal needs no other signal, so on a CPU a pass goes block by block, and all that is alive besides Y, X and g is one
block. The loop over iterations keeps the blocks of large arrays as arrays of their own: in one large array a new block would have to be
put in its place, which compiled code does on one core (15-30% of an iteration at N = 1000). The plain twin is one block.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from ...errors import InputError, gigabytes, host_memory, shown

# Compute capability that the kernels' compiler asks for.
_OLDEST = 8.0
# Arrays of the size of X alive at a time, at most.
_ARRAYS = 6
# Programs at a time on an accelerator: while one is solved, others are drawn and scored. An H200 solves N = 100 in 1 ms, and a core takes
# longer than that to score it.
_PROGRAMS = 4
# So many bytes are always there; asking a GPU takes milliseconds.
_NOTHING = 10**8
# Bytes of an array that is worth a detour through pinned memory (more of which would take longer to get than it saves).
_LARGE, _LARGEST = 10**6, 2**28
# Threads that work side by side.
_THREADS = 8
# Most signals in a block, and most blocks: each is compiled.
_WIDEST, _MOST = 1024, 8


def device() -> Any:
    """The device that computes: the one that the user chose as JAX's default, or else JAX's first."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        return jax.devices()[0]
    return jax.devices(chosen)[0] if isinstance(chosen, str) else chosen


def platform() -> str:
    """ "cpu", "gpu" or "tpu"."""
    return str(device().platform)


def suited(on_a_cpu: Any, elsewhere: Any) -> Any:
    """The one of two settings that suits the machine."""
    return on_a_cpu if platform() == "cpu" else elsewhere


def one_by_one() -> bool:
    """Whether instances are best solved one after another: on a CPU, where each stays in cache and stops when it is done."""
    return platform() == "cpu"


def cores() -> int:
    """How many cores this process may use. `NPROC` says less, as it does to XLA."""
    said = os.environ.get("NPROC", "")
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(int(said), there)) if said.isdigit() else there


def side_by_side_suits(number: int, placement: OneDevice) -> bool:
    """Whether so many small runs are best made side by side: on a CPU that has cores for them."""
    return number > 1 and placement.devices == 1 and one_by_one() and cores() > 1


def programs_at_once() -> int:
    """How many programs of one process are best run at a time. On a CPU one: two can occupy all of XLA's threads, each waiting for one."""
    return 1 if platform() == "cpu" else _PROGRAMS


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
    return host_memory()


def check_memory(shape: tuple[int, ...], N: int, size: int, memories: int = 1) -> None:
    """Refuse what can't fit: a run holds about six arrays of the size of X and Y, and a few of F's, of `size` bytes an entry.

    The signals may be divided among several `memories` of the size of this one.
    """
    *batch, M, P = shape
    needed = math.prod(batch) * bytes_needed(M, N, P, size)
    if needed < _NOTHING:
        return
    room = memory() * memories
    if needed > room:
        raise InputError(
            f"Y and n_atoms must leave room in memory, but {M} x {P} with {shown(N)} atoms needs about {gigabytes(needed)} and there are "
            f"{gigabytes(room)}; try fewer signals or atoms, or single precision."
        )


def bytes_needed(M: int, N: int, P: int, size: int) -> int:
    """Bytes that a run holds, at most."""
    return size * (_ARRAYS * max(N, M) * P + _ARRAYS * M * N)


@contextmanager
def computing(dtype: Any, placement: OneDevice) -> Iterator[None]:
    """The settings of JAX in which a solve is compiled and run. They belong to a thread."""
    # Accelerators round the inputs of single-precision products unless told not to; the residuals need all digits.
    with jax.enable_x64(np.dtype(dtype) == np.float64), jax.default_matmul_precision("highest"), placement.active():
        yield


def one_thread_each() -> AbstractContextManager[Any]:
    """The context for many small factorizations: each by one thread of LAPACK.

    Several wait for one another at every step of each, and find nobody where something else keeps the cores busy: filling in a picture took
    three times as long beside one other process, and thirty times beside two. JAX has threads of its own.
    """
    return _threads().limit(limits=1, user_api="blas")


@cache
def _threads() -> Any:
    """What looks through all libraries that are loaded, which takes as long as the codes of a small sample."""
    import scipy.linalg  # noqa: F401 (whose LAPACK JAX uses, and which has to be there to be limited)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class OneDevice:
    """Where arrays live: here, whole. `sharding.Sharded` divides them."""

    devices = memories = 1

    def active(self) -> AbstractContextManager[Any]:
        """The context in which functions are compiled for this placement."""
        return nullcontext()

    def columns(self, tree: Any) -> Any:
        """Arrays whose last axis is the signals; those without (F') are put everywhere."""
        return jax.device_put(tree)  # jnp.asarray compiles a program for every shape

    def everywhere(self, tree: Any) -> Any:
        """Arrays that every device has whole."""
        return jax.device_put(tree)

    def run(self, run: Any, divided: Any) -> Any:
        """A run, the arrays of its state where `divided` is true divided by signals."""
        return run

    def fetched(self, tree: Any) -> Any:
        """The same arrays in this process, as NumPy's."""
        return jax.device_get(tree) if platform() != "gpu" else _through_pinned_memory(tree)


def _through_pinned_memory(tree: Any) -> Any:
    """`jax.device_get`, into memory that a GPU can write by itself, where large arrays stay. For 64 instances of N = 100, whose solve takes
    58 ms on an H200 otherwise, 56 MB of results are there in 2 ms instead of 35. To copy them from there would take 6 ms more."""
    leaves, structure = jax.tree.flatten(tree)
    large = [k for k, leaf in enumerate(leaves) if isinstance(leaf, jax.Array) and _LARGE < leaf.nbytes < _LARGEST]
    if not large:
        return jax.device_get(tree)
    places = [SingleDeviceSharding(next(iter(leaves[k].devices())), memory_kind="pinned_host") for k in large]
    try:
        there = jax.device_put([leaves[k] for k in large], places)
    except jax.errors.JaxRuntimeError:  # all of that memory is taken, by results that are still in use
        return jax.device_get(tree)
    found = jax.device_get([None if k in large else leaf for k, leaf in enumerate(leaves)])
    for k, value in zip(large, there, strict=True):
        found[k] = np.asarray(value)
    return jax.tree.unflatten(structure, found)


def side_by_side(function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    """What a function returns for each part, by a few threads: for NumPy's work on large arrays, which leaves Python to others."""
    parts = list(parts)
    return [function(parts[0])] if len(parts) == 1 else list(_helpers().map(function, parts))


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "spinodal")


def turned(F: Any) -> Any:
    """The transpose of a matrix. On a CPU it is made before its product, which takes twice as long with F turned around in it."""
    return jax.lax.optimization_barrier(F.T) if platform() == "cpu" else F.T


def over_atoms(*terms: tuple[Sequence[Any], Any]) -> list[Any]:
    """Sums over atoms (rows) of arrays, one for each vector of weights. A term is (vectors of weights, array)."""

    def sums(weights: Sequence[Any], values: Any) -> list[Any]:
        if len(weights) > 1:  # a product reads the array once, for all its weights
            return list(jnp.stack(weights) @ values)
        weighted = weights[0][:, None] * values
        return [jnp.ones_like(weights[0]) @ weighted if platform() == "cpu" else jnp.sum(weighted, axis=0)]

    return [total for weights, values in terms for total in sums(weights, values)]


def over_signals(*terms: tuple[Any, Any]) -> list[Any]:
    """Weighted sums over signals (columns). A term is (array, weights)."""
    if platform() == "cpu":
        return [values @ weights for values, weights in terms]
    # One reduction for all: accelerators then read every array once.
    weighted = [values * weights for values, weights in terms]
    zeros = [jnp.zeros((), values.dtype) for values in weighted]
    return list(jax.lax.reduce(weighted, zeros, lambda left, right: [x + y for x, y in zip(left, right, strict=True)], (1,)))


def ranked(values: Any, place: Any) -> Any:
    """The element of a vector that comes after `place` others in order; no element may be NaN."""
    return _ranked_by_counting(values, place) if platform() == "cpu" and not shared() else jnp.sort(values)[place]


def _ranked_by_counting(values: Any, place: Any) -> Any:
    """By halving the interval between the smallest and the largest, in whole numbers that are in the order of the floats."""
    bits = jnp.int64 if values.dtype == jnp.float64 else jnp.int32
    largest = jnp.iinfo(bits).max

    def in_order(whole: Any) -> Any:
        """From bits to their order and back: those of negative numbers have it the wrong way round."""
        return jnp.where(whole < 0, whole ^ largest, whole)

    keys = in_order(jax.lax.bitcast_convert_type(values, bits))

    def halved(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = (low & high) + ((low ^ high) >> 1)  # their mean, rounded down, without their sum
        enough = jnp.sum(keys <= middle) > place
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    _, key = jax.lax.while_loop(lambda ends: ends[0] < ends[1], halved, (jnp.min(keys), jnp.max(keys)))
    return jax.lax.bitcast_convert_type(in_order(key), values.dtype)


class Looked(NamedTuple):
    """What a look at some entries gives: their new values, for a given step size, and (values, weights) to be summed along rows: always, or
    now and then."""

    new: Callable[[Any], Sequence[Any]]
    always: Sequence[tuple[Any, Any]]
    rarely: Callable[[], Sequence[tuple[Any, Any]]]


class Renewed(NamedTuple):
    """New arrays, and the sums along their rows. Those that are wanted rarely are zero where they were not computed."""

    new: list[Any]
    always: list[Any]
    rarely: list[Any]


Look = Callable[[Sequence[Any], Any], Looked]


def renew(look: Look, old: Sequence[Any], others: Any, step_size: Any, *, now: Any, first: Sequence[Any], kernel: bool) -> Renewed:
    """`look(old, others)` at every entry of the matrices `old`, which are replaced by a share `step_size` of new values.

    `others` is a tree of arrays that broadcast against them: entries, a column (one number for each row), a row, or scalars. Weights in
    sums are rows. The sums that are wanted rarely are computed `now` or, where that is quicker, always. `first` are results that read the
    old values too, and must be there before those are replaced. `kernel` says that `look` is elementary enough for any kernel.
    """
    if kernel and runs_kernels() and _plain_shapes(old[0].shape, others):
        old, others, _ = jax.lax.optimization_barrier((list(old), others, list(first)))
        from .pallas import by_kernel

        return by_kernel(look, old, others, step_size)
    if platform() == "cpu" and not shared():
        return _in_place(look, old, others, step_size, now, first)
    return renew_plainly(look, old, others, step_size)


def renew_plainly(look: Look, old: Sequence[Any], others: Any, step_size: Any) -> Renewed:
    """Values, then sums: what the other ways must agree with."""
    new, always, rarely = look(old, others)
    sums = _row_sums([*always, *rarely()])
    return Renewed(list(new(step_size)), sums[: len(always)], sums[len(always) :])


def _row_sums(terms: Sequence[tuple[Any, Any]]) -> list[Any]:
    return over_signals(
        *((values, jnp.broadcast_to(jnp.ravel(weights), values.shape[1:]).astype(values.dtype)) for values, weights in terms)
    )


def _in_place(look: Look, old: Sequence[Any], others: Any, step_size: Any, now: Any, first: Sequence[Any]) -> Renewed:
    """On a CPU. One look, whose last step waits for everything else."""
    new, always, rarely = look(old, others)
    totals = _row_sums(always)
    nothing = [jnp.zeros(old[0].shape[0], old[0].dtype) for _ in jax.eval_shape(lambda: [values for values, _ in rarely()])]
    counted = jax.lax.cond(now, lambda: _row_sums(rarely()), lambda: nothing)
    return Renewed(list(new(after(step_size, *totals, *counted, *first))), totals, counted)


def after(value: Any, *arrays: Any) -> Any:
    """`value`, which is there only when the arrays are (and NaN if one of them starts with NaN).

    New values take the place of the old without a copy only if all that reads the old ones comes first, and to a compiler first means that
    it is needed for what comes later.
    """
    for array in arrays:
        value = jnp.where(array[(0,) * jnp.ndim(array)] >= -jnp.inf, value, jnp.nan)
    return value


def _plain_shapes(shape: tuple[int, ...], others: Any) -> bool:
    return all(jnp.shape(leaf) in (shape, (shape[0], 1), (1, shape[1]), ()) for leaf in jax.tree.leaves(others))


def blocks(P: int) -> list[slice]:
    """The blocks of P signals: one, unless they are on one CPU."""
    count = min(-(-P // _WIDEST), _MOST) if platform() == "cpu" and not shared() else 1
    width = -(-P // count)
    return [slice(start, min(start + width, P)) for start in range(0, P, width)]


def take(values: Any, block: slice) -> Any:
    """A block of everything: the last axis is that of the signals."""
    return jax.tree.map(lambda value: value[..., block], values)


def join(parts: Any) -> Any:
    """Everything, from its blocks."""
    return jax.tree.map(lambda *values: jnp.concatenate(values, axis=-1), *parts)


class Layout:
    """How a loop keeps a state: whole, or its large arrays that have a column for each signal (`divided`) as tuples of blocks."""

    def __init__(self, P: int, divided: Any, split: bool) -> None:
        self.at = blocks(P) if split else [slice(0, P)]
        self.divided = jax.tree.leaves(divided)

    def apart(self, state: Any) -> list[Any]:
        """The leaves of a state, the large ones in blocks."""
        if len(self.at) == 1:
            return jax.tree.leaves(state)
        leaves = zip(jax.tree.leaves(state), self.divided, strict=True)
        return [tuple(leaf[..., at] for at in self.at) if by_signal and leaf.ndim > 1 else leaf for leaf, by_signal in leaves]

    def together(self, leaves: list[Any], like: Any) -> Any:
        """The state again. Compilers see that a block of what was joined is that block."""
        return jax.tree.unflatten(
            jax.tree.structure(like), [jnp.concatenate(leaf, axis=-1) if isinstance(leaf, tuple) else leaf for leaf in leaves]
        )


def over_blocks(one: Callable[[Any, Any], tuple[Any, Any]], old: Any, shared_between: Any, split: bool) -> tuple[Any, Any]:
    """`one(block, shared)` for one block of `old` after another: the new blocks joined, and what they say added up.

    What the blocks share waits for the block before: whoever comes later can use its working memory again.
    """
    P = jax.tree.leaves(old)[0].shape[-1]
    new: list[Any] = []
    total = None
    for block in blocks(P) if split else [slice(0, P)]:
        last = jax.tree.leaves(new[-1]) if new else []
        waiting = jax.tree.map(lambda value, last=last: after(value, *last[:1]), shared_between)
        here, said = one(take(old, block), waiting)
        new.append(here)
        total = said if total is None else jax.tree.map(jnp.add, total, said)
    return join(new), total
