"""Who computes the batches: this process, worker processes on this machine, or a cluster. Dask does the scheduling.

An executor takes batches and gives them back computed, in any order. `started` is told which ones are being handed out.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from typing import Any, Protocol
from uuid import uuid4

from ..cache import for_children
from ..errors import InputError, check_count
from ..inference.execution.machine import programs_at_once
from .compute import Done, compute, failed
from .plan import Batch

Started = Callable[[list[int]], None]
# A batch whose worker died is tried again until it has been tried this often.
_TRIES = 3
# A sweep with fewer multiplications in its products than this, at so many iterations a solve, ends before processes pay: half a minute.
_LITTLE, _ITERATIONS = 3e11, 200
# Seconds to wait for a Dask scheduler to answer.
_PATIENCE = 20


class Runs(Protocol):
    """What all executors offer."""

    @property
    def name(self) -> str: ...

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]: ...


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess:
    """This process. On an accelerator some batches at a time. On a CPU one: two programs at a time can occupy all of XLA's threads, each
    waiting for a thread."""

    def __init__(self, workers: int | None = None) -> None:
        most = programs_at_once()
        self.workers = workers if workers is not None else most
        check_count("workers", self.workers)
        if most == 1 < self.workers:
            raise InputError(f"workers must be 1 in one process on a CPU, but {self.workers} was given; the executor dask takes more.")

    @property
    def name(self) -> str:
        return f"in this process, {self.workers} at a time"

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]:
        """Hand out as many batches as there are workers, and another for each that comes back."""
        pool, waiting, flying = ThreadPoolExecutor(self.workers), iter(batches), set[Future[Done]]()
        try:
            while True:
                for batch in islice(waiting, self.workers - len(flying)):
                    started([batch.number])
                    flying.add(pool.submit(compute, batch))
                if not flying:
                    return
                done, flying = wait(flying, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Dask:
    """A Dask cluster: the scheduler at an address, or worker processes started here for the time of the sweep. The latter divide the cores
    among them: a small solve gains nothing from a second core, and two solves on a core each are twice as fast. A worker that dies is
    replaced, and its batch is tried again; all of them end when this process does, however that happens."""

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        if not dask_is_installed():
            raise InputError("the executor dask needs Dask, which is not installed; install spinodal[dask].")
        if scheduler is not None and workers is not None:
            raise InputError("workers must be left out where a scheduler is given: its workers are whatever it has.")
        self.scheduler, self.workers = scheduler, cores() if workers is None else workers
        check_count("workers", self.workers)

    @property
    def name(self) -> str:
        return f"Dask at {self.scheduler}" if self.scheduler else f"{self.workers} Dask workers"

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]:
        from distributed import Client, as_completed

        log = logging.getLogger("distributed.client")
        loud = log.level
        cluster = _local_cluster(self.workers) if self.scheduler is None else None
        try:
            client = Client(cluster or self.scheduler, timeout=_PATIENCE, name="spinodal")
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"scheduler must be the address of a Dask scheduler, but {self.scheduler!r} does not answer ({error})."
            ) from None
        # Names of its own: a scheduler keeps what it has seen, perhaps from an earlier run of this sweep.
        run, waiting, flying = uuid4().hex[:8], iter(batches), dict[Any, Batch]()

        def hand_out(count: int) -> list[Any]:
            some = list(islice(waiting, count))
            started([batch.number for batch in some])
            new = {client.submit(compute, batch, key=f"spinodal-{run}-{batch.number}", retries=_TRIES - 1): batch for batch in some}
            flying.update(new)
            return list(new)

        try:
            log.setLevel(logging.CRITICAL)  # it tells a lost scheduler with a traceback; one sentence is enough
            # A cluster is given all batches, so that it can grow to the work there is; workers here as many as they can compute.
            completed = as_completed(hand_out(len(batches) if cluster is None else self.workers))
            for future in completed:
                yield _from_dask(future, flying.pop(future), self.name)
                future.release()
                completed.update(hand_out(1))
        finally:
            with suppress(OSError, TimeoutError):  # the scheduler may be gone: nothing to tell it then
                client.close(timeout=_PATIENCE if client.status == "running" else 1)
            log.setLevel(loud)
            if cluster is not None:
                cluster.close()


def dask_is_installed() -> bool:
    """Whether Dask's scheduler, an extra, is there."""
    return find_spec("distributed") is not None


def _local_cluster(workers: int) -> Any:
    """Workers of one thread each on this machine, with their share of the cores and no limit of memory but the machine's."""
    import dask
    from distributed import LocalCluster

    shared = for_children()
    settings = {
        # XLA's CPU client takes as many threads as this says. Dask's own setting for malloc is left out: it gives memory back to the
        # system after every iteration, which wants it again for the next.
        "distributed.nanny.pre-spawn-environ": {"NPROC": str(max(1, cores() // workers)), "OMP_NUM_THREADS": "1", **shared},
        "distributed.scheduler.allowed-failures": _TRIES - 1,
        "distributed.worker.profile.enabled": False,
    }
    # The scheduler listens for browsers even without a dashboard: on this machine only, at any free port.
    web = {"dashboard_address": "127.0.0.1:0"}
    quiet = {"dashboard_address": None, "scheduler_kwargs": web, "silence_logs": "ERROR"}
    with dask.config.set(settings), _environment(shared), _children_uninterrupted():
        return LocalCluster(workers, threads_per_worker=1, memory_limit=None, **quiet)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Variables of this process for a while. Those that it has, Dask gives its workers in place of what it is told to give them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _children_uninterrupted() -> Iterator[None]:
    """Processes started now ignore Ctrl-C, which a terminal sends to all of them: it is for this process, and they end with it."""
    if threading.current_thread() is not threading.main_thread():  # the others can't change it
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _from_dask(future: Any, batch: Batch, where: str) -> Done:
    """The result of a future that was done once. If the worker that holds it has died since, Dask computes it again: that is waited for."""
    try:
        done: Done = future.result()
        return done
    except (CancelledError, OSError):
        complaint = f"the scheduler must stay, but {where} was lost; what was finished is in the ledger, and the sweep can be resumed."
        raise InputError(complaint) from None
    except Exception as error:  # a batch that takes its workers with it, or that can't be sent
        return Done(batch.number, failed(batch, f"{type(error).__name__}: {error}"), 0.0, "none")


def suited(batches: Sequence[Batch], workers: int | None = None, say: Callable[[str], Any] = warnings.warn) -> InProcess | Dask:
    """Who is quickest on this machine: this process on an accelerator or if there is little to do, else worker processes.

    `say` is told where those are not available.
    """
    if workers is None:
        points = [point for batch in batches for point in batch.points]
        work = sum(3 * point.numbers["alpha"] * point.numbers["pi"] * point.N**3 * _ITERATIONS for point in points)
        alone = work < _LITTLE or len(batches) < 2 or cores() == 1
    else:
        alone = workers == 1
    if alone or programs_at_once() > 1:
        return InProcess(workers)
    if workers is None and not dask_is_installed():
        say(f"this process computes alone, since Dask is not installed; spinodal[dask] would use all {cores()} cores.")
        return InProcess()
    return Dask(workers=workers)


EXECUTORS: dict[str, Any] = {"in-process": InProcess, "dask": Dask}
