"""Words of the command line into numbers, with one-sentence complaints."""

from __future__ import annotations

from ..errors import InputError, check_count, shown

# A grid from the command line is refused beyond this many points.
_LONGEST_GRID = 10_000


def number(name: str, text: str) -> float:
    """A real number; "inf" is allowed."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, but {shown(text)} was given.") from None
    if value != value:
        raise InputError(f"{name} must be a number, but {shown(text)} was given.")
    return value


def numbers(name: str, text: str) -> list[float]:
    """Numbers separated by commas, like 0.01,1,inf."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{name} must be numbers separated by commas, but {shown(text)} was given.")
    check_count(f"the count of {name}", len(parts), 1, _LONGEST_GRID)
    return [number(name, part) for part in parts]


def counts(name: str, text: str) -> list[int]:
    """Different whole numbers of at least 1 separated by commas, like 32,48,64, in order."""
    try:
        values = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise InputError(f"{name} must be a whole number, or several separated by commas, but {shown(text)} was given.") from None
    for value in values:
        check_count(name, value)
    return values


def grid(name: str, text: str) -> list[float]:
    """N evenly spaced numbers from LO to HI, written LO:HI:N; or plain numbers separated by commas."""
    if ":" not in text:
        return numbers(name, text)
    complaint = InputError(f"{name} must be LO:HI:N with LO < HI and a whole N from 2 to {_LONGEST_GRID}, but {shown(text)} was given.")
    parts = text.split(":")
    if len(parts) != 3:
        raise complaint
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
    except ValueError:
        raise complaint from None
    if not (float("-inf") < low < high < float("inf") and 2 <= count <= _LONGEST_GRID):
        raise complaint
    return [low + (high - low) * k / (count - 1) for k in range(count)]
