"""The ledger of a sweep: one SQLite file. A batch is in it whole or not at all, also after a power cut.

A plain rollback journal with full syncs, no write-ahead log: that needs shared memory, which network file systems of clusters lack. Only
the process that leads the sweep writes; a second one is refused. The lock is a transaction held open on a file of its own, so that it goes
when its process goes, however that ends, and readers of the ledger never wait for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError
from .compute import FAILED, RESULTS, Done

LEDGER, LOCK = "ledger.sqlite", "ledger.lock"
# Marks the file as ours ("Spin"), and the layout of its tables.
_APPLICATION, _LAYOUT = 0x5370696E, 1
# Seconds to wait for another reader or writer.
_PATIENCE = 30.0
_COLUMNS = ", ".join(f"{name} REAL" for name in RESULTS)
_TABLES = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (run INTEGER PRIMARY KEY, started REAL NOT NULL, executor TEXT NOT NULL, machine TEXT NOT NULL);
CREATE TABLE attempts (batch INTEGER NOT NULL, run INTEGER NOT NULL REFERENCES runs, started REAL NOT NULL);
CREATE TABLE batches (batch INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs, finished REAL NOT NULL, seconds REAL NOT NULL,
                      machine TEXT NOT NULL);
CREATE TABLE points (id TEXT PRIMARY KEY, batch INTEGER NOT NULL REFERENCES batches, status TEXT NOT NULL, error TEXT, {_COLUMNS});
"""


class Ledger:
    """An open ledger. Made by `create` and `open_ledger`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path

    def close(self) -> None:
        self._connection.close()

    def about(self) -> dict[str, str]:
        """What the ledger was made for: the text and name of the spec, the hash of its plan, the version."""
        with _explained(self.path):
            return dict(self._connection.execute("SELECT name, value FROM about"))

    def begin_run(self, executor: str, machine: str) -> int:
        """A new run that adds to the ledger."""
        with _explained(self.path), self._connection:
            row = self._connection.execute(
                "INSERT INTO runs (started, executor, machine) VALUES (?, ?, ?)", (time.time(), executor, machine)
            )
            assert row.lastrowid is not None
            return row.lastrowid

    def attempt(self, run: int, batches: list[int]) -> None:
        """Note that batches are being handed out."""
        now = time.time()
        with _explained(self.path), self._connection:
            self._connection.executemany("INSERT INTO attempts VALUES (?, ?, ?)", [(batch, run, now) for batch in batches])

    def commit(self, run: int, done: Done) -> None:
        """A finished batch, in one transaction that is on the disk when this returns."""
        marks = ", ".join("?" * (4 + len(RESULTS)))
        with _explained(self.path), self._connection:
            self._connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?)", (done.number, run, time.time(), done.seconds, done.machine)
            )
            self._connection.executemany(
                f"INSERT INTO points VALUES ({marks})", [(row.id, done.number, row.status, row.error, *row.values) for row in done.rows]
            )

    def forget_failed(self) -> int:
        """Take the batches with failed points out, to be computed again; how many."""
        failed = "(SELECT DISTINCT batch FROM points WHERE status = ?)"
        with _explained(self.path), self._connection:
            numbers = [row[0] for row in self._connection.execute(f"SELECT batch FROM batches WHERE batch IN {failed}", (FAILED,))]
            self._connection.executemany("DELETE FROM points WHERE batch = ?", [(number,) for number in numbers])
            self._connection.executemany("DELETE FROM batches WHERE batch = ?", [(number,) for number in numbers])
        return len(numbers)

    def finished(self) -> set[int]:
        """The batches that are in the ledger."""
        with _explained(self.path):
            return {row[0] for row in self._connection.execute("SELECT batch FROM batches")}

    def rows(self, table: str = "points", order: str = "id") -> list[dict[str, Any]]:
        """A whole table, as dictionaries."""
        with _explained(self.path):
            cursor = self._connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]


def create(directory: Path, about: dict[str, str]) -> Ledger:
    """A new ledger in a directory that has none. It appears whole: until the tables are committed there is no file of its name."""
    path = directory / LEDGER
    fresh = directory / f".{LEDGER}.new"
    fresh.unlink(missing_ok=True)
    with _explained(path):
        connection = sqlite3.connect(fresh, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(
            f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_LAYOUT}; BEGIN; {_TABLES} COMMIT;",
        )
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO about VALUES (?, ?)", sorted(about.items()))
        connection.execute("COMMIT")
        connection.close()
        fresh.replace(path)
    return open_ledger(directory)


def open_ledger(directory: Path, *, read_only: bool = False) -> Ledger:
    """The ledger of a directory. One that is missing, damaged, or not ours is refused and left as it is."""
    path = directory / LEDGER
    if not path.is_file():
        raise InputError(f"out must be the directory of a sweep, but there is no {LEDGER} in {str(directory)!r}.")
    with _explained(path):
        mode = "ro" if read_only else "rw"
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=_PATIENCE)
        try:
            marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if marks[0] != _APPLICATION:
                raise InputError(f"{path} must be the ledger of a sweep, but it is some other database; it was left as it is.")
            if marks[1] != _LAYOUT:
                raise InputError(f"{path} must have the layout {_LAYOUT}, but it has {marks[1]}: another version of Spinodal wrote it.")
            sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return Ledger(connection, path)


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Be the only run on a ledger, or be refused."""
    path = directory / LOCK
    with _explained(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        with _explained(path):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_LOCKED"):
                    raise
                raise InputError(
                    f"out must not be in use, but another run is adding to the ledger in {str(directory)!r}; wait for it, or stop it."
                ) from None
        yield
    finally:
        connection.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What SQLite and the disk complain of, as one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if isinstance(error, sqlite3.OperationalError) and name not in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            raise InputError(f"{path} can't be used: {error}; what was committed before is in it, and nothing else.") from None
        raise InputError(f"{path} must be a sound ledger, but it is damaged ({error}); it was left as it is.") from None
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror or error}.") from None
