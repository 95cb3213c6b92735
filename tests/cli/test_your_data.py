"""spinodal solve on files of every kind, the files it refuses, and its report."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.io
import xarray

import spinodal as sp
from conftest import Done

Run = Callable[..., Done]
PARAMETERS = ("--rho", "0.1", "--delta", "1e-2", "--max-iter", "20", "--lenient", "--json")


def table(path: Path, values: np.ndarray, delimiter: str = ",") -> Path:
    np.savetxt(path, values, delimiter=delimiter, fmt="%.17g")
    return path


def answer(done: Done) -> dict[str, object]:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_same_matrix_from_every_kind_of_file(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    Y = np.asarray(instance.observed.Y)
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
        residuals.append(answer(run_cli("solve", name, *options, "--out", "sol.npz"))["residual"])
    assert residuals == pytest.approx([residuals[0]] * 6, rel=1e-12)
    with np.load(tmp_path / "sol.npz") as saved:
        assert json.loads(str(saved["parameters"]))["eta"] == "inf"  # without F_prime nothing else is possible
        assert saved["F_mean"].shape == (12, 20)


def test_empty_fields_are_missing_entries(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    Y = instance.observed.Y
    seen = np.random.default_rng(0).random(Y.shape) < 0.9
    lines = [";".join(repr(float(y)) if s else "" for y, s in zip(*row, strict=True)) for row in zip(Y, seen, strict=True)]
    (tmp_path / "y.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "y.npz", Y=Y, mask=seen)
    found = [answer(run_cli("solve", name, *PARAMETERS, "--n-atoms", "20", "--out", "s.npz")) for name in ("y.csv", "y.npz")]
    assert found[0]["residual"] == found[1]["residual"]
    assert found[0]["observed"] == pytest.approx(seen.mean())


def test_names_of_rows_and_columns_are_carried(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    rows, columns = [f"sensor {k}" for k in range(12)], [f"day {k}" for k in range(60)]
    lines = [["", *columns], *([name, *map(repr, row)] for name, row in zip(rows, instance.observed.Y.tolist(), strict=True))]
    (tmp_path / "y.csv").write_text("\n".join(map(",".join, lines)))
    answer(run_cli("solve", "y.csv", *PARAMETERS, "--n-atoms", "20", "--report", "page.html"))
    with np.load(tmp_path / "y-spinodal.npz") as saved:
        assert saved["row_names"].tolist() == rows
        assert saved["column_names"].tolist() == columns
        np.savez(tmp_path / "again.npz", Y=instance.observed.Y, row_names=saved["row_names"], column_names=saved["column_names"])
    assert sp.read_measurements(tmp_path / "again.npz").names == (tuple(rows), tuple(columns))
    assert sp.read_measurements(tmp_path / "y-spinodal.npz", array="F_mean").names == (tuple(rows), None)
    page = (tmp_path / "page.html").read_text()
    assert "sensor 11" in page
    assert "Signals explained worst: day " in page


def test_the_output_goes_next_to_the_input_and_that_is_said(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    (tmp_path / "data").mkdir()
    table(tmp_path / "data" / "y.csv", instance.observed.Y)
    result = answer(run_cli("solve", "data/y.csv", *PARAMETERS, "--n-atoms", "20"))
    assert result["out"] == "data/y-spinodal.npz"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["y-spinodal.npz", "y.csv"]
    assert "in data/y-spinodal.npz." in run_cli("solve", "data/y.csv", *PARAMETERS[:-1], "--n-atoms", "20").out


def test_a_report_is_written_beside_the_solution(run_cli: Run, measurements: Path, tmp_path: Path) -> None:
    file = measurements.rename(tmp_path / "<b>me & you.npz")
    words = ("solve", file.name, *PARAMETERS, "--eta", "0.1", "--out", "sol.npz", "--report", "new/report.html", "--atom-shape", "3", "4")
    assert answer(run_cli(*words))["report"] == "new/report.html"
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
def test_refused_in_one_sentence(run_cli: Run, tmp_path: Path, content: str, options: tuple[str, ...], word: str) -> None:
    (tmp_path / "y.csv").write_text(content)
    done = run_cli("solve", "y.csv", "--rho", "0.1", "--delta", "0.01", "--n-atoms", "2", "--out", "new/sol.npz", *options)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("spinodal: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith(".\n")
    assert word in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["y.csv"]


def test_tables_as_users_write_them(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    """A table that needs every option gives the numbers of a plain one, and its names are in what is written."""
    Y = np.asarray(instance.observed.Y)
    seen = np.random.default_rng(0).random(Y.shape) < 0.9
    columns = [f"day {k}" for k in range(60)]
    lines = [["day 0", "place", *columns[1:]]]
    for k, row in enumerate(np.where(seen, Y, -999).tolist()):
        first, *others = (repr(value).replace(".", ",") if value != -999 else ("-999", "<LOD")[k % 2] for value in row)
        lines.append([first, f"room {k}", *others])
    (tmp_path / "y.csv").write_text("\r\n".join(map(";".join, lines)))
    np.savez(tmp_path / "plain.npz", Y=Y, mask=seen)
    words = [*PARAMETERS, "--n-atoms", "20"]
    expected = answer(run_cli("solve", "plain.npz", *words))["residual"]
    options = ["--decimal", ",", "--index-col", "place", "--na", "-999", "--na", "<LOD"]
    for out in ("s.npz", "s.nc", "s.csv"):
        found = answer(run_cli("solve", "y.csv", *words, *options, "--out", out))
        assert found["residual"] == pytest.approx(expected, rel=1e-12)
    rooms = [f"room {k}" for k in range(12)]
    with np.load(tmp_path / "s.npz") as saved, xarray.open_dataset(tmp_path / "s.nc", engine="scipy") as labelled:
        assert saved["row_names"].tolist() == labelled["row"].values.tolist() == rooms
        assert saved["column_names"].tolist() == labelled["column"].values.tolist() == columns
        np.testing.assert_array_equal(labelled["F"], saved["F_mean"])
        assert json.loads(labelled.attrs["parameters"])["n_atoms"] == 20
        table = pandas.read_csv(tmp_path / "s.csv")
        of_X = table[table["matrix"] == "X"].pivot(index="row", columns="column", values="mean")
        np.testing.assert_array_equal(of_X.loc[[str(k) for k in range(20)], columns], saved["X_mean"])
        of_F = table[table["matrix"] == "F"].pivot(index="row", columns="column", values="variance")
        np.testing.assert_array_equal(of_F.loc[rooms, [str(k) for k in range(20)]], saved["F_var"])


def test_centred_on_the_way(run_cli: Run, tmp_path: Path, instance: sp.Instance) -> None:
    Y = np.asarray(instance.observed.Y) + 100 * np.arange(12)[:, None]
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(pandas.DataFrame(Y).to_csv().encode()))
    result = answer(run_cli("solve", "y.csv.gz", *PARAMETERS, "--n-atoms", "20", "--center"))
    assert result["out"] == "y-spinodal.npz"
    assert result["centered"] is True
    assert not any("mean" in warning for warning in result["warnings"])
    with np.load(tmp_path / "y-spinodal.npz") as saved:
        np.testing.assert_allclose(saved["row_means"], Y.mean(axis=1))
    unsaid, left = (answer(run_cli("solve", "y.csv.gz", *PARAMETERS, "--n-atoms", "20", *more)) for more in ((), ("--no-center",)))
    assert (unsaid["centered"], unsaid["residual"]) == (True, result["residual"])
    assert any("taken off" in warning and "--no-center" in warning for warning in unsaid["warnings"])
    assert "centered" not in left
    assert any("(center=True, --center)" in warning for warning in left["warnings"])
    answer(run_cli("solve", "y.csv.gz", *PARAMETERS, "--n-atoms", "20", "--center", "--out", "s.csv"))
    means = pandas.read_csv(tmp_path / "s.csv").query("matrix == 'row_means'")["mean"]
    np.testing.assert_allclose(means, Y.mean(axis=1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--decimal", ";"), "decimal must be . or ,, but ';' was given."),
        (("--index-col", "0"), "index_col must be the name of a column or its number, from 1, but '0' was given."),
        (("--index-col", "x"), "index_col must be the number of a column where FILE has no line of names, but 'x' was given."),
        (("--out", "sol.xlsx"), "out must be a file name ending in .npz, .nc or .csv, but 'sol.xlsx' was given."),
        (("--out", "y.csv"), "out must be another file than FILE, but 'y.csv' was given for both."),
    ],
)
def test_options_of_tables_are_refused_in_one_sentence(run_cli: Run, tmp_path: Path, options: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "y.csv").write_text("1,2\n3,4\n")
    done = run_cli("solve", "y.csv", *PARAMETERS, "--n-atoms", "2", *options)
    assert (done.code, done.out, done.err) == (2, "", f"spinodal: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["y.csv"]
    assert (tmp_path / "y.csv").read_text() == "1,2\n3,4\n"
