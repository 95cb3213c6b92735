"""Solvers: one AMP iteration against its three matrix products, memory, batches against one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spinodal as sp
from spinodal.inference.execution.machine import platform
from spinodal.inference.loop import Tolerance, begin, iterate
from spinodal.inference.task import make_task
from spinodal.model import Model

# (N, M, P) of the iteration on a CPU and on an accelerator.
CPU_SIZE, ACCELERATOR_SIZE = (1000, 500, 5000), (5000, 2500, 25_000)
# Iterations timed, after some that are not.
TIMED, BEFORE = 8, 4
REPEATS = 9
# The batch: this many instances of this size.
BATCH, BATCH_SIZE = 64, 100
# Solved one by one, and scaled up.
ONE_BY_ONE = 8


def seconds(*functions: Callable[[], Any]) -> Any:
    """Times of each call, compiled already, a row for each. They take turns, so that a machine that slows down does so for all."""

    def timed(function: Callable[[], Any]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(function())
        return time.perf_counter() - start

    turns = [[timed(function) for function in functions] for _ in range(REPEATS + 1)]
    return np.array(turns[1:]).T


def iteration(sizes: tuple[int, int, int], dtype: str) -> None:
    """Time and memory of one iteration of the default AMP, and the time of F X, F^T G and G X^T on its own estimates.

    On its own estimates, because the time of a product can depend on the numbers: zeros need less power, so chips run faster on them.
    """
    N, M, P = sizes
    problem = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=0.1, eta=0.1, noise_variance=1e-8)
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        keys = jax.random.split(jax.random.key(0), 4)
        F = jax.random.normal(keys[0], (M, N), dtype)
        X = jnp.where(jax.random.bernoulli(keys[1], 0.1, (N, P)), jax.random.normal(keys[2], (N, P), dtype), 0)
        Y = F @ X / np.sqrt(N).astype(dtype)
        F_prime = (F + np.sqrt(0.1).astype(dtype) * jax.random.normal(keys[3], (M, N), dtype)) / np.sqrt(1.1).astype(dtype)
        model = Model(problem.prior, problem.channel, problem.knowledge)
        traced = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), model)
        solver = sp.AMP()

        def estimates(observed: sp.Observed, model: Model, iterations: Any) -> Any:
            task = make_task(observed, model, N, dtype, sp.Pair(False, False))
            return iterate(solver, task, begin(solver, task, solver.init(task, None)), iterations, Tolerance(0.0)).state

        @jax.jit
        def run(observed: sp.Observed, model: Model, iterations: Any) -> Any:
            state = estimates(observed, model, iterations)
            return state.X.mean[0, 0] + state.X.variance[0, 0] + state.F.mean[0, 0]

        observed = sp.Observed(Y, F_prime, None)
        state = jax.jit(estimates)(observed, traced, BEFORE)
        arrays_multiplied = state.F.mean, state.X.mean, state.g
        three = jax.jit(lambda F, X, G: (F @ X, F.T @ G, G @ X.T))

        def products(count: int) -> Any:
            return [three(*arrays_multiplied) for _ in range(count)][-1]

        long, short, many, few = seconds(
            lambda: run(observed, traced, TIMED + BEFORE),
            lambda: run(observed, traced, BEFORE),
            lambda: products(TIMED + BEFORE),
            lambda: products(BEFORE),
        )
        each, least = (long - short) / TIMED, (many - few) / TIMED
        own, floor, ratio = (float(np.median(values)) for values in (each, least, each / least))
        memory = run.lower(observed, traced, BEFORE).compile().memory_analysis()
        arrays = (memory.temp_size_in_bytes + Y.nbytes) / X.nbytes
    print(f"{dtype}  N = {N}, M = {M}, P = {P}: iteration {1e3 * own:.1f} ms, three products {1e3 * floor:.1f} ms, ratio {ratio:.2f}")
    print(f"         {6 * N * M * P / floor / 1e9:.0f} GFLOP/s in the products; memory with Y: {arrays:.1f} arrays of the size of X")


def batches() -> None:
    """Instances solved together against the same ones solved one at a time."""
    problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=0.1, noise_variance=1e-8)
    observed = sp.sample(problem, BATCH_SIZE, seed=1, batch=BATCH).observed

    def alone() -> None:
        for k in range(ONE_BY_ONE):
            sp.solve(jax.tree.map(lambda value, k=k: value[k], observed), problem)

    together, some = np.median(seconds(lambda: sp.solve(observed, problem), alone), axis=1)
    single = some * BATCH / ONE_BY_ONE
    print(f"{BATCH} instances of N = {BATCH_SIZE}: together {together:.2f} s, one at a time {single:.2f} s, ratio {single / together:.1f}")


def main() -> None:
    size = CPU_SIZE if platform() == "cpu" else ACCELERATOR_SIZE
    print(f"on {jax.devices()[0].device_kind}")
    for dtype in ("float64", "float32"):
        iteration(size, dtype)
    batches()
