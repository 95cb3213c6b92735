"""Ctrl-C during a solve: raised between iterations, where nothing can swallow it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, float, float], None]


@contextmanager
def between_iterations(progress: Progress | None) -> Iterator[Progress | None]:
    """`progress`, which also raises an interruption that came since it was last called. A second one is raised at once.

    Python raises KeyboardInterrupt wherever it happens to be; in a callback of the garbage collector, of which JAX has one, it is printed
    and lost.
    """
    usual = signal.getsignal(signal.SIGINT)
    if progress is None or usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield progress
        return
    came = False

    def remember(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True

    def checked(iteration: int, residual: float, damping: float) -> None:
        progress(iteration, residual, damping)
        if came:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield checked
        if came:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, usual)
