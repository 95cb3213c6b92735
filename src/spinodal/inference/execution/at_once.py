"""Small runs side by side on a CPU, one on each core. Each is the run it would be alone, to the last digit.

Arrays of a small run are too small for XLA to divide them among cores with profit, and a solve without F' makes several runs. Two cores
make them in three quarters of the time. Only programs that leave other cores alone are run so (`programs.py`): two that wait for each
other's threads could wait for ever. The plain twin is a loop.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any, TypeVar

import jax
import numpy as np

from .group import Told
from .machine import OneDevice, computing, cores

Work = TypeVar("Work")
Result = TypeVar("Result")
# Seconds between two looks at what runs have to tell.
_LOOK = 0.05


class Stopped(Exception):
    """What a run is told to end with when nobody waits for it any more."""


def at_once(
    make: Callable[[Work, Told | None], Result], work: Sequence[Work], told: Told | None, before: int, dtype: Any, placement: OneDevice
) -> Iterator[Result]:
    """`make(each, told)` of all that there is to do, by a thread for each core; the results in their order.

    What the runs tell is passed on by this thread, so that whoever is `told` may interrupt it: `before` and the iterations of all.
    """
    stopped, chosen = Event(), jax.config.jax_default_device
    heard: dict[int, tuple[str, int, float]] = {}

    def one(k: int) -> Result:
        def listen(stage: str, iteration: int, residual: float) -> None:
            if stopped.is_set():
                raise Stopped
            heard[k] = stage, iteration, residual

        # JAX's settings belong to a thread.
        with jax.default_device(chosen), computing(dtype, placement):
            return make(work[k], None if told is None else listen)

    def pass_on() -> None:
        if told is not None and heard:
            stages, iterations, residuals = zip(*heard.copy().values(), strict=True)
            finite = [value for value in residuals if np.isfinite(value)]
            told(stages[-1], before + sum(iterations), float(np.mean(finite)) if finite else float("nan"))

    pool = ThreadPoolExecutor(min(cores(), len(work)), "run")
    coming: list[Future[Result]] = [pool.submit(contextvars.copy_context().run, one, k) for k in range(len(work))]
    try:
        for each in coming:
            while not wait([each], None if told is None else _LOOK).done:
                pass_on()
            yield each.result()
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
