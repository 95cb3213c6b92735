"""Shared by all tests. Being here, it also makes the helper modules beside it (zoo, oracle) importable from every test folder."""

from __future__ import annotations

import contextlib
import gc
import io
import mmap
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from spinodal.cache import default_directory, ready_directory

# Compiled functions are shared by all processes of a test run, and kept for the next, in whichever clone of the repository: half of a test
# run is compilation. They are beside those that users keep, and SPINODAL_CACHE=0 turns this off too. Read when JAX is first imported.
kept = default_directory()
kept = None if kept is None else ready_directory(kept.with_name(f"{kept.name}-tests"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(kept or Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Tests run side by side, one on each core: more threads of LAPACK or of XLA would wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")
# Most of a test's time is compilation. Code that is little optimised takes half of that, and runs little slower at these sizes; the demo
# and the gallery of the documentation run what users run.
QUICKLY = {
    "xla_backend_optimization_level": "1",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_multi_thread_eigen": "false",
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

# What is imported or compiled is never garbage, and looking through it again and again takes a good part of a long test run: it is not
# looked through while tests are collected, and afterwards only once.
gc.disable()

# Files that take longest go first, so that no process is left with one of them while the others are done.
LONGEST = (
    "test_tutorials.py",  # the documentation, built beside the tests, shows what came of them
    "test_docs.py",
    "test_every_channel.py",
    "test_sensors.py",
    "test_priors_recovered.py",
    "test_kills.py",
    "test_suspicions.py",
    "test_fuzz.py",
    "test_every_sensor.py",
    "test_every_prior.py",
    "test_docstrings.py",
    "test_center.py",
    "test_unequal_noise.py",
    "test_relatives.py",
    "test_runs.py",
    "test_report.py",
    "test_vote.py",
    "test_sharding.py",
    "test_every_solver.py",
    "test_limits.py",
    "test_inpaint.py",
    "test_dictionary.py",
    "test_models.py",
    "test_trajectory.py",
    "test_on_disk.py",
    "test_hostile_input.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def compiled_stays() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()


class Done(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int | str | None
    out: str
    err: str


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with empty figures: drawing takes most of their time, and tests of the words of a page have no need of it."""
    from spinodal.report import page

    monkeypatch.setattr(page, "_svg", lambda figure, label: f'<figure><svg role="img" aria-label="{page.escape(label)}"></svg></figure>\n')


@pytest.fixture
def spinodal_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """spinodal_command("theory", "--alpha", ...) runs the command in the test's own empty directory.

    It runs in this process, which has JAX imported and much compiled.
    """

    def run(*words: str) -> Done:
        from spinodal.cli import main

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["spinodal", *words])
        out, err, code = io.StringIO(), io.StringIO(), None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code
            except Exception:
                traceback.print_exc()
                code = 1
        return Done(code, out.getvalue(), err.getvalue())

    return run
