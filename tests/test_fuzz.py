"""Hundreds of spoiled inputs in a process of their own: no traceback, no hang, no half file, no more memory than there is, no code run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fuzzing

SCRIPT = Path(fuzzing.__file__)


@pytest.mark.claims
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory and sizes of files are Linux's to bound")
def test_no_spoiled_input_does_harm(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, end = map(json.loads, done.stdout.splitlines())
    assert not wrong, "\n".join(f"{each['case']}: {each['wrong']}" for each in wrong)
    assert sum(end["cases"].values()) >= 500
    assert len(end["cases"]) == 8
    assert end["accepted"] >= 50  # some are harmless: not everything is refused at the door


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are Linux's to tell")
def test_the_judge_sees_what_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that are planted: an exception, a hang, much memory, half a file, a temporary file, code that runs, a line of a warning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzzing, "SECONDS", 1)
    monkeypatch.setattr(fuzzing, "ALLOWED", 1e8)
    world = fuzzing.World(tmp_path)

    def left(name: str, content: bytes, code: int = 0, err: str = "") -> Callable[[], None]:
        def run(*_: str) -> fuzzing.Done:
            Path(name).write_bytes(content)
            return fuzzing.Done(code, "", err)

        def case() -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(world, "run", run)
                world.command("any")

        return case

    planted = {
        "ZeroDivisionError": lambda: 1 / 0,
        "Hang": lambda: all(number == 0 for number in iter(int, 1)),
        "MB": lambda: bytearray(b"x") * 200_000_000,
        "executed": world.canary.touch,
        "cut short": left("page.html", b"<html>"),
        "BadZipFile": left("solution.npz", b"PK\x03\x04"),
        "temporary file": left(".x.npz", b""),
        "refused": left("page.html", b"</html>\n", 2, "spinodal: no.\n"),
        "not a sentence": left("page.html", b"</html>\n", 0, "x.py:1: RuntimeWarning\n"),
        "exit code 1": left("page.html", b"</html>\n", 1, "Traceback\n"),
    }
    for word, case in planted.items():
        assert word in (fuzzing.judged(world, "planted", case) or ""), word
    assert fuzzing.judged(world, "planted", left("page.html", b"</html>\n")) is None
