"""Results to the terminal and to files: JSON with infinities as "inf", files written whole or not at all, progress on terminals only."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError


def plain(value: Any) -> Any:
    """Numbers and containers as JSON has them: "inf" and "-inf" as words, NaN and None as null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else "inf" if value > 0 else "-inf"
    return value


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def writable_directory(name: str, path: str) -> Path:
    """The directory, made if need be; refused now if it can't be written, before any work is done."""
    directory = Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise InputError(f"{name} must be a directory that can be written, but {path!r} can't: {error.strerror or error}.") from None
    return directory


def named_file(name: str, path: str, suffix: str) -> Path:
    """The path of a file with the given suffix; nothing is made yet."""
    target = Path(path)
    if target.suffix != suffix:
        raise InputError(f"{name} must be a file name ending in {suffix}, but {path!r} was given.")
    if target.is_dir():
        raise InputError(f"{name} must be a file, but {path!r} is a directory.")
    return target


def writable_file(name: str, path: str, suffix: str) -> Path:
    """The path of a file with the given suffix, in a directory that can be written."""
    target = named_file(name, path, suffix)
    writable_directory(name, str(target.parent))
    return target


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it does not."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A readable table on standard output."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title, title_justify="left")
    for column in columns:
        drawn.add_column(column, justify="right" if column != columns[0] else "left")
    for row in rows:
        drawn.add_row(*row)
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
