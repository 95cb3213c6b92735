"""spinodal solve: from file to file, and what it does with files that are wrong and with Ctrl-C."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from conftest import Done
from draws import draw
from spinodal.cli import main
from spinodal.cli.output import between_iterations
from spinodal.inference.solution import Status
from spinodal.io.write import whole_file
from spinodal.report.solution import NEXT_STEP, WITH_F_PRIME

Run = Callable[..., Done]
# The instance of the fixtures, which a list of parameters can't have.
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)
INSTANCE = draw(PROBLEM, 20, seed=5)
ARRAYS = {"Y": INSTANCE.observed.Y, "F_prime": INSTANCE.observed.F_prime}
TRUTH = {"F": INSTANCE.truth.F, "X": INSTANCE.truth.X}
PARAMETERS = ("--rho", "0.1", "--delta", "1e-2", "--eta", "0.1")


def write(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_a_file_in_a_file_out(run_cli: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "in.npz", **ARRAYS, **TRUTH)
    done = run_cli("solve", str(file), *PARAMETERS, "--out", "sol.npz", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["status"] == "converged"
    assert report["trusted"] is True
    assert report["next_step"]
    assert report["residual"] > 0
    assert report["seconds"] > 0
    assert report["parameters"] == {"density": 0.1, "noise_variance": 1e-2, "eta": 0.1}
    assert report["learned"] == []
    assert set(report["predicted"]) == {"mse_F", "mse_X", "scale_floor"}
    solution = sp.solve(INSTANCE.observed, PROBLEM)
    assert report["iterations"] == solution.iterations
    found = sp.score(solution.mean, INSTANCE.truth)
    for name, value in (("mse_F", found.mse.F), ("mse_X_scaled", found.mse_scaled.X), ("atoms_recovered", found.atoms_recovered)):
        assert report[name] == pytest.approx(value, rel=1e-6)
    with np.load(tmp_path / "sol.npz") as saved:
        assert np.allclose(saved["F_mean"], solution.mean.F)
        assert np.allclose(saved["X_var"], solution.variance.X)
        assert saved["trace_residual"].shape == (report["iterations"],)
        assert np.all(np.isfinite(saved["trace_level"]))
        assert json.loads(str(saved["parameters"]))["density"] == 0.1


def test_a_sampled_file_says_its_own_parameters(run_cli: Run, tmp_path: Path) -> None:
    size = ("--n", "20", "--alpha", "0.6", "--pi", "3", "--rho", "0.1", "--eta", "0.1", "--delta", "1e-2", "--seed", "5")
    assert run_cli("sample", *size, "--out", "i.npz").code == 0
    done = run_cli("solve", "i.npz", "--out", "sol.npz", "--method", "mu-amp")
    assert done.code == 0, done.err
    assert "converged" in done.out
    assert "density of X, given" in done.out
    assert NEXT_STEP[Status.CONVERGED] in done.out
    assert (tmp_path / "sol.npz").exists()


@pytest.mark.parametrize("method", ["lasso", "big-amp", "relaxed-bp"])
def test_every_method(run_cli: Run, tmp_path: Path, method: str) -> None:
    file = write(tmp_path / "in.npz", **ARRAYS)
    done = run_cli("solve", str(file), *PARAMETERS, "--method", method, "--out", "sol.npz", "--lenient", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["method"] == method
    assert "mse_F" not in json.loads(done.out)


def spoiled(name: str, value: float) -> dict[str, np.ndarray]:
    copy = {key: array.copy() for key, array in ARRAYS.items()}
    copy[name][0, 0] = value
    return copy


BAD_ARRAYS: dict[str, tuple[dict[str, object], str]] = {
    "NaN": (spoiled("Y", np.nan), "Y"),
    "inf": (spoiled("Y", np.inf), "Y"),
    "NaN in F_prime": (spoiled("F_prime", np.nan), "F_prime"),
    "shapes": ({**ARRAYS, "F_prime": ARRAYS["F_prime"][1:]}, "F_prime"),
    "no Y": ({"F_prime": ARRAYS["F_prime"]}, "Y"),
    "no F_prime": ({"Y": ARRAYS["Y"]}, "F_prime"),
    "complex": ({**ARRAYS, "Y": ARRAYS["Y"] + 0j}, "Y"),
    "text": ({**ARRAYS, "Y": ARRAYS["Y"].astype(str)}, "Y"),
    "a vector": ({**ARRAYS, "Y": ARRAYS["Y"][0]}, "Y"),
    "a batch": ({"Y": ARRAYS["Y"][None], "F_prime": ARRAYS["F_prime"][None]}, "Y"),
    "empty": ({**ARRAYS, "Y": ARRAYS["Y"][:, :0]}, "Y"),
    "a mask that doesn't fit": ({**ARRAYS, "mask": np.ones(3)}, "mask"),
    "a dead sensor": ({**ARRAYS, "Y": np.where(np.arange(12)[:, None] == 4, 0.5, ARRAYS["Y"])}, "row 5 of"),
    "all zero": ({**ARRAYS, "Y": 0 * ARRAYS["Y"]}, "row 1 of"),
    "huge": (spoiled("Y", 1e16), "1e+16"),
    "pickled": ({**ARRAYS, "Y": np.array([[{}, None]], dtype=object)}, "pickled"),
    "truth that doesn't fit": ({**ARRAYS, "F": TRUTH["F"], "X": TRUTH["X"][1:]}, "F and X"),
    "truth that is NaN": ({**ARRAYS, "F": TRUTH["F"] * np.nan, "X": TRUTH["X"]}, "F must"),
}


def assert_refused(done: Done, word: str, where: Path, left: list[str]) -> None:
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("spinodal: ")
    assert done.err.endswith(".\n")
    assert word in done.err
    assert sorted(path.name for path in where.iterdir()) == left


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_bad_arrays_are_refused_in_one_sentence(run_cli: Run, tmp_path: Path, what: str) -> None:
    contents, word = BAD_ARRAYS[what]
    file = write(tmp_path / "in.npz", **contents)
    done = run_cli("solve", str(file), *PARAMETERS, "--out", "new/sol.npz")
    assert_refused(done, word, tmp_path, ["in.npz"])


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "text":
        path.write_text("not an archive")
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "one array":
        with path.open("wb") as file:
            np.save(file, ARRAYS["Y"])
    elif how == "flipped bytes":
        middle = len(whole) // 3
        path.write_bytes(whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 64]) + whole[middle + 64 :])
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("Y.npy", b"\x93NUMPY\x01\x00 forged")


@pytest.mark.parametrize("how", ["truncated", "text", "empty", "one array", "flipped bytes", "forged"])
def test_damaged_files_are_refused_in_one_sentence(run_cli: Run, tmp_path: Path, how: str) -> None:
    file = write(tmp_path / "in.npz", **ARRAYS)
    damaged(file, how)
    assert_refused(run_cli("solve", str(file), *PARAMETERS, "--out", "sol.npz"), "FILE", tmp_path, ["in.npz"])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"--rho": "2"}, "density"),
        ({"--delta": "-1"}, "noise_variance"),
        ({"--eta": "nan"}, "eta"),
        ({"--method": "magic"}, "method"),
        ({"--max-iter": "0"}, "max_iterations"),
        ({"--n-atoms": "3"}, "n_atoms"),
        ({"--seed": "-1"}, "seed"),
        ({"--out": "sol.txt"}, "out"),
    ],
)
def test_bad_options(run_cli: Run, tmp_path: Path, changes: dict[str, str], word: str) -> None:
    file = write(tmp_path / "in.npz", **ARRAYS)
    options = {**dict(zip(PARAMETERS[::2], PARAMETERS[1::2], strict=True)), "--out": "sol.npz", **changes}
    done = run_cli("solve", str(file), *(part for pair in options.items() for part in pair))
    assert_refused(done, word, tmp_path, ["in.npz"])


def test_a_missing_file(run_cli: Run, tmp_path: Path) -> None:
    assert_refused(run_cli("solve", "nowhere.npz", *PARAMETERS, "--out", "sol.npz"), "nowhere.npz", tmp_path, [])


@pytest.mark.usefixtures("without_figures")
def test_a_result_that_can_not_be_trusted_has_an_exit_code_of_its_own(run_cli: Run, tmp_path: Path) -> None:
    """Pure noise, and too few iterations: the files are there, the status is honest, and the theory is not asked."""
    noise = np.random.default_rng(0).normal(size=ARRAYS["Y"].shape)
    file = write(tmp_path / "in.npz", Y=noise, F_prime=ARRAYS["F_prime"], **TRUTH)
    words = ("solve", str(file), *PARAMETERS, "--max-iter", "5", "--out", "sol.npz", "--report", "page.html", "--json")
    done = run_cli(*words)
    assert done.code == 3
    result = json.loads(done.out)
    assert result["status"] == "max_iterations"
    assert result["trusted"] is False
    assert result["next_step"].endswith(WITH_F_PRIME[Status.MAX_ITERATIONS])
    assert "predicted" not in result
    *warned, last = done.err.splitlines()
    assert all(line.startswith("warning: ") for line in warned)
    assert last.startswith("spinodal: the result can't be trusted: max_iterations, ")
    assert last.endswith(result["next_step"])
    with np.load(tmp_path / "sol.npz") as saved:
        assert np.all(np.isfinite(saved["X_mean"]))
    assert "There is no prediction" in (tmp_path / "page.html").read_text()
    lenient = run_cli(*words, "--lenient")
    assert lenient.code == 0
    assert lenient.err == done.err


def test_suspicious_data_are_warned_of_and_the_exit_code_is_that_of_the_status(run_cli: Run, tmp_path: Path) -> None:
    solve = ("solve", *PARAMETERS, "--out", "sol.npz", "--json")
    good = run_cli(*solve, str(write(tmp_path / "good.npz", **ARRAYS)))
    assert (good.code, json.loads(good.out)["warnings"], good.err) == (0, [], "")
    copied = np.hstack([ARRAYS["Y"][:, :-1], ARRAYS["Y"][:, :1]])  # the last signal is the first once more
    done = run_cli(*solve, str(write(tmp_path / "in.npz", Y=copied, F_prime=ARRAYS["F_prime"])))
    (warning,) = json.loads(done.out)["warnings"]
    assert done.code == 0
    assert warning.startswith("1 of the 60 signals is a copy")
    assert done.err == f"warning: {warning}.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("without_figures")
def test_stages_are_shown_on_a_terminal_as_they_come(measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("rich.status.Status.update", lambda self, words: seen.append(words))
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["solve", "in.npz", *PARAMETERS, "--report", "page.html", "--json"])
    assert stop.value.code == 0
    order = [name for name, _ in itertools.groupby(words.split()[0] for words in seen)]
    assert order[:3] == ["reading", "compiling", "iteration"]
    assert {"predicting", "writing"} <= set(order)


# A real run of the command that says when it is iterating: the parent then interrupts it.
# Python leaves interruptions alone where its parent ignores them, as shells do in the background.
INTERRUPTED = """
import signal
from contextlib import contextmanager
from spinodal.cli import main, output

