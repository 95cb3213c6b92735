"""What the cases of fuzzing.py share: one small shape, options and specs for it, and data."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tiny_sweep import TINY

Family = Callable[[random.Random], None]
# One shape for all, so that little is compiled.
M, N, P = 6, 4, 14
QUICK = ("--max-iter", "3", "--runs", "1")
HINTED = ("--eta", "0.1", "--density", "0.2", "--noise-variance", "0.01")
LONGER = (*HINTED, "--max-iter", "30", "--every", "2")
VOTING = (
    "--eta",
    "inf",
    "--n-atoms",
    str(N),
    "--density",
    "0.2",
    "--noise-variance",
    "0.01",
    "--max-iter",
    "60",
    "--runs",
    "3",
    "--every",
    "4",
)
SPEC = TINY.replace("instances = 12", "instances = 2").replace("N = 8", "N = 6").replace("max_iterations = 20", "max_iterations = 3")
OTHER_SPEC = """
name = "other"
seed = 3
N = 6
batch = 2
max_iterations = 3
[random]
points = 2
alpha = 0.5
rho = { from = 0.1, to = 0.3, scale = "log" }
pi = 2.0
eta = [0.05, 0.06]
noise_variance = 1e-4
[prior]
F = { kind = "Gaussian" }
[[solver]]
method = "mu-amp"
damping = 0.5
"""
SWEEP = ("--executor", "in-process", "--workers", "1")


def data() -> tuple[np.ndarray, np.ndarray]:
    """Y and F'."""
    rng = np.random.default_rng(19)
    F, X = rng.normal(size=(M, N)), rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.3)
    return F @ X / np.sqrt(N) + 0.1 * rng.normal(size=(M, P)), F + 0.1 * rng.normal(size=(M, N))


def saved(write: Callable[[Any], Any]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def write_measurements() -> None:
    Y, F_prime = data()
    np.savez("in.npz", Y=Y, F_prime=F_prime)
