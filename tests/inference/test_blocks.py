"""Signals in blocks: the same numbers whatever the blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spinodal as sp
from spinodal.inference.execution import machine
from spinodal.inference.loop import Tolerance, begin, iterate
from spinodal.inference.task import make_task

N, ITERATIONS = 30, 20


@given(st.integers(1, 100_000))
def test_blocks_cover_the_signals_once_and_are_few(P: int) -> None:
    at = machine.blocks(P)
    assert at[0].start == 0
    assert at[-1].stop == P
    assert all(one.stop == other.start for one, other in pairwise(at))
    assert len(at) <= 8
    assert machine.Layout(P, None, split=False).at == [slice(0, P)]


@pytest.mark.parametrize(
    ("solver", "observed", "mean"),
    [
        pytest.param(sp.AMP(), 1.0, 0.0, marks=pytest.mark.claims),
        (sp.AMP(), 0.8, 0.7),
        pytest.param(sp.AMP(variance="entry"), 0.8, 0.0, marks=pytest.mark.claims),
        pytest.param(sp.MUAMP(), 1.0, 0.0, marks=pytest.mark.claims),
        pytest.param(sp.BiGAMP(), 1.0, 0.0, marks=pytest.mark.claims),
    ],
)
def test_blocks_do_not_change_the_numbers(solver: Any, observed: float, mean: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=5.0, rho=0.1, eta=0.05, noise_variance=1e-6, observed_fraction=observed)
    problem = problem.replace(prior=problem.prior._replace(X=sp.GaussBernoulli(0.1, mean=mean)))
    instance = sp.sample(problem, N, seed=3)
    Y, F_prime, mask = instance.observed

    def after_some_iterations(widest: int) -> Any:
        monkeypatch.setattr(machine, "_WIDEST", widest)

        @jax.jit
        def run() -> Any:
            whole = jax.tree.map(jnp.asarray, sp.Observed(np.nan_to_num(Y), F_prime, mask))
            task = make_task(whole, jax.tree.map(jnp.asarray, problem), N, "float64", sp.Pair(False, mean != 0))
            start = begin(solver, task, solver.init(task, None))
            return iterate(solver, task, start, ITERATIONS, Tolerance(0.0)).state

        with jax.enable_x64(True):
            state = run()
        return [np.asarray(value) for value in (*state.F, *state.X, state.g, state.level, state.nonzeros)]

    # One block, and four of which the last is smaller.
    for one, other in zip(after_some_iterations(1000), after_some_iterations(40), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10 * np.abs(one).max())
