"""Live runs: the numbers of `solve` and of the snippets, iteration by iteration; cancelled, bounded, independent."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from conftest import Done
from spinodal.errors import InputError
from spinodal.explorer import runs as module
from spinodal.explorer import snippets, worker, workers
from spinodal.explorer.data import data_file, dataset
from spinodal.explorer.runs import Run, Runs
from spinodal.explorer.state import State

# A strong hint: quick to compile, and solved in a few iterations.
STATE = State(eta=0.02, rho=0.1, pi=5.0, delta=1e-4, n=20, seed=3)


@pytest.fixture(scope="module")
def run() -> Run:
    started = Runs().start(STATE)
    started.thread.join(timeout=120)
    return started


def test_a_run_ends_where_the_code_on_screen_ends(run: Run) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippets.code(STATE), "code", "exec"), {})
    lines = printed.getvalue().splitlines()
    status, iterations, *_ = lines[-1].split()
    assert run.status == status == "converged"
    assert run.iterations[-1] == int(iterations)
    assert run.result is not None
    assert f"{run.result['mse_X']:.9g}" in "".join(f"{float(word):.9g} " for word in numbers_in(lines[-1]))
    assert lines[0].split()[0] == sp.phase(STATE.problem())
    assert np.all(np.diff(run.iterations) > 0)
    assert run.iterations[:10] == list(range(1, 11))
    assert run.errors.X[-1] == pytest.approx(run.result["mse_X"])
    assert run.errors.X[-1] < run.errors.X[0] / 10


def numbers_in(text: str) -> list[str]:
    import re

    return re.findall(r"\d+\.?\d*(?:e[-+]?\d+)?", text)


def test_the_commands_on_screen_solve_the_same_instance(run: Run, spinodal_command: Callable[..., Done]) -> None:
    lines = [line.split()[1:] for line in snippets.command(STATE).splitlines()]
    code, out, err = spinodal_command(*lines[2], "--json")
    assert code == 0, err
    code, out, err = spinodal_command(*lines[3], "--json")
    assert code == 0, err
    solved = json.loads(out)
    assert solved["status"] == run.status
    assert solved["iterations"] == run.iterations[-1]


def test_what_is_seen_and_downloaded_is_the_run(run: Run) -> None:
    seen = run.seen()
    assert seen["done"]
    assert len(seen["result"]["angle"]) == STATE.n
    assert seen["iterations"] == run.iterations
    json.dumps(seen, allow_nan=False)
    errors = dataset("errors", STATE, run)
    np.testing.assert_allclose(errors.measured_mse_X.sel(iteration=run.iterations), run.errors.X)
    assert dataset("atoms", STATE, run).angle.size == STATE.n
    for which in ("diagram", "potential", "curve", "errors", "recovered", "atoms"):
        for kind in ("csv", "json", "nc"):
            assert data_file(which, kind, STATE, run)["filename"] == f"spinodal-{which}.{kind}"


def test_a_cancelled_run_stops_and_frees_its_place() -> None:
    started = Runs().start(STATE._replace(rho=0.6))  # the same shapes, and beyond what can be recovered: it takes longer
    deadline = time.monotonic() + 60
    while not started.iterations and time.monotonic() < deadline:
        time.sleep(0.01)
    started.cancel()
    assert started.status == "cancelled"
    started.thread.join(timeout=60)
    assert not started.thread.is_alive()
    assert started.status == "cancelled"
    assert started.result is None


def test_runs_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_solve", lambda self: self._stop.wait(30))
    runs = Runs()
    first, second = runs.start(STATE), runs.start(STATE)
    assert first.id != second.id
    with pytest.raises(InputError, match="2 runs are under way"):
        runs.start(STATE)
    first.cancel()
    first.thread.join(timeout=10)
    third = runs.start(STATE)
    for one in (second, third):
        one.cancel()
        one.thread.join(timeout=10)
    with pytest.raises(InputError, match="entries"):
        runs.start(State(pi=100.0, n=400))
    assert runs.get("no such run") is None
    assert runs.get(["a", "list"]) is None
    for _ in range(module.MOST_KEPT + 4):
        one = runs.start(STATE)
        one.cancel()
        one.thread.join(timeout=10)
    assert len(runs._jobs) <= module.MOST_KEPT


def test_a_cancelled_run_ends_while_it_is_compiled() -> None:
    runs = Runs()
    started = runs.start(STATE._replace(n=37))
    while started._worker is None:
        time.sleep(0.01)
    process = started._worker._process
    started.cancel()
    started.thread.join(timeout=60)
    assert not started.thread.is_alive()
    assert (started.status, started.iterations, started.result) == ("cancelled", [], None)
    assert process.returncode == -signal.SIGKILL  # nobody waited for what it was at
    assert runs.workers._idle is None


def test_a_lost_process_is_a_failed_run() -> None:
    runs = Runs()
    started = runs.start(STATE)
    while started._worker is None:
        time.sleep(0.01)
    started._worker._process.kill()
    started.thread.join(timeout=60)
    assert started.status == "failed: the process that computed it ended"
    again = runs.start(STATE)
    again.thread.join(timeout=120)
    assert again.status == "converged"
    runs.workers.end()


def test_what_can_not_be_solved_is_said() -> None:
    said: list[dict[str, Any]] = []
    worker.tell({"state": STATE._replace(n=-1)._asdict()}, said.append)
    assert said[0]["ended"].startswith("refused: n must be")
    worker.tell({"state": STATE._replace(x="nonsense")._asdict()}, said.append)
    assert said[1:] == [{"ended": "failed: KeyError"}]


class Nobody:
    """A worker without a process."""

    made = 0

    def __init__(self, shape: int) -> None:
        Nobody.made += 1
        self.shape = shape
        self.alive = True

    def end(self) -> None:
        self.alive = False


def test_a_process_serves_one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Worker", Nobody)
    pool = workers.Workers()

    def served(*shapes: int) -> Any:
        for shape in shapes:
            one = pool.take(shape)
            pool.give(one)
        return one

    first = served(1, 1, 1)
    assert Nobody.made == 1
    second = served(4)
    assert (Nobody.made, first.alive, second.alive) == (2, False, True)
    second.alive = False
    third, fourth = pool.take(4), pool.take(4)
    assert Nobody.made == 4
    for one in (third, fourth):
        pool.give(one)
    assert (third.alive, fourth.alive) == (True, False)
    pool.end()
    assert not third.alive


MANY_SHAPES = """
import psutil
from spinodal.explorer.runs import Runs
from spinodal.explorer.state import State
runs, this = Runs(), psutil.Process()
for n in range(20, 28):
    one = runs.start(State(eta=0.02, rho=0.1, pi=5.0, delta=1e-4, n=n, seed=3))
    one.thread.join()
    assert one.status == "converged", one.status
    print(sum(each.memory_info().rss for each in (this, *this.children(recursive=True))), flush=True)
"""


@pytest.mark.claims
def test_memory_does_not_grow_with_the_number_of_shapes() -> None:
    """`benchmarks load` has a hundred."""
    said = subprocess.run([sys.executable, "-c", MANY_SHAPES], capture_output=True, text=True, check=True)
    rss = [int(word) for word in said.stdout.split()]
    assert len(rss) == 8
    assert max(rss) - min(rss) < 100e6
