"""Damaged ledgers: no bit of the file can change a result without a word."""

from __future__ import annotations

import random
import resource
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from conftest import Done
from spinodal.errors import InputError
from spinodal.sweeps import InProcess, dataset, parse_spec, resume_sweep, run_sweep, standing, table
from spinodal.sweeps.ledger import LEDGER, _checksum, create, open_ledger
from tiny_sweep import POINTS, TINY

CAST = "CAST(? AS TEXT)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    run_sweep(parse_spec(TINY), directory, InProcess(1))
    return directory


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the sweep, to be damaged."""
    directory = tmp_path / "copy"
    directory.mkdir()
    (directory / LEDGER).write_bytes((whole / LEDGER).read_bytes())
    return directory


def change(directory: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(directory / LEDGER)
    with connection:
        connection.execute(statement, values)
    connection.close()


def what_a_damaged_ledger_does(directory: Path, expected: pandas.DataFrame) -> str:
    """Export it, resume it and export it again: how it ended. Anything but an equal table, a refusal or a recomputed point fails."""
    said: list[str] = []
    try:
        seen = table(directory, said.append)
    except InputError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert len(refusal.splitlines()) == 1
        assert LEDGER in refusal
        return "refused"
    missing = seen.status == "missing"
    pandas.testing.assert_frame_equal(seen[~missing], expected[~missing])
    provenance = {name: value for name, value in seen.attrs.items() if name not in ("seconds", "executors", "machines")}
    assert provenance.items() <= expected.attrs.items()
    if seen.attrs == expected.attrs and not missing.any():
        return "harmless"
    assert len(said) == 1
    assert len(said[0].splitlines()) == 1
    with pytest.warns(UserWarning, match="damaged"):
        assert resume_sweep(directory, InProcess(1)).finished == POINTS
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is damaged any more
        pandas.testing.assert_frame_equal(table(directory), expected)
    return "computed again"


def test_no_flipped_bit_changes_a_result(whole: Path, copy: Path) -> None:
    content, expected = (whole / LEDGER).read_bytes(), table(whole)
    rng, ends = random.Random(19), Counter[str]()
    for _ in range(70):
        damaged, place = bytearray(content), rng.randrange(8 * len(content))
        damaged[place // 8] ^= 1 << place % 8
        (copy / LEDGER).write_bytes(damaged)
        ends[what_a_damaged_ledger_does(copy, expected)] += 1
    assert ends["computed again"] >= 10


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("UPDATE points SET mse_X = mse_X * 2 WHERE rowid = 3", 1),
        ("UPDATE points SET mse_X = 'much' WHERE rowid = 3", 1),
        ("UPDATE points SET id = CAST(id AS BLOB) WHERE rowid = 3", 1),
        ("UPDATE points SET id = CAST(x'FF' AS TEXT) WHERE rowid = 3", 1),
        ("UPDATE points SET batch = 1 WHERE rowid = 1", 1),
        ("DELETE FROM points WHERE rowid = 7", 1),
        ("DELETE FROM batches WHERE batch = 2", 2),
        ("UPDATE batches SET machine = 'another' WHERE batch = 2", 2),
        ("DELETE FROM points", POINTS),
    ],
)
def test_rows_that_were_changed_or_deleted_are_computed_again(whole: Path, copy: Path, statement: str, lost: int) -> None:
    change(copy, statement)
    said: list[str] = []
    assert standing(copy, said.append).finished == POINTS - lost
    if lost:
        assert said == [
            f"{copy / LEDGER} has damaged or missing rows: {lost} of its points must be computed again, by `spinodal sweep resume`."
        ]
    assert what_a_damaged_ledger_does(copy, table(whole)) == ("computed again" if lost else "harmless")


def test_a_damaged_record_of_a_run_costs_no_point(copy: Path) -> None:
    change(copy, "UPDATE runs SET executor = 'nobody'")
    with pytest.warns(UserWarning, match="damaged rows about its runs, which were left out; the results of all points are sound"):
        data = dataset(copy)
    assert data.attrs["executors"] == "[]"
    assert standing(copy, print).finished == POINTS


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE about SET value = value || ' ' WHERE name = 'spec'",
        "DELETE FROM about WHERE name = 'digest'",
        "ALTER TABLE points RENAME COLUMN mse_X TO mse_Z",
        "CREATE TRIGGER more AFTER DELETE ON points BEGIN DELETE FROM batches; END",
        "DROP TABLE runs",
    ],
)
def test_a_ledger_that_does_not_know_its_sweep_is_refused(copy: Path, statement: str) -> None:
    change(copy, statement)
    was = (copy / LEDGER).read_bytes()
    for use in (standing, table, lambda where: resume_sweep(where, InProcess(1))):
        with pytest.raises(InputError, match="must be a sound ledger, but"):
            use(copy)
    assert (copy / LEDGER).read_bytes() == was


def test_a_forged_row_with_a_checksum_is_no_result(copy: Path) -> None:
    """The checksum is no secret: what no solve could have left is computed again."""
    with sqlite3.connect(copy / LEDGER) as connection:
        place, *row, _ = connection.execute("SELECT rowid, * FROM points").fetchone()
    row[2] = "triumphant"
    change(copy, "UPDATE points SET status = ?, checksum = ? WHERE rowid = ?", row[2], _checksum("points", row), place)
    assert standing(copy, print).finished == POINTS - 1


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("batches", 3, b"\x00"), ("batches", 4, 7), ("runs", 2, None), ("points", 3, "\udcff"), ("points", 5, 3), ("attempts", 2, "soon")],
)
def test_a_forged_row_of_other_types_is_damaged(copy: Path, table: str, column: int, value: Any) -> None:
    """Such a row can have its checksum, and be nothing that anyone can count with."""
    ledger = open_ledger(copy)
    place, row = next(iter(ledger.rows(table).sound.items()))
    values = list(row.values())
    values[column] = value
    assert len(ledger.rows(table).damaged) == 0
    ledger.close()
    given = CAST if isinstance(value, str) and not value.isascii() else "?"
    stored = value.encode("utf-8", "surrogateescape") if given == CAST else value
    try:
        change(
            copy, f"UPDATE {table} SET {list(row)[column]} = {given}, checksum = ? WHERE rowid = ?", stored, _checksum(table, values), place
        )
    except sqlite3.IntegrityError:
        return  # SQLite itself refuses it
    ledger = open_ledger(copy, read_only=True)
    assert list(ledger.rows(table).damaged) == [place]
    ledger.close()


def test_a_full_disk_leaves_no_part_of_a_new_ledger(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(InputError, match="can't be used"):
            create(tmp_path, {"spec": "", "name": "", "digest": "", "version": ""})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_says_what_is_damaged_in_one_line(copy: Path, spinodal_command: Callable[..., Done]) -> None:
    change(copy, "UPDATE points SET mse_X = 0 WHERE rowid = 3")
    for words in (("status", str(copy)), ("export", str(copy), "--out", "a.csv"), ("export", str(copy), "--out", "a.nc")):
        done = spinodal_command("sweep", *words)
        assert done.code == 0
        assert "1 of its points must be computed again" in done.err
        assert len(done.err.splitlines()) == 1
    done = spinodal_command("sweep", "resume", str(copy), "--workers", "1")
    assert done.code == 0
    assert "1 of its points must be computed again" in done.err
    assert spinodal_command("sweep", "status", str(copy)).err == ""


def test_nothing_to_note_is_no_fault(tmp_path: Path) -> None:
    """Workers that have nothing to do yet ask for no batch."""
    ledger = create(tmp_path, {"spec": "", "name": "", "digest": "", "version": ""})
    try:
        ledger.attempt(ledger.begin_run("nobody", ""), [])
    finally:
        ledger.close()


def test_who_only_reads_takes_back_what_a_killed_run_half_wrote(whole: Path, tmp_path: Path) -> None:
    """Files as a kill in the middle of a commit leaves them: some pages of the new rows in the ledger, the old ones in the journal."""
    killed, source = tmp_path / "killed", tmp_path / "source"
    for directory in (killed, source):
        directory.mkdir()
    (source / LEDGER).write_bytes((whole / LEDGER).read_bytes())
    connection = sqlite3.connect(source / LEDGER, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")  # pages go to the disk before the commit
    connection.execute("BEGIN")
    connection.execute("DELETE FROM points")
    connection.executemany("INSERT INTO attempts VALUES (?, 1, 0.0, 'x')", [(number,) for number in range(2000)])
    for name in (LEDGER, f"{LEDGER}-journal"):
        (killed / name).write_bytes((source / name).read_bytes())
    connection.close()
    assert (killed / LEDGER).read_bytes() != (whole / LEDGER).read_bytes()
    assert standing(killed).finished == POINTS
    pandas.testing.assert_frame_equal(table(killed), table(whole))
    assert not (killed / f"{LEDGER}-journal").exists()
    with pytest.raises(InputError, match="readonly"):
        open_ledger(killed, read_only=True).begin_run("none", "none")
