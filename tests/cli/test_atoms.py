"""spinodal solve with several numbers of atoms to choose from, and with F' in a file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

import spinodal as sp
from conftest import Done

Run = Callable[..., Done]


@pytest.mark.slow
def test_the_likeliest_number_of_atoms_is_kept(run_cli: Run, tmp_path: Path) -> None:
    sizes = (7, 10, 14)
    problem = sp.Problem.sparse(alpha=1.0, pi=12.0, rho=0.2, noise_variance=1e-2)
    np.save(tmp_path / "y.npy", sp.sample(problem, 10, seed=0).observed.Y)
    words = ("--n-atoms", ",".join(map(str, sizes)), "--max-iterations", "300", "--out", "sol.npz", "--json")
    done = run_cli("solve", "y.npy", *words)
    assert done.code in (0, 3), done.err
    answer = json.loads(done.out)
    assert [fit["n_atoms"] for fit in answer["candidates"]] == list(sizes)
    assert answer["n_atoms"] == 10
    with np.load(tmp_path / "sol.npz") as saved:
        assert saved["F_mean"].shape == (10, 10)


def test_the_candidates_are_shown(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    """Two numbers of atoms, 20 iterations each: which is kept does not matter here."""
    np.save(tmp_path / "y.npy", instance.observed.Y)
    words = ("--n-atoms", "20,10", "--rho", "0.1", "--delta", "1e-2", "--max-iterations", "20", "--lenient")
    result = json.loads(run_cli("solve", "y.npy", *words, "--json").out)
    assert [each["n_atoms"] for each in result["candidates"]] == [10, 20]
    best = max(result["candidates"], key=lambda each: each["evidence"])
    assert result["n_atoms"] == best["n_atoms"]
    assert f"{best['n_atoms']} atoms have the highest evidence" in run_cli("solve", "y.npy", *words).out


def test_the_nominal_matrix_from_its_own_file(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    observed = instance.observed
    np.savetxt(tmp_path / "y.csv", observed.Y, delimiter=",", fmt="%.17g")
    np.savetxt(tmp_path / "f.csv", observed.F_prime, delimiter=",", fmt="%.17g")
    np.savez(tmp_path / "both.npz", Y=observed.Y, F_prime=observed.F_prime)
    words = ("--rho", "0.1", "--delta", "1e-2", "--eta", "0.1", "--max-iter", "20", "--out", "sol.npz", "--lenient", "--json")
    apart, together = (run_cli("solve", *files, *words) for files in (("y.csv", "--f-prime", "f.csv"), ("both.npz",)))
    assert json.loads(apart.out)["residual"] == json.loads(together.out)["residual"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--n-atoms", "ten"), "n_atoms must be a whole number"),
        (("--n-atoms", "0,2"), "n_atoms must"),
        (("--f-prime", "y.csv", "--n-atoms", "3,4", "--eta", "0.1"), "n_atoms"),
        (("--f-prime", "holes.csv", "--eta", "0.1"), "F_prime must have all its entries"),
    ],
)
def test_refused_in_one_sentence(run_cli: Run, tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    (tmp_path / "y.csv").write_text("1,2\n3,4\n")
    (tmp_path / "holes.csv").write_text("1,2\n3,\n")
    done = run_cli("solve", "y.csv", "--rho", "0.1", "--delta", "0.01", "--out", "new/sol.npz", *options)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert word in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("names", [("F_prime",), ("F_prime", "Y"), ("F_prime", "Y", "X"), ("F",), ("matrix",)])
def test_the_nominal_matrix_is_found_among_others(run_cli: Run, tmp_path: Path, instance: sp.Instance, names: tuple[str, ...]) -> None:
    """A file of a sample or of an earlier solution has Y too, which may have as many rows."""
    observed = instance.observed
    np.save(tmp_path / "y.npy", observed.Y)
    np.savez(tmp_path / "f.npz", **{name: observed.F_prime if name in ("F_prime", "F", "matrix") else observed.Y for name in names})
    words = ("--rho", "0.1", "--delta", "1e-2", "--eta", "0.1", "--max-iter", "5", "--lenient", "--json")
    done = run_cli("solve", "y.npy", "--f-prime", "f.npz", *words)
    assert done.code == 0, done.err
    assert json.loads(done.out)["n_atoms"] == observed.F_prime.shape[1]


def test_rows_of_a_nominal_matrix_may_be_of_one_value(run_cli: Run, tmp_path: Path) -> None:
    """The first row of a Hadamard or cosine matrix is."""
    hadamard = scipy.linalg.hadamard(16).astype(float)
    problem = sp.Problem.sparse(alpha=1.0, pi=6.0, rho=0.1, eta=0.0, noise_variance=1e-3)
    X = sp.sample(problem, 16, seed=0).truth.X
    np.savetxt(tmp_path / "y.csv", hadamard @ X / 4 + 0.03 * np.random.default_rng(0).normal(size=(16, X.shape[1])), delimiter=",")
    np.savetxt(tmp_path / "f.csv", hadamard, delimiter=",")
    np.savetxt(tmp_path / "noise.csv", np.full((16, 1), 1e-3), delimiter=",")
    done = run_cli("solve", "y.csv", "--f-prime", "f.csv", "--noise-variance", "noise.csv", "--max-iter", "20", "--lenient", "--json")
    assert done.code == 0, done.err


def test_what_goes_with_a_transposed_table_is_laid_out_like_it(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    observed, found = instance.observed, {}
    for turn in (False, True):
        for name, value in {"y": observed.Y, "f": observed.F_prime, "noise": np.full((len(observed.Y), 1), 1e-2)}.items():
            np.savetxt(tmp_path / f"{name}.csv", value.T if turn else value, delimiter=",", fmt="%.17g")
        words = ("--f-prime", "f.csv", "--noise-variance", "noise.csv", "--rho", "0.1", "--max-iter", "5", "--lenient", "--json")
        done = run_cli("solve", "y.csv", *words, *(["--transpose"] if turn else []))
        assert done.code == 0, done.err
        found[turn] = json.loads(done.out)["residual"]
    assert found[True] == pytest.approx(found[False], rel=1e-12)
