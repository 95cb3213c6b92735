"""Names and text as users, and others, write them: brackets, bytes that are no text, names too long, files nested too deeply."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import spinodal as sp
from conftest import Done
from spinodal.cli import main, output

Run = Callable[..., Done]

LONG = "a" * 300
SPEC = "N = 6\nmax_iterations = 3\n{}\n[grid]\nalpha = 0.5\npi = 2.0\nrho = 0.1\n{}"
SOLVE = ("--eta", "0.1", "--density", "0.1", "--noise-variance", "0.01", "--max-iter", "5", "--lenient")


def assert_one_sentence(done: Done, *words: str) -> None:
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("spinodal: ")
    assert done.err.count("\n") == 1
    assert len(done.err) < 600
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("solve", f"{LONG}.npz"),
        ("solve", "in.npz", *SOLVE, "--out", f"{LONG}.npz"),
        ("solve", "in.npz", *SOLVE, "--out", f"folder/{LONG}/sol.npz"),
        ("solve", "in.npz", *SOLVE, "--report", f"{LONG}.html"),
        ("solve", "in.npz", *SOLVE, "--checkpoint", f"{LONG}.npz"),
        ("solve", "in.npz", *SOLVE, "--f-prime", f"{LONG}.npz"),
        ("sample", "--n", "10", "--alpha", "1", "--pi", "2", "--rho", "0.1", "--out", f"folder/{LONG}.npz"),
        ("diagram", "--alpha", "0.5", "--rho", "0.1:0.2:2", "--out", f"folder/{LONG}"),
        ("sweep", "run", f"{LONG}.toml", "--out", "out"),
        ("sweep", "status", LONG),
        ("sweep", "resume", LONG),
        ("sweep", "export", LONG, "--out", "x.csv"),
        ("sweep", "export", LONG, "--out", "x.nc"),
        ("sweep", "figure", LONG),
    ],
)
def test_names_that_no_file_can_have(run_cli: Run, measurements: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert_one_sentence(run_cli(*words), "at most 255 bytes")
    assert list(tmp_path.iterdir()) == [measurements]


@pytest.mark.parametrize("words", [("solve", "in.npz", "--out"), ("sweep", "export", "sweep", "--out")])
def test_a_long_name_is_cut_where_it_is_repeated(run_cli: Run, measurements: Path, words: tuple[str, ...]) -> None:
    assert_one_sentence(run_cli(*words, "9" * 5000), "out must be a file name ending in .n")


def test_a_name_too_long_for_what_is_added_to_it(run_cli: Run, measurements: Path, tmp_path: Path) -> None:
    measurements.rename(tmp_path / f"{'b' * 245}.npz")
    assert_one_sentence(run_cli("solve", f"{'b' * 245}.npz", *SOLVE), "out must have names of at most 255 bytes")


@pytest.mark.parametrize("name", ["[red]", "[/]", "[/red]x[b", "x\\[", "a\x1b[31m"])
def test_brackets_are_no_markup(name: str, run_cli: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    escaped = name.encode("unicode_escape").decode() if "\x1b" in name else name.replace("\\", "\\\\")
    (tmp_path / "s.toml").write_text(SPEC.format(f"name = '{name}'" if "\x1b" not in name else 'name = "a\\u001b[31m"', ""))
    done = run_cli("sweep", "run", "s.toml", "--out", "out", "--executor", "in-process")
    assert done.code == 0, done.err
    assert (escaped if "\x1b" in name else name) in done.out
    assert "\x1b" not in done.out


@pytest.mark.usefixtures("without_figures")
def test_brackets_in_names_of_files(run_cli: Run, measurements: Path, tmp_path: Path) -> None:
    measurements.rename(tmp_path / "x[red][.npz")
    done = run_cli("solve", "x[red][.npz", *SOLVE, "--out", "[b].npz", "--report", "[b].html")
    assert done.code == 0, done.err
    assert "are in [b].npz." in done.out
    assert {path.name for path in tmp_path.iterdir()} == {"x[red][.npz", "[b].npz", "[b].html"}


def test_bars_show_brackets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress_bar("[/]") as progress:
        progress(1, 2)
    assert "[/]" in terminal.getvalue()


@pytest.mark.usefixtures("without_figures")
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_names_that_are_no_text(instance: sp.Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a standard output as strict as a terminal's."""
    name = os.fsdecode(b"\xff\xfe.npz")
    np.savez(tmp_path / name, Y=instance.observed.Y, F_prime=instance.observed.F_prime)
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit) as stop:
        main(["solve", name, *SOLVE, "--report", "r.html"])
    assert stop.value.code == 0
    terminal.flush()
    assert rb"are in \udcff\udcfe-spinodal.npz." in terminal.buffer.getvalue()
    assert {os.fsdecode(b"\xff\xfe-spinodal.npz"), "r.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"Y.npy": b"hello"}, "'Y' in 'in.npz' is not one"),
        ({"Y": b"hello"}, "'Y' in 'in.npz' is not one"),
        ({"readme.txt": b"hello"}, "holds nothing"),
        ({"parameters": b"hello"}, "'parameters' in 'in.npz' is not one"),
        ({"Y.npy": b"\x93NUMPY"}, "FILE must be a whole .npz file"),
        ({"Y.npy": b"\x93NUMPY\x09\x09"}, "FILE must be a whole .npz file"),
    ],
)
def test_members_that_are_no_arrays(run_cli: Run, tmp_path: Path, members: dict[str, bytes], word: str) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    assert_one_sentence(run_cli("solve", "in.npz", "--n-atoms", "3"), word)


