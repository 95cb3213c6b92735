"""Results to the terminal and to files: tables or JSON, figures and data sets, and what is being done on terminals only; and Ctrl-C
during a solve, raised between iterations, where nothing can swallow it."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import printable
from ..io.write import plain, whole_file

# The exit code of a command whose result can't be trusted.
UNTRUSTED = 3
Stage = Callable[[str, int, float], None]


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def save_figure(figure: Any, directory: Path, stem: str) -> list[Path]:
    """PNG and SVG of a matplotlib figure."""
    paths = [directory / f"{stem}.png", directory / f"{stem}.svg"]
    for path in paths:
        with whole_file(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=150)
    return paths


def save_dataset(dataset: Any, directory: Path, stem: str) -> list[Path]:
    """NetCDF and CSV of an xarray Dataset."""
    paths = [directory / f"{stem}.nc", directory / f"{stem}.csv"]
    with whole_file(paths[0]) as temporary:
        dataset.to_netcdf(temporary, engine="scipy")
    with whole_file(paths[1]) as temporary:
        dataset.to_dataframe().reset_index().to_csv(temporary, index=False)
    return paths


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar on a terminal and nothing when piped."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(printable(description)), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stages() -> Iterator[Stage | None]:
    """A callback (stage, iteration, residual) that says on a terminal what is being done; None when piped."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as line:
        yield lambda stage, iteration, residual: line.update(_stage_in_words(stage, iteration, residual))


def _stage_in_words(stage: str, iteration: int, residual: float) -> str:
    import jax

    if stage == "iterating":
        return f"iteration {iteration}, mean squared residual {residual:.3e}"
    if stage == "compiling":
        return "compiling (once: kept for the next run)" if jax.config.jax_compilation_cache_dir else "compiling"
    return stage


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A readable table on standard output. Brackets in its words are brackets, not markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(printable(title), style="table.title"), title_justify="left")
    for column in columns:
        drawn.add_column(column, justify="right" if column != columns[0] else "left")
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(drawn)


def shown(value: Any) -> str:
    """A number as a person wants to read it; a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def report_files(paths: list[Path], as_json: bool, more: dict[str, Any] | None = None) -> None:
    """Say which files were written."""
    if as_json:
        print_json({"files": [str(path) for path in paths], **(more or {})})
    else:
        for path in paths:
            print(path)


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
