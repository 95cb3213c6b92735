"""What only accelerators do, here on a CPU: the kernel in Pallas' interpreter, and the other branches of an iteration."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal import transfer
from spinodal.inference import accelerator, messages
from spinodal.inference.messages.data import Data, make_data
from spinodal.inference.messages.state import State
from spinodal.pair import Pair

# Not a multiple of a tile; a batch of instances.
N, M, P, BATCH = 10, 6, 300, 2
SOLVER = sp.AMP()
PROBLEM = sp.Problem(
    alpha=M / N,
    pi=P / N,
    prior=Pair(sp.Gaussian(), sp.GaussBernoulli(0.2, 0.3, 1.5)),
    channel=sp.GaussianNoise(1e-3),
    knowledge=sp.Hint(0.2),
)


def run(data: Data) -> State:
    """Some iterations, with and without a count of the nonzeros."""
    state = SOLVER.init(data, None)
    for _ in range(2):
        state = SOLVER.step(data, state, jnp.asarray(0.5))
    return state


@pytest.fixture(scope="module")
def data() -> Data:
    observed = sp.sample(PROBLEM, N, seed=3, batch=BATCH).observed
    with jax.enable_x64(True):
        return jax.vmap(lambda observed: make_data(observed, PROBLEM, N, "noisy", "float64"))(observed)


@pytest.fixture(scope="module")
def expected(data: Data) -> State:
    with jax.enable_x64(True):
        return jax.jit(jax.vmap(run))(data)


@pytest.mark.parametrize("size", ["small", "large", "swept"])
def test_accelerators_compute_what_a_cpu_computes(size: str, data: Data, expected: State, monkeypatch: pytest.MonkeyPatch) -> None:
    with jax.enable_x64(True):
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        monkeypatch.setattr(messages, "is_large", lambda array: size == "large")
        monkeypatch.setattr(messages, "can_sweep", lambda: size == "swept")
        monkeypatch.setattr(messages, "sweep", partial(accelerator.sweep, interpret=True))
        found = jax.jit(jax.vmap(lambda data: run(data)))(data)
    for name, own, other in zip(State._fields, found, expected, strict=True):
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12, err_msg=name), own, other)


def test_sweep_replaces_and_sums() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 3, 2100))
    r, c = rng.normal(size=3), rng.normal(size=2100)

    def look(tiles: Any, rows: Any, columns: Any, scalars: Any) -> Any:
        (a, b), (r,), (c,) = tiles, rows, columns
        return [a * r + scalars["s"] * b], [b * c, a * b]

    with jax.enable_x64(True):
        (new,), sums = accelerator.sweep(look, [A, B], [r], [c], {"s": 2.0}, (1, 2), interpret=True)
    np.testing.assert_allclose(new, A * r[:, None] + 2 * B)
    np.testing.assert_allclose(sums[0], B @ c)
    np.testing.assert_allclose(sums[1], (A * B).sum(axis=1))


@pytest.mark.parametrize("most", [0, 2**20])
def test_results_come_whole_with_and_without_pinned_memory(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {"a": np.arange(12.0).reshape(3, 4), "b": (np.array([True, False]), None)}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(transfer, "_MOST_PINNED", most)
    with jax.enable_x64(True):
        found = transfer.fetch(jax.tree.map(jnp.asarray, tree))
    jax.tree.map(np.testing.assert_array_equal, found, tree)
    assert jax.tree.all(jax.tree.map(lambda own, given: isinstance(own, np.ndarray) and own.dtype == given.dtype, found, tree))


def test_the_quick_posterior_is_the_posterior() -> None:
    prior = sp.GaussBernoulli(0.2, 0.3, 1.5)
    a, b = np.meshgrid([0.0, 1e-3, 1.0, 1e3, 1e8], [-1e9, -30.0, -0.1, 0.0, 2.0, 1e5])
    with jax.enable_x64(True):
        posterior, slab = prior.posterior_and_slab(a, b)
        np.testing.assert_allclose(posterior, prior.posterior(a, b), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(slab, prior.slab_probability(a, b), rtol=1e-12)
