"""Bad input: one sentence on standard error, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Done

Run = Callable[..., Done]

THEORY = {"--alpha": "0.5", "--pi": "3", "--rho": "0.2", "--eta": "1", "--delta": "0"}
DIAGRAM = {"--alpha": "0.5", "--delta": "0", "--eta": "1,inf", "--rho": "0.1:0.4:3", "--out": "out"}
CURVE = {"--alpha": "0.5", "--rho": "0.2", "--delta": "0", "--eta": "1", "--pi": "1:5:3", "--out": "out"}
SAMPLE = {"--n": "10", "--alpha": "0.5", "--pi": "2", "--rho": "0.2", "--eta": "1", "--delta": "0", "--out": "i.npz"}
DEFAULTS = {"theory": THEORY, "diagram": DIAGRAM, "curve": CURVE, "sample": SAMPLE}

CASES = [
    *(("theory", "--rho", value, "density must be") for value in ("0", "1", "1.2", "nan", "dense", "-0.1")),
    ("theory", "--delta", "-1e-3", "noise_variance must be"),
    ("theory", "--noise-variance", "nan", "noise_variance must be"),
    *(("theory", "--alpha", value, "alpha") for value in ("0", "-1", "inf")),
    ("theory", "--pi", "0", "pi"),
    *(("theory", "--eta", value, "eta") for value in ("-1", "nan", "some")),
    ("theory", "--gamma", "1", "--gamma"),
    *(("diagram", "--rho", value, "density") for value in ("0.1:0.4", "0.4:0.1:5", "0.1:0.4:0", "0.1:0.4:x", "0:1:5", "a:b:c", "")),
    ("diagram", "--eta", "1,-1", "eta"),
    ("diagram", "--eta", ",", "eta"),
    *(("curve", "--pi", value, "pi") for value in ("1:5:2.5", "-1:5:3", "1:inf:3", "::")),
    ("curve", "--density", "1.2", "density must be"),
    ("sample", "--n", "0", "n"),
    ("sample", "--n", "ten", "--n"),
    ("sample", "--seed", "-1", "seed"),
    ("sample", "--out", "instance.txt", "out"),
]


def assert_refused(done: Done, word: str, where: Path) -> None:
    code, out, err = done
    assert code == 2, err
    assert out == ""
    assert err.count("\n") == 1  # one line ...
    assert err.startswith("spinodal: ")
    assert err.endswith((".\n", "?\n"))  # ... that is a sentence
    assert word in err
    assert "Traceback" not in err
    assert list(where.iterdir()) == []


def flat(options: dict[str, str]) -> list[str]:
    return [part for pair in options.items() for part in pair]


@pytest.mark.parametrize(("command", "option", "value", "word"), CASES)
def test_refused_in_one_sentence(run_cli: Run, tmp_path: Path, command: str, option: str, value: str, word: str) -> None:
    assert_refused(run_cli(command, *flat({**DEFAULTS[command], option: value})), word, tmp_path)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["reproduce", "fig9", "--out", "out"], "fig9"),
        (["reproduce"], "argument"),
        (["prophesy"], "prophesy"),
        (["theory", "--alpha", "0.5"], "--pi"),
    ],
)
def test_unknown_and_missing_names(run_cli: Run, tmp_path: Path, words: list[str], word: str) -> None:
    assert_refused(run_cli(*words), word, tmp_path)


def test_a_directory_that_can_not_be_written(run_cli: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    blocked = tmp_path_factory.mktemp("elsewhere") / "a file"
    blocked.write_text("in the way")
    for command, name in (("diagram", "out"), ("curve", "out"), ("sample", "i.npz")):
        assert_refused(run_cli(command, *flat({**DEFAULTS[command], "--out": str(blocked / name)})), "out", tmp_path)
    assert_refused(run_cli("reproduce", "fig3", "--out", str(blocked)), "out", tmp_path)
    assert blocked.read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(run_cli: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    locked = tmp_path_factory.mktemp("elsewhere") / "locked"
    locked.mkdir(mode=0o500)
    assert_refused(run_cli("reproduce", "fig3", "--out", str(locked)), "out", tmp_path)
    assert list(locked.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that refuses everyone")
@pytest.mark.parametrize("out", ["/proc", "/proc/nowhere"])
def test_a_directory_that_not_even_root_can_write(out: str, run_cli: Run, tmp_path: Path) -> None:
    assert_refused(run_cli("reproduce", "fig3", "--out", out), "out must be a directory that can be written", tmp_path)


def test_the_real_command_exits_with_two(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spinodal", "--no-cache", "theory", *flat({**THEORY, "--rho": "1.2"})]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert_refused(Done(done.returncode, done.stdout, done.stderr), "density must be a number in (0, 1), but 1.2 was given", tmp_path)
