"""How programs are compiled: with an effort that suits how often they run, and several at a time before they are needed.

Most of the first seconds of a small solve are compilation. So on a CPU small programs are compiled with less effort, and those that a solve
will need are compiled by threads while it begins (`ahead`). What is computed is the same, to rounding with less effort and to the bit
ahead of time. The plain twin is jax.jit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial, update_wrapper
from inspect import signature
from threading import Lock
from typing import Any

import jax
import numpy as np

from ...effort import LESS, LITTLE
from .machine import OneDevice, computing, platform

# Programs that run once or a few times compile in a sixth of the time at little effort (inspection of 40 atoms and 500 signals: 2.4 s of
# CPU time at full effort, 1.2 s at less and 0.4 s at little), but are slow: 16 ms against 2. At 100 atoms and 1000 signals it is 44 ms
# against 10, and a search with its repairs looks often enough for less effort to pay. Iterations at less effort are 20 to 40% longer. Full
# effort takes .35 s more, so it pays after some 4000 iterations: few small solves have so many, but a sweep does.

# Small programs leave other cores alone, so that other runs can have them (`at_once.py`). With up to so many multiplications in a product
# iterations take no longer for it (27 ms for a solve of N = 40, M = 24, P = 240 either way); with 2.5 million, 15% longer.
_ONE_CORE, _NOT_DIVIDED, _ALONE = {"xla_cpu_multi_thread_eigen": False}, "cpu-parallel-task-assigner", 1.5 * 10**6
# Sums in one go, rather than as a tree of sums that has programs of its own: a fifth less to compile. Single precision needs the tree.
_IN_ONE_GO = "tree_reduction_rewriter"
# Programs on arrays of more entries are worth less effort, rather than little, and the full one; and iterations of more multiplications in
# a product.
_TINY, _SMALL, _SHORT = 3 * 10**4, 10**6, 3 * 10**6
_often = ContextVar("often", default=False)


@contextmanager
def often() -> Iterator[None]:
    """What is solved here is one of many solves of its shape, so that iterations are worth full effort, however small."""
    before = _often.set(True)
    try:
        yield
    finally:
        _often.reset(before)


def leaves_cores(M: int, N: int, P: int) -> bool:
    """Whether all programs of a run of these sizes leave other cores alone."""
    return M * N * P < _ALONE and max(M, N) * P < _SMALL and not _often.get()


def _options(effort: dict[str, Any], *, single: bool, divided: bool = False) -> dict[str, Any]:
    """XLA's options for a program of single or double precision that is, or is not, to be divided among cores."""
    passes = ([] if single else [_IN_ONE_GO]) + ([] if divided else [_NOT_DIVIDED])
    return effort | ({} if divided else _ONE_CORE) | ({"xla_disable_hlo_passes": ",".join(passes)} if passes else {})


class Compiled:
    """A function that jax.jit compiles, with an effort that suits how often it runs: seldom or, if it has an argument to donate, in many
    iterations. The first argument is compiled in if it is a `plan`."""

    def __init__(self, function: Callable[..., Any], donate: int | None = None) -> None:
        update_wrapper(self, function)
        self.iterates = donate is not None
        static = 0 if next(iter(signature(function).parameters)) == "plan" else ()
        as_ever = partial(jax.jit, function, static_argnums=static, donate_argnums=() if donate is None else donate)
        self.full = as_ever()
        self.little = as_ever(compiler_options=_options(LITTLE, single=False))
        self.less, self.single = (as_ever(compiler_options=_options(LESS, single=single)) for single in (False, True))
        self.wide, self.wide_single = (as_ever(compiler_options=_options(LESS, single=single, divided=True)) for single in (False, True))
        self.lower = self.full.lower
        self._coming: dict[Any, Future[None]] = {}
        self._asked: set[Any] = set()
        self._there: set[Any] = set()
        self._first = Lock()

    def __call__(self, *arguments: Any) -> Any:
        function = self._chosen(arguments)
        if function is self.full:
            return function(*arguments)
        kind = _kind(arguments)
        if kind in self._there:
            return function(*arguments)
        with self._first:  # two runs that need the same program have it compiled once
            coming = self._coming.pop(kind, None)
            if coming is not None:
                coming.exception()  # waits; what went wrong there goes wrong again here, where the user sees it
            made = self._made(function, arguments)
            self._there.add(kind)
        return made

    def _made(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """What a small program returns that may have to be compiled first."""
        try:
            return function(*arguments)
        except jax.errors.JaxRuntimeError as error:
            if "option" not in str(error):
                raise
            # A version of XLA that does not have these options.
            self.single = self.less = self.little = self.wide = self.wide_single = self.full
            return self.full(*arguments)

    def _chosen(self, arguments: tuple[Any, ...]) -> Any:
        if platform() != "cpu":
            return self.full
        leaves = [leaf for leaf in jax.tree.leaves(arguments) if hasattr(leaf, "size")]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self.full
        single = any(leaf.dtype == np.float32 for leaf in leaves)
        less, little = (self.single, self.single) if single else (self.less, self.little)
        if self.iterates:
            plan, observed = arguments[:2]
            if observed.Y.size * plan.N >= _SHORT or _often.get():
                return self.full
            M, P = observed.Y.shape[-2:]
            return less if leaves_cores(M, plan.N, P) else self.wide_single if single else self.wide
        largest = max((leaf.size for leaf in leaves), default=0)
        return little if largest < _TINY else less if largest < _SMALL else self.full

    def shape(self, *arguments: Any) -> Any:
        """What a call would return, shapes in place of numbers."""
        return self._chosen(arguments).eval_shape(*arguments)

    def is_new(self, *arguments: Any) -> bool:
        """Whether this is a small program that nobody has asked about yet."""
        kind = _kind(arguments)
        new = kind not in self._asked and self._chosen(arguments) is not self.full
        self._asked.add(kind)
        return new

    def ahead(self, *arguments: Any) -> None:
        """Have a small program compiled by a thread; the next call with such arguments waits for it. They may be shapes of arrays.

        Only one thread at a time runs Python, so the longest program, that of the iterations, is traced here, before any other."""
        if not self.is_new(*arguments):
            return
        function, dtype, kind = self._chosen(arguments), arguments[0].dtype, _kind(arguments)
        lowered = function.lower(*arguments) if self.iterates else None

        def make() -> None:
            with computing(dtype, OneDevice()):  # JAX's settings belong to a thread
                (lowered or function.lower(*arguments)).compile()

        self._coming[kind] = _threads().submit(make)


def compiled(*, donate: int | None = None) -> Callable[[Callable[..., Any]], Compiled]:
    """A decorator that makes a function `Compiled`."""
    return partial(Compiled, donate=donate)


def _kind(arguments: Sequence[Any]) -> Any:
    """What arguments must have in common to need one program."""
    leaves, structure = jax.tree.flatten(arguments[1:])
    return arguments[0], structure, tuple((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else type(leaf) for leaf in leaves)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, os.cpu_count() or 1), "compile")
