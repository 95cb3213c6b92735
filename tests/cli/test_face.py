"""The face of the command line: help, version, completion, ways to call it, and what it imports before it must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import spinodal
from conftest import Done
from spinodal.cli import app

Run = Callable[..., Done]
TOP = typer.main.get_command(app)
COMMANDS = [(name,) for name in TOP.commands]  # type: ignore[attr-defined]
SWEEPS = [("sweep", name) for name in TOP.commands["sweep"].commands]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [(), *COMMANDS, *SWEEPS], ids=" ".join)
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_every_command_has_help(run_cli: Run, command: tuple[str, ...], word: str) -> None:
    done = run_cli(*command, word)
    assert done.code == 0
    assert done.err == ""
    assert done.out.startswith(f"Usage: {' '.join(('spinodal', *command))}")
    assert "-h, --help" in done.out


@pytest.mark.parametrize("group", [(), ("sweep",)], ids=["spinodal", "sweep"])
def test_a_bare_command_prints_its_help(run_cli: Run, group: tuple[str, ...]) -> None:
    bare, asked = run_cli(*group), run_cli(*group, "--help")
    assert bare == asked
    assert len(bare.out.splitlines()) > 10  # lines, not a paragraph


def test_the_help_says_the_exit_codes_and_the_switches(run_cli: Run) -> None:
    top = " ".join(run_cli("-h").out.split())
    for words in ("2 bad input", "3 the result of solve can't be trusted", "--no-cache", "SPINODAL_CACHE=0", "--install-completion"):
        assert words in top
    solve = " ".join(run_cli("solve", "-h").out.split())
    for words in ("--density, --rho", "--noise-variance, --delta", "--lenient", "exit code is 3", "FILE-spinodal.npz if left out"):
        assert words in solve


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version(run_cli: Run, word: str) -> None:
    assert run_cli(word) == Done(0, f"{spinodal.__version__}\n", "")


def in_a_process(*words: str, **variables: str) -> Done:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path)), **variables}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, check=False, env=here)
    return Done(done.returncode, done.stdout, done.stderr)


def test_python_m_spinodal(run_cli: Run) -> None:
    assert in_a_process("-m", "spinodal", "-h") == run_cli("-h")


def test_the_shell_completes_commands() -> None:
    asked = {"_SPINODAL_COMPLETE": "complete_bash", "COMP_WORDS": "spinodal the", "COMP_CWORD": "1"}
    done = in_a_process("-m", "spinodal", **asked)
    assert done.out.split() == ["theory"]
    # The shell is named, since tests may be run by something that is none.
    named = in_a_process("-m", "spinodal", "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_SPINODAL_COMPLETE" in named.out


HEAVY = {"jax", "scipy", "matplotlib", "xarray"}
REPORT = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr)); "
COMMAND = "from spinodal.cli import main; main({!r}.split())"
POINT = "theory --alpha 0.5 --pi 3 --rho 0.2 --eta 1 --delta 1e-6"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import spinodal; dir(spinodal)", HEAVY),
        (COMMAND.format("--help"), HEAVY),
        (COMMAND.format("solve --help"), HEAVY),
        (COMMAND.format(POINT), {"matplotlib", "xarray", "pandas"}),
    ],
    ids=["import", "help", "help of solve", "theory"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str, unwanted: set[str]) -> None:
    done = in_a_process("-c", REPORT + code)
    assert done.code == 0, done.err
    imported = set(json.loads(done.err))
    assert "spinodal" in imported
    assert imported & unwanted == set()


def test_the_entry_point_is_main(tmp_path: Path) -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"spinodal": "spinodal.cli:main"}
