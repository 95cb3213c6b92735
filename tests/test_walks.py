"""How far a call goes through the house, and which questions are asked only in their own room."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "spinodal"


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import walk

    walk.import_everything()
    yield walk
    del sys.modules["walk"]


def test_an_iteration_passes_few_modules(walk) -> None:  # type: ignore[no-untyped-def]
    passed = walk.of_an_iteration()
    assert len(passed) <= 8, passed
    assert "spinodal.inference.messages.update" in passed  # the tool sees what is passed


def test_a_command_passes_no_more_modules_than_it_did(walk, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    passed = walk.of_a_command()
    assert '"status"' in capsys.readouterr().out
    # Two of them look for what is suspicious in the data and the fit; three make several runs, compare them and count what they agree on;
    # one tells names from numbers in tables, of text and of Parquet; one writes files whole, for results, checkpoints and estimators alike;
    # one learns parameters again from data drawn with them; one looks for the nonzeros of signals that a run left unsolved.
    assert len(passed) <= 50, passed
    assert {"spinodal.inference.execution.runs", "spinodal.inference.search.population", "spinodal.inference.search.vote"} <= set(passed)
    assert {"spinodal.io.read", "spinodal.io.write"} <= set(passed)


def lines(*folders: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix().startswith(folders):
            yield from ((path.relative_to(SOURCE), line) for line in path.read_text().splitlines())


def test_only_execution_asks_about_the_machine() -> None:
    asked = re.compile(r"default_backend|\bplatform\(\)|\.platform\b|jax\.devices\(\)\[0\]|compute_capability|memory_stats")
    elsewhere = {str(path) for path, line in lines("") if asked.search(line) and not str(path).startswith("inference/execution/")}
    assert not elsewhere
    assert any(asked.search(line) for _, line in lines("inference/execution/"))


def test_messages_and_theory_know_no_noise_variance() -> None:
    """A channel speaks through its averages and its output. The paper's printed potential is for Gaussian noise, and says so."""
    known = re.compile(r"channel\.variance|noise_variance|GaussianNoise")
    code = (
        (path, line.split("#")[0])
        for path, line in lines("inference/messages", "inference/solvers/amp", "inference/loop", "theory/")
        if ">>>" not in line
    )
    assert {str(path) for path, line in code if known.search(line)} <= {"theory/potential.py", "theory/diagram.py"}
