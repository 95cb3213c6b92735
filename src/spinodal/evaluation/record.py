"""One row of any experiment: an instance drawn, solved and scored. Sweeps, reproduce, the command line and the explorer all use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..inference import Solution, solve
from ..model.model import Problem
from ..model.sampling import Instance, sample, sample_each
from ..pair import Pair
from ..theory import Outcome
from .scoring import AT_PREDICTION, DICTIONARY_LEARNED, SIGNAL_RECOVERED, Score, scale_floor, score


class Record(NamedTuple):
    """How a run ended and how far it is from the truth. For a batch every number is an array over instances.

    Attributes:
        status: "converged", "unconfirmed", "max_iterations", "diverged", "degenerate" or "misfit".
        iterations: how many there were.
        residual: mean squared difference between Y and F X/sqrt(N).
        free_entropy: the Bethe free entropy.
        score: errors, angles of the atoms, and errors of the signals.
        signals_recovered: share of the signals whose error is below SIGNAL_RECOVERED of the signals' power.
        signals_at_prediction: share of the signals at the error that was predicted; None without a prediction.
        noise_used: the noise variance that the solver ended with, which is the given one unless it was learned; None if not known.
        rho_used: the density that the solver ended with; None where the prior of X has none.
    """

    status: Any
    iterations: Any
    residual: Any
    free_entropy: Any
    score: Score
    signals_recovered: Any
    signals_at_prediction: Any
    noise_used: Any
    rho_used: Any

    @property
    def converged(self) -> Any:
        """Whether the run converged."""
        return np.asarray(self.status) == "converged"

    @property
    def success(self) -> Any:
        """Whether the median signal is recovered. The mean error is no criterion: a few hard signals decide it at sizes one can run."""
        return self.signals_recovered > 0.5

    @property
    def mse_X_median(self) -> Any:
        """Error of the median signal, atoms matched and scales fitted."""
        return np.median(self.score.signals, axis=-1)

    @property
    def angle(self) -> Any:
        """Mean squared sine between the atoms and their true ones."""
        return np.mean(self.score.angle, axis=-1)

    @property
    def atoms_learned(self) -> Any:
        """Share of the atoms whose squared sine is below DICTIONARY_LEARNED."""
        return np.mean(self.score.angle < DICTIONARY_LEARNED, axis=-1)

    @property
    def learned(self) -> Any:
        """Whether the whole dictionary is learned: every atom."""
        return self.atoms_learned == 1

    def flat(self) -> dict[str, Any]:
        """All numbers by their names, with those of F and X apart: what tables and files hold."""
        errors = {"": self.score.mse, "_scaled": self.score.mse_scaled, "_aligned": self.score.mse_aligned}
        row = {f"mse_{factor}{how}": getattr(pair, factor) for how, pair in errors.items() for factor in ("F", "X")}
        row["atoms_recovered"] = self.score.atoms_recovered
        of_the_signals = ("success", "signals_recovered", "signals_at_prediction", "mse_X_median")
        of_the_run = ("status", "converged", "iterations", "residual", "free_entropy", "noise_used", "rho_used")
        return row | {name: getattr(self, name) for name in (*of_the_run, *of_the_signals, "learned", "atoms_learned", "angle")}


def record(solution: Solution, truth: Pair[Any], *, predicted: float | None = None) -> Record:
    """Score a solution, or each of a batch. `predicted` is the error per entry of X that signals are compared with.

    Examples:
        >>> import spinodal as sp
        >>> from spinodal.evaluation.record import record
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> found = record(sp.solve(instance.observed, problem), instance.truth)
        >>> found.status, bool(found.success)
        ('converged', True)
    """
    scored = score(solution.mean, truth)
    X = np.asarray(truth.X)
    recovered = np.mean(scored.signals < SIGNAL_RECOVERED * np.mean(X**2, axis=(-2, -1))[..., None], axis=-1)
    at_prediction = None
    if predicted is not None:
        nonzeros = np.mean(X != 0, axis=-2)
        usual = np.mean(nonzeros, axis=-1, keepdims=True)
        at_prediction = np.mean(scored.signals < AT_PREDICTION * predicted * np.maximum(1.0, nonzeros / usual), axis=-1)
    status = np.asarray(solution.status)
    words = np.array([str(each) for each in status.ravel()]).reshape(status.shape) if status.ndim else str(solution.status)
    numbers = (solution.iterations, solution.residual, solution.free_entropy)
    return Record(words, *numbers, scored, recovered, at_prediction, *_used(solution))


def _used(solution: Solution) -> tuple[Any, Any]:
    """The noise variance and the density that the solver ended with; None for one that there is not."""
    models = solution.model if isinstance(solution.model, (list, tuple)) else [solution.model]
    used = [(model.noise_variance, getattr(model.prior.X, "rho", None)) for model in models]
    columns = [None if None in column else np.array(column, dtype=float) for column in zip(*used, strict=True)]
    noise, rho = (column if column is None or np.ndim(solution.status) else column[0] for column in columns)
    return noise, rho


def solve_drawn(instance: Instance, problem: Problem | Sequence[Problem], solver: Any = None, **options: Any) -> Solution:
    """Solve a drawn instance, or a batch: the solver is given the observed part only, and the number of atoms."""
    options = {"center": False, **options}  # the model says what the means are
    return solve(instance.observed, problem, solver, n_atoms=np.shape(instance.truth.F)[-1], **options)


def draw_solve_score(
    problem: Problem | Sequence[Problem],
    n: int,
    *,
    seed: int | Sequence[int],
    instances: int | None = None,
    solver: Any = None,
    believed: Problem | None = None,
    predicted: float | None = None,
    **options: Any,
) -> Record:
    """Draw an instance of size N = n from a seed, solve it and score it; with `instances`, so many of them together.

    A list of problems of one shape and kind comes with a seed for each, and is a batch too. The solver has the seed of the draw.
    `believed` is the problem as the solver is told it, where that is not the truth. The options are those of `solve`.

    Examples:
        >>> import spinodal as sp
        >>> from spinodal.evaluation.record import draw_solve_score
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> draw_solve_score(problem, 20, seed=1, instances=2).success
        array([ True,  True])
    """
    if isinstance(problem, Problem):
        assert isinstance(seed, int)
        drawn = sample(problem, n, seed=seed, batch=instances)
    else:
        assert not isinstance(seed, int)
        drawn = sample_each(problem, n, seeds=seed)
    solution = solve_drawn(drawn, problem if believed is None else believed, solver, seed=seed, **options)
    return record(solution, drawn.truth, predicted=predicted)


def against_truth(solution: Solution, truth: Pair[np.ndarray], outcome: Outcome | None) -> dict[str, Any]:
    """The errors of one solution, and beside them those that the theory predicts, where it does."""
    row = record(solution, truth).flat()
    names = [f"mse_{factor}{how}" for how in ("", "_scaled", "_aligned") for factor in ("F", "X")]
    errors = {name: row[name] for name in (*names, "atoms_recovered")}
    if outcome is None:
        return errors
    floor = scale_floor(solution.problem, np.shape(solution.mean.F)[-1])
    return errors | {"predicted": {"mse_F": outcome.amp.mse.F, "mse_X": outcome.amp.mse.X, "scale_floor": floor}}
