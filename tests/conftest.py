"""Shared by all tests. Being here, it also makes the helper modules beside it (zoo, oracle) importable from every test folder."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

# Compiled functions are shared by all processes of a test run, and kept for the next. Read when JAX is first imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Most of a test's time is compilation. Code that is not optimised takes half of that, and runs little slower at these sizes; the demo and
# the gallery of the documentation run what users run.
QUICKLY = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_cpu_use_fusion_emitters": "false",
}


def known(flags: dict[str, str]) -> str:
    """Those of the flags that the installed XLA knows: it ends a process that gives it another."""
    library = Path(find_spec("jaxlib").submodule_search_locations[0], "libjax_common.so")
    if not library.exists():
        return ""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return " ".join(f"--{name}={value}" for name, value in flags.items() if text.find(name.encode()) >= 0)


if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = known(QUICKLY)

# Files that take longest go first, so that no process is left with one of them while the others are done.
LONGEST = (
    "test_docs.py",
    "test_every_solver.py",
    "test_dictionary.py",
    "test_hostile_input.py",
    "test_models.py",
    "test_learning.py",
    "test_relatives.py",
    "test_docstrings.py",
    "test_checks.py",
)

# One process serves all the commands: each would import JAX and compile anew otherwise. Every line is a whole run of main().
SERVER = """
import contextlib, io, json, os, sys, traceback
from spinodal.cli import main
for line in sys.stdin:
    where, words = json.loads(line)
    os.chdir(where)
    out, err, code = io.StringIO(), io.StringIO(), None
    sys.argv = ["spinodal", *words]
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


class Done(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def _server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=30)


@pytest.fixture
def spinodal_command(_server: subprocess.Popen[str], tmp_path: Path) -> Callable[..., Done]:
    """spinodal_command("theory", "--alpha", ...) runs the command in the test's own empty directory."""

    def run(*words: str) -> Done:
        assert _server.stdin is not None
        assert _server.stdout is not None
        _server.stdin.write(json.dumps([str(tmp_path), words]) + "\n")
        _server.stdin.flush()
        return Done(*json.loads(_server.stdout.readline()))

    return run
