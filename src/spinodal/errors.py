"""Bad input is refused at the door: one sentence that names the argument, what was given and what is accepted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

# JAX draws from seeds of 63 bits.
LARGEST_SEED = 2**63 - 1
# Bytes that a file system takes for a name, characters of a value that a complaint repeats, bytes that every machine has.
_LONGEST_NAME, _REPEATED, _ALWAYS_THERE = 255, 120, 10**8

# The exit code of a command after Ctrl-C.
INTERRUPTED = 130


class InputError(ValueError):
    """An argument that can't be used; the message names it, what was given and what is accepted.

    Examples:
        >>> import spinodal as sp
        >>> sp.GaussBernoulli(rho=1.5)
        Traceback (most recent call last):
            ...
        spinodal.errors.InputError: rho must be a number in (0, 1), but 1.5 was given.
    """


def _is_concrete(value: Any) -> bool:
    """True for plain numbers and NumPy arrays; False for the tracers and placeholders that JAX passes through pytrees."""
    return isinstance(value, (bool, int, float, complex, str, list, tuple, np.ndarray, np.generic)) or value is None


def check(name: str, value: Any, low: float, high: float, *, low_open: bool = False, high_open: bool = False) -> None:
    """Refuse `value` unless it is a real number (or an array of them) in the interval from `low` to `high`."""
    if not _is_concrete(value):
        return
    interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number in {interval}, but {shown(value)} was given.") from None
    above = numbers > low if low_open else numbers >= low
    below = numbers < high if high_open else numbers <= high
    if isinstance(value, (bool, str)) or value is None or not np.all(above & below):
        given = value if np.ndim(numbers) == 0 else f"an array with {_first_bad(numbers, above & below)}"
        raise InputError(f"{name} must be a number in {interval}, but {given} was given.")


def _first_bad(numbers: np.ndarray, good: np.ndarray) -> float:
    return float(numbers[~good].flat[0])


def check_positive(name: str, value: Any) -> None:
    """Refuse anything but finite numbers above zero."""
    check(name, value, 0.0, np.inf, low_open=True, high_open=True)


def check_nonnegative(name: str, value: Any) -> None:
    """Refuse anything but finite numbers from zero up."""
    check(name, value, 0.0, np.inf, high_open=True)


def check_finite(name: str, value: Any) -> None:
    """Refuse NaN, infinities and what is not a number."""
    check(name, value, -np.inf, np.inf, low_open=True, high_open=True)


def check_choice(name: str, value: Any, accepted: tuple[str, ...]) -> None:
    """Refuse a word that is not one of `accepted`."""
    if value not in accepted:
        raise InputError(f"{name} must be one of {', '.join(accepted)}, but {shown(value)} was given.")


def check_count(name: str, value: Any, low: int = 1, high: int | None = None) -> None:
    """Refuse anything but a whole number of at least `low`, and of at most `high` if that is given."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low or (high is not None and value > high):
        accepted = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} must be a whole number {accepted}, but {shown(value)} was given.")


def check_seed(name: str, value: Any) -> None:
    """Refuse what is no seed."""
    check_count(name, value, 0, LARGEST_SEED)


def check_path(name: str, path: str | Path) -> None:
    """Refuse a path that no file can have: a name in it is too long, or it holds a zero byte."""
    for part in Path(path).parts:
        if len(os.fsencode(part)) > _LONGEST_NAME:
            raise InputError(f"{name} must have names of at most {_LONGEST_NAME} bytes, but {shown(str(path))} was given.")
    if "\0" in str(path):
        raise InputError(f"{name} must be a path without zero bytes, but {shown(str(path))} was given.")


def check_file(name: str, path: str | Path) -> None:
    """Refuse to read what is no plain file: a directory, nothing at all, or a pipe or device, which may never end."""
    check_path(name, path)
    if os.path.isdir(path):
        raise InputError(f"{name} must be a file, but {str(path)!r} is a directory.")
    if not os.path.exists(path):
        raise InputError(f"{name} must be a file, but there is no file {str(path)!r}.")
    if not os.path.isfile(path):
        raise InputError(f"{name} must be a file, but {str(path)!r} is a pipe or a device.")


def check_room(name: str, needed: int, given: str) -> None:
    """Refuse what needs more bytes than this machine has; `given` says what that is."""
    if needed > _ALWAYS_THERE and needed > (room := host_memory()):
        raise InputError(f"{name} must leave room in memory, but {given} needs about {gigabytes(needed)} and there are {gigabytes(room)}.")


def host_memory() -> float:
    """Bytes of memory of this machine, or of the part of it that this process may use."""
    try:
        room = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return float("inf")
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        room = room if limit == resource.RLIM_INFINITY else min(room, float(limit))
        return min(room, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (ImportError, ValueError, OSError):  # no such limits here, or "max"
        return room


def gigabytes(count: float) -> str:
    """A number of bytes in words."""
    return f"{count / 1e9:.3g} GB" if count < 1e15 else "more than 1e6 GB"


def shown(value: Any) -> str:
    """A value as a complaint repeats it: cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        return f"a very long {type(value).__name__}"
    return text if len(text) <= _REPEATED else f"{text[:_REPEATED]}..."


def printable(text: str) -> str:
    """Text for a terminal, in one line or several: control characters, and bytes that are no text, as backslashes and letters."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)
