"""spinodal sweep: run, status, resume, export and figure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import INTERRUPTED, InputError, check_choice, check_count, check_path, shown
from ..io.write import named_file, whole_file, writable_directory
from ..sweeps import EXECUTORS, Standing, dataset, read_spec, resume_sweep, run_sweep, standing, suited, table
from ..sweeps.plan import check_sizes, make_plan
from . import output
from .startup import look_for_garbage_as_usual

# More worker processes are taken for a mistake.
_MOST_WORKERS = 1000
_SUFFIXES = (".nc", ".csv", ".parquet")


def note(message: str) -> None:
    """A remark on the terminal that does not end the command."""
    print(f"spinodal: {message}", file=sys.stderr)


def _executor(name: str | None, scheduler: str | None, workers: int | None) -> Any:
    """The executor that was asked for, or else one that suits; the address of a scheduler asks for Dask."""
    if workers is not None:
        check_count("workers", workers, 1, _MOST_WORKERS)
    if name is None and scheduler is None:
        return partial(suited, workers=workers, say=note)
    chosen = name or "dask"
    check_choice("executor", chosen, tuple(EXECUTORS))
    if scheduler is None:
        return EXECUTORS[chosen](workers=workers)
    if chosen != "dask":
        raise InputError(f"executor must be dask where a scheduler is given, but {chosen} was given.")
    return EXECUTORS[chosen](scheduler=scheduler, workers=workers)


@contextmanager
def _long_work(directory: Path) -> Iterator[None]:
    """It must not grow, and an interruption ends it now: threads that compute can't be stopped, and the ledger needs no goodbye."""
    look_for_garbage_as_usual()
    try:
        yield
    except KeyboardInterrupt:
        print(f"spinodal: interrupted; go on with `spinodal sweep resume {directory}`.", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)


def run(*, spec: str, out: str, executor: str | None, scheduler: str | None, workers: int | None, as_json: bool) -> None:
    wanted, chosen = read_spec(spec), _executor(executor, scheduler, workers)
    check_sizes(make_plan(wanted))  # refused before a directory is made
    directory = writable_directory("out", out)
    with _long_work(directory), output.progress_bar(wanted.name) as progress:
        _report(run_sweep(wanted, directory, chosen, progress), directory, as_json)


def resume(*, directory: str, executor: str | None, scheduler: str | None, workers: int | None, retry_failed: bool, as_json: bool) -> None:
    where, chosen = _existing(directory), _executor(executor, scheduler, workers)
    with _long_work(where), output.progress_bar("resumed") as progress:
        _report(resume_sweep(where, chosen, retry_failed=retry_failed, progress=progress, say=note), where, as_json)


def status(*, directory: str, as_json: bool) -> None:
    where = _existing(directory)
    _report(standing(where, note), where, as_json)


def _existing(directory: str) -> Path:
    """The directory of a sweep; whether there is one is for the ledger to say."""
    check_path("DIR", directory)
    return Path(directory)


def _report(now: Standing, directory: Path, as_json: bool) -> None:
    if as_json:
        output.print_json({"out": str(directory), "points": now.total, "finished": now.finished, "statuses": now.statuses})
        return
    rows = [["finished", f"{now.finished} of {now.total}"], *([name, str(count)] for name, count in sorted(now.statuses.items()))]
    output.table(f"{now.spec.name} in {directory}", ["", "points"], rows)


def export(*, directory: str, out: str, as_json: bool) -> None:
    suffix = Path(out).suffix
    if suffix not in _SUFFIXES:
        raise InputError(f"out must be a file name ending in {', '.join(_SUFFIXES)}, but {shown(out)} was given.")
    if suffix == ".nc":
        data = dataset(_existing(directory), note)
        target = named_file("out", out, suffix)
        with whole_file(target) as temporary:
            data.to_netcdf(temporary, engine="scipy")
    else:
        target = _write_table(_existing(directory), out, suffix)
    output.report_files([target], as_json)


def _write_table(directory: Path, out: str, suffix: str) -> Path:
    """A row for each point. CSV says where it comes from in lines that begin with #."""
    frame = table(directory, note)
    if suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError("Parquet needs pyarrow, which is not installed; install spinodal[parquet].") from None
    target = named_file("out", out, suffix)
    with whole_file(target) as temporary:
        if suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                for name, value in frame.attrs.items():
                    file.write(f"# {name}: {json.dumps(value)}\n")
                frame.to_csv(file, index=False)
    return target


def figure(*, directory: str, out: str | None, x: str, y: str, value: str, as_json: bool) -> None:
    from ..figures.sweeps import sweep_figure

    drawn = sweep_figure(dataset(_existing(directory), note), x=x, y=y, value=value)
    target = writable_directory("out", out or directory)
    output.report_files(output.save_figure(drawn, target, "sweep"), as_json)
