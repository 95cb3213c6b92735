"""--checkpoint and --devices of spinodal solve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from conftest import Done

SOLVE = ("solve", "in.npz", "--rho", "0.1", "--delta", "1e-2", "--eta", "0.1", "--method", "mu-amp", "--max-iter", "40", "--lenient")
SAVED = ("--checkpoint", "state.npz", "--every", "7")


def test_checkpoint_and_devices(run_cli: Callable[..., Done], measurements: Path, tmp_path: Path) -> None:
    assert run_cli(*SOLVE, "--out", "a.npz").code == 0
    assert run_cli(*SOLVE, "--out", "b.npz", *SAVED).code == 0
    assert run_cli(*SOLVE, "--out", "c.npz", *SAVED).code == 0
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b, np.load(tmp_path / "c.npz") as c:
        assert np.array_equal(a["X_mean"], b["X_mean"])
        assert np.array_equal(a["X_mean"], c["X_mean"])
    refused = run_cli(*SOLVE, "--out", "d.npz", "--devices", "99")
    assert refused.code == 2
    assert "devices must be at most the 1 that JAX sees here, but 99" in refused.err
    assert not (tmp_path / "d.npz").exists()
