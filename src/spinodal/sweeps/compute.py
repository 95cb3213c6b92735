"""One batch of a sweep: draw, solve, score. Runs anywhere: it takes and returns plain data."""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from ..evaluation.scoring import score
from ..inference import solve
from ..model.sampling import sample_each
from ..pair import Pair
from .plan import Batch, Point, problem_of
from .spec import make_solver

# What is kept of a solve, in this order.
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
# A signal is recovered if its error, atoms matched and scales fitted, is below this share of the signals' power.
_RECOVERED = 1e-3
# Solutions scored by one thread at a time, in cache and with few calls, and threads while an accelerator has other work.
_SCORED, _SCORERS = 8, 4
# Most characters of an error message that are kept.
_LONGEST_MESSAGE = 500
FAILED = "failed"


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
        rows = _rows(batch)
    except Exception as error:
        rows = failed(batch, f"{type(error).__name__}: {error}")
    return Done(batch.number, rows, time.perf_counter() - started, machine())


def failed(batch: Batch, reason: str) -> tuple[Row, ...]:
    """Rows for a batch that could not be computed."""
    return tuple(Row(point.id, FAILED, " ".join(reason.split())[:_LONGEST_MESSAGE], (None,) * len(RESULTS)) for point in batch.points)


def _rows(batch: Batch) -> tuple[Row, ...]:
    padded = batch.points + (batch.points[-1],) * (batch.width - len(batch.points))
    problems = [problem_of(point.numbers, batch.prior) for point in padded]
    seeds = [point.seed for point in padded]
    drawn = sample_each(problems, padded[0].N, seeds=seeds)
    options = {**batch.options, "n_atoms": padded[0].N, "seed": seeds, "dtype": np.dtype(batch.dtype)}
    solution = solve(drawn.observed, problems, make_solver(batch.solver), **options)
    some = [slice(start, start + _SCORED) for start in range(0, len(batch.points), _SCORED)]
    with ThreadPoolExecutor(1 if jax.default_backend() == "cpu" else _SCORERS) as pool:
        return tuple(row for rows in pool.map(lambda which: _scored(batch.points, solution, drawn.truth, which), some) for row in rows)


def _scored(points: tuple[Point, ...], solution: Any, truth: Pair[Any], which: slice) -> list[Row]:
    """The rows of some points in a row."""
    points = points[which]
    status, mean, iterations, residual, phi, used, true = jax.tree.map(
        lambda value: value[which][: len(points)],
        (solution.status, solution.mean, solution.iterations, solution.residual, solution.free_entropy, solution.parameters, truth),
    )
    found = score(mean, true)
    recovered = np.mean(found.signals < _RECOVERED * np.mean(true.X**2, axis=(1, 2))[:, None], axis=1)
    unknown = [None] * len(points)
    columns: tuple[Any, ...] = (
        recovered > 0.5,
        recovered,
        found.atoms_recovered,
        *found.mse,
        *found.mse_scaled,
        *found.mse_aligned,
        np.median(found.signals, axis=1),
        np.mean(found.angle, axis=1),
        iterations,
        residual,
        phi,
        unknown if used is None else used.noise,
        unknown if used is None or used.rho is None else used.rho,
    )
    values = zip(*columns, strict=True)
    return [
        Row(point.id, str(ending), None, tuple(None if value is None else float(value) for value in row))
        for point, ending, row in zip(points, status, values, strict=True)
    ]


def machine() -> str:
    """The machine and the libraries that computed, in words."""
    import jaxlib

    from .. import __version__

    device = jax.devices()[0]
    return (
        f"{platform.node()}: {platform.machine()} {platform.system()}, {len(jax.devices())} x {device.device_kind}, "
        f"spinodal {__version__}, jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpy {np.__version__}"
    )
