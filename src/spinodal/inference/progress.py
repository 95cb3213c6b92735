"""Who is told how a solve is going."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Told = Callable[[str, int, float], None]


@contextmanager
def reporter(progress: bool | Told | None) -> Iterator[Told | None]:
    """The function to call with the stage, the iteration and the residual: the given one, or one that keeps a line on the terminal."""
    if not progress or (progress is True and not sys.stderr.isatty()):
        yield None
    elif progress is not True:
        yield progress
    else:
        from rich.console import Console

        with Console(stderr=True).status("reading") as status:

            def told(stage: str, iteration: int, residual: float) -> None:
                status.update(stage if stage != "iterating" else f"iteration {iteration}   residual {residual:.3e}")

            told_any: Any = told
            yield told_any
