"""spinodal sweep and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import AsJson, print_help_if_bare

app = typer.Typer(rich_markup_mode=None)

Directory = Annotated[str, typer.Argument(metavar="DIR", help="Directory of the sweep.")]
Executor = Annotated[str | None, typer.Option(metavar="NAME", help="in-process or dask; chosen by the amount of work if left out.")]
Scheduler = Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="Address of a Dask scheduler.")]
Workers = Annotated[int | None, typer.Option(metavar="W", help="Worker processes; one for each core if left out.")]


@app.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Many solves that survive interruptions: run, status, resume, export, figure."""
    print_help_if_bare(context)


@app.command()
def run(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="What to compute.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory for the ledger.")],
    executor: Executor = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Compute all points of a spec. Whatever interrupts it, what is finished stays, and resume goes on."""
    from . import sweep_commands

    sweep_commands.run(spec=spec, out=out, executor=executor, scheduler=scheduler, workers=workers, as_json=json)


@app.command()
def resume(
    directory: Directory,
    executor: Executor = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed points again.")] = False,
    json: AsJson = False,
) -> None:
    """Go on with a sweep: compute what is missing."""
    from . import sweep_commands

    sweep_commands.resume(
        directory=directory, executor=executor, scheduler=scheduler, workers=workers, retry_failed=retry_failed, as_json=json
    )


@app.command()
def status(directory: Directory, json: AsJson = False) -> None:
    """How far a sweep is."""
    from . import sweep_commands

    sweep_commands.status(directory=directory, as_json=json)


@app.command()
def export(
    directory: Directory,
    out: Annotated[str, typer.Option(metavar="FILE", help="A file name ending in .nc, .csv or .parquet.")],
    json: AsJson = False,
) -> None:
    """Write the results with their provenance: labelled arrays (.nc) or a row for each point (.csv, .parquet)."""
    from . import sweep_commands

    sweep_commands.export(directory=directory, out=out, as_json=json)


@app.command()
def figure(
    directory: Directory,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Directory for the figure; that of the sweep if left out.")] = None,
    x: Annotated[str, typer.Option(metavar="AXIS", help="Axis to the right.")] = "rho",
    y: Annotated[str, typer.Option(metavar="AXIS", help="Axis upwards.")] = "pi",
    value: Annotated[str, typer.Option(metavar="NAME", help="What is averaged and shown.")] = "success",
    json: AsJson = False,
) -> None:
    """Draw a map of the results, over the transitions of the theory where the axes are rho and pi."""
    from . import sweep_commands

    sweep_commands.figure(directory=directory, out=out, x=x, y=y, value=value, as_json=json)
