"""Files written whole or not at all, and nothing left of those that were killed on the way."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows, where what is left of a killed process stays
    fcntl = None  # type: ignore[assignment]

# Longer endings are left out of temporary names, which must not be too long.
_LONGEST_ENDING = 16


@contextmanager
def whole_file(path: Path, what: str | None = None) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it does not.

    Of a link what it points to is replaced. What earlier writers of this file left when they were killed is removed. `what` is the file in
    a complaint.
    """
    try:
        target = _resolved(path)
        if target.exists() and not target.is_file():  # to put a file in the place of a device or a pipe would break what others do with it
            raise InputError(f"{what or path} can't be written: it is a directory, a pipe or a device.")
        _remove_abandoned(target)
        temporary, lock = _temporary(target, path.suffix)
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
            if lock is not None:
                os.close(lock)
    except OSError as error:
        raise InputError(f"{what or path} can't be written: {error.strerror or error}.") from None


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # links in a circle, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def _prefix(path: Path) -> str:
    """How the names of all temporary files for this one begin: hidden, and of the same length for all."""
    return f".spinodal-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}-"


def _temporary(path: Path, ending: str = "") -> tuple[Path, int | None]:
    """A new file for what will be `path`, and a lock on it that ends with this process; None where there are no locks.

    Its name ends as the user's does, which what it points to need not: some writers add an ending that they miss.
    """
    ending = ending if len(os.fsencode(ending)) <= _LONGEST_ENDING else ""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=ending)
        if fcntl is None:
            os.close(handle)
            return Path(name), None
        with suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.lexists(name):  # or else another process took it for abandoned before it was locked
            return Path(name), handle
        os.close(handle)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files for `path` that no process holds a lock on."""
    if fcntl is None:
        return
    with os.scandir(path.parent) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(_prefix(path))]
    for name in names:
        with suppress(OSError):  # it is locked, or has been renamed meanwhile, or is not ours
            handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name)
            finally:
                os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