def test_a_note_beside_the_arrays_is_left_alone(run_cli: Run, measurements: Path) -> None:
    with zipfile.ZipFile(measurements, "a") as file:
        file.writestr("readme.txt", "measured on a Monday")
    assert run_cli("solve", "in.npz", *SOLVE).code == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("x = " + "{ a = " * 20_000, "nested too deeply"),
        ("x" + ".a" * 20_000 + " = 1", "nested too deeply"),
        ("[grid" + " . 'a'" * 20_000 + "]", "nested too deeply"),
        (SPEC.format("", "").replace("2.0", "[" * 90 + "]" * 90), "pi must be a number"),
        (SPEC.format("name = ['a']", ""), "name must be text"),
        (SPEC.format("", "[[solver]]\nmethod = 'amp'\nlearn = 3"), "learn must be a list"),
        (SPEC.format("", "[[solver]]\nmethod = [1]"), "method"),
        (SPEC.format("seed = 1979-05-27", ""), "seed must be"),
    ],
)
def test_specs_that_are_odd(run_cli: Run, tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    assert_one_sentence(run_cli("sweep", "run", "s.toml", "--out", "out"), word)
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


def test_a_spec_that_is_no_text_of_a_person(run_cli: Run, tmp_path: Path) -> None:
    with (tmp_path / "s.toml").open("wb") as file:
        file.truncate(10**11)
    assert_one_sentence(run_cli("sweep", "run", "s.toml", "--out", "out"), "at most 1000000 bytes")
    os.truncate(tmp_path / "s.toml", 0)


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--rho", "1e-300", "density must be a number in [1e-50, 1)"),
        ("--rho", "5e-324", "density must be"),
        ("--delta", "5e-324", "noise_variance must be 0 or in [1e-50, 1e+50]"),
        ("--delta", "1e300", "noise_variance must be 0 or in"),
        ("--alpha", "1e300", "alpha must be a number in [1e-50, 1e+50]"),
        ("--pi", "1e-300", "pi must be a number in"),
        ("--observed", "1e-300", "observed_fraction must be a number in"),
    ],
)
def test_numbers_beyond_the_range_of_the_theory(run_cli: Run, option: str, value: str, word: str) -> None:
    given = {"--alpha": "0.5", "--pi": "3", "--rho": "0.2", "--eta": "1", option: value}
    assert_one_sentence(run_cli("theory", *(part for pair in given.items() for part in pair)), word)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("option", "value"), [("rho", 1e-50), ("noise_variance", 1e-50), ("noise_variance", 1e50), ("alpha", 1e50), ("pi", 1e50), ("pi", 1e-50)]
)
def test_the_ends_of_that_range_are_computed(option: str, value: float) -> None:
    """With errors between nothing and all: exact recovery without noise, none where noise drowns everything."""
    problem = sp.Problem.sparse(**{"alpha": 0.5, "pi": 3.0, "rho": 0.2, "eta": 1.0, "noise_variance": 0.0, option: value})
    error = sp.amp_mse(problem).mse.X / problem.prior.X.rho
    assert 0 <= error <= 1
    if value == 1e50:
        assert error == pytest.approx(1.0 if option == "noise_variance" else 0.0)
