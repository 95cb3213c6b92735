"""The commands judged by their output, files and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import spinodal as sp
from conftest import Done

Run = Callable[..., Done]


def answer(done: Done) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


# What is said of every fixed point.
ERRORS = {"mse_F", "mse_X", "recovered_F", "recovered_X"}


def test_theory_json_has_the_promised_keys_and_values(run_cli: Run, tmp_path: Path) -> None:
    point = ("--alpha", "0.5", "--pi", "3", "--rho", "0.2", "--eta", "1", "--delta", "1e-6")
    result = answer(run_cli("theory", *point, "--json"))
    promised = {"alpha", "pi", "density", "eta", "noise_variance", "pi_star", "pi_spinodal", "phase", "bayes", "amp", "fixed_points"}
    assert promised <= set(result)
    assert set(result) - promised <= {"observed"}
    assert set(result["bayes"]) == ERRORS | {"free_entropy"}
    assert set(result["amp"]) == ERRORS | {"iterations"}
    assert all(set(each) == ERRORS | {"snr_X", "stable", "free_entropy"} for each in result["fixed_points"])
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
    assert result["phase"] == "hard"
    assert result["pi_spinodal"] == pytest.approx(sp.spinodal(problem), rel=1e-12)
    assert result["bayes"]["mse_X"] == pytest.approx(sp.bayes_mmse(problem).mse.X, rel=1e-10)
    assert [each["stable"] for each in result["fixed_points"]] == [True, False, True]
    assert isinstance(result["amp"]["iterations"], int)


def test_theory_json_words_for_what_is_not_a_number(run_cli: Run, tmp_path: Path) -> None:
    exact = answer(run_cli("theory", "--alpha", "0.5", "--pi", "5", "--rho", "0.2", "--eta", "inf", "--delta", "0", "--json"))
    assert exact["eta"] == "inf"
    assert exact["bayes"] == {"mse_F": 0.0, "mse_X": 0.0, "recovered_F": 1.0, "recovered_X": 1.0, "free_entropy": "inf"}
    assert exact["phase"] == "easy"
    smooth = answer(run_cli("theory", "--alpha", "0.5", "--pi", "3", "--rho", "0.2", "--eta", "1", "--delta", "0.1", "--json"))
    assert smooth["pi_spinodal"] is None
    known = answer(run_cli("theory", "--alpha", "0.5", "--pi", "3", "--rho", "0.2", "--eta", "0", "--delta", "9", "--json"))
    assert known["phase"] == "nothing to gain"
    assert known["amp"]["recovered_F"] is None


def test_theory_table_is_readable(run_cli: Run, tmp_path: Path) -> None:
    done = run_cli("theory", "--alpha", "0.5", "--pi", "3", "--rho", "0.2", "--eta", "1", "--delta", "1e-6")
    assert done.code == 0
    for word in ("hard", "Bayes-optimal", "AMP recovers", "67.7% of X", "iterations", "unstable"):
        assert word in done.out


def assert_figure_files(directory: Path, stem: str) -> xarray.Dataset:
    assert (directory / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (directory / f"{stem}.svg").read_text()[:2000]
    assert "," in (directory / f"{stem}.csv").read_text().splitlines()[0]
    with xarray.open_dataset(directory / f"{stem}.nc", engine="scipy") as dataset:
        return dataset.load()


@pytest.mark.claims
def test_diagram_writes_its_four_files(run_cli: Run, tmp_path: Path) -> None:
    words = ("--alpha", "0.5", "--delta", "1e-6", "--eta", "0.1,inf", "--rho", "0.05:0.45:5", "--out", "new/place")
    files = answer(run_cli("diagram", *words, "--json"))["files"]
    assert len(files) == 4
    dataset = assert_figure_files(tmp_path / "new/place", "diagram")
    assert dict(dataset.sizes) == {"eta": 2, "rho": 5}
    np.testing.assert_allclose(dataset.rho, np.linspace(0.05, 0.45, 5))
    assert len((tmp_path / "new/place/diagram.csv").read_text().splitlines()) == 11
    assert sorted(path.name for path in (tmp_path / "new/place").iterdir()) == [f"diagram.{end}" for end in ("csv", "nc", "png", "svg")]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("words", [("diagram", "--rho", "0.2"), ("curve", "--rho", "0.2", "--pi", "3")])
def test_a_figure_of_one_point_is_drawn_without_a_complaint(run_cli: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_cli(*words, "--alpha", "0.5", "--eta", "1", "--out", ".")
    assert (done.code, done.err) == (0, "")


def test_curve_writes_its_four_files(run_cli: Run, tmp_path: Path) -> None:
    done = run_cli("curve", "--alpha", "0.5", "--rho", "0.2", "--delta", "0", "--eta", "0.01,1", "--pi", "1:5:9", "--out", ".")
    assert done.code == 0, done.err
    dataset = assert_figure_files(tmp_path, "curve")
    assert {"bayes_mse_X", "bayes_mse_F", "amp_mse_X", "amp_mse_F"} <= set(dataset.data_vars)
    assert dict(dataset.sizes) == {"eta": 2, "pi": 9}


@pytest.mark.claims
@pytest.mark.parametrize("words", [("diagram", "--rho", "0.1:0.3:3"), ("curve", "--rho", "0.1", "--pi", "1:5:3")])
def test_figures_are_drawn_for_other_channels(run_cli: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_cli(*words, "--alpha", "0.5", "--eta", "0.1", "--channel", "clipped:low=-1,high=1,variance=1e-4", "--out", ".")
    assert done.code == 0, done.err
    dataset = assert_figure_files(tmp_path, words[0])
    assert dataset.attrs["channel"] == "Clipped(low=-1.0, high=1.0, variance=0.0001)"
    assert run_cli(*words, "--alpha", "0.5", "--channel", "poisson", "--delta", "0.1", "--out", ".").code == 2


@pytest.mark.parametrize("eta", ["0.5", "inf"])
def test_sample_writes_plain_arrays(run_cli: Run, tmp_path: Path, eta: str) -> None:
    words = ("--n", "20", "--alpha", "0.5", "--pi", "2", "--rho", "0.2", "--eta", eta, "--delta", "0.01", "--seed", "4", "--out", "a/i.npz")
    answer(run_cli("sample", *words, "--json"))
    with np.load(tmp_path / "a/i.npz", allow_pickle=False) as file:
        assert {"Y", "F_prime", "F", "X", "parameters"} <= set(file.files)
        about = json.loads(str(file["parameters"]))
        drawn = sp.sample(sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.2, eta=float(eta), noise_variance=0.01), 20, seed=4)
        np.testing.assert_array_equal(file["Y"], drawn.observed.Y)
        np.testing.assert_array_equal(file["X"], drawn.truth.X)
        assert np.all(np.isnan(file["F_prime"])) == (eta == "inf")
    assert (about["N"], about["M"], about["P"], about["seed"]) == (20, 10, 40, 4)
    assert about["eta"] == ("inf" if eta == "inf" else 0.5)


@pytest.mark.claims
def test_reproduce_draws_the_three_figures_of_the_theory(run_cli: Run, tmp_path: Path) -> None:
    figures = ("fig1", "fig2", "fig3")
    answers = [answer(run_cli("reproduce", name, "--out", "figures", "--json")) for name in figures]
    files = {Path(name).name for each in answers for name in each["files"]}
    assert {"fig1.png", "fig1.svg", "fig1.nc", "fig1.csv", "fig2.png", "fig2.nc", "fig3.png", "fig3.svg"} <= files
    figure1 = assert_figure_files(tmp_path / "figures", "fig1")
    # Known at eta = inf, rho = 0.2 and alpha = 0.5 (tests/golden/theory.json).
    assert float(figure1.pi_spinodal.sel(eta=np.inf, rho=0.2, method="nearest")) == pytest.approx(3.8419579860377873, rel=1e-6)
    assert float(abs(figure1.rho - 0.2).min()) < 1e-12
    assert_figure_files(tmp_path / "figures", "fig2")


def test_figures_go_to_out_if_nothing_else_is_said(run_cli: Run, tmp_path: Path) -> None:
    assert answer(run_cli("reproduce", "fig3", "--json"))["files"] == ["out/fig3.png", "out/fig3.svg"]
    answer(run_cli("diagram", "--alpha", "0.5", "--density", "0.1:0.4:3", "--eta", "0.1,inf", "--json"))
    answer(run_cli("curve", "--alpha", "0.5", "--density", "0.2", "--pi", "1:5:3", "--eta", "1", "--json"))
    assert {"diagram.png", "curve.nc"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_both_spellings_of_the_parameters(run_cli: Run) -> None:
    long = ("--density", "0.2", "--noise-variance", "0.1")
    short = ("--rho", "0.2", "--delta", "0.1")
    first, second = (answer(run_cli("theory", "--alpha", "0.5", "--pi", "3", *words, "--json")) for words in (long, short))
    assert first == second
