"""kill -9 again and again, at any moment: what goes on ends at the bits of what was never killed, and a file is the old one or the new.

The processes that are killed are copies of one that has imported everything and computed nothing, so that a kill costs little.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import spinodal as sp
from spinodal.sweeps import InProcess, parse_spec, resume_sweep, run_sweep
from spinodal.sweeps.ledger import LEDGER
from tiny_sweep import TINY

pytestmark = [pytest.mark.claims, pytest.mark.skipif(sys.platform == "win32", reason="signals")]
MANY = TINY.replace("instances = 12", "instances = 130")
# Seconds until a process that should have begun is given up.
PATIENCE = 120


@pytest.fixture(scope="module")
def start() -> Callable[..., multiprocessing.Process]:
    """Start a process that calls a function of this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["spinodal.cli.sweep_commands", "spinodal.estimators", "spinodal.evaluation.record", __name__])

    def begin(target: Callable[..., Any], *arguments: Any) -> multiprocessing.Process:
        process = context.Process(target=target, args=arguments, daemon=True)
        process.start()
        return process

    return begin  # type: ignore[return-value]


def kill(process: Any, sign: Callable[[], Any], seconds: float) -> None:
    """End a process `seconds` after its sign of work changed. It must still have been at work."""
    before, deadline = sign(), time.monotonic() + PATIENCE
    while sign() == before:
        assert process.is_alive(), process.exitcode
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def changed(path: Path) -> int:
    """A number that is another one when a file is."""
    return path.stat().st_ino if path.exists() else 0


def sweep(directory: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        if (Path(directory) / LEDGER).exists():
            resume_sweep(Path(directory), InProcess(1))
        else:
            run_sweep(parse_spec(MANY), Path(directory), InProcess(1))


def rows(directory: Path, what: str) -> list[tuple[Any, ...]]:
    """What a ledger holds, as it is in the file; nothing where there is none yet."""
    if not (directory / LEDGER).exists():
        return []
    with contextlib.closing(sqlite3.connect(directory / LEDGER, timeout=PATIENCE)) as connection:
        return connection.execute(f"SELECT {what}").fetchall()


def test_a_sweep_killed_twenty_times(tmp_path: Path, start: Callable[..., Any]) -> None:
    whole, out, rng = tmp_path / "whole", tmp_path / "out", random.Random(1)
    for directory in (whole, out):
        directory.mkdir()
    run_sweep(parse_spec(MANY), whole, InProcess(1))
    for _ in range(20):
        kill(start(sweep, str(out)), lambda: rows(out, "COUNT(*) FROM batches"), rng.uniform(0, 0.05))
    finished = len(rows(out, "batch FROM batches"))
    assert finished >= 20
    assert resume_sweep(out, InProcess(1)).finished == 260 > 2 * finished  # there was work left at the last kill
    everything = "id, batch, status, error, mse_F, mse_X, iterations, residual, free_entropy, checksum FROM points ORDER BY id"
    assert rows(out, everything) == rows(whole, everything)
    assert rows(out, "batch FROM attempts a WHERE started > (SELECT finished FROM batches b WHERE a.batch = b.batch)") == []


def solved(path: str | None) -> sp.Solution:
    """A solve of 3000 iterations, which never settles: more than ten processes get through before they are killed, however late that is."""
    problem = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.2, eta=0.05, noise_variance=1e-4)
    observed = sp.sample(problem, 12, seed=3).observed
    return sp.solve(observed, problem, max_iterations=3000, tolerance=0.0, checkpoint=path, every=10)


def test_a_solve_with_a_checkpoint_killed_ten_times(tmp_path: Path, start: Callable[..., Any]) -> None:
    path, rng, whole = tmp_path / "state.npz", random.Random(2), solved(None)
    for _ in range(10):
        kill(start(solved, str(path)), lambda: changed(path), rng.uniform(0, 0.03))
        with np.load(path) as file:  # whole, whenever it was
            assert all(np.size(file[name]) for name in file.files)
    assert whole.iterations == 3000
    resumed = solved(str(path))
    for name in ("mean", "variance", "trace"):
        for a, b in zip(getattr(whole, name), getattr(resumed, name), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (whole.status, whole.iterations, whole.free_entropy) == (resumed.status, resumed.iterations, resumed.free_entropy)


def save_for_ever(path: str, sources: list[str]) -> None:
    models = [sp.DictionaryLearner.load(source) for source in sources]
    for model in itertools.cycle(models):
        model.save(path)


def test_an_estimator_killed_ten_times_while_it_is_saved(tmp_path: Path, start: Callable[..., Any]) -> None:
    data = np.random.default_rng(0).normal(size=(60, 40))
    sources = []
    for atoms in (3, 20):
        with pytest.warns(ConvergenceWarning):  # so few rounds settle nothing
            model = sp.DictionaryLearner(atoms, max_iter=0, refine_iter=1, random_state=0).fit(data)
        sources.append(str(tmp_path / f"{atoms}.npz"))
        model.save(sources[-1])
    known = [Path(source).read_bytes() for source in sources]
    path, rng, seen = tmp_path / "model.npz", random.Random(3), []
    path.write_bytes(known[0])
    for k in range(10):  # now one is saved first, now the other: where saving takes long, all kills come between the first and the second
        kill(start(save_for_ever, str(path), sources[:: 1 - 2 * (k % 2)]), lambda: changed(path), rng.uniform(0, 0.02))
        seen.append(known.index(path.read_bytes()))  # one of the two, and nothing else
        assert len(sp.DictionaryLearner.load(path).components_) == (3, 20)[seen[-1]]
    assert set(seen) == {0, 1}
    sp.DictionaryLearner.load(path).save(path)
    assert not any(each.name.startswith(".") for each in tmp_path.iterdir())
