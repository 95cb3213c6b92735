"""Work in the background, watched by the page, cancelled, and forgotten when other work comes: live runs, and files read and solved."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..errors import InputError
from ..inference.search.search import is_strong
from ..pair import Pair
from .state import MOST_ENTRIES, State
from .workers import Worker, Workers

# Runs under way at a time, and runs remembered.
MOST_RUNNING, MOST_KEPT = 2, 16


class Job:
    """Something that a worker does. Read from the page's threads, written by its own."""

    def __init__(self, workers: Workers, shape: Hashable, question: dict[str, Any]) -> None:
        self.id = secrets.token_urlsafe(12)
        self.status = "compiling"
        self.result: dict[str, Any] | None = None
        self._shape, self._question = shape, question
        self._workers = workers
        self._worker: Worker | None = None  # while it works for this
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._go, name=f"job {self.id}", daemon=True)

    @property
    def done(self) -> bool:
        """Whether there is nothing more to come."""
        return self.status not in ("compiling", "running")

    def cancel(self) -> None:
        """End it now, also while it is compiled."""
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
        self._question = {}  # it may be a file, and large
        if self._stop.is_set():
            self.status, self.result = "cancelled", None

    def _solve(self) -> None:
        worker = self._workers.take(self._shape)
        with self._lock:
            self._worker = worker
        ended = None
        if not self._stop.is_set():
            for said in worker.ask(self._question):
                self.hear(said)
                ended = said.get("ended", ended)
        with self._lock:
            self._worker = None
        if ended is None:
            worker.end()
            self.status = "failed: the process that computed it ended"
        else:
            self._workers.give(worker)
            self.status = ended

    def started(self) -> None:
        """Something was heard: it runs."""
        if not self._stop.is_set():
            self.status = "running"

    def hear(self, said: dict[str, Any]) -> None:
        """Keep what the worker says."""
        self.result = said.get("result")

    def seen(self) -> dict[str, Any]:
        """What the page is told."""
        return {"id": self.id, "status": self.status, "done": self.done, "result": self.result if self.done else None}


class Run(Job):
    """One instance of the problem on screen, drawn and solved."""

    def __init__(self, state: State, workers: Workers) -> None:
        super().__init__(workers, shape_of(state), {"state": state._asdict()})
        self.state = state
        self.iterations: list[int] = []
        self.errors = Pair[list[float]](F=[], X=[])
        self.typical: list[float] = []  # of the median signal: the mean is owed to a few hard ones at sizes like these

    def hear(self, said: dict[str, Any]) -> None:
        if "errors" in said:
            # Readers go by the iterations: errors first, so that there are never fewer of them.
            F, X, typical = said["errors"]
            self.typical.append(typical)
            self.errors.F.append(F)
            self.errors.X.append(X)
            self.iterations.append(said["iteration"])
            self.started()
        super().hear(said)

    def seen(self) -> dict[str, Any]:
        count = len(self.iterations)
        return {
            **super().seen(),
            "query": self.state.query(),
            "iterations": self.iterations[:count],
            "mse_X": [float(f"{value:.5g}") for value in self.errors.X[:count]],
            "median_X": [float(f"{value:.5g}") for value in self.typical[:count]],
            "mse_F": [float(f"{value:.5g}") for value in self.errors.F[:count]],
        }


def shape_of(state: State) -> tuple[Any, ...]:
    """What the programs of a run depend on."""
    problem = state.problem()
    strong = is_strong(problem.knowledge, problem.prior.F)
    return (*problem.sizes(state.n), state.x, state.f, state.channel, np.isinf(state.eta), strong)


class Runs:
    """All work of a server, by ids that cannot be guessed."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
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
        run = Run(state, self.workers)
        self.begin(run)
        return run

    def begin(self, job: Job) -> None:
        """Begin any work, or say that there is enough already."""
        with self._lock:
            if sum(each.thread.is_alive() for each in self._jobs.values()) >= MOST_RUNNING:
                raise InputError(f"{MOST_RUNNING} runs are under way already: wait for one to end, or cancel it.")
            self._jobs[job.id] = job
            while len(self._jobs) > MOST_KEPT:
                self._jobs.pop(next(id for id, old in self._jobs.items() if not old.thread.is_alive()))
            job.thread.start()

    def job(self, id: Any) -> Job | None:
        """The work of that id, if it is known."""
        with self._lock:
            return self._jobs.get(id) if isinstance(id, str) else None

    def get(self, id: Any) -> Run | None:
        """The live run of that id, if it is known."""
        found = self.job(id)
        return found if isinstance(found, Run) else None

    def of_kind(self, kind: type) -> list[Any]:
        """All of one kind that are remembered, the oldest first."""
        with self._lock:
            return [each for each in self._jobs.values() if isinstance(each, kind)]
