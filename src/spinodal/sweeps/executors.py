"""Who computes the batches: this process, a pool of processes on this machine, or a Dask cluster. No scheduler is written here.

An executor takes batches and gives them back computed, in any order. `started` is told which ones are being handed out.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Protocol
from uuid import uuid4

from ..errors import InputError, check_count
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
    """This process. On an accelerator two batches at a time, so that one is drawn and scored while another is solved. On a CPU one: two
    programs at a time can occupy all of XLA's threads, each waiting for a thread."""

    def __init__(self, workers: int | None = None) -> None:
        import jax

        most = 1 if jax.default_backend() == "cpu" else None
        self.workers = workers if workers is not None else most or 2
        check_count("workers", self.workers)
        if most and self.workers > most:
            raise InputError(f"workers must be 1 in one process on a CPU, but {self.workers} was given; the executor processes takes more.")

    @property
    def name(self) -> str:
        return f"in this process, {self.workers} at a time"

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]:
        pool = ThreadPoolExecutor(self.workers)
        try:
            yield from _windowed(lambda batch: pool.submit(compute, batch), batches, self.workers, started)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Processes:
    """A pool of processes on this machine, the cores divided among them: a small solve gains nothing from a second core, and two of them
    on a core each are twice as fast. One that dies is replaced, and its batch is tried again."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers if workers is not None else cores()
        check_count("workers", self.workers)

    @property
    def name(self) -> str:
        return f"{self.workers} processes"

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]:
        waiting, tries = list(batches), dict.fromkeys((batch.number for batch in batches), 0)
        while waiting:
            spawn, threads = multiprocessing.get_context("spawn"), max(1, cores() // self.workers)
            pool: Executor = ProcessPoolExecutor(self.workers, spawn, initializer=_begin, initargs=(threads,))
            flying: set[int] = set()

            def note(numbers: list[int], flying: set[int] = flying) -> None:
                flying.update(numbers)
                started(numbers)

            try:
                for done in _windowed(lambda batch, pool=pool: pool.submit(compute, batch), waiting, self.workers, note):  # type: ignore[misc]
                    flying.discard(done.number)
                    tries.pop(done.number)
                    yield done
            except BrokenProcessPool:
                for number in flying:
                    tries[number] += 1
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
            waiting = [batch for batch in waiting if batch.number in tries]
            for batch in [batch for batch in waiting if tries[batch.number] >= _TRIES]:
                waiting.remove(batch)
                yield _given_up(batch, f"its process died {_TRIES} times")


class Dask:
    """A Dask cluster: the scheduler at an address, or workers started here for the time of the sweep."""

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise InputError("the executor dask needs Dask, which is not installed; install spinodal[dask].") from None
        if scheduler is not None and workers is not None:
            raise InputError("workers must be left out where a scheduler is given: its workers are whatever it has.")
        self.scheduler, self.workers = scheduler, cores() if workers is None else workers
        check_count("workers", self.workers)

    @property
    def name(self) -> str:
        return f"Dask at {self.scheduler}" if self.scheduler else f"{self.workers} Dask workers"

    def map(self, batches: Sequence[Batch], started: Started) -> Iterator[Done]:
        from distributed import Client, LocalCluster, as_completed

        cluster, log = None, logging.getLogger("distributed.client")
        loud = log.level
        try:
            if self.scheduler is None:
                cluster = LocalCluster(self.workers, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR")
            client = Client(cluster or self.scheduler, timeout=_PATIENCE, name="spinodal")
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"scheduler must be the address of a Dask scheduler, but {self.scheduler!r} does not answer ({error})."
            ) from None
        try:
            log.setLevel(logging.CRITICAL)  # it tells a lost scheduler with a traceback; one sentence is enough
            started([batch.number for batch in batches])
            # Names of its own: a scheduler keeps what it has seen, perhaps from an earlier run of this sweep.
            run = uuid4().hex[:8]
            futures = {client.submit(compute, batch, key=f"spinodal-{run}-{batch.number}", retries=_TRIES - 1): batch for batch in batches}
            for future in as_completed(futures):
                yield _from_dask(future, futures.pop(future), self.name)
                future.release()
        finally:
            with suppress(OSError, TimeoutError):  # the scheduler may be gone: nothing to tell it then
                client.close(timeout=_PATIENCE if client.status == "running" else 1)
            log.setLevel(loud)
            if cluster is not None:
                cluster.close()


def _from_dask(future: Any, batch: Batch, where: str) -> Done:
    """The result of a future that was done once. If the worker that holds it has died since, Dask computes it again: that is waited for."""
    from concurrent.futures import CancelledError

    try:
        done: Done = future.result()
        return done
    except (CancelledError, OSError):
        complaint = f"the scheduler must stay, but {where} was lost; what was finished is in the ledger, and the sweep can be resumed."
        raise InputError(complaint) from None
    except Exception as error:  # a batch that takes its workers with it, or that can't be sent
        return _given_up(batch, f"{type(error).__name__}: {error}")


def _given_up(batch: Batch, reason: str) -> Done:
    return Done(batch.number, failed(batch, reason), 0.0, "none")


def _windowed(submit: Callable[[Batch], Future[Done]], batches: Sequence[Batch], window: int, started: Started) -> Iterator[Done]:
    """Hand out `window` batches, and another for each that comes back."""
    waiting, flying = iter(batches), set[Future[Done]]()
    while True:
        for batch in waiting:
            started([batch.number])
            flying.add(submit(batch))
            if len(flying) >= window:
                break
        if not flying:
            return
        done, flying = wait(flying, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def _begin(threads: int) -> None:
    """Give XLA's pool so many threads, and have this process end when the one that started it does, however that happened."""
    os.environ.setdefault("NPROC", str(threads))  # read by XLA's CPU client when it starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def suited(batches: Sequence[Batch], workers: int | None = None) -> InProcess | Processes:
    """Who is quickest on this machine: this process on an accelerator or if there is little to do, else processes."""
    import jax

    if workers is None:
        points = [point for batch in batches for point in batch.points]
        work = sum(3 * point.numbers["alpha"] * point.numbers["pi"] * point.N**3 * _ITERATIONS for point in points)
        alone = work < _LITTLE or len(batches) < 2 or cores() == 1
    else:
        alone = workers == 1
    return InProcess(workers) if alone or jax.default_backend() != "cpu" else Processes(workers)


EXECUTORS: dict[str, Any] = {"in-process": InProcess, "processes": Processes, "dask": Dask}
