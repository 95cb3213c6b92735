"""What a killed process leaves beside a file goes when the file is next written; what others are writing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spinodal as sp
from spinodal import files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks")
# A process that is killed half way through a file.
KILLED = """
import os, signal, sys
from pathlib import Path
from spinodal.files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def left(path: Path) -> Path:
    """What a killed writer leaves: a file without a lock."""
    temporary, lock = files._temporary(path)
    assert lock is not None
    os.close(lock)
    return temporary


def test_a_killed_process_leaves_a_file_until_the_next_save(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert len(hidden(tmp_path)) == 1  # the second has removed what the first left
        assert not path.exists()
    sp.DictionaryLearner(2).save(path)
    assert hidden(tmp_path) == []
    assert sp.DictionaryLearner.load(path).n_components == 2


def test_files_of_others_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "a.npz", tmp_path / "b.npz"
    mine, theirs = left(path), left(other)
    mine.write_bytes(b"half")
    link = mine.with_name(mine.name + "link")  # not one that we make
    link.symlink_to(other)
    with files.whole_file(path) as first:  # two at a time: each ends whole, the last to end counts
        assert not mine.exists()
        with files.whole_file(path) as second:
            assert first.exists()
            second.write_bytes(b"second")
        assert path.read_bytes() == b"second"
        first.write_bytes(b"first")
    assert path.read_bytes() == b"first"
    assert sorted(hidden(tmp_path)) == sorted([theirs, link])


def test_a_file_that_is_taken_away_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, mkstemp = [], files.tempfile.mkstemp

    def taken(**options: str) -> tuple[int, str]:
        made.append(mkstemp(**options))
        if len(made) == 1:
            os.unlink(made[0][1])
        return made[-1]

    monkeypatch.setattr(files.tempfile, "mkstemp", taken)
    with files.whole_file(tmp_path / "x.npz") as temporary:
        np.savez(temporary, a=1)
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_the_longest_names_can_be_written(tmp_path: Path) -> None:
    for name in ("é" * 127, "a." + "b" * 253):
        with files.whole_file(tmp_path / name) as temporary:
            temporary.write_bytes(b"all")
        assert (tmp_path / name).read_bytes() == b"all"
    assert hidden(tmp_path) == []
