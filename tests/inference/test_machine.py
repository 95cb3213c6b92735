"""Which machine computes is asked in one place, of the device that computes."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import machine

SOURCE = Path(sp.__file__).parent
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.2, eta=0.05, noise_variance=1e-4)


def test_work_on_the_cpu_of_a_host_with_a_gpu_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's default backend is a GPU, and the arrays are on a CPU all the same. With F' known well an annealing that never happens only
    makes the two programs different ones, so that both are compiled."""
    observed = sp.sample(PROBLEM, 9, seed=3).observed
    expected = sp.solve(observed, PROBLEM, search=sp.Search(anneal=None, repair=False))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = sp.solve(observed, PROBLEM, search=sp.Search(anneal=0, repair=False))
    assert found.iterations == expected.iterations
    for one, other in zip((*found.mean, *found.variance), (*expected.mean, *expected.variance), strict=True):
        assert np.array_equal(one, other)


def test_the_user_s_default_device_is_the_one_that_is_asked() -> None:
    device = jax.devices("cpu")[-1]
    with jax.default_device(device):
        assert machine.device() == device
    with jax.default_device("cpu"):
        assert machine.platform() == "cpu"


@pytest.mark.parametrize("full", [False, True])
def test_results_come_through_pinned_memory_as_they_are(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU sends them; also where all of that memory is taken."""
    if full:

        def taken(*_: object) -> None:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

        monkeypatch.setattr(jax, "device_put", taken)
    tree = {"large": jax.random.normal(jax.random.key(0), (600, 700)), "small": jax.numpy.arange(3), "number": 2.0}
    expected, found = jax.device_get(tree), machine._through_pinned_memory(tree)
    assert found["number"] == 2.0
    for name in ("large", "small"):
        assert isinstance(found[name], np.ndarray)
        np.testing.assert_array_equal(found[name], expected[name])


# The sweeps' executors and `reproduce` choose between processes and devices, and ask by themselves.
ROOMS = ("model", "theory", "inference", "evaluation", "estimators", "io", "figures", "report", "explorer")


@pytest.mark.parametrize("room", ROOMS)
def test_nobody_else_asks_which_machine_it_is(room: str) -> None:
    for path in (SOURCE / room).rglob("*.py"):
        if (SOURCE / "inference" / "execution") not in path.parents:
            text = path.read_text()
            assert "default_backend" not in text, path
            assert "platform(" not in text, path
