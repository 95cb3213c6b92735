"""The command line in the test's own process: compiled functions and imports are shared by all tests."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import spinodal as sp
from draws import draw
from spinodal.cli import main

# One small shape for all tests, so that it is compiled once: M = 12, N = 20, P = 60.
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)


class Done(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """run_cli("theory", "--alpha", ...) runs the command in the test's own empty directory, as a user would in a pipe."""

    def run(*words: str) -> Done:
        monkeypatch.chdir(tmp_path)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
            main(words)
        assert isinstance(stop.value.code, int)
        return Done(stop.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def instance() -> sp.Instance:
    """The data that most tests solve, and the truth."""
    return draw(PROBLEM, 20, seed=5)


@pytest.fixture
def measurements(instance: sp.Instance, tmp_path: Path) -> Path:
    """A file in the test's directory with Y and F_prime."""
    return write(tmp_path / "in.npz", Y=instance.observed.Y, F_prime=instance.observed.F_prime)


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path
