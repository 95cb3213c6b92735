"""The ledger of a sweep: one SQLite file. A batch is in it whole or not at all, also after a power cut.

A plain rollback journal with full syncs, no write-ahead log: that needs shared memory, which network file systems of clusters lack. Only
the process that leads the sweep writes; a second one is refused. The lock is a transaction held open on a file of its own, so that it goes
when its process goes, however that ends, and readers of the ledger never wait for it.

Each row ends with a checksum of its content, since SQLite checks how its pages hang together but not what is in them. There are no indexes,
which would be second copies of what they index: a row is whatever the table says, and its checksum tells whether to believe it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from .compute import RESULTS, Done

LEDGER, LOCK = "ledger.sqlite", "ledger.lock"
# Marks the file as ours ("Spin"), and the layout of its tables.
_APPLICATION, _LAYOUT = 0x5370696E, 2
# Seconds to wait for another reader or writer.
_PATIENCE = 30.0
# Hexadecimal digits of a row's checksum.
_DIGITS = 16
_COLUMNS = ", ".join(f"{name} REAL" for name in RESULTS)
_TABLES = {
    "about": "name TEXT NOT NULL, value TEXT NOT NULL",
    "runs": "run INTEGER PRIMARY KEY, started REAL NOT NULL, executor TEXT NOT NULL, machine TEXT NOT NULL",
    "attempts": "batch INTEGER NOT NULL, run INTEGER NOT NULL, started REAL NOT NULL",
    "batches": "batch INTEGER PRIMARY KEY, run INTEGER NOT NULL, finished REAL NOT NULL, seconds REAL NOT NULL, machine TEXT NOT NULL",
    "points": f"id TEXT NOT NULL, batch INTEGER NOT NULL, status TEXT NOT NULL, error TEXT, {_COLUMNS}",
}
_TYPES = {name: columns.split(", ") for name, columns in _TABLES.items()}
_SCHEMA = [f"CREATE TABLE {name} ({columns}, checksum TEXT NOT NULL)" for name, columns in _TABLES.items()]
# What a ledger says about itself.
_ABOUT = ("spec", "name", "digest", "version")


class Rows(NamedTuple):
    """A table as it was read: rows whose checksum holds, by their place in the table, and those whose checksum fails."""

    sound: dict[int, dict[str, Any]]
    damaged: dict[int, dict[str, Any]]


class Ledger:
    """An open ledger. Made by `create` and `open_ledger`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path

    def close(self) -> None:
        self._connection.close()

    def about(self) -> dict[str, str]:
        """What the ledger was made for: the text and name of the spec, the hash of its plan, the version."""
        found = {row["name"]: row["value"] for row in self.rows("about").sound.values()}
        if sorted(found) != sorted(_ABOUT):
            raise InputError(f"{self.path} must be a sound ledger, but what it says about its sweep is damaged; it was left as it is.")
        return found

    def begin_run(self, executor: str, machine: str) -> int:
        """A new run that adds to the ledger."""
        with _explained(self.path), self._connection:
            run: int = self._connection.execute("SELECT COALESCE(MAX(run), 0) + 1 FROM runs").fetchone()[0]
            _insert(self._connection, "runs", [(run, time.time(), executor, machine)])
        return run

    def attempt(self, run: int, batches: list[int]) -> None:
        """Note that batches are being handed out."""
        now = time.time()
        with _explained(self.path), self._connection:
            _insert(self._connection, "attempts", [(batch, run, now) for batch in batches])

    def commit(self, run: int, done: Done) -> None:
        """A finished batch, in one transaction that is on the disk when this returns."""
        with _explained(self.path), self._connection:
            _insert(self._connection, "batches", [(done.number, run, time.time(), done.seconds, done.machine)])
            _insert(self._connection, "points", [(row.id, done.number, row.status, row.error, *row.values) for row in done.rows])

    def forget(self, places: Mapping[str, Sequence[int]]) -> None:
        """Take rows out, by table and place, in one transaction."""
        with _explained(self.path), self._connection:
            for table, some in places.items():
                self._connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(place,) for place in some])

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is read here is the ledger of one moment, whoever adds to it."""
        with _explained(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    def rows(self, table: str) -> Rows:
        """A whole table, each row checked."""
        sound: dict[int, dict[str, Any]] = {}
        damaged: dict[int, dict[str, Any]] = {}
        with _explained(self.path):
            cursor = self._connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid")
            names = [column[0] for column in cursor.description[1:-1]]
            for place, *values, checksum in cursor:
                kind = sound if checksum == _checksum(table, values) and _fits(table, values) else damaged
                kind[place] = dict(zip(names, values, strict=True))
        return Rows(sound, damaged)


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Add rows with their checksums."""
    stored = [[_as_stored(value) for value in row] for row in rows]
    if not stored:  # nothing to be noted, for which there is no statement
        return
    marks = ", ".join("?" * (len(stored[0]) + 1))
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [[*row, _checksum(table, row)] for row in stored])


