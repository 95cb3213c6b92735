"""One problem over several devices gives the numbers of one device, and communicates what docs/cluster.md says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import sharded
from jax.sharding import Mesh

import spinodal as sp

SCRIPT = sharded.__file__


def start(devices: int, *words: str) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen([sys.executable, SCRIPT, *words], env=environment, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    complaint = process.communicate(timeout=600)[1]
    assert process.returncode == 0, complaint


def assert_agree(stored: Path, case: str, devices: int, other: Path | None = None) -> None:
    """Relative to the largest entry; the number of iterations is the same."""
    with np.load(stored) as one, np.load(other or stored) as two:
        for name in (key.split("/")[2] for key in one.files if key.startswith(f"{case}/0/")):
            alone, shared = one[f"{case}/0/{name}"], two[f"{case}/{devices}/{name}"]
            assert alone.shape == shared.shape
            assert np.max(np.abs(alone - shared)) <= 1e-10 * np.max(np.abs(alone)), (case, devices, name)


@pytest.fixture(scope="module")
def on_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A process of four devices: one device and all of them, and what an iteration sends."""
    out = tmp_path_factory.mktemp("sharding") / "out.npz"
    finish(start(4, str(out), "weak", "0,4"))
    return out


@pytest.mark.claims
def test_an_iteration_sends_one_matrix_and_numbers(on_four: Path) -> None:
    """One sum of M x N, with a few of N and of one number; and of each signal one number, its level, for the median."""
    with np.load(on_four) as file:
        found = json.loads(str(file["collectives"]))
    sums, gathered = ([shapes for kind, shapes in found if kind == wanted] for wanted in ("all-reduce", "all-gather"))
    assert len(sums) + len(gathered) == len(found)
    matrices = [shapes for shapes in sums if "f64[10,16]" in shapes]
    assert len(matrices) == 1
    assert matrices[0].count("[10,16]") == 1
    assert "64]" not in json.dumps(sums)  # sums are not of signals
    assert len(sums) <= 3
    assert gathered == ["f64[64]"]


@pytest.mark.claims
def test_four_devices_give_the_numbers_of_one(on_four: Path) -> None:
    assert_agree(on_four, "weak", 4)


@pytest.mark.slow
def test_every_case_on_one_to_eight_devices(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    finish(start(8, str(out), "strong,learned,weak,none", "0,1,2,4,8"))
    for case in ("strong", "learned", "weak", "none"):
        for devices in (1, 2, 4, 8):
            assert_agree(out, case, devices)


@pytest.mark.parametrize("case", [pytest.param("weak", marks=pytest.mark.claims), pytest.param("strong", marks=pytest.mark.slow)])
def test_two_processes_over_loopback(case: str, tmp_path: Path) -> None:
    """Two processes of two devices each, with jax.distributed; each ends with the whole solution. A weak hint passes through all that a
    strong one does, and repairs and reorders besides."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    alone = tmp_path / "alone.npz"
    both = [tmp_path / f"process_{k}.npz" for k in range(2)]
    running = [start(2, str(path), case, "4", str(k), "2", port) for k, path in enumerate(both)]
    for process in running:
        finish(process)
    np.savez(alone, **sharded.solved(case, 0))  # on one device, in this process
    for path in both:
        assert_agree(alone, case, 4, path)


def test_a_mesh_that_does_not_fit_is_refused() -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.2, eta=0.05)
    observed = sp.sample(problem, 7, seed=3).observed
    with pytest.raises(sp.InputError, match="Mesh"):
        sp.solve(observed, problem, mesh=4)
    with pytest.raises(sp.InputError, match="divides the 21 signals, but it has 2; try 1 devices or 20 signals"):
        sp.solve(observed, problem, mesh=Mesh(np.array(jax.devices() * 2), ("x",)))
