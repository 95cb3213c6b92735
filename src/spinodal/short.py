"""Results in a line: numbers as they are, arrays by their shapes."""

from __future__ import annotations

from typing import Any

# Arrays of up to so many numbers are printed whole.
_FEW = 4


def in_short(value: Any) -> str:
    """A tuple with named fields as Python writes it, but with large arrays as `array(20 x 400)`."""
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}({', '.join(f'{name}={_field(getattr(value, name))}' for name in value._fields)})"
    return _field(value)


def _field(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not shape or getattr(value, "size", 0) <= _FEW:
        return repr(value)
    return f"array({' x '.join(map(str, shape))})"