@contextmanager
def watched():
    yield lambda stage, iteration, residual: print("iterating", flush=True) if iteration else None

output.stages = watched
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_an_interrupted_run_leaves_no_file(tmp_path: Path) -> None:
    file = write(tmp_path / "in.npz", **ARRAYS)
    (tmp_path / "sol.npz").write_text("an older result")
    # Tolerance is never met: the instance is solved for another density, with far too many iterations.
    words = ["solve", str(file), "--rho", "0.9", "--delta", "0", "--eta", "0.1", "--max-iter", "1000000", "--out", "sol.npz"]
    command = [sys.executable, "-c", INTERRUPTED, *words]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=here)
    assert process.stdout is not None
    assert process.stdout.readline() == "iterating\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "sol.npz"]
    assert (tmp_path / "sol.npz").read_text() == "an older result"


def interrupted_solve(interruptions: int, iterations: int) -> list[str]:
    """What happens in a solve that is interrupted so often at once and then iterates."""
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt), between_iterations(lambda *_: seen.append("iterated")) as progress:
        _iterate(progress, seen, interruptions, iterations)
    return seen


def _iterate(progress: Any, seen: list[str], interruptions: int, iterations: int) -> None:
    for _ in range(interruptions):
        signal.raise_signal(signal.SIGINT)
        seen.append("went on")
    for _ in range(iterations):
        progress("iterating", 1, 0.0)


