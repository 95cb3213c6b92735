"""Live runs: instances solved in the background, watched by the page, cancelled, and forgotten when others come."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from ..errors import InputError
from ..inference.search.search import is_strong
from ..pair import Pair
from .state import MOST_ENTRIES, State
from .workers import Worker, Workers

# Runs under way at a time, and runs remembered.
MOST_RUNNING, MOST_KEPT = 2, 16


class Run:
    """One instance on its way. Read from the page's threads, written by its own."""

    def __init__(self, state: State, workers: Workers) -> None:
        self.id = secrets.token_urlsafe(12)
        self.state = state
        self.status = "compiling"
        self.iterations: list[int] = []
        self.errors = Pair[list[float]](F=[], X=[])
        self.typical: list[float] = []  # of the median signal: the mean is owed to a few hard ones at sizes like these
        self.result: dict[str, Any] | None = None
        self._workers = workers
        self._worker: Worker | None = None  # while it works for this run
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._go, name=f"run {self.id}", daemon=True)

    @property
    def done(self) -> bool:
        """Whether there is nothing more to come."""
        return self.status not in ("compiling", "running")

    def cancel(self) -> None:
        """End the run now, also while it is compiled."""
        self._stop.set()
        if not self.done:
            self.status = "cancelled"
        with self._lock:
            if self._worker is not None:
                self._worker.end()

    def _go(self) -> None:
        try:
            self._solve()
        except Exception as error:  # whatever it is, the page should say so and go on
            self.status = f"failed: {type(error).__name__}"
        if self._stop.is_set():
            self.status, self.result = "cancelled", None

    def _solve(self) -> None:
        worker = self._workers.take(shape_of(self.state))
        with self._lock:
            self._worker = worker
        ended = None
        if not self._stop.is_set():
            for said in worker.solve(self.state):
                self._hear(said)
                ended = said.get("ended", ended)
        with self._lock:
            self._worker = None
        if ended is None:
            worker.end()
            self.status = "failed: the process that computed it ended"
        else:
            self._workers.give(worker)
            self.status = ended

    def _hear(self, said: dict[str, Any]) -> None:
        if "errors" in said:
            # Readers go by the iterations: errors first, so that there are never fewer of them.
            F, X, typical = said["errors"]
            self.typical.append(typical)
            self.errors.F.append(F)
            self.errors.X.append(X)
            self.iterations.append(said["iteration"])
            if not self._stop.is_set():
                self.status = "running"
        self.result = said.get("result")

    def seen(self) -> dict[str, Any]:
        """What the page is told."""
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


def shape_of(state: State) -> tuple[Any, ...]:
    """What the programs of a run depend on."""
    problem = state.problem()
    return (*problem.sizes(state.n), state.x, state.f, np.isinf(state.eta), is_strong(problem.knowledge, problem.prior.F))


class Runs:
    """All runs of a server, by their ids, which cannot be guessed."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()
        self.workers = Workers()

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
            run = Run(state, self.workers)
            self._runs[run.id] = run
            while len(self._runs) > MOST_KEPT:
                self._runs.pop(next(id for id, old in self._runs.items() if not old.thread.is_alive()))
            run.thread.start()
        return run

    def get(self, id: Any) -> Run | None:
        """The run of that id, if it is known."""
        with self._lock:
            return self._runs.get(id) if isinstance(id, str) else None
