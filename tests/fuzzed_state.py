"""Cases of fuzzing.py: what Spinodal wrote itself, spoiled since, and disks that are full."""

from __future__ import annotations

import contextlib
import io
import json
import random
import resource
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp
from fuzzed_shared import HINTED, LONGER, SPEC, SWEEP, VOTING, Family, M, saved, write_measurements
from mutations import spoiled_bytes, spoiled_npz, spoiled_value
from spinodal.errors import InputError
from spinodal.inference.execution.checkpoint import Checkpoint
from spinodal.sweeps.ledger import LEDGER, _checksum


def checkpoints(world: Any) -> Family:
    alone, compared = (
        ("solve", "in.npz", *options, "--checkpoint", "state.npz", "--out", "solution.npz", "--lenient") for options in (LONGER, VOTING)
    )
    known = [interrupted(world, alone, 4), interrupted(world, compared, 30)]

    def case(rng: random.Random) -> None:
        forged = rng.random() < 0.6
        words, state, whole = rng.choice(known)
        content = spoiled_npz(rng, state, world.canary) if forged else spoiled_bytes(rng, state)
        write_measurements()
        Path("state.npz").write_bytes(content)
        done = world.command(*words)
        if done.code == 2:
            assert "checkpoint" in done.err, done.err
            assert Path("state.npz").read_bytes() == content, "the file was changed"
        elif not forged:
            np.testing.assert_equal(arrays_of(Path("solution.npz")), whole)

    return case


def interrupted(world: Any, words: tuple[str, ...], saves: int) -> tuple[tuple[str, ...], bytes, dict[str, np.ndarray]]:
    """A command, the state that it leaves if it is interrupted after so many are saved, and the arrays that it ends with."""
    write_measurements()
    offer, left = Checkpoint.offer, [saves]

    def counted(self: Checkpoint, *arguments: Any) -> None:
        offer(self, *arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    Checkpoint.offer = counted  # type: ignore[method-assign]
    assert world.run(*words).code == 130
    Checkpoint.offer = offer  # type: ignore[method-assign]
    state = Path("state.npz").read_bytes()
    assert world.run(*words).code == 0
    whole = arrays_of(Path("solution.npz"))
    for path in ("state.npz", "solution.npz"):
        Path(path).unlink()
    return words, state, whole


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "parameters"}  # which say how long it took


def models(world: Any) -> Family:
    rows = np.random.default_rng(1).normal(size=(20, M))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sound = sp.DictionaryLearner(3, max_iter=0, refine_iter=2, random_state=0).fit(rows)
    sound.save("model.npz")
    content, codes = Path("model.npz").read_bytes(), sound.transform(rows)

    def with_header(rng: random.Random) -> bytes:
        with np.load(io.BytesIO(content)) as file:
            arrays = {name: file[name] for name in file.files}
        header = spoiled_value(rng, json.loads(str(arrays.pop("header"))))
        return saved(lambda file: np.savez(file, header=np.asarray(json.dumps(header)), **arrays))

    def case(rng: random.Random) -> None:
        kind = rng.randrange(3)
        Path("model.npz").write_bytes(
            (spoiled_bytes(rng, content), spoiled_npz(rng, content, world.canary), with_header(rng))[kind]  # each draws, one is kept
        )
        try:
            model = sp.DictionaryLearner.load("model.npz")
        except InputError as error:
            refusal = str(error)
        else:
            refusal = ""
        if refusal:
            assert refusal.startswith("path must be a file written by DictionaryLearner.save, but "), refusal
            assert "\n" not in refusal
            assert len(refusal) < 1000, f"a sentence of {len(refusal)} characters"
            return
        found = model.transform(rows)
        assert found.shape == (20, len(model.components_))
        if kind == 0:
            np.testing.assert_array_equal(found, codes)
        model.save("again.npz")
        np.testing.assert_array_equal(sp.DictionaryLearner.load("again.npz").transform(rows), found)
        assert repr(model)

    return case


def ledgers(world: Any) -> Family:
    Path("s.toml").write_text(SPEC)
    assert world.run("sweep", "run", "s.toml", "--out", "sound", *SWEEP).code == 0
    content = (Path("sound") / LEDGER).read_bytes()
    statements = (
        "CREATE VIEW more AS SELECT * FROM points",
        "CREATE TRIGGER more AFTER INSERT ON points BEGIN DELETE FROM batches; END",
        "DROP TABLE attempts",
        "PRAGMA user_version = 99",
        "ALTER TABLE points ADD COLUMN more TEXT",
        "INSERT INTO points SELECT * FROM points",
        "DELETE FROM runs",
    )

    def forge(rng: random.Random, path: Path) -> None:
        connection = sqlite3.connect(path)
        with connection:
            if rng.random() < 0.3:
                connection.execute(rng.choice(statements))
            table = rng.choice([name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")])
            row = connection.execute(f"SELECT rowid, * FROM {table}").fetchone() if rng.random() < 0.8 else None
            if row is not None:
                names = [each[1] for each in connection.execute(f"PRAGMA table_info({table})")]
                values = list(row[1:])
                place = rng.randrange(len(values))
                values[place] = rng.choice([None, "", "x" * 5000, 1e308, -1, 2**62, b"\x00\xff", 0.5, "\x1b[31m", float("inf")])
                if rng.random() < 0.5:  # with a checksum that is right
                    values[names.index("checksum")] = _checksum(table, values[: names.index("checksum")])
                with contextlib.suppress(sqlite3.IntegrityError):  # of what the table itself refuses
                    marks = ", ".join("?" * len(names))
                    connection.execute(f"UPDATE {table} SET ({', '.join(names)}) = ({marks}) WHERE rowid = ?", [*values, row[0]])
        connection.close()

    def case(rng: random.Random) -> None:
        ledger = Path("out", LEDGER)
        ledger.parent.mkdir()
        ledger.write_bytes(content)
        if rng.random() < 0.5:
            ledger.write_bytes(spoiled_bytes(rng, content))
        else:
            forge(rng, ledger)
        words = rng.choice([("status",), ("export", "x.csv"), ("export", "x.nc"), ("export", "x.parquet"), ("resume",), ("figure",)])
        end = {"export": ("--out", words[-1]), "resume": SWEEP, "figure": ("--y", "eta", "--value", "mse_X")}.get(words[0], ())
        world.command("sweep", words[0], "out", *end)

    return case


def disks(world: Any) -> Family:
    """Commands that are sound, on a disk that takes no file beyond a size."""
    point = ("--alpha", "0.5", "--pi", "2", "--rho", "0.2", "--eta", "1", "--noise-variance", "0.01")
    known = (
        ("sample", *point, "--n", "6", "--out", "instance.npz"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.npz", "--report", "report.html", "--lenient"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.csv", "--lenient"),
        ("solve", "in.npz", *LONGER, "--checkpoint", "state.npz", "--out", "solution.npz", "--lenient"),
        ("sweep", "run", "sweep.toml", "--out", "out", *SWEEP),
        ("sweep", "export", "sound", "--out", "x.csv"),
    )
    for words in known[:-2]:
        world.run(*words)
    sound = Path("sound", LEDGER).read_bytes()

    def case(rng: random.Random) -> None:
        write_measurements()
        Path("sweep.toml").write_text(SPEC)
        Path("sound").mkdir()
        Path("sound", LEDGER).write_bytes(sound)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (rng.choice((0, 1, 100, 1000, 5000, 20_000, 100_000)), limits[1]))
        try:
            world.command(*rng.choice(known), before_work=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return case
