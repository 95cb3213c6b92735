"""Solve instances over several devices, save what came out, count the communication: run by test_sharding in processes of its own,
since the number of devices of a CPU is chosen before JAX starts.

    python sharded.py OUT.npz CASES DEVICES [PROCESS PROCESSES PORT]

CASES and DEVICES are separated by commas; 0 devices means no mesh.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import spinodal as sp
from spinodal.inference.execution.batch import Plan, begin_batch, run_batch
from spinodal.inference.execution.sharding import Sharded
from spinodal.inference.loop import Tolerance
from spinodal.inference.solvers.base import COLD

# A strong hint; one with learned parameters; a weak hint, with repairs and the order of F'; a dictionary from scratch.
CASES: dict[str, tuple[float, tuple[str, ...]]] = {
    "strong": (0.05, ()),
    "learned": (0.05, ("noise_variance", "density")),
    "weak": (1.0, ()),
    "none": (np.inf, ()),
}
N, LIMIT = 16, 200


def problem_of(case: str) -> sp.Problem:
    return sp.Problem.sparse(alpha=0.6, pi=4.0, rho=0.1, eta=CASES[case][0], noise_variance=1e-4)


def mesh_of(devices: int) -> Mesh | None:
    return Mesh(np.array(jax.devices()[:devices]), ("any",)) if devices else None


def solved(case: str, devices: int) -> dict[str, Any]:
    problem = problem_of(case)
    observed = sp.sample(problem, N, seed=1).observed
    solution = sp.solve(observed, problem, learn=CASES[case][1], n_atoms=N, max_iterations=LIMIT, mesh=mesh_of(devices))
    parts = {"F": solution.mean.F, "X": solution.mean.X, "var_F": solution.variance.F, "var_X": solution.variance.X}
    parts |= {
        "iterations": solution.iterations,
        "free_entropy": solution.free_entropy,
        "trace": solution.trace.level[: solution.iterations],
    }
    return {f"{case}/{devices}/{name}": value for name, value in parts.items()}


def collectives(devices: int) -> list[tuple[str, str]]:
    """What the compiled iterations communicate: (kind, shapes of what is sent), for each instruction inside a loop."""
    problem = problem_of("strong")
    placement = Sharded(mesh_of(devices), problem.sizes(N)[2])
    observed = jax.tree.map(lambda value: value[None], sp.sample(problem, N, seed=1).observed)
    with jax.enable_x64(True), placement.active():
        model = sp.Model(problem.prior, problem.channel, problem.knowledge)
        numbers = placement.everywhere(jax.tree.map(lambda leaf: jnp.asarray(leaf, float)[None], model))
        observed, draws = placement.columns(observed), placement.everywhere(jnp.zeros((1, problem.sizes(N)[0] + 1, N)))
        plan = Plan(sp.Search().around(sp.AMP()), N, "float64", sp.Pair(False, False))
        run = begin_batch(plan, observed, numbers, draws, None, COLD)
        run = placement.run(run, plan.solver.divided(run.state))
        goal = run.iteration + LIMIT
        text = run_batch.lower(plan, observed, numbers, run, goal, goal, Tolerance(1e-4)).compile().as_text()
    found, inside = [], ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            inside = line
        sent = re.search(r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(-start)?\(", line)
        if sent and not inside.startswith("ENTRY"):
            found.append((sent[2], re.sub(r"\{[\d,]*\}", "", sent[1])))
    return found


def main(out: str, what: str, devices: str, *network: str) -> None:
    if network:
        process, count, port = map(int, network)
        jax.distributed.initialize(f"127.0.0.1:{port}", count, process)
    counts = [int(number) for number in devices.split(",")]
    arrays: dict[str, Any] = {} if network else {"collectives": np.array(json.dumps(collectives(max(*counts, 1))))}
    for case in filter(None, what.split(",")):
        for number in counts:
            arrays |= solved(case, number)
    np.savez(out, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
