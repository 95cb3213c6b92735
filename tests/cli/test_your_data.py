"""spinodal solve on files of every kind, the files it refuses, and its report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import xarray

import spinodal as sp
from conftest import Done

Run = Callable[..., Done]
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)
OBSERVED = sp.sample(PROBLEM, 20, seed=5).observed
PARAMETERS = ("--rho", "0.1", "--delta", "1e-2", "--max-iter", "20", "--json")


def table(path: Path, values: np.ndarray, delimiter: str = ",") -> Path:
    np.savetxt(path, values, delimiter=delimiter, fmt="%.17g")
    return path


def answer(done: Done) -> dict[str, object]:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_same_matrix_from_every_kind_of_file(spinodal_command: Run, tmp_path: Path) -> None:
    Y = np.asarray(OBSERVED.Y)
    table(tmp_path / "y.csv", Y)
    table(tmp_path / "y.txt", Y.T, " ")
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "y.npz", first=Y, second=Y[:3])
    scipy.io.savemat(tmp_path / "y.mat", {"Y": Y})
    xarray.Dataset({"data": (("measurement", "signal"), Y)}).to_netcdf(tmp_path / "y.nc", engine="scipy")
    more = {"y.txt": ["--transpose"], "y.npz": ["--array", "first"]}
    residuals = []
    for name in ("y.csv", "y.txt", "y.npy", "y.npz", "y.mat", "y.nc"):
        options = [*PARAMETERS, "--n-atoms", "20", *more.get(name, [])]
        residuals.append(answer(spinodal_command("solve", name, *options, "--out", "sol.npz"))["residual"])
    assert residuals == pytest.approx([residuals[0]] * 6, rel=1e-12)
    with np.load(tmp_path / "sol.npz") as saved:
        assert json.loads(str(saved["parameters"]))["eta"] == "inf"  # without F_prime nothing else is possible
        assert saved["F_mean"].shape == (12, 20)


def test_empty_fields_are_missing_entries(spinodal_command: Run, tmp_path: Path) -> None:
    seen = np.random.default_rng(0).random(OBSERVED.Y.shape) < 0.9
    lines = [";".join(repr(float(y)) if s else "" for y, s in zip(*row, strict=True)) for row in zip(OBSERVED.Y, seen, strict=True)]
    (tmp_path / "y.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "y.npz", Y=OBSERVED.Y, mask=seen)
    found = [answer(spinodal_command("solve", name, *PARAMETERS, "--n-atoms", "20", "--out", "s.npz")) for name in ("y.csv", "y.npz")]
    assert found[0]["residual"] == found[1]["residual"]


def test_a_report_is_written_beside_the_solution(spinodal_command: Run, tmp_path: Path) -> None:
    file = tmp_path / "<b>me & you.npz"
    np.savez(file, Y=OBSERVED.Y, F_prime=OBSERVED.F_prime)
    words = ("solve", file.name, *PARAMETERS, "--eta", "0.1", "--out", "sol.npz", "--report", "new/report.html", "--atom-shape", "3", "4")
    assert answer(spinodal_command(*words))["report"] == "new/report.html"
    page = (tmp_path / "new/report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;me &amp; you.npz" in page
    assert "<b>me" not in page
    assert "stopped before it settled" in page
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["report.html"]


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        ("1,2\n3,four\n", (), "line 2, column 2"),
        ("1,2\n3\n", (), "line 2"),
        ("", (), "is empty"),
        ("1,2\n3,4\n", ("--array", "Y"), "array"),
        ("1,2\n3,4\n", ("--report", "new/report.txt"), "report"),
        ("1,2\n3,4\n", ("--atom-shape", "1", "2"), "atom_shape"),
        ("1,2\n3,4\n", ("--atom-shape", "2", "2", "--report", "new/report.html"), "atom_shape"),
        ("1,2\n3,4\n", ("--atom-shape", "2", "--report", "new/report.html"), "atom"),
        ("1,2\n3,4\n", ("--max-iter", "0", "--report", "new/report.html"), "max_iterations"),
        ("1,2\n3,4\n", ("--eta", "0.5"), "F_prime"),
        ("1,2\n3,4\n", ("--n-atoms", "100000000000000000000", "--out", "sol.npz"), "memory"),
        ("1,2\n3,4\n", ("--n-atoms", "1000000000000000", "--out", "sol.npz"), "memory"),
    ],
)
def test_refused_in_one_sentence(spinodal_command: Run, tmp_path: Path, content: str, options: tuple[str, ...], word: str) -> None:
    (tmp_path / "y.csv").write_text(content)
    done = spinodal_command("solve", "y.csv", "--rho", "0.1", "--delta", "0.01", "--n-atoms", "2", "--out", "new/sol.npz", *options)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("spinodal: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith(".\n")
    assert word in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["y.csv"]
