"""Bad input is refused at the door: one sentence that names the argument, what was given and what is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np


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
        raise InputError(f"{name} must be a number in {interval}, but {value!r} was given.") from None
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
        raise InputError(f"{name} must be one of {', '.join(accepted)}, but {value!r} was given.")


def check_count(name: str, value: Any, low: int = 1) -> None:
    """Refuse anything but a whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(f"{name} must be a whole number of at least {low}, but {value!r} was given.")
