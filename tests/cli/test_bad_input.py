"""Bad input: one sentence on standard error, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

THEORY = {"--alpha": "0.5", "--pi": "3", "--rho": "0.2", "--eta": "1", "--delta": "0"}
DIAGRAM = {"--alpha": "0.5", "--delta": "0", "--eta": "1,inf", "--rho": "0.1:0.4:3", "--out": "out"}
CURVE = {"--alpha": "0.5", "--rho": "0.2", "--delta": "0", "--eta": "1", "--pi": "1:5:3", "--out": "out"}
SAMPLE = {"--n": "10", "--alpha": "0.5", "--pi": "2", "--rho": "0.2", "--eta": "1", "--delta": "0", "--out": "i.npz"}
DEFAULTS = {"theory": THEORY, "diagram": DIAGRAM, "curve": CURVE, "sample": SAMPLE}

CASES = [
    *(("theory", "--rho", value, "rho") for value in ("0", "1", "1.2", "nan", "dense", "-0.1")),
    ("theory", "--delta", "-1e-3", "noise variance"),
    ("theory", "--delta", "nan", "delta"),
    *(("theory", "--alpha", value, "alpha") for value in ("0", "-1", "inf")),
    ("theory", "--pi", "0", "pi"),
    *(("theory", "--eta", value, "eta") for value in ("-1", "nan", "some")),
    ("theory", "--gamma", "1", "--gamma"),
    *(("diagram", "--rho", value, "rho") for value in ("0.1:0.4", "0.4:0.1:5", "0.1:0.4:0", "0.1:0.4:x", "0:1:5", "a:b:c", "")),
    ("diagram", "--eta", "1,-1", "eta"),
    ("diagram", "--eta", ",", "eta"),
    *(("curve", "--pi", value, "pi") for value in ("1:5:2.5", "-1:5:3", "1:inf:3", "::")),
    ("curve", "--rho", "1.2", "rho"),
    ("sample", "--n", "0", "n"),
    ("sample", "--n", "ten", "--n"),
    ("sample", "--seed", "-1", "seed"),
    ("sample", "--out", "instance.txt", "out"),
]


# One process for all the cases: each costs an import of JAX otherwise. Every case is still a whole run of main().
RUNNER = """
import contextlib, io, json, sys, traceback
from spinodal.cli import main
for line in sys.stdin:
    out, err, code = io.StringIO(), io.StringIO(), None
    sys.argv = ["spinodal", *json.loads(line)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        except BaseException:
            traceback.print_exc()
            code = 1
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory):
    import json

    where = tmp_path_factory.mktemp("empty")
    process = subprocess.Popen([sys.executable, "-c", RUNNER], cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(words: list[str]) -> tuple[int, str, str, Path]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
        code, out, err = json.loads(process.stdout.readline())
        return code, out, err, where

    yield run
    process.stdin.close()
    process.wait(timeout=30)


def assert_refused(result: tuple[int, str, str, Path], word: str) -> None:
    code, out, err, where = result
    assert code == 2, err
    assert out == ""
    assert err.count("\n") == 1  # one line ...
    assert err.startswith("spinodal: ")
    assert err.endswith((".\n", "?\n"))  # ... that is a sentence
    assert word in err
    assert "Traceback" not in err
    assert list(where.iterdir()) == []


@pytest.mark.parametrize(("command", "option", "value", "word"), CASES)
def test_refused_in_one_sentence(runner, command: str, option: str, value: str, word: str) -> None:
    options = {**DEFAULTS[command], option: value}
    assert_refused(runner([command, *(part for pair in options.items() for part in pair)]), word)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["reproduce", "fig9", "--out", "out"], "fig9"),
        (["reproduce"], "argument"),
        (["prophesy"], "prophesy"),
        (["theory", "--alpha", "0.5"], "--pi"),
    ],
)
def test_unknown_and_missing_names(runner, words: list[str], word: str) -> None:
    assert_refused(runner(words), word)


def test_a_directory_that_can_not_be_written(runner, tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    for command in ("diagram", "curve"):
        options = {**DEFAULTS[command], "--out": str(blocked / "out")}
        assert_refused(runner([command, *(part for pair in options.items() for part in pair)]), "out")
    options = {**SAMPLE, "--out": str(blocked / "i.npz")}
    assert_refused(runner(["sample", *(part for pair in options.items() for part in pair)]), "out")
    assert_refused(runner(["reproduce", "fig3", "--out", str(blocked)]), "out")
    assert blocked.read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(runner, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert_refused(runner(["reproduce", "fig3", "--out", str(locked)]), "out")
    assert list(locked.iterdir()) == []


def test_the_real_command_exits_with_two(tmp_path: Path) -> None:
    words = [part for pair in {**THEORY, "--rho": "1.2"}.items() for part in pair]
    command = [sys.executable, "-c", "from spinodal.cli import main; main()", "theory", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert_refused((done.returncode, done.stdout, done.stderr, tmp_path), "rho must be a number in (0, 1), but 1.2 was given")
