"""Sweeps: many solves batched against the same solves one by one, and what the ledger costs.

One by one, solves have the programs that `solve` compiles for few of them or, apart, those of a sweep, which take longer to compile.

python -m benchmarks sweeps [--points 2000] [--one-by-one 480] [--size 100] [--batch 16]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from spinodal.cache import enable_cache
from spinodal.inference.execution.machine import platform
from spinodal.sweeps import parse_spec, suited
from spinodal.sweeps.compute import compute, draw_and_solve
from spinodal.sweeps.ledger import create
from spinodal.sweeps.plan import Batch, make_plan
from spinodal.sweeps.run import run_sweep

SPEC = """
N = {size}
instances = {instances}
batch = {batch}
[grid]
alpha = 0.5
pi = 5.0
rho = [0.06, 0.08, 0.1, 0.12]
eta = [0.05, 0.1]
noise_variance = 1e-8
"""


class Watched:
    """An executor, and how long its batches took."""

    def __init__(self, executor: Any) -> None:
        self.executor, self.name = executor, executor.name
        self.seconds: dict[int, float] = {}

    def map(self, batches: Any, started: Any) -> Iterator[Any]:
        for done in self.executor.map(batches, started):
            self.seconds[done.number] = done.seconds
            yield done


def one_by_one(solve: Callable[[Batch], Any], alone: Sequence[Batch]) -> float:
    """Seconds for batches of one point, each drawn, solved and scored by itself."""
    solve(alone[0])  # compiled
    started = time.perf_counter()
    for one in alone:
        solve(one)
    return time.perf_counter() - started


def ledger_seconds(batch: Any, done: Any, directory: Path) -> float:
    """Seconds that the ledger takes for a batch: noted when handed out, committed when done."""
    ledger = create(directory, {"spec": "", "name": "", "digest": "", "version": ""})
    run = ledger.begin_run("benchmark", "")
    times = []
    for k in range(30):
        rows = tuple(row._replace(id=f"{k}-{row.id}") for row in done.rows)
        started = time.perf_counter()
        ledger.attempt(run, [k])
        ledger.commit(run, done._replace(number=k, rows=rows))
        times.append(time.perf_counter() - started)
    ledger.close()
    return float(np.median(times))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks sweeps")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--one-by-one", type=int, default=480, help="solves that are also done one by one")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16 if platform() == "cpu" else 250)
    options = parser.parse_args(words or [])
    spec = parse_spec(SPEC.format(size=options.size, instances=max(1, options.points // 8), batch=options.batch))
    plan = make_plan(spec)
    executor = Watched(suited(plan.batches))
    print(f"on {jax.devices()[0].device_kind}; {len(plan.points)} solves at N = {options.size} in batches of {plan.batches[0].width}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        enable_cache(directory / "compiled")  # as the command line has it: workers need not compile what this process has
        first = compute(plan.batches[0])  # compiled, and timed apart
        again = compute(plan.batches[0])
        print(f"first batch {first.seconds:.1f} s, of which compilation {first.seconds - again.seconds:.1f} s")
        # The points of some batches one by one, half of them before the sweep and half after it, in case the machine slows down. The
        # first batches of the sweep compile, and are left out.
        measured = plan.batches[len(plan.batches) // 8 :]
        some = measured[:: max(1, len(plan.points) // options.one_by_one)]
        singles = [batch._replace(points=(point,), width=1) for batch in some for point in batch.points]
        ways = (draw_and_solve, compute)
        before = [one_by_one(solve, singles[::2]) for solve in ways]
        (directory / "sweep").mkdir()
        started = time.perf_counter()
        now = run_sweep(spec, directory / "sweep", executor)
        together = time.perf_counter() - started
        after = [one_by_one(solve, singles[1::2]) for solve in ways]
        # What these batches took of the sweep's time: a few solves take ten times as long as others.
        share = sum(executor.seconds[batch.number] for batch in some) / sum(executor.seconds[batch.number] for batch in measured)
        alone, same = (np.array(before) + after) * len(plan.batches) / len(measured) / share
        (directory / "ledger").mkdir()
        ledger = ledger_seconds(plan.batches[0], again, directory / "ledger")
    each = 1e3 / now.total
    print(f"one by one {each * alone:.1f} ms a solve; sweep {each * together:.1f}, {executor.name}: ratio {alone / together:.2f}")
    print(f"one by one with the sweep's programs {each * same:.1f} ms: ratio {same / together:.2f}")
    print(f"ledger {1e3 * ledger:.1f} ms a batch: {100 * ledger * len(plan.batches) / together:.2f}% of the sweep; statuses {now.statuses}")
