"""A real Dask scheduler with four workers: one worker killed on the way, then the scheduler itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_sweeps import TINY, command, points

from spinodal.sweeps import InProcess, parse_spec, run_sweep, standing
from spinodal.sweeps.ledger import LEDGER

pytestmark = pytest.mark.slow
WORKERS = 4
TEXT = TINY.replace("instances = 12", "instances = 400")


def start(*words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


@contextmanager
def cluster() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its processes: the scheduler first, then the workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    processes = [start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")]
    processes += [start("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard") for _ in range(WORKERS)]
    try:
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for(directory: Path, points: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        if (directory / LEDGER).exists() and standing(directory).finished >= points:
            return
        time.sleep(0.02)
    raise AssertionError(f"the sweep ended too early: {process.stderr.read() if process.stderr else ''}")


def test_a_lost_worker_and_a_lost_scheduler(tmp_path: Path) -> None:
    whole, out, spec = tmp_path / "whole", tmp_path / "out", tmp_path / "spec.toml"
    whole.mkdir()
    spec.write_text(TEXT)
    run_sweep(parse_spec(TEXT), whole, InProcess(1))
    with cluster() as (address, processes):
        sweep = command("run", str(spec), "--out", str(out), "--scheduler", address)
        wait_for(out, 40, sweep)
        processes[-1].send_signal(signal.SIGKILL)
        wait_for(out, 120, sweep)
        processes[0].send_signal(signal.SIGKILL)
        message = sweep.communicate(timeout=120)[1]
        assert sweep.returncode == 2, message
        assert "was lost; what was finished is in the ledger" in message.splitlines()[-1]
    before = standing(out)
    assert 120 <= before.finished < before.total
    with cluster() as (address, processes):
        sweep = command("resume", str(out), "--scheduler", address)
        wait_for(out, before.finished + 40, sweep)
        processes[-1].send_signal(signal.SIGKILL)
        assert sweep.wait(timeout=300) == 0
    assert points(out) == points(whole)  # nothing lost, nothing twice, the same bits
