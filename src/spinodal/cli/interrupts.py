"""Ctrl-C during a solve: raised between iterations, where nothing can swallow it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .output import Stage


@contextmanager
def between_iterations(stage: Stage | None) -> Iterator[Stage | None]:
    """`stage`, which also raises an interruption that came since it was last called. A second one is raised at once.

    Python raises KeyboardInterrupt wherever it happens to be; in a callback of the garbage collector, of which JAX has one, it is printed
    and lost.
    """
    usual = signal.getsignal(signal.SIGINT)
    if stage is None or usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield stage
        return
    came = False

    def remember(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True

    def checked(name: str, iteration: int, residual: float) -> None:
        stage(name, iteration, residual)
        if came:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield checked
        if came:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, usual)
