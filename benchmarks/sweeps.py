"""Sweeps: many solves batched against the same solves one by one, and what the ledger costs.

python -m benchmarks sweeps [--points 2000] [--one-by-one 64] [--size 100] [--batch 64]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from spinodal.sweeps import InProcess, parse_spec
from spinodal.sweeps.compute import compute
from spinodal.sweeps.ledger import create
from spinodal.sweeps.plan import make_plan
from spinodal.sweeps.run import run_sweep

# On a CPU a solve takes a tenth of a second and more: fewer are enough to measure.
POINTS = {"cpu": 128}
MOST = 2000

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


class Seconds(NamedTuple):
    """For a solve: by the clock, and of all cores together."""

    wall: float
    cores: float

    @classmethod
    def since(cls, started: Seconds, solves: int) -> Seconds:
        now = cls.now()
        return cls((now.wall - started.wall) / solves, (now.cores - started.cores) / solves)

    @classmethod
    def now(cls) -> Seconds:
        return cls(time.perf_counter(), time.process_time())

    def __str__(self) -> str:
        return f"{1e3 * self.wall:.1f} ms a solve ({1e3 * self.cores:.1f} ms of the cores)"


def one_by_one(batches: Any, count: int) -> Seconds:
    """A batch of one: a solve drawn, solved and scored like the sweep's, by itself."""
    chosen = [(batch, point) for batch in batches for point in batch.points]
    chosen = chosen[:: max(1, len(chosen) // (count + 1))][: count + 1]
    started = Seconds.now()
    for k, (batch, point) in enumerate(chosen):
        if k == 1:
            started = Seconds.now()  # the first one compiled
        compute(batch._replace(points=(point,), width=1))
    return Seconds.since(started, len(chosen) - 1)


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
    parser.add_argument("--points", type=int, default=POINTS.get(jax.default_backend(), MOST))
    parser.add_argument("--one-by-one", type=int, default=32)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16 if jax.default_backend() == "cpu" else 250)
    options = parser.parse_args(words or [])
    spec = parse_spec(SPEC.format(size=options.size, instances=max(1, options.points // 8), batch=options.batch))
    plan = make_plan(spec)
    executor = InProcess()
    print(f"on {jax.devices()[0].device_kind}; {len(plan.points)} solves at N = {options.size} in batches of {plan.batches[0].width}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        first = compute(plan.batches[0])  # compiled, and timed apart
        again = compute(plan.batches[0])
        print(f"first batch {first.seconds:.1f} s, of which compilation {first.seconds - again.seconds:.1f} s")
        (directory / "sweep").mkdir()
        started = Seconds.now()
        now = run_sweep(spec, directory / "sweep", executor)
        together = Seconds.since(started, now.total)
        alone = one_by_one(plan.batches, options.one_by_one)
        (directory / "ledger").mkdir()
        ledger = ledger_seconds(plan.batches[0], again, directory / "ledger")
        share = ledger * len(plan.batches) / (together.wall * now.total)
    print(f"one by one {alone}; sweep {together}, {executor.name}: ratio {alone.wall / together.wall:.2f}")
    print(f"ledger {1e3 * ledger:.1f} ms a batch: {100 * share:.2f}% of the sweep; statuses {now.statuses}")
