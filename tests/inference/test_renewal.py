"""What each machine does in its own way is what plain code does: the kernel in Pallas' interpreter, the CPU in place, one block or many."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import machine, pallas
from spinodal.inference.execution.machine import Looked, Renewed, renew, renew_plainly
from spinodal.inference.execution.pallas import by_kernel
from spinodal.inference.messages.update import State
from spinodal.inference.task import Task, make_task

# Not a multiple of a tile; a batch of instances.
N, M, P, BATCH = 10, 6, 300, 2
SOLVER = sp.AMP()
PROBLEM = sp.Problem(
    alpha=M / N,
    pi=P / N,
    prior=sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.2, 0.3, 1.5)),
    channel=sp.GaussianNoise(1e-3),
    knowledge=sp.Hint(0.2),
)


def run(task: Task) -> State:
    """Some iterations, with and without a count of the nonzeros."""
    state = SOLVER.init(task, None)
    for _ in range(2):
        state = SOLVER.step(task, state)
    return state


@pytest.fixture(scope="module")
def task() -> Task:
    observed = sp.sample(PROBLEM, N, seed=3, batch=BATCH).observed
    with jax.enable_x64(True):
        return jax.vmap(lambda observed: make_task(observed, PROBLEM, N, "float64", sp.Pair(False, True)))(observed)


@pytest.fixture(scope="module")
def expected(task: Task) -> State:
    with jax.enable_x64(True):
        return jax.jit(jax.vmap(run))(task)


@pytest.mark.parametrize("kernel", [False, True])
def test_accelerators_compute_what_a_cpu_computes(kernel: bool, task: Task, expected: State, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bool] = []

    def interpreted(*arguments: Any) -> Renewed:
        used.append(True)
        return by_kernel(*arguments, interpret=True)

    monkeypatch.setattr(machine, "platform", lambda: "gpu")
    monkeypatch.setattr(machine, "runs_kernels", lambda: kernel)
    monkeypatch.setattr(pallas, "by_kernel", interpreted)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(lambda task: run(task)))(task)
    assert bool(used) == kernel
    for name, own, other in zip(State._fields, found, expected, strict=True):
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12, err_msg=name), own, other)


def looked(old: Any, others: Any) -> Looked:
    """A look with every kind of neighbour: entries, a column, a row and a scalar."""
    a, b = old

    def new(step_size: Any) -> Any:
        return a + step_size * (others["column"] * b - a), b + step_size * (others["entries"] * others["scalar"] - b)

    return Looked(new, ((b, others["row"]), (a * b, 1.0)), lambda: ((a**2 + others["entries"], 1.0),))


@pytest.fixture(scope="module")
def large() -> tuple[list[np.ndarray], dict[str, Any]]:
    rng = np.random.default_rng(0)
    old = list(rng.normal(size=(2, 3, 2100)))
    return old, {"column": rng.normal(size=(3, 1)), "row": rng.normal(size=(1, 2100)), "entries": rng.normal(size=(3, 2100)), "scalar": 2.0}


def assert_equal(one: Renewed, other: Renewed) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12), one, other)


def test_plainly_is_what_numpy_says(large: tuple[list[np.ndarray], dict[str, Any]]) -> None:
    (a, b), others = large
    with jax.enable_x64(True):
        new, always, rarely = renew_plainly(looked, large[0], others, 0.3)
    np.testing.assert_allclose(new[0], 0.7 * a + 0.3 * others["column"] * b)
    np.testing.assert_allclose(new[1], 0.7 * b + 0.6 * others["entries"])
    np.testing.assert_allclose(always, [b @ others["row"][0], (a * b).sum(axis=1)])
    np.testing.assert_allclose(rarely, [(a**2 + others["entries"]).sum(axis=1)])


def test_the_kernel_gives_what_plain_code_gives(large: tuple[list[np.ndarray], dict[str, Any]]) -> None:
    old, others = large
    with jax.enable_x64(True):
        plainly, kernel = renew_plainly(looked, old, others, 0.3), by_kernel(looked, [*map(jnp.asarray, old)], others, 0.3, interpret=True)
    assert_equal(kernel, plainly)


def test_a_cpu_in_place_gives_what_plain_code_gives(large: tuple[list[np.ndarray], dict[str, Any]]) -> None:
    """And counts rarely what is wanted rarely: zero where it was not."""
    old, others = large
    with jax.enable_x64(True):
        plainly = renew_plainly(looked, old, others, 0.3)
        in_place = jax.jit(
            lambda old, others, now: renew(looked, old, others, 0.3, now=now, first=[old[0] @ old[1].T], kernel=True), donate_argnums=0
        )
        assert_equal(in_place([jnp.asarray(value) for value in old], others, True), plainly)
        not_now = in_place([jnp.asarray(value) for value in old], others, False)
    assert_equal(not_now, plainly._replace(rarely=[0 * total for total in plainly.rarely]))


def test_the_quick_posterior_is_the_posterior() -> None:
    """What an iteration needs of an entry, against what the definition by log_partition gives."""
    prior = sp.GaussBernoulli(0.2, 0.3, 1.5)
    a, b = np.meshgrid([0.0, 1e-3, 1.0, 1e3, 1e8], [-1e9, -30.0, -0.1, 0.0, 2.0, 1e5])
    with jax.enable_x64(True):
        posterior, against = prior.posterior_and_odds(a, b)
        np.testing.assert_allclose(posterior, prior.posterior(a, b), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(1 / (1 + against), prior.slab_probability(a, b), rtol=1e-12)