@pytest.fixture
def usual_interruptions() -> Iterator[None]:
    """As Python has them; some libraries change that for the whole process when they are imported."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interruptions")
def test_an_interruption_is_raised_between_iterations_and_a_second_one_at_once() -> None:
    assert interrupted_solve(1, 2) == ["went on", "iterated"]
    assert interrupted_solve(2, 2) == ["went on"]
    assert interrupted_solve(1, 0) == ["went on"]  # after the last iteration: not lost either
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with between_iterations(None) as nothing:
        assert nothing is None


def test_an_interruption_while_writing_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "sol.npz"

    def interrupted() -> None:
        with whole_file(target) as temporary:
            temporary.write_bytes(b"half a fi")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.claims
def test_noise_variances_come_from_a_file_or_are_learned_for_each_row(run_cli: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "i.npz", **ARRAYS)
    np.savetxt(tmp_path / "noise.csv", np.full((12, 1), 1e-2))
    words = ("solve", str(file), "--rho", "0.1", "--eta", "0.1", "--json", "--lenient")
    one = json.loads(run_cli(*words, "--noise-variance", "noise.csv").out)
    assert one["parameters"].get("noise_variance") is None  # one for each row: no number says it
    rows = json.loads(run_cli(*words, "--noise-variance", "rows").out)
    assert rows["learned"] == ["row_variances"]
    np.savetxt(tmp_path / "noise.csv", np.full((5, 1), 1e-2))
    done = run_cli(*words, "--noise-variance", "noise.csv")
    assert done.code == 2
    assert "noise_variance must be a number, 12 x 1, 1 x 60 or 12 x 60" in done.err
