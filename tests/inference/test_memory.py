"""How much memory an iteration holds, read off the compiled program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.loop import Tolerance, begin, iterate
from spinodal.inference.task import make_task

# Arrays of the size of X (N x P) alive at a time, with Y: the promise of docs/solvers.md.
MOST = 6
# N, M, P: several blocks of signals, one that divides P and one that does not; many signals, so that F and its relatives are small.
FIRST, OTHERS = (200, 100, 5003), ((200, 100, 8000), (150, 150, 6000))


@pytest.mark.parametrize(
    ("N", "M", "P", "dtype"),
    [
        (*FIRST, "float64"),
        pytest.param(*FIRST, "float32", marks=pytest.mark.claims),
        *(pytest.param(*sizes, "float64", marks=pytest.mark.claims) for sizes in OTHERS),
        *(pytest.param(*sizes, "float32", marks=pytest.mark.slow) for sizes in OTHERS),
    ],
)
def test_an_iteration_holds_no_more_than_six_arrays(N: int, M: int, P: int, dtype: str) -> None:
    solver = sp.Search().around(sp.AMP())
    problem = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=0.1, eta=0.1, noise_variance=1e-8)
    with jax.enable_x64(dtype == "float64"):

        @jax.jit
        def run(Y: Any, F_prime: Any, problem: sp.Problem) -> Any:
            task = make_task(sp.Observed(Y, F_prime, None), problem, N, dtype, sp.Pair(False, False))
            state = iterate(solver, task, begin(solver, task, solver.init(task, None)), 10, Tolerance(0.0)).state.inner
            return state.X.mean[0, 0] + state.X.variance[0, 0] + state.F.mean[0, 0]

        traced = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), problem)
        shapes = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((M, P), (M, N)))
        memory = run.lower(*shapes, traced).compile().memory_analysis()
    alive = memory.temp_size_in_bytes + memory.argument_size_in_bytes
    assert alive <= MOST * N * P * np.dtype(dtype).itemsize
