"""Spoiled files, options, specs, checkpoints, models, ledgers and requests, one after another in one process.

`python tests/fuzzing.py FOLDER [SEED [CASE]]` prints a line of JSON for each case that went wrong, then one that counts them all. A CASE is
a name from such a line, such as tables-17. A case may end in a result or in one sentence. It may not raise, take more than a minute or more
memory than was said to be there, leave half a file, or run anything that a file holds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fuzzed_cases
from spinodal import errors
from spinodal.errors import InputError
from spinodal.inference.execution import machine, runs

# What a machine is said to have, and what a case may take: that, and some for programs that it compiles.
ANNOUNCED, ALLOWED = 3e8, 4.5e8
SECONDS = 60
# Programs that may be compiled for shapes and options that come up by chance.
COMPILED = 10
CODES = (0, 2, 3)


class Enough(InputError):
    """Raised where everything was read and checked, and only a new program would have to be compiled."""


class Hang(BaseException):
    pass


class Done(NamedTuple):
    code: int
    out: str
    err: str


class World:
    """Where a case runs: an empty folder, a file that must not come to be, and the command line in this process."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root
        self.canary = root / "executed"
        self.solved: set[str] = set()
        self.compiled = self.accepted = 0
        self.guarded = False

    def enter(self, name: str) -> None:
        self.folder = self.root / "cases" / name
        self.folder.mkdir(parents=True)
        os.chdir(self.folder)

    def leave(self) -> None:
        os.chdir(self.root)
        shutil.rmtree(self.folder)

    def command(self, *words: str, before_work: bool = True) -> Done:
        """Run a command, and see that it ends as commands may end, with nothing half-written, and nothing at all if it was refused
        `before_work` was done."""
        before = self.files()
        done = self.run(*words)
        assert done.code in CODES, f"exit code {done.code}: {done.err[-300:]}"
        for line in done.err.splitlines():
            assert line.startswith(("spinodal: ", "warning: ")), f"not a sentence of ours: {line[:300]}"
            assert len(line) < 1000, f"a sentence of {len(line)} characters: {line[:300]}"
        self.accepted += done.code != 2
        if done.code == 2:
            assert done.err.endswith((".\n", "?\n")), f"no sentence: {done.err[-300:]!r}"
            assert done.out == "", "something was printed before the refusal"
        for path in self.files().keys() - before.keys():
            refused = before_work and done.code == 2 and path.suffix != ".lock"  # which is held while a ledger is looked at
            assert not refused, f"{path} was left by a command that was refused"
            check_whole(path)
        return done

    def run(self, *words: str) -> Done:
        from spinodal.cli import main

        out, err, code = io.StringIO(), io.StringIO(), None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
            except SystemExit as stop:
                code = stop.code
        assert isinstance(code, int)
        return Done(code, out.getvalue(), err.getvalue())

    def files(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.folder.rglob("*") if path.is_file()}

    def guard(self) -> None:
        """Bound what is compiled, and say that there is little memory."""
        solve_group = runs.solve_group

        def guarded(
            plan: Any, observed: Any, model: Any, keys: Any, wishes: Any, placement: Any, saved: Any = None, start: Any = None
        ) -> Any:
            shapes = [np.shape(value) for value in observed if value is not None]
            key = repr((plan, shapes, observed.mask is None, start is None, type(model.knowledge), wishes.strong))
            if key not in self.solved:
                self.compiled += self.guarded
                if self.compiled > COMPILED:
                    raise Enough("the case must be solved with programs that are there, but it needs another.")
                self.solved.add(key)
            return solve_group(plan, observed, model, keys, wishes, placement, saved, start)

        runs.solve_group = guarded  # type: ignore[assignment]
        for module in (errors, machine):
            module.host_memory = lambda: ANNOUNCED  # type: ignore[attr-defined]


def check_whole(path: Path) -> None:
    """Fail unless a file that a command left is complete."""
    assert not path.name.startswith("."), f"{path} is a temporary file that was left"
    kind = path.suffix
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as file:
            assert [file[name] for name in file.files], f"{path} is empty"
    elif kind == ".nc":
        import xarray

        with xarray.open_dataset(path, engine="scipy", decode_times=False) as dataset:
            dataset.load()
    elif kind == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.read_table(path)
    elif kind == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    elif kind in (".csv", ".html", ".svg", ".png"):
        end = {".csv": b"\n", ".html": b"</html>\n", ".svg": b"</svg>\n", ".png": b"IEND\xaeB`\x82"}[kind]
        assert path.read_bytes().endswith(end), f"{path} was cut short"
    else:
        assert kind == ".lock", f"{path} was left"


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hang(f"it took more than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


class Peak:
    """The most memory that this process had since `start`."""

    def start(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self._read("VmRSS")

    def taken(self) -> float:
        return self._read("VmHWM") - self.before

    @staticmethod
    def _read(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def judged(world: World, name: str, case: Callable[[], Any]) -> str | None:
    """What went wrong in a case, if anything did."""
    peak, wrong = Peak(), None
    world.enter(name)
    peak.start()
    try:
        with at_most(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("always")
            case()
    except (Exception, Hang):
        wrong = traceback.format_exc()
    if world.canary.exists():
        world.canary.unlink()
        wrong = "what a file held was executed"
    if peak.taken() > ALLOWED:
        wrong = f"it took {peak.taken() / 1e6:.0f} MB"
    world.leave()
    return wrong


def main(root: Path, seed: int, only: str | None) -> None:
    world, ends = World(root), Counter[str]()
    world.guard()
    world.enter("first")
    families = fuzzed_cases.families(world)
    world.leave()
    world.guarded = True
    for kind, (count, family) in families.items():
        for k in range(count):
            name = f"{kind}-{k}"
            if only in (None, kind, name):
                print(json.dumps({"begun": name}), file=sys.stderr, flush=True)  # for whoever wants to know where it died
                wrong = judged(world, name, lambda family=family, name=name: family(random.Random(f"{seed}-{name}")))
                ends[kind] += 1
                if wrong is not None:
                    print(json.dumps({"case": name, "wrong": wrong}), flush=True)
    print(json.dumps({"cases": ends, "compiled": world.compiled, "accepted": world.accepted}), flush=True)
    os._exit(0)  # without waiting for the threads of the server


if __name__ == "__main__":
    words = sys.argv[2:]
    main(Path(sys.argv[1]).resolve(), int(words[0]) if words else 19, words[1] if len(words) > 1 else None)
