"""One batch of a sweep: draw, solve, score. Runs anywhere: it takes and returns plain data."""

from __future__ import annotations

import platform
import time
from typing import NamedTuple

import jax
import numpy as np

from ..evaluation.record import draw_solve_score
from ..inference.execution.machine import device
from ..inference.execution.programs import often
from .plan import Batch, problem_of
from .spec import around_solver, make_solver

# What is kept of a record, in this order.
RESULTS = (
    "success",  # the median signal is recovered
    "signals_recovered",  # share of them
    "atoms_recovered",
    "mse_F",
    "mse_X",
    "mse_F_scaled",
    "mse_X_scaled",
    "mse_F_aligned",
    "mse_X_aligned",
    "mse_X_median",  # of the median signal, atoms matched and scales fitted
    "angle",  # mean squared sine between atoms and their true ones
    "iterations",
    "residual",
    "free_entropy",
    "noise_used",  # the noise variance and density that the solver ended with: the given ones unless it learns
    "rho_used",
)
# Most characters of an error message that are kept.
_LONGEST_MESSAGE = 500
FAILED = "failed"
# What became of a point; "missing" where it has not been computed yet.
STATUSES = ("missing", FAILED, "max_iterations", "converged", "diverged", "degenerate", "unconfirmed", "misfit")


class Row(NamedTuple):
    """What came of a point: the solver's status, or "failed" with the reason and no values."""

    id: str
    status: str
    error: str | None
    values: tuple[float | None, ...]


class Done(NamedTuple):
    """A computed batch, how long it took, and where."""

    number: int
    rows: tuple[Row, ...]
    seconds: float
    machine: str


def compute(batch: Batch) -> Done:
    """Solve the points of a batch together. What goes wrong becomes rows with the status "failed"."""
    started = time.perf_counter()
    try:
        with often():
            rows = draw_and_solve(batch)
    except Exception as error:
        rows = failed(batch, f"{type(error).__name__}: {error}")
    return Done(batch.number, rows, time.perf_counter() - started, machine())


def failed(batch: Batch, reason: str) -> tuple[Row, ...]:
    """Rows for a batch that could not be computed."""
    return tuple(Row(point.id, FAILED, " ".join(reason.split())[:_LONGEST_MESSAGE], (None,) * len(RESULTS)) for point in batch.points)


def draw_and_solve(batch: Batch) -> tuple[Row, ...]:
    """The points of a batch drawn, solved and scored."""
    padded = batch.points + (batch.points[-1],) * (batch.width - len(batch.points))
    problems = [problem_of(point.numbers, batch.prior, batch.channel) for point in padded]
    seeds = [point.seed for point in padded]
    options = {**batch.options, **around_solver(batch.solver), "dtype": np.dtype(batch.dtype)}
    found = draw_solve_score(problems, padded[0].N, seed=seeds, solver=make_solver(batch.solver), **options).flat()
    rows = []
    for k, point in enumerate(batch.points):  # what is only padding is left out
        values = (found[name] for name in RESULTS)
        rows.append(Row(point.id, found["status"][k], None, tuple(None if value is None else float(value[k]) for value in values)))
    return tuple(rows)


def machine() -> str:
    """The machine and the libraries that computed, in words."""
    import jaxlib

    from .. import __version__

    return (
        f"{platform.node()}: {platform.machine()} {platform.system()}, {len(jax.devices())} x {device().device_kind}, "
        f"spinodal {__version__}, jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpy {np.__version__}"
    )
