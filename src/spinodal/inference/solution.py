"""What a solve returns: estimates with their uncertainties, how the run ended and why, and ways to look at it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..model.model import Model, Problem
from ..model.sampling import Observed
from ..pair import Pair

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


class Status(StrEnum):
    """How a run ended. Only `converged` can be relied on.

    Examples:
        >>> import spinodal as sp
        >>> sp.Status.CONVERGED.trusted, sp.Status("diverged").trusted
        (True, False)
    """

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    DIVERGED = "diverged"
    DEGENERATE = "degenerate"
    UNCONFIRMED = "unconfirmed"
    MISFIT = "misfit"

    @property
    def trusted(self) -> bool:
        """Whether a result with this status can be relied on.

        Examples:
            >>> import spinodal as sp
            >>> sp.Status.DEGENERATE.trusted
            False
        """
        return self is Status.CONVERGED


def going_on(status: Status, reason: str, before: Status) -> tuple[Status, str]:
    """The status of what went on from a solution: what goes on from an unconfirmed one is not confirmed either."""
    if status is not Status.CONVERGED or before.trusted:
        return status, reason
    return Status.UNCONFIRMED, f"it settled, but went on from a solution that was {before}"


class Trace(NamedTuple):
    """Per iteration: mean squared residual, typical variance level (median over signals), damping, change of the level.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> trace = sp.solve(instance.observed, problem).trace
        >>> bool(trace.level[-1] < trace.level[0])
        True
    """

    residual: Any
    level: Any
    damping: Any
    change: Any


class Names(NamedTuple):
    """Labels of the rows and columns of Y, where the data came with some."""

    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


UNNAMED = Names()


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Posterior means and variances of F and X, how the run ended and why, and its trace.

    For a batch every array has a leading axis, and traces are as long as the longest run, NaN where a run had ended.

    Attributes:
        mean: posterior means of F (M x N) and X (N x P).
        variance: posterior variances of the same.
        status: a Status; only "converged" can be relied on.
        reason: what the status rests on, in words.
        iterations: how many there were.
        residual: mean squared difference between Y and F X/sqrt(N).
        free_entropy: the Bethe free entropy log Z/(N P), higher is better, in the convention of the replica potential.
        trace: residual, level, damping and change of each iteration.
        model: the priors, channel and knowledge that were used, with what was learned in place; of a batch, one for each. Where learned
            parameters were corrected, `mean`, `variance` and `free_entropy` are still those of the run that learned them.
        learned: names of the parameters that were learned.
        observed: the data; with `center`, less their row means.
        row_means: what was taken off the rows, with `center`: Y is F X/sqrt(N) + row_means[:, None]. None where nothing was.
        centered: why the row means were taken off: "asked" by center=True, or "auto". None where nothing was.
        names: labels of the rows and columns of Y, if there were any.
        seconds: how long it took.
        reproducibility: of each atom the share of runs that found it by themselves, this one apart; None where there was one run.
        ranges: the smallest and largest value of each learned parameter in the runs that look sound, corrected like the model's; of a
            batch, for each.
        runs: how many runs from different starts there were; of a batch, for each.
        candidates: where several numbers of atoms were tried, each with its log evidence in nats per entry of Y, status and iterations.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem)
        >>> solution.mean.F.shape, solution.variance.X.shape
        ((12, 20), (20, 120))
    """

    mean: Pair[Any]
    variance: Pair[Any]
    status: Any
    reason: Any
    iterations: Any
    residual: Any
    free_entropy: Any
    trace: Trace
    model: Any = None
    learned: tuple[str, ...] = ()
    observed: Observed | None = None
    names: Names = UNNAMED
    seconds: float | None = None
    candidates: tuple[tuple[int, float, Status, int], ...] = ()
    reproducibility: Any = None
    runs: Any = 1
    ranges: Any = field(default_factory=dict)
    row_means: Any = None
    centered: str | None = None

    @property
    def batched(self) -> bool:
        """Whether there are several instances, along a leading axis."""
        return np.ndim(self.mean.F) == 3

    def __getitem__(self, k: int) -> Solution:
        """One instance of a batch."""
        pick: dict[str, Any] = {name: Pair(*(value[k] for value in getattr(self, name))) for name in ("mean", "variance")}
        length = int(self.iterations[k])
        observed = None if self.observed is None else Observed(*(None if value is None else value[k] for value in self.observed))
        model, ranges = (value[k] if isinstance(value, (list, tuple)) else value for value in (self.model, self.ranges))
        scalars = {name: getattr(self, name)[k] for name in ("status", "reason", "iterations", "residual", "free_entropy")}
        if self.reproducibility is not None:
            scalars |= {"reproducibility": self.reproducibility[k], "runs": int(self.runs[k])}
        if self.row_means is not None:
            off = self.centered == "asked" or bool(np.any(self.row_means[k]))  # "auto" may leave some instances of a batch alone
            scalars |= {"row_means": self.row_means[k] if off else None, "centered": self.centered if off else None}
        trace = Trace(*(values[k][:length] for values in self.trace))
        return replace(self, **pick, **scalars, trace=trace, observed=observed, model=model, ranges=ranges)

    @property
    def problem(self) -> Problem:
        """The model with the alpha and pi of the data: what the theory needs.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> sp.solve(sp.sample(problem, 20, seed=1).observed, problem).problem.pi
            6.0
        """
        if self.batched:
            raise InputError("problem must be asked of one instance, but this is a batch; take one of them, solution[k].problem.")
        (M, N), P = np.shape(self.mean.F), np.shape(self.mean.X)[-1]
        mask = None if self.observed is None else self.observed.mask
        fraction = 1.0 if mask is None else float(np.mean(mask))
        model: Model = self.model
        return Problem.of(model, alpha=M / N, pi=P / N, observed_fraction=fraction)

    @cached_property
    def warnings(self) -> tuple[Any, ...]:
        """Signs that the data do not follow the model, each a sentence that says what to do; of a batch, those of each instance.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> observed = sp.sample(problem, 20, seed=1).observed
            >>> sp.solve(observed, problem).warnings
            ()
            >>> warned = sp.solve(observed._replace(Y=observed.Y + 50), problem, center=False).warnings[0]
            >>> for part in warned.split("; "):
            ...     print(part)
            the mean of Y is far from zero (row means hold 100% of its power), but the model is centred
            subtract the mean of each row (center=True, --center)
        """
        from .suspicions import suspicions

        return tuple(self[k].warnings for k in range(len(self.mean.F))) if self.batched else suspicions(self)

    @cached_property
    def sensors(self) -> Any:
        """What each sensor (row of Y) is like, where the channel is a `Sensors`: `gain` and `offset`, each with `mean` and `variance`, and
        `faulty`, a probability. None with other channels; of a batch, those of each instance.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.8, pi=2.0, rho=0.1, eta=0.0).replace(channel=sp.SensorGains(1e-4, spread=0.3))
            >>> solution = sp.solve(sp.sample(problem, 50, seed=1).observed, problem)
            >>> solution.sensors.gain.mean.shape
            (40,)
        """
        from .readings import readings_of

        return tuple(self[k].sensors for k in range(len(self.mean.F))) if self.batched else readings_of(self)

    def __repr__(self) -> str:
        from ..report.solution import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        from ..report.solution import small_table

        return small_table(self)

    def summary(self) -> str:
        """A page of text: what was found, whether it can be relied on, and what to do next.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> "converged" in sp.solve(sp.sample(problem, 20, seed=1).observed, problem).summary()
            True
        """
        from ..report.solution import summary

        return summary(self)

    def plot(self) -> Figure:
        """The atoms, the residuals and the course of the run, as a matplotlib figure.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> len(sp.solve(sp.sample(problem, 20, seed=1).observed, problem).plot().axes) > 2
            True
        """
        from ..figures.report import solution_figure

        return solution_figure(self)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write a page about the result, a single HTML file. The options are those of `spinodal.report.page.report_html`.

        Examples:
            >>> from pathlib import Path
            >>> import tempfile
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> solution = sp.solve(sp.sample(problem, 20, seed=1).observed, problem)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     solution.report(Path(folder, "page.html")).name
            'page.html'
        """
        from ..report.page import write_report

        return write_report(self, path, **options)

    def to_xarray(self) -> xarray.Dataset:
        """Means and variances as labelled arrays, the rest as attributes.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> sorted(sp.solve(sp.sample(problem, 20, seed=1).observed, problem).to_xarray().data_vars)
            ['F', 'F_variance', 'X', 'X_variance']
        """
        from ..report.solution import to_xarray

        return to_xarray(self)


def without_signals(solution: Any, instead: Any = None) -> Any:
    """The same without X, which is large, and wanted of the best run only."""
    mean, variance = (pair._replace(X=instead) for pair in (solution.mean, solution.variance))
    return replace(solution, mean=mean, variance=variance)


def joined(parts: list[Solution]) -> Solution:
    """Single instances as one batch, traces padded to the longest."""
    longest = max(len(part.trace.level) for part in parts)

    def padded(values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, longest - len(values)), constant_values=np.nan)

    def stack(values: list[Any]) -> np.ndarray:
        array = np.empty(len(values), object) if isinstance(values[0], str) else None
        if array is None:
            return np.stack(values)
        array[:] = values
        return array

    trace = Trace(*(np.stack([padded(part.trace[field]) for part in parts]) for field in range(len(Trace._fields))))
    arrays: dict[str, Any] = {
        name: stack([getattr(part, name) for part in parts]) for name in ("status", "reason", "iterations", "residual", "free_entropy")
    }
    pairs: dict[str, Any] = {
        name: Pair(*(np.stack(values) for values in zip(*(getattr(part, name) for part in parts), strict=True)))
        for name in ("mean", "variance")
    }
    if parts[0].reproducibility is not None:
        arrays |= {name: np.stack([getattr(part, name) for part in parts]) for name in ("reproducibility", "runs")}
    lists: dict[str, Any] = {name: [getattr(part, name) for part in parts] for name in ("model", "ranges")}
    return replace(parts[0], **arrays, **pairs, trace=trace, **lists)