def _as_stored(value: Any) -> Any:
    """A value as SQLite gives it back: a plain one, and neither NaN nor negative zero."""
    if isinstance(value, float):
        return None if value != value else float(value) + 0.0
    return str(value) if isinstance(value, str) else value


def _checksum(table: str, values: Sequence[Any]) -> str:
    """A digest of a row. `repr` keeps every bit of a number, and tells numbers, text and bytes apart."""
    return hashlib.sha256(repr((table, *values)).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _fits(table: str, values: Sequence[Any]) -> bool:
    """Whether values are of the types that the table says: SQLite keeps what it is given, and anyone can write a checksum."""
    return all(_is_of(type, value) for type, value in zip(_TYPES[table], values, strict=True))


def _is_of(type: str, value: Any) -> bool:
    if value is None:
        return "NOT NULL" not in type and "PRIMARY KEY" not in type
    if not isinstance(value, str):
        return isinstance(value, float if "REAL" in type else int if "INTEGER" in type else str)
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes that are no text
        return False
    return "TEXT" in type


def _lenient(text: bytes) -> str:
    """Text that is no longer UTF-8 is read nevertheless: its checksum tells."""
    return text.decode("utf-8", "surrogateescape")


def create(directory: Path, about: dict[str, str]) -> Ledger:
    """A new ledger in a directory that has none. It appears whole: until the tables are committed there is no file of its name."""
    path = directory / LEDGER
    fresh = directory / f".{LEDGER}.new"
    fresh.unlink(missing_ok=True)
    with _explained(path):
        try:
            with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.executescript(
                    f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_LAYOUT}; BEGIN; {'; '.join(_SCHEMA)}; COMMIT;",
                )
                connection.execute("BEGIN")
                _insert(connection, "about", sorted(about.items()))
                connection.execute("COMMIT")
            fresh.replace(path)
        finally:  # SQLite's journal is beside it where the disk was full
            for left in (fresh, fresh.with_name(f"{fresh.name}-journal")):
                left.unlink(missing_ok=True)
    return open_ledger(directory)


def open_ledger(directory: Path, *, read_only: bool = False) -> Ledger:
    """The ledger of a directory. One that is missing, damaged, or not ours is refused and left as it is."""
    path = directory / LEDGER
    if not path.is_file():
        raise InputError(f"out must be the directory of a sweep, but there is no {LEDGER} in {str(directory)!r}.")
    with _explained(path):
        # A reader too opens it for writing, where the disk allows: whoever comes first after a kill takes back what was half-written.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=_PATIENCE)
        connection.text_factory = _lenient
        try:
            connection.execute(f"PRAGMA query_only = {int(read_only)}")
            marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if marks[0] != _APPLICATION:
                raise InputError(f"{path} must be the ledger of a sweep, but it is some other database; it was left as it is.")
            if marks[1] != _LAYOUT:
                raise InputError(f"{path} must have the layout {_LAYOUT}, but it has {marks[1]}: another version of Spinodal wrote it.")
            sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            if [row[0] for row in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")] != _SCHEMA:
                raise sqlite3.DatabaseError("its tables are not those of a ledger")
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
    except UnicodeDecodeError:  # SQLite quotes the damage when it complains
        raise InputError(f"{path} must be a sound ledger, but it is damaged; it was left as it is.") from None
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror or error}.") from None
