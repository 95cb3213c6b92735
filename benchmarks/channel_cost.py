"""What an iteration costs with each channel, over one with Gaussian noise: N = 1000, CPU time, the channels taking turns.

The medians of the ratios over several turns are printed and written to results/channel_cost.csv. Two to four minutes on a CPU.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spinodal as sp
from spinodal.inference.loop import Tolerance, begin, iterate
from spinodal.inference.task import make_task
from spinodal.model import Model

LONG = True  # runs only when named
N, M, P, DTYPE = 1000, 500, 1000, "float64"
# Iterations timed, after some that are not, and turns.
TIMED, BEFORE, TURNS = 3, 1, 3
RESULTS = Path(__file__).parent / "results" / "channel_cost.csv"
NOISE = 1e-3
CHANNELS: dict[str, sp.Channel] = {
    "Gaussian noise": sp.GaussianNoise(NOISE),
    "noise of each row": sp.GaussianNoise(np.full((M, 1), NOISE)),
    "noise of each column": sp.GaussianNoise(np.full((1, P), NOISE)),
    "outliers": sp.Outliers(NOISE, 0.05, 1.0),
    "Student noise": sp.StudentNoise(0.03, 3.0),
    "clipped": sp.Clipped(-0.4, 0.4, NOISE),
    "2 bits": sp.Quantized.uniform(bits=2, reach=0.4),
    "1 bit": sp.OneBit(0.0, NOISE),
    "probit": sp.Binary("probit", 0.1),
    "logistic": sp.Binary("logistic", 0.1),
    "counts": sp.Poisson(3.0),
    "gains": sp.SensorGains(NOISE, 0.3),
    "offsets": sp.SensorOffsets(NOISE, 0.1),
    "faulty sensors": sp.FaultySensors(NOISE, 0.05, 0.1),
}


def runner(channel: sp.Channel) -> Any:
    """A function of the number of iterations."""
    rng = np.random.default_rng(0)
    problem = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=0.1, eta=0.1).replace(channel=channel)
    F, X = rng.normal(size=(M, N)), rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.1)
    Y = channel.sample(jax.random.key(0), jnp.asarray(F @ X / np.sqrt(N)))
    observed = sp.Observed(jnp.asarray(Y, DTYPE), jnp.asarray((F + np.sqrt(0.1) * rng.normal(size=F.shape)) / np.sqrt(1.1)), None)
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf, DTYPE), Model(problem.prior, problem.channel, problem.knowledge))
    solver = sp.AMP().suited(channel)

    @jax.jit
    def run(observed: sp.Observed, model: Model, iterations: Any) -> Any:
        task = make_task(observed, model, N, DTYPE, sp.Pair(False, False))
        state = iterate(solver, task, begin(solver, task, solver.init(task, None)), iterations, Tolerance(0.0)).state
        return state.X.mean[0, 0] + state.F.mean[0, 0]

    return lambda iterations: run(observed, model, iterations)


def cpu_time(run: Any, iterations: int) -> float:
    begun = time.process_time()
    jax.block_until_ready(run(iterations))
    return time.process_time() - begun


def main() -> None:
    with jax.enable_x64(True):
        runs = {name: runner(channel) for name, channel in CHANNELS.items()}
        for run in runs.values():
            jax.block_until_ready(run(BEFORE))
        # Long less short: what begins a run is not an iteration.
        turns = [[cpu_time(run, BEFORE + TIMED) - cpu_time(run, BEFORE) for run in runs.values()] for _ in range(TURNS)]
    each = np.array(turns) / TIMED
    ratios = np.median(each / each[:, :1], axis=0)
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("channel", "ratio", "cpu_seconds"))
        for name, ratio, seconds in zip(runs, ratios, np.median(each, axis=0), strict=True):
            print(f"  {name:22s} {ratio:.2f} of Gaussian noise ({1e3 * seconds:.0f} ms of CPU time)")
            table.writerow((name, f"{ratio:.3f}", f"{seconds:.4f}"))


if __name__ == "__main__":
    main()
