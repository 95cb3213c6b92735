"""--checkpoint and --devices of spinodal solve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from conftest import Done

SAMPLE = ("sample", "--n", "10", "--alpha", "0.6", "--pi", "3", "--rho", "0.2", "--eta", "0.05", "--delta", "1e-4", "--out", "i.npz")
SOLVE = ("solve", "i.npz", "--method", "mu-amp", "--max-iter", "40")


def test_checkpoint_and_devices(spinodal_command: Callable[..., Done], tmp_path: Path) -> None:
    assert spinodal_command(*SAMPLE).code == 0
    assert spinodal_command(*SOLVE, "--out", "a.npz").code == 0
    assert spinodal_command(*SOLVE, "--out", "b.npz", "--checkpoint", "state.npz", "--every", "7").code == 0
    assert spinodal_command(*SOLVE, "--out", "c.npz", "--checkpoint", "state.npz", "--every", "7").code == 0
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b, np.load(tmp_path / "c.npz") as c:
        assert np.array_equal(a["X_mean"], b["X_mean"])
        assert np.array_equal(a["X_mean"], c["X_mean"])
    refused = spinodal_command(*SOLVE, "--out", "d.npz", "--devices", "99")
    assert refused.code == 2
    assert "devices must be at most the 1 that JAX sees here, but 99" in refused.err
    assert not (tmp_path / "d.npz").exists()
