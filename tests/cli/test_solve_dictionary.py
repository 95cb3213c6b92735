"""Dictionary learning from the command line: parameters estimated, several starts, the map."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import spinodal as sp
from conftest import Done

Run = Callable[..., Done]
PROBLEM = sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.1, noise_variance=1e-6)


@cache
def drawn() -> Any:
    return sp.sample(PROBLEM, 40, seed=4)


def test_a_dictionary_from_a_file_in_other_units_with_nothing_known(run_cli: Run, tmp_path: Path) -> None:
    units = 30.0
    np.savetxt(tmp_path / "y.csv", units * drawn().observed.Y, delimiter=",")
    done = run_cli("solve", "y.csv", "--n-atoms", "40", "--out", "sol.npz", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["status"] == "converged"
    assert set(result["learned"]) == {"density", "noise_variance", "slab_variance"}
    assert result["parameters"]["eta"] == "inf"
    assert result["parameters"]["density"] == pytest.approx(np.mean(drawn().truth.X != 0), rel=0.02)
    assert result["parameters"]["noise_variance"] == pytest.approx(units**2 * 1e-6, rel=0.1)
    assert result["parameters"]["slab_variance"] == pytest.approx(units**2, rel=0.1)
    with np.load(tmp_path / "sol.npz") as saved:
        found = sp.score(sp.Pair(saved["F_mean"], saved["X_mean"]), drawn().truth)
    assert found.angle.max() < 1e-4


@pytest.mark.slow
def test_eta_is_estimated_too(run_cli: Run, tmp_path: Path) -> None:
    problem = PROBLEM.replace(eta=0.05)
    instance = sp.sample(problem, 40, seed=4)
    np.savez(tmp_path / "y.npz", Y=instance.observed.Y, F_prime=instance.observed.F_prime)
    done = run_cli("solve", "y.npz", "--rho", "0.1", "--delta", "1e-6", "--eta", "auto", "--out", "sol.npz")
    assert done.code == 0, done.err
    assert "eta, learned" in done.out
    with np.load(tmp_path / "sol.npz") as saved:
        assert json.loads(str(saved["parameters"]))["eta"] == pytest.approx(0.05, rel=0.1)


def test_what_can_not_be_is_refused(run_cli: Run, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "y.csv", drawn().observed.Y, delimiter=",")
    told = ("--n-atoms", "40", "--rho", "0.1", "--delta", "1e-6", "--out", "sol.npz")
    np.savez(tmp_path / "y.npz", Y=drawn().observed.Y, F_prime=np.ones((20, 40)))
    cases = {
        ("y.csv", *told, "--runs", "0"): "runs must be",
        ("y.npz", *told[2:], "--eta", "0.1", "--runs", "3"): "runs must be 1",
        (
            "y.csv",
            "--n-atoms",
            "40",
            "--rho",
            "auto",
            "--delta",
            "1e-6",
            "--method",
            "lasso",
            "--out",
            "sol.npz",
        ): "Lasso learns no parameters, so density, noise_variance, eta or a model must be given",
        ("y.csv", "--n-atoms", "40", "--rho", "perhaps", "--delta", "1e-6", "--out", "sol.npz"): "density must be",
        ("y.csv", "--rho", "0.1", "--delta", "1e-6", "--out", "sol.npz"): "n_atoms must be",
    }
    for arguments, words in cases.items():
        done = run_cli("solve", *arguments)
        assert done.code == 2, arguments
        assert words in " ".join(done.err.split()), done.err
        assert not (tmp_path / "sol.npz").exists()


@pytest.mark.slow
def test_the_map_is_drawn_and_saved(run_cli: Run, tmp_path: Path) -> None:
    done = run_cli("reproduce", "dictionary", "--fast", "--sizes", "30", "--seeds", "1", "--out", "out")
    assert done.code == 0, done.err
    with xarray.open_dataset(tmp_path / "out" / "dictionary.nc") as dataset:
        assert dataset.solved.dims == ("rho", "pi", "instance")
        assert np.isfinite(dataset.solved).all()
        assert dataset.solved.sel(rho=0.1, pi=10.0).item() == 1.0
        assert np.all(dataset.pi_spinodal > dataset.pi_star)
    assert (tmp_path / "out" / "dictionary.png").stat().st_size > 10_000
