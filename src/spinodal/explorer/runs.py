"""Live runs: instances solved in the background, watched by the page, cancelled, and forgotten when others come."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from ..errors import InputError
from ..evaluation.record import Record, record, solve_drawn
from ..evaluation.scoring import ATOM_RECOVERED, Score, align, fit_scales, score
from ..inference.search.search import is_strong
from ..model.sampling import sample
from ..pair import Pair
from .memory import Shapes
from .state import MOST_ENTRIES, MOST_ITERATIONS, State

# Runs under way at a time, and runs remembered.
MOST_RUNNING, MOST_KEPT = 2, 16
# Entries of X that are drawn.
_SHOWN = 1_500
# JAX's caches are those of the process, and so is what is known of them.
_SHAPES = Shapes()


class Cancelled(Exception):
    """Raised inside a solve to end it."""


class Run:
    """One instance on its way. Read from the page's threads, written by its own."""

    def __init__(self, state: State) -> None:
        self.id = secrets.token_urlsafe(12)
        self.state = state
        self.status = "compiling"
        self.iterations: list[int] = []
        self.errors = Pair[list[float]](F=[], X=[])
        self.typical: list[float] = []  # of the median signal: the mean is owed to a few hard ones at sizes like these
        self.result: dict[str, Any] | None = None
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._go, name=f"run {self.id}", daemon=True)

    @property
    def done(self) -> bool:
        """Whether there is nothing more to come; the thread of a cancelled run may still be compiling."""
        return self.status not in ("compiling", "running")

    def cancel(self) -> None:
        self._stop.set()
        if not self.done:
            self.status = "cancelled"

    def _go(self) -> None:
        try:
            self._solve()
        except Cancelled:
            self.status = "cancelled"
        except InputError as error:
            self.status = f"refused: {error}"
        except Exception as error:  # whatever it is, the page should say so and go on
            self.status = f"failed: {type(error).__name__}"

    def _solve(self) -> None:
        state = self.state
        problem = state.problem()
        _SHAPES.make_room((*problem.sizes(state.n), state.x, state.f, np.isinf(state.eta), is_strong(problem.knowledge, problem.prior.F)))
        instance = sample(problem, state.n, seed=state.seed)

        def watch(iteration: int, means: Pair[np.ndarray]) -> None:
            if self._stop.is_set():
                raise Cancelled
            scored = score(means, instance.truth)
            error = _errors(scored, state)
            self.typical.append(float(np.median(scored.signals)))
            self.errors.F.append(error.F)
            self.errors.X.append(error.X)
            self.iterations.append(iteration)
            self.status = "running"

        solution = solve_drawn(instance, problem, max_iterations=MOST_ITERATIONS, seed=state.seed, watch=watch)
        if self._stop.is_set():
            raise Cancelled
        found = record(solution, instance.truth)
        self.result = _result(found, solution.mean, instance.truth, state)
        self.status = found.status

    def seen(self) -> dict[str, Any]:
        """What the page is told."""
        # Another thread appends: errors first, so that there are never fewer of them than of iterations.
        count = len(self.iterations)
        return {
            "id": self.id,
            "status": self.status,
            "done": self.done,
            "query": self.state.query(),
            "iterations": self.iterations[:count],
            "mse_X": [float(f"{value:.5g}") for value in self.errors.X[:count]],
            "median_X": [float(f"{value:.5g}") for value in self.typical[:count]],
            "mse_F": [float(f"{value:.5g}") for value in self.errors.F[:count]],
            "result": self.result if self.done else None,
        }


def _errors(scored: Score, state: State) -> Pair[float]:
    """Order and signs are free where nothing was known of F, scales always."""
    return scored.mse_aligned if np.isinf(state.eta) else scored.mse_scaled


def _result(found: Record, mean: Pair[Any], truth: Pair[Any], state: State) -> dict[str, Any]:
    """Some entries of X against the truth, and the angle of every atom."""
    fitted = align(mean, truth) if np.isinf(state.eta) else fit_scales(mean, truth.F)
    shown = np.sort(np.random.default_rng(0).choice(truth.X.size, min(_SHOWN, truth.X.size), replace=False))
    error = _errors(found.score, state)
    return {
        "true_X": _short(truth.X.ravel()[shown]),
        "found_X": _short(fitted.X.ravel()[shown]),
        "angle": _short(found.score.angle),
        "recovered": found.score.atoms_recovered,
        "threshold": ATOM_RECOVERED,
        "mse_X": error.X,
        "mse_F": error.F,
    }


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


class Runs:
    """All runs of a server, by their ids, which cannot be guessed."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, state: State) -> Run:
        """Begin a run, or say why not."""
        M, N, P = state.problem().sizes(state.n)
        if max(N, M) * P > MOST_ENTRIES:
            most = int(np.sqrt(MOST_ENTRIES / (state.pi * max(1.0, state.alpha))))
            raise InputError(
                f"An instance of N = {N} would have {max(N, M) * P:,} entries, but {MOST_ENTRIES:,} are allowed: N = {most} would do."
            )
        with self._lock:
            if sum(run.thread.is_alive() for run in self._runs.values()) >= MOST_RUNNING:
                raise InputError(f"{MOST_RUNNING} runs are under way already: wait for one to end, or cancel it.")
            run = Run(state)
            self._runs[run.id] = run
            while len(self._runs) > MOST_KEPT:
                self._runs.pop(next(id for id, old in self._runs.items() if not old.thread.is_alive()))
            run.thread.start()
        return run

    def get(self, id: Any) -> Run | None:
        """The run of that id, if it is known."""
        with self._lock:
            return self._runs.get(id) if isinstance(id, str) else None
